"""Output files of options: a file that glassformer did not write is never replaced unasked."""

import pytest
from PIL import Image

from glassformer.cli.options import check_output
from glassformer.core.errors import ConfigError
from glassformer.pages.images import write_png
from glassformer.pages.kit import document

COMMANDS = [
    (["data", "show", "none.yaml", "--html"], "x.html"),
    (["verify", "none", "--html"], "x.html"),
    (["contexts", "none", "bank", "--html"], "x.html"),
    (["embed", "none", "--out"], "x.npy"),
    (["translate", "none", "--show-attention"], "x.html"),
    (["translate", "none", "--show-attention"], "x.png"),
    (["draw", "none", "--prompt", "a", "--out"], "x.png"),
]


@pytest.mark.parametrize(("command", "name"), COMMANDS)
def test_every_option_asks_before_any_work(cli, refused, tmp_path, command, name):
    theirs = tmp_path / name
    theirs.write_bytes(b"<html>written with glassformer's help</html>")
    sentence = refused(*command, theirs, code=2, keep=tmp_path)
    assert f"would replace {theirs}, which does not say that glassformer wrote it" in sentence
    assert "--force" in sentence
    said = cli(*command, theirs, "--force")  # then the missing run is what it names
    assert "would replace" not in said.err
    assert "none" in said.err


def test_what_glassformer_wrote_is_replaced(tmp_path):
    (tmp_path / "x.html").write_text(document("a title of its own", "text"))
    write_png(Image.new("RGB", (300, 200)), tmp_path / "x.png")
    for path in tmp_path.iterdir():
        check_output("--html", path, (".html", ".png"), force=False)


@pytest.mark.parametrize("make", ["symlink", "empty"])
def test_anything_that_is_there_counts(tmp_path, make):
    path = tmp_path / "x.html"
    if make == "symlink":
        path.symlink_to(tmp_path / "nowhere")
    else:
        path.touch()
    with pytest.raises(ConfigError, match="does not say"):
        check_output("--html", path, (".html",), force=False)
    check_output("--html", path, (".html",), force=True)
