"""Labels that people give to replies: which replies to label, and the file of labels.

labels.jsonl    one HumanLabel per line next to the run's journal; the last line of a rater about a reply counts
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.common.foreign import read_file
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.extraction import named_extractors
from snellen.formats.json_files import JSON_FAULTS, add_lines, kept_lines
from snellen.models.loading import load_model
from snellen.protocols.prediction import predict
from snellen.protocols.prompts.role_prompts import shortened
from snellen.protocols.verdict import majority_verdict, matching_prompt
from snellen.records import Variant
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import read_manifest
from snellen.runs.spec import JudgeSpec
from snellen.scoring.judges import JudgeEnsemble
from snellen.scoring.unparsed import UnparsedReply, matching_item

LABELS_FILE = "labels.jsonl"
"""The file of labels in the folder of a run."""
NO_OPTION = "X"
"""The label for "no option is meant"."""
JUDGE_LABELLER = "judge:"
"""Prefix of `by` in a label that a model gave."""
Reading = int | None
"""What is read from a reply: the index of an option in the order shown, or None for "no option is meant"."""
ReplyKey = tuple[str, str, str, Variant]
"""Benchmark, protocol, sample and presentation of a reply."""

# --- replies to label ------------------------------------------------------------------------------------------------


class LabelItem(Struct, frozen=True):
    """A reply to label, with its question as it was shown."""

    id: str
    """Digest of question, options, option labels and reply: equal text needs one label."""
    unparsed: UnparsedReply

    @property
    def option_labels(self) -> tuple[str, ...]:
        """Labels of the options, as they were shown."""
        return matching_item(self.unparsed).labels


class HardItem(LabelItem, frozen=True):
    """A reply to label, with the reading of each extractor."""

    readings: dict[str, Reading]
    """Readings by extractor."""

    @property
    def hard(self) -> bool:
        """Whether the standard or the strict rules read no option, or two extractors read different ones."""
        if self.readings["standard"] is None or self.readings["strict"] is None:
            return True
        return len(set(self.readings.values()) - {None}) > 1


def label_items(run: Path, only: Collection[ReplyKey] | None = None) -> Iterator[LabelItem]:
    """Yield the replies of a run to questions with options.

    Args:
        run: Folder of the run.
        only: The presentations to yield; all if None.

    Raises:
        StoreError: The folder is not a run.
    """
    samples = {}
    for use in read_manifest(run).benchmarks:
        for sample in reopen_benchmark(use, run).samples(use.selection):
            samples[use.name, sample.id] = sample

    for exchange in read_exchanges(run):
        request = exchange.request
        response = exchange.response
        sample = samples.get((request.benchmark, request.sample_id))
        if sample is None or request.kind != "generate" or request.variant.step:
            continue  # a step is not a reply to the question
        key = (request.benchmark, exchange.protocol, sample.id, request.variant)
        if only is not None and key not in only:
            continue
        text = response.text or ""
        if response.error or not shortened(text):
            continue
        turn = sample.rounds[request.variant.turn]
        if not turn.options:
            continue
        prediction = predict(exchange.protocol, turn, request, response)
        yield label_item(UnparsedReply(prediction, turn, text))


def label_item(reply: UnparsedReply) -> LabelItem:
    """Return a reply with the digest that labels refer to."""
    matching = matching_item(reply)
    content = (matching.question, matching.options, matching.labels, matching.reply)
    digest = hashlib.blake2b(msgspec.json.encode(content), digest_size=8).hexdigest()
    return LabelItem(digest, reply)


def hard_items(run: Path) -> Iterator[HardItem]:
    """Yield the distinct replies of a run to questions with options, with the readings of all extractors.

    Raises:
        StoreError: The folder is not a run.
    """
    extractors = named_extractors()
    seen: set[str] = set()
    for item in label_items(run):
        if item.id in seen:
            continue
        seen.add(item.id)
        matching = matching_item(item.unparsed)
        labels = item.unparsed.prediction.variant.labels
        readings = {
            name: extractor.read(matching.reply, matching.options, labels).choice
            for name, extractor in extractors.items()
        }
        yield HardItem(item.id, item.unparsed, readings)


def hard_sample(run: Path, count: int, seed: int = 0) -> list[HardItem]:
    """Draw at most `count` hard replies of a run. A larger sample contains a smaller one."""
    hard = [item for item in hard_items(run) if item.hard]
    hard.sort(key=lambda item: rng_for("agree", item.id, seed).random())
    return hard[:count]


# --- the file of labels ----------------------------------------------------------------------------------------------


class HumanLabel(Struct, frozen=True, omit_defaults=True):
    """The label that a rater gave to a reply."""

    item: str
    """`LabelItem.id` of the reply."""
    label: str | None
    """A label of an option, X for "no option is meant", or None to undo an earlier label."""
    by: str = ""
    """The rater; for a model that labels as a person would, its name after `judge:`."""
    sample_id: str = ""


def read_labels(path: Path) -> dict[tuple[str, str], HumanLabel]:
    """Return the labels that count, by reply and rater. Raises StoreError for a line that is not a label."""
    latest = {(label.item, label.by): label for label in kept_lines(path, HumanLabel, "a label")}
    return {key: label for key, label in latest.items() if label.label is not None}


class _ImportedLabel(Struct):
    label: str
    item: str = ""
    sample_id: str = ""
    by: str = ""


def import_labels(source: Path, run: Path) -> tuple[int, int]:
    """Add the labels in a file to those of a run.

    A line names its reply by `item` (as labels.jsonl does) or by `sample_id`, and has a `label`: a label of an option
    that was shown, or X.

    Returns:
        The number of labels that match a reply of the run, and the number of lines.

    Raises:
        DataError: A line names no reply, several replies, or a label that the question does not have.
    """
    items_by_id = {item.id: item for item in hard_items(run)}
    items_by_sample: dict[str, list[HardItem]] = defaultdict(list)
    for item in items_by_id.values():
        items_by_sample[item.unparsed.prediction.sample_id].append(item)

    labels: list[HumanLabel] = []
    lines = read_file(source).splitlines()
    for line_number, line in enumerate(lines, 1):
        where = f"{source}:{line_number}"
        imported = _parse_label(line, where)
        if imported.item in items_by_id:
            matches = [items_by_id[imported.item]]
        else:
            matches = items_by_sample.get(imported.sample_id, [])
        if len(matches) > 1:
            raise DataError(
                f"{where}: {imported.sample_id} has {len(matches)} different replies; name one by its item"
            )
        for item in matches:
            if imported.label not in (*item.option_labels, NO_OPTION):
                raise DataError(
                    f"{where}: label {imported.label!r} is not one of {', '.join(item.option_labels)} or {NO_OPTION}"
                )
            sample_id = item.unparsed.prediction.sample_id
            labels.append(HumanLabel(item.id, imported.label, imported.by, sample_id))
    add_lines(run / LABELS_FILE, *labels)
    return len(labels), len(lines)


def _parse_label(line: bytes, where: str) -> _ImportedLabel:
    try:
        imported = msgspec.json.decode(line, type=_ImportedLabel)
    except JSON_FAULTS as error:
        raise DataError(f"{where}: not a label ({error})") from None
    if not imported.item and not imported.sample_id:
        raise DataError(f"{where}: names no reply; give item or sample_id")
    return imported


def label_by_judges(
    run: Path, items: Sequence[LabelItem], spec: JudgeSpec, announce: Callable[[str], object]
) -> str:
    """Have judges label replies by majority, and add their labels to those of the run.

    Returns:
        The rater of the labels.

    Raises:
        SnellenError: As `JudgeEnsemble.verdicts`.
    """
    panel = JudgeEnsemble([load_model(model) for model in spec.models], run, spec, announce)
    by = f"{JUDGE_LABELLER}{panel.name} ({matching_prompt(spec.prompt)})"
    earlier_labels = read_labels(run / LABELS_FILE)
    tasks = [matching_item(item.unparsed, spec) for item in items]
    for item, verdicts in zip(items, panel.verdicts(tasks), strict=True):
        verdict = majority_verdict(verdicts)
        if verdict.outcome not in ("given", "none"):
            continue
        label = NO_OPTION if verdict.value is None else item.option_labels[verdict.value]
        earlier = earlier_labels.get((item.id, by))
        if earlier is None or earlier.label != label:
            sample_id = item.unparsed.prediction.sample_id
            add_lines(run / LABELS_FILE, HumanLabel(item.id, label, by, sample_id))
    return by


def people_of(
    items: Sequence[HardItem], labels: Mapping[tuple[str, str], HumanLabel]
) -> dict[str, list[Reading]]:
    """Return the readings of people by reply, without those of judges.

    Raises:
        DataError: A label is not one of its question.
    """
    option_labels = {item.id: item.option_labels for item in items}
    readings: dict[str, list[Reading]] = defaultdict(list)
    for (item_id, by), label in labels.items():
        if item_id in option_labels and not by.startswith(JUDGE_LABELLER):
            readings[item_id].append(_reading_of(label, option_labels[item_id]))
    return dict(readings)


def _reading_of(label: HumanLabel, option_labels: Sequence[str]) -> Reading:
    if label.label == NO_OPTION:
        return None
    if label.label not in option_labels:
        raise DataError(
            f"{LABELS_FILE}: the label {label.label!r} of the reply {label.item} is not one of {', '.join(option_labels)} "
            f"or {NO_OPTION}; add a line with another, or with null to undo it"
        )
    return option_labels.index(label.label)
