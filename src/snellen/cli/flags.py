"""Flags that several verbs share: how replies are read and scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from snellen.api import Results, score
from snellen.cli.show import announce
from snellen.judge.panel import MOST_FAILURES
from snellen.models.base import load_model

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_FLAGS = (
    click.option(
        "--extractor", default="standard", help="Rules that read replies: standard, strict, legacy:...  [standard]"
    ),
    click.option(
        "--rule",
        default="sum",
        help="How log-likelihoods are reduced: sum, mean, byte, softmax, pmi, conditional.  [sum]",
    ),
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        help="One more metric of open questions (`snellen list metrics`); repeat for more.",
    ),
    click.option("--semantic", is_flag=True, help="Read what the rules leave open by sentence embeddings, offline."),
    click.option(
        "--judge",
        multiple=True,
        help="Model that reads what is still open, and gives judged metrics; repeat for a vote.",
    ),
    click.option("--judge-prompt", default="paper", help="How a judge is asked to match: paper, delimited.  [paper]"),
    click.option(
        "--judge-tokens", default=16, type=click.IntRange(1), help="Longest verdict; raise it for reasoners.  [16]"
    ),
    click.option("--judge-structured", is_flag=True, help="Hold a judge behind a server to valid verdicts."),
    click.option(
        "--judge-failures",
        default=MOST_FAILURES,
        type=click.FloatRange(0, 1),
        help="Share of replies without a verdict above which nothing is scored.  [0.05]",
    ),
    click.option("--unread", default="unscored", help="What is left: unscored, or legacy-random (by lot).  [unscored]"),
    click.option("--seed", default=0, help="Seed of that lot.  [0]"),
)


def reading_flags(command: CommandT) -> CommandT:
    """Give a command the flags of scoring; it passes what it gets on to `score_all`."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def score_all(runs: Sequence[Path], *, judge: Sequence[str] = (), **flags: Any) -> Results:
    """Score runs; a judge is loaded once for all of them."""
    judges = [load_model(one) for one in judge]
    scored = [score(run, judge=judges, announce=announce, **flags) for run in runs]
    return Results([run for one in scored for run in one.runs])
