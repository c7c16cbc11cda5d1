"""The Unicode CLDR as Babel has it (extra `demo`)."""

from functools import cache
from typing import TYPE_CHECKING

from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from babel import Locale

PLAIN = {0x200E: None, 0x200F: None, 0xA0: " ", 0x202F: " "}
"""Direction marks and no-break spaces, which nobody types."""


@cache
def parsed_locale(code: str) -> "Locale":
    """The names and patterns of a language; ConfigError: Babel is missing."""
    try:
        from babel import Locale
    except ImportError:
        raise ConfigError(
            "This demo needs the names and patterns of Babel, which is not installed: pip install "
            "'glassformer[demo]'."
        ) from None
    return Locale.parse(code)


def english_names(codes: tuple[str, ...]) -> dict[str, str]:
    """Codes of languages with their English names."""
    languages = parsed_locale("en").languages
    return {code: str(languages[code]) for code in codes}
