"""Greedy decoding here beside its peers, one text at a time on the CPU.

    python bench/decode_vs_peers.py --tokenizer FOLDER [--threads 2] [--prompt 128] [--new 128]
        [--bits fp32,fp16,bf16,int8,int4] [--peers llama.cpp,ctranslate2,onnxruntime] [--no-compile]

A model of the shape of GPT-2 (124 million parameters) with random weights, in float32 and with
matrices of fewer bits, decoded by the compiled step unless --no-compile is given. FOLDER has its
tokenizer: vocab.json and merges.txt, encoder.json and vocab.bpe, or tokenizer.json. transformers
takes part as it is by default, and those that are installed of llama.cpp (its Python binding),
CTranslate2 (the formats that it has on this processor) and ONNX Runtime (the graph of `glassformer
export`; with onnx_ir, its matrices in blocks of 32 numbers of 8 and 4 bits too), at the same number
of bits. Prints one JSON object: the processor; tokens a second of the prompt (prefill) and of the
answer (decode), medians of rounds A B A B ...; for each of ours, how many times the rate of each
peer at the same bits and of transformers that is, and its share of the ceiling, the rate at which
memory is read (the sum of 1 GB, in each round) over the bytes of weights. More than one library
with threads of its own in a process slows some: with one of --peers at a time they are faster.
"""

import argparse
import ctypes
import json
import logging
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import transformers

import glassformer as gf
from glassformer.layers.linear.linear import Linear
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import decode

FILES = {
    "vocab.json": "vocab.json",
    "merges.txt": "merges.txt",
    "encoder.json": "vocab.json",  # as GPT-2 was first published
    "vocab.bpe": "merges.txt",
    "tokenizer.json": "tokenizer.json",
}
THEIRS = {"fp32": "f32", "fp16": "f16", "bf16": "f16", "int8": "q8_0", "int4": "q4_0"}
"""Our formats, and those of llama.cpp with as many bits."""
PEERS = {
    "llama.cpp": THEIRS,
    "ctranslate2": {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "int8": "int8"},
    "onnxruntime": {"fp32": "fp32", "int8": "int8", "int4": "int4"},
}
"""Formats of each peer with as many bits as ours."""
Answer = Callable[[Sequence[int], int], list[int]]
"""So many greedy tokens behind those of a prompt."""


def published(folder: Path, tokenizer: Path) -> Path:
    """A folder with random weights of GPT-2's shape and this tokenizer."""
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    model.save_pretrained(folder)
    for name, target in FILES.items():
        if (tokenizer / name).is_file():
            shutil.copy(tokenizer / name, folder / target)
    return folder


def ours(run: gf.Run) -> Answer:
    def answer(prompt: Sequence[int], n: int) -> list[int]:
        config = GenerateConfig.parse({"temperature": 0.0, "max_new_tokens": n})
        return [step.ids[0] for step in decode(run.model, [list(prompt)], config)]

    return answer


def peer(folder: Path) -> Answer:
    """transformers with its own cache, as `generate` is by default."""
    model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()

    def answer(prompt: Sequence[int], n: int) -> list[int]:
        ids = torch.tensor([list(prompt)])
        made = model.generate(  # pyright: ignore[reportAttributeAccessIssue]
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            min_new_tokens=n,
            max_new_tokens=n,
            pad_token_id=0,
        )
        return made[0, len(prompt) :].tolist()

    return answer


def in_format(file: Path, kind: str) -> Path:
    """The file of a model in another format of llama.cpp, beside it."""
    import llama_cpp  # pyright: ignore[reportMissingImports]

    if kind == "f32":
        return file
    path = file.with_name(f"{kind}.gguf")
    how = llama_cpp.llama_model_quantize_default_params()
    how.ftype = {"f16": 1, "q8_0": 7, "q4_0": 2}[kind]  # its enum llama_ftype
    llama_cpp.llama_model_quantize(str(file).encode(), str(path).encode(), ctypes.byref(how))
    return path


def llama_side(file: Path, kind: str, threads: int, room: int) -> Answer:
    """llama.cpp on the same weights, in a format of its own."""
    import llama_cpp  # pyright: ignore[reportMissingImports]

    model = llama_cpp.Llama(
        str(in_format(file, kind)),
        n_ctx=room,
        n_batch=room,
        n_threads=threads,
        n_threads_batch=threads,
        verbose=False,
    )

    def answer(prompt: Sequence[int], n: int) -> list[int]:
        model.reset()
        made = []
        for token in model.generate(list(prompt), temp=0.0, repeat_penalty=1.0):
            made.append(token)
            if len(made) == n:
                return made
        return made

    return answer


