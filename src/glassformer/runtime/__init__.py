"""Computation without gradients: one pool of keys and values, one engine, and the
ways to choose tokens."""

from glassformer.runtime.config import GenerateConfig as GenerateConfig
from glassformer.runtime.decode import Step as Step
from glassformer.runtime.decode import beam_search as beam_search
from glassformer.runtime.decode import decode as decode
from glassformer.runtime.hypotheses import Hypothesis as Hypothesis
from glassformer.runtime.sampling import stages as stages
from glassformer.runtime.trace import Choice as Choice
from glassformer.runtime.trace import Watch as Watch
