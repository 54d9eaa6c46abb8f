"""`snellen agree` and `snellen audit`: people label replies and questions, with one key each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from snellen import JudgeSpec, ScoringSpec, load_model
from snellen.plugin_api import (
    AUDIT_FILE,
    LABELS_FILE,
    NO_OPTION,
    RUN_MANIFEST,
    Benchmark,
    DataError,
    ErrorBound,
    HumanLabel,
    LabelItem,
    WholeNumber,
    add_lines,
    announce,
    as_word,
    filter_runs,
    flat_row,
    hard_sample,
    import_labels,
    json_flag,
    judge_flags,
    judge_from_flags,
    label_by_judges,
    open_answers,
    open_benchmark,
    out,
    print_built,
    print_records,
    print_tables,
    read_labels,
    results_of,
    score_folders,
    short_name,
    shortened,
    show_table,
    strip_controls,
)
from snellen_lab.agreement.readers import agreement_study, calibrate
from snellen_lab.agreement.statistics import Agreement, agreement_interval_text
from snellen_lab.audit.correction import audit_of, corrected_rows
from snellen_lab.audit.draw import design_for, drawn_items
from snellen_lab.audit.tables import corrected_table, readings_table
from snellen_lab.cli.flags import PATH
from snellen_lab.verification.audit import (
    AuditForm,
    AuditItem,
    AuditOutcome,
    AuditServer,
    ItemVerdict,
    audit_outcome,
    audited_items,
    ids_in,
    import_audit_labels,
    keep_good,
    labels_file,
    named_items,
    read_audit_labels,
    with_bound,
    write_audit_page,
)

KEYS = "123456789abcdefghijklmnoprtv"
"""The key of each position; u, q, s and x have other meanings."""
RESERVED = "0xsuq"
WIDE = 120
"""Terminal columns from which the table shows values and intervals side by side."""
HELP = "number or label: that option   0 or x: none   s: skip   u: undo   q: stop"


@click.command()
@click.argument("run", required=False, type=PATH)
@click.option(
    "--limit", default=50, type=WholeNumber(1), help="Maximum difficult replies to label.  [50]"
)
@click.option("--seed", default=0, help="Random seed of the sample and of the intervals.  [0]")
@click.option(
    "--labels",
    type=click.Path(path_type=Path, exists=True),
    help="JSONL file with labels to add.",
)
@click.option(
    "--by", default="", help="Name of the labeller. The majority of several people counts."
)
@click.option("--form/--no-form", default=None, help="Prompt for labels.  [yes, in a terminal]")
@judge_flags
@json_flag
def agree_command(
    run: Path | None,
    limit: int,
    seed: int,
    labels: Path | None,
    by: str,
    form: bool | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Label hard replies of RUN by hand, and see how far each extractor and judge agrees with people.

    Hard replies are those in which the standard or strict rules find no option, or two extractors find different
    ones. One key labels a reply. Labels are kept in RUN/labels.jsonl. The table gives the share of agreement,
    Cohen's kappa and Krippendorff's alpha with 95% bootstrap intervals, and MMBench's two cases of disagreement:
    I, one side says that no option is meant; II, two different options.

    Without a RUN the table is about judges (--judge), on the hard replies that ship with Snellen.

    \b
      snellen agree runs/x
      snellen agree --judge hf:org/name --judge openai:name@http://host:port/v1
    """
    judge = judge_from_flags(flags)
    if run is None:
        if not judge.models:
            raise click.UsageError("Give a RUN to label, or a judge to calibrate (--judge MODEL).")
        judges = [load_model(model) for model in judge.models]
        _show_agreement(calibrate(judges, judge, announce), as_json)
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
        ask_for_labels(hard_sample(run, limit, seed), run / LABELS_FILE, by, click.getchar)
        announce(f"labels are kept in {run / LABELS_FILE}; the same command goes on")
    rows, people = agreement_study(run, seed=seed)
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
            *(
                agreement_interval_text(interval).replace(" [", f"{gap}[")
                for interval in (r.share, r.kappa, r.alpha)
            ),
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
            add_lines(path, HumanLabel(waiting[at].id, None, by))
            notice = "undone"
        elif pressed == "s":
            at += 1
            notice = "skipped the one before"
        elif (label := _label(item, pressed)) is not None:
            add_lines(path, HumanLabel(item.id, label, by, item.unparsed.prediction.sample_id))
            positions.append(at)
            at += 1
            notice = "the one before: " + ("no option" if label == NO_OPTION else label)
        else:
            notice = (
                f"{pressed!r} is not a key here"
                if pressed.isprintable()
                else "that is not a key here"
            )


