"""`snellen arena`"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from snellen.plugin_api import Estimate, announce, csv_table, json_flag, show_table

if TYPE_CHECKING:
    from snellen_server.arena_ratings.log import VoteLog
    from snellen_server.arena_ratings.rating import ArenaRating, ModelRating
    from snellen_server.arena_ratings.votes import RatingSettings

LOGS = click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path))
ELO_RESAMPLES = 100
"""Default number of resamples for Elo. It is small, because each resample processes all votes one by one."""
SHOWN_VOTERS = 20

_CHOICE = (
    click.option(
        "--voters",
        type=click.Choice(["person", "judge"]),
        default="person",
        help="Type of voter to include.  [person]",
    ),
    click.option("--category", default="", help="Use only votes of this category."),
    click.option("--language", default="", help="Use only votes in this language."),
    click.option(
        "--named",
        is_flag=True,
        help="Include votes given while the names of the models were visible.",
    ),
    click.option(
        "--cap",
        default=0,
        type=click.IntRange(0),
        help="Maximum votes per voter and day.  [no limit]",
    ),
    click.option(
        "--without-anomalous",
        is_flag=True,
        help="Leave out voters whose votes are anomalous.",
    ),
)
_RATING = (
    click.option(
        "--method",
        type=click.Choice(["bradley-terry", "davidson", "elo"]),
        default="bradley-terry",
        help="Model: ties as half a win, ties as a separate outcome, or online Elo.  [bradley-terry]",
    ),
    click.option(
        "--both-bad-is-tie", is_flag=True, help='Count "both bad" as a tie, as FastChat does.'
    ),
    click.option(
        "--weighting",
        type=click.Choice(["none", "propensity"]),
        default="none",
        help="Weight votes by the inverse propensity of their pair.  [none]",
    ),
    click.option("--position", is_flag=True, help="Also estimate the advantage of the left side."),
    click.option(
        "--style", is_flag=True, help="Control the ratings for length and Markdown of the replies."
    ),
    click.option(
        "--interval",
        type=click.Choice(["bootstrap", "sandwich"]),
        help="Intervals over voters: bootstrap, or sandwich estimator.  [bootstrap; with --style "
        "sandwich]",
    ),
    click.option(
        "--resamples",
        type=click.IntRange(1),
        help="Bootstrap resamples.  [1000; of Elo 100]",
    ),
    click.option("--seed", type=int, default=0, help="Random seed of the resamples.  [0]"),
    click.option(
        "--k",
        default=4.0,
        type=click.FloatRange(0, min_open=True),
        help="Elo: maximum points per vote.  [4]",
    ),
)


def _combine_options(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Return one decorator that applies all options, in this order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@click.group()
def command() -> None:
    """Rate models by votes between two replies, side by side.

    \b
      snellen arena rate votes.jsonl --snapshot may.json
      snellen arena rate votes.jsonl --check may.json
      snellen arena pairs votes.jsonl
      snellen arena voters votes.jsonl
      snellen arena import 2023-05-12-conv.json votes.parquet

    LOGS are .jsonl, .json or .parquet files with votes: Snellen's own, FastChat's cleaned battles or conversations, or
    those of Multi-Modality-Arena. docs/arena.md explains the numbers.
    """


@command.command("import")
@LOGS
@click.argument("to", type=click.Path(path_type=Path, dir_okay=False))
def import_logs(logs: tuple[Path, ...], to: Path) -> None:
    """Convert the votes in LOGS to one file in Snellen's format: TO ends with .jsonl or .parquet.

    Addresses of voters are replaced by pseudonyms. Importing a log again gives new pseudonyms.
    """
    from snellen_server.arena_ratings.log import write_votes

    log = _read(logs)
    write_votes(to, log.battles)
    click.echo(f"{to}: {log.battles.height:,} votes of {log.row_count:,} rows")


@command.command()
@LOGS
@_combine_options(*_CHOICE, *_RATING)
@click.option(
    "--snapshot",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a snapshot of the rating to this file.",
)
@click.option(
    "--check",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Rate LOGS with the settings of this snapshot, ignoring other flags, and compare. "
    "Exit with 1 if they differ.",
)
@click.option(
    "--csv", "csv", type=click.Path(path_type=Path, dir_okay=False), help="Write the table as CSV."
)
@json_flag
def rate(
    logs: tuple[Path, ...],
    snapshot: Path | None,
    check: Path | None,
    csv: Path | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Rate the models in LOGS, with 95% intervals over voters; save the rating, or compare it with a saved one.

    The rank of a model is 1 plus the number of models whose intervals are completely above its own. Two models can be
    ranked together only if chains of wins connect them in both directions; other models are ranked in separate groups.
    """
    from snellen_server.arena_ratings.rating import (
        rate_votes,
        read_snapshot,
        snapshot_differences,
        write_snapshot,
    )

    log = _read(logs)
    if check is not None:
        saved_snapshot = read_snapshot(check)
        differences = snapshot_differences(saved_snapshot, log)
        for line in differences:
            announce(line)
        if differences:
            raise click.exceptions.Exit(1)
        click.echo(f"{check}: the same ratings from the same {saved_snapshot.rating.votes:,} votes")
        return
    rating = rate_votes(log, _settings(flags))
    if snapshot is not None:
        write_snapshot(snapshot, rating)
        announce(f"wrote {snapshot}")
    rows = [_flat_row(model) for model in rating.models]
    if csv is not None:
        csv.write_text(csv_table(rows), "utf-8")
        announce(f"wrote {csv}")
    if as_json:
        _print_json(rows)
        return
    _print_rating(rating)


