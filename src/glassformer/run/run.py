"""A trained model, opened for use: one folder, one object, the same verbs as the command line.

run = gf.load("runs/demo-lm")
run.model, run.processor, run.task              a torch.nn.Module, and what goes in and comes out
run.generate("The", max_new_tokens=50)          a verb of its task; `run.predict` gives all of it
run.look("The cat sat").pattern(layer=0, head=1)    any model, from inside
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.core.manifest import fingerprint
from glassformer.data.collate import split_rows
from glassformer.inspect.alignment import CrossAttention, cross_attention
from glassformer.inspect.contextual import Contexts, contexts
from glassformer.inspect.look import Look, look
from glassformer.inspect.points import Edit
from glassformer.models.packing import quantize
from glassformer.models.transformer import Transformer
from glassformer.native import Program
from glassformer.processors.tokens.elements import EncodedInput
from glassformer.recipe.recipe import Recipe
from glassformer.run.drafting import with_drafts
from glassformer.run.evaluating import evaluate
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.prompts import check_ids, check_source
from glassformer.runtime.trace import Watch
from glassformer.tasks.evaluate import Evaluation
from glassformer.tasks.options import OPTIONS, keywords
from glassformer.tasks.predictors.choose import FewShot
from glassformer.tasks.predictors.likelihood import Likelihood
from glassformer.tasks.predictors.text import Delta, Text
from glassformer.tasks.task import Task
from glassformer.training.folder.models import model_at


@dataclass
class Run:
    """A model, its task with the processor, and the recipe it was trained by if there is one."""

    folder: Path
    model: Transformer
    task: Task
    recipe: Recipe | None = None
    bits: str | None = None
    """Format of the model's large matrices; None: float32."""

    @property
    def processor(self) -> Any:
        """What encodes inputs."""
        return self.task.processor

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model's files."""
        return fingerprint(self.folder)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of what is generated, tagged or classified; ConfigError: there is none."""
        if self.processor.tokenizer is None:
            raise ConfigError(
                f"{self.folder} reads {self.processor.noun}s, not text; use "
                f"`glassformer {self.task.verb}`."
            )
        return self.processor.tokenizer

    def at(self, checkpoint: int) -> Self:
        """Return the run with the weights of a training step; ConfigError: there is no checkpoint
        of it; CheckpointError: it is damaged."""
        device = next(self.model.parameters()).device
        model = model_at(self.folder, checkpoint, self.recipe, self.model.config, device)
        at = replace(self, model=model, bits=None)
        return at if self.bits is None else at.quantized(self.bits)

    def quantized(self, bits: str) -> Self:
        """Pack the large matrices of the model (see `layers.linear.packed`), and return the run.

        `bits`: fp16, bf16, int8 or int4. ConfigError: another format or device, or adapters.
        """
        quantize(self.model, bits)
        return replace(self, bits=bits)

    def compiled(self, whether: bool = True) -> Self:
        """Compile a step of decoding by the system's C compiler (see `native`), and return the run;
        the matrices of its model are no parameters after it (see `models.packing`).

        ConfigError: no model of next tokens in float32 on a CPU, or no C compiler.
        """
        self.model.compiled_step = Program(self.model) if whether else None
        return self

    def options(self, **changes: Any) -> GenerateConfig:
        """The run's generation defaults with changes; ConfigError: unknown names, bad values."""
        return self.task.recipe.generate.with_changes(changes)

    def evaluate(
        self,
        split: str = "validation",
        data: str | None = None,
        targets: str | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """Scores of a split of the run's own data, or of all of `data` (`-`: standard input).

        Classes and tags also have `baselines` on the same inputs, learned from the training split.
        `targets`: the targets of `data`'s sources, line by line. `changes`: how text is generated.
        """
        if self.recipe is None and data is None:
            raise ConfigError(
                f"{self.folder} has no recipe.yaml and so no data of its own; give --data PATH."
            )
        how = Evaluation(how=self.options(**{"overflow": "window", **changes}))
        found = evaluate(self.task, self.model, self.recipe, split, data, targets, how)
        return {"run": str(self.folder), **found}

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the model's logits."""
        return self.model.config.class_names

    @keywords("generate")
    def generate(
        self, prompt: Any = "", image: Any = None, audio: Any = None, **options: Any
    ) -> Any:
        """The new text for a prompt (str to str), or for each of a list of prompts (list to list).

        A model of parts also takes `image` and `audio`, files or arrays, for all prompts. `draft`,
        a smaller run with the same vocabulary or "ngram", proposes at most `draft_tokens` tokens a
        step, which changes only the time (see `runtime.speculative`).
        """
        files = {kind: of for kind, of in (("image", image), ("audio", audio)) if of is not None}
        about = self.predictor("generate").about
        single = isinstance(prompt, str) or not isinstance(prompt, Iterable)
        read = about(prompt, files) if single else [about(one, files) for one in prompt]
        return self._values(read, "generate", options)

    def stream(self, given: Any = "", verb: str | None = None, **options: Any) -> Iterator[Delta]:
        """The new text for an input as it grows; the last piece says why it ended."""
        writer, *read = self._read(given, verb, options)
        return writer.stream(*read)

    def record(self, given: Any, watch: Watch | None = None, **options: Any) -> Text:
        """The new text for an input with a record of each step; see `runtime.trace`."""
        writer, *read = self._read(given, None, options)
        return writer.record(*read, watch or Watch())

    def _read(self, given: Any, verb: str | None, options: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Return a predictor, an input that it read, and choices."""
        writer = self.predictor(verb or self.task.verb)
        how = OPTIONS[writer.name].parse(with_drafts(options, self))
        return writer, writer.parse(given, how), how

    @keywords("chat")
    def chat(self, messages: Any, **options: Any) -> Any:
        """The assistant's next message, by the run's chat template.

        `messages`: a text of the user, or {"role": ..., "content": ...} in order; of a list of such
        conversations, a list of answers.
        """
        return self._values(messages, "chat", options)

    def score(self, text: Any) -> Any:
        """The log-probability of each token of a text, given those before it; of a source and its
        target (a tuple), of each token of the target."""
        return self._values(text, "score", {})

    def likelihoods(self, pairs: Sequence[tuple[str, str]], fit: bool = False) -> list[Likelihood]:
        """log p of the answer in each (prompt, answer); `fit`: a prompt that is too long loses its
        beginning, and is a ConfigError otherwise."""
        return self.predictor("score").likelihoods(pairs, fit)

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
        """log p of each token of each target, the end included, given its source."""
        return [[one.log_prob for one in own] for own in self.score(list(pairs))]

    @keywords("choose")
    def choose(self, text: Any, **options: Any) -> Any:
        """The likeliest label of a text, by prompts with examples (see `tasks.predictors.choose`),
        or of each of a list."""
        return self._values(text, "choose", options)

    def few_shot(self, examples: str | Path, n: int = 5, **how: Any) -> FewShot:
        """Return prompts with `n` examples of a labelled table, for this model."""
        options = OPTIONS["choose"].parse({"shots": examples, "n_shots": n, **how})
        return self.predictor("choose").prompts(options)

    @keywords("generate")
    def answer(self, parts: Any, **options: Any) -> Any:
        """The text for a list of parts (to str), or for each of a list of such lists (to list).

        A part is a text, or {"text": TEXT}, {"image": FILE or pixels}, {"audio": FILE or (samples,
        rate)}; all in the order of the training rows.
        """
        return self._values(parts, "generate", options)

    @keywords("draw")
    def draw(self, prompt: str | Sequence[str], **options: Any) -> Any:
        """The image drawn for a text, uint8 [H, W, 3], or for each of a list, [N, H, W, 3]."""
        return self._values(prompt, "draw", options)

    @keywords("fill")
    def fill(self, text: str | Sequence[str], **options: Any) -> Any:
        """A text with the likeliest word in each blank (`___` or `[MASK]`), or each of a list."""
        return self._values(text, "fill", options)

    @keywords("translate")
    def translate(self, text: str | Sequence[str], **options: Any) -> Any:
        """The target of a source (str to str), or of each of a list of sources (list to list)."""
        return self._values(text, "translate", options)

    def cross_attention(self, source: str, target: str) -> CrossAttention:
        """Cross-attention of a pair in every head: word alignments, and data for pictures."""
        if (pair := self.processor.pair) is None:
            raise self.task.refusal("reading a source")
        return cross_attention(self.model, pair, source, target)

    def predictor(self, verb: str) -> Any:
        """The predictor of a verb, such as `tag`; ConfigError: this model has none."""
        if (kind := self.task.predictors.get(verb)) is None:
            raise self.task.misfit(verb)
        return kind(self.model, self.task)

    def predict(self, given: Any, verb: str | None = None, **options: Any) -> Any:
        """The prediction of an input, or of each of a list of inputs, with all that it holds.

        `verb`: None is the first of the task. `options`: those of the command of this name.
        """
        predictor = self.predictor(verb or self.task.verb)
        single, found = predictor.predict_given(given, with_drafts(options, self))
        return found[0] if single else found

    def _values(self, given: Any, verb: str, options: dict[str, Any]) -> Any:
        changes = with_drafts(options, self)
        single, found = (predictor := self.predictor(verb)).predict_given(given, changes)
        return found[0].value if single else predictor.gather([one.value for one in found])

    @keywords("tag")
    def tag(self, text: Any, **options: Any) -> Any:
        """Each word with its tag: of a text cut at spaces, of a list of words, of a list of parts,
        or of a list of such lists."""
        return self._values(text, "tag", options)

    @keywords("classify")
    def classify(self, what: Any, **options: Any) -> Any:
        """The class of an input, or of each of a list of inputs.

        An input is a text, a pair (a tuple of two texts), a file or pixels uint8 [H, W, C],
        (samples, rate), or a list of parts. A model with `multi_label` gives a list: every class
        whose probability reaches `threshold`. Blanks have no class: None, or an empty list.
        """
        return self._values(what, "classify", options)

    @keywords("embed")
    def embed(self, text: str | Sequence[str], **options: Any) -> np.ndarray:
        """The vector of a text, float32 [D], or of each of a list of texts, [N, D]."""
        return self._values(text, "embed", options)

    @property
    def reader(self) -> Any:
        """How the trunk reads a text, as it was trained to."""
        return self.predictor("embed").reader()

    def contexts(self, word: str, sentences: Sequence[str]) -> Contexts:
        """A word's vectors in several sentences, layer by layer."""
        return contexts(self.model, self.reader, word, sentences)

    def look(self, given: Any, edits: Sequence[Edit] = ()) -> Look:
        """One forward pass of one input, to be looked into and edited; see `inspect.look`.

        `given`: a text, a pair of texts, words or token ids; (source, target) of an
        encoder-decoder; a file, pixels or (samples, rate); parts, or (parts, answer). DataError,
        ConfigError: an input of another kind, or longer than the model.
        """
        one = self.encode(given)
        return look(self.model, one.batch, one.elements, one.source, self._outcomes, edits)

    def encode(self, given: Any) -> EncodedInput:
        """An input as one batch with named elements; ConfigError: an id that the model lacks."""
        one = self.task.encode(given)
        ids = [element.id for element in one.elements if element.id is not None]
        check_ids(ids, self.model, "The input")
        if one.batch.source is not None:
            for source in split_rows(one.batch.source):
                check_source(self.model, source)
        return one

    @cached_property
    def _outcomes(self) -> tuple[str, ...]:
        return self.task.objective.outcomes()

    def example_inputs(self) -> list[Any]:
        """Inputs to begin with, as requests have them; may be empty."""
        return self.task.objective.example_inputs(self.folder)
