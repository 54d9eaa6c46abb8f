"""Transforms of a field in a template: `{image:stem}`. Each takes and returns a list of texts.

Another package adds a transform by an entry point in the group `snellen.transforms`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from snellen.common.drafts import by_votes, has_word
from snellen.formats.delimited import LETTERS
from snellen.formats.listed_cells import python_literal
from snellen.reformulation.answer_equality import YES_NO, fold_answer

TextList = list[str]
_LETTER = re.compile(r"\W*([A-Za-z])\W*")
_OPTION = re.compile(r"\s*\(?([A-Z])[.:)]\s*(.*?)\s*", re.DOTALL)
UNREAD = frozenset(
    fold_answer(text)
    for text in (
        *YES_NO,
        "unanswerable",
        "not answerable",
        "answering does not require reading text in the image",
    )
)
"""Answers that are not text in the image: yes, no, and what TextVQA's annotators say when nothing can be read."""


def strip(texts: TextList) -> TextList:
    """Remove white space at both ends of each text."""
    return [text.strip() for text in texts]


def lower(texts: TextList) -> TextList:
    return [text.lower() for text in texts]


def stem(texts: TextList) -> TextList:
    """Return the file name in each path, without its suffix: `a/b.jpg` gives `b`."""
    return [PurePosixPath(text).stem for text in texts]


def name(texts: TextList) -> TextList:
    """Return the file name in each path: `a/b.jpg` gives `b.jpg`."""
    return [PurePosixPath(text).name for text in texts]


def suffix(texts: TextList) -> TextList:
    """Return the suffix of each path or URL, such as `.jpg`."""
    return [PurePosixPath(text).suffix for text in texts]


def without_jpg(texts: TextList) -> TextList:
    return [text.removesuffix(".jpg") for text in texts]


def png(texts: TextList) -> TextList:
    """Add `.png` to each file name that has no suffix."""
    return [text if PurePosixPath(text).suffix else f"{text}.png" for text in texts]


def sentence(texts: TextList) -> TextList:
    """Write each text as a question: `how many cats are there` gives `How many cats are there?`."""
    sentences = []
    for text in texts:
        words = text.removesuffix("?").strip()
        sentences.append(f"{words[:1].upper()}{words[1:]}?")
    return sentences


def plain(texts: TextList) -> TextList:
    """Remove HTML tags, decode entities such as `&amp;`, and replace runs of white space by one
    space.
    """
    return [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split()) for text in texts]


def spaced(texts: TextList) -> TextList:
    """Replace underscores by spaces."""
    return [text.replace("_", " ") for text in texts]


def yes_no(texts: TextList) -> TextList:
    """Return `yes` for `1`, `true` and `yes`, and `no` for `0`, `false` and `no`, in capitals or not.

    Any other text, such as an empty one where a table has no answer, stays as it is.
    """
    words = {"1": "yes", "true": "yes", "yes": "yes", "0": "no", "false": "no", "no": "no"}
    return [words.get(text.strip().casefold(), text) for text in texts]


def votes(texts: Sequence[str]) -> TextList:
    """Return the distinct answers of several annotators, without empty ones, the most frequent
    answer first.

    Of equally frequent answers, the one that appears first comes first.
    """
    return list(by_votes(texts))


def filled(texts: TextList) -> TextList:
    """Remove empty texts."""
    return [text for text in texts if text.strip()]


def available(texts: TextList) -> TextList:
    """Replace `N/A`, which some tables have in empty cells, by an empty text."""
    return ["" if text.strip() == "N/A" else text for text in texts]


def unstopped(texts: TextList) -> TextList:
    """Remove a full stop or question mark at the end of each text."""
    return [re.sub(r"[.?]$", "", text.strip()) for text in texts]


def first(texts: TextList) -> TextList:
    return texts[:1]


def readable(texts: TextList) -> TextList:
    """Remove answers that are not text in the image, such as yes, no and unanswerable."""
    return [text for text in texts if fold_answer(text) not in UNREAD]


def worded(texts: TextList) -> TextList:
    """Remove texts without a letter or digit, because any reply would match them."""
    return [text for text in texts if has_word(text)]


def literal(texts: TextList) -> TextList:
    """Return the items of each list that is written as text, in the syntax of Python: `['a', 'b']`
    gives `a` and `b`.

    Other texts stay as they are.
    """
    items: list[str] = []
    for text in texts:
        items.extend(_items(text))
    return items


def _items(text: str) -> TextList:
    value = python_literal(text.strip())
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else [text]


def letter(texts: TextList) -> TextList:
    """Replace texts that name an option by the letter of the option: `(B)`, `B.`, `b` and `B. a dog` become `B`.

    Other texts stay as they are.
    """
    letters: list[str] = []
    for text in texts:
        match = _LETTER.fullmatch(text) or _OPTION.fullmatch(text)
        letters.append(match[1].upper() if match else text)
    return letters


def comma(texts: TextList) -> TextList:
    """Split each text at its commas, and remove white space around the parts."""
    return [part.strip() for text in texts for part in text.split(",")]


def unlabelled(texts: TextList) -> TextList:
    """Remove the letters from options such as `A. a cat` and `B. a dog`.

    If one of the options does not begin with its letter, all stay as they are.
    """
    unlabelled_texts = []
    for letter, text in zip(LETTERS, texts, strict=False):
        match = _OPTION.fullmatch(text)
        if match is None or match[1] != letter:
            return texts
        unlabelled_texts.append(match[2])
    # With more options than letters, the last ones cannot have letters of their own.
    return unlabelled_texts if len(unlabelled_texts) == len(texts) else texts


def half(texts: TextList) -> TextList:
    """Return half of each whole number, rounded down: rows 6 and 7 both give 3, the number of their
    pair.
    """
    return [str(int(text) // 2) for text in texts]


def parity(texts: TextList) -> TextList:
    """Return 0 for each even number and 1 for each odd one."""
    return [str(int(text) % 2) for text in texts]