@command.command()
@LOGS
@_combine_options(*_CHOICE)
@json_flag
def pairs(logs: tuple[Path, ...], as_json: bool, **flags: Any) -> None:
    """Show how often each model in LOGS won against each other model."""
    from snellen_server.arena_ratings.bradley_terry import win_rates
    from snellen_server.arena_ratings.rating import counted_votes

    votes = counted_votes(_read(logs), _settings(flags))
    header = ("model", "opponent", "wins", "losses", "ties", "both bad", "win share")
    rows = []
    for record in win_rates(votes):
        win_share = "-" if record.win_share is None else f"{record.win_share:.1%}"
        rows.append(
            (
                record.model,
                record.opponent,
                f"{record.wins:,}",
                f"{record.losses:,}",
                f"{record.ties:,}",
                f"{record.both_bad:,}",
                win_share,
            )
        )
    show_table("pairs of models; a tie is half a win", header, rows, as_json)


@command.command()
@LOGS
@_combine_options(*_CHOICE)
@click.option(
    "--all", "show_all", is_flag=True, help=f"Show all voters tested, and not only {SHOWN_VOTERS}."
)
@json_flag
def voters(logs: tuple[Path, ...], show_all: bool, as_json: bool, **flags: Any) -> None:
    """Compare each voter in LOGS with all others, to find those who always vote left, for one model, or against the rest."""
    from snellen_server.arena_ratings.anomalies import FALSE_DISCOVERIES, FEWEST_VOTES, check_voters
    from snellen_server.arena_ratings.rating import counted_votes

    votes = counted_votes(_read(logs), _settings(flags))
    checks = check_voters(votes)
    flagged = [check for check in checks if check.flagged]
    shown_checks = checks if show_all else checks[:SHOWN_VOTERS]
    rows = []
    for check in shown_checks:
        row = (
            check.voter,
            f"{check.votes:,}",
            f"{check.left:.0%} ({check.expected_left:.0%})",
            f"{check.model} {check.surprise:+.2f}",
            check.test,
            f"{min(check.p_values):.1g}",
            f"{check.adjusted:.1g}",
            "yes" if check.flagged else "",
        )
        rows.append(row)
    header = (
        "voter",
        "votes",
        "left (expected)",
        "most surprising model",
        "test",
        "p",
        "adjusted",
        "flagged",
    )
    show_table("voters against all others", header, rows, as_json)
    if not as_json:
        flagged_votes = sum(check.votes for check in flagged)
        click.echo(
            f"{len(flagged):,} of {len(checks):,} voters with at least {FEWEST_VOTES} votes are flagged "
            f"(adjusted p below {FALSE_DISCOVERIES}), with {flagged_votes:,} of {votes.count:,} votes; "
            "`snellen arena rate --without-anomalous` leaves them out",
        )


def _read(logs: tuple[Path, ...]) -> VoteLog:
    """Read the votes in files, and print how many rows are left out, and why."""
    from snellen_server.arena_ratings.log import read_votes

    log = read_votes(logs)
    for reason, count in sorted(log.left_out_votes.items()):
        announce(f"note: {count:,} of {log.row_count:,} rows left out: {reason}")
    return log


