"""From a scored run to rows of the index. A run's rows are replaced as a whole, in one transaction.

Of a run as a whole it keeps one number and counts for the table of runs, and more for its own page.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import __version__
from snellen.analysis.aggregate import results_of
from snellen.analysis.headline import (
    HEADLINE,
    headline_chance,
    headline_rows,
    headlines_of,
)
from snellen.analysis.option_letters import LetterPreference, letter_preferences
from snellen.building.benchmark import MANIFEST
from snellen.catalogue import suite_facts
from snellen.errors import SnellenError
from snellen.extraction import STANDARD
from snellen.protocols.base import parse_protocol
from snellen.records import Estimate, Exchange, Prediction, Result, Turn
from snellen.report.adaptive_procedures import procedure_of
from snellen.report.run_view import CHOICE_ROWS, was_asked
from snellen.report.samples import OUTCOMES, GalleryEntry, question_entries
from snellen.report.table import metric_title, shorten
from snellen.runs.journal import read_journal
from snellen.runs.run_folder import RUN_MANIFEST, BenchmarkUse, RunManifest, journals, read_manifest
from snellen.scoring.kept_scoring import load_scoring, scoring_names
from snellen.scoring.run_scoring import score_run
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, unknown_suites

# --- what is kept of a run as a whole --------------------------------------------------------------------------------


class Headline(Struct, frozen=True):
    """The number of a run in the table of runs, as every report of it has."""

    words: str
    """Metric and protocol, or how many benchmarks it is the mean of."""
    estimate: Estimate
    unit: str
    protocol: str
    """The protocol of the first benchmark in it."""
    metric: str
    """The row of all benchmarks in it; `headline` if they have several."""


class RunSummary(Struct, frozen=True):
    """What the table of runs shows."""

    headline: Headline | None = None
    questions: dict[str, int] = {}
    """How many questions have each outcome under one protocol or more."""


class RunDetails(Struct, frozen=True):
    """What the page of a run shows besides."""

    asked: tuple[str, ...] = ()
    """The benchmarks of which something was asked."""
    results: tuple[Result, ...] = ()
    """Of whole benchmarks, by their headline metrics and by those of all questions with options."""
    headlines: dict[str, tuple[str, ...]] = {}
    """The metrics that speak for a benchmark, the first before the others."""
    outcomes: dict[str, dict[str, dict[str, int]]] = {}
    """How many questions have each outcome, by benchmark and protocol."""
    letters: tuple[LetterPreference, ...] = ()
    chance: dict[str, dict[str, float]] = {}
    """What guessing scores in the headline metrics of each benchmark, where there is such a level."""
    overall: Result | None = None
    """The number of the run; None without one."""
    thresholds: tuple[tuple[str, str], ...] = ()
    """Of questions placed to measure them: what varied, and the threshold in words."""
    golds_absent: bool = False
    """Whether the numbers are those that the run keeps, as there are answers, but not at hand."""
    unknown_suites: tuple[str, ...] = ()
    """Whose rules for means do not count, in words."""


def visible_results(run: ScoredRun, hidden: Collection[str]) -> list[Result]:
    """The results of benchmarks whose answers may be seen, and the means over these."""
    return [row for row in results_of(visible(run, hidden)) if not row.slice]


def visible(run: ScoredRun, hidden: Collection[str]) -> ScoredRun:
    """A run without the benchmarks whose answers may not be seen."""
    return replace(
        run, benchmarks=tuple(scored for scored in run.benchmarks if scored.spec.name not in hidden)
    )


def overall_row(rows: Iterable[Result]) -> Result | None:
    """Return the number of a run by the first method that gives it one."""
    for row in rows:
        if row.metric == HEADLINE and row.estimate.value is not None:
            return row
    return None


def headline_of(run: ScoredRun, rows: Sequence[Result]) -> Headline | None:
    """Return the number of a run with the words for it; None if its benchmarks have no common scale, or no value."""
    overall = overall_row(rows)
    if overall is None:
        return None
    members = headline_rows(run, rows)[overall.method]
    metrics = {row.metric for row in members}
    metric = metrics.pop() if len(metrics) == 1 else HEADLINE
    words = f"{metric_title(metric)} under {members[0].protocol}"
    if len(members) > 1 and metric == HEADLINE:
        words = f"on average over {len(members)} benchmarks"
    elif len(members) > 1:
        words = f"{metric_title(metric)} on average over {len(members)} benchmarks"
    elif len(run.benchmarks) > 1:
        words += f" of {members[0].benchmark}"
    return Headline(words, overall.estimate, overall.unit, members[0].protocol, metric)


def _chances(scored: ScoredBenchmark) -> dict[str, float]:
    """Return what guessing scores in each headline metric of a benchmark that has such a level."""
    levels: dict[str, float] = {}
    for metric in headlines_of(scored):
        level = headline_chance(scored, metric)
        if level is not None:
            levels[metric] = level
    return levels


class EntryCounter:
    """Counts outcomes, entry by entry."""

    def __init__(self) -> None:
        self._outcomes = Counter[tuple[str, str, str]]()

    def add(self, entry: GalleryEntry) -> None:
        self._outcomes[entry.scored.spec.name, entry.protocol, entry.outcome] += 1

    def details(
        self, run: ScoredRun, rows: Sequence[Result], hidden: Collection[str]
    ) -> RunDetails:
        headlines = {
            benchmark.spec.name: tuple(headlines_of(benchmark)) for benchmark in run.benchmarks
        }
        outcomes: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        for (benchmark, protocol, outcome), count in self._outcomes.items():
            outcomes[benchmark][protocol][outcome] = count
        return RunDetails(
            tuple(benchmark.spec.name for benchmark in run.benchmarks if was_asked(benchmark)),
            tuple(
                row
                for row in rows
                if row.metric in (*headlines.get(row.benchmark, ()), *CHOICE_ROWS)
                and row.benchmark in headlines
            ),
            headlines,
            outcomes,
            tuple(letter_preferences(run.benchmarks)),
            {scored.spec.name: _chances(scored) for scored in run.benchmarks},
            overall_row(rows),
            _adaptive_results(visible(run, hidden)),
            any(benchmark.golds_absent for benchmark in run.benchmarks),
            tuple(unknown_suites(run)),
        )


def _adaptive_results(run: ScoredRun) -> tuple[tuple[str, str], ...]:
    procedure = procedure_of(run.manifest)
    if procedure is None:
        return ()
    return tuple(procedure.summarise(run))


# --- from a scored run to rows ---------------------------------------------------------------------------------------


INDEX_FORMAT = 16
LONGEST_READING = 48
REPLY_END = "\x1e"
"""Between the replies to a question where words are looked for in them."""
RIGHT, WRONG, UNPARSED = (OUTCOMES.index(name) for name in ("right", "wrong", "unparsed"))

QuestionKey = tuple[str, str, str, int]
"""Benchmark, build, sample id and turn: what makes a question the same in two runs."""

_json = msgspec.json.Encoder().encode


def open_index(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection to the index; one of another format is emptied when it is opened for writing."""
    if read_only:
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    if _format_of(connection) != INDEX_FORMAT:
        connection.close()
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(files("snellen.viewing").joinpath("schema.sql").read_text("utf-8"))
        connection.execute(f"PRAGMA user_version = {INDEX_FORMAT}")
    connection.execute("PRAGMA synchronous = OFF")  # it can be made again
    return connection


