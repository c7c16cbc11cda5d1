"""Models built from layers by a configuration: encoder, decoder, encoder-decoder; presets.

config = models.presets.gpt2("small"); model = models.Transformer(config)
"""

from glassformer.models import presets as presets
from glassformer.models.config import ModelConfig as ModelConfig
from glassformer.models.transformer import Output as Output
from glassformer.models.transformer import Transformer as Transformer