def ctranslate2_sides(folder: Path, threads: int) -> dict[str, Answer]:
    """CTranslate2 in every format that it has here."""
    import ctranslate2

    gf.export_run(folder, "ctranslate2", converted := folder.parent / "ctranslate2", check=False)
    names = json.loads((converted / "vocabulary.json").read_text(encoding="utf-8"))

    def side(kind: str) -> Answer:
        model = ctranslate2.Generator(
            str(converted), compute_type=kind, inter_threads=1, intra_threads=threads
        )

        def answer(prompt: Sequence[int], n: int) -> list[int]:
            text = [names[i] for i in prompt]
            lengths = {"min_length": n, "max_length": n}
            (made,) = model.generate_batch([text], include_prompt_in_result=False, **lengths)
            return made.sequences_ids[0]

        return answer

    known = ctranslate2.get_supported_compute_types("cpu")
    return {kind: side(kind) for kind in PEERS["ctranslate2"].values() if kind in known}


def in_blocks(file: Path, bits: int) -> Path:
    """A graph whose matrices have 8 or 4 bits (of the head 8, as ours), beside it."""
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    logging.getLogger(MatMulNBitsQuantizer.__module__).setLevel(logging.WARNING)
    model = onnx.load(str(file))
    graph = model.graph
    weights = {one.name: one for one in graph.initializer}
    (head,) = [one for one in graph.node if one.op_type == "Transpose" and one.input[0] in weights]
    matrix = onnx.numpy_helper.to_array(weights[head.input[0]]).T.copy()
    graph.initializer.append(onnx.numpy_helper.from_array(matrix, head.output[0]))
    graph.node.remove(head)
    products = [one for one in graph.node if one.op_type == "MatMul"]
    others = [one.name for one in products if head.output[0] not in one.input]
    steps = [(8, [])] if bits == 8 else [(8, others), (4, [])]
    for width, left_out in steps:
        made = MatMulNBitsQuantizer(
            model,
            width,
            block_size=32,
            is_symmetric=True,
            accuracy_level=4,  # activations of 8 bits
            nodes_to_exclude=left_out,
        )
        made.process()
        model = made.model.model  # pyright: ignore[reportAttributeAccessIssue]
    onnx.save(model, path := file.with_name(f"int{bits}.onnx"))
    return path


