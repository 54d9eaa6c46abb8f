"""What `reconcile` compares: the questions, replies, readings and verdicts of a run, or of a file of any harness.

A file's own verdicts count, as they make the number that its harness printed. What the harness read is as recorded, or
by the rule that its verdicts follow (`harness_rules`); without verdicts replies are read as Snellen reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.reconciling import ReconciledItem, Reconciliation, reconcile
from snellen.errors import DataError
from snellen.extraction.standard import read_choice
from snellen.interchange.harness_rules import RULES, Rule
from snellen.interchange.predictions.joining import shown_labels
from snellen.interchange.predictions.rows import PredictedRow
from snellen.interchange.predictions.taking import FileReading, taken_files
from snellen.metrics.declaration import DEFAULT_TEXT_METRICS, find_metric
from snellen.metrics.vqa import typed_match
from snellen.recognition.named_option import named_option
from snellen.records import Exchange, TextPart
from snellen.runs.journal import read_exchanges
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun

SNELLEN = "snellen"
DRAWS_AT_RANDOM = frozenset({"mmmu"})
"""Rules whose harness draws an option at random where they find none."""
AGREES = 0.98
"""The share of the replies that a rule reads whose verdicts have to be the rule's."""
FEWEST_READ = 0.5
"""The share of the replies that a rule has to read to be told by its verdicts."""


NOTHING_SAID = FileReading()
"""The user said nothing about a file."""


class ReconciledSide(Struct, frozen=True):
    """One of the two results."""

    label: str
    items: tuple[ReconciledItem, ...]
    notes: tuple[str, ...] = ()
    model: str = ""
    """The model's name; empty if the file does not say it."""
    is_run: bool = False
    """Whether it is a run of Snellen, which names images by their digests."""


def side_of_file(path: Path, reading: FileReading = NOTHING_SAID, rule: str = "") -> ReconciledSide:
    """Return what a file of predictions says, with the verdicts that it records.

    Args:
        path: The file.
        reading: What the user says about it.
        rule: The rule by which its harness read replies; found by the verdicts when empty.

    Raises:
        DataError: The file cannot be read, has several models, or neither verdicts nor right answers.

    Examples:
        >>> row = {"question": "What is it?", "A": "cat", "B": "dog", "answer": "B", "id": "q1"}
        >>> _ = Path("one.jsonl").write_text(json.dumps({**row, "prediction": "B", "hit": 1}))
        >>> side_of_file(Path("one.jsonl")).items[0].verdict == 1
        True
    """
    files = taken_files(path, reading)
    if len(files) > 1:
        names = ", ".join(one.file.model for one in files)
        raise DataError(
            f"{path} has replies of several models ({names}); give each a file of its own"
        )
    [taken] = files
    rows = taken.file.rows
    has_verdicts = any(row.verdict is not None for row in rows)
    if not has_verdicts and not any(row.gold or row.references for row in rows):
        raise DataError(
            f"{path}: it has neither verdicts nor right answers, so there is no number to explain"
        )
    rule_name = rule or _rule_of(rows)
    notes: list[str] = []
    if has_verdicts and rule_name:
        notes.append(
            f"The verdicts of {path.name} follow the rule of {rule_name}, where that finds an option"
        )
    if not has_verdicts:
        read_by = rule_name or SNELLEN
        notes.append(
            f"The replies of {path.name}, which has no verdicts, are read by the rule of {read_by}"
        )
    items = tuple(_item_of_row(row, rule_name) for row in rows)
    return ReconciledSide(path.name, items, tuple(notes), taken.file.model)


def _reads(rule: str) -> Rule:
    """Return the function that reads the option in a reply by a harness's rule, or as Snellen reads it."""
    if rule in RULES:
        return RULES[rule]
    return lambda reply, options, labels: read_choice(reply, options, labels).choice


def _labels(row: PredictedRow) -> Sequence[str]:
    """Return the labels of a row's options as the model saw them; none if it did not see the options."""
    if not row.lists_options:
        return ()
    return row.labels or shown_labels(len(row.options))


