"""Replies of a run that are hard to read, and the labels that people and judge models give them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen import DataError, JudgeSpec
from snellen.plugin_api import (
    JSON_FAULTS,
    LABELS_FILE,
    NO_OPTION,
    HumanLabel,
    JudgeEnsemble,
    LabelItem,
    Verdict,
    add_lines,
    label_items,
    named_extractors,
    read_file,
    read_labels,
    rng_for,
)

JUDGE_LABELLER = "judge:"
"""Prefix of `by` in a label that a model gave."""
Reading = int | None
"""What is read from a reply: the index of an option in the order shown, or None for "no option is meant"."""


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


def hard_items(run: Path) -> Iterator[HardItem]:
    """Yield the distinct replies of a run to questions with options, with the readings of all extractors.

    Raises:
        StoreError: The folder is not a run.
    """
    extractors = named_extractors()
    yielded_ids: set[str] = set()
    for item in label_items(run):
        if item.id in yielded_ids:
            continue
        yielded_ids.add(item.id)
        task = item.unparsed.judge_task()
        labels = item.unparsed.prediction.variant.labels
        readings = {
            name: extractor.read(task.reply, task.options, labels).choice
            for name, extractor in extractors.items()
        }
        yield HardItem(item.id, item.unparsed, readings)


def hard_sample(run: Path, count: int, seed: int = 0) -> list[HardItem]:
    """Draw at most `count` hard replies of a run. A larger sample contains a smaller one."""
    hard = [item for item in hard_items(run) if item.hard]
    hard.sort(key=lambda item: rng_for("agree", item.id, seed).random())
    return hard[:count]


# --- labels ---------------------------------------------------------------------------------------------------------


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
    """Parse a line of a file of labels; `where` is the file and line for error messages."""
    try:
        imported = msgspec.json.decode(line, type=_ImportedLabel)
    except JSON_FAULTS as error:
        raise DataError(f"{where}: not a label ({error})") from None
    if not imported.item and not imported.sample_id:
        raise DataError(f"{where}: the label does not name a reply; add item or sample_id")
    return imported


def label_by_judges(
    run: Path, items: Sequence[LabelItem], spec: JudgeSpec, announce: Callable[[str], object]
) -> str:
    """Have judge models label replies by majority, and store their labels with those of the run.

    Returns:
        The name of the rater under which the labels are stored.

    Raises:
        SnellenError: As `JudgeEnsemble.verdicts`.
    """
    # Imported here because it loads much code, which a report that only reads labels does not need.
    from snellen import load_model

    panel = JudgeEnsemble([load_model(model).model for model in spec.models], run, spec, announce)
    rater = f"{JUDGE_LABELLER}{panel.name} ({panel.prompt_version})"
    earlier_labels = read_labels(run / LABELS_FILE)
    tasks = [item.unparsed.judge_task(spec) for item in items]
    for item, verdicts in zip(items, panel.verdicts(tasks), strict=True):
        verdict = Verdict.majority(verdicts)
        if verdict.outcome not in ("given", "none"):
            continue
        label = NO_OPTION if verdict.place is None else item.option_labels[verdict.place]
        earlier_label = earlier_labels.get((item.id, rater))
        if earlier_label is None or earlier_label.label != label:
            sample_id = item.unparsed.prediction.sample_id
            add_lines(run / LABELS_FILE, HumanLabel(item.id, label, rater, sample_id))
    return rater


def human_readings(
    items: Sequence[HardItem], labels: Mapping[tuple[str, str], HumanLabel]
) -> dict[str, list[Reading]]:
    """Return which option each person says that a reply names, for each reply that people have labelled.

    Args:
        items: The replies.
        labels: All labels of replies, by the reply's id and the rater. Those of judge models are left out.

    Returns:
        For the id of each labelled reply, one reading per person: the index of an option, or None for no option.

    Raises:
        DataError: A label is not one of its question.
    """
    option_labels = {item.id: item.option_labels for item in items}
    readings: dict[str, list[Reading]] = defaultdict(list)
    for (item_id, rater), label in labels.items():
        if item_id in option_labels and not rater.startswith(JUDGE_LABELLER):
            readings[item_id].append(_reading_of(label, option_labels[item_id]))
    return dict(readings)


def _reading_of(label: HumanLabel, option_labels: Sequence[str]) -> Reading:
    """Return the index of the option that a label names; None if it says that the reply names no option."""
    if label.label == NO_OPTION:
        return None
    if label.label not in option_labels:
        raise DataError(
            f"{LABELS_FILE}: the label {label.label!r} of the reply {label.item} is not one of "
            f"{', '.join(option_labels)} or {NO_OPTION}; add a line with a valid label, or with null to undo it"
        )
    return option_labels.index(label.label)
