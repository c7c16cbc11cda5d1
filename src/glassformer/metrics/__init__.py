"""One definition of every score: of predicted tokens, written text, spans and classes."""

from glassformer.metrics.classes import Calibration as Calibration
from glassformer.metrics.classes import ClassScore as ClassScore
from glassformer.metrics.classes import Confusion as Confusion
from glassformer.metrics.classes import MultiLabelScore as MultiLabelScore
from glassformer.metrics.classes import TagScore as TagScore
from glassformer.metrics.f1 import Counts as Counts
from glassformer.metrics.language import LanguageModelScore as LanguageModelScore
from glassformer.metrics.spans import SCHEMES as SCHEMES
from glassformer.metrics.spans import Scheme as Scheme
from glassformer.metrics.spans import Span as Span
from glassformer.metrics.spans import SpanScore as SpanScore
from glassformer.metrics.spans import invalid_count as invalid_count
from glassformer.metrics.spans import scheme_of as scheme_of
from glassformer.metrics.spans import spans as spans
from glassformer.metrics.spans import violations as violations
from glassformer.metrics.worst import Worst as Worst
from glassformer.metrics.writing import exact_match as exact_match
from glassformer.metrics.writing import translation_scores as translation_scores
