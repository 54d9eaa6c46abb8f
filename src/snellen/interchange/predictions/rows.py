"""What a file of predictions says, row by row, whatever its format; when texts are alike, and when a reply is none."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.catalogue.entries import Grouping
from snellen.errors import DataError
from snellen.formats.json_files import first_row_fault
from snellen.formats.shown_text import whole_characters
from snellen.records import Method


class PredictedRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One prediction, with what the file says of its question. Nothing is taken from another row."""

    where: str
    """Its place in the file, for notes and errors: `record 3`."""
    id: str = ""
    """The question's name in the file; of a round, the dialogue's. Empty when the file has none."""
    turn: int | None = None
    """The round of a dialogue, from 0; None for a question that is not part of one."""
    presentation: int | None = None
    """Which presentation of its question it is, from 0; None where the file does not number them."""
    question: str = ""
    prompt: str = ""
    """All that the model was shown, where the file has it."""
    subject: str = ""
    """What of the question is the same however it is put (a caption to judge), where the file has it apart."""
    context: str = ""
    options: tuple[str, ...] = ()
    """In the order in which this row showed them."""
    labels: tuple[str, ...] = ()
    """Those shown; capital letters when empty."""
    lists_options: bool = True
    """Whether the model was shown the options; replies are read without labels if it was not."""
    gold: tuple[int, ...] = ()
    """Places of the right options; empty when hidden."""
    references: tuple[str, ...] = ()
    """Right texts of an open question; empty when hidden."""
    reply: str | None = None
    chosen: int | None = None
    """The place of the most likely option, where the file keeps nothing else of a likelihood."""
    scores: tuple[float, ...] = ()
    """A log-likelihood (nats) for each option in the order shown."""
    failure: str = ""
    """Why no prediction came."""
    template: str = ""
    """The instruction that the question was put with."""
    picture: str = ""
    """The picture's name; rows of different pictures are never the same question."""
    group: str = ""
    """What the question has in common with others, where the file says so; its picture when empty."""
    tags: dict[str, str] = {}
    """Facts about the question, by their columns."""
    verdict: float | None = None
    """How right the file says that the reply is, from 0 to 1."""
    reading: str | None = None
    """What the file says was read in the reply."""
    judge: str = ""
    """Who or what judged the reply, as the file says."""
    decoding: str = ""
    """Settings of decoding that the file has."""

    @property
    def method(self) -> Method:
        return "likelihood" if self.chosen is not None or self.scores else "generation"


def with_failure(row: PredictedRow) -> PredictedRow:
    """The row as one that failed where it has no reply, or what harnesses write in place of one."""
    expected_texts = (*row.options, *row.references)
    reply = (row.reply or "").strip()
    if (
        row.failure
        or row.method == "likelihood"
        or (reply and not is_failure(reply, expected_texts))
    ):
        return row
    return replace(row, reply=None, failure=reply or "there is no reply")


class PredictionFile(Struct, frozen=True, kw_only=True):
    """A file of predictions, read."""

    rows: tuple[PredictedRow, ...]
    repeats: bool
    """Whether several rows of one id are presentations of one question; otherwise they are the same row again."""
    title: str = ""
    """What was asked, as the file calls it."""
    model: str = ""
    suite: str = ""
    """The suite whose published rules (`--as-published`) fit a benchmark that is made of the file."""
    task: str = ""
    metrics: tuple[str, ...] = ()
    """Those of open questions; the usual ones when empty."""
    headline: str = ""
    """The row that stands for the file's questions; the usual one when empty."""
    groups: dict[Grouping, str] = {}
    """The tags that questions have in common which metrics of groups need."""
    notes: tuple[str, ...] = ()


def needs(
    read_records: Callable[[Path], list[dict[str, Any]]], fields: Sequence[str]
) -> Callable[[Path, str], str]:
    """The `fault` of a form whose records have these fields: of a file without them it says so, whatever was asked."""
    return lambda path, benchmark: first_row_fault(path, read_records, fields)


def check_fields(record: Mapping[str, Any], fields: Sequence[str], where: str) -> None:
    """Raise DataError, naming the place, for a record that lacks one of the fields."""
    for name in fields:
        if name not in record:
            raise DataError(f"{where}: {name} is missing")


LONGEST_PATH = 1024
"""Characters: a longer text is not the name of a picture but the picture itself."""


def only_model(path: Path, models: Iterable[str]) -> str:
    """The model that all rows are of; empty where none is named. Raises DataError for several."""
    names = list(dict.fromkeys(filter(None, models)))
    if len(names) > 1:
        raise DataError(
            f"{path} has replies of {len(names)} models ({', '.join(names)}); give each a file of its own"
        )
    return names[0] if names else ""


