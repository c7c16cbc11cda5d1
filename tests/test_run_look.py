"""`Run.look` and `gf.look`: every kind of input is the sequence that the run's own verbs make of
it, with names."""

import copy
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
from bare_runs import bare_run
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError
from glassformer.core.manifest import new_folder
from glassformer.media.audio import AudioConfig, AudioReader
from glassformer.media.audio_file import write_wav
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.media.palette import Palette, PaletteConfig
from glassformer.models.weights import save_weights
from glassformer.processors.media.processor import MediaProcessor
from glassformer.processors.pairs import PairsProcessor
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.train import train_tokenizer
from small_runs import probabilities
from small_senses import AUDIO, tone, write_picture

pytestmark = pytest.mark.usefixtures("no_grad")
TEXT = "the cat sat on a mat, the dog ran"


def tokenizer(kind="bpe"):
    size = {"vocab_size": 280} if kind == "bpe" else {}
    return train_tokenizer(TokenizerConfig.parse({"kind": kind, **size}), [TEXT] * 3)


def run_of(tmp_path, text=None, kept=(), more=0, **changes):
    return bare_run(tmp_path, text or tokenizer(), kept, more, **changes)


def painter(tmp_path):
    palette = Palette(PaletteConfig(size=2, colours=4), np.arange(12, dtype=np.uint8).reshape(4, 3))
    return run_of(tmp_path, kept=[palette], more=4, max_length=12), palette


def labels(look):
    return [element.label for element in look.elements]


def words(elements):
    """The labels of each word's elements, joined."""
    found = {}
    for element in elements:
        if element.word is not None:
            found[element.word] = found.get(element.word, "") + element.label
    return [found[i].strip() for i in range(len(found))]


def test_running_text(tmp_path):
    run = run_of(tmp_path)
    look = run.look(TEXT[:20])
    assert "".join(labels(look)) == TEXT[:20]
    assert words(look.elements) == TEXT[:20].split()
    assert look.batch.elements.tolist() == [run.tokenizer.encode(TEXT[:20]).tolist()]
    assert (
        look.logits.shape
        == (len(look.elements), run.model.config.vocab_size)
        == (len(look.elements), len(look.names))
    )
    assert look.names[look.elements[0].id] == look.elements[0].label
    expected = [None, *(score.log_prob for score in run.score(TEXT[:20]))][1:]
    found = [float(look.probabilities(t)[e.id].log()) for t, e in enumerate(look.elements[1:])]
    assert_close(torch.tensor(found), torch.tensor(expected[1:]), rtol=1e-4, atol=1e-5)
    again = run.look([element.id for element in look.elements], [gf.edits.Scale("*.z", by=1.0)])
    assert_close(again.logits, look.logits)
    assert labels(again) == labels(look)


def test_bytes_are_readable(tmp_path):
    look = run_of(tmp_path, tokenizer("byte")).look("a\n é")
    assert labels(look) == ["a", "\n", " ", "\\xc3", "\\xa9"]
    assert [element.word for element in look.elements] == [0, None, None, 1, 1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", r"The text has no token; give at least one word"),
        (
            "cat " * 40,
            r"has \d+ elements and the model reads 32 at once; shorten it by \d+, or take a model",
        ),
        ([1, 2, 10**6], r"The input holds token id 1000000; this model's ids run from 0"),
        ([], r"no token"),
        (["cat", "dog"], r"reads a text or a list of token ids, not list"),
        (3, r"not int; give one"),
    ],
)
def test_what_the_model_does_not_read_is_one_sentence(tmp_path, given, said):
    with pytest.raises(ConfigError, match=said):
        run_of(tmp_path).look(given)


CROSSED = {"architecture": "encoder_decoder"}
TAGGING = {"architecture": "encoder", "head": "tag", "classes": ("A", "B"), "tied": False}
CLASSIFYING = {
    "architecture": "encoder",
    "head": "classify",
    "n_classes": 3,
    "pool": "mean",
    "tied": False,
}
MIXED = {"parts": {"image": 48}, "part_patches": {"image": 4}, "position": "learned"}
LONG = "cat " * 40


