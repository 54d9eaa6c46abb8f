"""Questions for the pages of runs: one page of a list, and one question with all exchanges of all runs."""

from __future__ import annotations

import math
import string
from collections import Counter, defaultdict
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
from snellen.viewing.filters import QUESTIONS_PER_PAGE, QuestionFilter
from snellen.viewing.indexing import REPLY_SEPARATOR
from snellen.viewing.library import RunLibrary, ShownRun

MAX_SHOWN_RUNS = 3
"""Models that a list shows at most, unless the user selects all columns."""
DECIDED_OUTCOMES = ("right", "wrong", "unparsed")
"""The outcomes that models can disagree by."""
MAX_REPLY_LETTERS = 120
Column = tuple[str, str]
"""A run's name and a protocol."""
_protocol_declaration = cache(labelled_declaration)


class OutcomeCell(Struct, frozen=True):
    """A cell of the list of questions: how one run answered one question under one protocol."""

    outcome: Outcome
    reading: str
    presentations: int
    unstable: bool
    entry: int
    """Id of the entry in the index."""
    n_expected: int
    """Number of presentations that a complete run sends under the protocol."""
    reply: str = ""
    """Beginning of the distinct replies; empty if they add nothing to `reading`."""


class QuestionRow(Struct, frozen=True):
    """A question in a list."""

    benchmark: str
    turn: int
    build: str
    sample: Sample
    answer: Answer | None
    cells: dict[Column, OutcomeCell]
    matching_runs: tuple[str, ...] = ()
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
    """Number of the first question of this page among all chosen questions, from 1."""
    total: int
    pages: int
    page: int


def list_questions(
    library: RunLibrary, chosen: QuestionFilter, runs: Sequence[ShownRun]
) -> QuestionList:
    """Return one page of the list of questions that match a filter.

    The list has a row for each question, and columns for pairs of a run and a protocol. It shows all columns only if
    the user asks for that or compares two runs. Otherwise it shows a few columns that explain why each question is in
    the list.

    Args:
        library: The index of the runs.
        chosen: The filter, with the number of the page. A number past the last page gives the last page.
        runs: All runs that the pages show.
    """
    ids = library.selection(chosen, runs)
    pages = max(math.ceil(len(ids) / QUESTIONS_PER_PAGE), 1)
    page = min(chosen.page, pages)
    start = (page - 1) * QUESTIONS_PER_PAGE
    ids_on_page = ids[start : start + QUESTIONS_PER_PAGE]

    compared = chosen.compared
    run_names = [run.name for run in runs_in_order(runs, compared)]
    columns: list[Column] = []
    for column in _columns_with_results(library, ids_on_page, runs):
        if _passes_filter(column, chosen, compared):
            columns.append(column)
    columns.sort(key=lambda column: (run_names.index(column[0]), protocol_preference(column[1])))
    if compared:
        # Both runs next to each other under each protocol, because any protocol may have decided.
        columns.sort(key=lambda column: protocol_preference(column[1]))
    shows_all = bool(compared) or chosen.columns == "all"

    if chosen.is_by_entry and not chosen.run:  # a condition on replies, which any run may meet
        question_rows = _question_rows(library, ids_on_page, runs)
        question_rows = _with_matching_runs(question_rows, chosen, run_names)
        shown_columns = columns
        if not shows_all:
            deciding = _deciding_protocols(question_rows, chosen)
            shown_columns = _columns_of_matching_runs(columns, question_rows, deciding)
    elif chosen.is_by_replies and not shows_all:  # a named run, or models that disagree
        question_rows = _question_rows(library, ids_on_page, runs)
        deciding = _deciding_protocols(question_rows, chosen)
        shown_columns = _columns_of_first_runs(columns, deciding)
    else:
        shown_columns = columns if shows_all else _columns_of_first_runs(columns, ())
        names_shown = {name for name, _ in shown_columns}
        # Only the runs that are shown are looked up.
        runs_shown = [run for run in runs if run.name in names_shown]
        question_rows = _question_rows(library, ids_on_page, runs_shown)

    return QuestionList(
        question_rows=_with_reply_texts(library, question_rows, shown_columns),
        columns=tuple(shown_columns),
        more_columns=len(columns) - len(shown_columns),
        first=start + 1,
        total=len(ids),
        pages=pages,
        page=page,
    )


