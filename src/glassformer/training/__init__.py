"""From a recipe to a trained model in a run folder."""

from glassformer.training.loop import train as train
