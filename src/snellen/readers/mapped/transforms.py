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
    """Without surrounding white space."""
    return [text.strip() for text in texts]


def lower(texts: TextList) -> TextList:
    return [text.lower() for text in texts]


def stem(texts: TextList) -> TextList:
    """The file name in a path, without its suffix."""
    return [PurePosixPath(text).stem for text in texts]


def name(texts: TextList) -> TextList:
    """The file name in a path."""
    return [PurePosixPath(text).name for text in texts]


def suffix(texts: TextList) -> TextList:
    """The suffix of a path or URL: `.jpg`."""
    return [PurePosixPath(text).suffix for text in texts]


def without_jpg(texts: TextList) -> TextList:
    return [text.removesuffix(".jpg") for text in texts]


def png(texts: TextList) -> TextList:
    """The file name, with `.png` added if it has no suffix."""
    return [text if PurePosixPath(text).suffix else f"{text}.png" for text in texts]


def sentence(texts: TextList) -> TextList:
    """`how many cats are there` with a capital and a question mark."""
    sentences = []
    for text in texts:
        words = text.removesuffix("?").strip()
        sentences.append(f"{words[:1].upper()}{words[1:]}?")
    return sentences


def plain(texts: TextList) -> TextList:
    """Without HTML tags and entities, and with runs of white space collapsed."""
    return [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split()) for text in texts]


def spaced(texts: TextList) -> TextList:
    """With underscores replaced by spaces."""
    return [text.replace("_", " ") for text in texts]


def yes_no(texts: TextList) -> TextList:
    """`yes` for 1 and true, `no` for 0 and false."""
    return ["yes" if text in ("1", "true") else "no" for text in texts]


def votes(texts: Sequence[str]) -> TextList:
    """Distinct non-empty answers of several annotators, the most frequent first, ties in order of appearance."""
    return list(by_votes(texts))


def filled(texts: TextList) -> TextList:
    """Without empty texts."""
    return [text for text in texts if text.strip()]


def available(texts: TextList) -> TextList:
    """With an empty text for `N/A`, which some tables have where there is nothing."""
    return ["" if text.strip() == "N/A" else text for text in texts]


def unstopped(texts: TextList) -> TextList:
    """Without a final full stop or question mark."""
    return [re.sub(r"[.?]$", "", text.strip()) for text in texts]


def first(texts: TextList) -> TextList:
    return texts[:1]


def readable(texts: TextList) -> TextList:
    """Without answers that are not text in the image: yes, no, unanswerable."""
    return [text for text in texts if fold_answer(text) not in UNREAD]


def worded(texts: TextList) -> TextList:
    """Without texts that have neither letter nor digit, which any reply would match."""
    return [text for text in texts if has_word(text)]


def literal(texts: TextList) -> TextList:
    """The items of a list that is written as Python or JSON writes it: `['a', 'b']`. Other texts stay as they are."""
    return [item for text in texts for item in _items(text)]


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
    """The parts between commas, without white space around them."""
    return [part.strip() for text in texts for part in text.split(",")]


def unlabelled(texts: TextList) -> TextList:
    """Options without their letters where each has its own: `A. a cat`, `(B) a dog`."""
    unlabelled_texts = []
    for letter, text in zip(LETTERS, texts, strict=False):
        match = _OPTION.fullmatch(text)
        if match is None or match[1] != letter:
            return texts
        unlabelled_texts.append(match[2])
    # With more options than letters, the last ones cannot have letters of their own.
    return unlabelled_texts if len(unlabelled_texts) == len(texts) else texts


def half(texts: TextList) -> TextList:
    """Half of a whole number, rounded down: rows 6 and 7 are pair 3."""
    return [str(int(text) // 2) for text in texts]


def parity(texts: TextList) -> TextList:
    """0 for an even number, 1 for an odd one."""
    return [str(int(text) % 2) for text in texts]
