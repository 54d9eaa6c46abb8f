"""`snellen analyse`: groups of models, printed in papers and measured by runs."""

from __future__ import annotations

from pathlib import Path

import click

from snellen.plugin_api import (
    Table,
    announce,
    json_flag,
    model_cards,
    print_records,
    print_tables,
)
from snellen_lab.analyses.declaration import analyses, find_analysis
from snellen_lab.analyses.outcome import compute_analysis, flat_analysis_row, write_analysis
from snellen_lab.cli.flags import PATH
from snellen_lab.papers.published_runs import runs_as_published


@click.command()
@click.argument("name", default="")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--cards", help="TOML file with your own model cards.")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=PATH,
    help="File to write: .html, .md, .csv, .json, or .svg for the chart alone. Repeat for more.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 1 unless all printed figures agree or are known misprints.",
)
@json_flag
def analyse_command(
    name: str,
    runs: tuple[Path, ...],
    cards: str | None,
    outputs: tuple[Path, ...],
    strict: bool,
    as_json: bool,
) -> None:
    """Show the analysis NAME: published models in groups, and RUNS next to them.

    \b
      snellen analyse                                   list the analyses
      snellen analyse backbones                         the models of the paper
      snellen analyse backbones runs/x --cards my.toml  add a run; the card of its model names its group
      snellen analyse backbones -o backbones.html -o backbones.svg

    NAME can also be a TOML file of your own. See docs/analyses.md.
    """
    if not name:
        _list()
        return
    spec = find_analysis(name)
    known_cards = model_cards(Path(cards) if cards else None)
    outcome = compute_analysis(spec, runs_as_published(runs), known_cards)
    for path in outputs:
        announce(f"wrote {write_analysis(outcome, path)}")
    if as_json:
        print_records(flat_analysis_row(row, spec) for row in outcome.rows)
    else:
        print_tables([outcome.table, *([outcome.check_table] if outcome.checks else ())])
    for note in outcome.notes:
        announce(f"note: {note}")
    if strict and outcome.unexplained:
        raise SystemExit(1)


def _list() -> None:
    """Print the names of all analyses, with what each shows."""
    rows = tuple((name, spec.title, spec.about) for name, spec in analyses().items())
    print_tables(
        [Table("Analyses", ("analysis", "what it shows", "repeats"), rows, label_columns=3)]
    )