def onnx_side(file: Path, threads: int) -> Answer:
    """ONNX Runtime on a graph with past keys and values, which stay where it wrote them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    model = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    past = [one for one in model.get_inputs() if one.name.startswith("past_")]
    outputs = [one.name for one in model.get_outputs()]
    of_numpy = onnxruntime.OrtValue.ortvalue_from_numpy

    def answer(prompt: Sequence[int], n: int) -> list[int]:
        kept = [of_numpy(np.zeros((1, one.shape[1], 0, one.shape[3]), np.float32)) for one in past]
        ids, made = list(prompt), list[int]()
        while len(made) < n:
            mask = np.ones((1, len(prompt) + len(made)), np.int64)
            given = {"input_ids": of_numpy(np.array([ids])), "attention_mask": of_numpy(mask)}
            given |= dict(zip([one.name for one in past], kept, strict=True))
            logits, *kept = model.run_with_ort_values(outputs, given)
            ids = [int(logits.numpy()[0, -1].argmax())]
            made += ids
        return made

    return answer


def onnx_sides(folder: Path, threads: int) -> dict[str, Answer]:
    """ONNX Runtime in float32 and with matrices in blocks."""
    gf.export_run(folder, "onnx", place := folder.parent / "onnx", check=False)
    files = {"fp32": place / "model.onnx"}
    if find_spec("onnx_ir"):
        files |= {f"int{bits}": in_blocks(files["fp32"], bits) for bits in (8, 4)}
    return {kind: onnx_side(file, threads) for kind, file in files.items()}


def timed(answer: Answer, prompt: Sequence[int], n: int) -> float:
    begin = time.perf_counter()
    made = answer(prompt, n)
    seconds = time.perf_counter() - begin
    assert len(made) == n, f"{len(made)} tokens in place of {n}"
    return seconds


def bandwidth() -> float:
    """Bytes a second that a sum over 1 GB reads, the best of five."""
    numbers, times = torch.ones(1 << 28), []
    for _ in range(5):
        begin = time.perf_counter()
        numbers.sum()
        times.append(time.perf_counter() - begin)
    return numbers.nbytes / min(times)


def weight_bytes(run: gf.Run, bits: str) -> float:
    """Bytes of the matrices that a step reads: those of the blocks and of the head.

    With 4 bits, a group of 32 numbers has two more of 16 bits, and the head has 8 bits.
    """
    head = run.model.embed.element.weight.numel()  # pyright: ignore[reportCallIssue]
    linear = [one for one in run.model.modules() if isinstance(one, Linear)]
    blocks = sum(one.in_features * one.out_features for one in linear)
    each, of_head = {"fp32": (32, 32), "int8": (8, 8), "int4": (5, 8)}.get(bits, (16, 16))
    return (blocks * each + head * of_head) / 8


def all_sides(place: Path, given: argparse.Namespace, bits: list[str]) -> dict[str, Answer]:
    """Every side by its name."""
    folder = published(place / "published", given.tokenizer)
    sides = {}
    for one in bits:
        packed = None if one == "fp32" else one
        sides[one] = ours(gf.load(folder, quantize=packed, compile=not given.no_compile))
    sides["transformers"] = peer(folder)
    takes_part = lambda name, *modules: name in given.peers and all(map(find_spec, modules))
    found: dict[str, dict[str, Answer]] = {}
    if takes_part("llama.cpp", "llama_cpp"):
        gf.export_run(folder, "gguf", place / "gguf", check=False)
        file, room = place / "gguf" / "model.gguf", given.prompt + given.new + 1
        kinds = dict.fromkeys(THEIRS[one] for one in bits)
        found["llama.cpp"] = {one: llama_side(file, one, given.threads, room) for one in kinds}
    if takes_part("ctranslate2", "ctranslate2"):
        found["ctranslate2"] = ctranslate2_sides(folder, given.threads)
    if takes_part("onnxruntime", "onnxruntime", "onnx"):
        found["onnxruntime"] = onnx_sides(folder, given.threads)
    for name, own in found.items():
        wanted = [kind for bit, kind in PEERS[name].items() if bit in bits]
        sides |= {f"{name} {kind}": side for kind, side in own.items() if kind in wanted}
    return sides


def measured(
    sides: dict[str, Answer], given: argparse.Namespace
) -> tuple[dict[str, dict[str, float]], float]:
    """Tokens a second of each side, in turn: `prefill` and `decode`; bytes a second that are
    read meanwhile."""
    prompt = torch.randint(50_000, (given.prompt,)).tolist()
    for answer in sides.values():
        timed(answer, prompt, 2)
    rates: dict[str, dict[str, list[float]]] = {
        what: {name: [] for name in sides} for what in ("prefill", "decode")
    }
    reads = list[float]()
    for _ in range(given.rounds):
        reads.append(bandwidth())
        for name, answer in sides.items():
            first = timed(answer, prompt, 1)
            whole = timed(answer, prompt, given.new + 1)
            rates["prefill"][name].append(given.prompt / first)
            rates["decode"][name].append(given.new / (whole - first))
    middle = {
        what: {name: statistics.median(own) for name, own in found.items()}
        for what, found in rates.items()
    }
    return middle, statistics.median(reads)


def flags() -> list[str]:
    """Instruction sets that kernels here depend on, of this processor."""
    known = ("avx2", "avx512", "avx512_bf16", "vnni", "amx_tile")
    return [one for one in known if getattr(torch.cpu, f"_is_{one}_supported")()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--bits", default=",".join(THEIRS), help="Ours, separated by commas.")
    parser.add_argument("--peers", default=",".join(PEERS), help="Beside transformers.")
    given = parser.parse_args()
    bits = given.bits.split(",")
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as place:
        sides = all_sides(Path(place), given, bits)
        run = gf.load(Path(place, "published"))
        rates, read = measured(sides, given)
    decode_rates, times = rates["decode"], {}
    for one in bits:
        others = {"transformers": "transformers"}
        others |= {name: f"{name} {kinds[one]}" for name, kinds in PEERS.items() if one in kinds}
        times[one] = {
            f"{what} of {name}": round(own[one] / own[side], 2)
            for what, own in rates.items()
            for name, side in others.items()
            if side in own
        }
        ceiling = read / weight_bytes(run, one)
        times[one]["decode of the ceiling"] = round(decode_rates[one] / ceiling, 2)
    print(
        json.dumps(
            {
                "threads": given.threads,
                "compiled": not given.no_compile,
                "instructions": flags(),
                "load": os.getloadavg()[0],
                "read_gb_per_second": round(read / 1e9, 1),
                "tokens_per_second": {
                    what: {name: round(rate, 1) for name, rate in own.items()}
                    for what, own in rates.items()
                },
                "times": times,
            }
        )
    )


if __name__ == "__main__":
    main()