def runs_in_order(runs: Sequence[ShownRun], compared: Sequence[str]) -> list[ShownRun]:
    """Return the compared runs, then the others in their order: the order of columns on all pages of questions."""
    positions = {name: index for index, name in enumerate(compared)}
    return sorted(runs, key=lambda run: positions.get(run.name, len(positions)))


def _passes_filter(column: Column, chosen: QuestionFilter, compared: Collection[str]) -> bool:
    """Return whether a filter allows a column of the list of questions.

    Args:
        column: The name of a run and a protocol.
        chosen: The filter. If it names a protocol, only columns of this protocol pass. If it names a run, only columns
            of this run pass, unless runs are compared.
        compared: The names of the two runs that the filter compares, if it does. Only their columns pass.
    """
    run, protocol = column
    if chosen.protocol and protocol != chosen.protocol:
        return False
    if compared:
        return run in compared
    return not chosen.run or run == chosen.run


def _deciding_protocols(question_rows: Sequence[QuestionRow], chosen: QuestionFilter) -> set[str]:
    """Choose the protocols whose replies show why a filter selected these questions.

    For example, if a filter asks for wrong answers, the list should show a protocol under which the answer is
    wrong. Protocols are tried in the order of preference, and one is added if it explains a question that the
    others before it do not.

    Args:
        question_rows: The selected questions.
        chosen: The filter.

    Returns:
        The protocols; an empty set if the filter has no condition on replies.
    """
    if not chosen.is_by_replies:
        return set()
    protocols: set[str] = set()
    for question_row in question_rows:
        protocols.update(protocol for _, protocol in question_row.cells)

    deciding: set[str] = set()
    unexplained = list(question_rows)
    for protocol in sorted(protocols, key=protocol_preference):
        still_unexplained: list[QuestionRow] = []
        for question_row in unexplained:
            if not _explains_selection(question_row, protocol, chosen):
                still_unexplained.append(question_row)
        if len(still_unexplained) < len(unexplained):
            deciding.add(protocol)
            unexplained = still_unexplained
    return deciding


def _explains_selection(question_row: QuestionRow, protocol: str, chosen: QuestionFilter) -> bool:
    """Return whether the replies to a question under a protocol show why a filter selected the question.

    They do if a reply has the outcome or reading that the filter asks for. They also do if the filter asks for
    questions on which models disagree, and under this protocol some are right and others are not.
    """
    some_are_right = False
    some_are_not_right = False
    for (run, column_protocol), cell in question_row.cells.items():
        if column_protocol != protocol:
            continue
        is_chosen_run = chosen.run in ("", run)
        if chosen.is_by_entry and is_chosen_run and _matches_filter(cell, chosen):
            return True
        if cell.outcome == "right":
            some_are_right = True
        elif cell.outcome in DECIDED_OUTCOMES:
            some_are_not_right = True
    return chosen.disagree and some_are_right and some_are_not_right


def _matches_filter(cell: OutcomeCell, chosen: QuestionFilter) -> bool:
    """Return whether the replies of a run to a question meet a filter's conditions on replies.

    Each of these is checked if the filter has it: the outcome; the reading (the option or text that was read from
    the replies); and whether replies to the same question choose different options (unstable).
    """
    if chosen.outcome and cell.outcome != chosen.outcome:
        return False
    if chosen.reading and cell.reading != chosen.reading:
        return False
    return cell.unstable or not chosen.unstable


