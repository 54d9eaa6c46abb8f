"""Questions for the pages of runs: one page of a list, and one question with all exchanges of all runs."""

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
from snellen.report.number_text import shorten
from snellen.report.samples import OUTCOMES, Outcome, outcome_of
from snellen.runs.journal import read_exchange_at
from snellen.runs.run_folder import journals
from snellen.scoring.journal_reading import steps_in_order
from snellen.scoring.reply_labels import LabelItem, label_item
from snellen.scoring.unparsed import UnparsedReply
from snellen.viewing.filters import PAGE, QuestionFilter
from snellen.viewing.indexing import REPLY_END
from snellen.viewing.library import RunLibrary, ShownRun

MOST_COLUMNS = 3
"""Models that a list shows at most, unless the user selects all columns."""
VERDICTS = ("right", "wrong", "unparsed")
"""The outcomes that models can disagree by."""
LONGEST_REPLY = 120
Column = tuple[str, str]
"""A run's name and a protocol."""
_declared = cache(labelled_declaration)


class Cell(Struct, frozen=True):
    """The outcome of one question for one run and protocol."""

    outcome: Outcome
    reading: str
    presentations: int
    unstable: bool
    entry: int
    """Id of the entry in the index."""
    promised: int
    """Number of presentations that the protocol declares."""
    reply: str = ""
    """Beginning of the distinct replies; empty if they add nothing to `reading`."""


class QuestionRow(Struct, frozen=True):
    """A question in a list."""

    benchmark: str
    turn: int
    build: str
    sample: Sample
    answer: Answer | None
    cells: dict[Column, Cell]
    chosen_by: tuple[str, ...] = ()
    """The runs whose replies match the filter; with a filter on wrong answers, the runs that are wrong."""

    @property
    def round(self) -> Turn:
        return self.sample.rounds[self.turn]


class QuestionList(Struct, frozen=True):
    """One page of the chosen questions."""

    question_rows: tuple[QuestionRow, ...]
    columns: tuple[Column, ...]
    more_columns: int
    """Number of columns that are not shown."""
    first: int
    """Number of the first line among all chosen questions, from 1."""
    total: int
    pages: int
    page: int


