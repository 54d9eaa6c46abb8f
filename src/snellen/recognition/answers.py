"""How a column of answers names the right option, decided by all rows: letter, text, or number from 0 or from 1."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from snellen.formats.delimited import LETTERS

AnswerForm = Literal["any", "letter", "text", "index0", "index1"]
FORMS: tuple[AnswerForm, ...] = ("letter", "text", "index0", "index1")
FORM_WORDS = {
    "any": "letter, text or number from 0",
    "letter": "letter",
    "text": "text of an option",
    "index0": "number of an option from 0",
    "index1": "number of an option from 1",
}
_LABELLED = re.compile(r"[(\[]?([A-Za-z])[)\].:]\s+\S.*", re.DOTALL)
_SEPARATORS = re.compile(r"[-_\s]+")
_SPLITS = ("\n", "|", ";")


def as_text(value: Any) -> str:
    """A value as text; JSON numbers and booleans as they are written."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def folded_name(name: str) -> str:
    """A column's name for comparison: small letters, one underscore for any run of spaces, dashes and underscores."""
    return _SEPARATORS.sub("_", name.strip().casefold())


def split_options(text: str) -> list[str] | None:
    """The options in a text that separates them by lines, `|` or `;`."""
    for sign in _SPLITS:
        if len(parts := [part.strip() for part in text.split(sign) if part.strip()]) > 1:
            return parts
    return None


def option_meant(form: AnswerForm, answer: Any, options: Sequence[str], names: Sequence[str] = ()) -> int | None:
    """The index of the option that an answer names in this form, or None; `names` are those of the options' columns."""
    if isinstance(answer, list) and len(answer) == 1:
        [answer] = answer
    text = unicodedata.normalize("NFKC", as_text(answer)).strip()
    match form:
        case "letter":
            return _by_letter(text, options, names)
        case "text":
            return _by_text(text, options)
        case "index0" | "index1":
            number = _number(text)
            place = -1 if number is None else number - (form == "index1")
            return place if 0 <= place < len(options) else None
    return None


def _by_letter(text: str, options: Sequence[str], names: Sequence[str]) -> int | None:
    column = folded_name(text)
    if len(column) > 1 and column in (columns := [folded_name(name) for name in names]):
        return columns.index(column)
    labelled = _LABELLED.fullmatch(text)
    letter = (labelled[1] if labelled else text.strip("()[].:、， ")).upper()
    letters = LETTERS[: len(options)]
    return letters.index(letter) if len(letter) == 1 and letter in letters else None


def _by_text(text: str, options: Sequence[str]) -> int | None:
    for shape in (str.strip, lambda option: option.strip().casefold()):
        places = [
            place for place, option in enumerate(options) if shape(unicodedata.normalize("NFKC", option)) == shape(text)
        ]
        if len(places) == 1:
            return places[0]
    return None


def _number(text: str) -> int | None:
    match = re.fullmatch(r"(\d{1,4})(?:\.0+)?", text)
    return int(match[1]) if match else None


@lru_cache(maxsize=4096)
def _all_meant(answer: str, options: tuple[str, ...], names: tuple[str, ...]) -> dict[str, int | None]:
    """The option that an answer means in each form."""
    return {form: option_meant(form, answer, options, names) for form in FORMS}


class AnswerColumn:
    """What the cells of a column may mean in each form, counted over the rows that have options."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows = 0
        self.fits = dict.fromkeys(FORMS, 0)
        self._own = 0
        self._differ: set[frozenset[str]] = set()
        self.meant: dict[str, list[int | None]] = {form: [] for form in FORMS}
        self.example: tuple[str, Any, Sequence[str]] | None = None

    def add(self, where: str, answer: Any, options: Sequence[str], names: Sequence[str]) -> None:
        if answer is None or answer == "" or not options:
            for form in FORMS:
                self.meant[form].append(None)
            return
        self.rows += 1
        one = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
        meant = _all_meant(as_text(one), tuple(options), tuple(names))
        for form in FORMS:
            self.fits[form] += meant[form] is not None
            self.meant[form].append(meant[form])
        is_number = isinstance(answer, int) and not isinstance(answer, bool)
        places = (meant["index0"],) if is_number else (meant["letter"], meant["text"])
        fits_own = any(place is not None for place in places)
        self._own += fits_own
        if all(place is None for place in meant.values()) and self.example is None:
            self.example = where, answer, options
        for first in FORMS if len(set(meant.values())) > 1 else ():
            for second in FORMS:
                if meant[first] is not None and meant[second] is not None and meant[first] != meant[second]:
                    self._differ.add(frozenset((first, second)))

    @property
    def fit(self) -> float:
        """The greatest share of rows that one form explains, or the rule for mixed rows."""
        return max(*self.fits.values(), self._own) / self.rows if self.rows else 0.0

    @property
    def fit_in_words(self) -> float:
        """The same of letters and texts: a number may be anything."""
        return max(self.fits["letter"], self.fits["text"]) / self.rows if self.rows else 0.0

    def forms(self) -> tuple[AnswerForm, ...]:
        """The forms that explain as many rows as can be; more than one where they mean different options."""
        if self._own > max(self.fits.values()):
            return ("any",)
        best = [form for form in FORMS if self.fits[form] == max(self.fits.values())]
        first = best[0]
        rivals = [form for form in best[1:] if frozenset((first, form)) in self._differ]
        if first == "letter" and rivals == ["text"]:
            return ("any",)  # letters of columns go before; other rows are refused one by one
        return (first, *rivals)
