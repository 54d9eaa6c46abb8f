"""The content of a file of predictions, row by row, whatever its format; and tests for texts that are no replies."""

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
    """One prediction, with what the file says about its question. Nothing in it comes from another row.

    Examples:
        >>> PredictedRow(where="replies.csv:2", id="q1", options=("a cat", "a dog"), reply="(B)").reply
        '(B)'
    """

    where: str
    """Its place in the file, for notes and errors: `record 3`."""
    id: str = ""
    """The id of the question in the file, or that of the dialogue if the row is one of its rounds.
    Empty if the file has no ids."""
    turn: int | None = None
    """The round of a dialogue, from 0; None for a question that is not part of one."""
    presentation: int | None = None
    """A question may be asked several times, for example with its options in other orders. The
    number of this one, from 0; None if the file does not number them."""
    protocol: str = ""
    """How the question was asked, such as `circular` (each rotation of its options), in a file that
    `snellen export` wrote."""
    question: str = ""
    prompt: str = ""
    """All that the model was shown, where the file has it."""
    subject: str = ""
    """The part of the question that stays the same in all wordings, such as a caption to judge, if
    the file has it in a field of its own."""
    context: str = ""
    options: tuple[str, ...] = ()
    """In the order in which this row showed them."""
    labels: tuple[str, ...] = ()
    """The labels that were shown with the options; capital letters from A when empty."""
    lists_options: bool = True
    """Whether the model was shown the options; replies are read without labels if it was not."""
    gold: tuple[int, ...] = ()
    """Indices of the right options in `options`; empty if the right answer is not published."""
    references: tuple[str, ...] = ()
    """Accepted texts of a question without options; empty if the right answer is not published."""
    reply: str | None = None
    likeliest_option: int | None = field(default=None, name="chosen")
    """The index of the most likely option, if the file does not have the likelihoods themselves."""
    scores: tuple[float, ...] = ()
    """A log-likelihood (nats) for each option in the order shown."""
    failure: str = ""
    """The error message if there is no prediction; otherwise empty."""
    template: str = ""
    """The instruction that the question was put with."""
    picture: str = ""
    """The image's name; rows of different images are never the same question."""
    group: str = ""
    """A name that related questions share, if the file has one. When empty, questions about one image are related."""
    tags: dict[str, str] = {}
    """Facts about the question, by their columns."""
    verdict: float | None = None
    """How right the file says that the reply is, from 0 to 1."""
    reading: str | None = None
    """What the file says was read in the reply."""
    judge: str = ""
    """Who or what judged the reply, as the file says."""
    decoding: str = ""
    """Settings of decoding that the file has, as one text: `temperature=0.2, seed=1`."""

    @property
    def method(self) -> Method:
        return "likelihood" if self.likeliest_option is not None or self.scores else "generation"


def with_failure(row: PredictedRow) -> PredictedRow:
    """Return the row marked as failed, if it has no reply or only the error message of a request.

    The message, or `there is no reply`, becomes the reason of the failure. Other rows are returned
    as they are.
    """
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
    """The predictions that were read from a file, with what it says about its model and its questions.

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
    """Names of the metrics of open questions; the usual ones when empty."""
    headline: str = ""
    """The row of the report that is the main result of the file; the usual one when empty."""
    mean_over: str = ""
    """The tag whose values have equal weight in the headline."""
    counted_together: tuple[str, ...] = ()
    """With `mean_over`: values of the tag that share the weight of a single value."""
    mean_of: tuple[str, ...] = ()
    """The rows whose mean is the headline."""
    groups: dict[Grouping, str] = {}
    """For metrics over groups of questions: the tag whose equal values make a group, by kind of grouping."""
    notes: tuple[str, ...] = ()
    judged: str = ""
    """The column with a judge's verdict on each reply; empty if there are no verdicts, or if a fixed rule gave them."""
    likely_answers: str = ""
    """In a file without right answers: a column that may hold them, because its cells often occur in the replies."""


LONGEST_PATH = 1024
"""Characters: a longer text is not the name of an image but the image itself."""


HALF_PAIRS = "rows with half of a surrogate pair, read as U+FFFD"
"""A model may write half of a pair, and JSON can spell it. The replies of served models are read in the same way."""


def with_whole_characters(file: PredictionFile) -> PredictionFile:
    """Return the file with U+FFFD in place of halves of surrogate pairs, which UTF-8 cannot encode.

    A note tells in which rows this was done.
    """
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
    """Collects what is to be noted about rows: for each kind of finding, the names of the rows."""

    def __init__(self) -> None:
        self._by_kind: dict[str, list[str]] = defaultdict(list)

    def add(self, kind: str, name: str) -> None:
        self._by_kind[kind].append(name)

    def names(self, kind: str) -> list[str]:
        """Return the names of the rows with this kind of finding; an empty list if there are none."""
        return self._by_kind.get(kind, [])

    def clear(self) -> None:
        """Forget what was added."""
        self._by_kind.clear()

    def notes(self) -> list[str]:
        """Return one line per kind: `rows left out, without an id: 12 (record 5, record 7, record 9, ...)`."""
        return [f"{kind}: {count_named(names)}" for kind, names in self._by_kind.items()]


def count_named(names: Sequence[str]) -> str:
    """Return how many names there are, with the first three: `12 (5, 1000005, 7, ...)`."""
    return f"{len(names):,} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"


def name_of(row: PredictedRow) -> str:
    """Return how a note names a row: by its id, or by its place in the file if it has no id.

    A round of a dialogue has its number, too: `q7 round 2`.
    """
    if not row.id:
        return row.where
    return row.id if row.turn is None else f"{row.id} round {row.turn}"


_FRAME = re.compile(r"^question: |(?<=\S) answer:$")


def folded_question(text: str) -> str:
    """Return a question in small letters without the words `Question: ... Answer:` that some prompts put around it."""
    return folded(_FRAME.sub("", folded(text)))


def places_of(shown_options: Sequence[str], options: Sequence[str]) -> tuple[int, ...] | None:
    """Return the index among `options` of each option shown: `(1, 0)` for two options in reverse order.

    None is returned if an option shown is not among `options`, or if two of them are the same one.
    Texts are compared as they are and, if that finds nothing, without differences of capitals and
    spaces.

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
    """Return whether a text is the error message of a failed request, and not a reply.

    Args:
        reply: The text.
        expected_texts: Options and right answers of the question, which never count as error
            messages.
    """
    text = reply.strip()
    if len(text) > LONGEST or not _FAILURE.match(text):
        return False
    return folded(text) not in map(folded, expected_texts)


def is_empty_cell(cell: str, expected_texts: Collection[str] = ()) -> bool:
    """Return whether a cell is empty, or has a text that spreadsheets and pandas write for an empty one, such as `nan`.

    Args:
        cell: The text of the cell.
        expected_texts: Options and right answers of the question, which never count as empty:
            `None` may be an answer.
    """
    text = cell.strip()
    return not text or bool(
        _EMPTY_CELL.fullmatch(text) and folded(text) not in map(folded, expected_texts)
    )