def _format_of(connection: sqlite3.Connection) -> int:
    """-1 for a file that is not an index."""
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError:
        return -1


ShowsAnswers = Callable[[BenchmarkUse], bool]
"""Whether the answers of a benchmark may be seen in what is shown of runs."""


def all_answers(use: BenchmarkUse) -> bool:
    """Whoever sees the pages may see all answers."""
    return True


def run_stamp(folder: Path, manifest: RunManifest) -> str:
    """Changes when anything does that a run's rows are made from."""
    built = (Path(use.folder) / MANIFEST for use in manifest.benchmarks)
    paths = [folder / RUN_MANIFEST, *journals(folder), *built]
    states = [(path.name, *_state(path)) for path in paths]
    known_suites = {
        use.name.partition("/")[0] for use in manifest.benchmarks
    } & suite_facts().keys()
    return repr((__version__, STANDARD.version, states, sorted(known_suites)))


def _state(path: Path) -> tuple[int, int]:
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
    """Score a run and replace its rows; where the answers are not here, the scores that the run keeps stand for that.

    A run that has neither has a fault and no rows. Of benchmarks whose answers are not shown nothing enters the index
    that follows from them, so that no page, filter, order or error made of it can tell them.
    """
    started = time.monotonic()
    uses = read_manifest(folder).benchmarks
    hidden = frozenset(use.name for use in uses if not shows_answers(use))
    scored, fault = _scored(folder, hidden)
    # The share of correct replies says nothing if earlier replies chose the questions.
    rows = visible_results(scored, hidden) if scored and not scored.manifest.adaptive_rules else []
    with _transaction(connection):
        run = _run_row(connection, folder)
        _forget_rows(connection, run)
        summary, details = RunSummary(), RunDetails()
        if scored is not None:
            writer = _Writer(connection, run, scored, hidden)
            writer.write()
            counts = connection.execute(
                "SELECT outcome, count(DISTINCT question) FROM entry WHERE run = ? GROUP BY outcome",
                (run,),
            )
            summary = RunSummary(
                headline_of(scored, rows), {OUTCOMES[outcome]: count for outcome, count in counts}
            )
            details = writer.counter.details(scored, rows, hidden)
        seconds = time.monotonic() - started
        connection.execute(
            "UPDATE run SET stamp = ?, fault = ?, summary = ?, details = ?, indexed = ?, seconds = ? WHERE id = ?",
            (stamp, fault, _json(summary), _json(details), time.time(), seconds, run),
        )


