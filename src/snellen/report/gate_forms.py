"""What a gate found, for a terminal, a comment on a merge request (Markdown), a test report (JUnit XML) and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from snellen.analysis.paired.gate import GateOutcome, GatePlan, GateResult
from snellen.formats.whole_files import write_in_form
from snellen.metrics.declaration import SHARE
from snellen.records import Estimate
from snellen.report.markdown import escape, markdown_tables
from snellen.report.table import (
    AbsentCell,
    Cell,
    NumberCell,
    Table,
    decimal_text,
    interval_text,
    percent,
    unit_of_difference,
    value_text,
)

MARKS = {"pass": "✅ pass", "fail": "❌ fail", "not enough evidence": "❔ not enough evidence"}


def verdict_sentence(result: GateResult) -> str:
    """Return the verdict over a release in one sentence."""
    names = f"{result.candidate} against {result.baseline}"
    failed = [outcome.on for outcome in result.outcomes if outcome.verdict == "fail"]
    open_rules = [
        outcome for outcome in result.outcomes if outcome.verdict == "not enough evidence"
    ]
    if failed:
        return f"Fail: {names}: worse than allowed in {', '.join(failed)}."
    if not open_rules:
        return f"Pass: {names}: no worse than allowed."
    more = [outcome.more for outcome in open_rules if outcome.more]
    advice = f" (about {max(more):,} more questions)" if more else ""
    return f"Not enough evidence{advice}: {names}: {', '.join(each.on for each in open_rules)}."


def margin_text(margin: float, unit: str) -> str:
    """Return a margin in points, or in the unit of the metric."""
    if unit == SHARE:
        points = decimal_text(100 * margin, 2).rstrip("0").rstrip(".")
        return f"{points} pt"
    return f"{margin:g} {unit}".strip()


def gate_table(result: GateResult) -> Table:
    """Return a row for each rule."""
    rows = tuple(_outcome_row(outcome) for outcome in result.outcomes)
    level = percent(1 - 2 * result.alpha).replace(".0%", "%")
    notes = (
        f"Difference: {result.candidate} minus {result.baseline}, on the same questions, with its {level} interval. "
        f"A rule passes if that is above minus the margin, and fails if it is below. "
        f"False alarms and misses are at most {percent(result.alpha)} each.",
    )
    header = ("rule", "candidate", "baseline", "difference", "may be worse by", "verdict", "")
    return Table("Gate", header, rows, notes=notes)


def _outcome_row(outcome: GateOutcome) -> tuple[Cell, ...]:
    return (
        outcome.on,
        _value(outcome.candidate, outcome.unit),
        _value(outcome.baseline, outcome.unit),
        _difference(outcome),
        margin_text(outcome.margin, outcome.unit),
        outcome.verdict,
        _advice(outcome),
    )


def _value(value: float | None, unit: str) -> str:
    return value_text(Estimate(value, None, None, None, 0), unit)


def _difference(outcome: GateOutcome) -> Cell:
    if outcome.difference.value is None:
        return AbsentCell("no question in common has a value")
    return NumberCell(unit_of_difference(outcome.unit), outcome.difference)


def _advice(outcome: GateOutcome) -> str:
    if outcome.more:
        return f"about {outcome.more:,} more questions"
    return outcome.detail


def plan_table(plans: Sequence[GatePlan], alpha: float) -> Table:
    """Return what the questions of two runs can detect, a row for each rule."""
    rows = tuple(_plan_row(plan) for plan in plans)
    header = (
        "rule",
        "questions",
        "may be worse by",
        "an equal one passes",
        "drop that fails 4 times in 5",
        "questions for 4 passes in 5",
    )
    notes = (
        "From how much the differences of these two runs vary, for errors of at most "
        f"{percent(alpha)}. An equal candidate is as good as the baseline.",
    )
    return Table("What these questions can detect", header, rows, notes=notes)


def _plan_row(plan: GatePlan) -> tuple[Cell, ...]:
    return (
        plan.on,
        f"{plan.questions:,}",
        margin_text(plan.margin, plan.unit),
        percent(plan.passes_equal),
        margin_text(plan.detectable, plan.unit),
        f"{plan.needed:,}",
    )


# --- files -----------------------------------------------------------------------------------------------------------


def write_gate(result: GateResult, path: Path) -> Path:
    """Write what a gate found: `.xml` for JUnit, `.md` for a comment, `.json` for programs. Raises DataError."""
    return write_in_form(path, "a gate", result, GATE_FORMS)


def junit_xml(result: GateResult) -> str:
    """Return a test suite with a test for each rule; without enough evidence a test is an error."""
    failures = sum(outcome.verdict == "fail" for outcome in result.outcomes)
    undecided = sum(outcome.verdict == "not enough evidence" for outcome in result.outcomes)
    suite = ElementTree.Element(
        "testsuite",
        name="snellen gate",
        tests=str(len(result.outcomes)),
        failures=str(failures),
        errors=str(undecided),
        skipped="0",
        time="0",
    )
    for outcome in result.outcomes:
        test = ElementTree.SubElement(
            suite, "testcase", classname="snellen.gate", name=outcome.on, time="0"
        )
        message = outcome_sentence(outcome)
        if outcome.verdict == "fail":
            ElementTree.SubElement(test, "failure", message=message, type="worse").text = message
        elif outcome.verdict == "not enough evidence":
            ElementTree.SubElement(test, "error", message=message, type="undecided").text = message
        else:
            ElementTree.SubElement(test, "system-out").text = message
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, "unicode")}\n'


def outcome_sentence(outcome: GateOutcome) -> str:
    """Return what a rule found in one sentence."""
    difference = value_text(outcome.difference, unit_of_difference(outcome.unit))
    interval = interval_text(outcome.difference, unit_of_difference(outcome.unit))
    advice = _advice(outcome)
    return (
        f"{outcome.on}: {outcome.verdict}: {difference} {interval}, "
        f"may be worse by {margin_text(outcome.margin, outcome.unit)}"
        + (f"; {advice}" if advice else "")
    )


def gate_comment(result: GateResult) -> str:
    """Return a comment for a merge request: the verdict, then a table."""
    lines = [f"### Snellen: {MARKS[result.verdict]}", "", escape(verdict_sentence(result)), ""]
    return "\n".join([*lines, *markdown_tables([gate_table(result)], 4)[2:]])


def gate_json(result: GateResult) -> str:
    """Return all that a gate found as JSON."""
    fields = {**msgspec.to_builtins(result), "exit_code": result.exit_code}
    return msgspec.json.format(msgspec.json.encode(fields), indent=1).decode() + "\n"


GATE_FORMS: dict[str, Callable[[GateResult], str]] = {
    ".xml": junit_xml,
    ".md": gate_comment,
    ".json": gate_json,
}
