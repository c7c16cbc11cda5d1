"""Whether the first row of a table names its columns, though no setting has these names."""

import re
from collections.abc import Sequence

_PUBLISHED = """
id ids idx index key uid guid number nr row line n
text texts sentence sentences document doc body content comment comments review reviews tweet
message messages conversation conversations post title headline abstract summary description
subject query passage paragraph
context utterance phrase word words token tokens premise hypothesis string input output
label labels class classes category categories sentiment topic intent emotion tag tags rating
stars score polarity genre language lang target source src tgt reference translation original
question answer response prompt completion instruction highlights dialogue article upos
file files filename path image images img picture photo audio clip recording url link
split set fold date time year author user username name gender age speaker group
english german french spanish italian portuguese dutch danish swedish norwegian finnish polish
czech slovak hungarian romanian bulgarian greek turkish russian ukrainian serbian croatian
arabic hebrew persian hindi urdu bengali tamil chinese mandarin japanese korean vietnamese thai
indonesian latin esperanto catalan basque irish welsh
en de fr es it pt nl da sv no fi pl cs sk hu ro bg el tr ru uk sr hr ar he fa hi zh ja ko vi
"""
NAMES = frozenset(re.findall(r"\w+", _PUBLISHED))
"""Names that columns of texts, classes, pairs and files have in published tables."""
_COMPOUND = re.compile(r"[a-z]+(?:[_-][a-z0-9]+)+|[a-z]+\d{1,2}")


def looks_like_header(first: Sequence[str]) -> bool:
    """True for a row of usual names of columns, in upper or lower case.

    Each is one of `NAMES`, or made of words and numbers as `sentence_1` is; at least one is of the
    former kind.
    """
    cells = [cell.strip().lower() for cell in first]
    known = [_is_known(cell) for cell in cells]
    return any(known) and all(
        own or _COMPOUND.fullmatch(cell) for own, cell in zip(known, cells, strict=True)
    )


def _is_known(cell: str) -> bool:
    return cell in NAMES or cell.rstrip("0123456789").rstrip("_-") in NAMES
