"""The result of a gate as a table, a comment on a merge request (Markdown), a test report (JUnit XML) and JSON.

A gate decides whether a candidate is worse than its baseline. It has a rule for each benchmark or dimension, with a
margin: the candidate may be worse by so much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from snellen.analysis.paired.gate import GateOutcome, GatePlan, GateResult
from snellen.building.kept_sources import check_overwrites_no_source
from snellen.formats.whole_files import write_in_form
from snellen.metrics.declaration import SHARE
from snellen.report.markdown import escape_markdown, markdown_tables
from snellen.report.number_text import (
    decimal_text,
    interval_text,
    number_or_dash,
    percent_text,
    unit_of_difference,
    value_text,
)
from snellen.report.table import AbsentCell, Cell, Column, NumberCell, Table, tabulate

VERDICT_MARKS = {
    "pass": "✅ pass",
    "fail": "❌ fail",
    "not enough evidence": "❔ not enough evidence",
}


def verdict_sentence(result: GateResult) -> str:
    """Return the verdict on a release in one sentence: `Pass: B against A: no worse than allowed.`"""
    names = f"{result.candidate} against {result.baseline}"
    failed: list[str] = []
    undecided: list[GateOutcome] = []
    for outcome in result.outcomes:
        if outcome.verdict == "fail":
            failed.append(outcome.on)
        elif outcome.verdict == "not enough evidence":
            undecided.append(outcome)
    if failed:
        return f"Fail: {names}: worse than allowed in {', '.join(failed)}."
    if not undecided:
        return f"Pass: {names}: no worse than allowed."
    most_needed = max(outcome.more or 0 for outcome in undecided)
    advice = f" (about {most_needed:,} more questions)" if most_needed else ""
    rules = ", ".join(outcome.on for outcome in undecided)
    return f"Not enough evidence{advice}: {names}: {rules}."


def margin_text(margin: float, unit: str) -> str:
    """Format how much worse a candidate may be: `1.5 pt` for a share, otherwise in the unit of the metric."""
    if unit == SHARE:
        points = decimal_text(100 * margin, 2).rstrip("0").rstrip(".")
        return f"{points} pt"
    return f"{margin:g} {unit}".strip()


def gate_table(result: GateResult) -> Table:
    """Return a table of a release check, with a row for each rule: both scores, their difference and the verdict."""
    columns: list[Column[GateOutcome]] = [
        Column("rule", lambda outcome: outcome.on, is_label=True),
        Column("candidate", lambda outcome: number_or_dash(outcome.candidate, outcome.unit)),
        Column("baseline", lambda outcome: number_or_dash(outcome.baseline, outcome.unit)),
        Column("difference", _difference_cell),
        Column("may be worse by", lambda outcome: margin_text(outcome.margin, outcome.unit)),
        Column("verdict", lambda outcome: outcome.verdict),
        Column("", _advice),
    ]
    level = percent_text(1 - 2 * result.alpha).replace(".0%", "%")
    note = (
        f"Difference: {result.candidate} minus {result.baseline} on the same questions, with its {level} "
        "interval. A rule passes if the interval is above minus the margin, and fails if it is below. The rates "
        f"of false alarms and misses are at most {percent_text(result.alpha)} each."
    )
    return tabulate("Gate", columns, result.outcomes, [note])


def _difference_cell(outcome: GateOutcome) -> Cell:
    if outcome.difference.value is None:
        return AbsentCell("no common question has a value")
    return NumberCell.of_difference(outcome.unit, outcome.difference)


def _advice(outcome: GateOutcome) -> str:
    """Return how many more questions an undecided rule needs, or what else there is to say about it."""
    if outcome.more:
        return f"about {outcome.more:,} more questions"
    return outcome.detail


def plan_table(plans: Sequence[GatePlan], alpha: float) -> Table:
    """Return a table of what a release check could detect with the questions of two runs, with a row for each rule."""
    columns: list[Column[GatePlan]] = [
        Column("rule", lambda plan: plan.on, is_label=True),
        Column("questions", lambda plan: f"{plan.questions:,}"),
        Column("may be worse by", lambda plan: margin_text(plan.margin, plan.unit)),
        Column("an equal candidate passes", lambda plan: percent_text(plan.passes_equal)),
        Column(
            "drop that fails in 4 of 5 runs", lambda plan: margin_text(plan.detectable, plan.unit)
        ),
        Column("questions needed to pass in 4 of 5 runs", lambda plan: f"{plan.needed:,}"),
    ]
    note = (
        "Estimated from the variance of the differences between these two runs, for error rates of at most "
        f"{percent_text(alpha)}. An equal candidate is as good as the baseline."
    )
    return tabulate("What these questions can detect", columns, plans, [note])


# --- files -----------------------------------------------------------------------------------------------------------


def write_gate(result: GateResult, path: Path) -> Path:
    """Write what a gate found: `.xml` for JUnit, `.md` for a comment, `.json` for programs. Raises DataError."""
    check_overwrites_no_source(path)
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
    """Describe in one sentence whether a candidate model meets a rule, and by which difference.

    For example `accuracy: pass: +1.2 points [-0.3, 2.7], may be worse by 1 pt`.
    """
    unit = unit_of_difference(outcome.unit)
    difference = value_text(outcome.difference, unit)
    interval = interval_text(outcome.difference, unit)
    margin = margin_text(outcome.margin, outcome.unit)
    sentence = f"{outcome.on}: {outcome.verdict}: {difference} {interval}, may be worse by {margin}"
    advice = _advice(outcome)
    return f"{sentence}; {advice}" if advice else sentence


def gate_comment(result: GateResult) -> str:
    """Return a comment for a merge request: the verdict, then a table."""
    lines = [
        f"### Snellen: {VERDICT_MARKS[result.verdict]}",
        "",
        escape_markdown(verdict_sentence(result)),
        "",
    ]
    table_lines = markdown_tables([gate_table(result)], 4)[2:]  # without the heading
    return "\n".join([*lines, *table_lines])


def gate_json(result: GateResult) -> str:
    """Return all that a gate found as JSON."""
    fields = {**msgspec.to_builtins(result), "exit_code": result.exit_code}
    return msgspec.json.format(msgspec.json.encode(fields), indent=1).decode() + "\n"


GATE_FORMS: dict[str, Callable[[GateResult], str]] = {
    ".xml": junit_xml,
    ".md": gate_comment,
    ".json": gate_json,
}
