"""A trained model, opened for use: one folder, one object, the same verbs as the command line.

    run = gf.load("runs/demo-lm")
    run.generate("The", max_new_tokens=50)          a decoder
    run.translate(["A dog runs."], beams=5)         an encoder-decoder
    run.tag("A dog runs .")                         a model with a tag head
    run.classify("What a film!")                    a model with a classify head

Knows: run folders and everything below. Does not know: the command line, servers.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from glassformer.data.batches import evaluation_batches
from glassformer.data.config import DataConfig
from glassformer.data.pairstore import PairSplit, PairStore
from glassformer.data.sources import capture_stdin
from glassformer.data.split import NAMES
from glassformer.data.store import Split, TokenStore
from glassformer.errors import CheckpointError, ConfigError, suggest
from glassformer.generate import (
    GenerateConfig,
    Generated,
    Transduction,
    generate,
    score,
    score_pairs,
    stream,
    transduce,
)
from glassformer.generate.classify import Text, classify
from glassformer.generate.embed import Texts, embed, trained_reader
from glassformer.generate.tag import Tags, tag
from glassformer.generate.text import Delta
from glassformer.inspect.alignment import CrossAttention, cross_attention
from glassformer.inspect.contextual import Contexts, contexts
from glassformer.models.transformer import Transformer
from glassformer.models.weights import load_model
from glassformer.tokens.pair import PairTokenizer
from glassformer.tokens.reading import TextReader
from glassformer.tokens.sequence import SequenceTokenizer
from glassformer.tokens.text import Tokenizer
from glassformer.tokens.words import WordTokenizer
from glassformer.train.classification import ClassificationTask
from glassformer.train.device import find_device
from glassformer.train.evaluate import evaluate
from glassformer.train.loop import train as train_run
from glassformer.train.masked import masked_batches, masking_of
from glassformer.train.recipe import SAMPLING, Recipe, read_yaml
from glassformer.train.tagging import TaggingTask
from glassformer.train.transduction import load_tokenizers, open_store, transduction_scores


@dataclass(frozen=True)
class TokenScore:
    """One token of a scored text: its piece and log p in nats (None for the first, which nothing predicts)."""

    piece: str
    log_prob: float | None


@dataclass
class Run:
    """A model with its tokenizer, and the recipe it was trained with if the folder has one.

    `pair` has the tokenizers of both sides of an encoder-decoder; `tokenizer` is then that of what it writes.
    """

    folder: Path
    model: Transformer
    tokenizer: Tokenizer
    recipe: Recipe | None = None
    pair: PairTokenizer | None = None

    def options(self, **changes: Any) -> GenerateConfig:
        """The run's generation defaults with changes; unknown names and bad values are ConfigErrors."""
        base = self.recipe.generate.model_dump() if self.recipe else {}
        if "beams" not in changes and SAMPLING & changes.keys():  # who asks for sampling wants no search
            base |= {"beams": 0, "n_best": 1}
        if changes.get("beams"):  # and who asks for a search no sampling
            if name := min(SAMPLING & changes.keys(), default=""):
                both = f"{name}={changes[name]} is for sampling and beams={changes['beams']} searches"
                raise ConfigError(f"generate: {both}; leave one of them out.")
            base = {name: value for name, value in base.items() if name not in SAMPLING}
        if "beams" in changes and "n_best" not in changes:
            base |= {"n_best": 1}
        return GenerateConfig.parse({**base, **changes})

    def translate(self, text: str | Sequence[str], **changes: Any) -> Any:
        """What becomes of a source (str to str), or of each of a list of sources (list to list)."""
        texts = [text] if isinstance(text, str) else list(text)
        found = [best[0].text for best in self.transduced(texts, self.options(**changes))]
        return found[0] if isinstance(text, str) else found

    def transduced(
        self, texts: Sequence[str], config: GenerateConfig, batch_size: int = 32, first: int = 1
    ) -> list[list[Transduction]]:
        """The `n_best` results for each source with ids, log-probabilities and scores; errors count from `first`."""
        return transduce(self.model, self._pair(), texts, config, batch_size, first)

    def score_pairs(self, pairs: Sequence[tuple[str, str]], first: int = 1) -> list[list[float]]:
        """log p of each token of each target, the end included, given its source (forced decoding)."""
        return score_pairs(self.model, self._pair(), pairs, first=first)

    def cross_attention(self, source: str, target: str) -> CrossAttention:
        """What every cross-attention head looked at in a pair: word alignments, and what pictures are made from."""
        return cross_attention(self.model, self._pair(), source, target)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the model's logits: numbers where it has no names."""
        config = self.model.config
        return config.classes or tuple(str(i) for i in range(config.class_count))

    def tag(self, text: str | Sequence[str] | Sequence[Sequence[str]]) -> Any:
        """Each word with its tag: of a text cut at spaces, of a list of words, or of a list of such lists."""
        words = text.split() if isinstance(text, str) else list(text)
        several = bool(words) and not isinstance(words[0], str)
        sentences = cast(list[Sequence[str]], words if several else [words])
        tags = self.tagged(sentences)
        found = [
            [(word, self.classes[i]) for word, i in zip(sentence, own.classes[:, 0].tolist(), strict=True)]
            for sentence, own in zip(sentences, tags, strict=True)
        ]
        return found if several else found[0]

    def tagged(self, sentences: Iterable[Sequence[str]], top: int = 1) -> Iterator[Tags]:
        """The `top` likeliest classes of each word of each sentence with their probabilities, as sentences come."""
        self._has_head("tag", "glassformer tag")
        return tag(self.model, self.words, sentences, top)

    def classify(self, text: Text | Sequence[Text], threshold: float = 0.5) -> Any:
        """The class of a text, of a pair (a tuple of two texts), or of each of a list of these.

        A model with `multi_label` gives a list: every class whose probability reaches `threshold`.
        """
        single = isinstance(text, str | tuple)
        rows = self.classified(cast(list[Text], [text] if single else list(text)))
        if self.model.config.multi_label:
            found: list[Any] = [
                [name for name, p in zip(self.classes, row, strict=True) if p >= threshold] for row in rows
            ]
        else:
            found = [self.classes[i] for i in rows.argmax(1)]
        return found[0] if single else found

    def classified(self, texts: Sequence[Text]) -> np.ndarray:
        """The probability of every class for each text or pair, float32 [N, C]; long ones are read by windows."""
        self._has_head("classify", "glassformer classify")
        return classify(self.model, self.sequences, texts)

    def embed(self, text: Texts, pool: str = "mean", normalize: bool = True, layer: int | None = None) -> np.ndarray:
        """The vector of a text, float32 [D], or of each of a list of texts, [N, D]; see `generate.embed`."""
        vectors = embed(self.model, self.reader, [text] if isinstance(text, str) else text, pool, layer, normalize)
        return vectors[0] if isinstance(text, str) else vectors

    def contexts(self, word: str, sentences: Sequence[str], first: int = 1) -> Contexts:
        """A word's vectors in several sentences, layer by layer; errors count the sentences from `first`."""
        return contexts(self.model, self.reader, word, sentences, first)

    @cached_property
    def reader(self) -> TextReader:
        """What the trunk reads of a text, as it was trained to."""
        return trained_reader(self.model.config.head, self._windows[0], self.tokenizer, self.pair)

    @cached_property
    def words(self) -> WordTokenizer:
        """The tokenizer for words, with the windows that the model was trained with."""
        return WordTokenizer(self.tokenizer, *self._windows)

    @cached_property
    def sequences(self) -> SequenceTokenizer:
        """The tokenizer for whole texts and pairs, with the windows that the model was trained with."""
        return SequenceTokenizer(self.tokenizer, *self._windows)

    @property
    def _windows(self) -> tuple[int, int | None]:
        """The length and the overlap of windows in training."""
        if self.recipe is None:
            return self.model.config.max_length, None
        return self.recipe.train.length or self.model.config.max_length, self.recipe.data.overlap

    def _has_head(self, head: str, command: str) -> None:
        """Raise ConfigError for a model with another head."""
        own = self.model.config.head
        if own != head:
            other = {"tag": "`glassformer tag`", "classify": "`glassformer classify`", "lm": "`glassformer generate`"}
            instead = f"; it is for {other[own]}" if own in other and self.pair is None else ""
            raise ConfigError(f"{self.folder} has model.head={own!r}, and {command} needs {head!r}{instead}.")

    def _goes_on(self) -> None:
        """Raise ConfigError for a model that does not go on from a prompt."""
        if self.model.config.head != "lm" or self.model.config.architecture == "encoder":
            self._has_head("lm", "writing")
        if self.pair is not None:
            raise ConfigError(
                f"{self.folder} is an encoder-decoder, which writes a target for a source; use `glassformer translate`."
            )

    def _pair(self) -> PairTokenizer:
        if self.pair is None:
            raise ConfigError(
                f"{self.folder} is a {self.model.config.architecture}, which reads no source; only an encoder-decoder "
                "translates. Use `glassformer generate`."
            )
        return self.pair

    def generate(self, prompt: str | Sequence[str], **changes: Any) -> Any:
        """The new text for a prompt (str to str), or for each of a list of prompts (list to list)."""
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        texts = [result.text for result in self.generated(prompts, self.options(**changes))]
        return texts[0] if isinstance(prompt, str) else texts

    def generated(self, prompts: Sequence[str], config: GenerateConfig) -> list[Generated]:
        """Texts with token ids, log-probabilities and why each ended."""
        self._goes_on()
        return generate(self.model, self.tokenizer, prompts, config)

    def stream(self, prompt: str, **changes: Any) -> Iterator[Delta]:
        """The new text for a prompt as it grows."""
        self._goes_on()
        return stream(self.model, self.tokenizer, [prompt], self.options(**changes))

    def score(self, text: str) -> list[TokenScore]:
        """The log-probability of each token of a text, given those before it."""
        self._goes_on()
        ids = self.tokenizer.encode(text).tolist()
        log_probs = [None, *score(self.model, ids)]
        return [TokenScore(self.tokenizer.piece(i), p) for i, p in zip(ids, log_probs, strict=True)]

    def evaluate(
        self,
        split: str = "validation",
        data: str | None = None,
        batch_size: int | None = None,
        targets: str | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """Loss, perplexity and bits per byte over a whole split of the run's own data, or over all of `data`.

        An encoder-decoder is scored by its targets' loss and by what it writes; `data` are pairs in a file, or sources
        whose targets are in `targets`.
        """
        if split not in NAMES:
            raise ConfigError(f"There is no split {split!r}; {suggest(split, NAMES)}.")
        if self.pair is not None:
            config = self.options(**{"overflow": "window", **changes})  # a source too long is no reason to stop
            return self._evaluate_pairs(split, data, targets, config, batch_size or 32)
        if targets is not None:
            raise ConfigError("Only an encoder-decoder has targets beside its data; leave out --targets.")
        if self.model.config.head != "lm":
            with tempfile.TemporaryDirectory(prefix="glassformer-") as scratch:
                scores = self._evaluate_examples(split, data, Path(scratch))
            return {"run": str(self.folder), "split": split if data is None else "all", "data": data, **scores}
        size = batch_size or (self.recipe.train.batch_size if self.recipe else 16)
        with tempfile.TemporaryDirectory(prefix="glassformer-") as scratch:  # a run folder may be read-only
            part = self.tokens(split) if data is None else self._other(data, Path(scratch))
            batches = evaluation_batches(part, size, self.model.config.max_length)
            scores = evaluate(self.model, batches).result(part.n_bytes)
        return {"run": str(self.folder), "split": split if data is None else "all", "data": data, **scores}

    def _evaluate_examples(self, split: str, data: str | None, scratch: Path) -> dict[str, Any]:
        """Scores of tags, classes or masked tokens; other data are read in the form of the run's own."""
        recipe, config = self._own_recipe(), self.model.config
        if config.head == "masked_lm":
            part = self.tokens(split) if data is None else self._other(data, scratch)
            masking = masking_of(self.tokenizer, recipe.train)
            return evaluate(self.model, masked_batches(part, masking, config.max_length)).result()
        self._has_head("classify" if config.head == "classify" else "tag", "glassformer evaluate")
        if data is not None:
            none = {"validation_path": None, "test_path": None, "validation_fraction": 0.0, "test_fraction": 0.0}
            named = {**none, "path": data, "root": None, "store": None}
            other = capture_stdin(DataConfig.parse(recipe.data.model_dump() | named), scratch)
            recipe, split = replace(recipe, data=other), "train"
        kind = TaggingTask if config.head == "tag" else ClassificationTask
        return kind(recipe, self.folder, begun=True).split_scores(self.model, split)

    def _evaluate_pairs(
        self, split: str, data: str | None, targets: str | None, config: GenerateConfig, batch_size: int
    ) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="glassformer-") as scratch:  # a run folder may be read-only
            part = self.pairs(split) if data is None else self._other_pairs(data, targets, Path(scratch))
            scores = transduction_scores(self.model, self._pair(), part, config, batch_size=batch_size)
        return {"run": str(self.folder), "split": split if data is None else "all", "data": data, **scores}

    def pairs(self, split: str) -> PairSplit:
        """The pairs of a split of the run's own data: as they were stored for training, else built from its text."""
        recipe = self._own_recipe()
        stored = Path(recipe.data.store) if recipe.data.store else self.folder / "tokens"
        if (stored / "manifest.json").is_file():
            return PairStore.open(stored).split(split)
        return open_store(self._pair(), recipe.data, stored).split(split)

    def _other_pairs(self, path: str, targets: str | None, scratch: Path) -> PairSplit:
        """All of other pairs as one split; the form of the run's own data holds for them too."""
        base = self.recipe.data if self.recipe else DataConfig()
        named = {"path": path, "target_path": targets, "validation_path": path, "validation_target_path": targets}
        others = {"test_path": None, "test_target_path": None, "test_fraction": 0.0, "root": None, "store": None}
        config = capture_stdin(DataConfig.parse(base.model_dump() | named | others), scratch)
        # read as validation pairs, whose texts are kept beside their ids
        return open_store(self._pair(), config, scratch / "tokens").split("validation")

    def _own_recipe(self) -> Recipe:
        if self.recipe is None:
            raise ConfigError(f"{self.folder} has no recipe.yaml and so no data of its own; give --data PATH.")
        return self.recipe

    def tokens(self, split: str) -> Split:
        """The tokens of a split of the run's own data: as they were stored for training, else built from its text."""
        data = self._own_recipe().data
        stored = Path(data.store) if data.store else self.folder / "tokens"
        if (stored / "manifest.json").is_file():
            return TokenStore.open(stored, data.documents).split(split)
        return self._store(data, stored).split(split)

    def _other(self, path: str, scratch: Path) -> Split:
        """All of another text (`-`: standard input) as one split."""
        data = capture_stdin(DataConfig.parse({"path": path, "validation_fraction": 0.0}), scratch)
        return self._store(data, scratch / "tokens").split("train")

    def _store(self, data: DataConfig, folder: str | Path) -> TokenStore:
        tokenizer = self.tokenizer
        return TokenStore.open_or_build(
            folder, tokenizer.encode, tokenizer.fingerprint, tokenizer.vocab_size, tokenizer.specials.get("eos"), data
        )


