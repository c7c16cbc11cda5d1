"""Every example runs, in a folder of its own."""

import asyncio
import importlib.util
import json
import multiprocessing
import re
import runpy
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

import glassformer as gf
from bare_runs import write_config
from every import slow_but
from glassformer.models import ModelConfig, Transformer
from glassformer.models.weights import save_weights
from glassformer.tokenizers.definition import byte_definition
from glassformer.tokenizers.text import Tokenizer
from glassformer.training.folder.model_files import accept_changed

EXAMPLES = Path(__file__).parent.parent / "examples"


train = gf.train
SMALLER = {"model.n_layers": 1, "train.steps": 2, "train.schedule.warmup_steps": 1}
SMALLER |= {"train.sample.tokens": 0, "train.batch_size": 4, "train.evaluate.batches": 1}


def smaller(recipe: Any, changes: dict[str, Any], run: Any, **more: Any) -> gf.Run:
    """`glassformer.train` with few steps of a small model: examples are about what is around it."""
    return train(recipe, changes | SMALLER, run, **more)


@pytest.fixture
def example(monkeypatch, capsys):
    """Run an example with arguments; gives what it prints."""
    monkeypatch.setattr(gf, "train", smaller)

    def call(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return call


@pytest.fixture
def module(monkeypatch, tmp_path):
    """An example as a module, with stand-ins for the packages that it imports, and few steps; and
    a text."""
    (tmp_path / "text.txt").write_text("the cat sat on the mat and the dog ran\n" * 60)

    def load(name: str, **packages: Any) -> Any:
        for package, stand_in in packages.items():
            monkeypatch.setitem(sys.modules, package, stand_in)
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        vars(made).update(STEPS=2, EVERY=1, WIDTHS=(8, 16))
        return made

    monkeypatch.setattr(gf, "train", smaller)

    return load


def test_there_is_a_test_for_every_example():
    names = ("look_inside", "highlight", "trackers", "ray_cluster", "dask_tokens", "replica")
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*names}


def test_highlight_colours_a_file_and_changes_nothing_else(example, tmp_path):
    tokenizer = Tokenizer(byte_definition())
    config = ModelConfig(
        architecture="encoder",
        head="tag",
        classes=("O", "B-PER", "I-PER"),
        vocab_size=tokenizer.vocab_size,
        d_model=8,
        n_layers=1,
    )
    save_weights(Transformer(config), tmp_path / "model.safetensors")
    write_config(tmp_path, config)
    tokenizer.save(tmp_path / "tokenizer.json")
    accept_changed(tmp_path)
    source = "Anna went to Oslo,\n  in March (of 2004) # it is 3 m²\n"
    (tmp_path / "f.txt").write_text(source, encoding="utf-8")
    printed = example("highlight.py", tmp_path, tmp_path / "f.txt", "--html", tmp_path / "f.html")
    assert re.sub(r"\x1b\[[0-9;]*m", "", printed).endswith(source + "\n")
    assert "Oslo" in (tmp_path / "f.html").read_text(encoding="utf-8")


def test_look_inside_shows_a_pattern(example, tmp_path):
    printed = example("look_inside.py", tmp_path)
    assert "decoder.blocks.0.attention.pattern ('batch', 'head', 'query', 'key')" in printed
    rows = [[float(number) for number in line.split()[1:]] for line in printed.splitlines()[-5:]]
    assert all(
        sum(row) == pytest.approx(1, abs=0.03) for row in rows
    )  # five printed numbers of two digits each
    assert all(weight == 0 for i, row in enumerate(rows) for weight in row[i + 1 :])