def _label(item: LabelItem, pressed: str) -> str | None:
    if pressed in ("0", "x"):
        return NO_OPTION
    place = KEYS.find(pressed) if len(pressed) == 1 else -1
    if 0 <= place < len(item.option_labels):
        return item.option_labels[place]
    # With more than nine options letters are keys of places, and labels are none.
    pressed_labels = [
        label
        for label in item.option_labels
        if label.lower() == pressed and pressed not in RESERVED
    ]
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


@click.command()
@click.argument("target")
@click.option(
    "--limit",
    default=150,
    type=WholeNumber(1),
    help="How many to draw. More can be drawn later.  [150]",
)
@click.option("--seed", default=0, help="Random seed of the draw.  [0]")
@click.option("--labels", type=PATH, help="JSONL file with labels to add.")
@click.option(
    "--by", default=None, help="Name of the labeller. For a run, only this person's labels count."
)
@click.option("--form/--no-form", default=None, help="Prompt for labels.  [yes, in a terminal]")
@click.option("--page", type=PATH, help="For a benchmark: write the form as a single file to send.")
@click.option(
    "--settle",
    is_flag=True,
    help="For a benchmark: resolve disagreements, with the raters' verdicts visible.",
)
@click.option(
    "--only",
    type=PATH,
    help="For a benchmark: only the questions listed in a JSONL file (id); gives no bound.",
)
@click.option(
    "--keep",
    metavar="NAME",
    help="For a benchmark: build one without the questions that people rejected.",
)
@click.option(
    "--where",
    default="",
    help="For a run: only questions that meet a condition: \"l2 != 'logic_reasoning'\".",
)
@judge_flags
@json_flag
def audit_command(
    target: str,
    limit: int,
    seed: int,
    labels: Path | None,
    by: str | None,
    form: bool | None,
    page: Path | None,
    settle: bool,
    only: Path | None,
    keep: str | None,
    where: str,
    as_json: bool,
    **flags: Any,
) -> None:
    """Have people look at a random part: of a benchmark's questions, or of a run's replies.

    Of a BENCHMARK: are its questions good? Each is shown with its picture; one key answers it, the key is shown, one
    key says whether the question is good. Two people label (--by), what they differ in is settled (--settle), and the
    benchmark's manifest says how many bad questions there are at most (docs/verifying.md).

    \b
      snellen audit mine --by ann
      snellen audit mine --by ben --page for-ben.html      then: snellen audit mine --labels labels-ben.jsonl
      snellen audit mine --settle --by ann
      snellen audit mine --keep mine-audited

    Of a RUN: were its replies read rightly? One key labels a reply, as in `snellen agree`; what is right is not shown.
    A judge (--judge MODEL) may label in place of people. The draw is kept in RUN/audit.json, labels in
    RUN/labels.jsonl; reports of the run show the corrected numbers from then on (docs/audit.md).

    \b
      snellen audit runs/x
      snellen audit runs/x --judge openai:name@http://host:port/v1
    """
    of_benchmark = {"--page": page, "--settle": settle, "--only": only, "--keep": keep}
    judge = judge_from_flags(flags)
    if (Path(target) / RUN_MANIFEST).exists():
        if useless := [flag for flag, value in of_benchmark.items() if value]:
            raise DataError(
                f"{useless[0]}: {target} is a run, and this is for benchmarks; leave it out"
            )
        _audit_run(Path(target), limit, seed, labels, by, form, judge, where, as_json)
        return
    if where:
        raise DataError(
            f"--where: {target} is a benchmark, and this is for runs; --only names questions of a benchmark"
        )
    if judge.models:
        raise DataError(
            f"--judge: {target} is a benchmark, which people audit; models check it by `snellen lint --jury`"
        )
    benchmark = open_benchmark(target)
    of = len({sample_id for sample_id, _ in open_answers(benchmark.folder)})
    items = (
        named_items(benchmark, list(ids_in(only)))
        if only
        else audited_items(benchmark, limit, seed)
    )
    path = labels_file(benchmark)
    if labels:
        fitting, count = import_audit_labels(labels, benchmark)
        announce(
            f"{fitting:,} of {count:,} labels are about questions of {benchmark.name}, and were added"
        )
    elif page:
        write_audit_page(
            AuditForm(benchmark, items, by or "", _to_settle(benchmark, items, of, settle)), page
        )
        out.print(
            f"{page}: {len(items):,} questions; its file of labels comes back with --labels",
            soft_wrap=True,
        )
        return
    elif form or settle or (form is None and not keep and sys.stdin.isatty()):
        if not by:
            raise DataError("say who labels: --by NAME; what two people say is compared")
        _serve(AuditForm(benchmark, items, by, _to_settle(benchmark, items, of, settle)), path)
    outcome = audit_outcome(items, of, read_audit_labels(path))
    _show_outcome(benchmark, outcome, as_json)
    if outcome.is_complete and not only:
        benchmark = with_bound(benchmark, outcome.bound())
        _show_bound(outcome.bound(), as_json)
    if keep:
        if not outcome.is_complete:
            raise DataError(
                f"{target}: not all that was drawn is labelled; label the rest, or draw fewer (--limit)"
            )
        kept = keep_good(benchmark, outcome, keep, bounded=not only)
        print_built(kept)
        if kept.manifest.verification and kept.manifest.verification.bound:
            _show_bound(kept.manifest.verification.bound, as_json)


