"""Output of commands: tables, and progress with counts, rate and time left."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from snellen.building.benchmark import SET_APART
from snellen.common.paths import as_word
from snellen.errors import interrupted_code
from snellen.formats.shown_text import short_name
from snellen.runs.run_folder import holds_answers

if TYPE_CHECKING:
    from snellen.building.benchmark import Benchmark
    from snellen.building.builder import Progress as Built
    from snellen.experiments.results import Results
    from snellen.report.run_view import RunView
    from snellen.report.table import Table
    from snellen.runs.run_progress import ProgressListener, RunProgress

MAX_METRIC_ROWS = 24
"""Most metric rows of open questions and dialogues shown in a terminal; longer tables are only in the report."""
MAX_SUITE_TABLES = 2
"""Most tables of one suite shown in a terminal; the rest are in the report."""
err = Console(stderr=True, markup=False, emoji=False, highlight=False)
"""The console for warnings and progress, on stderr."""
out = Console(
    width=None if sys.stdout.isatty() else 200, markup=False, emoji=False, highlight=False
)
"""The console for what a command gives: `out.print("12 replies", soft_wrap=True)`. Text in brackets is no markup."""


@contextmanager
def run_progress() -> Iterator[ProgressListener]:
    """Bars on stderr, one per model; on a pipe one line every 10 seconds. Ctrl-C prints one line and exits with 130."""
    latest: list[RunProgress] = []

    def remembering(listener: ProgressListener) -> ProgressListener:
        def listen(state: RunProgress) -> None:
            latest[:] = [state]
            listener(state)

        return listen

    try:
        with _shown_progress() as listener:
            yield remembering(listener)
    except KeyboardInterrupt as stopped:
        if not latest:
            raise
        folder = Path(latest[0].folder)
        if holds_answers(folder):
            line = (
                f"stopped; all answers so far are kept in {folder}. Run the same command to go on."
            )
        else:
            line = "stopped before any answer came; nothing is kept yet. Run the same command to begin anew."
        err.print(line, soft_wrap=True)
        sys.exit(interrupted_code(stopped))


def _shown_progress() -> AbstractContextManager[ProgressListener]:
    if err.is_terminal:
        from snellen.cli.bars import run_bars

        return run_bars(err)
    from snellen.report.terminal import progress_lines

    return nullcontext(progress_lines(partial(err.print, soft_wrap=True)))


def announce(line: str) -> None:
    """Print a note on stderr, beside what a command gives."""
    err.print(short_name(line), style="dim", soft_wrap=True)


def show_results(results: Results, as_json: bool, *, with_details: bool = False) -> None:
    """Print what was found and the first tables; with details all tables, with `as_json` all rows as JSON lines."""
    if as_json:
        from snellen.scoring.scored_run import flat_row

        print_records(map(flat_row, results.rows))
        return
    from snellen.report.findings import findings
    from snellen.report.missing_values import missing_values
    from snellen.report.run_view import run_views
    from snellen.report.terminal import first_tables

    views = run_views(results.runs, results.rows)
    for sentence in findings(views):
        out.print(Text(sentence))
    for table in first_tables(views):
        out.print()
        out.print(table)
    if with_details:
        _show_details(views)
    else:
        _show_special_tables(views)
    for sentence in missing_values(results.runs, results.rows):
        out.print(Text(sentence))


def _show_special_tables(views: Sequence[RunView]) -> None:
    """Print what some kinds of runs are made for: runs that a rule stopped, both conventions, controls, talks."""
    from snellen.report.terminal import tables_of_runs

    for table in tables_of_runs(views):
        out.print()
        out.print(table)


def _show_details(views: Sequence[RunView]) -> None:
    """Print all other tables that a terminal has room for."""
    from snellen.report.terminal import details_tables, other_tables, suite_tables

    for table in details_tables(views):
        out.print()
        out.print(table)
    _show_special_tables(views)
    for subject, suite_own in suite_tables(views).items():
        for suite_table in suite_own[:MAX_SUITE_TABLES]:
            out.print()
            out.print(suite_table)
        if len(suite_own) > MAX_SUITE_TABLES:
            out.print(
                f"{len(suite_own) - MAX_SUITE_TABLES} more tables of {subject} are in the report."
            )
    tables = other_tables(views)
    is_long = sum(table.row_count for table in tables) > MAX_METRIC_ROWS
    for table in () if is_long else tables:
        out.print()
        out.print(table)
    if is_long:
        out.print("Metrics of open questions and of dialogues are in the report, and in --json.")


def print_records(records: Iterable[Any]) -> None:
    """Print records, an object of JSON a line."""
    import msgspec

    for record in records:
        out.out(msgspec.json.encode(record).decode(), highlight=False)


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables; of one without rows its title alone. Columns that a narrow terminal has no room for, the last ones,
    are named below."""
    from snellen.report.terminal import plain_table, shown_words

    for table in tables:
        if not table.rows:
            out.print(Text(table.title))
            continue
        columns = shown_words(table)
        whole = sum(max(map(len, column)) + 1 for column in columns)
        if whole <= out.width:
            out.print(plain_table(table))
            continue
        widths = _column_widths(columns, out.width, gap=1)
        out.print(plain_table(table, widths))
        if dropped := table.header[len(widths) :]:
            out.print(f"Not shown on so narrow a terminal: {', '.join(dropped)}.", style="dim")


