"""A trained model, opened for use: `load` and `train` give a `Run`."""

from glassformer.run.folder import load as load
from glassformer.run.folder import train as train
from glassformer.run.run import Run as Run
from glassformer.tasks.predictors.score import TokenScore as TokenScore