# --- a benchmark -----------------------------------------------------------------------------------------------------


def _to_settle(
    benchmark: Benchmark, items: Sequence[AuditItem], of: int, settle: bool
) -> dict[str, ItemVerdict]:
    """What raters differ in, if it is to be settled. Raises DataError where there is nothing."""
    if not settle:
        return {}
    verdicts = audit_outcome(items, of, read_audit_labels(labels_file(benchmark))).verdicts
    differing = {verdict.item.id: verdict for verdict in verdicts if verdict.differs}
    if not differing:
        raise DataError(
            f"{benchmark.name}: there is nothing to settle; two raters differ in no question"
        )
    return differing


def _serve(form: AuditForm, path: Path) -> None:
    """Serve the page to a browser of this machine until Ctrl-C; each label is kept at once."""
    with AuditServer(form, path) as server:
        out.print(
            f"{server.address}\nopen it in a browser of this machine; Ctrl-C ends", soft_wrap=True
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            announce(f"labels are kept in {path}; the same command goes on")


def _show_outcome(benchmark: Benchmark, outcome: AuditOutcome, as_json: bool) -> None:
    if as_json:
        return
    again = f"snellen audit {as_word(benchmark.name)}"
    if not outcome.raters:
        out.print(
            f"{benchmark.name}: nothing is labelled yet; label with `{again} --by NAME`",
            soft_wrap=True,
        )
        return
    progress = "; ".join(
        f"{by} has {n:,} to label" if n else f"{by} is done" for by, n in outcome.unlabelled.items()
    )
    kinds = "".join(f", {count:,} {kind}" for kind, count in outcome.kinds.most_common())
    good = len(outcome.verdicts) - len(outcome.bad)
    out.print(f"{benchmark.name}: {progress}\n  {good:,} good{kinds}", soft_wrap=True)
    if still_open := sum(verdict.is_open for verdict in outcome.verdicts):
        out.print(
            f"  {still_open:,} not settled, which count as bad: {again} --settle --by NAME",
            soft_wrap=True,
        )


def _show_bound(bound: ErrorBound, as_json: bool) -> None:
    print_records([bound]) if as_json else out.print(f"  {bound.sentence}", soft_wrap=True)


# --- a run -----------------------------------------------------------------------------------------------------------


def _audit_run(
    run: Path,
    limit: int,
    seed: int,
    labels: Path | None,
    by: str | None,
    form: bool | None,
    judge: JudgeSpec,
    where: str,
    as_json: bool,
) -> None:
    """Label replies, and show the corrected numbers."""
    [whole] = score_folders([run], ScoringSpec(), JudgeSpec(), announce)
    [scored] = filter_runs([whole], where) if where else [whole]
    design = design_for(whole, limit, seed, scored)
    strata = ", ".join(f"{s.drawn:,} of {s.replies:,} {s.reading}" for s in design.strata)
    announce(f"drawn: {strata}; kept in {run / AUDIT_FILE}")
    keys = [reply.key for reply in design.drawn_in(scored)]
    if where:
        announce(f"of these, {len(keys):,} are about questions where {where}")
    items = list({item.id: item for item in drawn_items(run, keys).values()}.values())
    if labels:
        fitting, count = import_labels(labels, run)
        announce(f"{fitting:,} of {count:,} labels are about replies of this run, and were added")
    elif judge.models:
        by = label_by_judges(run, items, judge, announce)
    elif form or (form is None and sys.stdin.isatty()):
        ask_for_labels(items, run / LABELS_FILE, by or "", click.getchar)
        announce(f"labels are kept in {run / LABELS_FILE}; the same command goes on")
    audit = audit_of(scored, by)
    if audit is None:
        raise DataError(
            f"{run}: no drawn reply is labelled yet; run {_command(run, where)} in a terminal"
        )
    name, rows = scored.manifest.model, results_of(scored)
    if as_json:
        print_records([*audit.readings, *map(flat_row, corrected_rows(scored, rows, audit))])
        return
    print_tables([readings_table(name, audit), corrected_table(name, scored, rows, audit)])


def _command(run: Path, where: str) -> str:
    return f"`snellen audit {as_word(run)}{f' --where {as_word(where)}' if where else ''}`"