def load(folder: str | Path, device: str = "cpu") -> Run:
    """Open a run folder for use.

    Errors: CheckpointError if there is no whole model in it, ConfigError for a device that is not there.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder; give the folder of a run, for example runs/demo-lm.")
    model = load_model(folder, find_device(device))
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    if tokenizer.vocab_size > model.config.vocab_size:
        raise CheckpointError(
            f"The tokenizer of {folder} has {tokenizer.vocab_size} tokens and its model {model.config.vocab_size}; "
            "they are of different runs."
        )
    file = folder / "recipe.yaml"
    recipe = Recipe.parse(read_yaml(file)) if file.is_file() else None
    pair = None
    if model.config.architecture == "encoder_decoder":
        pair = load_tokenizers(folder, recipe.data.prefix if recipe else "")
        if pair.source.vocab_size > (own := model.config.source_vocab_size or model.config.vocab_size):
            raise CheckpointError(
                f"The source tokenizer of {folder} has {pair.source.vocab_size} tokens and its model {own}; they are "
                "of different runs."
            )
        _check_tokenizer(folder, pair.source, "source")
    _check_tokenizer(folder, tokenizer, "fingerprint")
    return Run(folder, model, tokenizer, recipe, pair)


def _check_tokenizer(folder: Path, tokenizer: Tokenizer, key: str) -> None:
    """Raise CheckpointError if the run's tokens were made by another tokenizer: the same size would hide it."""
    try:
        manifest = json.loads((folder / "tokens" / "manifest.json").read_bytes())
        made_by = manifest["request"]["tokenizer"][key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return  # a run without its tokens is still a model
    if made_by != tokenizer.fingerprint:
        own = "source_" if key == "source" and (folder / "source_tokenizer.json").is_file() else ""
        raise CheckpointError(
            f"{folder / f'{own}tokenizer.json'} is not the tokenizer this run was trained with; restore it from a "
            "backup."
        )


def train(
    recipe: str | Path, changes: dict[str, Any] | None = None, run: str | Path = "runs/last", resume: bool = False
) -> Run:
    """Train by a recipe file with changes such as {"train.steps": 200} in the folder `run`; returns it opened.

    Errors: those of training and of `load`; KeyboardInterrupt after Ctrl-C, when the run is saved and can be resumed.
    """
    values = read_yaml(Path(recipe))
    for key, value in (changes or {}).items():
        section, dot, name = key.partition(".")
        if not (dot and name):
            raise ConfigError(f"{key!r} is no field of a recipe; write section.key, for example train.steps.")
        content = values.get(section) or {}
        if not isinstance(content, dict):
            raise ConfigError(f"The section {section} must hold key: value lines, not {content!r}.")
        values[section] = {**content, name: str(value) if isinstance(value, Path) else value}
    result = train_run(Recipe.parse(values), Path(run), resume)
    if result.interrupted is not None:
        raise KeyboardInterrupt(f"stopped at step {result.steps}; go on with resume=True")
    return load(run)