HALF_PAIRS = "rows with half of a surrogate pair, read as U+FFFD"
"""A model may write half of a pair, and JSON can spell it. The replies of served models are read in the same way."""


def with_whole_characters(file: PredictionFile) -> PredictionFile:
    """Return the file with U+FFFD for each half of a surrogate pair, which no run can hold, and a note of the rows."""
    rows: list[PredictedRow] = []
    findings = Findings()
    for row in file.rows:
        try:
            msgspec.json.encode(row)
        except UnicodeEncodeError:
            findings.add(HALF_PAIRS, row.where)
            content = json.dumps(msgspec.to_builtins(row), ensure_ascii=False)
            row = msgspec.json.decode(whole_characters(content), type=PredictedRow)
        rows.append(row)
    return replace(file, rows=tuple(rows), notes=(*file.notes, *findings.notes()))


class Findings:
    """What is wrong with rows, or said of them, by kind: how many, and the first of them."""

    def __init__(self) -> None:
        self._by_kind: dict[str, list[str]] = defaultdict(list)

    def add(self, kind: str, name: str) -> None:
        self._by_kind[kind].append(name)

    def clear(self) -> None:
        """Forget what was added."""
        self._by_kind.clear()

    def notes(self) -> list[str]:
        """One line per kind: `rows left out, without an id: 12 (record 5, record 7, record 9, ...)`."""
        return [f"{kind}: {count_named(names)}" for kind, names in self._by_kind.items()]


def count_named(names: Sequence[str]) -> str:
    """`12 (5, 1000005, 7, ...)`."""
    return f"{len(names):,} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"


def name_of(row: PredictedRow) -> str:
    """How a note names a row: by its id where it has one."""
    if not row.id:
        return row.where
    return row.id if row.turn is None else f"{row.id} round {row.turn}"


_FRAME = re.compile(r"^question: |(?<=\S) answer:$")


def folded(text: str) -> str:
    """A text without what toolkits change: blanks, capitals, and a final full stop or question mark."""
    return " ".join(text.split()).casefold().rstrip(".?").rstrip()


def folded_question(text: str) -> str:
    """A folded question without the frame of some prompts: `Question: ... Answer:`."""
    return folded(_FRAME.sub("", folded(text)))


def places_of(shown_options: Sequence[str], options: Sequence[str]) -> tuple[int, ...] | None:
    """For each option shown, its index among `options`; None when one is none of them, or two are the same one.

    Texts are compared as they are, and folded where that finds nothing and folding leaves all options different.
    """
    exact = {option.strip(): place for place, option in enumerate(options)}
    places = [exact.get(text.strip()) for text in shown_options]
    if None in places:
        loose = {folded(option): place for place, option in enumerate(options)}
        if len(loose) == len(options):
            pairs = zip(shown_options, places, strict=True)
            places = [loose.get(folded(text)) if place is None else place for text, place in pairs]
    known_places = tuple(place for place in places if place is not None)
    return (
        known_places if len(known_places) == len(shown_options) == len(set(known_places)) else None
    )


# --- options that a prompt lists -------------------------------------------------------------------------------------


_LISTS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^[ \t]*\(?([A-Z])[.):][ \t]+(?=\S)",
        r"^[ \t]*\(([A-Z])\)[ \t]*(?=\S)",
        r"(?<!\w)\(([A-Z])\)[ \t]*(?=\S)",
        r"(?<!\w)\(([a-z])\)[ \t]*(?=\S)",
        r"(?<!\S)([A-Z])[.)][ \t]+(?=\S)",
        r"(?<!\S)([A-Z]) ?:[ \t]*(?=\S)",
    )
)
"""Marks of options in prompts, those on lines of their own first."""


def listed_options(prompt: str) -> tuple[str, ...]:
    """Return the options of the last list in a prompt that is lettered from A on, in the order of their letters.

    It is empty if there is no list of two or more. A list may also show its letters in another order (C, D, A, B).
    """
    for pattern in _LISTS:
        marks = list(pattern.finditer(prompt))
        options = _turned_list(prompt, marks) or _listed_texts(prompt, _last_list(marks))
        if options:
            return options
    return ()


def _turned_list(prompt: str, marks: Sequence[re.Match[str]]) -> tuple[str, ...]:
    """The options of a prompt whose only marks are the first three or more letters in any order."""
    letters = [mark[1].upper() for mark in marks]
    if len(marks) < 3 or sorted(letters) != list(ascii_uppercase[: len(marks)]):
        return ()
    texts = _listed_texts(prompt, marks)
    by_letter = dict(zip(letters, texts, strict=False))
    return tuple(by_letter[letter] for letter in sorted(by_letter))


