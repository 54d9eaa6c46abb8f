"""`snellen rate`"""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from snellen.plugin_api import (
    Estimate,
    IntegerParameter,
    RatingStudy,
    announce,
    console,
    json_flag,
    show_table,
)
from snellen_lab.cli.flags import PATH
from snellen_lab.ratings.form import make_form
from snellen_lab.ratings.gathering import gather, give_ratings, read_gathered
from snellen_lab.ratings.sheets import RatingKey, read_key, write_questionnaire
from snellen_lab.ratings.summary import RatingSummary, shown_titles, summarise_ratings

FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
MIN_COLUMNS_FOR_INTERVALS = 150
"""Terminal columns from which the table shows means and intervals side by side."""


@click.group()
def rate_command() -> None:
    """Have people rate replies without knowing the models, and summarise their ratings.

    \b
      snellen rate form runs/a runs/b --study lvlm-ehub-embodied --to plans
      snellen rate read plans ratings-anna.json ratings-ben.csv
      snellen rate table plans
      snellen rate give plans runs/a runs/b
      snellen rate sheet plans plans.xlsx

    Each study has a folder. It contains form.html, which you send to the raters; key.json, which names the model of
    each reply and stays with you; and ratings.jsonl, the ratings that came back.
    """


@rate_command.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option(
    "--study", required=True, help="TOML file of a study, or the name of a suite's study."
)
@click.option("--to", "folder", required=True, type=PATH, help="Folder of the study to create.")
@click.option(
    "--checks", default=2, type=IntegerParameter(0), help="Items that ask for a given value.  [2]"
)
@click.option("--seed", default=0, help="Random seed of the numbering and of the checks.  [0]")
def form(runs: tuple[Path, ...], study: str, folder: Path, checks: int, seed: int) -> None:
    """Write the form in which people rate the replies of RUNS, as one HTML file that works offline.

    Each rater sees the replies in a different order. The form does not name any model.
    """
    rating_form = make_form(runs, RatingStudy.find(study), folder, checks=checks, seed=seed)
    for note in rating_form.notes:
        announce(f"note: {note}")
    n_models = len(rating_form.key.models)
    n_items = len(rating_form.key.items)
    n_replies = n_items - checks
    megabytes = rating_form.path.stat().st_size / 1e6
    console.print(
        f"{rating_form.path}: {n_items:,} items ({n_replies:,} replies of {n_models} models, {checks} checks), "
        f"{megabytes:.1f} MB; send it to the raters\n{folder / 'key.json'}: the model of each item; keep this file secret",
        highlight=False,
        soft_wrap=True,
    )


@rate_command.command()
@FOLDER
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@click.option("--study", help="Create FOLDER from FILES, the published sheets of this study.")
@click.option("--replace", is_flag=True, help="Replace a rater's earlier ratings by new ones.")
def read(folder: Path, files: tuple[Path, ...], study: str | None, replace: bool) -> None:
    """Add the ratings in FILES to a study: files that the form saved, or sheets with one row per rater.

    The header of a column in a sheet starts with the number of an item and ends with a dimension: "7. Redundancy".
    """
    gathered = gather(folder, files, RatingStudy.find(study) if study else None, replace=replace)
    for note in gathered.notes:
        announce(f"note: {note}")
    count = 0
    for sheet in gathered.sheets:
        count += sum(len(values) for values in sheet.ratings.values())
    console.print(
        f"{gathered.new_raters} raters added; {len(gathered.sheets)} in total, {count:,} ratings",
        highlight=False,
    )


@rate_command.command()
@FOLDER
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def sheet(folder: Path, file: Path) -> None:
    """Write all ratings of a study to FILE, one row per rater (.csv, .tsv, .xlsx, .json or .jsonl)."""
    key, sheets = read_key(folder), read_gathered(folder)
    write_questionnaire(file, key, sheets)
    columns = len(key.items) * len(key.study.dimensions)
    console.print(
        f"{file}: {len(sheets)} raters, {columns:,} columns of ratings",
        highlight=False,
        soft_wrap=True,
    )


