"""Short programs that run an exported folder with onnxruntime and tokenizers alone."""

from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageReader
from glassformer.tasks.task import Task

OPENED = """\
import json
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
{imports}
about = json.loads(Path("config.json").read_text("utf-8"))
"""
TOKENIZER = """\
tokenizer = Tokenizer.from_file("tokenizer.json")
"""
TEXTS = """\
texts = {texts}
tokenizer.enable_padding()
encoded = tokenizer.encode_batch(texts)
"""
WORDS = """\
sentences = [["The", "cat", "sleeps"], ["Dogs", "run"]]
tokenizer.enable_padding()
spaced = [["{space}" + word for word in words] for words in sentences]
encoded = tokenizer.encode_batch(spaced, is_pretokenized=True)
"""
ENCODER = """\
given = {
    "input_ids": np.array([one.ids for one in encoded]),
    "attention_mask": np.array([one.attention_mask for one in encoded]),
}
"""
KINDS = """\
given["token_type_ids"] = np.array([one.type_ids for one in encoded])
"""
MODEL = """\
model = InferenceSession("model.onnx")
found = model.run(None, given)[0]
"""
CLASSES = """\
for scores in found:
    print(about["classes"][scores.argmax()])
"""
LABELS = """\
for scores in found:
    print([name for name, score in zip(about["classes"], scores) if score > 0])
"""
TAGS = """\
for words, one, scores in zip(sentences, encoded, found):
    places = {{}}
    for place, word in {places}:
        places[word] = place  # of the {piece} piece of each word
    print([(word, about["classes"][scores[places[i]].argmax()]) for i, word in enumerate(words)])
"""
FILLED = """\
for one, scores in zip(encoded, found):
    best = scores.argmax(-1).tolist()
    mask = about["specials"]["mask"]
    print([tokenizer.decode([best[i]]) for i, token in enumerate(one.ids) if token == mask])
"""
VECTORS = """\
print(found / np.linalg.norm(found, axis=1, keepdims=True))
"""
STREAM = """\
real = given["attention_mask"][..., None]
vectors = (found * real).sum(1) / real.sum(1)
print(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
"""
PATCHES = """\
vectors = found.mean(1)
print(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
"""
IMAGE = """\
image = Image.open("photo.png").convert("{mode}")
{resized}given = {{"pixels": np.asarray(image).reshape(1, {height}, {width}, {channels})}}
"""
SHORTER = """\
wide, high = ({side} * one // min(image.size) for one in image.size)
image = image.resize((wide, high), {how})
left, top = (wide - {width}) // 2, (high - {height}) // 2
image = image.crop((left, top, left + {width}, top + {height}))
"""
AUDIO = """\
samples = np.zeros((1, {samples}), np.float32)  # one channel, {rate} samples a second
features = InferenceSession("features.onnx")
given = {{"patches": features.run(None, {{"samples": samples}})[0]}}
"""
PROMPT = """\
ids = tokenizer.encode("The").ids
model, given = InferenceSession("model.onnx"), {}
"""
SOURCE = """\
source = tokenizer.encode(about["prefix"] + "A dog runs.").ids
source_given = {{"input_ids": np.array([source]), "attention_mask": np.ones((1, len(source)), int)}}
{kinds}encoder, model = InferenceSession("encoder.onnx"), InferenceSession("decoder.onnx")
memory = encoder.run(None, source_given)
given = {{port.name: values for port, values in zip(encoder.get_outputs(), memory)}}
given["encoder_attention_mask"] = source_given["attention_mask"]
ids = [about["begin"]]
"""
GENERATED = """\
past = [port for port in model.get_inputs() if port.name.startswith("past_key_values")]
given |= {{port.name: np.zeros((1, port.shape[1], 0, port.shape[3]), np.float32) for port in past}}
new, written = ids, []
while len(written) < 20 and len(ids) < about["max_length"]:
    given |= {{"input_ids": np.array([new]), "attention_mask": np.ones((1, len(ids)), int)}}
{kinds}    logits, *present = model.run(None, given)
    given |= {{port.name: values for port, values in zip(past, present)}}
    new = [int(logits[0, -1].argmax())]
    if new[0] == about["specials"].get("eos"):
        break
    ids, written = ids + new, written + new
print({tokenizer}.decode(written))
"""


