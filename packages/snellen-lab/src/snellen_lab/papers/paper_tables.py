"""Tables of suites' papers as printed, and runs beside the models in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from snellen import parse_protocol
from snellen.plugin_api import (
    ALL,
    CAPABILITY,
    DASH,
    HEADLINE,
    AbsentCell,
    Better,
    Cell,
    Estimate,
    ModelMethodRow,
    NumberCell,
    ReportSection,
    RunView,
    Table,
    competition_ranks,
    decimal_text,
    declared,
    entries,
    few_names,
    headline_metric,
    interval_text,
    method_rows,
    suite_facts,
    suites,
    value_text,
)
from snellen_lab.papers.paper_check import PaperCheck, PaperReport, derived_figures
from snellen_lab.papers.printed_tables import (
    MODEL,
    Paper,
    PrintedValue,
    papers,
)

NOT_SHARED = "not in the run, or only by another metric"
DERIVED = "computed from the run's other figures as the paper's are from theirs"
RANK_NOTE = (
    "Best, median and lowest are those of the paper's models. A rank is among these and the run's, with the ranks that "
    "the ends of its interval would have."
)


def paper_list(of: Sequence[Paper]) -> Table:
    """All tables of the papers."""
    rows = tuple(
        (
            paper.suite,
            name,
            table.title,
            len({tuple(cell.labels.items()) for cell in paper.values(name)}),
            len(paper.header(name)) - len(table.labels),
        )
        for paper in of
        for name, table in paper.tables.items()
    )
    return Table(
        "Tables of papers",
        ("suite", "table", "what it shows", "rows", "columns"),
        rows,
        label_columns=3,
    )


def printed_table(paper: Paper, name: str, views: Sequence[RunView] = ()) -> Table:
    """A table as printed. Runs scored as published are above its models, with their intervals and ranks."""
    table, header = paper.table(name), paper.header(name)
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for cell in paper.values(name):
        rows.setdefault(tuple(cell.labels.values()), {})[cell.column] = cell.printed
    columns = header[len(table.labels) :]
    grid: list[tuple[Cell, ...]] = [
        (*labels, *(cells.get(column, "") for column in columns)) for labels, cells in rows.items()
    ]
    run_rows, notes = _own_rows(paper, name, columns, views)
    units = dict.fromkeys(cell.unit for cell in paper.values(name) if cell.unit)
    facts = [
        f"{table.caption}.",
        *([f"In {', '.join(units)}."] if units else []),
        suite_facts()[paper.suite].citation,
    ]
    title = f"{suite_facts()[paper.suite].title}, Table {name}: {table.title}"
    return Table(title, header, (*run_rows, *grid), len(table.labels), (*facts, *notes))


class PrintedComparison(Struct, frozen=True):
    """A run's number for a column of a paper's table, and where it stands among the printed ones."""

    unit: str
    estimate: Estimate
    rank: str
    note: str = ""
    """Why there is not a number beside theirs; or what part of the benchmark it covers."""
    text: str = ""
    """The number as it is shown, where it is computed from others; by its unit when empty."""


def _own_rows(
    paper: Paper, name: str, columns: Sequence[str], views: Sequence[RunView]
) -> tuple[list[tuple[Cell, ...]], list[str]]:
    """Three rows for each run and row of labels: values, intervals, ranks; and what has to be said of them."""
    rows: list[tuple[Cell, ...]] = []
    notes: dict[str, list[str]] = {}
    for line in method_rows(views):
        derived = _derived(paper, line)
        for labels, groups in _groups(paper, name).items():
            estimates = {
                column: compare_with_printed(paper, line, cells)
                or derived.get(_of_run(line, cells[0]).place)
                for column, cells in groups.items()
            }
            if not any(estimates.values()):
                continue
            valued = any(
                number.estimate.value is not None for number in estimates.values() if number
            )
            for title, text in _LINES.items() if valued else ():
                own_labels = (
                    dict(labels).get(label, line.view.label + title)
                    for label in paper.tables[name].labels
                )
                rows.append(
                    (
                        *own_labels,
                        *(
                            text(number) if (number := estimates.get(column)) else DASH
                            for column in columns
                        ),
                    )
                )
            for column, comparison in estimates.items():
                if why := NOT_SHARED if comparison is None else comparison.note:
                    notes.setdefault(f"{line.label}: {why}", []).append(column)
    return rows, [f"{why} ({', '.join(dict.fromkeys(columns))})." for why, columns in notes.items()]


def _derived(paper: Paper, line: ModelMethodRow) -> dict[str, PrintedComparison]:
    """What a run's numbers beside the paper's make of further figures, by their places (`28: MODEL: Complete Rank`)."""
    own_cells = []
    for cells in (
        cells
        for name in paper.tables
        for groups in _groups(paper, name).values()
        for cells in groups.values()
    ):
        number = compare_with_printed(paper, line, cells)
        if number is not None and number.estimate.value is not None:
            own_cells.append(
                replace(
                    _of_run(line, cells[0]),
                    printed=decimal_text(number.estimate.value, cells[0].digits),
                )
            )
    own_places = {cell.place for cell in own_cells}
    comparisons: dict[str, PrintedComparison] = {}
    # Figures follow from figures.
    while own_cells and (
        new := [cell for cell in derived_figures(paper, own_cells) if cell.place not in own_places]
    ):
        own_cells += new
        own_places |= {cell.place for cell in new}
        for cell in new:
            estimate = Estimate(float(cell.printed), None, None, None, 0)
            comparisons[cell.place] = PrintedComparison(
                cell.unit, estimate, DASH, DERIVED, cell.printed
            )
    return comparisons


def _of_run(line: ModelMethodRow, cell: PrintedValue) -> PrintedValue:
    return replace(cell, labels={**cell.labels, MODEL: line.label})


_LINES: dict[str, Callable[[PrintedComparison], str]] = {
    "": lambda number: number.text or value_text(number.estimate, number.unit),
    " (95% interval)": lambda number: (
        DASH if number.text or number.estimate.value is None else _interval(number)
    ),
    " (rank)": lambda number: number.rank,
}


def _interval(number: PrintedComparison) -> str:
    return interval_text(number.estimate, number.unit)


def _groups(
    paper: Paper, name: str
) -> dict[tuple[tuple[str, str], ...], dict[str, list[PrintedValue]]]:
    """By labels other than the model, then by column: the numbers of all models."""
    groups: dict[tuple[tuple[str, str], ...], dict[str, list[PrintedValue]]] = {}
    for cell in paper.values(name):
        if cell.value is not None and MODEL in cell.labels:
            labels = tuple((label, text) for label, text in cell.labels.items() if label != MODEL)
            groups.setdefault(labels, {}).setdefault(cell.column, []).append(cell)
    return groups


def compare_with_printed(
    paper: Paper, line: ModelMethodRow, cells: Sequence[PrintedValue]
) -> PrintedComparison | None:
    """A run's number for these cells, if it was scored as published and has one of the same benchmark and metric by the
    same method."""
    cell = cells[0]
    if (
        line.view.run.convention == "standard"
        or cell.method != line.method
        or not cell.metric
        or not (cell.benchmark or cell.dimension)
    ):
        return None
    metric = cell.metric
    if metric == CAPABILITY and cell.dimension == ALL:
        metric = HEADLINE
    number = line.lookup(metric, cell.benchmark or ALL, cell.dimension, cell.slice)
    if number is None:
        return None
    if cell.dimension and (why := _other_benchmarks(paper, line, cell.dimension)):
        return PrintedComparison(
            number.unit, Estimate(None, None, None, None, 0), DASH, f"no mean beside theirs: {why}"
        )
    note = "; ".join(filter(None, (_part(line, cell), _protocol(line, cell, number.protocol))))
    return PrintedComparison(number.unit, number.estimate, _rank(number.estimate, cells), note)


def _better(cell: PrintedValue) -> Better:
    return "higher" if cell.dimension else declared(cell.metric).better


def _other_benchmarks(paper: Paper, line: ModelMethodRow, dimension: str) -> str:
    """Why a run's mean over a dimension, or (`*`) all, is not over the paper's benchmarks; empty when it is."""
    theirs = {spec.name for spec in suites()[paper.suite] if dimension in (spec.dimension, ALL)}
    ours = {
        scored.spec.name
        for scored in line.view.run.benchmarks
        if dimension in (scored.spec.dimension, ALL)
        if (number := line.lookup(headline_metric(scored.spec), scored.spec.name))
        and number.estimate.value is not None
    }
    differences = (
        ("theirs are over {} too", theirs - ours),
        ("the run's is over {} too", ours - theirs),
    )
    return "; ".join(text.format(few_names(names)) for text, names in differences if names)


def _part(line: ModelMethodRow, cell: PrintedValue) -> str:
    """How many of the paper's questions the run was asked, where these are fewer."""
    counts = [
        (min(len(scored.samples), expected), expected)
        for scored in line.view.run.benchmarks
        if cell.benchmark == scored.spec.name
        or (cell.dimension and cell.dimension in (scored.spec.dimension, ALL))
        if scored.spec.name in entries()
        and (expected := entries()[scored.spec.name].expected.samples)
    ]
    n_asked, published = (
        (sum(numbers) for numbers in zip(*counts, strict=True)) if counts else (0, 0)
    )
    return f"{n_asked:,} of {published:,} questions" if n_asked < published else ""


