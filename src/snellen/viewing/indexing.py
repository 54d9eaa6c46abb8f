"""Write a scored run into the index. The rows of a run are replaced together, in one transaction."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from snellen import __version__
from snellen.analysis.corrections import AUDIT_FILE
from snellen.building.benchmark import MANIFEST
from snellen.catalogue import suite_facts
from snellen.errors import SnellenError
from snellen.extraction import STANDARD
from snellen.protocols.base import parse_protocol
from snellen.records import Exchange, Prediction, Result, Turn
from snellen.registry import targets
from snellen.report.number_text import shorten
from snellen.report.samples import OUTCOMES, GalleryEntry, question_entries
from snellen.runs.journal import read_journal
from snellen.runs.run_folder import RUN_MANIFEST, BenchmarkUse, RunManifest, journals, read_manifest
from snellen.scoring.kept_scoring import (
    SCORING,
    last_own_scoring,
    load_scoring,
    scoring_folder,
    scoring_names,
)
from snellen.scoring.reply_labels import LABELS_FILE
from snellen.scoring.run_scoring import missing_metric, score_run
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun
from snellen.viewing.index_database import forget_rows, transaction
from snellen.viewing.run_summary import (
    OutcomeCounter,
    RunDetails,
    RunSummary,
    details_of,
    headline_of,
    own_scoring_of,
    visible_results,
)

MAX_READING_LETTERS = 48
"""Characters of a reading in the table of questions."""
REPLY_SEPARATOR = "\x1e"
"""Separator of the replies to a question in the text that is searched."""

QuestionKey = tuple[str, str, str, int]
"""Benchmark, build, sample id and turn: equal for the same question in two runs."""

ShowsAnswers = Callable[[BenchmarkUse], bool]
"""Function that returns whether the answers of a benchmark may be visible."""

_encode_json = msgspec.json.Encoder().encode


def all_answers(use: BenchmarkUse) -> bool:
    """Return True: the viewer may see the answers of every benchmark."""
    return True


def run_stamp(folder: Path, manifest: RunManifest) -> str:
    """Return a text that changes whenever the results of a run may have changed.

    It is stored in the index with the results of the run. When the pages are shown later and the text differs, the
    results are computed again. It depends on the size and time of the run's files and of its benchmarks' manifests,
    on the versions of Snellen and of the standard scoring rules, and on installed packages that affect the results.

    Args:
        folder: The folder of the run.
        manifest: Its manifest.
    """
    paths = [folder / RUN_MANIFEST, *journals(folder)]
    for name in filter(None, scoring_names(folder)):
        paths.append(scoring_folder(folder, name) / SCORING)
    own_scoring = last_own_scoring(folder)
    audit = folder / AUDIT_FILE
    if audit.exists():
        paths += [audit, folder / LABELS_FILE]
    for use in manifest.benchmarks:
        paths.append(Path(use.folder) / MANIFEST)
    file_states: list[tuple[str, int, int]] = []
    for path in paths:
        size, modified = _size_and_time(path)
        file_states.append((path.name, size, modified))

    suites = {use.name.partition("/")[0] for use in manifest.benchmarks}
    installed_suites = suites & suite_facts().keys()
    installed_procedures = set(manifest.adaptive_rules) & targets("adaptive_procedures").keys()
    installed = [*sorted(installed_suites | installed_procedures), *targets("corrections")]
    return repr((__version__, STANDARD.version, file_states, own_scoring, installed))


def _size_and_time(path: Path) -> tuple[int, int]:
    """Return the size of a file and when it was modified, or -1 for both if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def index_run(
    connection: sqlite3.Connection,
    folder: Path,
    stamp: str,
    shows_answers: ShowsAnswers = all_answers,
) -> None:
    """Score a run, and replace what the index has of it.

    If the correct answers are not on this machine, the scores that are stored in the run's folder are used. If
    there are none either, or a metric of the run is not installed, the index only gets the error message.

    If the answers of a benchmark must stay hidden, nothing that depends on them is written to the index, so that no
    page or filter can reveal them.

    Args:
        connection: The index.
        folder: Folder of the run.
        stamp: The text of `run_stamp`, computed before the run was read.
        shows_answers: Function that returns whether the answers of a benchmark may be shown.
    """
    started = time.monotonic()
    uses = read_manifest(folder).benchmarks
    hidden = frozenset(use.name for use in uses if not shows_answers(use))
    scored, fault = _scored_or_fault(folder, hidden)

    try:
        _store_run(connection, folder, scored, hidden, stamp=stamp, fault=fault, started=started)
    except SnellenError as error:
        # Stored scores may be by a metric of a package that is not installed here.
        reason = missing_metric(scored) or str(error)
        _store_run(connection, folder, None, hidden, stamp=stamp, fault=reason, started=started)


