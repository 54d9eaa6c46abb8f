"""Print the results of commands on stdout, and notes and progress on stderr."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from snellen.building.benchmark import SET_APART
from snellen.common.paths import shell_word
from snellen.errors import interrupted_code
from snellen.formats.shown_text import short_name
from snellen.installation import LAB
from snellen.runs.run_folder import holds_answers

if TYPE_CHECKING:
    from snellen.building.benchmark import Benchmark
    from snellen.building.builder import Progress as Built
    from snellen.experiments.results import Results
    from snellen.report.reported_runs import ReportedRun
    from snellen.report.table import Table
    from snellen.runs.run_progress import ProgressListener, RunProgress

MAX_METRIC_ROWS = 24
"""Most metric rows of open questions and dialogues shown in a terminal; longer tables are only in the report."""
MAX_SUITE_TABLES = 2
"""Most tables of one suite shown in a terminal; the rest are in the report."""
error_console = Console(stderr=True, markup=False, emoji=False, highlight=False)
"""Console for warnings and progress, on stderr."""
console = Console(
    width=None if sys.stdout.isatty() else 200, markup=False, emoji=False, highlight=False
)
"""Console for the output of a command: `console.print("12 replies", soft_wrap=True)`. Text in brackets is not markup."""


@contextmanager
def run_progress() -> Iterator[ProgressListener]:
    """Show the progress of runs on stderr: a bar per model, or a line every ten seconds if stderr is not a terminal.

    Ctrl-C prints one line, which names the run's folder, and exits with 130.

    Yields:
        The listener for the runs.

    Examples:
        >>> with run_progress() as progress:
        ...     results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False, progress=progress)
        >>> results.value()
        1.0
    """
    latest: RunProgress | None = None
    try:
        with _progress_listener() as show:

            def listen(state: RunProgress) -> None:
                nonlocal latest
                latest = state
                show(state)

            yield listen
    except KeyboardInterrupt as stopped:
        if latest is None:
            raise
        folder = Path(latest.folder)
        if holds_answers(folder):
            line = f"stopped; all replies so far are stored in {folder}. Run the same command to continue."
        else:
            line = "stopped before the first reply; nothing is stored yet. Run the same command to start again."
        error_console.print(line, soft_wrap=True)
        sys.exit(interrupted_code(stopped))


def _progress_listener() -> AbstractContextManager[ProgressListener]:
    """Return a listener that shows progress: bars in a terminal, otherwise a line now and then."""
    if error_console.is_terminal:
        from snellen.cli.bars import run_bars

        return run_bars(error_console)
    from snellen.report.progress_text import progress_lines

    return nullcontext(progress_lines(partial(error_console.print, soft_wrap=True)))


def announce_next(*steps: str) -> None:
    """Print on stderr which commands usually follow, as the last line of a command.

    Examples:
        >>> announce_next("`snellen view runs/x` shows every question and reply")
    """
    error_console.print(f"next: {'; '.join(steps)}", style="dim", soft_wrap=True)


def announce_next_of_runs(runs: Sequence[Path], given: Sequence[Path] = ()) -> None:
    """Print what to do next with runs: how to look at them, then how to compare several, or get the replies of one as
    a table.

    Args:
        runs: The folders of the runs.
        given: What the user typed for them. It is shorter if that is a folder which contains the runs.

    Examples:
        >>> announce_next_of_runs([Path("runs/a")])
    """
    words = given or runs
    steps = [f"{command_line('view', *words)} shows every question and reply"]
    if len(runs) > 1:
        steps.append(f"{command_line('compare', *words)} says which differences are significant")
    else:
        export = command_line("export", *runs, "-o", "replies.csv")
        steps.append(f"{export} writes them as a table")
    announce_next(*steps)


def command_line(*words: str | Path) -> str:
    """Return a `snellen` command in backticks, for a message.

    Examples:
        >>> command_line("view", Path("runs/my run"))
        "`snellen view 'runs/my run'`"
    """
    return f"`{shlex.join(['snellen', *map(str, words)])}`"


def announce(line: str) -> None:
    """Print a note on stderr.

    Examples:
        >>> announce("12 of 40 replies match")  # on stderr
    """
    error_console.print(short_name(line), style="dim", soft_wrap=True)


def show_results(results: Results, as_json: bool, *, with_details: bool = False) -> None:
    """Print the findings and the first tables of results.

    Args:
        results: The results.
        as_json: Print all rows as JSON lines instead.
        with_details: Print all tables.
    """
    if as_json:
        print_records(results.rows)
        return
    from snellen.report.findings import findings
    from snellen.report.interval_width import wide_interval_note
    from snellen.report.missing_values import missing_values
    from snellen.report.reported_runs import prepare_reported_runs
    from snellen.report.terminal import first_tables

    reported_runs = prepare_reported_runs(results.runs, results.rows)
    for sentence in findings(reported_runs):
        console.print(Text(sentence))
    for table in first_tables(reported_runs):
        console.print()
        console.print(table)
    if with_details:
        _show_details(reported_runs)
    else:
        _show_special_tables(reported_runs)
    for sentence in missing_values(results.runs, results.rows):
        console.print(Text(sentence))
    width_note = wide_interval_note(reported_runs)
    if width_note:
        console.print(Text(width_note))


def _show_special_tables(reported_runs: Sequence[ReportedRun]) -> None:
    """Print the tables of special runs: adaptive ones, those scored as published, controls, answers in several steps."""
    from snellen.report.terminal import tables_of_runs

    for table in tables_of_runs(reported_runs):
        console.print()
        console.print(table)


def _show_details(reported_runs: Sequence[ReportedRun]) -> None:
    """Print all further tables. Those that are too long for a terminal are only mentioned."""
    from snellen.report.terminal import details_tables, other_tables, suite_tables

    for table in details_tables(reported_runs):
        console.print()
        console.print(table)
    _show_special_tables(reported_runs)
    for subject, tables_of_suite in suite_tables(reported_runs).items():
        for table in tables_of_suite[:MAX_SUITE_TABLES]:
            console.print()
            console.print(table)
        n_hidden = len(tables_of_suite) - MAX_SUITE_TABLES
        if n_hidden > 0:
            console.print(f"{n_hidden} more tables of {subject} are in the report.")
    metric_tables = other_tables(reported_runs)
    if sum(table.row_count for table in metric_tables) > MAX_METRIC_ROWS:
        console.print(
            "Metrics of open questions and dialogues are in the report and in the output of --json."
        )
        return
    for table in metric_tables:
        console.print()
        console.print(table)


def print_records(records: Iterable[Any]) -> None:
    """Print records as JSON, one object per line. Results are printed as flat objects, as in results.json.

    Examples:
        >>> print_records([{"bird": "wren", "songs": 3}])
        {"bird":"wren","songs":3}
    """
    import msgspec

    from snellen.records import Result
    from snellen.scoring.scored_run import flat_row

    for record in records:
        if isinstance(record, Result):
            record = flat_row(record)
        console.out(msgspec.json.encode(record).decode(), highlight=False)


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables, or only the title of a table without rows.

    If a terminal is too narrow for all columns, the last ones are left out and named below the table.

    Examples:
        >>> from snellen.plugin_api import Table
        >>> print_tables([Table("No songs", ("bird", "songs"), ())])
        No songs
    """
    from snellen.report.terminal import plain_table, unbroken_texts

    for table in tables:
        if not table.rows:
            console.print(Text(table.title))
            continue
        columns = unbroken_texts(table)
        full_width = 0
        for column in columns:
            full_width += max(len(cell) for cell in column) + 1
        if full_width <= console.width:
            console.print(plain_table(table))
            continue
        widths = _column_widths(columns, console.width, gap=1)
        console.print(plain_table(table, widths))
        left_out = table.header[len(widths) :]
        if left_out:
            console.print(f"Not shown (narrow terminal): {', '.join(left_out)}.", style="dim")


