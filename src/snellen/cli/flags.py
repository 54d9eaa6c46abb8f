"""Flags that several verbs share: how replies are read and scored, who judges, which questions, and --json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from snellen.runs.spec import JudgeSpec, ScoringSpec, TokenPrice, judge_spec, scoring_spec

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
JUDGE = "judge_"
"""What stands before a field of `JudgeSpec` in the name of its flag."""


def _price(context: click.Context, parameter: click.Parameter, text: str | None) -> TokenPrice | None:
    if not text:
        return None
    try:
        read, written = (float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not IN,OUT; give two prices of a million tokens, e.g. 0.15,0.6"
        ) from None
    return read, written


json_flag = click.option("--json", "as_json", is_flag=True, help="Print tables as JSON, one object a line.")

_JUDGE_FLAGS = (
    click.option(
        "--judge",
        "judge_models",
        multiple=True,
        metavar="MODEL",
        help="Model that reads what is still open, and gives judged metrics; repeat for a vote.",
    ),
    click.option("--judge-prompt", help="How a judge is asked to match: paper, delimited.  [paper]"),
    click.option(
        "--judge-likely/--no-judge-likely",
        default=None,
        help="Also ask about replies whose reading is likely and not certain.  [no]",
    ),
    click.option(
        "--judge-max-tokens", type=click.IntRange(1), help="Longest verdict; raise it for models that reason.  [16]"
    ),
    click.option(
        "--judge-structured/--no-judge-structured",
        default=None,
        help="Hold a judge behind a server to valid verdicts.  [no]",
    ),
    click.option(
        "--judge-price",
        metavar="IN,OUT",
        callback=_price,
        help="Price of a million tokens read and written, to say before what a judge may cost.",
    ),
    click.option(
        "--judge-failures",
        type=click.FloatRange(0, 1),
        help="Share of replies without a verdict above which nothing is scored.  [0.05]",
    ),
    click.option(
        "--judge-calibrate/--no-judge-calibrate",
        default=None,
        help="Say beside it how far each judge agrees with people on hard replies.  [no]",
    ),
)

_SCORING_FLAGS = (
    click.option("--extractor", help="Rules that read replies: standard, strict, legacy:...  [standard]"),
    click.option(
        "--likelihood-rule",
        help="How log-likelihoods are reduced: sum, mean, byte, softmax, pmi, conditional.  [sum]",
    ),
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        help="One more metric of open questions (`snellen list metrics`); repeat for more.",
    ),
    click.option(
        "--semantic/--no-semantic",
        default=None,
        help="Read what the rules leave open by sentence embeddings, offline.  [no]",
    ),
    click.option(
        "--unparsed", help="What nothing could read: not-right, or legacy-random (a random guess).  [not-right]"
    ),
    click.option("--guess-seed", type=int, help="Seed of that guess.  [0]"),
    click.option(
        "--as-published/--no-as-published",
        default=None,
        help="Extractor, metrics and scale of the tables of each suite's paper; results.json has both.  [no]",
    ),
)

_SUBSET_FLAGS = (
    click.option("--where", default="", help="Only questions that a condition holds for: \"l2 != 'logic_reasoning'\"."),
    click.option(
        "--common-answered", is_flag=True, help="Only questions that every run answered: nothing refused, no errors."
    ),
)


def _with(command: CommandT, flags: tuple[Callable[[CommandT], CommandT], ...]) -> CommandT:
    for flag in reversed(flags):
        command = flag(command)
    return command


def scoring_flags(command: CommandT) -> CommandT:
    """Give a command the flags of how replies are read and scored, judges included; see `scoring_of` and `judge_of`."""
    return _with(command, (*_SCORING_FLAGS, *_JUDGE_FLAGS))


def judge_flags(command: CommandT) -> CommandT:
    """Give a command the flags of judges; see `judge_of`."""
    return _with(command, _JUDGE_FLAGS)


def subset_flags(command: CommandT) -> CommandT:
    """Give a command the flags of fewer questions; it passes what it gets on to `Results.only`."""
    return _with(command, _SUBSET_FLAGS)


def given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that the user gave, by the fields of a `RunSpec`: scoring's and judges' in tables of their own."""
    tables: dict[str, dict[str, Any]] = {"scoring": {}, "judge": {}}
    fields: dict[str, Any] = {}
    for name, value in flags.items():
        if value in (None, ()):
            continue
        if name.startswith(JUDGE):
            tables["judge"][name.removeprefix(JUDGE)] = value
        elif name in ScoringSpec.__struct_fields__:
            tables["scoring"][name] = value
        else:
            fields[name] = value
    return {**fields, **{name: table for name, table in tables.items() if table}}


def scoring_of(flags: Mapping[str, Any]) -> ScoringSpec:
    """How the flags say that replies are scored."""
    return scoring_spec(given(flags).get("scoring", {}))


def judge_of(flags: Mapping[str, Any]) -> JudgeSpec:
    """Who judges by the flags, and how."""
    return judge_spec(given(flags).get("judge", {}))
