"""What a file of predictions says, row by row, whatever its format; when texts are alike, and when a reply is none."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from snellen.catalogue.entries import Grouping
from snellen.formats.shown_text import whole_characters
from snellen.recognition.folding import folded
from snellen.recognition.named_option import named_option
from snellen.records import Method


class PredictedRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One prediction, with what the file says of its question. Nothing is taken from another row.

    Examples:
        >>> PredictedRow(where="replies.csv:2", id="q1", options=("a cat", "a dog"), reply="(B)").reply
        '(B)'
    """

    where: str
    """Its place in the file, for notes and errors: `record 3`."""
    id: str = ""
    """The question's name in the file; of a round, the dialogue's. Empty when the file has none."""
    turn: int | None = None
    """The round of a dialogue, from 0; None for a question that is not part of one."""
    presentation: int | None = None
    """Which presentation of its question it is, from 0; None where the file does not number them."""
    protocol: str = ""
    """The label of the protocol that presented the question, in what `snellen export` wrote."""
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
    likeliest_option: int | None = field(default=None, name="chosen")
    """The place of the most likely option, where the file keeps nothing else of a likelihood."""
    scores: tuple[float, ...] = ()
    """A log-likelihood (nats) for each option in the order shown."""
    failure: str = ""
    """Why no prediction came."""
    template: str = ""
    """The instruction that the question was put with."""
    picture: str = ""
    """The image's name; rows of different images are never the same question."""
    group: str = ""
    """What the question has in common with others, where the file says so; its image when empty."""
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
        return "likelihood" if self.likeliest_option is not None or self.scores else "generation"


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
    """A file of predictions, read.

    Examples:
        >>> row = PredictedRow(where="replies.csv:2", id="q1", reply="(B)")
        >>> PredictionFile(rows=(row,), repeats=False, model="mine").model
        'mine'
    """

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
    mean_over: str = ""
    """The tag whose values have equal weight in the headline."""
    counted_together: tuple[str, ...] = ()
    """With `mean_over`: values of the tag that share the weight of a single value."""
    mean_of: tuple[str, ...] = ()
    """The rows whose mean is the headline."""
    groups: dict[Grouping, str] = {}
    """The tags that questions have in common which metrics of groups need."""
    notes: tuple[str, ...] = ()
    judged: str = ""
    """The column with what a judge said of each reply; empty if there is none, or only what a rule said."""
    likely_answers: str = ""
    """Of a file without right answers: a column whose cells often stand in the replies, and so may hold these."""


LONGEST_PATH = 1024
"""Characters: a longer text is not the name of an image but the image itself."""


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

    def names(self, kind: str) -> list[str]:
        """Return the names of the rows of a kind."""
        return self._by_kind.get(kind, [])

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


def folded_question(text: str) -> str:
    """A folded question without the frame of some prompts: `Question: ... Answer:`."""
    return folded(_FRAME.sub("", folded(text)))


def places_of(shown_options: Sequence[str], options: Sequence[str]) -> tuple[int, ...] | None:
    """For each option shown, its index among `options`; None when one is none of them, or two are the same one.

    Texts are compared as they are, and folded where that finds nothing and folding leaves all options different.

    Examples:
        >>> places_of(["a dog", "a cat"], ["a cat", "a dog"])
        (1, 0)
    """
    places: list[int] = []
    for text in shown_options:
        place = named_option(text, options, "text")
        if place is None or place in places:
            return None
        places.append(place)
    return tuple(places)


def is_number(text: str) -> bool:
    """Return whether a text is one number and nothing else."""
    try:
        float(text)
    except ValueError:
        return False
    return True


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
_EMPTY_CELL = re.compile(r"-?nan|none|null|<na>|#?n/?a|-?1\.#(?:ind|qnan)", re.IGNORECASE)
"""Texts that pandas reads as empty cells, and so writes as such."""


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
