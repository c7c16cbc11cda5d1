"""Text to text: a target sequence for a source, or an answer to a row of parts (Notes C, D, E).

an encoder-decoder reads the input as its source      a decoder generates behind the input
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.data.collate import encoder_decoder
from glassformer.data.example import Example
from glassformer.errors import ConfigError, DataError
from glassformer.generate import score_pairs, transduce
from glassformer.generate.config import GenerateConfig
from glassformer.generate.text import Delta, Generated, answer
from glassformer.losses import LossSum, cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs
from glassformer.processors.pair_tokenizer import PairTokenizer
from glassformer.processors.pairs import PairInputs, PairsProcessor
from glassformer.processors.parts import PartsProcessor
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import DECODED
from glassformer.tasks.evaluate import evaluate, matches, score_outputs
from glassformer.tasks.left_out import left_out
from glassformer.tasks.records import RecordTask
from glassformer.tasks.shown import shown
from glassformer.tasks.task import Card, Sample
from glassformer.tasks.text_generation import token_outcomes

SHOWN, ROUND = 3, 16
EVALUATED = {"limit", "lines"}


class TextToText(RecordTask):
    """A text for each input; loss is on its tokens alone."""

    pipelines = ("text-to-text", "image-text-to-text", "audio-text-to-text")
    inputs = ("pairs", "parts")
    metrics = ("loss", "accuracy", *DECODED)
    capabilities = frozenset({"generates"})

    @property
    def verb(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """See `Task`."""
        return "translate" if isinstance(self.processor, PairsProcessor) else "generate"

    @property
    def encoder_decoder(self) -> bool:
        """Whether the input is a source."""
        return self.recipe.model.architecture == "encoder_decoder"

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """See `Task`. DataError: a row without a target."""
        best = recipe.train.best
        if isinstance(processor, PairsProcessor):
            if best in ("bleu", "chrf"):
                score_outputs([""], [""], best=best)  # needs its package before the work
            return cls._resolve_pairs(recipe, processor)
        if best in ("bleu", "chrf"):
            raise ConfigError(
                f"train.best={best!r} is no score of answers; use loss, accuracy or exact_match."
            )
        assert isinstance(processor, PartsProcessor)
        recipe = recipe.with_vocabulary(processor.tokenizer.vocab_size)
        for row in (row for rows in records.values() for row in rows):
            if row.target is None:
                raise DataError(
                    f"{row.where} has no target to be written; set data.target, or another task"
                )
        if recipe.model.architecture == "encoder_decoder":
            _ = processor.begin
        processor.parts.answer("")  # refused without an end symbol
        return recipe

    @staticmethod
    def _resolve_pairs(recipe: Recipe, processor: PairsProcessor) -> Recipe:
        if recipe.data.documents == "separate":
            raise ConfigError(
                "Pairs are never mixed, so data.documents='separate' says nothing; leave it out."
            )
        if recipe.model.architecture != "encoder_decoder":
            raise ConfigError(
                "The data are pairs and model.architecture='decoder' reads running text; use "
                "encoder_decoder."
            )
        pair = processor.pair
        apart = recipe.model.source_vocab_size or not pair.shared
        own = pair.source.vocab_size if apart else None
        return recipe.with_vocabulary(pair.target.vocab_size, own)

    def check_size(self) -> None:
        """Raise DataError if no training pair, or no validation pair, fits into the model."""
        _ = self.order
        inputs, longest = self.data.get("validation"), self.recipe.model.max_length
        if isinstance(inputs, PairInputs) and inputs.too_long(longest) == len(inputs.split):
            raise DataError(
                f"every validation pair has a side of more than {longest} tokens; raise "
                "model.max_length, or set data.validation_fraction=0"
            )

    @cached_property
    def targets(self) -> list[dict[str, Any]]:
        """See `RecordTask`: stored pairs have their answers."""
        if isinstance(self.training, PairInputs):
            return []
        return super().targets

    def target(self, record: Any, units: slice) -> dict[str, Any]:
        """See `RecordTask`."""
        return {"answer": self.processor.parts.answer(record.target)}

    def answered(
        self, inputs: Inputs, numbers: Sequence[int], step: int | None = None
    ) -> list[Example]:
        """Examples with their answers."""
        examples = inputs.examples(numbers, step)
        if isinstance(inputs, PairInputs):
            return examples
        targets = self.targets_of(inputs, numbers)
        return [replace(e, **t) for e, t in zip(examples, targets, strict=True)]

    def with_targets(self, numbers: Sequence[int], step: int) -> list[Example]:
        """See `RecordTask`."""
        if isinstance(self.training, PairInputs):
            return self.training.examples(numbers, step)
        return super().with_targets(numbers, step)

    @cached_property
    def lengths(self) -> np.ndarray:
        """See `RecordTask`."""
        return self._lengths_of(self.training)

    def _lengths_of(self, inputs: Inputs) -> np.ndarray:
        if isinstance(inputs, PairInputs):
            return inputs.lengths
        numbers = range(len(inputs.owner))
        answers = [len(target["answer"]) for target in self.targets_of(inputs, numbers)]
        own = np.array(answers)
        if self.encoder_decoder:
            return np.maximum(inputs.lengths, own)
        return inputs.lengths + own - 1

    @property
    def share_prefix(self) -> bool:
        """See `RecordTask`."""
        return not self.encoder_decoder

    @property
    def elements(self) -> int:
        """See `Task`: a prefix that examples share counts once."""
        inputs = self.training
        if isinstance(inputs, PairInputs):
            return len(inputs.split.target.values)
        bundles = inputs.bundles(self.share_prefix)
        return sum(self.processor.bundle_length(inputs, own, self.lengths) for own in bundles)

    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """See `RecordTask`."""
        if not self.encoder_decoder:
            return self.processor.collate(rows)
        return encoder_decoder([e for row in rows for e in row], self.processor.begin)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        return cross_entropy(logits, targets, self.recipe.train.label_smoothing)

    def opening(self) -> list[str]:
        """See `Task`."""
        return [*self.data_sentences(), *left_out(self.data, self.recipe)]

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """See `Task`: greedy decoding ranks models as a search would."""
        if not self.validated:
            return None
        train = self.recipe.train
        return self.evaluate(
            model,
            "validation",
            precision,
            limit=train.evaluate_batches,
            lines=train.decode_lines,
        )

    def evaluate(
        self,
        model: Transformer,
        split: str,
        precision: torch.dtype = torch.float32,
        how: GenerateConfig | None = None,
        **limits: int | None,
    ) -> dict[str, Any]:
        """See `Task`: loss and accuracy of the given targets, then scores of decoded text.

        `limit`: so many batches, `lines`: so many decoded inputs, both spread evenly.
        """
        inputs, limit, lines = self.split(split), limits.get("limit"), limits.get("lines")
        groups = inputs.groups(model.config.max_length)
        if limit is not None and limit < len(groups):
            chosen = np.linspace(0, len(groups) - 1, limit).round().astype(int)
            groups = [groups[i] for i in chosen]
        batches = (self.collate([[e] for e in self.answered(inputs, own)]) for own in groups)
        scores = evaluate(model, batches, precision).result()
        n = len(inputs.records)
        if lines == 0 or not n:
            return scores
        count = n if lines is None else min(lines, n)
        numbers = [i * n // count for i in range(count)]
        found = self.decoded(model, inputs, numbers, how or self.greedy)
        records = [inputs.records[i] for i in numbers]
        wanted, groups_of = [r.target for r in records], [r.group for r in records]
        if isinstance(inputs, PairInputs):
            return scores | score_outputs(found, wanted, groups_of, best=self.recipe.train.best)
        return scores | matches(found, wanted, groups_of)

    def decoded(
        self, model: Transformer, inputs: Inputs, numbers: Sequence[int], how: GenerateConfig
    ) -> list[str]:
        """Generated text for some records."""
        if isinstance(inputs, PairInputs):
            sources = [inputs.records[i].source for i in numbers]
            return [
                best[0].text for best in transduce(model, self.processor.pair, sources, how, 128)
            ]
        found: list[str] = []
        for begin in range(0, len(numbers), 512):
            examples = inputs.examples(numbers[begin : begin + 512])
            found += [one.text for one in answer(model, self.processor.parts, examples, how)]
        return found

    @property
    def greedy(self) -> GenerateConfig:
        """Greedy decoding with the recipe's limits; sources that are too long go by windows."""
        of = self.recipe.generate
        chosen = {"max_new_tokens": of.max_new_tokens, "stop": of.stop}
        if isinstance(self.processor, PairsProcessor):
            return GenerateConfig.parse({**chosen, "beams": 1, "overflow": "window"})
        return GenerateConfig.parse({**chosen, "temperature": 0})

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: the first inputs, their targets and what is generated."""
        if not self.recipe.train.sample_tokens:
            return None
        inputs = self.split(self.shown_split)
        n = min(SHOWN, len(inputs.owner))
        if isinstance(inputs, PairInputs) and not inputs.records:  # training pairs keep no texts
            texts, references = self._decoded_pairs(inputs, n)
            best = transduce(model, self.processor.pair, texts, self.greedy)
            outputs = [one[0].text for one in best]
        else:
            step = max(1, len(inputs.records) // n) if isinstance(inputs, PairInputs) else 1
            numbers = [i * step for i in range(n)]
            records = [inputs.records[i] for i in numbers]
            texts = [getattr(r, "source", None) or shown(r) for r in records]
            references = [record.target for record in records]
            outputs = self.decoded(model, inputs, numbers, self.greedy)
        rows = [
            {"source": s, "reference": r, "output": o}
            for s, r, o in zip(texts, references, outputs, strict=True)
        ]
        text = "\n".join(f"{row['source']}\n  -> {row['output']}" for row in rows)
        prompts = [one for r in inputs.records[:n] for one in self.processor.request_of(r)]
        return Sample(text, {"samples": rows, "inputs": prompts})

    def _decoded_pairs(self, inputs: PairInputs, n: int) -> tuple[list[str], list[str]]:
        pair, split = self.processor.pair, inputs.split
        sources = [pair.source.decode(split.source.row(i)) for i in range(n)]
        targets = [pair.target.decode(split.target.row(i)) for i in range(n)]
        return [source.removeprefix(pair.prefix) for source in sources], targets

    def card(self) -> Card:
        """See `Task`."""
        if isinstance(self.processor, PairsProcessor):
            return self.card_of(f"glassformer translate {self.folder} < lines")
        given = "".join(f" --{kind} FILE" for kind in self.processor.readers)
        return self.card_of(f"glassformer generate {self.folder}{given} --prompt TEXT")

    def excerpt(self, batch: Batch) -> str:
        """See `Task`: of what is generated, else of the input."""
        return self.processor.tokenizer.decode(batch.elements[0, :24].tolist())

    def source_piece(self, index: int) -> str:
        """See `Task`."""
        if isinstance(self.processor, PairsProcessor):
            return self.processor.pair.source.piece(index)
        return self.piece(index)

    def outcomes(self) -> tuple[str, ...]:
        """See `Task`."""
        return token_outcomes(self)

    def check_search(self) -> None:
        """See `Task`: answers to parts are not searched for."""
        if not isinstance(self.processor, PairsProcessor):
            super().check_search()

    def translate(
        self,
        model: Transformer,
        texts: Sequence[str],
        how: GenerateConfig,
        batch_size: int = 32,
        first: int = 1,
    ) -> list[Any]:
        """See `Task`."""
        if not isinstance(self.processor, PairsProcessor):
            raise ConfigError(
                f"{self.folder} reads rows of parts; use `glassformer generate` with files."
            )
        return transduce(model, self.processor.pair, texts, how, batch_size, first)

    @property
    def pair(self) -> PairTokenizer:
        """See `Task`."""
        if not isinstance(self.processor, PairsProcessor):
            raise self._refuse("reading a source")
        return self.processor.pair

    def score_pairs(
        self, model: Transformer, pairs: Sequence[tuple[str, str]], first: int = 1
    ) -> list[list[float]]:
        """Log-probability of each token of each target, the end symbol included."""
        if not isinstance(self.processor, PairsProcessor):
            raise self._refuse("scoring pairs")
        return score_pairs(model, self.processor.pair, pairs, first=first)

    def batch_to_check(self, model: Transformer, text: str | None) -> Batch:
        """See `Task`: a source and its target, given or generated."""
        if not isinstance(self.processor, PairsProcessor):
            return super().batch_to_check(model, text)
        given = self.first_input() if text is None else text
        source, target = given if isinstance(given, tuple) else (given, "")
        if not target:
            target = self.translate(model, [source], self.greedy)[0][0].text
        pair = self.processor.pair
        example = Example(pair.source_ids(source), answer=pair.target_ids(target))
        return encoder_decoder([example], pair.bos)

    def stream(self, model: Transformer, prompt: str, how: GenerateConfig) -> Iterator[Delta]:
        """Refused."""
        raise self._whole()

    def score(self, model: Transformer, text: str) -> list[tuple[str, float | None]]:
        """Refused."""
        raise self._whole()

    def _whole(self) -> ConfigError:
        if isinstance(self.processor, PairsProcessor):
            return self._refuse("generating text")
        return ConfigError(
            "An answer to parts is given as a whole; leave out --score and --stream."
        )

    def answer(
        self,
        model: Transformer,
        inputs: Sequence[Any],
        how: GenerateConfig,
        **options: Any,
    ) -> list[Generated]:
        """The text for each row of parts."""
        if not isinstance(self.processor, PartsProcessor):
            raise ConfigError(
                f"{self.folder} reads text alone, not parts of several kinds; leave out the others."
            )
        examples = [window.example for row in inputs for window in self.processor.windows(row)]
        return answer(model, self.processor.parts, examples, how, **options)

    def generate(
        self,
        model: Transformer,
        prompts: Sequence[str],
        files: Mapping[str, Any],
        how: GenerateConfig,
        **options: Any,
    ) -> list[Generated]:
        """See `Task`: answers to a prompt and files."""
        if not isinstance(self.processor, PartsProcessor):
            raise ConfigError(
                f"{self.folder} is an encoder-decoder, which writes a target for a source; use "
                "`glassformer translate`."
            )
        rows = [self.processor.ordered(prompt, files) for prompt in prompts]
        return self.answer(model, rows, how, **options)

    def schema(self) -> dict[str, Any]:
        """See `Task`."""
        text = {"type": "string", "description": "the generated text"}
        return {"type": "object", "properties": {"text": text}, "required": ["text"]}
