"""What a run folder holds, opened: the model, its tokenizers, its own data and other data in the
same form."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from glassformer.data import pair_split, tokens
from glassformer.data.config import DataConfig
from glassformer.data.pair_split import PairSplit, pairs_of
from glassformer.data.sources import capture_stdin
from glassformer.data.store import Store
from glassformer.data.tokens import TokenSplit, store_tokens, tokens_of
from glassformer.errors import ConfigError
from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageReader
from glassformer.media.palette import Palette
from glassformer.models.transformer import Transformer
from glassformer.models.weights import load_weights
from glassformer.processors.pairs import PairTokenizer
from glassformer.processors.parts import PartsTokenizer
from glassformer.processors.sequence import SequenceTokenizer
from glassformer.processors.words import WordTokenizer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.text_to_text import open_store
from glassformer.tokenizers.text import Tokenizer
from glassformer.training.checkpoint import Checkpoints

FORM = {"format", "text_field", "word_field", "tag_field", "encoding"}
"""Settings of how files are written, which hold for other files of the same kind."""


@dataclass
class Opened:
    """A model with its tokenizer, and the recipe it was trained with if the folder has one.

    `pair` has the tokenizers of both sides of an encoder-decoder; `text` is then that of what it
    writes. Of a model of patches, `senses` makes them of pictures or of recordings, and there is no
    `text`; where patches stand among tokens, `readers` make them, by the type of part. A model that
    draws has the `palette` of its pictures.
    """

    folder: Path
    model: Transformer
    text: Tokenizer | None
    recipe: Recipe | None = None
    pair: PairTokenizer | None = None
    senses: ImageReader | AudioReader | None = None
    readers: dict[str, ImageReader | AudioReader] = field(default_factory=dict)
    palette: Palette | None = None

    def at(self, checkpoint: int) -> Self:
        """The same run with the weights that it had at a step of training.

        ConfigError: there is no checkpoint of that step, and which there are; CheckpointError: it
        is damaged.
        """
        weights = Checkpoints(self.folder).weights(checkpoint)
        model = Transformer(
            self.model.config, seed=None, device=next(self.model.parameters()).device
        )
        load_weights(model, weights)
        return replace(self, model=model.eval())

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; ConfigError for a model that reads no text."""
        if self.text is None:
            raise ConfigError(
                f"{self.folder} reads {self.noun}s, not text; use `glassformer classify RUN "
                f"FILE ...`."
            )
        return self.text

    @property
    def noun(self) -> str:
        """What the model is given, in a word: text, picture, recording."""
        match self.senses:
            case ImageReader():
                return "picture"
            case AudioReader():
                return "recording"
            case None:
                return "text"

    @cached_property
    def parts(self) -> PartsTokenizer:
        """The tokenizer for sequences of parts; ConfigError for a model that reads none."""
        if not self.readers:
            raise ConfigError(
                f"{self.folder} reads {self.noun}s alone, not parts of several kinds; leave "
                f"out the others."
            )
        return PartsTokenizer(self.tokenizer)

    @cached_property
    def words(self) -> WordTokenizer:
        """The tokenizer for words, with the windows that the model was trained with."""
        return WordTokenizer(self.tokenizer, *self._windows)

    @cached_property
    def sequences(self) -> SequenceTokenizer:
        """The tokenizer for whole texts and pairs, with the windows that the model was trained
        with."""
        return SequenceTokenizer(self.tokenizer, *self._windows)

    @property
    def _windows(self) -> tuple[int, int | None]:
        """The length and the overlap of windows in training."""
        if self.recipe is None:
            return self.model.config.max_length, None
        return self.recipe.train.length or self.model.config.max_length, self.recipe.data.overlap

    def tokens(self, split: str) -> TokenSplit:
        """The tokens of a split of the run's own data: as they were stored for training, else built
        from its text."""
        data = self._own_recipe().data
        stored = Path(data.store) if data.store else self.folder / "tokens"
        if (stored / "manifest.json").is_file():
            return tokens_of(Store.open(stored, tokens.KIND), split, data.documents)
        return tokens_of(store_tokens(stored, self.tokenizer, data), split, data.documents)

    def pairs(self, split: str) -> PairSplit:
        """The pairs of a split of the run's own data: as they were stored for training, else built
        from its text."""
        recipe = self._own_recipe()
        stored = Path(recipe.data.store) if recipe.data.store else self.folder / "tokens"
        if (stored / "manifest.json").is_file():
            return pairs_of(Store.open(stored, pair_split.KIND), split)
        return pairs_of(open_store(self._pair(), recipe.data, stored), split)

    def _own_recipe(self) -> Recipe:
        if self.recipe is None:
            raise ConfigError(
                f"{self.folder} has no recipe.yaml and so no data of its own; give --data PATH."
            )
        return self.recipe

    def _other(self, path: str, scratch: Path) -> TokenSplit:
        """All of another text (`-`: standard input) as one split; it is read in the form of the
        run's own text."""
        form = self.recipe.data.model_dump(include=FORM) if self.recipe else {}
        data = capture_stdin(
            DataConfig.parse({**form, "path": path, "validation_fraction": 0.0}), scratch
        )
        stored = store_tokens(scratch / "tokens", self.tokenizer, data)
        return tokens_of(stored, "train", data.documents)

    def _other_pairs(self, path: str, targets: str | None, scratch: Path) -> PairSplit:
        """All of other pairs as one split; the form of the run's own data holds for them too."""
        base = self.recipe.data if self.recipe else DataConfig()
        named = {
            "path": path,
            "target_path": targets,
            "validation_path": path,
            "validation_target_path": targets,
        }
        others = {
            "test_path": None,
            "test_target_path": None,
            "test_fraction": 0.0,
            "root": None,
            "store": None,
        }
        config = capture_stdin(DataConfig.parse(base.model_dump() | named | others), scratch)
        # read as validation pairs, whose texts are kept beside their ids
        return pairs_of(open_store(self._pair(), config, scratch / "tokens"), "validation")

    def _pair(self) -> PairTokenizer:
        if self.pair is None:
            self._has_head("lm", "translating")
            raise ConfigError(
                f"{self.folder} is a decoder, which reads no source; only an encoder-decoder "
                f"translates. Use "
                "`glassformer generate`."
            )
        return self.pair

    def _has_head(self, head: str, command: str) -> None:
        """Raise ConfigError for a model with another head."""
        own = self.model.config.head
        if own != head:
            other = {
                "tag": "`glassformer tag`",
                "classify": "`glassformer classify`",
                "lm": "`glassformer generate`",
            }
            instead = f"; it is for {other[own]}" if own in other and self.pair is None else ""
            raise ConfigError(
                f"{self.folder} has model.head={own!r}, and {command} needs {head!r}{instead}."
            )