def _scored(folder: Path, hidden: Collection[str]) -> tuple[ScoredRun | None, str]:
    """A run by the standard rules, or why there are no numbers of it."""
    try:
        return score_run(folder, hidden=hidden), ""
    except SnellenError as error:
        fault = str(error)
    if hidden:
        return None, fault  # what a run keeps was scored by the answers
    try:
        return (load_scoring(folder), "") if scoring_names(folder) else (None, fault)
    except SnellenError:
        return None, fault


def forget_runs(connection: sqlite3.Connection, kept_runs: Iterable[Path]) -> None:
    """Drop the rows of all runs but these."""
    folders = {str(folder) for folder in kept_runs}
    for run, folder in connection.execute("SELECT id, folder FROM run").fetchall():
        if folder not in folders:
            with _transaction(connection):
                _forget_rows(connection, run)
                connection.execute("DELETE FROM run WHERE id = ?", (run,))


def join_runs(connection: sqlite3.Connection) -> None:
    """Work out what follows from all runs together: shares, disagreement, and questions that nobody has any more."""
    with _transaction(connection):
        connection.execute(
            "DELETE FROM question_words WHERE rowid NOT IN (SELECT question FROM entry)"
        )
        connection.execute(
            "DELETE FROM reply_words WHERE rowid NOT IN (SELECT words FROM entry WHERE words NOT NULL)"
        )
        connection.execute(
            "DELETE FROM reply_digest WHERE words NOT IN (SELECT words FROM entry WHERE words NOT NULL)"
        )
        connection.execute("DELETE FROM tag WHERE question NOT IN (SELECT question FROM entry)")
        connection.execute(
            "DELETE FROM question_record WHERE question NOT IN (SELECT question FROM entry)"
        )
        connection.execute("DELETE FROM question WHERE id NOT IN (SELECT question FROM entry)")
        connection.execute(
            f"""
            UPDATE question SET share_right = joined.share, unstable = joined.unstable FROM (
              SELECT question, max(unstable) AS unstable,
                avg(CASE outcome WHEN {RIGHT} THEN 1.0 WHEN {WRONG} THEN 0.0 WHEN {UNPARSED} THEN 0.0 END) AS share
              FROM entry GROUP BY question) AS joined
            WHERE question.id = joined.question"""
        )
        connection.execute("UPDATE question SET disagree = 0 WHERE disagree")
        connection.execute(
            f"""
            UPDATE question SET disagree = 1 WHERE id IN (
              SELECT question FROM entry WHERE outcome IN ({RIGHT}, {WRONG}, {UNPARSED})
              GROUP BY question, protocol HAVING min(outcome = {RIGHT}) < max(outcome = {RIGHT}))"""
        )
        connection.execute("ANALYZE")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _run_row(connection: sqlite3.Connection, folder: Path) -> int:
    connection.execute(
        "INSERT OR IGNORE INTO run VALUES (NULL, ?, '', '', '{}', '{}', 0, 0)", (str(folder),)
    )
    [run] = connection.execute("SELECT id FROM run WHERE folder = ?", (str(folder),)).fetchone()
    return int(run)