def show_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], as_json: bool
) -> None:
    """Print a table of texts.

    A terminal shows as many columns as fit, and a pipe receives one line per row, for programs that read them.

    Args:
        title: Title of the table.
        header: Names of its columns.
        rows: Cells of its rows.
        as_json: Print one JSON object per row instead.

    Examples:
        >>> show_table("Birds", ("bird", "songs"), [("wren", "3")], as_json=False)
        Birds
        bird  songs
        wren  3
    """
    if as_json:
        print_records(dict(zip(header, row, strict=True)) for row in rows)
        return
    texts: list[list[str]] = []
    for row in rows:
        texts.append([short_name(cell).replace("\n", " ") for cell in row])
    columns = list(zip(header, *texts, strict=True))
    if not sys.stdout.isatty():
        longest = [max(map(len, column)) for column in columns]
        lines = [title] if title else []
        for text_row in (header, *texts):
            padded = [cell.ljust(width) for cell, width in zip(text_row, longest, strict=True)]
            lines.append("  ".join(padded).rstrip())
        console.out("\n".join(lines))
        return
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    widths = _column_widths(columns, console.width)
    for name, width in zip(header, widths, strict=False):
        table.add_column(name, overflow="fold", width=width)
    for text_row in texts:
        shown_cells = [Text(cell) for cell in text_row[: len(widths)]]
        table.add_row(*shown_cells)
    console.print(table)
    left_out = header[len(widths) :]
    if left_out:
        console.print(
            f"not shown (narrow terminal): {', '.join(left_out)}", style="dim", highlight=False
        )