def snippet(task: Task) -> str:
    """The program for a model of this task."""
    model, reader = task.recipe.model, task.processor.reader
    if isinstance(reader, ImageReader):
        imports = "from PIL import Image, ImageOps\n"
        parts = [OPENED.format(imports=imports), _image(reader), MODEL, _shown(task)]
    elif isinstance(reader, AudioReader):
        c = reader.config
        given = AUDIO.format(samples=c.n_samples, rate=c.rate)
        parts = [OPENED.format(imports=""), given, MODEL, _shown(task)]
    else:
        imports = "from tokenizers import Tokenizer\n"
        given = _generated(task) if model.predicts_next else _encoded(task)
        parts = [OPENED.format(imports=imports) + TOKENIZER, *given]
    return "\n".join(parts)


def _encoded(task: Task) -> list[str]:
    model, processor = task.recipe.model, task.processor
    kinds = KINDS if model.n_token_types else ""
    if processor.facts.per_word:
        given = WORDS.format(space=processor.tokenizer.word_space)
    else:
        texts = [("A dog runs.", "A dog sleeps.")] if processor.facts.paired else ["A dog runs."]
        if model.predicts_words:
            mask = processor.tokenizer.symbol(processor.tokenizer.specials["mask"])
            texts = [f"A dog{mask} ."]
        given = TEXTS.format(texts=texts)
    return [given + ENCODER + kinds, MODEL, _shown(task)]


def _shown(task: Task) -> str:
    """What is printed."""
    model = task.recipe.model
    if model.gives_vectors:
        if model.one_output:
            return VECTORS
        return PATCHES if model.reads_patches else STREAM
    if model.predicts_words:
        return FILLED
    if model.one_output:
        return LABELS if model.multi_label else CLASSES
    return _tags(task.processor.facts.tag_piece)


def _tags(piece: str) -> str:
    forward = "enumerate(one.word_ids)"
    places = forward if piece == "last" else f"reversed(list({forward}))"
    return TAGS.format(piece=piece, places=places)


def _generated(task: Task) -> list[str]:
    model, processor = task.recipe.model, task.processor
    types = '{0}["token_type_ids"] = np.zeros_like({0}["input_ids"])\n' * bool(model.n_token_types)
    if model.architecture == "decoder":
        kinds = types and "    " + types.format("given")
        return [PROMPT, GENERATED.format(tokenizer="tokenizer", kinds=kinds)]
    source = SOURCE.format(kinds=types.format("source_given"))
    if processor.reader.tokenizer.fingerprint == processor.tokenizer.fingerprint:
        return [source, GENERATED.format(tokenizer="tokenizer", kinds="")]
    other = 'target_tokenizer = Tokenizer.from_file("target_tokenizer.json")\n'
    return [other + source, GENERATED.format(tokenizer="target_tokenizer", kinds="")]


def _image(reader: ImageReader) -> str:
    (height, width, channels), config = reader.shape, reader.config
    how, to = f"Image.Resampling.{config.interpolation.upper()}", config.resize_to
    tall, wide = (to, to) if isinstance(to, int) else to or (height, width)
    left, top = (wide - width) // 2, (tall - height) // 2
    cut = "" if to is None else f".crop(({left}, {top}, {left + width}, {top + height}))"
    resized = {
        "stretch": f"image = image.resize(({wide}, {tall}), {how}){cut}\n",
        "crop": f"image = ImageOps.fit(image, ({width}, {height}), {how})\n",
        "pad": f"image = ImageOps.pad(image, ({width}, {height}), {how})\n",
    }[config.resize]
    if config.resize == "crop" and to is not None:
        resized = SHORTER.format(side=to, how=how, width=width, height=height)
    mode = "L" if channels == 1 else "RGB"
    return IMAGE.format(mode=mode, resized=resized, height=height, width=width, channels=channels)
