"""Questions as the pages show them: a page of a list, and one question with all that any run asked and got."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import chain, groupby
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.headline import protocol_preference
from snellen.errors import DataError
from snellen.protocols.base import labelled_declaration
from snellen.protocols.prompts.role_prompts import shortened
from snellen.records import Answer, Exchange, ImageRef, Prediction, Sample, Score, Turn, Variant
from snellen.report.samples import OUTCOMES, Outcome, outcome_of
from snellen.report.table import shorten
from snellen.runs.journal import read_exchange_at
from snellen.runs.run_folder import journals
from snellen.scoring.journal_reading import steps_in_order
from snellen.scoring.reply_labels import LabelItem, label_item
from snellen.scoring.unparsed import UnparsedReply
from snellen.viewing.filters import PAGE, QuestionFilter
from snellen.viewing.indexing import REPLY_END
from snellen.viewing.library import RunLibrary, ShownRun

MOST_COLUMNS = 3
"""Models that a list shows unless all are asked for."""
VERDICTS = ("right", "wrong", "unparsed")
"""The outcomes that models can disagree by."""
LONGEST_REPLY = 120
Column = tuple[str, str]
"""A run's name and a protocol."""
_declared = cache(labelled_declaration)


class Cell(Struct, frozen=True):
    """What came of one question in one column."""

    outcome: Outcome
    reading: str
    presentations: int
    unstable: bool
    entry: int
    """Its id in the index."""
    promised: int
    """How many presentations its protocol has."""
    reply: str = ""
    """The beginning of its different replies, where they are more than what was read."""


class QuestionLine(Struct, frozen=True):
    """A question in a list."""

    benchmark: str
    turn: int
    build: str
    sample: Sample
    answer: Answer | None
    cells: dict[Column, Cell]

    @property
    def asked(self) -> Turn:
        return self.sample.rounds[self.turn]


class QuestionList(Struct, frozen=True):
    """One page of the chosen questions."""

    lines: tuple[QuestionLine, ...]
    columns: tuple[Column, ...]
    more_columns: int
    """How many are not shown."""
    first: int
    """Place of the first line among all chosen, from 1."""
    total: int
    pages: int
    page: int


