"""`snellen audit`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from snellen.analysis.aggregate import results_of
from snellen.analysis.audit.correction import audit_of, corrected_rows
from snellen.analysis.audit.draw import AUDIT, design_for, drawn_items
from snellen.cli.flags import json_flag, judge_flags, judge_from_flags
from snellen.cli.show import announce, out
from snellen.cli.verbs.agree import ask_for_labels
from snellen.errors import DataError
from snellen.experiments.evaluation import score_folders
from snellen.paths import as_word
from snellen.report.audit_tables import corrected_table, readings_table
from snellen.report.terminal import plain_table
from snellen.runs.spec import JudgeSpec, ScoringSpec
from snellen.scoring.flat_results import flat_row
from snellen.scoring.judges.human_labels import LABELS, import_labels, label_by_judges


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--limit", default=150, type=click.IntRange(1), help="Replies to draw; more may be drawn later.  [150]")
@click.option("--seed", default=0, help="Seed of the draw.  [0]")
@click.option("--labels", type=click.Path(path_type=Path, exists=True), help="A JSONL file with labels to add.")
@click.option("--by", default=None, help="Who labels; the numbers are then by these labels alone.  [all people's]")
@click.option("--form/--no-form", default=None, help="Ask for labels.  [yes, in a terminal]")
@judge_flags
@json_flag
def command(
    run: Path,
    limit: int,
    seed: int,
    labels: Path | None,
    by: str | None,
    form: bool | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Label a drawn part of the replies of RUN by hand, and correct its accuracies by what was misread.

    Replies are drawn at random among all that count in an accuracy, more of those whose reading is in doubt. One key
    labels a reply, as in `snellen agree`; what is right is not shown. A judge (--judge MODEL) may label in place of
    people. The draw is kept in RUN/audit.json, labels in RUN/labels.jsonl; reports of the run show the corrected
    numbers from then on. See docs/audit.md.

    \b
      snellen audit runs/x
      snellen audit runs/x --judge openai:name@http://host:port/v1
    """
    [scored] = score_folders([run], ScoringSpec(), JudgeSpec(), announce)
    judge = judge_from_flags(flags)
    design = design_for(scored, limit, seed)
    strata = ", ".join(f"{s.drawn:,} of {s.replies:,} {s.reading}" for s in design.strata)
    announce(f"drawn: {strata}; kept in {run / AUDIT}")
    items = list({item.id: item for item in drawn_items(run, [reply.key for reply in design.drawn]).values()}.values())
    if labels:
        fitting, count = import_labels(labels, run)
        announce(f"{fitting:,} of {count:,} labels are about replies of this run, and were added")
    elif judge.models:
        by = label_by_judges(run, items, judge, announce)
    elif form or (form is None and sys.stdin.isatty()):
        ask_for_labels(items, run / LABELS, by or "", click.getchar)
        announce(f"labels are kept in {run / LABELS}; the same command goes on")
    audit = audit_of(scored, by)
    if audit is None:
        raise DataError(f"{run}: no drawn reply is labelled yet; run `snellen audit {as_word(run)}` in a terminal")
    name, rows = scored.manifest.model, results_of(scored)
    if as_json:
        for error in audit.readings:
            out.out(msgspec.json.encode(error).decode())
        for row in corrected_rows(scored, rows, audit):
            out.out(msgspec.json.encode(flat_row(row)).decode())
        return
    for table in (readings_table(name, audit), corrected_table(name, scored, rows, audit)):
        out.print(plain_table(table))
