"""Whether two answers mean the same, so that no distractor is right after all (ReForm-Eval E.2, Table 31)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_NUMBERS = dict(
    zip(
        "zero one two three four five six seven eight nine ten".split(),
        "0 1 2 3 4 5 6 7 8 9 10".split(),
        strict=True,
    )
)
_ARTICLES = frozenset({"a", "an", "the"})
_ENDINGS = (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f"), ("ves", "fe"), ("men", "man"))
_PLURALS = {
    "men": "man", "people": "person", "children": "child", "feet": "foot", "teeth": "tooth", "mice": "mouse",
    "geese": "goose",
}  # fmt: skip
YES_NO = {"yes": "no", "no": "yes"}
_YES_OR_NO = re.compile(r"([\W_]*)(yes|no)([\W_]*)", re.IGNORECASE)


@lru_cache(maxsize=1 << 16)
def fold_answer(text: str) -> str:
    """`text` folded for comparison: NFKC, without case, articles or punctuation, number words as digits."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = re.findall(r"[^\W_]+", folded)
    folded_words = [_NUMBERS.get(word, word) for word in words if word not in _ARTICLES]
    return " ".join(folded_words) or " ".join(words) or folded.strip()


def same_answer(first: str, second: str) -> bool:
    """Whether two short answers fold to the same: `dog` and `the Dogs.`, `black and white` and `white and black`.

    Plurals equal their singulars, judged by their endings. Synonyms are not recognised.
    """
    first_folded, first_words, first_singulars = _forms(first)
    second_folded, second_words, second_singulars = _forms(second)
    return (
        first_words == second_words
        or first_folded in second_singulars
        or second_folded in first_singulars
    )


@lru_cache(maxsize=1 << 15)
def _forms(text: str) -> tuple[str, tuple[str, ...], frozenset[str]]:
    """The folded answer, its words in alphabetical order, and its possible singulars."""
    folded = fold_answer(text)
    return folded, tuple(sorted(folded.split())), frozenset(_singulars(folded))


def _singulars(text: str) -> Iterator[str]:
    """Possible singulars of `text`. Some are not words, which does no harm: nothing equals them."""
    head, noun = text[: text.rfind(" ") + 1], text[text.rfind(" ") + 1 :]
    if noun in _PLURALS:
        yield head + _PLURALS[noun]
    for ending, singular in _ENDINGS:
        if (
            noun.endswith(ending)
            and len(noun) > len(ending) + 1
            and not noun.endswith(("ss", "us", "is"))
        ):
            yield head + noun[: -len(ending)] + singular


def opposite_yes_no(answer: str) -> str | None:
    """`no` for yes and `yes` for no, in the case of the answer and with its full stop; None for anything else."""
    match = _YES_OR_NO.fullmatch(answer)
    if match is None:
        return None
    word = YES_NO[match[2].casefold()]
    cased = (
        word.upper() if match[2].isupper() else word.capitalize() if match[2][0].isupper() else word
    )
    return match[1] + cased + match[3]
