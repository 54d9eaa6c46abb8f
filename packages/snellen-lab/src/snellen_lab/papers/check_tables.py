"""Tables of the checks of a paper's tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from snellen.plugin_api import (
    Cell,
    Table,
    suite_facts,
)
from snellen_lab.cell_texts import DASH
from snellen_lab.papers.paper_check import PaperCheck, PaperReport


def check_summary(reports: Sequence[PaperReport]) -> Table:
    """Return how many figures of each table were recomputed and how many agree, with the totals in a note."""
    rows: list[tuple[Cell, ...]] = []
    for report in reports:
        for name in report.paper.tables:
            table_checks = [check for check in report.checks if check.cell.table == name]
            for formula, checks in _by_formula(table_checks).items():
                agreeing = sum(check.agrees for check in checks)
                row = (
                    report.paper.suite,
                    name,
                    formula,
                    len(checks),
                    agreeing,
                    len(checks) - agreeing,
                )
                rows.append(row)
    all_checks = [check for report in reports for check in report.checks]
    return Table(
        "Figures recomputed from other printed figures",
        ("suite", "table", "computed as", "figures", "agree", "do not"),
        tuple(rows),
        label_columns=3,
        notes=(_totals(all_checks),),
    )


def _by_formula(checks: Sequence[PaperCheck]) -> dict[str, list[PaperCheck]]:
    """Group the checks of a paper's figures by the formula that they check."""
    by_formula: dict[str, list[PaperCheck]] = defaultdict(list)
    for check in checks:
        by_formula[check.formula].append(check)
    return by_formula


def _totals(checks: Sequence[PaperCheck]) -> str:
    """Return a sentence with how many figures agree: in all, and by the formula that recomputes them."""
    counts = []
    n_agreeing = 0
    for formula, formula_checks in _by_formula(checks).items():
        n_agreeing_with_formula = sum(check.agrees for check in formula_checks)
        n_agreeing += n_agreeing_with_formula
        counts.append(f"{formula} {n_agreeing_with_formula:,} of {len(formula_checks):,}")
    return f"{n_agreeing:,} of {len(checks):,} figures agree: {', '.join(counts)}."


def misprint_table(report: PaperReport) -> Table:
    """Return every printed value that other values contradict, with the arithmetic."""
    rows = []
    for check in report.misprints:
        row = (
            check.cell.location,
            check.cell.printed,
            str(check.agreeing),
            check.arithmetic,
            _explanation(check),
        )
        rows.append(row)
    header = ("table: row: column", "printed", "would agree", "arithmetic", "computed from")
    title = f"{suite_facts()[report.paper.suite].title}: misprints"
    return Table(title, header, tuple(rows), label_columns=5)


def _explanation(check: PaperCheck) -> str:
    """Return why a printed value does not agree with others: the known reason, and sources that may be wrong instead."""
    parts = []
    if check.erratum is None:
        parts.append("not a known erratum")
    elif check.erratum.why:
        parts.append(check.erratum.why)
    if check.suspects:
        suspects = []
        for location, required_value in check.suspects:
            suspects.append(f"{location} (then {required_value})")
        parts.append(f"or one of these, which no number of tests gives: {', '.join(suspects)}")
    return "; ".join(parts)


def repetition_table(report: PaperReport) -> Table:
    """Return a table of the pairs of values that a paper prints twice, by a slip in copying or by chance."""
    rows = []
    for repeated in report.repeated:
        values = ", ".join(repeated.pair)
        rows.append((repeated.first.location, repeated.second.location, values))
    suite_title = suite_facts()[report.paper.suite].title
    title = f"{suite_title}: the same pair twice"
    return Table(title, ("first", "second", "values"), tuple(rows), label_columns=3)


def read_errata(report: PaperReport) -> Table:
    """Return a table of the errors of a paper that people found by reading, and no computation finds."""
    rows = []
    for erratum in report.paper.errata:
        if erratum.computed:
            continue
        correct_value = erratum.instead or DASH
        reason = erratum.why or DASH
        rows.append((erratum.location, erratum.printed, correct_value, reason))
    suite_title = suite_facts()[report.paper.suite].title
    title = f"{suite_title}: found by reading"
    return Table(title, ("where", "printed", "should be", "why"), tuple(rows), label_columns=4)
