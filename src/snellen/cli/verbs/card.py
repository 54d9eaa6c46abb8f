"""`snellen card`: results as a model card prints them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from snellen.cli.flags import (
    PATH,
    json_flag,
    judge_from_flags,
    scoring_flags,
    scoring_from_flags,
    stored_scoring_flag,
    subset_flags,
)
from snellen.cli.show import announce, announce_next, command_line, print_tables, show_table
from snellen.errors import DataError
from snellen.experiments.results import Results
from snellen.experiments.scored_folders import as_scored_last, with_replies
from snellen.metrics.declaration import find_metric, judging_code
from snellen.runs.run_folder import runs_in
from snellen.runs.spec import ScoringSpec


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=PATH,
    help="File to write: .md or .tex. Repeat for more.",
)
@json_flag
@subset_flags
@stored_scoring_flag
@scoring_flags
def card_command(
    runs: tuple[Path, ...],
    outputs: tuple[Path, ...],
    as_json: bool,
    where: str,
    common_answered: bool,
    stored_scoring: str | None,
    **flags: Any,
) -> None:
    """Print the results of RUNS as a model card does: a row for each benchmark, a column for each model.

    \b
      snellen card runs/x
      snellen card runs/x runs/y -o card.md -o card.tex

    A row has the benchmark, how it was asked, and each number with its 95% interval. A star marks Snellen's own number:
    a benchmark of which no printed figure was reproduced, a dagger one of which some were. See docs/reproductions.md.
    """
    scoring = scoring_from_flags(flags)
    judge = judge_from_flags(flags)
    given = runs
    runs = tuple(with_replies(runs_in(given), announce))
    scored = as_scored_last(runs, scoring, judge, announce, stored_scoring)
    results = Results(scored).only(where=where, common_answered=common_answered)
    _check_metrics_are_shown(scoring, results)
    card = results.card()
    for output in outputs:
        card.save(output)
        announce(f"written to {output}")
    if as_json:
        show_table("card", card.table.header, card.text_rows, as_json=True)
        return
    print_tables([card.table])
    if outputs:
        announce_next(
            f"{command_line('report', *given)} writes all numbers with charts and samples"
        )
    else:
        announce_next(f"{command_line('card', *given, '-o', 'card.md')} writes it to a file")


def _check_metrics_are_shown(scoring: ScoringSpec, results: Results) -> None:
    """Raise DataError if the user asked for a metric that the card does not show: it shows one for each benchmark."""
    shown = {headline.metric for headline in results.headlines}
    for name in scoring.metrics:
        if not shown.isdisjoint(find_metric(name).names):
            continue
        judge = judging_code(name)
        flag = f"--judge {judge}" if judge else f"--metric {name}"
        raise DataError(
            f"{flag}: a card has one metric for each benchmark, here {', '.join(sorted(shown))}; remove {flag}, or write "
            f"`snellen report RUN {flag}`, which shows all metrics"
        )