def _store_run(
    connection: sqlite3.Connection,
    folder: Path,
    scored: ScoredRun | None,
    hidden: Collection[str],
    *,
    stamp: str,
    fault: str,
    started: float,
) -> None:
    """Replace what the index has of a run, in one transaction.

    Args:
        connection: The index.
        folder: Folder of the run.
        scored: The run with its scores; None if only the fault is stored.
        hidden: Names of benchmarks whose answers must stay hidden.
        stamp: As for `index_run`.
        fault: Why the run has no scores; empty if it has.
        started: Time at which indexing of the run began, on the monotonic clock in seconds.
    """
    results: list[Result] = []
    if scored is not None and not scored.manifest.adaptive_rules:
        # The share of correct replies says nothing if earlier replies chose the questions.
        results = visible_results(scored, hidden)

    with transaction(connection):
        run = _run_id(connection, folder)
        forget_rows(connection, run)
        summary = RunSummary()
        details = RunDetails()
        if scored is not None:
            summary, details = _write_run(connection, run, scored, results, hidden)
        seconds = time.monotonic() - started
        connection.execute(
            "UPDATE run SET stamp = ?, fault = ?, summary = ?, details = ?, indexed = ?, seconds = ? WHERE id = ?",
            (
                stamp,
                fault,
                _encode_json(summary),
                _encode_json(details),
                time.time(),
                seconds,
                run,
            ),
        )


def _scored_or_fault(folder: Path, hidden: Collection[str]) -> tuple[ScoredRun | None, str]:
    """Return a run with its scores, or an error message.

    The last scoring is used if it was made with other than standard settings; it is taken as it is stored, because
    the viewer must not call a judge or run the code of a metric. Otherwise the run is scored by the standard rules,
    and if that fails, stored standard scores are used.

    Args:
        folder: Folder of the run.
        hidden: Names of benchmarks whose answers must stay hidden. With any, stored scores are not used, because
            they depend on the answers.

    Returns:
        The run and an empty text, or None and the message.
    """
    own_scoring = "" if hidden else last_own_scoring(folder)
    if own_scoring:
        # If its file is damaged, the run can be scored by the standard rules.
        with suppress(SnellenError):
            return load_scoring(folder, own_scoring), ""
    try:
        return score_run(folder, hidden=hidden), ""
    except SnellenError as error:
        fault = str(error)
    if hidden:
        return None, fault  # the stored scores follow from answers that must not be visible
    try:
        if scoring_names(folder):
            return load_scoring(folder), ""
    except SnellenError:
        pass  # the first fault says more
    return None, fault


def _run_id(connection: sqlite3.Connection, folder: Path) -> int:
    """Return the id of a run, adding the run to the table of runs if it is new."""
    connection.execute(
        "INSERT OR IGNORE INTO run VALUES (NULL, ?, '', '', '{}', '{}', 0, 0)", (str(folder),)
    )
    [run] = connection.execute("SELECT id FROM run WHERE folder = ?", (str(folder),)).fetchone()
    return int(run)


