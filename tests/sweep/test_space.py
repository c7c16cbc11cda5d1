"""What a sweep varies: lists, ranges, what is the same in all trials; what is refused."""

import pytest

from glassformer.core.errors import ConfigError
from glassformer.sweep.space import as_text, read_space
from glassformer.sweep.study import _name
from glassformer.sweep.sweep import _grid

distributions = pytest.importorskip("optuna").distributions


def test_lists_ranges_and_what_is_fixed():
    fixed, axes = read_space(
        [
            *("a.x=1,2,3", "a.rate=1e-4..1e-2", "a.n=1..6", "a.width=32..512", "a.low=-.5..0.5"),
            *("data.train.path=../text.txt", "b.list=[a, b]", "b.quoted='a,b'", "b.none=null"),
            *("c.lists=[1, 2],[3]", "c.quoted='a,b',c"),
        ]
    )
    assert fixed == [
        *("data.train.path=../text.txt", "b.list=[a, b]", "b.quoted='a,b'", "b.none=null"),
    ]
    assert axes == {
        "a.x": distributions.CategoricalDistribution(("1", "2", "3")),
        "a.rate": distributions.FloatDistribution(1e-4, 1e-2, log=True),
        "a.n": distributions.IntDistribution(1, 6),
        "a.width": distributions.IntDistribution(32, 512, log=True),
        "a.low": distributions.FloatDistribution(-0.5, 0.5),
        "c.lists": distributions.CategoricalDistribution(("[1, 2]", "[3]")),
        "c.quoted": distributions.CategoricalDistribution(("'a,b'", "c")),
    }
    assert [as_text(value) for value in (0.0012345, 3, "x")] == ["0.001234", "3", "x"]


def test_a_grid_is_every_combination():
    assert _grid(read_space(["a=1,2", "b=x,y", "c=0"])[1]) == [
        *({"a": "1", "b": "x"}, {"a": "1", "b": "y"}, {"a": "2", "b": "x"}, {"a": "2", "b": "y"}),
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a.x"], "'a.x' names no values; write field=a,b,c"),
        (["=1,2"], "'=1,2' names no values"),
        (["a.x="], "a.x= has an empty value; write null for none"),
        (["a.x=1,,2"], "a.x=1,,2 has an empty value"),
        (["a.x=1,2,"], "a.x=1,2, has an empty value"),
        (["a.x=1,2", "a.x=3"], "a.x is given twice; give all its values together"),
        (["a.x=1,2,1"], "a.x=1,2,1 has a value twice"),
        (["a.x=3..1"], "a.x=3..1 is no range from low to high; swap its ends"),
        (["a.x=1", "b=2"], "Nothing varies; give a field a list of values or a range"),
        ([], "Nothing varies"),
    ],
)
def test_what_is_refused(arguments, sentence):
    with pytest.raises(ConfigError) as caught:
        read_space(arguments)
    assert sentence in str(caught.value)


def test_a_folder_is_named_by_its_values():
    changes = {"train.optimizer.learning_rate": "0.003", "data.train.path": "a/b c.txt"}
    assert _name(changes) == "learning_rate=0.003-path=a_b_c.txt"
    assert len(_name({"a.x": "y" * 500})) < 100
    assert _name({"a.x": "y" * 500}) != _name({"a.x": "y" * 501})