def _with_matching_runs(
    question_rows: Sequence[QuestionRow], chosen: QuestionFilter, run_names: Sequence[str]
) -> list[QuestionRow]:
    """Return the questions with `matching_runs` set: the runs whose replies to the question meet the filter.

    Args:
        question_rows: The questions.
        chosen: The filter.
        run_names: The names of all runs, in the order of the page.
    """
    completed: list[QuestionRow] = []
    for question_row in question_rows:
        matching: set[str] = set()
        for (run, protocol), cell in question_row.cells.items():
            is_chosen_protocol = chosen.protocol in ("", protocol)
            if is_chosen_protocol and _matches_filter(cell, chosen):
                matching.add(run)
        in_order = tuple(run for run in run_names if run in matching)
        completed.append(replace(question_row, matching_runs=in_order))
    return completed


def _columns_of_matching_runs(
    columns: Sequence[Column], question_rows: Sequence[QuestionRow], deciding: Collection[str]
) -> list[Column]:
    """Choose the columns of the runs that meet the filter for most questions, at most `MAX_SHOWN_RUNS` runs.

    Args:
        columns: All columns: pairs of the name of a run and a protocol.
        question_rows: The questions of the page, with their matching runs.
        deciding: The protocols that show why the questions were selected.
    """
    n_matches: Counter[str] = Counter()
    for question_row in question_rows:
        n_matches.update(question_row.matching_runs)

    run_names = [run for run, _ in columns]
    ranked_runs = sorted(run_names, key=lambda run: -n_matches[run])
    distinct_runs = list(dict.fromkeys(ranked_runs))
    shown_runs = distinct_runs[:MAX_SHOWN_RUNS]
    columns_of_shown_runs = [column for column in columns if column[0] in shown_runs]
    return _columns_of_first_runs(columns_of_shown_runs, deciding)


def _columns_of_first_runs(columns: Sequence[Column], deciding: Collection[str]) -> list[Column]:
    """Choose the columns of the first runs, at most `MAX_SHOWN_RUNS` runs.

    Args:
        columns: All columns, in the order of the page: pairs of the name of a run and a protocol.
        deciding: The protocols that show why the questions were selected (may be empty).

    Returns:
        A column for each run and each of these protocols. If no column has one of these protocols, one column for
        each run, with its first protocol.
    """
    deciding_columns = [column for column in columns if column[1] in deciding]
    if not deciding_columns:
        first_column_by_run: dict[str, Column] = {}
        for run, protocol in columns:
            first_column_by_run.setdefault(run, (run, protocol))
        return list(first_column_by_run.values())[:MAX_SHOWN_RUNS]

    runs = list(dict.fromkeys(run for run, _ in deciding_columns))
    shown_runs = runs[:MAX_SHOWN_RUNS]
    shown_columns = [column for column in deciding_columns if column[0] in shown_runs]
    shown_columns.sort(key=lambda column: protocol_preference(column[1]))
    return shown_columns


def _with_reply_texts(
    library: RunLibrary, question_rows: Sequence[QuestionRow], columns: Sequence[Column]
) -> tuple[QuestionRow, ...]:
    """Return the questions with only some columns, and add to each cell a short text of its replies.

    Args:
        library: The index, which contains the texts of all replies.
        question_rows: The questions.
        columns: The columns that remain: pairs of the name of a run and a protocol.
    """
    entries: list[int] = []
    for question_row in question_rows:
        for column in columns:
            if column in question_row.cells:
                entries.append(question_row.cells[column].entry)
    marks = ", ".join("?" * len(entries))
    text_rows = library.rows(
        "SELECT entry.id, reply_words.words FROM entry JOIN reply_words ON reply_words.rowid = entry.words "
        f"WHERE entry.id IN ({marks})",
        *entries,
    )
    replies_by_entry: dict[int, str] = dict(text_rows)

    reduced: list[QuestionRow] = []
    for question_row in question_rows:
        cells: dict[Column, OutcomeCell] = {}
        for column in columns:
            cell = question_row.cells.get(column)
            if cell is not None:
                replies = replies_by_entry.get(cell.entry, "")
                cells[column] = replace(cell, reply=_reply_summary(replies, cell.reading))
        reduced.append(replace(question_row, cells=cells))
    return tuple(reduced)