def list_questions(
    library: RunLibrary, chosen: QuestionFilter, runs: Sequence[ShownRun]
) -> QuestionList:
    """A page; one past the end is the last one."""
    ids = library.selection(chosen, runs)
    pages = max(-(-len(ids) // PAGE), 1)
    page = min(chosen.page, pages)
    start = (page - 1) * PAGE
    on_page, compared = ids[start : start + PAGE], chosen.compared
    order = {run.name: place for place, run in enumerate(runs_in_order(runs, compared))}
    fitting = [
        column
        for column in _present(library, on_page, runs)
        if _is_asked_for(column, chosen, compared)
    ]
    columns = sorted(fitting, key=lambda column: (order[column[0]], protocol_preference(column[1])))
    if compared:  # the two beside each other, under each protocol: which of them tells the two apart is not known
        columns.sort(key=lambda column: protocol_preference(column[1]))
    shows_all = bool(compared) or chosen.columns == "all"
    if chosen.is_by_replies and not shows_all:
        lines = _lines(library, on_page, runs)
        first_columns = _first_columns(columns, _deciding(lines, chosen))
    else:  # what came in other columns is not looked up
        first_columns = columns if shows_all else _first_columns(columns, ())
        names = {name for name, _ in first_columns}
        lines = _lines(library, on_page, [run for run in runs if run.name in names])
    return QuestionList(
        _with_replies(library, lines, first_columns),
        tuple(first_columns),
        len(columns) - len(first_columns),
        start + 1,
        len(ids),
        pages,
        page,
    )


def runs_in_order(runs: Sequence[ShownRun], compared: Sequence[str]) -> list[ShownRun]:
    """Those that are compared first, then the others, the latest first: the order on every page of questions."""
    places = {name: place for place, name in enumerate(compared)}
    return sorted(runs, key=lambda run: places.get(run.name, len(places)))


def _is_asked_for(column: Column, chosen: QuestionFilter, compared: Collection[str]) -> bool:
    run, protocol = column
    return run in (compared or (chosen.run or run,)) and protocol == (chosen.protocol or protocol)


def _deciding(lines: Sequence[QuestionLine], chosen: QuestionFilter) -> set[str]:
    """The fewest protocols, preferred ones first, under which each of these questions shows why it was chosen; empty
    where nothing was asked of replies."""
    deciding, open_lines = set(), list(lines) if chosen.is_by_replies else []
    for protocol in sorted(
        {protocol for line in lines for _, protocol in line.cells}, key=protocol_preference
    ):
        unexplained = [line for line in open_lines if not _decides(line, protocol, chosen)]
        if len(unexplained) < len(open_lines):
            deciding.add(protocol)
            open_lines = unexplained
    return deciding


def _decides(line: QuestionLine, protocol: str, chosen: QuestionFilter) -> bool:
    """Whether a question was chosen by what was replied under this protocol."""
    cells = {run: cell for (run, label), cell in line.cells.items() if label == protocol}
    verdicts = {cell.outcome == "right" for cell in cells.values() if cell.outcome in VERDICTS}
    is_fitting = chosen.is_by_entry and any(
        cell.outcome == (chosen.outcome or cell.outcome)
        and cell.reading == (chosen.reading or cell.reading)
        and cell.unstable >= chosen.unstable
        for run, cell in cells.items()
        if run == (chosen.run or run)
    )
    return is_fitting or (chosen.disagree and len(verdicts) == 2)


def _first_columns(columns: Sequence[Column], deciding: Collection[str]) -> list[Column]:
    """The first runs: each by its preferred protocol, or beside one another under each of those that decided."""
    decisive = [column for column in columns if column[1] in deciding]
    if decisive:
        names = list(dict.fromkeys(run for run, _ in decisive))[:MOST_COLUMNS]
        return sorted(
            (column for column in decisive if column[0] in names),
            key=lambda column: protocol_preference(column[1]),
        )
    by_run: dict[str, Column] = {}
    for column in columns:
        by_run.setdefault(column[0], column)
    return list(by_run.values())[:MOST_COLUMNS]


def _with_replies(
    library: RunLibrary, lines: Sequence[QuestionLine], columns: Sequence[Column]
) -> tuple[QuestionLine, ...]:
    """The lines with the cells of these columns, and in each the beginning of its replies."""
    entries = [
        line.cells[column].entry for line in lines for column in columns if column in line.cells
    ]
    marks = ", ".join("?" * len(entries))
    words = dict(
        library.rows(
            "SELECT entry.id, reply_words.words FROM entry JOIN reply_words ON reply_words.rowid = entry.words "
            f"WHERE entry.id IN ({marks})",
            *entries,
        )
    )
    return tuple(
        replace(
            line,
            cells={
                column: replace(cell, reply=_beginning(words.get(cell.entry, ""), cell.reading))
                for column in columns
                if (cell := line.cells.get(column))
            },
        )
        for line in lines
    )


def _beginning(replies: str, reading: str) -> str:
    """The different replies, with how often each came."""
    counts = Counter(" ".join(reply.split()) for reply in replies.split(REPLY_END))
    if list(counts) in ([reading], [""]):
        return ""
    shown = (f"{reply} ({count} times)" if count > 1 else reply for reply, count in counts.items())
    return shorten(" / ".join(shown), LONGEST_REPLY)


def _present(library: RunLibrary, ids: Sequence[int], runs: Sequence[ShownRun]) -> list[Column]:
    """Where anything came of these questions."""
    names, marks = {run.id: run.name for run in runs}, ", ".join("?" * len(ids))
    rows = library.rows(
        f"SELECT DISTINCT run, protocol FROM entry WHERE question IN ({marks})", *ids
    )
    return [(names[run], protocol) for run, protocol in rows if run in names]


def _lines(library: RunLibrary, ids: Sequence[int], runs: Sequence[ShownRun]) -> list[QuestionLine]:
    """The questions with what came of them in these runs."""
    names = {run.id: run.name for run in runs}
    marks = ", ".join("?" * len(ids))
    rows = library.rows(
        "SELECT id, benchmark, turn, build, sample, answer FROM question JOIN question_record ON question = id "
        f"WHERE id IN ({marks})",
        *ids,
    )
    lines = {
        number: QuestionLine(
            benchmark, turn, build, msgspec.json.decode(sample, type=Sample), _answer(gold), {}
        )
        for number, benchmark, turn, build, sample, gold in rows
    }
    entries = library.rows(
        "SELECT question, run, protocol, outcome, reading, presentations, unstable, id FROM entry "
        f"WHERE question IN ({marks}) AND run IN ({', '.join('?' * len(names))})",
        *ids,
        *names,
    )
    for question, run, protocol, outcome, reading, presentations, unstable, entry in entries:
        if question in lines:
            promised = _declared(protocol).n_presentations(lines[question].sample)
            cell = Cell(OUTCOMES[outcome], reading, presentations, bool(unstable), entry, promised)
            lines[question].cells[names[run], protocol] = cell
    return [lines[number] for number in ids if number in lines]


def _answer(stored: bytes | None) -> Answer | None:
    return msgspec.json.decode(stored, type=Answer) if stored else None


class ShownPresentation(Struct, frozen=True):
    """One presentation, with what was sent and what came: one exchange, or all steps that led to the answer."""

    prediction: Prediction
    outcome: Outcome
    exchanges: tuple[Exchange, ...]

    def to_label(self, turn: Turn) -> LabelItem | None:
        """The reply as one to be labelled; None for one that needs no reading, or was not written."""
        if (
            len(self.exchanges) != 1
            or not turn.options
            or self.exchanges[0].request.kind != "generate"
        ):
            return None
        text = self.exchanges[0].response.text
        return (
            label_item(UnparsedReply(self.prediction, turn, text))
            if text and shortened(text)
            else None
        )


class ShownEntry(Struct, frozen=True):
    """One question under one protocol of one run."""

    run: ShownRun
    protocol: str
    outcome: Outcome
    unstable: bool
    presentations: tuple[ShownPresentation, ...]
    not_asked: int
    """Presentations that its protocol has and that were not asked, or not any more."""
    baselines: tuple[Exchange, ...]
    """What was asked without the picture, to be subtracted."""
    scores: tuple[Score, ...]

    @property
    def why_not_asked(self) -> str:
        """What in the replies ended a protocol that stops early; empty for a question that was not asked to its end."""
        if not _declared(self.protocol).stops_early:
            return ""
        if self.unstable:
            return "the replies contradict each other"
        is_unread = any(shown.prediction.choice is None for shown in self.presentations)
        return "a reply before failed" if is_unread else ""


class QuestionPage(Struct, frozen=True):
    """One question with all that any run of the session asked and got."""

    id: int
    benchmark: str
    build: str
    turn: int
    dimension: str
    sample: Sample
    answer: Answer | None
    entries: tuple[ShownEntry, ...]

    @property
    def asked(self) -> Turn:
        return self.sample.rounds[self.turn]

    @property
    def letters_of_right(self) -> str:
        """Of the right options, as they stand in the list above; empty without options, or where they are hidden."""
        places = self.answer.options if self.answer and self.asked.options else ()
        return ", ".join(
            string.ascii_uppercase[place] for place in places if place < len(string.ascii_uppercase)
        )

    @property
    def most_presentations(self) -> int:
        """In one row of the table, those that were not asked any more included."""
        return max(
            (len(entry.presentations) + entry.not_asked for entry in self.entries), default=0
        )

    @property
    def scores(self) -> Iterator[Score]:
        return chain.from_iterable(entry.scores for entry in self.entries)

    @property
    def by_protocol(self) -> list[tuple[str, list[ShownEntry]]]:
        return [
            (protocol, list(entries))
            for protocol, entries in groupby(self.entries, key=_protocol_of)
        ]


def _protocol_of(entry: ShownEntry) -> str:
    return entry.protocol


def find_question(
    library: RunLibrary, benchmark: str, sample_id: str, turn: int, build: str = ""
) -> int | None:
    """Its id in the index; of several builds the one whose digest begins with `build`, else the latest indexed."""
    rows = library.rows(
        "SELECT id, build FROM question WHERE benchmark = ? AND sample_id = ? AND turn = ? ORDER BY id DESC",
        benchmark,
        sample_id,
        turn,
    )
    return next(
        (int(number) for number, build_version in rows if build_version.startswith(build)), None
    )


def read_question(
    library: RunLibrary, number: int, runs: Sequence[ShownRun], first: str = ""
) -> QuestionPage:
    """All of one question, by one protocol first; its exchanges are read from the runs' journals."""
    [(benchmark, build, turn, dimension, sample, gold)] = library.rows(
        "SELECT benchmark, build, turn, dimension, sample, answer "
        "FROM question JOIN question_record ON question = id WHERE id = ?",
        number,
    )
    answer, decoded = _answer(gold), msgspec.json.decode(sample, type=Sample)
    entries = [entry for run in runs for entry in _entries(library, number, run, decoded, answer)]
    entries.sort(
        key=lambda entry: (
            entry.protocol != first,
            protocol_preference(entry.protocol),
            entry.protocol,
        )
    )
    return QuestionPage(number, benchmark, build, turn, dimension, decoded, answer, tuple(entries))


def read_exchanges_of(library: RunLibrary, number: int, run: ShownRun) -> list[Exchange]:
    """All exchanges of a run about a question, in order of arrival."""
    paths = journals(run.folder)
    places = library.rows(
        "SELECT journal, offset FROM exchange WHERE question = ? AND run = ? ORDER BY journal, offset",
        number,
        run.id,
    )
    return [read_exchange_at(paths[journal], offset) for journal, offset in places]


def _entries(
    library: RunLibrary, number: int, run: ShownRun, sample: Sample, answer: Answer | None
) -> list[ShownEntry]:
    rows = library.rows(
        "SELECT protocol, outcome, unstable, predictions, scores FROM entry JOIN entry_record ON entry = id "
        "WHERE question = ? AND run = ?",
        number,
        run.id,
    )
    exchanges = read_exchanges_of(library, number, run) if rows else []
    return [
        _entry(
            run,
            row,
            [exchange for exchange in exchanges if exchange.protocol == row[0]],
            sample,
            answer,
        )
        for row in rows
    ]


def _entry(
    run: ShownRun,
    row: tuple[str, int, int, bytes, bytes],
    exchanges: Sequence[Exchange],
    sample: Sample,
    answer: Answer | None,
) -> ShownEntry:
    protocol, outcome, unstable, predictions, scores = row
    latest, declared = _latest(exchanges), _declared(protocol)
    steps = tuple(steps_in_order(latest.values())) if declared.conclude else ()
    shown_exchanges = tuple(
        ShownPresentation(
            prediction,
            _outcome(prediction, answer, OUTCOMES[outcome]),
            steps or ((latest[prediction.variant],) if prediction.variant in latest else ()),
        )
        for prediction in msgspec.json.decode(predictions, type=tuple[Prediction, ...])
    )
    baselines = tuple(exchange for variant, exchange in latest.items() if variant.baseline)
    decoded = msgspec.json.decode(scores, type=tuple[Score, ...])
    not_asked = max(declared.n_presentations(sample) - len(shown_exchanges), 0)
    return ShownEntry(
        run,
        protocol,
        OUTCOMES[outcome],
        bool(unstable),
        shown_exchanges,
        not_asked,
        baselines,
        decoded,
    )


def _latest(exchanges: Sequence[Exchange]) -> dict[Variant, Exchange]:
    """Of several exchanges for one presentation or step the last that was answered, as in scoring."""
    latest: dict[Variant, Exchange] = {}
    for exchange in exchanges:
        if exchange.response.error is None or exchange.request.variant not in latest:
            latest[exchange.request.variant] = exchange
    return latest


def _outcome(prediction: Prediction, answer: Answer | None, entry: Outcome) -> Outcome:
    """That of a presentation; a text has that of its question."""
    if prediction.text is not None and prediction.error is None:
        return "right" if entry == "right so far" else entry
    return outcome_of(prediction, answer, None, is_verdict=False)


def find_picture(library: RunLibrary, digest: str) -> tuple[Path, ImageRef]:
    """The benchmark's folder that holds a picture, and what is known of it. Raises DataError for one of no question."""
    rows = library.rows(
        "SELECT folder, media_type, width, height FROM picture WHERE digest = ?", digest
    )
    if not rows:
        raise DataError(f"no question of these runs has the picture {digest[:12]}")
    [(folder, media_type, width, height)] = rows
    return Path(folder), ImageRef(digest, media_type, width, height)