@rate_command.command()
@FOLDER
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option("--without-flagged", is_flag=True, help="Leave out flagged raters.")
def give(folder: Path, runs: tuple[Path, ...], without_flagged: bool) -> None:
    """Add the ratings of their replies to RUNS, where they count like any other metric.

    The command writes ratings.json into the folder of each run: for each question, the mean over raters. Score the runs
    again to see the ratings in tables, reports and capability scores.
    """
    for run, ratings in give_ratings(folder, runs, without_flagged=without_flagged).items():
        summary = f"{len(ratings.means):,} replies, rated by {ratings.raters:,}"
        console.print(
            f"{run}: {summary}; score it: snellen score {shlex.quote(str(run))}",
            highlight=False,
            soft_wrap=True,
        )


@rate_command.command()
@FOLDER
@click.option("--without-flagged", is_flag=True, help="Leave out flagged raters.")
@click.option("--z", "standardised", is_flag=True, help="Show means of z-scores by rater.")
@click.option("--seed", default=0, help="Random seed of the bootstrap of alpha.  [0]")
@json_flag
def table(
    folder: Path, without_flagged: bool, standardised: bool, seed: int, as_json: bool
) -> None:
    """Summarise the ratings of a study: means by model, agreement by dimension, and a check of each rater.

    High values are good: if a low rating is the good one, a rating r from 1 to 5 counts as 6 - r. The intervals cover
    other raters and other items. A rater is flagged who gives the same value in more than half of the cells, or who
    fails a control item.
    """
    key, sheets = read_key(folder), read_gathered(folder)
    summary = summarise_ratings(key, sheets, without_flagged=without_flagged, seed=seed)
    _show_models(key, summary, standardised, as_json)
    if not as_json:
        console.print()
    _show_dimensions(key, summary, as_json)
    if not as_json:
        console.print()
    _show_raters(summary, as_json)
    if as_json:
        return
    flagged = [check for check in summary.raters if check.flags]
    if flagged:
        treatment = "left out" if without_flagged else "counted; --without-flagged leaves them out"
        console.print(
            f"{len(flagged)} of {len(summary.raters)} raters are flagged, and {treatment}",
            highlight=False,
        )


def _show_models(key: RatingKey, summary: RatingSummary, standardised: bool, as_json: bool) -> None:
    """Print the mean rating of each model by dimension."""
    titles = shown_titles(key)
    gap = (
        "\n" if console.width < MIN_COLUMNS_FOR_INTERVALS and not as_json else " "
    )  # an interval stays in one piece
    rows = []
    for model in summary.models:
        means = model.standardised if standardised else model.means
        cells = [_text(means[name]).replace(" [", f"{gap}[") for name in titles]
        rows.append((model.model, *cells))
    scale = f"ratings from {key.study.lowest} to {key.study.highest}"
    if standardised:
        scale = "z-scores by rater"
    title = f"{key.study.title}: mean {scale}, high is good"
    show_table(title, ("model", *titles.values()), rows, as_json)


def _show_dimensions(key: RatingKey, summary: RatingSummary, as_json: bool) -> None:
    """Print how well raters agree in each dimension."""
    rows = []
    for agreement in summary.dimensions:
        title = key.study.dimension(agreement.dimension).title
        mean = "-" if agreement.mean is None else f"{agreement.mean:.2f}"
        alpha = agreement.alpha
        rows.append((title, mean, _text(alpha), f"{alpha.n:,}", f"{agreement.missing:,}"))
    header = ("dimension", "mean", "alpha (interval)", "ratings compared", "missing")
    show_table("agreement of raters", header, rows, as_json)


def _show_raters(summary: RatingSummary, as_json: bool) -> None:
    """Print how each rater worked: number of ratings, missing ones, failed checks, and flags."""
    rows = []
    for rater in summary.raters:
        most_often = f"{rater.value} in {rater.share:.0%}" if rater.n else "-"
        checks = f"{rater.failed} of {rater.checks}"
        flags = "; ".join(rater.flags)
        rows.append((rater.rater, f"{rater.n:,}", f"{rater.missing:,}", most_often, checks, flags))
    header = ("rater", "ratings", "missing", "most often", "checks failed", "flags")
    show_table("raters", header, rows, as_json)


def _text(estimate: Estimate) -> str:
    """`3.41 [2.80, 3.90]`, a mean without an interval, or a dash."""
    if estimate.value is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