@pytest.mark.parametrize(
    ("changes", "given"),
    [
        ({}, lambda text: text),
        ({}, lambda text: [1] * len(text)),
        (TAGGING, lambda text: text),
        (TAGGING, lambda text: text.replace(" ", "")),
        (CLASSIFYING, lambda text: text),
        (CLASSIFYING, lambda text: ("a dog", text)),
        (CROSSED, lambda text: text),
        (CROSSED, lambda text: ("a dog", text)),
        (MIXED, lambda text: [{"image": sky()}, text]),
        (MIXED, lambda text: ([{"image": sky()}], text)),
        (MIXED | CROSSED, lambda text: [text, {"image": sky()}]),
        (MIXED | CROSSED, lambda text: ([{"image": sky()}], text)),
        ("drawing", lambda text: text),
    ],
)
def test_what_is_too_long_is_refused_before_anything_is_named(
    tmp_path, monkeypatch, changes, given
):
    if changes == "drawing":
        run, _ = painter(tmp_path)
    else:
        run = run_of(tmp_path, kept=[pictures()] if "parts" in changes else (), **changes)

    def never(*arguments, **options):
        raise AssertionError("too long is too long")

    rooms = [
        f"processors.{name}"
        for name in ("documents", "tokens.elements", "pairs", "parts", "text", "tokenized")
    ]
    for room in (*rooms, "tasks.objectives.pixels"):
        for name in {"token_words", "token_elements"} & vars(
            import_module(f"glassformer.{room}")
        ).keys():
            monkeypatch.setattr(f"glassformer.{room}.{name}", never)
    monkeypatch.setattr(MediaProcessor, "patch_elements", never)
    with pytest.raises(
        ConfigError,
        match=r"has \d+ elements and the model reads \d+ at once; shorten it by \d+, or",
    ):
        run.look(given(LONG))


def test_words_and_their_tags(tmp_path):
    run = run_of(tmp_path, architecture="encoder", head="tag", classes=("A", "B", "C"), tied=False)
    look = run.look(["the", "cat", "ran"])
    assert words(look.elements) == ["the", "cat", "ran"]
    assert (look.elements[0].kind, look.elements[-1].kind) == ("special", "special")
    assert look.names == ("A", "B", "C")
    last = {
        element.word: place
        for place, element in enumerate(look.elements)
        if element.word is not None
    }
    found = [
        (word, look.names[int(look.probabilities(last[i]).argmax())])
        for i, word in enumerate(["the", "cat", "ran"])
    ]
    assert found == run.tag(["the", "cat", "ran"])
    assert torch.equal(run.look("the cat ran").logits, look.logits)
    with pytest.raises(ConfigError, match="the model reads 32 at once"):
        run.look("cat" * 60)  # one word, of which `tag` would read the beginning and the end
    with pytest.raises(ConfigError, match="none were given"):
        run.look(" ")


def test_texts_and_pairs_with_a_class(tmp_path):
    run = run_of(
        tmp_path,
        architecture="encoder",
        head="classify",
        n_classes=3,
        pool="mean",
        tied=False,
        n_token_types=2,
    )
    for given in ("the cat", ("the cat", "a mat ran")):
        look = run.look(given)
        assert_close(look.probabilities(), torch.from_numpy(probabilities(run, [given])[0]))
    assert words(look.elements) == ["the", "cat", "a", "mat", "ran"]
    assert look.names == ("0", "1", "2")
    assert look.batch.token_type_ids is not None
    with pytest.raises(ConfigError, match="a text or a pair of texts, not tuple"):
        run.look(("a", "b", "c"))


