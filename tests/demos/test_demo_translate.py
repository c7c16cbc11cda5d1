"""`demo translate`: works without a network, goes on where it stopped, and learns what it
promises."""

import pytest

from glassformer.demos import dates
from glassformer.demos.translate import EXAMPLES, drawn


@pytest.mark.usefixtures("quick")
def test_it_shows_scores_examples_and_an_alignment(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(dates, "COUNTS", {"train": 600, "validation": 30, "test": 150})
    run = tmp_path / "dates"
    said = cli("demo", "translate", "--steps", 2, "--run", run, "--json")
    assert said.code == 0, said.err
    assert set(said.json["examples"]) == set(EXAMPLES)
    assert sum(row["n"] for row in said.json["languages"]) == 150
    rule = "a rule: numbers by place, month words"
    assert list(said.json["baselines"]) == ["a copy of the source", rule, "this model"]
    assert said.json["baselines"][rule] > 0.5
    assert "<html" in (run / "attention.html").read_text()
    assert "exact match" in (run / "report.html").read_text()
    again = cli("demo", "translate", "--steps", 3, "--run", run)
    assert "resuming at step 2" in again.err
    assert "exact matches on held-out days" in again.out
    assert EXAMPLES[0] in again.out


@pytest.mark.slow
def test_it_learns_dates_in_many_languages(cli, tmp_path):
    said = cli("demo", "translate", "--run", tmp_path / "dates", "--json")
    values = said.json
    assert len(values["languages"]) >= 40
    assert values["exact_match"] >= 0.99
    assert values["examples"]["2019年12月24日"] == "2019-12-24"


def test_a_drawn_alignment_has_a_line_for_each_part_and_is_darkest_where_the_mass_is():
    import torch

    from glassformer.inspect.alignment import CrossAttention
    from glassformer.processors.word_spans import Side

    source = Side("3 May", ("3", "May"), ("3", "May"), (0, 1))
    target = Side("05 03", ("05", "03"), ("05", "03"), (0, 1))
    patterns = torch.tensor([[0.0, 1.0], [0.5, 0.5]])[None, None]
    head, first, second = drawn(CrossAttention(source, target, patterns))
    assert head.split() == ["3", "May"]
    assert first[8:] == "  ███"
    assert second[8:] == "▒ ▒▒▒"
