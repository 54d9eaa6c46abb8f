"""What touches a word: boundaries in scripts with and without blanks."""

from __future__ import annotations

import re

from snellen.common.late import late_pattern

ELISIONS = r"[ldcnjstLDCNJST]|[Qq]u|[Uu]n|[Dd]ell|[Aa]ll|[Nn]ell|[Ss]ull|[Dd]all|[Jj]usqu|[Ll]orsqu|[Pp]uisqu|[Qq]uest"
"""What stands before the apostrophe of a French or Italian elision."""
_ELIDED = late_pattern(rf"(?<![^\W\d_])(?:{ELISIONS})\Z", re.IGNORECASE)


def is_cjk(piece: str) -> bool:
    """One character of a script that has no blanks between words."""
    return len(piece) == 1 and "\u3005" <= piece <= "\ufaff" and not "\uac00" <= piece <= "\uf8ff"


def runs_on(character: str) -> bool:
    """A letter or digit of a script that has blanks between words: no boundary beside it.

    Hangul writes particles against a word, so a change between it and another script is a boundary.
    """
    return bool(character) and character.isalnum() and not is_cjk(character) and not is_hangul(character)


def is_hangul(character: str) -> bool:
    return "\uac00" <= character <= "\ud7a3"


def free_left(text: str, start: int) -> bool:
    """No letter, digit or hyphenated word stands against it."""
    near, far = text[start - 1 : start], text[max(0, start - 2) : max(0, start - 1)]
    return not (runs_on(near) or (near in ("-", "_") and runs_on(far)) or (near == "'" and _inside_word(text, start)))


def _inside_word(text: str, start: int) -> bool:
    """Whether an apostrophe stands inside a word, and is not that of an elision (l'orange)."""
    before = text[max(0, start - 7) : start - 1]
    return runs_on(before[-1:]) and _ELIDED.search(before) is None


def free_right(text: str, end: int) -> bool:
    near, far = text[end : end + 1], text[end + 1 : end + 2]
    return not (runs_on(near) or (near in ("-", "'", "_", "(") and runs_on(far)))