def _protocol(line: ModelMethodRow, cell: PrintedValue, protocol: str) -> str:
    """The protocol of the run's number, where it is not one that the suite asks by."""
    scored = line.view.benchmark(cell.benchmark)
    if scored is None:
        return ""
    declared_protocols = (
        scored.spec.likelihood if line.method == "likelihood" else scored.spec.generation
    )
    usual = [parse_protocol(text).label for text in declared_protocols]
    return f"by {protocol}, theirs by {', '.join(usual)}" if usual and protocol not in usual else ""


def _rank(estimate: Estimate, cells: Sequence[PrintedValue]) -> str:
    """`5 of 17 [3, 8]`: the rank among the printed values, and the ranks of the interval's ends."""
    if estimate.value is None:
        return DASH
    printed = [float(cell.value) for cell in cells if cell.value is not None]
    ends = (estimate.value, estimate.high, estimate.low)
    # As many decimals as are printed, so that equal figures share a rank.
    own_rank, *limits = (
        None
        if end is None
        else competition_ranks([round(end, cells[0].digits), *printed], _better(cells[0]))[0]
        for end in ends
    )
    reach = (
        f" [{', '.join(str(limit) for limit in sorted(filter(None, limits)))}]"
        if None not in limits
        else ""
    )
    return f"{own_rank} of {len(printed) + 1}{reach}"


