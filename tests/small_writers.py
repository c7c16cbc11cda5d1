"""Predictors of texts of a model and a tokenizer, without a run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from glassformer.runtime.config import GenerateConfig
from glassformer.tasks.options import ScoreOptions
from glassformer.tasks.predictors.answer import Answer, Translate
from glassformer.tasks.predictors.generate import Generate
from glassformer.tasks.predictors.predictor import Parsed
from glassformer.tasks.predictors.score import ScoreTargets
from glassformer.tasks.predictors.text import Text, Writing, finish


def predictor(kind: Any, model: Any, **processor: Any) -> Any:
    """A predictor whose task has no more than a processor with these fields."""
    recipe = SimpleNamespace(generate=GenerateConfig())
    task = SimpleNamespace(processor=SimpleNamespace(**processor), recipe=recipe, folder=Path("x"))
    return kind(model, task)


def continuations(
    model: Any, tokenizer: Any, prompts: list[str], how: GenerateConfig, **more: Any
) -> Writing:
    """Steps that continue prompts."""
    writer = predictor(Generate, model, tokenizer=tokenizer)
    return writer.write([writer.read(one, how) for one in prompts], how, **more)


def transduce(
    model: Any,
    pair: Any,
    texts: list[str],
    how: GenerateConfig,
    batch_size: int | None = None,
    first: int = 1,
) -> list[list[Text]]:
    """The best targets of each text, the best first."""
    writer = predictor(Translate, model, tokenizer=pair.target, pair=pair)
    parsed = [writer.read(text, how, number) for number, text in enumerate(texts, first)]
    return [[one, *one.others] for one in finish(writer.write(parsed, how, batch_size))]


def answer(
    model: Any, parts: Any, examples: list[Any], how: GenerateConfig, batch_size: int | None = None
) -> list[Text]:
    """The answer to each sequence of parts."""
    writer = predictor(Answer, model, tokenizer=parts.text, parts=parts)
    parsed = [Parsed(None, (one,)) for one in examples]
    return finish(writer.write(parsed, how, batch_size))


def score_pairs(model: Any, pair: Any, pairs: list[tuple[str, str]]) -> list[list[float]]:
    """log p of each token of each target."""
    scorer = predictor(ScoreTargets, model, tokenizer=pair.target, pair=pair)
    return [one.log_probs for one in scorer.predict_each(pairs, ScoreOptions())]
