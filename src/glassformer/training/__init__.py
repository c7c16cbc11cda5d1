"""From a recipe to a trained model in a run folder."""

from glassformer.training.loop.train import train as train
