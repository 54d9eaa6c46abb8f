"""Labels that people give to replies: which replies to label, and the file of labels.

labels.jsonl    one HumanLabel per line next to the run's journal; the last line of a rater about a reply counts
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.formats.json_files import kept_lines
from snellen.protocols.prediction import predict
from snellen.protocols.prompts.role_prompts import shortened
from snellen.records import Variant
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import read_manifest
from snellen.scoring.unparsed import UnparsedReply

LABELS_FILE = "labels.jsonl"
"""The file of labels in the folder of a run."""
NO_OPTION = "X"
"""The label for "no option is meant"."""
ReplyKey = tuple[str, str, str, Variant]
"""Benchmark, protocol, sample and presentation of a reply."""

# --- replies to label ------------------------------------------------------------------------------------------------


class LabelItem(Struct, frozen=True):
    """A reply to label, with its question as it was shown.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> folder = results.runs[0].folder
        >>> item = next(label_items(folder))
        >>> item.option_labels
        ('A', 'B', 'C', 'D')
    """

    id: str
    """Digest of question, options, option labels and reply: equal text needs one label."""
    unparsed: UnparsedReply

    @property
    def option_labels(self) -> tuple[str, ...]:
        """Labels of the options, as they were shown."""
        return self.unparsed.judge_task().labels


def label_items(run: Path, only: Collection[ReplyKey] | None = None) -> Iterator[LabelItem]:
    """Yield the replies of a run to questions with options.

    Args:
        run: Folder of the run.
        only: The presentations to yield; all if None.

    Raises:
        StoreError: The folder is not a run.


    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> len(list(label_items(results.runs[0].folder)))
        4
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
    """Return a reply that a person is to label, with an identifier made from its question, options and text."""
    task = reply.judge_task()
    content = (task.question, task.options, task.labels, task.reply)
    digest = hashlib.blake2b(msgspec.json.encode(content), digest_size=8).hexdigest()
    return LabelItem(digest, reply)


# --- the file of labels ----------------------------------------------------------------------------------------------


class HumanLabel(Struct, frozen=True, omit_defaults=True):
    """The label that a rater gave to a reply.

    Examples:
        >>> HumanLabel("5f1c", "B", by="ann").label
        'B'
    """

    item: str
    """`LabelItem.id` of the reply."""
    label: str | None
    """A label of an option, X for "no option is meant", or None to undo an earlier label."""
    by: str = ""
    """The rater; for a model that labels as a person would, its name after `judge:`."""
    sample_id: str = ""


def read_labels(path: Path) -> dict[tuple[str, str], HumanLabel]:
    """Read a file of labels that people gave to replies.

    A later label replaces an earlier one by the same person on the same reply. A label of null removes it.

    Returns:
        The labels by (identifier of the reply, name of the person).

    Raises:
        StoreError: A line is not a label.

    Examples:
        >>> line = '{"item": "5f1c", "label": "B", "by": "ann"}'
        >>> _ = Path("labels.jsonl").write_text(line + "\\n")
        >>> read_labels(Path("labels.jsonl"))["5f1c", "ann"].label
        'B'
    """
    latest: dict[tuple[str, str], HumanLabel] = {}
    for label in kept_lines(path, HumanLabel, "a label"):
        latest[label.item, label.by] = label
    return {key: label for key, label in latest.items() if label.label is not None}