def _reply_summary(replies: str, reading: str) -> str:
    """Return the beginning of the replies to a question as one line, such as `B (3 times) / C`.

    Args:
        replies: The texts of all replies, separated by `REPLY_SEPARATOR`.
        reading: The option or text that was read from them, which the same cell shows anyway.

    Returns:
        The line; empty if all replies are empty, or all are equal to `reading`.
    """
    counts: Counter[str] = Counter()
    for reply in replies.split(REPLY_SEPARATOR):
        on_one_line = " ".join(reply.split())
        counts[on_one_line] += 1
    distinct_replies = list(counts)
    if distinct_replies in ([reading], [""]):
        return ""
    texts: list[str] = []
    for reply, count in counts.items():
        texts.append(f"{reply} ({count} times)" if count > 1 else reply)
    return shorten(" / ".join(texts), MAX_REPLY_LETTERS)


def _columns_with_results(
    library: RunLibrary, ids: Sequence[int], runs: Sequence[ShownRun]
) -> list[Column]:
    """Return the columns in which at least one question of a page has a result.

    Args:
        library: The index of the runs.
        ids: The ids of the questions in the index.
        runs: The runs that may be shown.

    Returns:
        Pairs of the name of a run and a protocol, in no particular order.
    """
    name_by_id = {run.id: run.name for run in runs}
    marks = ", ".join("?" * len(ids))
    rows = library.rows(
        f"SELECT DISTINCT run, protocol FROM entry WHERE question IN ({marks})", *ids
    )
    return [(name_by_id[run], protocol) for run, protocol in rows if run in name_by_id]


def _question_rows(
    library: RunLibrary, ids: Sequence[int], runs: Sequence[ShownRun]
) -> list[QuestionRow]:
    """Read questions from the index, with their outcomes in some runs.

    Args:
        library: The index of the runs.
        ids: The ids of the questions. They determine the order of the result.
        runs: The runs.
    """
    question_marks = ", ".join("?" * len(ids))
    question_records = library.rows(
        "SELECT id, benchmark, turn, build, sample, answer FROM question JOIN question_record ON question = id "
        f"WHERE id IN ({question_marks})",
        *ids,
    )
    row_by_id: dict[int, QuestionRow] = {}
    for question_id, benchmark, turn, build, sample_json, answer_json in question_records:
        sample = msgspec.json.decode(sample_json, type=Sample)
        answer = _decode_answer(answer_json)
        row_by_id[question_id] = QuestionRow(
            benchmark=benchmark, turn=turn, build=build, sample=sample, answer=answer, cells={}
        )

    name_by_id = {run.id: run.name for run in runs}
    run_marks = ", ".join("?" * len(name_by_id))
    entry_records = library.rows(
        "SELECT question, run, protocol, outcome, reading, presentations, unstable, id FROM entry "
        f"WHERE question IN ({question_marks}) AND run IN ({run_marks})",
        *ids,
        *name_by_id,
    )
    for record in entry_records:
        question_id, run_id, protocol, outcome, reading, presentations, unstable, entry = record
        question_row = row_by_id.get(question_id)
        if question_row is None:
            continue
        question_row.cells[name_by_id[run_id], protocol] = OutcomeCell(
            outcome=OUTCOMES[outcome],
            reading=reading,
            presentations=presentations,
            unstable=bool(unstable),
            entry=entry,
            n_expected=_protocol_declaration(protocol).n_presentations(question_row.sample),
        )
    return [row_by_id[question_id] for question_id in ids if question_id in row_by_id]


def _decode_answer(stored: bytes | None) -> Answer | None:
    """Decode a correct answer from the index; None if the index has none, because it is hidden or not available."""
    return msgspec.json.decode(stored, type=Answer) if stored else None