COLUMN_GAP = 2
"""Characters between columns."""
MAX_UNBROKEN = 24
"""Characters of a word up to which it is not broken."""


def _column_widths(columns: Sequence[Sequence[str]], room: int, gap: int = COLUMN_GAP) -> list[int]:
    """Return the widths of the columns of a table that fit into a line, in characters.

    Columns that do not fit are left out at the end, but at least two are shown. A column fits if its longest word
    does. The first column, whose cells users copy, is as wide as its longest cell. The space that is left is
    divided among the columns whose cells are longer than their longest word.

    Args:
        columns: Texts of each column, with its heading first.
        room: Width of the line.
        gap: Space between columns.

    Returns:
        One width for each column that is shown.
    """
    full_widths = []
    least_widths = []
    for column in columns:
        full_widths.append(max(len(cell) for cell in column))
        least_widths.append(_longest_word(column))
    least_widths[0] = full_widths[0]

    n_columns = len(columns)
    while n_columns >= 3:
        least_width_of_all = sum(least_widths[:n_columns]) + gap * (n_columns - 1)
        if least_width_of_all <= room:
            break
        n_columns -= 1

    full_widths = full_widths[:n_columns]
    least_widths = least_widths[:n_columns]
    free_room = max(room - sum(least_widths) - gap * (n_columns - 1), 0)
    wanted_room = sum(full_widths) - sum(least_widths)
    granted_share = min(free_room / wanted_room, 1.0) if wanted_room else 0.0
    widths = []
    for full_width, least_width in zip(full_widths, least_widths, strict=True):
        extra = int(granted_share * (full_width - least_width))
        widths.append(least_width + extra)
    return widths


def _longest_word(column: Sequence[str]) -> int:
    """Return the length of the longest word of a column, at most `MAX_UNBROKEN`."""
    longest = 0
    for cell in column:
        for word in cell.split():
            longest = max(longest, len(word))
    return min(longest, MAX_UNBROKEN)


@contextmanager
def build_progress(name: str) -> Iterator[Built]:
    """Show a status line on the terminal that counts the questions built, a hundred at a time."""
    with error_console.status(Text(f"building {name}")) as status:

        def show(count: int) -> None:
            if count % 100 == 0:
                status.update(Text(f"building {name}: {count:,} questions"))

        yield show


def print_built(benchmark: Benchmark, *, with_verification: bool = False) -> None:
    """Print a built benchmark: name, version, counts and folder, and warnings about it on stderr.

    Args:
        benchmark: The benchmark.
        with_verification: Also print the checks that its questions had to pass.

    Examples:
        >>> from snellen.plugin_api import open_benchmark
        >>> print_built(open_benchmark("eyechart/colour"))
        built eyechart/colour version ...: 300 questions, 300 images
        ...
    """
    counts = benchmark.manifest.counts
    contents = f"{counts.questions:,} questions, "
    if counts.examples:
        contents += f"{counts.examples:,} examples, "
    contents += f"{counts.images:,} images"
    if counts.questions and not counts.answers:
        contents += ", answers hidden"
    console.print(
        f"built {benchmark.name} version {benchmark.manifest.version}: {contents}\n  {benchmark.folder}",
        soft_wrap=True,
    )
    n_alike = benchmark.manifest.indistinguishable
    if n_alike:
        warning = (
            f"  warning: {n_alike:,} of {counts.questions:,} questions send the same request as another question "
            f"but have a different answer (`snellen lint {shell_word(benchmark.name)}` of {LAB} lists some); they would share "
            "one reply"
        )
        if not benchmark.spec.same_requests:
            warning += ", and runs reject them"
        error_console.print(warning, highlight=False, style="bold yellow", soft_wrap=True)
    for note in benchmark.manifest.warnings:
        announce(f"  note: {note}")
    for reason, times in sorted(benchmark.manifest.build_info.rejected.items()):
        announce(f"  note: {times:,} distractor candidates were rejected: {reason}")
    if with_verification:
        show_verification(benchmark)


def show_verification(benchmark: Benchmark) -> None:
    """Print the checks that the questions of a benchmark had to pass, and how many questions were set apart."""
    verification = benchmark.manifest.verification
    if verification is None:
        return
    for check in verification.checks:
        repaired = f", {check.repaired:,} mended" if check.repaired else ""
        detail = f": {check.detail}" if check.detail else ""
        console.print(
            f"  {check.name}: {check.failed:,} of {check.checked:,} failed{repaired}{detail}",
            soft_wrap=True,
        )
    line = f"  kept {verification.passing_questions:,} of {verification.candidates:,}"
    n_apart = verification.candidates - verification.passing_questions
    if n_apart:
        line += f"; {n_apart:,} are set aside, with reasons, in {benchmark.folder / SET_APART}"
    console.print(line, soft_wrap=True)
