"""Stop strings over text in pieces: nothing of a stop is shown, nothing before it is lost, however
it was cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from glassformer.tasks.predictors.text import StopStrings

TEXT = st.text("abc\né", max_size=30)
STOPS = st.lists(st.text("abc\né", min_size=1, max_size=5), max_size=4)


def expected(text: str, stops: list[str]) -> str:
    """Character by character: the first beginning of the text that ends with a stop, without the
    longest such stop."""
    for end in range(1, len(text) + 1):
        ended = [stop for stop in stops if text[:end].endswith(stop)]
        if ended:
            return text[: end - max(map(len, ended))]
    return text


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(places)]


@given(TEXT, STOPS, st.lists(st.integers(0, 30), max_size=12))
def test_what_is_shown_is_the_text_before_the_first_complete_stop(text, stops, cuts):
    strings, shown = StopStrings(stops), ""
    for piece in pieces(text, cuts):
        shown += strings.push(piece)
        # nothing that is shown may have to be taken back: it is a beginning of the result
        assert expected(text, stops).startswith(shown)
    shown += strings.flush()
    assert shown == expected(text, stops)
    assert strings.stopped == (expected(text, stops) != text)


@given(TEXT, STOPS)
def test_only_what_may_become_a_stop_is_held_back(text, stops):
    strings = StopStrings(stops)
    strings.push(text)
    assert strings.held == "" or any(stop.startswith(strings.held) for stop in stops)


def test_after_a_stop_nothing_is_shown_any_more():
    strings = StopStrings(["END"])
    assert strings.push("one EN") == "one "
    assert strings.push("D two") == ""
    assert strings.push("three") == ""
    assert strings.flush() == ""
    assert strings.stopped


def test_an_empty_stop_string_stops_nothing():
    strings = StopStrings([""])
    assert strings.push("text") == "text"
    assert not strings.stopped