def _write_run(
    connection: sqlite3.Connection,
    run: int,
    scored: ScoredRun,
    results: Sequence[Result],
    hidden: Collection[str],
) -> tuple[RunSummary, RunDetails]:
    """Add a run to the index.

    Args:
        connection: The database of the index.
        run: The number of the run in the index.
        scored: The scored run.
        results: Its results.
        hidden: Names of benchmarks whose correct answers must not be shown.

    Returns:
        What the table of runs shows of it, and what its own page shows.
    """
    writer = _RunWriter(connection, run, scored, hidden)
    writer.write()
    counts = connection.execute(
        "SELECT outcome, count(DISTINCT question) FROM entry WHERE run = ? GROUP BY outcome", (run,)
    )
    questions = {OUTCOMES[outcome]: count for outcome, count in counts}
    summary = RunSummary(headline_of(scored, results), questions, own_scoring_of(scored))
    details = details_of(scored, results, writer.outcomes.by_benchmark(), hidden)
    return summary, details


class _RunWriter:
    """Writes the questions, entries and exchanges of a scored run."""

    def __init__(
        self, connection: sqlite3.Connection, run: int, scored: ScoredRun, hidden: Collection[str]
    ) -> None:
        """Prepare to add a run to the index.

        Args:
            connection: The database of the index.
            run: The number of the run in the index.
            scored: The scored run.
            hidden: Names of benchmarks whose correct answers must not be shown.
        """
        self.outcomes = OutcomeCounter()
        self._connection = connection
        self._run = run
        self._scored = scored
        self._hidden = hidden
        self._questions: dict[QuestionKey, int] = {}
        """Id of each question."""
        self._entries: dict[tuple[int, str], int] = {}
        """Id of each entry, by question and protocol."""

    def write(self) -> None:
        """Add the run to the index: its benchmarks and questions, and where its requests and responses are stored."""
        manifest = self._scored.manifest
        scored_by_name = {scored.spec.name: scored for scored in self._scored.benchmarks}
        for use in manifest.benchmarks:
            self._write_benchmark(use, scored_by_name[use.name])
        self._write_exchanges(manifest)

    def _write_benchmark(self, use: BenchmarkUse, scored: ScoredBenchmark) -> None:
        """Add the questions and replies of one benchmark of the run to the index.

        A question that is already in the index, because another run has it, is not added again.
        """
        indexed_rows = self._connection.execute(
            "SELECT id, sample_id, turn FROM question WHERE benchmark = ? AND build = ?",
            (use.name, build_of(use)),
        )
        ids = {(sample_id, turn): row for row, sample_id, turn in indexed_rows}
        positions = {sample_id: position for position, sample_id in enumerate(scored.samples)}
        for entry in question_entries(self._run, scored):
            if use.name in self._hidden and parse_protocol(entry.protocol).gold_history:
                continue  # its prompts contain the answers of earlier rounds
            key = (entry.sample.id, entry.turn)
            if key not in ids:
                ids[key] = self._add_question(use, entry, positions[entry.sample.id])
            elif entry.answer is not None:
                self._connection.execute(
                    "UPDATE question_record SET answer = ? WHERE question = ? AND answer IS NULL",
                    (_encode_json(entry.answer), ids[key]),
                )
            question = ids[key]
            self._questions[use.name, build_of(use), *key] = question
            self._entries[question, entry.protocol] = self._add_entry(question, entry)

    def _add_question(self, use: BenchmarkUse, entry: GalleryEntry, position: int) -> int:
        """Add a question and its tags to the index, and return its number there."""
        sample = entry.sample
        turn = sample.rounds[entry.turn]
        question = self._insert(
            "INSERT INTO question VALUES (NULL, ?, ?, ?, ?, ?, ?, NULL, 0, 0)",
            (
                use.name,
                build_of(use),
                sample.id,
                entry.turn,
                position,
                entry.scored.spec.dimension,
            ),
        )
        answer = _encode_json(entry.answer) if entry.answer else None
        self._insert(
            "INSERT INTO question_record VALUES (?, ?, ?)", (question, _encode_json(sample), answer)
        )
        searched = [sample.id, sample.question, turn.question, *turn.options, sample.context or ""]
        self._connection.execute(
            "INSERT INTO question_words (rowid, words) VALUES (?, ?)",
            (question, "\n".join(searched)),
        )
        tags = [(question, f"{name}={value}") for name, value in sample.tags.items()]
        self._connection.executemany("INSERT OR IGNORE INTO tag VALUES (?, ?)", tags)
        folder = str(Path(use.folder).absolute())
        images = [
            (image.digest, folder, image.media_type, image.width, image.height)
            for image in sample.images
        ]
        self._connection.executemany(
            "INSERT OR REPLACE INTO picture VALUES (?, ?, ?, ?, ?)", images
        )
        return question

    def _add_entry(self, question: int, entry: GalleryEntry) -> int:
        """Add the replies to a question under one protocol to the index, and return their number there."""
        self.outcomes.add(entry)
        choices = set()
        for prediction in entry.predictions:
            if prediction.error is None and prediction.text is None:
                choices.add(prediction.choice)
        is_unstable = len(choices) > 1
        row = self._insert(
            "INSERT INTO entry VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, NULL)",
            (
                question,
                self._run,
                entry.protocol,
                OUTCOMES.index(entry.outcome),
                is_unstable,
                len(entry.predictions),
                reading_text(entry.shown_prediction, entry.sample.rounds[entry.turn]),
            ),
        )
        self._insert(
            "INSERT INTO entry_record VALUES (?, ?, ?)",
            (row, _encode_json(entry.predictions), _encode_json(entry.scores)),
        )
        return row

    def _write_exchanges(self, manifest: RunManifest) -> None:
        """Add the exchanges of the run to the index: where each is in a journal, and the texts of the replies for the search.

        Exchanges about questions that are not in the index are skipped.
        """
        build_by_benchmark = {use.name: build_of(use) for use in manifest.benchmarks}
        exchange_rows: list[tuple[int, int, int, int]] = []
        replies_by_entry: dict[int, list[str]] = defaultdict(list)
        for journal_index, path in enumerate(journals(self._scored.folder)):
            for offset, exchange in read_journal(path):
                question = self._question_of(exchange, build_by_benchmark)
                if question is None:
                    continue
                exchange_rows.append((self._run, question, journal_index, offset))
                entry = self._entries.get((question, exchange.protocol))
                text = exchange.response.text
                if entry is not None and text:
                    replies_by_entry[entry].append(text)

        self._connection.executemany("INSERT INTO exchange VALUES (?, ?, ?, ?)", exchange_rows)
        for entry, replies in replies_by_entry.items():
            reply_row = self._add_replies(REPLY_SEPARATOR.join(replies))
            self._connection.execute("UPDATE entry SET words = ? WHERE id = ?", (reply_row, entry))

    def _question_of(self, exchange: Exchange, builds: dict[str, str]) -> int | None:
        """Return the number of a question in the index, given a request for it; None if it is not in the index."""
        request = exchange.request
        build = builds.get(request.benchmark, "")
        key = (request.benchmark, build, request.sample_id, request.variant.turn)
        return self._questions.get(key)

    def _add_replies(self, text: str) -> int:
        """Add replies to the texts that can be searched, unless the same text is there already.

        Returns:
            The number of the text in the index.
        """
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        existing_row = self._connection.execute(
            "SELECT words FROM reply_digest WHERE digest = ?", (digest,)
        ).fetchone()
        if existing_row is not None:
            return int(existing_row[0])
        new_row = self._insert("INSERT INTO reply_words (words) VALUES (?)", (text,))
        self._insert("INSERT INTO reply_digest VALUES (?, ?)", (digest, new_row))
        return new_row

    def _insert(self, query: str, values: Sequence[object]) -> int:
        """Insert a row, and return its id."""
        return self._connection.execute(query, values).lastrowid or 0


def build_of(use: BenchmarkUse) -> str:
    """Return the digest that identifies the questions of a benchmark. It does not depend on the answers.

    Runs with the same digest used the same questions, whether the answers were hidden or not.
    """
    return use.questions or use.version


def reading_text(prediction: Prediction, turn: Turn) -> str:
    """Return in a few words what was read from a reply: an option or a text, or else why nothing was read."""
    if prediction.error is not None:
        return prediction.error.kind
    if prediction.text is not None:
        return shorten(prediction.text, MAX_READING_LETTERS)
    if prediction.choice is None:
        return prediction.reason or "nothing"
    return shorten(turn.options[prediction.choice], MAX_READING_LETTERS)
