"""Logits to choices: pure transforms, one engine that decodes, beams, stop conditions, text to
text, scoring."""

from glassformer.generate.beam import beam_search as beam_search
from glassformer.generate.beam import beam_steps as beam_steps
from glassformer.generate.beams import Hypothesis as Hypothesis
from glassformer.generate.config import GenerateConfig as GenerateConfig
from glassformer.generate.decode import Step as Step
from glassformer.generate.decode import decode as decode
from glassformer.generate.draw import draw as draw
from glassformer.generate.gradually import Steps as Steps
from glassformer.generate.gradually import finish as finish
from glassformer.generate.score import forced as forced
from glassformer.generate.score import score as score
from glassformer.generate.stages import stages as stages
from glassformer.generate.text import Generated as Generated
from glassformer.generate.text import answer as answer
from glassformer.generate.text import answer_steps as answer_steps
from glassformer.generate.text import generate as generate
from glassformer.generate.text import stream as stream
from glassformer.generate.transduce import Transduction as Transduction
from glassformer.generate.transduce import score_pairs as score_pairs
from glassformer.generate.transduce import transduce as transduce
from glassformer.generate.transduce import transduce_steps as transduce_steps
from glassformer.generate.watch import Choice as Choice
from glassformer.generate.watch import Watch as Watch