def _last_list(marks: Sequence[re.Match[str]]) -> Sequence[re.Match[str]]:
    """The last marks that are A, B and so on."""
    run: list[re.Match[str]] = []
    last: list[re.Match[str]] = []
    for mark in marks:
        letter = mark[1].upper()
        if letter == "A":
            run = []
        elif ord(letter) - ord("A") != len(run):
            run = []
            continue
        run.append(mark)
        if len(run) >= 2:
            last = list(run)
    return last


def _listed_texts(prompt: str, marks: Sequence[re.Match[str]]) -> tuple[str, ...]:
    """The texts behind marks, without the commas that separate all of them; none if a text is empty."""
    if not marks:
        return ()
    ends = [mark.start() for mark in marks[1:]]
    line_end = prompt.find("\n", marks[-1].end())
    ends.append(line_end if line_end >= 0 else len(prompt))
    texts = [prompt[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    if all(text.endswith(",") for text in texts[:-1]):
        texts = [text.removesuffix(",").strip() for text in texts]
    return tuple(texts) if all(texts) else ()


def gold_places(target: str, options: Sequence[str], labels: Sequence[str] = ()) -> tuple[int, ...]:
    """Return the place of the option that a target names; empty if it names none.

    It names one by its letter, by its text, by both (`B. a dog`), or by words of that option alone (`left` for `to the
    left`). A letter or a number that may be a place is no such word: 1 need not mean `1 cat`.
    """
    shown_labels = tuple(labels) or tuple(ascii_uppercase[: len(options)])
    folded_target = target.strip().casefold()
    same = [
        place for place, option in enumerate(options) if option.strip().casefold() == folded_target
    ]
    letter = target.strip().strip("().:").strip().upper()
    if letter in shown_labels:
        return (shown_labels.index(letter),)
    if len(same) == 1:
        return (same[0],)
    labelled = _LABELLED.fullmatch(target.strip())
    if labelled and labelled[1].upper() in shown_labels:
        return (shown_labels.index(labelled[1].upper()),)
    words = folded(target)
    is_place = words.isdecimal() and int(words) <= len(options)
    if not words or is_place or (len(words) == 1 and words in ascii_lowercase):
        return ()
    containing = [
        place for place, option in enumerate(options) if f" {words} " in f" {folded(option)} "
    ]
    return (containing[0],) if len(containing) == 1 else ()


_LABELLED = re.compile(r"\(?([A-Za-z])[).:]\s*\S.*", re.DOTALL)
LONGEST = 2000
"""Characters: a longer text is a reply that speaks of a failure."""
_WHO = r"(?:api|openai|network|connection|timeout|internal|server|internal server|request|inference|generation|unexpected)"
_BEGINNINGS = (
    r"failed to (?:obtain|get|generate|fetch|receive|retrieve|produce)\b[^.\n]{0,40}\b"
    r"(?:answers?|responses?|reply|replies|outputs?|predictions?|completions?)\b",
    r"[\[<({*$]+\s*(?:\w+[ _-])?error\b",
    rf"{_WHO}[ _-]?(?:error|failed|failure|timeout|timed out)\b\s*(?:[.:!]|$|due to|after|with|while)",
    rf"(?:an? )?(?:{_WHO} )?error (?:has )?occurred\b",
    r"error code: ?\d{3}\b",
    r"(?:http|status)[ _]?(?:code|error)?:? ?[45]\d\d\b",
    r"[45]\d\d (?:bad|gateway|internal|service|server|too many|request|unauthori[sz]ed|forbidden|not found)\b",
    rf"error: [^\n]{{0,80}}(?:{_WHO}|https?|timed out)\b",
    r"error: https?\w*",
    r"cuda (?:error|out of memory)\b",
    r"traceback \(most recent call last\)",
    r"(?:rate limit (?:exceeded|reached)|too many requests|service (?:temporarily )?unavailable)\b",
    r"max(?:imum)? retries\b",
    r"(?-i:(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Timeout)\b[:(])",
)
_FAILURE = re.compile("|".join(_BEGINNINGS), re.IGNORECASE)
_EMPTY_CELL = re.compile(r"nan|none|null|<na>|n/?a", re.IGNORECASE)


def is_failure(reply: str, expected_texts: Collection[str] = ()) -> bool:
    """Whether a text stands for a request that failed; never one of the `expected_texts`: options and references."""
    text = reply.strip()
    if len(text) > LONGEST or not _FAILURE.match(text):
        return False
    return folded(text) not in map(folded, expected_texts)


def is_empty_cell(cell: str, expected_texts: Collection[str] = ()) -> bool:
    """Whether a cell of a table says that nothing is there, as spreadsheets and pandas write it."""
    text = cell.strip()
    return not text or bool(
        _EMPTY_CELL.fullmatch(text) and folded(text) not in map(folded, expected_texts)
    )
