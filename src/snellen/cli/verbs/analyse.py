"""`snellen analyse`"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from snellen.catalogue.cards import load_cards, model_cards
from snellen.cli.flags import json_flag
from snellen.cli.show import announce, out
from snellen.experiments.model_groups.declaration import analyses, find_analysis
from snellen.experiments.model_groups.outcome import compute_analysis, flat_analysis_row, write_analysis
from snellen.report.table import Table


@click.command()
@click.argument("name", default="")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--cards", help="A TOML file with model cards of your own.")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="File to write: .html, .md, .csv, .json, or .svg for the chart alone; repeat for more.",
)
@click.option(
    "--strict", is_flag=True, help="Exit with 1 unless all figures that the paper prints agree, or are known misprints."
)
@json_flag
def command(
    name: str, runs: tuple[Path, ...], cards: str | None, outputs: tuple[Path, ...], strict: bool, as_json: bool
) -> None:
    """Show the analysis NAME of the published models, and of RUNS beside them.

    \b
      snellen analyse                                   what there is
      snellen analyse backbones                         the paper's models
      snellen analyse backbones runs/x --cards my.toml  with a run, whose model's card says its group
      snellen analyse backbones -o backbones.html -o backbones.svg

    NAME may be a TOML file of your own. See docs/analyses.md.
    """
    if not name:
        _list()
        return
    spec = find_analysis(name)
    known_cards = load_cards(Path(cards)) if cards else model_cards()
    outcome = compute_analysis(spec, _views(runs), known_cards)
    for path in outputs:
        announce(f"wrote {write_analysis(outcome, path)}")
    if as_json:
        _print_json([flat_analysis_row(row, spec) for row in outcome.rows])
    else:
        _print_tables([outcome.table, *([outcome.check_table] if outcome.checks else ())])
    for note in outcome.notes:
        announce(f"note: {note}")
    if strict and outcome.unexplained:
        raise SystemExit(1)


def _list() -> None:
    rows = tuple((name, spec.title, spec.about) for name, spec in analyses().items())
    _print_tables([Table("Analyses", ("analysis", "what it shows", "repeats"), rows, label_columns=3)])


def _print_tables(tables: Sequence[Table]) -> None:
    from snellen.report.terminal import plain_table

    for table in tables:
        if not table.rows:
            out.print(table.title, highlight=False)
            continue
        out.print(plain_table(table))


def _print_json(rows: Sequence[dict[str, Any]]) -> None:
    import msgspec

    for row in rows:
        out.out(msgspec.json.encode(row).decode(), highlight=False)


def _views(runs: Sequence[Path]) -> Sequence[Any]:
    """The runs, scored as published."""
    if not runs:
        return ()
    from snellen.experiments.evaluation import score_folders
    from snellen.experiments.results import Results
    from snellen.report.run_view import run_views
    from snellen.runs.spec import JudgeSpec, ScoringSpec

    results = Results(score_folders(runs, ScoringSpec(as_published=True), JudgeSpec(), announce))
    return run_views(results.runs, results.rows)
