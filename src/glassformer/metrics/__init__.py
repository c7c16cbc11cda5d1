"""One definition of every score: of predicted tokens, written text, spans and classes.

Knows: counts and what was counted. Does not know: models, files.
"""

from glassformer.metrics.language import LanguageModelScore as LanguageModelScore
from glassformer.metrics.writing import exact_match as exact_match
from glassformer.metrics.writing import translation_scores as translation_scores
