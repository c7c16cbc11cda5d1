"""docs/limits.md says what is not here: it follows from its list, and each line is refused."""

import json

import pytest

import glassformer as gf
from docsite.limits import DOCS, entries, render


def test_the_page_follows_from_its_list():
    assert (DOCS / "limits.md").read_text(encoding="utf-8") == render(), (
        "run PYTHONPATH=tools python -m docsite.limits"
    )


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry["what"][:40])
def test_what_is_not_here_is_refused(cli, recipe, trained, tmp_path, entry):
    run = tmp_path / "run"
    if "python" in entry:
        names = {"run": gf.load(trained), "folder": trained}
        with pytest.raises((TypeError, AttributeError, gf.GlassformerError)) as found:
            exec(entry["python"], names)
        assert entry["refusal"] in str(found.value)
        return
    if "train" in entry:
        said = cli("train", recipe, entry["train"], "--run", run)
    else:
        model = tmp_path / entry.get("file", "model")
        if "folder" in entry:
            model.mkdir()
            (model / "config.json").write_text(json.dumps(entry["folder"]), encoding="utf-8")
        else:
            model.write_bytes(b"PK\3\4")
        said = cli("import", model, "--run", run)
    assert said.code in (1, 2)
    assert entry["refusal"] in said.err.splitlines()[-1]
    assert not run.exists()