def show_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], as_json: bool
) -> None:
    """Print a table: for a terminal, a row a line for a pipe, or with `as_json` an object a line."""
    if as_json:
        print_records(dict(zip(header, row, strict=True)) for row in rows)
        return
    rows = [[short_name(cell).replace("\n", " ") for cell in row] for row in rows]
    if not sys.stdout.isatty():  # one row per line, for programs that read them
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (header, *rows))
        out.out("\n".join([title, *lines]))
        return
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    widths = _column_widths(list(zip(header, *rows, strict=True)), out.width)
    for name, width in zip(header, widths, strict=False):
        table.add_column(name, overflow="fold", width=width)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row[: len(widths)]))
    out.print(table)
    if len(widths) < len(header):
        out.print(
            f"not shown on so narrow a terminal: {', '.join(header[len(widths) :])}",
            style="dim",
            highlight=False,
        )


GAP, LONGEST_WORD = 2, 24
"""Between columns; letters of a word that may be broken."""


def _column_widths(columns: Sequence[Sequence[str]], room: int, gap: int = GAP) -> list[int]:
    """Of as many columns, from the first on, as fit without breaking a word. The first one, whose cells are typed
    again, is as wide as they are; what is left goes to those that have more to show."""
    whole = [max(map(len, column)) for column in columns]
    least = [
        max((len(word[:LONGEST_WORD]) for cell in column for word in cell.split()), default=0)
        for column in columns
    ]
    least[0] = whole[0]
    count = next(
        n for n in range(len(columns), 0, -1) if n < 3 or sum(least[:n]) + gap * (n - 1) <= room
    )
    wants = [most - fewest for most, fewest in zip(whole[:count], least, strict=False)]
    free = max(room - sum(least[:count]) - gap * (count - 1), 0)
    share = min(free / sum(wants), 1.0) if sum(wants) else 0.0
    return [fewest + int(share * want) for fewest, want in zip(least, wants, strict=False)]


@contextmanager
def build_progress(name: str) -> Iterator[Built]:
    """A status line on the terminal that counts the questions built."""
    with err.status(Text(f"building {name}")) as status:
        yield (
            lambda count: (
                status.update(Text(f"building {name}: {count:,} questions"))
                if count % 100 == 0
                else None
            )
        )


def print_built(benchmark: Benchmark) -> None:
    """Print what was built: name, version, counts, folder, and warnings about it."""
    counts = benchmark.manifest.counts
    hidden = "" if counts.answers or not counts.questions else ", answers hidden"
    examples = f"{counts.examples:,} examples, " if counts.examples else ""
    out.print(
        f"built {benchmark.name} version {benchmark.manifest.version}: {counts.questions:,} questions, "
        f"{examples}{counts.images:,} images{hidden}\n  {benchmark.folder}",
        soft_wrap=True,
    )
    if alike := benchmark.manifest.indistinguishable:
        err.print(
            f"  warning: {alike:,} of {counts.questions:,} questions show a model just what others show it, and have "
            f"another answer (snellen lint {as_word(benchmark.name)} names some); one reply would serve them all"
            + ("" if benchmark.spec.same_requests else ", so a run refuses them"),
            highlight=False,
            style="bold yellow",
            soft_wrap=True,
        )
    for warning in benchmark.manifest.warnings:
        announce(f"  note: {warning}")
    for reason, times in sorted(benchmark.manifest.made.rejected.items()):
        announce(f"  note: {times:,} distractor candidates left out: {reason}")


def show_verification(benchmark: Benchmark) -> None:
    """Print what the questions of a benchmark have passed, a line for each check, and how many were set apart."""
    verification = benchmark.manifest.verification
    if verification is None:
        return
    for check in verification.checks:
        repaired = f", {check.repaired:,} mended" if check.repaired else ""
        detail = f": {check.detail}" if check.detail else ""
        out.print(
            f"  {check.name}: {check.failed:,} of {check.checked:,} failed{repaired}{detail}",
            soft_wrap=True,
        )
    apart = verification.candidates - verification.kept
    out.print(
        f"  kept {verification.kept:,} of {verification.candidates:,}"
        + (
            f"; {apart:,} are set apart with the reasons, in {benchmark.folder / SET_APART}"
            if apart
            else ""
        ),
        soft_wrap=True,
    )
