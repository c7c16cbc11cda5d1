"""`generate`: a text is continued (Notes B, D, E)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from glassformer.data.example import Example
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.request import Request
from glassformer.tasks.options import GenerateOptions
from glassformer.tasks.predictors.likelihood import prompt_ids
from glassformer.tasks.predictors.predictor import OfText, Parsed, check_text
from glassformer.tasks.predictors.text import Text
from glassformer.tasks.predictors.writer import Writer, reply_of


@dataclass(frozen=True)
class Continuation(Text):
    """A text that continues its prompt."""

    between: ClassVar[str | None] = ""
    before: str = ""

    def line(self) -> str:
        """See `Prediction`: with its prompt, but for one of spaces."""
        return f"{self.before if self.before.strip() else ''}{self.text}"


class Generate(OfText[GenerateOptions], Writer[GenerateOptions]):
    """Text that continues a text."""

    name, routes, inputs = "generate", ("completions", "generate"), ("documents",)
    lines, streams, continues = False, True, True
    first, given, reply = "\n", "prompt", reply_of("the text behind the prompt")

    def read(self, given: Any, how: GenerateConfig, number: int = 1) -> Parsed:
        """Read an input."""
        ids, _ = prompt_ids(self.processor.tokenizer, check_text(given))
        one = Example(np.array(ids, np.int32))
        return Parsed(given, (one,), number=number, note=self.unknown(one))

    def requests(self, one: Parsed, how: GenerateConfig) -> list[Request]:
        """Return the requests for an input."""
        ends = how.ends(self.processor.tokenizer.specials.get("eos"))
        return [Request(tuple(each.ids.tolist()), how, ends) for each in one.windows]

    def show(self, one: Parsed, text: Text, options: GenerateOptions) -> Continuation:
        """Return the text with its prompt."""
        return Continuation(**vars(text), before=one.given)
