"""What a sweep varies: lists, ranges, what is the same in all trials; what is refused."""

import pytest

from glassformer.errors import ConfigError
from glassformer.sweep.space import Choices, Range, read_space
from glassformer.sweep.state import Trial


def test_lists_ranges_and_what_is_fixed():
    space = read_space(
        [
            *("a.x=1,2,3", "a.rate=1e-4..1e-2", "a.n=1..6", "a.width=32..512", "a.low=-.5..0.5"),
            *("data.train.path=../text.txt", "b.list=[a, b]", "b.quoted='a,b'", "b.none=null"),
            *("c.lists=[1, 2],[3]", "c.quoted='a,b',c"),
        ]
    )
    assert space.fixed == (
        *("data.train.path=../text.txt", "b.list=[a, b]", "b.quoted='a,b'", "b.none=null"),
    )
    assert space.axes == (
        Choices("a.x", ("1", "2", "3")),
        Range("a.rate", 1e-4, 1e-2, whole=False),
        Range("a.n", 1, 6, whole=True),
        Range("a.width", 32, 512, whole=True),
        Range("a.low", -0.5, 0.5, whole=False),
        Choices("c.lists", ("[1, 2]", "[3]")),
        Choices("c.quoted", ("'a,b'", "c")),
    )
    assert [getattr(axis, "log", None) for axis in space.axes[:5]] == [
        *(None, True, False, True, False),
    ]
    assert space.axes[1].text(0.0012345) == "0.001234"
    assert space.axes[2].text(3.0) == "3"


def test_a_grid_is_every_combination_and_examples_are_every_end():
    assert list(read_space(["a=1,2", "b=x,y", "c=0"]).grid) == [
        *({"a": "1", "b": "x"}, {"a": "1", "b": "y"}, {"a": "2", "b": "x"}, {"a": "2", "b": "y"}),
    ]
    assert list(read_space(["a=1..9", "b=x,y"]).examples) == [
        *({"a": "1", "b": "x"}, {"a": "9", "b": "x"}, {"a": "1", "b": "x"}, {"a": "1", "b": "y"}),
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a.x"], "'a.x' names no values; write field=a,b,c"),
        (["=1,2"], "'=1,2' names no values"),
        (["a.x="], "a.x= has an empty value; write null for none"),
        (["a.x=1,,2"], "a.x=1,,2 has an empty value"),
        (["a.x=1,2,"], "a.x=1,2, has an empty value"),
        (["a.x=1,2", "a.x=3"], "a.x is given twice; give all its values at once"),
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
    assert Trial(3, changes).name == "trial-003-learning_rate=0.003-path=a_b_c.txt"
    assert len(Trial(3, {"a.x": "y" * 500}).name) == 120
