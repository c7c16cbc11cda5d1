"""From a recipe to a trained model in a run folder."""

from glassformer.training.config import TrainConfig as TrainConfig
from glassformer.training.loop import train as train
from glassformer.training.recipe import Recipe as Recipe
