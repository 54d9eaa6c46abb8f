"""English in questions that are made: plurals, and `a` or `an`."""

from __future__ import annotations

import re

from snellen.errors import DataError

_IRREGULAR = {"knife": "knives", "mouse": "mice", "person": "people", "child": "children"}
_VOWEL = re.compile(r"(?!uni|use|eu|one)[aeiou]", re.IGNORECASE)


def plural(name: str) -> str:
    """The plural of a noun, or of a name that ends in one."""
    head, _, noun = name.rpartition(" ")
    if noun in _IRREGULAR:
        last = _IRREGULAR[noun]
    elif noun.endswith("man"):
        last = f"{noun[:-3]}men"
    elif noun.endswith(("s", "x", "ch", "sh")):
        last = f"{noun}es"
    elif noun.endswith("y") and noun[-2:-1] not in "aeiou":
        last = f"{noun[:-1]}ies"
    else:
        last = f"{noun}s"
    return f"{head} {last}".strip()


def phrased(template: str, **words: str) -> str:
    """The template with the words in it: `a {name}` becomes `an {name}` before a vowel. Raises DataError for a
    word that the template names and the question does not have."""
    for word, text in words.items():
        if _VOWEL.match(text):
            template = template.replace(f"a {{{word}}}", f"an {{{word}}}")
    try:
        return template.format(**words)
    except (KeyError, IndexError, ValueError):
        known = ", ".join(f"{{{word}}}" for word in words) or "nothing"
        raise DataError(
            f"source.params.questions: ask = {template!r} cannot be filled in; it may name {known}"
        ) from None