def test_a_source_and_a_target(tmp_path):
    text = tokenizer()
    pair = PairTokenizer(text, text, "to: ")
    run = run_of(tmp_path, text, architecture="encoder_decoder")
    processor = PairsProcessor(pair, run.processor.facts)
    run = replace(run, task=type(run.task)(run.task.kind, run.task.recipe, processor, tmp_path))
    look = run.look(("the cat", "a dog ran"))
    assert "".join(labels(look)[1:]) == "a dog ran"
    assert (look.elements[0].id, look.source_elements[-1].id) == (pair.bos, pair.eos)
    assert words(look.elements) == ["a", "dog", "ran"]
    assert words(look.source_elements) == ["the", "cat"]  # the prefix is no word of the text
    (expected,) = run.score_pairs([("the cat", "a dog ran")])
    targets = pair.target_ids("a dog ran").tolist()
    found = [float(look.probabilities(t)[token].log()) for t, token in enumerate(targets)]
    assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-4, atol=1e-5)
    assert look.pattern(1, 2, site="cross").shape == (len(look.elements), len(look.source_elements))
    alone = run.look("the cat")
    assert [element.id for element in alone.elements] == [pair.bos]
    ids = [element.id for element in look.source_elements]
    assert torch.equal(run.look((ids, [pair.bos])).logits, alone.logits)
    assert torch.equal(run.look(ids).logits, alone.logits)
    with pytest.raises(ConfigError, match=r"The source has .* elements and the model reads 32"):
        run.look(("cat " * 40, "a"))
    with pytest.raises(ConfigError, match="The source holds token id 9999"):
        run.look(([9999], "a"))


def pictures():
    values = {"size": 8, "channels": 3, "patch": 4, "mean": (0.5,) * 3, "std": (0.25,) * 3}
    return ImageReader(ImageConfig.parse(values))


def sky():
    return np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)


SENSING = {
    "architecture": "encoder",
    "elements": "patches",
    "head": "classify",
    "pool": "first",
    "classes": ("day", "night"),
    "tied": False,
    "max_length": 4,
}


def test_a_picture(tmp_path):
    choices = {**SENSING, "patch_width": 48, "grid": (2, 2), "n_registers": 2}
    run = run_of(tmp_path, kept=[pictures()], **choices)
    look = run.look(sky())
    learned = ["[class]", "[register 1]", "[register 2]"]
    assert labels(look) == [*learned, "patch 0,0", "patch 0,1", "patch 1,0", "patch 1,1"]
    assert [(element.row, element.column) for element in look.elements[3:]] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert {element.kind for element in look.elements} == {"class", "register", "image"}
    assert_close(look.probabilities(), torch.from_numpy(probabilities(run, [sky()])[0]))
    file = write_picture(tmp_path / "sky.png", sky())
    assert torch.equal(run.look(file).logits, look.logits)
    assert look.names == ("day", "night")
    with pytest.raises(DataError, match="a file or pixels uint8"):
        run.look(sky()[..., 0])


def test_a_recording(tmp_path):
    reader = AudioReader(AudioConfig.parse(AUDIO | {"mean": (0.0,) * 16, "std": (1.0,) * 16}))
    run = run_of(tmp_path, kept=[reader], **SENSING, patch_width=40)
    samples = tone(400.0, np.random.default_rng(0))
    look = run.look((samples, 8000))
    assert labels(look)[1:] == [
        "frame 0, band 0",
        "frame 0, band 8",
        "frame 5, band 0",
        "frame 5, band 8",
    ]
    assert {element.kind for element in look.elements} == {"class", "audio"}
    assert_close(look.probabilities(), torch.from_numpy(probabilities(run, [(samples, 8000)])[0]))
    (tmp_path / "tone.wav").write_bytes(write_wav(samples, 8000))
    assert run.look(tmp_path / "tone.wav").logits.shape == (2,)


@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_parts_in_their_order(tmp_path, architecture):
    own = {
        "parts": {"image": 48},
        "part_patches": {"image": 4},
        "position": "learned",
        "architecture": architecture,
    }
    run = run_of(tmp_path, kept=[pictures()], **own)
    given = [{"image": sky()}, "what is the cat", {"text": "a mat"}]
    look = run.look((given, "the dog"))
    read = look.source_elements if architecture == "encoder_decoder" else look.elements
    assert [element.label for element in read[:5]] == [
        "<bos>",
        "patch 0,0",
        "patch 0,1",
        "patch 1,0",
        "patch 1,1",
    ]
    assert read[1].id is None
    everything = (
        words(look.elements) if read is look.elements else words(read) + words(look.elements)
    )
    assert everything[:2] == ["what", "is"]
    assert everything[-2:] == ["the", "dog"]
    asked = run.look(given)
    first = run.predict(given, max_new_tokens=1, temperature=0)
    assert first.ids[:1] in ([int(asked.logits[-1].argmax())], [])  # [] where the end is likeliest
    assert run.look(sky()).logits.isfinite().all()
    with pytest.raises(ConfigError, match=r"has \d+ elements and the model reads 32"):
        run.look([{"image": sky()}, "cat " * 40])
    with pytest.raises(DataError, match="a part was given as audio"):
        run.look([{"audio": "x.wav"}])