def _rule_of(rows: Sequence[PredictedRow]) -> str:
    """Return the rule by which a harness read the replies of a file, recognised by its verdicts.

    A rule finds the option that a reply names. It is the one of the harness if it finds an option
    in most replies, and if that option is right in nearly all rows with the verdict 1 and wrong in
    nearly all others.

    Returns:
        The name of a rule of `RULES`, or of Snellen's own reading; empty if none fits or the file
        has no verdicts.
    """
    judged: list[PredictedRow] = []
    for row in rows:
        if row.options and row.gold and row.verdict is not None and row.reply:
            judged.append(row)
    if not judged:
        return ""

    best = ""
    best_quality = 0.0
    for name in (*RULES, SNELLEN):
        read = _reads(name)
        n_read = 0
        n_agreeing = 0
        for row in judged:
            choice = read(row.reply or "", row.options, _labels(row))
            if choice is None:
                continue
            n_read += 1
            is_correct = choice in row.gold
            n_agreeing += is_correct == (row.verdict == 1)
        if n_read < FEWEST_READ * len(judged) or n_agreeing < AGREES * n_read:
            continue
        # Of rules that agree equally often, the one that reads more replies.
        quality = n_agreeing / n_read + n_read / len(judged) / 100
        if quality > best_quality:
            best = name
            best_quality = quality
    return best


def _item_of_row(row: PredictedRow, rule_name: str) -> ReconciledItem:
    """Return a row of a file with what was read in its reply, and whether that is correct.

    Args:
        row: The row.
        rule_name: The rule by which the reply is read if the file does not record what was read.
    """
    correct_answers = row.references
    if row.options:
        correct_answers = tuple(row.options[index] for index in row.gold)
    labels = _labels(row)
    choice: int | None = None
    if row.options and row.reply:
        read = _reads(rule_name)
        choice = read(row.reply, row.options, labels)
    is_drawn = bool(row.options) and _is_drawn(row, rule_name, choice, labels)
    reading = _recorded_reading(row)
    if reading is None and row.options:
        if is_drawn:
            reading = DRAWN
        elif choice is None:
            reading = ""
        else:
            reading = row.options[choice]
    return ReconciledItem(
        id=row.id,
        question=row.question,
        prompt=row.prompt,
        options=row.options,
        correct_answers=correct_answers,
        image=row.picture,
        decoding=row.decoding,
        reply=row.reply,
        reading=reading,
        is_drawn=is_drawn,
        judge=row.judge,
        metric="verdicts of the file" if row.verdict is not None else _metric(row),
        verdict=_verdict(row, choice, correct_answers),
        category=row.tags.get("category") or row.tags.get("subject") or row.tags.get("split", ""),
    )


def _recorded_reading(row: PredictedRow) -> str | None:
    """Return what the harness read in the reply, according to the file, with a letter replaced by the option's text.

    None if the file does not say it.
    """
    if row.reading is None or not row.options:
        return row.reading
    place = named_option(row.reading, row.options, labels=row.labels, in_words=True)
    return row.reading if place is None else row.options[place]


DRAWN = "(drawn at random)"
"""Stands for what was read if a harness chose an option at random and did not record which one."""


def _is_drawn(row: PredictedRow, rule_name: str, choice: int | None, labels: Sequence[str]) -> bool:
    """Return whether the harness chose an option at random, because it found none in the reply.

    Some rules do that whenever they find none. Otherwise a row looks like it if the file records an option although no
    rule of any harness finds one.

    Args:
        row: The row, with a verdict if it is one of a harness.
        rule_name: The rule of the harness; empty if it is not known.
        choice: The option that this rule finds in the reply.
        labels: The labels of the options as the model saw them.
    """
    if row.verdict is None or choice is not None or row.reply is None:
        return False
    if rule_name in DRAWS_AT_RANDOM:
        return True
    if not row.reading:
        return False
    for name in (*RULES, SNELLEN):
        # MMMU's rule takes the article `A` and the word `I` for labels, so it is no evidence of an option.
        if name != "mmmu" and _reads(name)(row.reply, row.options, labels) is not None:
            return False
    return True


def _metric(row: PredictedRow) -> str:
    return "accuracy" if row.options else "typed match"


def _verdict(row: PredictedRow, choice: int | None, correct_answers: Sequence[str]) -> Fraction:
    if row.verdict is not None:
        return Fraction(row.verdict).limit_denominator(10**6)
    if row.options:
        return Fraction(choice is not None and choice in row.gold)
    if not row.reply or not correct_answers:
        return Fraction(0)
    return Fraction(typed_match(row.reply, correct_answers)).limit_denominator(10**6)


# --- runs -------------------------------------------------------------------------------------------------------------------


