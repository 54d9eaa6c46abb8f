"""What touches a word: boundaries in scripts with and without blanks."""

from __future__ import annotations


def is_cjk(piece: str) -> bool:
    """One character of a script that has no blanks between words."""
    return len(piece) == 1 and "\u3005" <= piece <= "\ufaff" and not "\uac00" <= piece <= "\uf8ff"


def runs_on(character: str) -> bool:
    """A letter or digit of a script that has blanks between words: no boundary beside it."""
    return bool(character) and character.isalnum() and not is_cjk(character)


def free_left(text: str, start: int) -> bool:
    """No letter, digit or hyphenated word stands against it."""
    near, far = text[start - 1 : start], text[max(0, start - 2) : max(0, start - 1)]
    return not (runs_on(near) or (near in ("-", "'", "_") and runs_on(far)))


def free_right(text: str, end: int) -> bool:
    near, far = text[end : end + 1], text[end + 1 : end + 2]
    return not (runs_on(near) or (near in ("-", "'", "_", "(") and runs_on(far)))
