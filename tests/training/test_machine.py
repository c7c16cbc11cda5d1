"""The choice of device and precision, and its reason in words."""

import pytest
import torch

from glassformer.core import devices
from glassformer.core.devices import choose_machine, find_device, measured_peak
from glassformer.core.errors import ConfigError


def speeds(monkeypatch, float32: float, bfloat16: float) -> None:
    peaks = {torch.float32: float32, torch.bfloat16: bfloat16}
    monkeypatch.setattr(devices, "measured_peak", lambda where, dtype, threads: peaks[dtype])


@pytest.mark.parametrize(
    ("bfloat16", "chosen"),
    [(500e9, "bfloat16"), (10e9, "float32"), (110e9, "float32"), (160e9, "bfloat16")],
)
def test_bfloat16_is_chosen_only_if_clearly_faster(monkeypatch, bfloat16, chosen):
    speeds(monkeypatch, 100e9, bfloat16)
    found = choose_machine("cpu", "auto", torch.get_num_threads())
    assert found.precision == getattr(torch, chosen)
    assert found.precision_name == chosen
    assert found.peak == (bfloat16 if chosen == "bfloat16" else 100e9)
    assert (
        f"{chosen} (measured matrix products: float32 100 GFLOP/s, bfloat16 "
        f"{bfloat16 / 1e9:.0f} GFLOP/s)" in found.reason
    )


def test_what_is_asked_for_is_taken(monkeypatch):
    speeds(monkeypatch, 100e9, 1e9)
    found = choose_machine("cpu", "bfloat16", torch.get_num_threads())
    assert found.precision == torch.bfloat16
    assert "as asked" in found.reason


@pytest.mark.parametrize(
    ("name", "words"),
    [("gpu", "^'gpu' is no device"), ("xla", "^The device 'xla' is not on"), ("meta", "not on")],
)
def test_an_unknown_device_is_one_sentence(name, words):
    with pytest.raises(ConfigError, match=words):
        find_device(name)


def test_a_gpu_is_taken_if_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert find_device("auto").type == "cuda"
    assert find_device("cuda:0").index == 0
    with pytest.raises(ConfigError, match="not on this machine"):
        find_device("cuda:1")


def test_without_a_gpu_it_is_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert find_device("auto").type == "cpu"
    for name in ("cuda", "mps"):
        with pytest.raises(ConfigError, match="not on this machine"):
            find_device(name)


def test_the_peak_is_a_plausible_number_of_operations():
    peak = measured_peak(torch.device("cpu"), torch.float32, 1)
    assert 1e6 < peak < 1e14
