"""`snellen study`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from snellen.api import study
from snellen.cli.flags import field_flags, flags_given, json_flag, scoring_flags
from snellen.cli.show import announce, out, run_progress
from snellen.errors import DataError
from snellen.experiments.studies.cell_table import STUDY_FILES, StudyOutcome
from snellen.experiments.studies.declaration import NOT_FIXED
from snellen.experiments.studies.statistic import flat_study_row
from snellen.runs.spec import ExecutionSpec, QuestionSpec

MOST_ROWS = 30
"""Rows of a table that is printed; longer ones are in the files."""


@click.command()
@click.argument("name")
@click.argument("models", nargs=-1, required=True)
@click.option("--benchmark", "benchmarks", multiple=True, help="Ask this benchmark instead; repeat for more.")
@click.option(
    "--source",
    type=click.Path(path_type=Path),
    help="Folder with official files, from which benchmarks that are not built yet are built.",
)
@click.option("--output", type=click.Path(path_type=Path), help="The study's folder.  [studies/NAME]")
@click.option(
    "--levels",
    "levels",
    multiple=True,
    metavar="FACTOR=FILE",
    help="Levels of what varies, instead of the study's: a text file with one a line, or a list by commas.",
)
@field_flags(QuestionSpec, but=("benchmarks", *NOT_FIXED), unless="the study's")
@field_flags(ExecutionSpec, but=("until", *NOT_FIXED), unless="the study's")
@scoring_flags
@json_flag
def command(
    name: str, models: tuple[str, ...], benchmarks: tuple[str, ...], source: Path | None, output: Path | None,
    levels: tuple[str, ...], as_json: bool, **flags: Any,
) -> None:  # fmt: skip
    """Carry out the study NAME, declared by a suite or in a TOML file of your own, with MODELS.

    \b
      snellen study prompt-sweep hf:org/name --source FILES
      snellen study rounds-captions openai:name@http://host:port/v1 --temperature 0.7
      snellen study mine.toml snellen:tiny --levels prompt=prompts.txt

    `snellen list studies` shows all. Each cell is a run in the study's folder, and the same command goes on where it
    was. The folder then holds study.html, study.md, results.csv and results.json. See docs/studies.md.
    """
    fields: Any = flags_given({**flags, "benchmarks": benchmarks})
    metrics = fields.get("scoring", {}).pop("metrics", ())
    with run_progress() as progress:
        results = study(
            name, list(models), source=source, output=output or "", levels=_levels(levels), metrics=metrics,
            progress=progress, announce=announce, **fields,
        )  # fmt: skip
    if as_json:
        for row in results.rows:
            out.out(msgspec.json.encode(flat_study_row(row)).decode(), highlight=False)
        return
    _show(results.outcome)


def _show(outcome: StudyOutcome) -> None:
    from snellen.report.terminal import plain_table

    for part in outcome.parts.values():
        for table in part.tables:
            if len(table.rows) > MOST_ROWS:
                out.print(f"{table.title}: {len(table.rows)} rows, in the files\n", highlight=False)
                continue
            out.print(plain_table(table))
            out.print()
    for note in (*outcome.study.notes, *outcome.notes):
        announce(f"note: {note}")
    out.print(f"{', '.join(STUDY_FILES)}\n  {outcome.folder}", highlight=False, soft_wrap=True)


def _levels(texts: tuple[str, ...]) -> dict[str, Any]:
    levels: dict[str, Any] = {}
    for text in texts:
        factor, equals, value = text.partition("=")
        if not equals or not value:
            raise DataError(f"--levels {text!r}: write FACTOR=FILE, or FACTOR=a,b,c")
        levels[factor] = value if Path(value).is_file() else [_plain(level) for level in value.split(",")]
    return levels


def _plain(text: str) -> int | float | str:
    """A number where it is one."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
