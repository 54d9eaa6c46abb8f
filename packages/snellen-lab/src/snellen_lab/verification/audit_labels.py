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
    """Label of a question by a rater."""

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
    """A label as a file may have it: earlier revisions called images pictures."""

    item: str
    label: Label | Literal["no picture needed"] | None
    by: str
    sample_id: str = ""
    answer: str = ""
    settles: bool = False

    def present(self) -> AuditLabel:
        """Return the label under its present name."""
        label: Label | None = "no image needed" if self.label == "no picture needed" else self.label
        return AuditLabel(self.item, label, self.by, self.sample_id, self.answer, self.settles)


def labels_file(benchmark: Benchmark) -> Path:
    """Return the file with the labels of a benchmark's questions."""
    return benchmark.folder.with_name(f"{benchmark.folder.name}.audit.jsonl")


def read_audit_labels(path: Path) -> list[AuditLabel]:
    """Return the last label of each rater for each question. Raises StoreError for a damaged line."""
    stored_labels = kept_lines(path, _StoredLabel, "a label of an audit")
    labels = [stored.present() for stored in stored_labels]
    latest = {(label.item, label.by, label.settles): label for label in labels}
    return [label for label in latest.values() if label.label]


def import_audit_labels(source: Path, benchmark: Benchmark) -> tuple[int, int]:
    """Add the labels in a file, such as one that a rater's page saved, to those of a benchmark.

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
