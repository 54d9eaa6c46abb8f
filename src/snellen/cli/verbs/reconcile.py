"""`snellen reconcile`: why two results on the same questions differ."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec
from msgspec.structs import replace
from rich.text import Text

from snellen.analysis.reconciling import Reconciliation, guess_aggregation
from snellen.building.kept_sources import check_overwrites_no_source
from snellen.cli.flags import PATH, FloatParameter, IntegerParameter, column_flags, json_flag
from snellen.cli.show import announce, console, print_tables
from snellen.experiments.scored_folders import as_scored_last
from snellen.formats.whole_files import write_in_form
from snellen.interchange.harness_rules import RULES
from snellen.interchange.predictions.taking import FileReading
from snellen.interchange.reconciled_sources import (
    SNELLEN,
    ReconciledSide,
    reconciled,
    side_of_file,
    side_of_run,
)
from snellen.report.reconciliation import (
    EXAMPLES_PER_CAUSE,
    as_html,
    as_markdown,
    as_values,
    bridge_summary,
    bridge_table,
    example_lines,
    examples,
)
from snellen.runs.run_folder import only_run_in
from snellen.runs.spec import JudgeSpec, ScoringSpec

RULE = click.Choice([*RULES, SNELLEN])


@click.command()
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
@click.option(
    "--rule-a", type=RULE, help="How the harness of A read replies.  [inferred from its verdicts]"
)
@click.option(
    "--rule-b", type=RULE, help="How the harness of B read replies.  [inferred from its verdicts]"
)
@click.option(
    "--reported-a", type=FloatParameter(0, 100), help="Number reported for A, in percent."
)
@click.option(
    "--reported-b", type=FloatParameter(0, 100), help="Number reported for B, in percent."
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="ROLE=NAME",
    help="For files: role of a column: reply, verdict, reading, answer, options, "
    "question or id. Repeat for more.",
)
@click.option(
    "--examples-per-cause",
    "most",
    type=IntegerParameter(0),
    default=EXAMPLES_PER_CAUSE,
    help="Examples per cause.  [2]",
)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=PATH,
    help="File to write: .html, .md or .json. Repeat for more.",
)
@json_flag
def reconcile_command(
    first: Path,
    second: Path,
    rule_a: str | None,
    rule_b: str | None,
    reported_a: float | None,
    reported_b: float | None,
    columns: tuple[str, ...],
    most: int,
    outputs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Explain why two results on the same questions differ. FIRST and SECOND are runs, or files of any harness.

    \b
      snellen reconcile lmms_samples_mmmu_val.jsonl model_MMMU_DEV_VAL_openai_result.xlsx
      snellen reconcile runs/mine theirs.jsonl --rule-b vlmevalkit

    Snellen joins the questions by their ids or texts. For each question that only one result counts as correct, it
    looks for the cause in this order: ground truth, options, prompt, order of options, image, decoding, a truncated
    reply, a different reply, a random fallback, how the same reply was read, judge, metric. The table adds up these
    causes and leads from the first number to the second.

    If a file records verdicts (hit, correct, exact_match ...), these count, because the number that its harness printed
    is made from them. See docs/why-numbers-differ.md.
    """
    reading = FileReading(columns=column_flags(columns))
    first_side = side_at(first, reading, rule_a or "")
    second_side = side_at(second, reading, rule_b or "")
    reconciliation = reconciled(first_side, second_side)
    notes = list(reconciliation.notes)
    if reported_a is not None:
        notes.append(_aggregation_note(first_side, reported_a))
    if reported_b is not None:
        notes.append(_aggregation_note(second_side, reported_b))
    reconciliation = replace(reconciliation, notes=tuple(notes))
    writer_by_suffix = {".html": as_html, ".md": as_markdown, ".json": _json_bytes}
    for output in outputs:
        check_overwrites_no_source(output)
        write_in_form(output, "a reconciliation", reconciliation, writer_by_suffix)
        announce(f"written to {output}")
    if as_json:
        console.out(_json_bytes(reconciliation).decode(), highlight=False)
        return
    _show(reconciliation, most)


def side_at(path: Path, reading: FileReading, rule: str = "") -> ReconciledSide:
    """Read one of two results that are to be compared question by question.

    Args:
        path: The folder of a run, or a file of predictions.
        reading: How to read the file.
        rule: How the harness that wrote the file read replies. If it is empty, it is inferred from the file.

    Raises:
        DataError: The run or file cannot be read.
    """
    if path.is_dir():
        [run] = as_scored_last([only_run_in(path)], ScoringSpec(), JudgeSpec(), announce)
        return side_of_run(run)
    return side_of_file(path, reading, rule)


def _aggregation_note(side: ReconciledSide, reported: float) -> str:
    """Return a sentence on how a reported score was computed from the verdicts on single questions.

    For example, it equals the mean of the verdicts, or the mean of the categories, or neither.
    """
    aggregation = guess_aggregation(side.items, reported)
    if aggregation:
        return f"The number {reported:g} reported for {side.label} equals the {aggregation} of its verdicts"
    return (
        f"The number {reported:g} reported for {side.label} is neither the mean of its verdicts nor the mean of "
        "its categories; it was aggregated or rounded in a way that the file does not show"
    )


def _json_bytes(reconciliation: Reconciliation) -> bytes:
    return msgspec.json.format(msgspec.json.encode(as_values(reconciliation)), indent=2)


def _show(reconciliation: Reconciliation, max_examples: int) -> None:
    """Print why two results differ: a summary, a table, and up to `max_examples` examples of each reason."""
    for sentence in bridge_summary(reconciliation):
        console.print(Text(sentence))
    console.print()
    print_tables([bridge_table(reconciliation)])
    labels = (reconciliation.first_label, reconciliation.second_label)
    for reason, members in examples(reconciliation, max_examples):
        if not members:
            continue
        console.print()
        console.print(Text(reason))
        for difference in members:
            for line in example_lines(difference, labels):
                console.print(Text(f"  {line}"))
