"""From a recipe to a trained model in a run folder."""

from glassformer.train.config import TrainConfig as TrainConfig
from glassformer.train.loop import train as train
from glassformer.train.recipe import Recipe as Recipe
