"""`snellen agree`"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from snellen.cli.show import announce, out, show_table
from snellen.judge.agreement import Interval
from snellen.judge.labels import LABELS, NONE, Item, Label, hard_sample, import_labels, read_labels, study, write_label

KEYS = "123456789abcdefghijklmnoprtv"
"""The key of each place; u, q, s and x are taken."""
HELP = "0 or x: no option is meant   s: skip   u: undo   q: stop; the same command goes on"


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--sample", default=50, type=click.IntRange(1), help="Hard replies to label.  [50]")
@click.option("--seed", default=0, help="Seed of the sample and of the intervals.  [0]")
@click.option("--labels", type=click.Path(path_type=Path, exists=True), help="A JSONL file with labels to add.")
@click.option("--by", default="", help="Who labels; several people's majority counts.")
@click.option("--form/--no-form", default=None, help="Ask for labels.  [yes, in a terminal]")
@click.option("--semantic", is_flag=True, help="Show matching by meaning too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(
    run: Path, sample: int, seed: int, labels: Path | None, by: str, form: bool | None, semantic: bool, as_json: bool
) -> None:
    """Label hard replies of RUN by hand, and see how far each extractor and judge agrees with people.

    Hard replies are those in which the standard or strict rules find no option, or two extractors different
    ones. One key labels a reply. Labels are kept in RUN/labels.jsonl. The table gives the share of agreement,
    Cohen's kappa and Krippendorff's alpha with 95 % bootstrap intervals, and MMBench's two cases of disagreement:
    I, one side says that no option is meant; II, two different options.
    """
    if labels:
        fitting, count = import_labels(labels, run)
        announce(f"{fitting:,} of {count:,} labels are about replies of this run, and were added")
    elif form or (form is None and sys.stdin.isatty()):
        ask(hard_sample(run, sample, seed), run / LABELS, by, click.getchar)
    rows, people = study(run, seed=seed, meaning=semantic)
    header = ("reader", "n", "agreement", "kappa", "alpha", "case I", "case II")
    shown = [
        (r.reader, str(r.n), _written(r.share), _written(r.kappa), _written(r.alpha), str(r.case_one), str(r.case_two))
        for r in rows
    ]
    show_table("agreement with people", header, shown, as_json)
    if people is not None and not as_json:
        out.print(f"alpha among people: {people:.2f}")


def _written(interval: Interval) -> str:
    if interval.value is None:
        return "-"
    if interval.low is None or interval.high is None:
        return f"{interval.value:.2f}"
    return f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def ask(items: Sequence[Item], path: Path, by: str, key: Callable[[], str]) -> None:
    """Ask for the labels that `by` has not given yet, one key a reply, until all are given or q is pressed."""
    given = {item for item, who in read_labels(path) if who == by}
    waiting = [item for item in items if item.id not in given]
    done: list[int] = []
    at = 0
    while at < len(waiting):
        item = waiting[at]
        _show(item, at + 1 + len(items) - len(waiting), len(items))
        pressed = key().lower()
        if pressed in ("q", "\x03", "\x04"):
            return
        if pressed == "u" and done:
            at = done.pop()
            write_label(path, Label(waiting[at].id, None, by))
        elif pressed == "s":
            at += 1
        elif (label := _label(item, pressed)) is not None:
            write_label(path, Label(item.id, label, by, item.unread.prediction.sample_id))
            done.append(at)
            at += 1


def _label(item: Item, pressed: str) -> str | None:
    if pressed in ("0", "x"):
        return NONE
    place = KEYS.find(pressed) if len(pressed) == 1 else -1
    return item.marks[place] if 0 <= place < len(item.marks) else None


def _show(item: Item, number: int, count: int) -> None:
    unread = item.unread
    out.rule(f"{number} of {count}")
    out.print(f"{unread.turn.question}\n", markup=False, highlight=False)
    for key, mark, option in zip(KEYS, item.marks, unread.shown, strict=False):
        out.print(f"  {key}   ({mark}) {option}", markup=False, highlight=False)
    out.print(f"\nReply: {unread.reply}\n", markup=False, highlight=False, style="bold")
    out.print(HELP, markup=False, highlight=False, style="dim")
