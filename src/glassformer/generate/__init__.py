"""Logits to choices: pure transforms, one decoding loop that yields, stop conditions, text in and out, scoring.

Knows: models and tokenizers. Does not know: training, files, servers.
"""

from glassformer.generate.config import GenerateConfig as GenerateConfig
from glassformer.generate.decode import Step as Step
from glassformer.generate.decode import decode as decode
from glassformer.generate.score import score as score
from glassformer.generate.text import Generated as Generated
from glassformer.generate.text import generate as generate
from glassformer.generate.text import stream as stream