def beside_papers(views: Sequence[RunView]) -> list[Table]:
    """For runs scored as published: each printed column that a run shares, with the run's number and rank."""
    published = [view for view in views if view.run.convention != "standard"]
    specs = [scored.spec for view in published for scored in view.run.benchmarks]
    run_suites, benchmarks = {spec.suite for spec in specs}, {spec.name for spec in specs}
    return [
        table
        for suite, paper in (papers().items() if run_suites else ())
        if suite in run_suites
        or any(subject.benchmark in benchmarks for subject in paper.subjects.values())
        for name in paper.tables
        if (table := _beside(paper, name, published)) is not None
    ]


PAPER_SECTION = ReportSection(
    "papers",
    "Published models",
    "the numbers that papers print, next to these",
    beside_papers,
    after="talks",
)


def _beside(paper: Paper, name: str, views: Sequence[RunView]) -> Table | None:
    rows: list[tuple[Cell, ...]] = []
    for labels, groups in _groups(paper, name).items():
        for column, cells in groups.items():
            comparisons = [
                next(
                    (
                        number
                        for line in view.method_rows
                        if (number := compare_with_printed(paper, line, cells))
                    ),
                    None,
                )
                for view in views
            ]
            if any(comparisons):
                title = ", ".join((*(text for _, text in labels), column))
                rows.append(
                    (
                        title,
                        *(cell for number in comparisons for cell in _cells(number)),
                        *_spread(cells),
                    )
                )
    if not rows:
        return None
    header = (
        "printed column",
        *(part for view in views for part in (view.label, "rank")),
        "best",
        "median",
        "lowest",
    )
    title = f"{suite_facts()[paper.suite].title}, Table {name}: {paper.tables[name].title}"
    return Table(title, header, tuple(rows), notes=(RANK_NOTE,))