def list_questions(
    library: RunLibrary, chosen: QuestionFilter, runs: Sequence[ShownRun]
) -> QuestionList:
    """Return one page of the chosen questions. A page number past the end gives the last page.

    The lines show few columns unless the filter compares runs or asks for all columns. They are chosen so that they
    show why each question is in the list.
    """
    ids = library.selection(chosen, runs)
    pages = max(-(-len(ids) // PAGE), 1)
    page = min(chosen.page, pages)
    start = (page - 1) * PAGE
    on_page = ids[start : start + PAGE]
    compared = chosen.compared
    order = {run.name: index for index, run in enumerate(runs_in_order(runs, compared))}
    fitting = [
        column
        for column in _present(library, on_page, runs)
        if _is_asked_for(column, chosen, compared)
    ]
    columns = sorted(fitting, key=lambda column: (order[column[0]], protocol_preference(column[1])))
    if compared:
        # Both runs next to each other under each protocol, because any protocol may have decided.
        columns.sort(key=lambda column: protocol_preference(column[1]))
    shows_all = bool(compared) or chosen.columns == "all"
    if chosen.is_by_entry and not chosen.run:
        question_rows = _with_choosing_runs(
            _question_rows(library, on_page, runs), chosen, list(order)
        )
        by_protocol = _deciding(question_rows, chosen)
        first_columns = (
            columns if shows_all else _telling_columns(columns, question_rows, by_protocol)
        )
    elif chosen.is_by_replies and not shows_all:
        question_rows = _question_rows(library, on_page, runs)
        first_columns = _first_columns(columns, _deciding(question_rows, chosen))
    else:  # only the shown columns are looked up
        first_columns = columns if shows_all else _first_columns(columns, ())
        names = {name for name, _ in first_columns}
        question_rows = _question_rows(library, on_page, [run for run in runs if run.name in names])
    return QuestionList(
        _with_replies(library, question_rows, first_columns),
        tuple(first_columns),
        len(columns) - len(first_columns),
        start + 1,
        len(ids),
        pages,
        page,
    )


def runs_in_order(runs: Sequence[ShownRun], compared: Sequence[str]) -> list[ShownRun]:
    """Return the compared runs, then the others in their order: the order of columns on all pages of questions."""
    positions = {name: index for index, name in enumerate(compared)}
    return sorted(runs, key=lambda run: positions.get(run.name, len(positions)))


def _is_asked_for(column: Column, chosen: QuestionFilter, compared: Collection[str]) -> bool:
    """Return whether a column is of the run and protocol of the filter, if it has them, or of a compared run."""
    run, protocol = column
    if chosen.protocol and protocol != chosen.protocol:
        return False
    if compared:
        return run in compared
    return not chosen.run or run == chosen.run


def _deciding(question_rows: Sequence[QuestionRow], chosen: QuestionFilter) -> set[str]:
    """Return the protocols that explain why a filter selected some questions.

    Protocols are added in the order of preference, if they explain a question that none before explains.

    Returns:
        The protocols; none if the filter has no condition on replies.
    """
    if not chosen.is_by_replies:
        return set()
    deciding: set[str] = set()
    unexplained = list(question_rows)
    protocols = {protocol for question_row in question_rows for _, protocol in question_row.cells}
    for protocol in sorted(protocols, key=protocol_preference):
        remaining = [
            question_row
            for question_row in unexplained
            if not _decides(question_row, protocol, chosen)
        ]
        if len(remaining) < len(unexplained):
            deciding.add(protocol)
            unexplained = remaining
    return deciding


def _decides(question_row: QuestionRow, protocol: str, chosen: QuestionFilter) -> bool:
    """Return whether the replies under a protocol explain why a filter selected a question.

    They do if one of them fits the filter, or if the filter asks for disagreement and some are right and others are
    not.
    """
    has_right = False
    has_wrong = False
    for (run, label), cell in question_row.cells.items():
        if label != protocol:
            continue
        if chosen.is_by_entry and chosen.run in ("", run) and _fits(cell, chosen):
            return True
        if cell.outcome in VERDICTS:
            has_right |= cell.outcome == "right"
            has_wrong |= cell.outcome != "right"
    return chosen.disagree and has_right and has_wrong


def _fits(cell: Cell, chosen: QuestionFilter) -> bool:
    """Return whether the replies of a run to a question match the filter."""
    if chosen.outcome and cell.outcome != chosen.outcome:
        return False
    if chosen.reading and cell.reading != chosen.reading:
        return False
    return cell.unstable >= chosen.unstable


def _with_choosing_runs(
    question_rows: Sequence[QuestionRow], chosen: QuestionFilter, order: Sequence[str]
) -> list[QuestionRow]:
    """Add to each question the runs whose replies fit the filter (`chosen_by`).

    Args:
        question_rows: The questions.
        chosen: The filter.
        order: The runs in the order of the page.
    """
    completed: list[QuestionRow] = []
    for question_row in question_rows:
        fitting_runs: set[str] = set()
        for (run, protocol), cell in question_row.cells.items():
            is_protocol_chosen = chosen.protocol in ("", protocol)
            if is_protocol_chosen and _fits(cell, chosen):
                fitting_runs.add(run)
        chosen_by = tuple(run for run in order if run in fitting_runs)
        completed.append(replace(question_row, chosen_by=chosen_by))
    return completed


def _telling_columns(
    columns: Sequence[Column], question_rows: Sequence[QuestionRow], deciding: Collection[str]
) -> list[Column]:
    """Choose the columns of the runs that match the filter for most of the questions shown.

    Args:
        columns: All columns, as pairs of a run and a protocol.
        question_rows: The questions that are shown.
        deciding: The protocols that the filter is about.
    """
    n_matches_by_run: Counter[str] = Counter()
    for question_row in question_rows:
        n_matches_by_run.update(question_row.chosen_by)
    ranked_runs = sorted((run for run, _ in columns), key=lambda run: -n_matches_by_run[run])
    shown_runs = list(dict.fromkeys(ranked_runs))[:MOST_COLUMNS]
    shown_columns = [(run, protocol) for run, protocol in columns if run in shown_runs]
    return _first_columns(shown_columns, deciding)


def _first_columns(columns: Sequence[Column], deciding: Collection[str]) -> list[Column]:
    """Choose the columns of the first `MOST_COLUMNS` runs.

    Args:
        columns: Pairs of a run and a protocol.
        deciding: The protocols that the filter is about. Each run has a column for each of them. If no run has any of
            them, each run has one column for its first protocol.
    """
    deciding_columns = [(run, protocol) for run, protocol in columns if protocol in deciding]
    if deciding_columns:
        runs = list(dict.fromkeys(run for run, _ in deciding_columns))[:MOST_COLUMNS]
        shown = [(run, protocol) for run, protocol in deciding_columns if run in runs]
        return sorted(shown, key=lambda column: protocol_preference(column[1]))
    first_by_run: dict[str, Column] = {}
    for run, protocol in columns:
        first_by_run.setdefault(run, (run, protocol))
    return list(first_by_run.values())[:MOST_COLUMNS]


def _with_replies(
    library: RunLibrary, question_rows: Sequence[QuestionRow], columns: Sequence[Column]
) -> tuple[QuestionRow, ...]:
    """Reduce the lines to these columns, and add the beginning of the replies to each cell."""
    entries = [
        question_row.cells[column].entry
        for question_row in question_rows
        for column in columns
        if column in question_row.cells
    ]
    marks = ", ".join("?" * len(entries))
    replies = dict(
        library.rows(
            "SELECT entry.id, reply_words.words FROM entry JOIN reply_words ON reply_words.rowid = entry.words "
            f"WHERE entry.id IN ({marks})",
            *entries,
        )
    )
    return tuple(
        replace(
            question_row,
            cells={
                column: replace(cell, reply=_beginning(replies.get(cell.entry, ""), cell.reading))
                for column in columns
                if (cell := question_row.cells.get(column))
            },
        )
        for question_row in question_rows
    )


def _beginning(replies: str, reading: str) -> str:
    """Return the replies to a question as one short text, such as `B (3 times) / C`.

    Args:
        replies: The replies, separated by `REPLY_END`.
        reading: The option that was read from them, which the page shows anyway.

    Returns:
        The text; empty if the replies only repeat `reading` or are empty.
    """
    counts = Counter(" ".join(reply.split()) for reply in replies.split(REPLY_END))
    distinct_replies = list(counts)
    if distinct_replies == [reading] or distinct_replies == [""]:
        return ""
    texts: list[str] = []
    for reply, count in counts.items():
        texts.append(f"{reply} ({count} times)" if count > 1 else reply)
    return shorten(" / ".join(texts), LONGEST_REPLY)


def _present(library: RunLibrary, ids: Sequence[int], runs: Sequence[ShownRun]) -> list[Column]:
    """Return the pairs of a run and a protocol under which any of some questions has a result."""
    names = {run.id: run.name for run in runs}
    marks = ", ".join("?" * len(ids))
    rows = library.rows(
        f"SELECT DISTINCT run, protocol FROM entry WHERE question IN ({marks})", *ids
    )
    return [(names[run], protocol) for run, protocol in rows if run in names]


def _question_rows(
    library: RunLibrary, ids: Sequence[int], runs: Sequence[ShownRun]
) -> list[QuestionRow]:
    """Return the questions with these ids, in this order, with their outcomes in these runs."""
    names = {run.id: run.name for run in runs}
    marks = ", ".join("?" * len(ids))
    rows = library.rows(
        "SELECT id, benchmark, turn, build, sample, answer FROM question JOIN question_record ON question = id "
        f"WHERE id IN ({marks})",
        *ids,
    )
    question_rows = {
        number: QuestionRow(
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
        if question in question_rows:
            promised = _declared(protocol).n_presentations(question_rows[question].sample)
            cell = Cell(OUTCOMES[outcome], reading, presentations, bool(unstable), entry, promised)
            question_rows[question].cells[names[run], protocol] = cell
    return [question_rows[number] for number in ids if number in question_rows]


def _answer(stored: bytes | None) -> Answer | None:
    return msgspec.json.decode(stored, type=Answer) if stored else None


class ShownPresentation(Struct, frozen=True):
    """One presentation with its exchange, or with all exchanges if the answer took several steps."""

    prediction: Prediction
    outcome: Outcome
    exchanges: tuple[Exchange, ...]

    def to_label(self, turn: Turn) -> LabelItem | None:
        """Return the reply in the form in which people label it with the option that it chooses.

        Returns:
            None if it is not a single generated text, or if the question has no options.
        """
        if len(self.exchanges) != 1 or not turn.options:
            return None
        [exchange] = self.exchanges
        text = exchange.response.text
        if exchange.request.kind != "generate" or not text or not shortened(text):
            return None
        return label_item(UnparsedReply(self.prediction, turn, text))


class ShownEntry(Struct, frozen=True):
    """One question under one protocol of one run."""

    run: ShownRun
    protocol: str
    outcome: Outcome
    unstable: bool
    presentations: tuple[ShownPresentation, ...]
    not_asked: int
    """Number of declared presentations that were not sent."""
    baselines: tuple[Exchange, ...]
    """Exchanges without the image, whose scores are subtracted."""
    scores: tuple[Score, ...]

    @property
    def why_not_asked(self) -> str:
        """Why a protocol stopped early after these replies; empty if it does not stop early, or is unfinished."""
        if not _declared(self.protocol).stops_early:
            return ""
        if self.unstable:
            return "the replies contradict each other"
        is_unread = any(shown.prediction.choice is None for shown in self.presentations)
        return "a reply before failed" if is_unread else ""


class QuestionPage(Struct, frozen=True):
    """One question with its entries in all runs of the session."""

    id: int
    benchmark: str
    build: str
    turn: int
    dimension: str
    sample: Sample
    answer: Answer | None
    entries: tuple[ShownEntry, ...]

    @property
    def round(self) -> Turn:
        return self.sample.rounds[self.turn]

    @property
    def letters_of_right(self) -> str:
        """Letters of the correct options in their original order, such as `A, C`.

        They are empty if the question has no options, or if its correct answer is not available.
        """
        if self.answer is None or not self.round.options:
            return ""
        letters: list[str] = []
        for index in self.answer.options:
            if index < len(string.ascii_uppercase):
                letters.append(string.ascii_uppercase[index])
        return ", ".join(letters)

    @property
    def most_presentations(self) -> int:
        """Largest number of presentations in a row of the table, including those that were not sent."""
        return max(
            (len(entry.presentations) + entry.not_asked for entry in self.entries), default=0
        )

    @property
    def scores(self) -> Iterator[Score]:
        return chain.from_iterable(entry.scores for entry in self.entries)

    @property
    def by_protocol(self) -> list[tuple[str, list[ShownEntry]]]:
        """Return the entries of the question by protocol."""
        return [
            (protocol, list(entries))
            for protocol, entries in groupby(self.entries, key=_protocol_of)
        ]


def _protocol_of(entry: ShownEntry) -> str:
    return entry.protocol


def find_question(
    library: RunLibrary, benchmark: str, sample_id: str, turn: int, build: str = ""
) -> int | None:
    """Return the id of a question in the index, or None.

    If several builds have it, the latest indexed one whose digest begins with `build` is used.
    """
    rows = library.rows(
        "SELECT id, build FROM question WHERE benchmark = ? AND sample_id = ? AND turn = ? ORDER BY id DESC",
        benchmark,
        sample_id,
        turn,
    )
    for number, build_digest in rows:
        if build_digest.startswith(build):
            return int(number)
    return None


def read_question(
    library: RunLibrary, number: int, runs: Sequence[ShownRun], first: str = ""
) -> QuestionPage:
    """Read one question with the replies of all runs. Requests and responses are read from the journals.

    Args:
        library: The index of the runs.
        number: The number of the question in the index.
        runs: The runs.
        first: The protocol whose replies come first; the others follow in the order of preference.
    """
    [(benchmark, build, turn, dimension, sample_json, answer_json)] = library.rows(
        "SELECT benchmark, build, turn, dimension, sample, answer "
        "FROM question JOIN question_record ON question = id WHERE id = ?",
        number,
    )
    answer = _answer(answer_json)
    sample = msgspec.json.decode(sample_json, type=Sample)
    entries: list[ShownEntry] = []
    for run in runs:
        entries.extend(_entries(library, number, run, sample, answer))

    def position(entry: ShownEntry) -> tuple[object, ...]:
        is_other_protocol = entry.protocol != first
        return is_other_protocol, protocol_preference(entry.protocol), entry.protocol

    entries.sort(key=position)
    return QuestionPage(number, benchmark, build, turn, dimension, sample, answer, tuple(entries))


def read_exchanges_of(library: RunLibrary, number: int, run: ShownRun) -> list[Exchange]:
    """Return all exchanges of a run about a question, in order of arrival."""
    paths = journals(run.folder)
    positions = library.rows(
        "SELECT journal, offset FROM exchange WHERE question = ? AND run = ? ORDER BY journal, offset",
        number,
        run.id,
    )
    return [read_exchange_at(paths[journal], offset) for journal, offset in positions]


def _entries(
    library: RunLibrary, number: int, run: ShownRun, sample: Sample, answer: Answer | None
) -> list[ShownEntry]:
    """Return the entries of a question in a run, one for each protocol."""
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
    """Return an entry from its row in the index and its exchanges."""
    protocol, outcome, unstable, predictions, scores = row
    latest = _latest(exchanges)
    declared = _declared(protocol)
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
    """Return the request and response that count for each presentation of a question.

    If a request was sent several times, this is the last one with a response, as in scoring.
    """
    latest: dict[Variant, Exchange] = {}
    for exchange in exchanges:
        if exchange.response.error is None or exchange.request.variant not in latest:
            latest[exchange.request.variant] = exchange
    return latest


def _outcome(prediction: Prediction, answer: Answer | None, entry: Outcome) -> Outcome:
    """Return the outcome of a presentation. A text has the outcome of its question, `entry`."""
    if prediction.text is not None and prediction.error is None:
        return "right" if entry == "right so far" else entry
    return outcome_of(prediction, answer, None, is_verdict=False)


def find_image(library: RunLibrary, digest: str) -> tuple[Path, ImageRef]:
    """Return the folder of a benchmark with this image, and its record. Raises DataError if no question has it."""
    rows = library.rows(
        "SELECT folder, media_type, width, height FROM picture WHERE digest = ?", digest
    )
    if not rows:
        raise DataError(f"no question of these runs has the image {digest[:12]}")
    [(folder, media_type, width, height)] = rows
    return Path(folder), ImageRef(digest, media_type, width, height)
