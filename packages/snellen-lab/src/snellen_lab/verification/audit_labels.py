"""Labels of an audit of a benchmark by people.

NAME.audit.jsonl has one `AuditLabel` per line. It is next to the benchmark's folder, so that a build does not remove
it. The last line of a rater for a question counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from snellen import DataError
from snellen.plugin_api import Benchmark, add_lines, kept_lines
from snellen_lab.verification.audited_questions import audited_items

Label = Literal["good", "wrong answer", "two right options", "no image needed", "unclear or other"]
LABELS: tuple[Label, ...] = get_args(Label)


class AuditLabel(Struct, frozen=True, omit_defaults=True):
    """The label that a rater gave a question."""

    item: str
    label: Label | None
    """None withdraws an earlier label."""
    by: str
    sample_id: str = ""
    answer: str = ""
    """The option that the rater chose before the right one was shown; empty for none."""
    settles: bool = False
    """Whether it was given with the labels of others in view, and decides."""


class _StoredLabel(Struct, frozen=True):
    """A label as it is in a file. Files of earlier versions have "picture" in place of "image"."""

    item: str
    label: Label | Literal["no picture needed"] | None
    by: str
    sample_id: str = ""
    answer: str = ""
    settles: bool = False

    def present(self) -> AuditLabel:
        """Return the label with its present name: "no picture needed" is now "no image needed"."""
        label: Label | None
        if self.label == "no picture needed":
            label = "no image needed"
        else:
            label = self.label
        return AuditLabel(
            item=self.item,
            label=label,
            by=self.by,
            sample_id=self.sample_id,
            answer=self.answer,
            settles=self.settles,
        )


def labels_file(benchmark: Benchmark) -> Path:
    """Return the file with the labels of a benchmark's questions."""
    return benchmark.folder.with_name(f"{benchmark.folder.name}.audit.jsonl")


def read_audit_labels(path: Path) -> list[AuditLabel]:
    """Read the labels that people gave to the questions of a benchmark.

    If a rater labelled a question several times, the last label counts, or none if that withdraws
    the label. A label that settles a disagreement does not replace the same rater's own label.

    Raises:
        StoreError: If a line of the file is damaged.
    """
    latest: dict[tuple[str, str, bool], AuditLabel] = {}
    for stored in kept_lines(path, _StoredLabel, "a label of an audit"):
        label = stored.present()
        latest[label.item, label.by, label.settles] = label
    return [label for label in latest.values() if label.label]


def import_audit_labels(source: Path, benchmark: Benchmark) -> tuple[int, int]:
    """Add labels in a file, such as one that a rater's page saved, to those of a benchmark.

    Returns:
        The number of labels of the benchmark's questions, and of all labels in the file.

    Raises:
        DataError: The file does not exist, or a label has no rater.
    """
    if not source.is_file():
        raise DataError(f"{source}: the file of labels does not exist")
    labels = read_audit_labels(source)
    for label in labels:
        if not label.by.strip():
            raise DataError(
                f"{source}: the label of {label.sample_id or label.item} has no rater; add `by`"
            )
    items = audited_items(benchmark, benchmark.manifest.counts.samples)
    item_ids = {item.id for item in items}
    own_labels = [label for label in labels if label.item in item_ids]
    add_lines(labels_file(benchmark), *own_labels)
    return len(own_labels), len(labels)