def _cells(number: PrintedComparison | None) -> tuple[Cell, Cell]:
    if number is None:
        return AbsentCell(NOT_SHARED), DASH
    if number.estimate.value is None:
        return AbsentCell(number.note), DASH
    return NumberCell(number.unit, number.estimate, note=number.note), number.rank


def _spread(cells: Sequence[PrintedValue]) -> Iterator[str]:
    cell = cells[0]
    values = [cell.value for cell in cells if cell.value is not None]
    ordered = sorted(values, reverse=_better(cell) == "higher")
    yield from (
        decimal_text(float(value), cell.digits)
        for value in (ordered[0], median(values), ordered[-1])
    )


# --- checks of papers' tables ----------------------------------------------------------------------------------------


def check_summary(reports: Sequence[PaperReport]) -> Table:
    """How many figures of each table were recomputed, and how many agree; of all tables in a note."""
    rows: list[tuple[Cell, ...]] = []
    for report in reports:
        for name in report.paper.tables:
            by_formula: dict[str, list[PaperCheck]] = {}
            for check in report.checks:
                if check.cell.table == name:
                    by_formula.setdefault(check.formula, []).append(check)
            for formula, checks in by_formula.items():
                agree = sum(check.agrees for check in checks)
                rows.append(
                    (report.paper.suite, name, formula, len(checks), agree, len(checks) - agree)
                )
    header = ("suite", "table", "computed as", "figures", "agree", "do not")
    title = "Figures recomputed from other printed figures"
    return Table(title, header, tuple(rows), label_columns=3, notes=tuple(_totals(reports)))


def _totals(reports: Sequence[PaperReport]) -> Iterator[str]:
    checks = [check for report in reports for check in report.checks]
    agree = sum(check.agrees for check in checks)
    by_formula: dict[str, list[bool]] = defaultdict(list)
    for check in checks:
        by_formula[check.formula].append(check.agrees)
    counts = (
        f"{formula} {sum(matches):,} of {len(matches):,}" for formula, matches in by_formula.items()
    )
    yield f"{agree:,} of {len(checks):,} figures agree: {', '.join(counts)}."


def misprint_table(report: PaperReport) -> Table:
    """Every printed value that others contradict, with the arithmetic."""
    rows = tuple(
        (check.cell.place, check.cell.printed, str(check.agreeing), check.arithmetic, _why(check))
        for check in report.misprints
    )
    header = ("table: row: column", "printed", "would agree", "arithmetic", "what it comes from")
    return Table(
        f"{suite_facts()[report.paper.suite].title}: misprints", header, rows, label_columns=5
    )


def _why(check: PaperCheck) -> str:
    suspects = ", ".join(f"{place} (then {value})" for place, value in check.suspects)
    facts = (
        check.known.why if check.known else "not among the known errata",
        f"or one of these, which no number of tests gives: {suspects}" if suspects else "",
    )
    return "; ".join(filter(None, facts))


def repetition_table(report: PaperReport) -> Table:
    """Pairs of values that stand twice: perhaps copied, perhaps chance."""
    rows = tuple(
        (repeated.first.place, repeated.second.place, ", ".join(repeated.pair))
        for repeated in report.repeated
    )
    title = f"{suite_facts()[report.paper.suite].title}: the same pair twice"
    return Table(title, ("first", "second", "values"), rows, label_columns=3)


def read_errata(report: PaperReport) -> Table:
    """Contradictions that were found by reading."""
    rows = tuple(
        (erratum.place, erratum.printed, erratum.instead or DASH, erratum.why or DASH)
        for erratum in report.paper.errata
        if not erratum.computed
    )
    title = f"{suite_facts()[report.paper.suite].title}: found by reading"
    return Table(title, ("where", "printed", "should be", "why"), rows, label_columns=4)