def _settings(flags: dict[str, Any]) -> RatingSettings:
    """Return the settings of a rating from the values of flags, by the names of their parameters.

    The defaults of the intervals and resamples depend on the method.
    """
    from snellen_server.arena_ratings.votes import RatingSettings

    settings = dict(flags)
    settings["anonymous_only"] = not settings.pop("named")
    settings["leave_out_anomalous"] = settings.pop("without_anomalous")
    if "method" in settings:
        default_interval = "sandwich" if settings["style"] else "bootstrap"
        default_resamples = ELO_RESAMPLES if settings["method"] == "elo" else 1000
        settings["interval"] = settings["interval"] or default_interval
        settings["resamples"] = settings["resamples"] or default_resamples
    return RatingSettings(**settings)


def _print_rating(rating: ArenaRating) -> None:
    """Print a rating: a table for each group of models, other estimates, and notes."""
    has_several_groups = rating.groups > 1
    for group in range(rating.groups):
        models = [model for model in rating.models if model.group == group]
        if models[0].rating is None:
            continue
        title = f"{rating.settings.method} ratings"
        if has_several_groups:
            title += f", group {group + 1}"
        title += f": mean {rating.settings.initial:.0f}"
        header = ("rank", "model", "rating [95%]", "votes", "win share", "both bad")
        rows = [_cells(model) for model in models]
        show_table(title, header, rows, False)
    unrated = [model.model for model in rating.models if model.rating is None]
    if unrated:
        click.echo(
            "not rated, because no chain of votes connects them with other models in both directions: "
            f"{', '.join(unrated)}",
        )
    if rating.groups - len(unrated) > 1:
        click.echo(
            "ratings of different groups are not comparable: no chain of votes connects them in both directions"
        )
    for term in rating.terms:
        group_text = f" (group {term.group + 1})" if has_several_groups else ""
        unit = "" if term.name == "nu" else " points"
        interval = "" if term.low is None else f" [{term.low:.2f}, {term.high:.2f}]"
        click.echo(f"{term.name}{group_text}: {term.value:.2f}{interval}{unit}")
    click.echo(f"the left side won {_percent(rating.left_share)} of votes for a better side")
    click.echo(
        f"{rating.votes:,} votes of {rating.voters:,} voters, {rating.both_bad:,} of them both bad; digest "
        f"{rating.digest[:12]}",
    )
    _print_rating_notes(rating)


def _print_rating_notes(rating: ArenaRating) -> None:
    """Print notes on a rating: votes that are left out, and limits of its intervals."""
    if rating.unknown_voters:
        announce(
            f"note: {rating.unknown_voters:,} votes have no voter; each counts as a vote by a different voter"
        )
    for reason, count in sorted(rating.left_out_votes.items()):
        announce(f"left out: {count:,} {reason}")
    if any(model.rating is not None and model.low is None for model in rating.models):
        announce("note: all votes are by one voter, so there are no intervals")
    if rating.settings.method == "elo":
        announce(
            "note: Elo depends on the order of the votes; its intervals are over voters and orders"
        )


def _cells(model: ModelRating) -> tuple[str, ...]:
    """Return the row of a rated model in the table on the terminal."""
    rating = f"{model.rating:.0f}"
    if model.low is not None:
        rating += f" [{model.low:.0f}, {model.high:.0f}]"
    return (
        str(model.rank),
        model.model,
        rating,
        f"{model.votes:,}",
        _percent(model.win_share),
        _percent(model.both_bad),
    )


def _percent(estimate: Estimate) -> str:
    """Return a share with its 95% interval in percent, such as `52.0% [48.1%, 55.9%]`; a dash if there is none."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "-"
    return f"{estimate.value:.1%} [{estimate.low:.1%}, {estimate.high:.1%}]"


def _flat_row(model: ModelRating) -> dict[str, Any]:
    """Return the row of a model in a file: its rating and shares, each bound of an interval under a name of its own."""
    row: dict[str, Any] = {}
    for name in ("model", "group", "rank", "rating", "low", "high", "votes"):
        row[name] = getattr(model, name)
    for name in ("win_share", "both_bad"):
        estimate: Estimate = getattr(model, name)
        row[name] = estimate.value
        row[f"{name}_low"] = estimate.low
        row[f"{name}_high"] = estimate.high
    return row


def _print_json(rows: list[dict[str, Any]]) -> None:
    import msgspec

    for row in rows:
        click.echo(msgspec.json.encode(row).decode())
