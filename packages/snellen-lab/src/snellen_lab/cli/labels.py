"""`snellen agree` and `snellen audit`: people label replies and questions, with one key each."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from snellen import DataError, JudgeSpec, ScoringSpec, load_model
from snellen.plugin_api import (
    AUDIT_FILE,
    LABELS_FILE,
    NO_OPTION,
    RUN_MANIFEST,
    Benchmark,
    ErrorBound,
    HumanLabel,
    IntegerParameter,
    LabelItem,
    add_lines,
    aggregate_run,
    announce,
    console,
    field_flags,
    filter_runs,
    flags_given,
    json_flag,
    judge_spec,
    open_answers,
    open_benchmark,
    print_built,
    print_records,
    print_tables,
    read_labels,
    score_folders,
    short_name,
    shortened,
    show_table,
    strip_controls,
)
from snellen_lab.agreement.labelled_replies import hard_sample, import_labels, label_by_judges
from snellen_lab.agreement.readers import agreement_study, calibrate
from snellen_lab.agreement.statistics import Agreement, agreement_interval_text
from snellen_lab.audit.correction import corrected_rows
from snellen_lab.audit.draw import design_for, drawn_items
from snellen_lab.audit.run_audit import audit_of
from snellen_lab.audit.tables import corrected_table, readings_table
from snellen_lab.cli.flags import PATH
from snellen_lab.verification.audit_form import AuditForm, write_audit_page
from snellen_lab.verification.audit_labels import (
    import_audit_labels,
    labels_file,
    read_audit_labels,
)
from snellen_lab.verification.audit_outcome import (
    AuditOutcome,
    ItemVerdict,
    audit_outcome,
    keep_good,
    with_bound,
)
from snellen_lab.verification.audit_server import AuditServer
from snellen_lab.verification.audited_questions import AuditItem, audited_items, ids_in, named_items

KEYS = "123456789abcdefghijklmnoprtv"
"""The key of each position; u, q, s and x have other meanings."""
RESERVED = "0xsuq"
MIN_COLUMNS_FOR_INTERVALS = 120
"""Terminal columns from which the table shows values and intervals side by side."""
HELP = "number or label: that option   0 or x: none   s: skip   u: undo   q: stop"


@click.command()
@click.argument("run", required=False, type=PATH)
@click.option(
    "--limit",
    default=50,
    type=IntegerParameter(1),
    help="Maximum difficult replies to label.  [50]",
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
@field_flags(JudgeSpec, prefix="judge_")
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
    """Label difficult replies of RUN by hand, and measure how well extractors and judges agree with people.

    A reply is difficult if the standard or the strict rules find no option in it, or if two extractors find different
    options. You label each reply with one key; the labels are saved in RUN/labels.jsonl. The table shows the share of
    agreement, Cohen's kappa and Krippendorff's alpha, with 95% bootstrap intervals. It also counts the two kinds of
    disagreement that MMBench distinguishes: one side finds no option (I), or both find different options (II).

    Without RUN, the command compares judges (--judge) on the difficult replies that come with Snellen.

    \b
      snellen agree runs/x
      snellen agree --judge hf:org/name --judge openai:name@http://host:port/v1
    """
    judge = judge_spec(flags_given(flags).get("judge", {}))
    if run is None:
        if not judge.models:
            raise click.UsageError("Give a RUN to label, or a judge to calibrate (--judge MODEL).")
        judges = [load_model(model).model for model in judge.models]
        _show_agreement(calibrate(judges, judge, announce), as_json)
        return
    if judge.models:
        raise click.UsageError(
            "--judge does not take a RUN: the replies to judge ship with Snellen. `snellen score RUN --judge MODEL` asks a judge about "
            "a run's replies, and its verdicts are in the table of `snellen agree RUN`."
        )
    if labels:
        fitting, count = import_labels(labels, run)
        announce(f"{fitting:,} of {count:,} labels match replies of this run and were added")
    elif form or (form is None and sys.stdin.isatty()):
        ask_for_labels(hard_sample(run, limit, seed), run / LABELS_FILE, by, click.getchar)
        announce(f"labels are kept in {run / LABELS_FILE}; run the same command again to continue")
    rows, people = agreement_study(run, seed=seed)
    _show_agreement(rows, as_json)
    if people is not None and not as_json:
        console.print(f"alpha among people: {people:.2f}")


def _show_agreement(rows: Sequence[Agreement], as_json: bool) -> None:
    """Print a row for each extractor and judge: how well its readings agree with those of people."""
    header = ("reader", "n", "agreement", "kappa", "alpha", "case I", "case II")
    gap = (
        "\n" if console.width < MIN_COLUMNS_FOR_INTERVALS and not as_json else " "
    )  # an interval stays in one piece
    table = []
    for row in rows:
        statistics = []
        for interval in (row.share, row.kappa, row.alpha):
            statistics.append(agreement_interval_text(interval).replace(" [", f"{gap}["))
        table.append((row.reader, str(row.n), *statistics, str(row.case_one), str(row.case_two)))
    show_table("agreement with people", header, table, as_json)


def ask_for_labels(
    items: Sequence[LabelItem], path: Path, labeller: str, key: Callable[[], str]
) -> None:
    """Ask a person for labels of replies, one key for each, until all are given or q is pressed.

    Args:
        items: The replies. Those that the labeller has labelled before are skipped.
        path: File of labels, to which the new ones are added.
        labeller: Name of the person.
        key: Function that waits for a key and returns it.
    """
    labelled = {item for item, rater in read_labels(path) if rater == labeller}
    waiting = [item for item in items if item.id not in labelled]
    positions: list[int] = []
    position = 0
    notice = ""
    while position < len(waiting):
        item = waiting[position]
        _show(item, position + 1 + len(items) - len(waiting), len(items), notice)
        pressed = key().lower()
        notice = ""
        if pressed in ("q", "\x03", "\x04"):
            return
        if pressed == "u" and positions:
            position = positions.pop()
            add_lines(path, HumanLabel(waiting[position].id, None, labeller))
            notice = "undone"
            continue
        if pressed == "s":
            position += 1
            notice = "skipped the previous reply"
            continue

        label = _label(item, pressed)
        if label is not None:
            sample_id = item.unparsed.prediction.sample_id
            add_lines(path, HumanLabel(item.id, label, labeller, sample_id))
            positions.append(position)
            position += 1
            label_text = "no option" if label == NO_OPTION else label
            notice = f"previous reply: {label_text}"
        elif pressed.isprintable():
            notice = f"{pressed!r} is not one of the keys"
        else:
            notice = "that is not one of the keys"


def _label(item: LabelItem, pressed: str) -> str | None:
    """Return the label that a pressed key stands for.

    The keys 1 to 9, and letters after them, stand for the options in order; 0 and x for no option. With up to nine
    options, a letter stands for the option with that label.

    Args:
        item: The reply with its options.
        pressed: The key.

    Returns:
        The label, or None if the key stands for none.
    """
    if pressed in ("0", "x"):
        return NO_OPTION
    if len(pressed) == 1 and pressed in KEYS:
        option_index = KEYS.index(pressed)
        if option_index < len(item.option_labels):
            return item.option_labels[option_index]
    # With more than nine options, letters are keys for positions, so they do not stand for labels.
    if len(item.option_labels) > 9 or pressed in RESERVED:
        return None
    matching_labels = [label for label in item.option_labels if label.lower() == pressed]
    if len(matching_labels) == 1:
        return matching_labels[0]
    return None


def _show(item: LabelItem, number: int, count: int, notice: str) -> None:
    """Show a reply to be labelled on a cleared screen, with its question and options.

    Args:
        item: The reply.
        number: Its number, from 1.
        count: Number of all replies.
        notice: What happened to the previous reply, such as how it was labelled; may be empty.
    """
    unparsed = item.unparsed
    heading = f"{number} of {count}"
    if notice:
        heading += f" ({notice})"
    console.clear()
    console.rule(heading)
    console.print(strip_controls(f"{unparsed.turn.question}\n"))
    options = zip(KEYS, item.option_labels, unparsed.displayed_options, strict=False)
    for key, label, option in options:
        console.print(f"  {key}   ({short_name(label)}) {short_name(option)}")
    reply = shortened(unparsed.reply)
    console.print(strip_controls(f"\nReply: {reply}\n"), style="bold")
    if len(reply) < len(unparsed.reply.strip()):
        shortening_note = f"shown without reasoning and as short as a judge sees it; the full reply has {len(unparsed.reply):,} letters\n"
        console.print(shortening_note, style="dim")
    console.print(HELP, style="dim")


@click.command()
@click.argument("target")
@click.option(
    "--limit",
    default=150,
    type=IntegerParameter(1),
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
@field_flags(JudgeSpec, prefix="judge_")
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
    """Have people review a random sample of a benchmark's questions, or of a run's replies.

    BENCHMARK: are its questions good? You see a question with its image and answer it with one key. Then you see the
    ground truth and say, with another key, whether the question is good. Two people label the sample (--by), and settle
    what they disagree on (--settle). The manifest of the benchmark then states an upper bound on the share of bad
    questions (docs/verifying.md).

    \b
      snellen audit mine --by ann
      snellen audit mine --by ben --page for-ben.html      then: snellen audit mine --labels labels-ben.jsonl
      snellen audit mine --settle --by ann
      snellen audit mine --keep mine-audited

    RUN: did Snellen read its replies correctly? You label each reply with one key, as in `snellen agree`, without
    seeing the ground truth. A judge (--judge MODEL) can label instead of people. The sample is saved in RUN/audit.json
    and the labels in RUN/labels.jsonl. From then on, reports of the run show corrected numbers (docs/audit.md).

    \b
      snellen audit runs/x
      snellen audit runs/x --judge openai:name@http://host:port/v1
    """
    options_of_benchmarks = {"--page": page, "--settle": settle, "--only": only, "--keep": keep}
    judge = judge_spec(flags_given(flags).get("judge", {}))
    if (Path(target) / RUN_MANIFEST).exists():
        for flag, value in options_of_benchmarks.items():
            if value:
                raise DataError(
                    f"{flag}: {target} is a run, but this option is for benchmarks; remove it"
                )
        _audit_run(Path(target), limit, seed, labels, by, form, judge, where, as_json)
        return
    if where:
        raise DataError(
            f"--where: {target} is a benchmark, but this option is for runs; to choose questions of a benchmark, use --only"
        )
    if judge.models:
        raise DataError(
            f"--judge: {target} is a benchmark, which people audit; to check it with models, use `snellen lint --jury`"
        )
    benchmark = open_benchmark(target)
    n_questions = len({sample_id for sample_id, _ in open_answers(benchmark.folder)})
    if only:
        items = named_items(benchmark, list(ids_in(only)))
    else:
        items = audited_items(benchmark, limit, seed)
    path = labels_file(benchmark)
    prompts_by_default = not keep and sys.stdin.isatty()
    prompts_for_labels = prompts_by_default if form is None else form
    if labels:
        fitting, count = import_audit_labels(labels, benchmark)
        announce(
            f"{fitting:,} of {count:,} labels match questions of {benchmark.name} and were added"
        )
    elif page:
        items_to_settle = _to_settle(benchmark, items, n_questions, settle)
        write_audit_page(AuditForm(benchmark, items, by or "", items_to_settle), page)
        console.print(
            f"{page}: {len(items):,} questions; add the file of labels that it saves with --labels",
            soft_wrap=True,
        )
        return
    elif settle or prompts_for_labels:
        if not by:
            raise DataError("name the labeller with --by NAME; labels of two people are compared")
        items_to_settle = _to_settle(benchmark, items, n_questions, settle)
        _serve(AuditForm(benchmark, items, by, items_to_settle), path)
    outcome = audit_outcome(items, n_questions, read_audit_labels(path))
    _show_outcome(benchmark, outcome, as_json)
    if outcome.is_complete and not only:
        benchmark = with_bound(benchmark, outcome.bound())
        _show_bound(outcome.bound(), as_json)
    if keep:
        if not outcome.is_complete:
            raise DataError(
                f"{target}: some drawn questions have no label yet; label them, or draw fewer (--limit)"
            )
        kept_benchmark = keep_good(benchmark, outcome, keep, bounded=not only)
        print_built(kept_benchmark)
        verification = kept_benchmark.manifest.verification
        if verification and verification.bound:
            _show_bound(verification.bound, as_json)


# --- a benchmark -----------------------------------------------------------------------------------------------------


def _to_settle(
    benchmark: Benchmark, items: Sequence[AuditItem], n_questions: int, settle: bool
) -> dict[str, ItemVerdict]:
    """Return the verdicts on questions that raters disagree on, by item; empty unless `settle`.

    Raises:
        DataError: No two raters disagree.
    """
    if not settle:
        return {}
    labels = read_audit_labels(labels_file(benchmark))
    verdicts = audit_outcome(items, n_questions, labels).verdicts
    differing = {verdict.item.id: verdict for verdict in verdicts if verdict.differs}
    if not differing:
        raise DataError(
            f"{benchmark.name}: there is nothing to settle: no two raters disagree on whether a question is good"
        )
    return differing


def _serve(form: AuditForm, path: Path) -> None:
    """Serve the page to a browser of this machine until Ctrl-C; each label is kept at once."""
    with AuditServer(form, path) as server:
        console.print(
            f"{server.address}\nopen this address in a browser on this machine; press Ctrl-C to stop",
            soft_wrap=True,
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            announce(f"labels are kept in {path}; run the same command again to continue")


def _show_outcome(benchmark: Benchmark, outcome: AuditOutcome, as_json: bool) -> None:
    """Print how far each rater of a benchmark is, and how many questions are good, bad or not settled."""
    if as_json:
        return
    command = f"snellen audit {shlex.quote(benchmark.name)}"
    if not outcome.raters:
        console.print(
            f"{benchmark.name}: no labels yet; label with `{command} --by NAME`",
            soft_wrap=True,
        )
        return
    progress = []
    for rater, n_unlabelled in outcome.unlabelled.items():
        if n_unlabelled:
            progress.append(f"{rater} has {n_unlabelled:,} to label")
        else:
            progress.append(f"{rater} is done")
    n_good = len(outcome.verdicts) - len(outcome.bad)
    counts = [f"{n_good:,} good"]
    for fault_kind, count in outcome.kinds.most_common():
        counts.append(f"{count:,} {fault_kind}")
    console.print(f"{benchmark.name}: {'; '.join(progress)}\n  {', '.join(counts)}", soft_wrap=True)
    n_open = sum(verdict.is_open for verdict in outcome.verdicts)
    if n_open:
        console.print(
            f"  {n_open:,} not settled (counted as bad): {command} --settle --by NAME",
            soft_wrap=True,
        )


def _show_bound(bound: ErrorBound, as_json: bool) -> None:
    print_records([bound]) if as_json else console.print(f"  {bound.sentence}", soft_wrap=True)


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
    """Draw replies of a run, have them labelled, and print the numbers that the labels correct.

    Args:
        run: Folder of the run.
        limit: Maximum number of replies to draw.
        seed: Random seed of the draw.
        labels: File with labels to add; None to label now.
        by: The person whose labels count; None for all.
        form: Whether to prompt for labels; None to prompt in a terminal only.
        judge: Judge models that label instead of people.
        where: Condition on the questions; if empty, all.
        as_json: Whether to print JSON lines instead of tables.
    """
    [whole_run] = score_folders([run], ScoringSpec(), JudgeSpec(), announce)
    scored_part = whole_run
    if where:
        [scored_part] = filter_runs([whole_run], where)
    design = design_for(whole_run, limit, seed, scored_part)
    strata = []
    for stratum in design.strata:
        strata.append(f"{stratum.drawn:,} of {stratum.replies:,} {stratum.reading}")
    announce(f"drawn: {', '.join(strata)}; kept in {run / AUDIT_FILE}")
    keys = [reply.key for reply in design.drawn_replies_of(scored_part)]
    if where:
        announce(f"of these, {len(keys):,} are about questions where {where}")
    # Several presentations can have the same reply, which is labelled once.
    items_by_id = {item.id: item for item in drawn_items(run, keys).values()}
    items = list(items_by_id.values())
    if labels:
        fitting, count = import_labels(labels, run)
        announce(f"{fitting:,} of {count:,} labels match replies of this run and were added")
    elif judge.models:
        by = label_by_judges(run, items, judge, announce)
    elif form or (form is None and sys.stdin.isatty()):
        ask_for_labels(items, run / LABELS_FILE, by or "", click.getchar)
        announce(f"labels are kept in {run / LABELS_FILE}; run the same command again to continue")
    audit = audit_of(scored_part, by)
    if audit is None:
        raise DataError(
            f"{run}: none of the drawn replies has a label yet; run {_command(run, where)} in a terminal"
        )
    model = scored_part.manifest.model
    rows = aggregate_run(scored_part)
    if as_json:
        print_records([*audit.readings, *corrected_rows(scored_part, rows, audit)])
        return
    print_tables([readings_table(model, audit), corrected_table(model, scored_part, rows, audit)])


def _command(run: Path, where: str) -> str:
    return f"`snellen audit {shlex.quote(str(run))}{f' --where {shlex.quote(where)}' if where else ''}`"