class ShownPresentation(Struct, frozen=True):
    """One presentation of a question: what was read from the reply, its outcome, and the requests with their
    responses.

    There are several requests only if the protocol takes several steps to an answer.
    """

    prediction: Prediction
    outcome: Outcome
    exchanges: tuple[Exchange, ...]

    def to_label(self, turn: Turn) -> LabelItem | None:
        """Return the reply as an item for labelling: a person says which option it chooses, to check Snellen's
        reading.

        Returns:
            The item; None if there is not exactly one reply, if it is not a text, or if the question has no
            options.
        """
        if len(self.exchanges) != 1 or not turn.options:
            return None
        [exchange] = self.exchanges
        text = exchange.response.text
        if exchange.request.kind != "generate" or not text or not shortened(text):
            return None
        return label_item(UnparsedReply(self.prediction, turn, text))


class ShownEntry(Struct, frozen=True):
    """How one run answered one question under one protocol."""

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
        if not _protocol_declaration(self.protocol).stops_early:
            return ""
        if self.unstable:
            return "the replies contradict each other"
        is_unread = any(shown.prediction.choice is None for shown in self.presentations)
        return "a reply before failed" if is_unread else ""


class QuestionPage(Struct, frozen=True):
    """What the page of one question shows: the question, and how each run answered it under each protocol."""

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
    def correct_letters(self) -> str:
        """Letters of the correct options in their original order, such as `A, C`.

        Empty if the question has no options, or if its correct answer is hidden or missing.
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
        """Pairs of a protocol and the entries under it, in the order of the page."""
        return [
            (protocol, list(entries))
            for protocol, entries in groupby(self.entries, key=_protocol_of)
        ]


def _protocol_of(entry: ShownEntry) -> str:
    return entry.protocol


def find_question(
    library: RunLibrary, benchmark: str, sample_id: str, turn: int, build: str = ""
) -> int | None:
    """Return the number of a question in the index; None if the index does not have it.

    A benchmark may have been built several times. Of the builds that have the question, the one that was indexed
    last is used, among those whose digest begins with `build`.
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
    answer = _decode_answer(answer_json)
    sample = msgspec.json.decode(sample_json, type=Sample)
    entries: list[ShownEntry] = []
    for run in runs:
        entries.extend(_entries_of_run(library, number, run, sample, answer))

    def position(entry: ShownEntry) -> tuple[object, ...]:
        is_other_protocol = entry.protocol != first
        return is_other_protocol, protocol_preference(entry.protocol), entry.protocol

    entries.sort(key=position)
    return QuestionPage(
        id=number,
        benchmark=benchmark,
        build=build,
        turn=turn,
        dimension=dimension,
        sample=sample,
        answer=answer,
        entries=tuple(entries),
    )


def read_exchanges_of(library: RunLibrary, number: int, run: ShownRun) -> list[Exchange]:
    """Return all exchanges of a run about a question, in order of arrival."""
    paths = journals(run.folder)
    positions = library.rows(
        "SELECT journal, offset FROM exchange WHERE question = ? AND run = ? ORDER BY journal, offset",
        number,
        run.id,
    )
    return [read_exchange_at(paths[journal], offset) for journal, offset in positions]


def _entries_of_run(
    library: RunLibrary, number: int, run: ShownRun, sample: Sample, answer: Answer | None
) -> list[ShownEntry]:
    """Return how one run answered one question, with a record for each protocol under which it was asked.

    Args:
        library: The index of the runs.
        number: The number of the question in the index.
        run: The run, whose journals contain the requests and responses.
        sample: The sample of the question.
        answer: Its correct answer; None if it is hidden.

    Returns:
        The records; an empty list if the run does not have the question.
    """
    rows = library.rows(
        "SELECT protocol, outcome, unstable, predictions, scores FROM entry JOIN entry_record ON entry = id "
        "WHERE question = ? AND run = ?",
        number,
        run.id,
    )
    if not rows:
        return []
    exchanges_by_protocol: dict[str, list[Exchange]] = defaultdict(list)
    for exchange in read_exchanges_of(library, number, run):
        exchanges_by_protocol[exchange.protocol].append(exchange)
    entries: list[ShownEntry] = []
    for row in rows:
        protocol = row[0]
        entries.append(
            _entry_under_protocol(run, row, exchanges_by_protocol[protocol], sample, answer)
        )
    return entries


