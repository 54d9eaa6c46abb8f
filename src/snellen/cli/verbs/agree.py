"""`snellen agree`"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from snellen.cli.flags import json_flag, judge_flags, judge_from_flags
from snellen.cli.show import announce, out, show_table
from snellen.formats.shown_text import short_name, strip_controls
from snellen.models.base import load_model
from snellen.protocols.prompts.judge_prompts import shortened
from snellen.scoring.judges.agreement import Agreement, agreement_interval_text, calibrate, calibrate_semantic
from snellen.scoring.judges.human_labels import (
    LABELS,
    NONE,
    HumanLabel,
    LabelItem,
    agreement_study,
    hard_sample,
    import_labels,
    read_labels,
    write_label,
)

KEYS = "123456789abcdefghijklmnoprtv"
"""The key of each position; u, q, s and x have other meanings."""
RESERVED = "0xsuq"
WIDE = 120
"""Terminal columns from which the table shows values and intervals side by side."""
HELP = "number or label: that option   0 or x: none   s: skip   u: undo   q: stop"


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--limit", default=50, type=click.IntRange(1), help="Most hard replies to label.  [50]")
@click.option("--seed", default=0, help="Seed of the sample and of the intervals.  [0]")
@click.option("--labels", type=click.Path(path_type=Path, exists=True), help="A JSONL file with labels to add.")
@click.option("--by", default="", help="Who labels; several people's majority counts.")
@click.option("--form/--no-form", default=None, help="Ask for labels.  [yes, in a terminal]")
@click.option("--semantic/--no-semantic", default=False, help="Show matching by meaning too.  [no]")
@judge_flags
@json_flag
def command(
    run: Path | None,
    limit: int,
    seed: int,
    labels: Path | None,
    by: str,
    form: bool | None,
    semantic: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Label hard replies of RUN by hand, and see how far each extractor and judge agrees with people.

    Hard replies are those in which the standard or strict rules find no option, or two extractors find different
    ones. One key labels a reply. Labels are kept in RUN/labels.jsonl. The table gives the share of agreement,
    Cohen's kappa and Krippendorff's alpha with 95 % bootstrap intervals, and MMBench's two cases of disagreement:
    I, one side says that no option is meant; II, two different options.

    Without a RUN the table is about judges (--judge) and matching by meaning, on the hard replies that ship with
    Snellen.

    \b
      snellen agree runs/x
      snellen agree --judge hf:org/name --judge openai:name@http://host:port/v1
    """
    judge = judge_from_flags(flags)
    if run is None:
        if not judge.models and not semantic:
            raise click.UsageError("Give a RUN to label, or a judge to calibrate (--judge MODEL).")
        of_judges = calibrate([load_model(model) for model in judge.models], judge, announce) if judge.models else []
        _show_agreement([*([calibrate_semantic()] if semantic else []), *of_judges], as_json)
        return
    if judge.models:
        raise click.UsageError(
            "--judge takes no RUN: its replies ship with Snellen. `snellen score RUN --judge MODEL` asks a judge about "
            "a run's replies, and its verdicts are in the table of `snellen agree RUN`."
        )
    if labels:
        fitting, count = import_labels(labels, run)
        announce(f"{fitting:,} of {count:,} labels are about replies of this run, and were added")
    elif form or (form is None and sys.stdin.isatty()):
        ask_for_labels(hard_sample(run, limit, seed), run / LABELS, by, click.getchar)
        announce(f"labels are kept in {run / LABELS}; the same command goes on")
    rows, people = agreement_study(run, seed=seed, meaning=semantic)
    _show_agreement(rows, as_json)
    if people is not None and not as_json:
        out.print(f"alpha among people: {people:.2f}")


def _show_agreement(rows: Sequence[Agreement], as_json: bool) -> None:
    header = ("reader", "n", "agreement", "kappa", "alpha", "case I", "case II")
    gap = "\n" if out.width < WIDE and not as_json else " "  # an interval stays in one piece
    table = [
        (
            r.reader,
            str(r.n),
            *(agreement_interval_text(interval).replace(" [", f"{gap}[") for interval in (r.share, r.kappa, r.alpha)),
            str(r.case_one),
            str(r.case_two),
        )
        for r in rows
    ]
    show_table("agreement with people", header, table, as_json)


def ask_for_labels(items: Sequence[LabelItem], path: Path, by: str, key: Callable[[], str]) -> None:
    """Ask for the labels that `by` has not given yet, one key per reply, until all are given or q is pressed."""
    labelled = {item for item, who in read_labels(path) if who == by}
    waiting = [item for item in items if item.id not in labelled]
    positions: list[int] = []
    at, notice = 0, ""
    while at < len(waiting):
        item = waiting[at]
        _show(item, at + 1 + len(items) - len(waiting), len(items), notice)
        pressed = key().lower()
        notice = ""
        if pressed in ("q", "\x03", "\x04"):
            return
        if pressed == "u" and positions:
            at = positions.pop()
            write_label(path, HumanLabel(waiting[at].id, None, by))
            notice = "undone"
        elif pressed == "s":
            at += 1
            notice = "skipped the one before"
        elif (label := _label(item, pressed)) is not None:
            write_label(path, HumanLabel(item.id, label, by, item.unparsed.prediction.sample_id))
            positions.append(at)
            at += 1
            notice = "the one before: " + ("no option" if label == NONE else label)
        else:
            notice = f"{pressed!r} is not a key here" if pressed.isprintable() else "that is not a key here"


def _label(item: LabelItem, pressed: str) -> str | None:
    if pressed in ("0", "x"):
        return NONE
    place = KEYS.find(pressed) if len(pressed) == 1 else -1
    if 0 <= place < len(item.option_labels):
        return item.option_labels[place]
    # With more than nine options letters are keys of places, and labels are none.
    pressed_labels = [label for label in item.option_labels if label.lower() == pressed and pressed not in RESERVED]
    return pressed_labels[0] if len(pressed_labels) == 1 and len(item.option_labels) <= 9 else None


def _show(item: LabelItem, number: int, count: int, notice: str) -> None:
    """One screen: what happened to the one before, then the question, its options and the reply."""
    unparsed = item.unparsed
    out.clear()
    out.rule(f"{number} of {count}" + (f" ({notice})" if notice else ""))
    out.print(strip_controls(f"{unparsed.turn.question}\n"))
    for key, label, option in zip(KEYS, item.option_labels, unparsed.shown, strict=False):
        out.print(f"  {key}   ({short_name(label)}) {short_name(option)}")
    reply = shortened(unparsed.reply)
    out.print(strip_controls(f"\nReply: {reply}\n"), style="bold")
    if len(reply) < len(unparsed.reply.strip()):
        whole = f"shown without reasoning, and no more than a judge sees; it has {len(unparsed.reply):,} letters\n"
        out.print(whole, style="dim")
    out.print(HELP, style="dim")
