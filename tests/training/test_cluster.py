"""The plan of many machines: what it counts is what real processes hold and send."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import tiny
from divided_checks import CASES, LENGTH, ROWS
from glassformer.core.errors import ConfigError
from glassformer.models import Transformer
from glassformer.models.presets import llama
from glassformer.training.parallel.sharding import AXES, build_mesh, divide
from glassformer.training.plan.cluster import (
    Hardware,
    _memory_of_training,
    one_of,
    plan_cluster,
)
from glassformer.training.plan.collectives import Collective, Part, collectives
from small_runs import recipe
from torchrun import MESHES, launched

SEVEN = 6_738_415_616


def large(folder, **train):
    """A run of Llama 2 7B, without data."""
    return replace(recipe(folder, data={"train.path": None}, train=train), model=llama("7b"))


def test_the_plan_of_7_billion_on_4096_gpus(tmp_path):
    made = large(tmp_path, batch_size=4096, **{"distributed.shard": 8})
    plan = plan_cluster(made, 512, 8)
    assert plan.mesh == {"replicate": 512, "shard": 8, "tensor": 1}
    assert plan.parameters == SEVEN
    assert plan.memory["parameters"] == plan.memory["gradients"] == 4 * SEVEN // 8
    assert plan.memory["optimizer"] == 8 * SEVEN // 8 + 4 * 291  # steps of so many parameters
    sent = {(one.operation, one.axis): one for one in plan.collectives}
    head = 2 * 32_000 * 4096 + 4096
    assert sent["all-gather", "shard"].bytes == 4 * (2 * SEVEN - head)
    assert sent["all-gather", "shard"].calls == 2 * 32 + 1
    assert sent["reduce-scatter", "shard"].bytes == 4 * SEVEN
    assert sent["all-reduce", "replicate"].bytes == 4 * SEVEN // 8
    assert plan.checkpoint["whole"] == pytest.approx(12 * SEVEN, rel=1e-6)
    assert plan.failures["blocking"].interval == pytest.approx(1635, rel=0.001)
    assert json.loads(json.dumps(plan.as_json(), allow_nan=False))["parameters"] == SEVEN
    assert "512 machines with 8 GPUs, 4,096 in all: replicate 512 x shard 8" in plan.as_text()


def test_tensors_divide_memory_and_cost_time(tmp_path):
    one, eight = (
        plan_cluster(
            large(
                tmp_path,
                batch_size=512,
                micro_batches=512,  # one sequence in each
                **{"distributed.shard": 8, "distributed.tensor": tensor},
            ),
            64,
        )
        for tensor in (1, 8)
    )
    assert (one.micro_batches, eight.micro_batches) == (1, 8)
    assert eight.memory["activations"] < one.memory["activations"]
    assert one.seconds["sending activations"] == 0 < eight.seconds["sending activations"]
    sent = {one.operation: one for one in eight.collectives if one.axis == "tensor"}
    assert sent["all-reduce"].calls == 4 * 32 * 8
    assert sent["all-reduce"].bytes == 4 * 32 * 8 * 4096 * 4096 * 4
    copies = 2 * 32_000 * 4096 + 65 * 4096  # embedding, head, norms
    assert (sent["broadcast"].calls, sent["broadcast"].bytes) == (1, 4 * copies // 8)


def test_slower_machines_take_longer(tmp_path):
    made = large(tmp_path, batch_size=512)  # replicas of the whole model
    fast, slow = (plan_cluster(made, 64, 8, hardware=Hardware(inter=i)) for i in (50e9, 5e9))
    assert slow.step_seconds > fast.step_seconds
    assert slow.memory == fast.memory
    assert "too much (raise train.distributed.shard)" in fast.as_text()


def test_what_passes_through_each_process_of_a_ring():
    passing = lambda operation: Collective("x", operation, "shard", 1, 12).passing(4)
    assert [passing("all-gather"), passing("all-reduce"), passing("broadcast")] == [9, 18, 12]


def test_what_cannot_be_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"batch_size=4 cannot be divided among 16 processes"):
        plan_cluster(large(tmp_path), 2, 8)
    with pytest.raises(ConfigError, match=r"shard=3 times tensor=1 does not divide the 16"):
        plan_cluster(large(tmp_path, **{"distributed.shard": 3}), 2, 8)
    with pytest.raises(ConfigError, match=r"hardware\.mfu: .* got 2"):
        Hardware.parse({"mfu": 2})


def test_the_scripts_of_the_page_can_be_read():
    """The sbatch file by bash, the manifest as YAML, and the same torchrun options in both."""
    page = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    (script,) = [one for one in blocks if one.startswith("#!/bin/bash")]
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    (manifest,) = [one for one in blocks if one.startswith("apiVersion")]
    service, job = yaml.safe_load_all(manifest)
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert f"{job['metadata']['name']}-0.{pod['subdomain']}" in " ".join(
        pod["containers"][0]["args"]
    )
    flags = lambda text: set(re.findall(r"--[a-z][a-z-]*", text))
    ours = {"--run", "--requeue", "--resume"}
    used = flags(" ".join(pod["containers"][0]["args"])) - ours
    assert used == flags(script.partition("srun")[2]) - ours


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.parametrize("processes", MESHES)
def test_real_processes_hold_and_send_what_is_planned(processes, tmp_path, table):
    cases = ["plain", "tags"]
    asked = {"cases": cases, "meshes": MESHES[processes], "kind": "adamw"}
    (found,) = launched(processes, [["counted", asked]], tmp_path)
    planned = {}
    for shard, tensor in MESHES[processes]:
        with one_of(processes):
            mesh = build_mesh("cpu", processes, shard, tensor)
            for case in cases:
                planned[f"{case} {shard}x{tensor}"] = expected(case, mesh)
    same = sum(found[name] == planned[name] for name in found)
    table(
        "F6",
        f"{processes} processes: {same}/{len(found)} plans have the bytes of parameters, "
        "gradients, optimizer and collectives of the real step",
    )
    assert found == planned


def expected(case, mesh):
    """Bytes of parameters, gradients and optimizer, and calls and bytes by operation."""
    model = Transformer(tiny.config(**CASES[case]), None, "meta").double()
    divide(model, mesh)
    part = Part(ROWS // 4, LENGTH, LENGTH, ROWS // 4 * LENGTH, 8)
    sent = {}
    sizes = {axis: mesh[axis].size() for axis in AXES}
    for one in collectives(model, sizes, part, 2):
        total = sent.setdefault(one.operation, [0, 0])
        total[0], total[1] = total[0] + one.calls, total[1] + one.bytes
    return [*_memory_of_training(model, False).values(), sent]