def test_what_is_to_be_drawn(tmp_path):
    run, palette = painter(tmp_path)
    text = run.tokenizer
    look = run.look("a cat")
    assert len(look.elements) == 12 - 4 + 1  # behind it stands the first pixel
    assert look.names[text.vocab_size :] == ("#000102", "#030405", "#060708", "#090a0b")
    first = look.logits[-1, text.vocab_size :].argmax()
    drawn = run.draw("a cat", temperature=0)
    assert drawn[0, 0].tolist() == palette.colours[int(first)].tolist()
    pixels = run.look([*(element.id for element in look.elements), text.vocab_size + 2])
    assert (pixels.elements[-1].label, pixels.elements[-1].kind) == ("#060708", "image")
    with pytest.raises(ConfigError, match=r"The prompt has .* elements and the model reads 9"):
        run.look("cat dog mat " * 9)


def test_a_look_at_a_folder_and_at_a_model_alone(tmp_path):
    run = run_of(tmp_path)
    look = gf.look(tmp_path, "the cat")
    assert torch.equal(look.logits, run.look("the cat").logits)
    assert torch.equal(gf.look(run, "the cat").logits, look.logits)
    ids = [element.id for element in look.elements]
    alone = gf.look(run.model, ids, [gf.edits.Zero("*.0.attention.z", head=1)])
    assert labels(alone) == [str(i) for i in ids]
    assert not torch.allclose(alone.logits, look.logits)
    assert torch.equal(gf.look(run.model, Batch(torch.tensor([ids]))).logits, look.logits)
    stirred = copy.deepcopy(run.model)
    for parameter in stirred.parameters():
        parameter.add_(0.1)
    with pytest.raises(
        ConfigError, match=rf"There is no checkpoint of step 40 in {tmp_path}; it has none"
    ):
        gf.load(tmp_path, checkpoint=40)
    for step, model in ((10, stirred), (20, run.model)):
        with new_folder(tmp_path / f"checkpoints/step-{step:08}") as folder:
            save_weights(model, folder / "model.safetensors")
            for other in ("optimizer.safetensors", "state.json"):
                (folder / other).touch()
    earlier = replace(run, model=stirred).look("the cat")
    for what in (run, tmp_path, str(tmp_path)):
        assert torch.equal(gf.look(what, "the cat", checkpoint=10).logits, earlier.logits)
        assert torch.equal(gf.look(what, "the cat", checkpoint=20).logits, look.logits)
        with pytest.raises(
            ConfigError, match=rf"There is no checkpoint of step 15 in {tmp_path}; it has 10, 20\."
        ):
            gf.look(what, "the cat", checkpoint=15)
    assert torch.equal(gf.load(tmp_path, checkpoint=10).look("the cat").logits, earlier.logits)
    assert torch.equal(run.look("the cat").logits, look.logits)
    with pytest.raises(ConfigError, match="checkpoint=10 was given, and a model alone has none"):
        gf.look(run.model, ids, checkpoint=10)
    with pytest.raises(gf.GlassformerError, match="never fired"):
        gf.look(run, "the cat", [gf.edits.Zero("*.attention.zz")])
    for what, given, said in (
        (
            run.model,
            "the cat",
            "A model alone reads token ids or a Batch, not 'the cat'; look at its run",
        ),
        (run.model, [10**6], "The input holds token id 1000000"),
        (
            torch.nn.Identity(),
            "the cat",
            "A look is at a run, at its folder or at a Transformer, not at Identity",
        ),
        (tmp_path / "nowhere", "the cat", "is not a folder"),
    ):
        with pytest.raises(gf.GlassformerError, match=said):
            gf.look(what, given)
