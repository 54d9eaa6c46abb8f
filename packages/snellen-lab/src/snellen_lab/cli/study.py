"""`snellen study`: many runs that differ in one or more factors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from snellen import DataError, JudgeSpec, ScoringSpec
from snellen.plugin_api import (
    ExecutionSpec,
    QuestionSpec,
    announce,
    console,
    field_flags,
    flags_given,
    json_flag,
    print_records,
    print_tables,
    run_progress,
)
from snellen_lab.cli.flags import PATH
from snellen_lab.studies.cell_table import STUDY_FILES, StudyOutcome
from snellen_lab.studies.declaration import NOT_FIXED
from snellen_lab.studies.results import run_study
from snellen_lab.studies.series import flat_study_row

MAX_SHOWN_ROWS = 30
"""Rows of a table that is printed; longer ones are in the files."""


@click.command()
@click.argument("name")
@click.argument("models", nargs=-1, required=True)
@click.option(
    "--benchmark", "benchmarks", multiple=True, help="Run this benchmark instead. Repeat for more."
)
@click.option(
    "--source",
    type=PATH,
    help="Folder with official files, to build missing benchmarks from.",
)
@click.option("--output", type=PATH, help="Folder of the study.  [studies/NAME]")
@click.option(
    "--levels",
    "levels",
    multiple=True,
    metavar="FACTOR=FILE",
    help="Levels of the varied factor, instead of the study's: a text file with one per line, "
    "or a comma-separated list.",
)
@field_flags(QuestionSpec, but=("benchmarks", *NOT_FIXED), unless="the study's")
@field_flags(ExecutionSpec, but=("until", *NOT_FIXED), unless="the study's")
@field_flags(ScoringSpec)
@field_flags(JudgeSpec, prefix="judge_")
@json_flag
def study_command(
    name: str,
    models: tuple[str, ...],
    benchmarks: tuple[str, ...],
    source: Path | None,
    output: Path | None,
    levels: tuple[str, ...],
    as_json: bool,
    **flags: Any,
) -> None:
    """Run the study NAME with MODELS. A study is declared by a suite or in a TOML file of your own.

    \b
      snellen study prompt-sweep hf:org/name --source FILES
      snellen study rounds-captions openai:name@http://host:port/v1 --temperature 0.7
      snellen study mine.toml snellen:tiny --levels prompt=prompts.txt

    `snellen list studies` lists the studies. A study runs each combination of its factors separately and stores the
    runs in its folder. Repeat the command to resume. At the end, the folder contains study.html, study.md, results.csv
    and results.json. See docs/studies.md.
    """
    fields: Any = flags_given({**flags, "benchmarks": benchmarks})
    metrics = fields.get("scoring", {}).pop("metrics", ())
    with run_progress() as progress:
        results = run_study(
            name,
            list(models),
            source=source,
            output=output or "",
            levels=_levels(levels),
            metrics=metrics,
            progress=progress,
            announce=announce,
            **fields,
        )
    if as_json:
        print_records(map(flat_study_row, results.rows))
        return
    _show_study(results.outcome)


def _show_study(outcome: StudyOutcome) -> None:
    """Print the tables and notes of a study; long tables are only named."""
    for part in outcome.parts.values():
        for table in part.tables:
            if len(table.rows) > MAX_SHOWN_ROWS:
                console.print(
                    f"{table.title}: {len(table.rows)} rows, in the files\n", highlight=False
                )
                continue
            print_tables([table])
            console.print()
    for note in (*outcome.study.notes, *outcome.notes):
        announce(f"note: {note}")
    console.print(f"{', '.join(STUDY_FILES)}\n  {outcome.folder}", highlight=False, soft_wrap=True)


def _levels(flag_values: tuple[str, ...]) -> dict[str, Any]:
    """Return the levels of each factor from values of `--levels`: a file, or the list of values."""
    levels: dict[str, Any] = {}
    for flag_value in flag_values:
        factor, equals, value = flag_value.partition("=")
        if not equals or not value:
            raise DataError(f"--levels {flag_value!r}: write FACTOR=FILE, or FACTOR=a,b,c")
        if Path(value).is_file():
            levels[factor] = value
        else:
            levels[factor] = [_parse_number(level) for level in value.split(",")]
    return levels


def _parse_number(text: str) -> int | float | str:
    """Return the number that a text spells, or else the text."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