def _forget_rows(connection: sqlite3.Connection, run: int) -> None:
    connection.execute(
        "DELETE FROM entry_record WHERE entry IN (SELECT id FROM entry WHERE run = ?)", (run,)
    )
    connection.execute("DELETE FROM entry WHERE run = ?", (run,))
    connection.execute("DELETE FROM exchange WHERE run = ?", (run,))


class _Writer:
    """Writes the rows of one scored run."""

    def __init__(
        self, connection: sqlite3.Connection, run: int, scored: ScoredRun, hidden: Collection[str]
    ) -> None:
        self._connection, self._run, self._scored, self._hidden = connection, run, scored, hidden
        self._questions: dict[QuestionKey, int] = {}
        self._entries: dict[tuple[int, str], int] = {}
        self.counter = EntryCounter()

    def write(self) -> None:
        manifest = self._scored.manifest
        for use in manifest.benchmarks:
            [scored] = [
                benchmark
                for benchmark in self._scored.benchmarks
                if benchmark.spec.name == use.name
            ]
            self._write_benchmark(use, scored)
        self._write_exchanges(manifest)

    def _write_benchmark(self, use: BenchmarkUse, scored: ScoredBenchmark) -> None:
        indexed_rows = self._connection.execute(
            "SELECT id, sample_id, turn FROM question WHERE benchmark = ? AND build = ?",
            (use.name, build_of(use)),
        )
        ids = {(sample_id, turn): row for row, sample_id, turn in indexed_rows}
        places = {sample_id: place for place, sample_id in enumerate(scored.samples)}
        for entry in question_entries(self._run, scored):
            if use.name in self._hidden and parse_protocol(entry.protocol).gold_history:
                continue  # its prompts hold the answers of earlier rounds
            place = entry.sample.id, entry.turn
            if place not in ids:
                ids[place] = self._add_question(use, entry, places[entry.sample.id])
            elif entry.answer is not None:
                self._connection.execute(
                    "UPDATE question_record SET answer = ? WHERE question = ? AND answer IS NULL",
                    (_json(entry.answer), ids[place]),
                )
            self._questions[use.name, build_of(use), *place] = ids[place]
            self._entries[ids[place], entry.protocol] = self._add_entry(ids[place], entry)

    def _add_question(self, use: BenchmarkUse, entry: GalleryEntry, place: int) -> int:
        sample = entry.sample
        row = self._insert(
            "INSERT INTO question VALUES (NULL, ?, ?, ?, ?, ?, ?, NULL, 0, 0)",
            (
                use.name,
                build_of(use),
                sample.id,
                entry.turn,
                place,
                entry.scored.spec.dimension,
            ),
        )
        gold = _json(entry.answer) if entry.answer else None
        self._insert("INSERT INTO question_record VALUES (?, ?, ?)", (row, _json(sample), gold))
        turn = sample.rounds[entry.turn]
        words = "\n".join(
            [sample.id, sample.question, turn.question, *turn.options, sample.context or ""]
        )
        self._connection.execute(
            "INSERT INTO question_words (rowid, words) VALUES (?, ?)", (row, words)
        )
        tags = [(row, f"{name}={value}") for name, value in sample.tags.items()]
        self._connection.executemany("INSERT OR IGNORE INTO tag VALUES (?, ?)", tags)
        folder = str(Path(use.folder).absolute())
        pictures = [
            (image.digest, folder, image.media_type, image.width, image.height)
            for image in sample.images
        ]
        self._connection.executemany(
            "INSERT OR REPLACE INTO picture VALUES (?, ?, ?, ?, ?)", pictures
        )
        return row

    def _add_entry(self, question: int, entry: GalleryEntry) -> int:
        self.counter.add(entry)
        choices = {p.choice for p in entry.predictions if p.error is None and p.text is None}
        row = self._insert(
            "INSERT INTO entry VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, NULL)",
            (
                question,
                self._run,
                entry.protocol,
                OUTCOMES.index(entry.outcome),
                len(choices) > 1,
                len(entry.predictions),
                short_reading(entry.shown_prediction, entry.sample.rounds[entry.turn]),
            ),
        )
        records = _json(entry.predictions), _json(entry.scores)
        self._insert("INSERT INTO entry_record VALUES (?, ?, ?)", (row, *records))
        return row

    def _insert(self, query: str, values: Sequence[object]) -> int:
        """The id of the new row."""
        return self._connection.execute(query, values).lastrowid or 0

    def _write_exchanges(self, manifest: RunManifest) -> None:
        builds = {use.name: build_of(use) for use in manifest.benchmarks}
        replies: dict[int, list[str]] = defaultdict(list)
        places: list[tuple[int, int, int, int]] = []
        for number, path in enumerate(journals(self._scored.folder)):
            for offset, exchange in read_journal(path):
                question = self._question_of(exchange, builds)
                if question is None:
                    continue
                places.append((self._run, question, number, offset))
                entry = self._entries.get((question, exchange.protocol))
                if entry is not None and exchange.response.text:
                    replies[entry].append(exchange.response.text)
        self._connection.executemany("INSERT INTO exchange VALUES (?, ?, ?, ?)", places)
        words = (
            (self._words_of(REPLY_END.join(of_entry)), entry) for entry, of_entry in replies.items()
        )
        self._connection.executemany("UPDATE entry SET words = ? WHERE id = ?", words)

    def _words_of(self, text: str) -> int:
        """Where replies stand among those that are searched, once for all entries with the same."""
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        row = self._connection.execute(
            "SELECT words FROM reply_digest WHERE digest = ?", (digest,)
        ).fetchone()
        if row is not None:
            return int(row[0])
        words = self._insert("INSERT INTO reply_words (words) VALUES (?)", (text,))
        self._insert("INSERT INTO reply_digest VALUES (?, ?)", (digest, words))
        return words

    def _question_of(self, exchange: Exchange, builds: dict[str, str]) -> int | None:
        request = exchange.request
        build = builds.get(request.benchmark, "")
        return self._questions.get(
            (request.benchmark, build, request.sample_id, request.variant.turn)
        )


def build_of(use: BenchmarkUse) -> str:
    """What a benchmark's questions are known by, whether their answers were hidden or not."""
    return use.questions or use.version


def short_reading(prediction: Prediction, turn: Turn) -> str:
    """In a few words what a response was read as: an option, a text, or why there is nothing."""
    if prediction.error is not None:
        return prediction.error.kind
    if prediction.text is not None:
        return shorten(prediction.text, LONGEST_READING)
    if prediction.choice is None:
        return prediction.reason or "nothing"
    return shorten(turn.options[prediction.choice], LONGEST_READING)


def reading(path: Path) -> closing[sqlite3.Connection]:
    """A connection that can only read, until its block ends."""
    return closing(open_index(path, read_only=True))