@pytest.mark.parametrize("tracker", slow_but(["wandb", "mlflow"], "wandb"))
def test_a_tracker_hears_every_number_and_is_closed(module, tmp_path, tracker):
    heard: list[tuple[int, dict]] = []
    ended: list[str] = []

    @contextmanager
    def begun(**settings: Any) -> Iterator[Any]:
        yield SimpleNamespace(log=lambda numbers, step: heard.append((step, numbers)))
        ended.append("ended")

    stand_in = SimpleNamespace(
        init=begun,
        start_run=begun,
        set_tracking_uri=lambda uri: None,
        log_metrics=lambda numbers, step: heard.append((step, numbers)),
    )
    module("trackers", **{tracker: stand_in}).main(tracker, tmp_path / "text.txt", tmp_path / "run")
    lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert [step for step, _ in heard] == [line["step"] for line in lines]
    assert any("validation_loss" in numbers for _, numbers in heard)
    assert ended == ["ended"]


def test_a_cluster_trains_one_model_of_each_size(module, tmp_path, capsys):
    stand_in = SimpleNamespace(
        init=lambda **settings: None,
        shutdown=lambda: None,
        remote=lambda **settings: lambda call: SimpleNamespace(remote=call),
        get=lambda found: found,
    )
    module("ray_cluster", ray=stand_in).main(tmp_path / "text.txt", tmp_path)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()[-2:]] == [
        "d_model=8",
        "d_model=16",
    ]
    assert gf.load(tmp_path / "width-16").model.config.d_model == 16


def test_a_cluster_encodes_what_a_training_then_reads(module, tmp_path, monkeypatch, capsys):
    """By processes of its own, and special symbols stay ordinary text in them."""

    @contextmanager
    def client(scheduler: str | None) -> Iterator[Any]:
        assert scheduler == "tcp://there"
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
            executor = lambda pure: processes
            yield SimpleNamespace(ncores=lambda: {"a": 1}, get_executor=executor)

    distributed = SimpleNamespace(Client=client)
    Tokenizer(byte_definition()).save(tmp_path / "tokenizer.json")
    packages = {"dask": SimpleNamespace(), "dask.distributed": distributed}
    example = module("dask_tokens", **packages)
    small = partial(example.store_tokens, size=700)
    monkeypatch.setattr(example, "store_tokens", small)
    text, store = tmp_path / "text.txt", tmp_path / "store"
    whole = text.read_text(encoding="utf-8")
    text.write_text(whole[:-10] + "<|endoftext|>", encoding="utf-8")
    example.main(text, store, tmp_path, "tcp://there")
    said = capsys.readouterr().out
    assert said == "train: 2,108 tokens of 1 documents\nvalidation: 235 tokens of 1 documents\n"
    written = (store / "manifest.json").stat().st_mtime_ns
    changes = {"data.train.path": text, "data.store": store, "train.steps": 1, "model.d_model": 8}
    gf.train("lm", changes | {"processor.tokenizer.path": tmp_path}, tmp_path / "run")
    assert (store / "manifest.json").stat().st_mtime_ns == written


def test_a_replica_answers_with_its_own_application(module, tmp_path, monkeypatch):
    tokenizer = Tokenizer(byte_definition())
    config = ModelConfig(vocab_size=tokenizer.vocab_size, d_model=8, n_layers=1, max_length=16)
    write_config(tmp_path, config)
    save_weights(Transformer(config), tmp_path / "model.safetensors")
    tokenizer.save(tmp_path / "tokenizer.json")
    accept_changed(tmp_path)
    monkeypatch.setenv("GLASSFORMER_RUNS", str(tmp_path))
    told = []
    deployment = SimpleNamespace(
        options=lambda **options: SimpleNamespace(bind=lambda: told.append(options))
    )
    stand_in = SimpleNamespace(
        ingress=lambda builder: lambda: builder, deployment=lambda builder: deployment
    )
    example = module("replica", ray=SimpleNamespace(serve=stand_in))
    example.ingress({})
    assert told[0]["num_replicas"] == 2

    async def asked() -> Any:
        transport = httpx2.ASGITransport(example.application())
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            fields = {"model": tmp_path.name, "prompt": "a", "max_tokens": 3}
            return await client.post("/v1/completions", json=fields)

    with ThreadPoolExecutor(1) as pool:  # a browser's tests leave a loop that runs in this one
        reply = pool.submit(lambda: asyncio.run(asked())).result()
    assert reply.json()["usage"]["prompt_tokens"] == 1
