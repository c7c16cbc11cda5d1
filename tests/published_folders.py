"""Tiny tokenizers in the files of published models, one folder for each family.

`tests/tokenizers/sentencepiece.json` holds SentencePiece models of 1 to 7 KB and what the package
sentencepiece 0.2.3 made of each text: ids, and the text of the ids. They were trained by it on a
few sentences, with user symbols <x> and hello, and with the rules of replacement: no-break space,
newline and tab to space, U+FB01 to fi, U+FF11 to 1, A and U+030A to U+00C5, U+200B to nothing.
"""

import base64
import json
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer as Library
from tokenizers import models, normalizers, pre_tokenizers, trainers

TEXT = [
    "The naïve cat doesn't sleep, it sat on 12 mats — der Kater schläft nicht.",
    "Die Katze auch nicht! the theatre then, them there 你好 世界",
    "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789 .,;:!?'\"()[]<>/-_",
] * 4
FIXTURE = json.loads(
    (Path(__file__).parent / "tokenizers" / "sentencepiece.json").read_text(encoding="utf-8")
)
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
FAMILIES = ("bert", "gpt2", "roberta", "bart", "qwen2", "t5", "llama", "gemma", "xlm-roberta")


@cache
def _word_pieces() -> list[str]:
    made = Library(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(special_tokens=[*BERT], vocab_size=240, show_progress=False)
    made.train_from_iterator(TEXT, trainer)
    vocab = made.get_vocab()
    return sorted(vocab, key=vocab.__getitem__)


@cache
def _byte_pairs(symbols: tuple[str, ...]) -> tuple[dict, list]:
    made = Library(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=[*symbols],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXT, trainer)
    model = json.loads(made.to_str())["model"]
    return model["vocab"], model["merges"]


def write(folder: Path, name: str, value: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def sentencepiece(folder: Path, name: str, file: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(base64.b64decode(FIXTURE["models"][name]["model"]))
    return folder


def byte_level(folder: Path, symbols: tuple[str, ...], last: tuple[str, ...] = ()) -> Path:
    vocab, merges = _byte_pairs(symbols)
    write(folder, "vocab.json", {**vocab, **{s: len(vocab) + i for i, s in enumerate(last)}})
    lines = "".join(f"{left} {right}\n" for left, right in merges)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{lines}", encoding="utf-8")
    return folder


def published_folder(folder: Path, family: str) -> Path:
    """A folder of this family under `folder`."""
    place = folder / family
    match family:
        case "bert":
            place.mkdir(parents=True)
            (place / "vocab.txt").write_text("\n".join(_word_pieces()) + "\n", encoding="utf-8")
            write(place, "tokenizer_config.json", {"do_lower_case": True, "cls_token": "[CLS]"})
        case "gpt2":
            byte_level(place, ("<|endoftext|>",))
            roles = ("bos_token", "eos_token", "unk_token")
            write(place, "special_tokens_map.json", dict.fromkeys(roles, "<|endoftext|>"))
        case "roberta" | "bart":
            byte_level(place, ("<s>", "<pad>", "</s>", "<unk>"), ("<mask>",))
            write(place, "special_tokens_map.json", {"mask_token": {"content": "<mask>"}})
            if family == "bart":
                write(place, "config.json", {"decoder_start_token_id": 2})
        case "qwen2":
            byte_level(place, ())
            end, said = {"content": "<|endoftext|>", "special": True}, len(_byte_pairs(())[0])
            turn = {"content": "<|im_end|>", "special": True}
            added = {str(said): end, str(said + 1): turn}
            roles = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None}
            write(place, "tokenizer_config.json", {"added_tokens_decoder": added, **roles})
        case "t5":
            sentencepiece(place, "t5", "spiece.model")
            write(place, "tokenizer_config.json", {"extra_ids": 7})
            write(place, "config.json", {"decoder_start_token_id": 0})
        case "xlm-roberta":
            sentencepiece(place, family, "sentencepiece.bpe.model")
        case "llama" | "gemma":
            sentencepiece(place, family, "tokenizer.model")
    return place


def marian_folder(folder: Path) -> Path:
    """Two SentencePiece models, and one vocabulary whose ids are those of neither."""
    from glassformer.tokenizers.sentencepiece import read_sentencepiece

    sentencepiece(folder, "t5", "source.spm")
    sentencepiece(folder, "xlm-roberta", "target.spm")
    pieces = {
        p.piece
        for side in ("source", "target")
        for p in read_sentencepiece(folder / f"{side}.spm").pieces
    }
    names = [
        "</s>",
        "<unk>",
        *sorted(pieces - {"</s>", "<unk>", "<s>", "<pad>"}),
        ">>de<<",
        "<pad>",
    ]
    write(folder, "vocab.json", {name: i for i, name in enumerate(names)})
    write(folder, "config.json", {"decoder_start_token_id": names.index("<pad>")})
    return folder
