"""A dataset in the layout of the Hugging Face hub: the one table of the runs as Parquet, and a card that describes it.

Golds stay out unless asked for, as what lies on the hub may become training data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from snellen import __version__
from snellen.exports.declaration import Exporter, ExportJob
from snellen.exports.sample_table import sample_table, write_frame
from snellen.records import Result
from snellen.report.formatting import figure_text
from snellen.runs.journal import write_atomically

DATA = "data/presentations.parquet"
CARD = "README.md"
GOLD_COLUMNS = ("gold", "gold_options", "right")


def _write(job: ExportJob) -> list[Path]:
    table = sample_table(job.runs)
    if not job.answers:
        table = table.drop(GOLD_COLUMNS)
    data = write_frame(table, job.path / DATA)
    write_atomically(job.path / CARD, _card(job, table.height).encode("utf-8", "replace"))
    return [data, job.path / CARD]


def _card(job: ExportJob, rows: int) -> str:
    models = dict.fromkeys(run.manifest.model for run in job.runs)
    uses = {use.name: use for run in job.runs for use in run.manifest.benchmarks}
    licences = {scored.spec.name: scored.spec.licence for run in job.runs for scored in run.benchmarks}
    title = json.dumps(f"Replies of {', '.join(models)}", ensure_ascii=False)
    lines = [
        "---",
        f"pretty_name: {title}",
        "tags: [evaluation, vision-language]",
        "configs:",
        "- config_name: default",
        "  data_files:",
        "  - split: test",
        f"    path: {DATA}",
        "---",
        "",
        f"# Replies of {', '.join(models)}",
        "",
        f"{rows:,} presentations of questions with the replies to them, how each was read, and the scores; written by "
        f"Snellen {__version__}. {'Golds are included.' if job.answers else 'Golds are left out.'}",
        "",
        "| benchmark | version | licence of the source |",
        "|---|---|---|",
        *(f"| {name} | `{use.version}` | {licences.get(name) or 'not stated'} |" for name, use in uses.items()),
        "",
        "| model | benchmark | protocol | metric | value |",
        "|---|---|---|---|---|",
        *_numbers(job.rows),
        "",
    ]
    return "\n".join(lines)


def _numbers(rows: tuple[Result, ...]) -> Iterator[str]:
    """The numbers of whole benchmarks."""
    for row in rows:
        if not row.slice and row.benchmark != "*" and row.estimate.value is not None:
            value = figure_text(row.estimate, row.unit)
            yield f"| {row.model} | {row.benchmark} | {row.protocol} | {row.metric} | {value} |"


EXPORTER = Exporter(title="a dataset for the Hugging Face hub, with its card", write=_write)