def side_of_run(run: ScoredRun) -> ReconciledSide:
    """Return what a scored run says of its questions, by its first protocol. Raises DataError for several benchmarks."""
    if len(run.benchmarks) != 1:
        names = ", ".join(scored.spec.name for scored in run.benchmarks)
        raise DataError(f"{run.folder} is of several benchmarks ({names}); compare runs of one")
    [scored] = run.benchmarks
    label = run.manifest.protocols[0]
    exchanges: dict[tuple[str, int], Exchange] = {}
    for exchange in read_exchanges(run.folder):
        variant = exchange.request.variant
        if exchange.protocol == label and variant.test == 0 and exchange.request.is_presentation:
            exchanges[exchange.request.sample_id, variant.turn] = exchange
    readings = {
        (prediction.sample_id, prediction.turn): prediction.choice
        for prediction in scored.predictions
        if prediction.protocol == label and prediction.variant.test == 0
    }
    items = tuple(_items_of_run(scored, label, exchanges, readings))
    return ReconciledSide(str(run.folder), items, model=run.manifest.model, is_run=True)


def _items_of_run(
    scored: ScoredBenchmark,
    label: str,
    exchanges: Mapping[tuple[str, int], Exchange],
    readings: Mapping[tuple[str, int], int | None],
) -> list[ReconciledItem]:
    """Return each question of a run with what the model was shown, its reply, and whether that was correct.

    Questions without a value of any metric are left out.

    Args:
        scored: The benchmark of the run with its scores.
        label: The protocol.
        exchanges: The requests and replies by sample and turn.
        readings: The options that Snellen read in the replies, by sample and turn.
    """
    items: list[ReconciledItem] = []
    for key, (metric, verdict) in _verdicts_of_run(scored, label).items():
        sample_id, turn = key
        sample = scored.samples[sample_id]
        question = sample.rounds[turn]
        correct_answers: tuple[str, ...] = ()
        answer = scored.answers.get(key)
        if answer is not None:
            correct_options = tuple(question.options[index] for index in answer.options)
            correct_answers = correct_options or answer.texts
        reading = None
        if question.options:
            choice = readings.get(key)
            reading = "" if choice is None else question.options[choice]
        item = ReconciledItem(
            id=f"{sample_id}/{turn}" if turn else sample_id,
            question=question.question,
            options=tuple(question.options),
            correct_answers=correct_answers,
            image=" ".join(str(image) for image in sample.images),
            reading=reading,
            metric=metric,
            verdict=verdict,
            category=sample.tags.get("category", ""),
        )
        exchange = exchanges.get(key)
        if exchange is not None:
            item = _with_exchange(item, exchange)
        items.append(item)
    return items


def _verdicts_of_run(
    scored: ScoredBenchmark, label: str
) -> dict[tuple[str, int], tuple[str, Fraction]]:
    """Return the metric that decides whether the reply to a question is correct, with its value, by sample and turn.

    The metrics that the user requested come first, because the run's report has them; then accuracy, and for open
    questions the first metric of the benchmark.
    """
    metrics = [find_metric(name).names[0] for name in scored.requested_metrics]
    metrics.append("accuracy")
    metrics_of_benchmark = scored.spec.metrics or DEFAULT_TEXT_METRICS
    metrics.append(find_metric(metrics_of_benchmark[0]).names[0])

    verdicts: dict[tuple[str, int], tuple[str, Fraction]] = {}
    for metric in metrics:
        for score in scored.scores_of(metric, label):
            key = (score.sample_id, score.turn)
            if score.value is not None and key not in verdicts:
                verdicts[key] = (metric, Fraction(score.value).limit_denominator(10**6))
    return verdicts


def _with_exchange(item: ReconciledItem, exchange: Exchange) -> ReconciledItem:
    """Return a question with the text of its request, the order of its options there, and the reply."""
    texts: list[str] = []
    for message in exchange.request.messages:
        texts += [part.text for part in message.content if isinstance(part, TextPart)]
    order = exchange.request.variant.order or range(len(item.options))
    return replace(
        item,
        prompt="\n".join(texts),
        options=tuple(item.options[index] for index in order),
        decoding=str(exchange.request.decoding),
        reply=exchange.response.text,
        is_cut=exchange.response.finish == "length",
    )


# --- both -------------------------------------------------------------------------------------------------------------------


def reconciled(first: ReconciledSide, second: ReconciledSide) -> Reconciliation:
    """Return why two results differ, with the notes on both. Raises DataError if they share no question."""
    items = [first.items, second.items]
    if first.is_run != second.is_run:  # digests on one side, names of files on the other
        items = [tuple(replace(item, image="") for item in side) for side in items]
    try:
        found = reconcile(items[0], items[1], (first.label, second.label))
    except ValueError as error:
        raise DataError(
            f"{first.label} and {second.label}: {error}; are they of the same benchmark?"
        ) from None
    notes = [*first.notes, *second.notes]
    if first.model and second.model and first.model != second.model:
        notes.append(
            f"The results are of different models ({first.model} and {second.model}), which reply differently"
        )
    return replace(found, notes=tuple(notes))