def _entry_under_protocol(
    run: ShownRun,
    row: tuple[str, int, int, bytes, bytes],
    exchanges: Sequence[Exchange],
    sample: Sample,
    answer: Answer | None,
) -> ShownEntry:
    """Return how one run answered one question under one protocol.

    Args:
        run: The run.
        row: Its entry in the index: protocol, index of the outcome, whether replies chose different options, and
            predictions and scores as JSON.
        exchanges: All requests and responses of the run about the question under this protocol.
        sample: The sample of the question.
        answer: Its correct answer; None if it is hidden.
    """
    protocol, outcome_index, is_unstable, predictions_json, scores_json = row
    outcome = OUTCOMES[outcome_index]
    predictions = msgspec.json.decode(predictions_json, type=tuple[Prediction, ...])
    scores = msgspec.json.decode(scores_json, type=tuple[Score, ...])
    declaration = _protocol_declaration(protocol)
    exchange_by_variant = _exchanges_that_count(exchanges)

    presentations: list[ShownPresentation] = []
    for prediction in predictions:
        shown_exchanges: tuple[Exchange, ...] = ()
        if declaration.conclude:  # all steps that led to the answer
            shown_exchanges = tuple(steps_in_order(exchange_by_variant.values()))
        elif prediction.variant in exchange_by_variant:
            shown_exchanges = (exchange_by_variant[prediction.variant],)
        presentation_outcome = _presentation_outcome(prediction, answer, outcome)
        presentations.append(ShownPresentation(prediction, presentation_outcome, shown_exchanges))

    baselines: list[Exchange] = []
    for variant, exchange in exchange_by_variant.items():
        if variant.baseline:
            baselines.append(exchange)
    n_expected = declaration.n_presentations(sample)
    return ShownEntry(
        run=run,
        protocol=protocol,
        outcome=outcome,
        unstable=bool(is_unstable),
        presentations=tuple(presentations),
        not_asked=max(n_expected - len(presentations), 0),
        baselines=tuple(baselines),
        scores=scores,
    )


def _exchanges_that_count(exchanges: Sequence[Exchange]) -> dict[Variant, Exchange]:
    """Return the exchange (a request and its response) that counts for each presentation of a question.

    A request may have been sent several times, for example after a failure. The last one with a response counts, as
    in scoring. If none has a response, it is the first failure.
    """
    exchange_by_variant: dict[Variant, Exchange] = {}
    for exchange in exchanges:
        variant = exchange.request.variant
        has_response = exchange.response.error is None
        if has_response or variant not in exchange_by_variant:
            exchange_by_variant[variant] = exchange
    return exchange_by_variant


def _presentation_outcome(
    prediction: Prediction, answer: Answer | None, question_outcome: Outcome
) -> Outcome:
    """Return the outcome of one presentation of a question, such as `right`.

    Args:
        prediction: What was read from the reply to this presentation.
        answer: The correct answer; None if it is hidden.
        question_outcome: The outcome of the whole question. It is returned for open questions, whose metrics do not
            score single presentations.
    """
    is_text_reply = prediction.text is not None and prediction.error is None
    if not is_text_reply:
        return outcome_of(prediction, answer, None, is_verdict=False)
    return "right" if question_outcome == "right so far" else question_outcome


def find_image(library: RunLibrary, digest: str) -> tuple[Path, ImageRef]:
    """Return the folder of a benchmark that has this image, and the record of the image.

    Raises DataError if no question of the runs has the image.
    """
    rows = library.rows(
        "SELECT folder, media_type, width, height FROM picture WHERE digest = ?", digest
    )
    if not rows:
        raise DataError(f"no question of these runs has the image {digest[:12]}")
    [(folder, media_type, width, height)] = rows
    return Path(folder), ImageRef(digest, media_type, width, height)
