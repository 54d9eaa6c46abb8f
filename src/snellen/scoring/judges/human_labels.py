"""What people say of replies: a sample of hard ones, labels in a file that only grows, readings to compare with.

labels.jsonl    one Label a line beside the run's journal; the last line of a rater about a reply counts
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from snellen.common.paths import as_word
from snellen.common.seeds import rng_for
from snellen.errors import DataError, StoreError
from snellen.extraction import named_extractors, semantic_matching
from snellen.formats.decoding import JSON_FAULTS
from snellen.models.base import ModelIdentity, load_model
from snellen.protocols.judge_matching import matching_prompts
from snellen.protocols.prediction import predict
from snellen.protocols.prompts.judge_prompts import shortened
from snellen.protocols.verdict import majority_verdict, replay_verdict
from snellen.records import Message, Response, Variant
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import read_manifest
from snellen.runs.spec import JudgeSpec
from snellen.scoring.judges.agreement import Agreement, Reading, agreement, krippendorff_alpha
from snellen.scoring.judges.ensemble import JUDGE, JudgeEnsemble
from snellen.scoring.unparsed import UnparsedReply, matching_item, prompt_version

LABELS = "labels.jsonl"
NONE = "X"
OF_JUDGE = "judge:"
"""Begins the `by` of a label that a model gave."""
SaidT = TypeVar("SaidT", Reading, str)
ReplyKey = tuple[str, str, str, Variant]
"""Benchmark, protocol, sample and presentation of a reply."""


class LabelItem(Struct, frozen=True):
    """One reply to be labelled, with its question as it was shown."""

    id: str
    """Digest of question, options, option_labels and reply: the same words need one label."""
    unparsed: UnparsedReply

    @property
    def option_labels(self) -> tuple[str, ...]:
        return matching_item(self.unparsed).labels


class HardItem(LabelItem, frozen=True):
    """The same with what each extractor makes of it, as a place."""

    readings: dict[str, Reading]

    @property
    def hard(self) -> bool:
        """The standard or the strict rules find no option, or two extractors find different ones."""
        readings = {place for place in self.readings.values() if place is not None}
        return self.readings["standard"] is None or self.readings["strict"] is None or len(readings) > 1


class HumanLabel(Struct, frozen=True, omit_defaults=True):
    """What one person says: an option label, X for "no option is meant", or nothing any more (after an undo)."""

    item: str
    label: str | None
    by: str = ""
    """Who says so; of a model that labels as a person would, its name after `judge:`."""
    sample_id: str = ""


def label_items(run: Path, only: Collection[ReplyKey] | None = None) -> Iterator[LabelItem]:
    """All replies of a run to questions with options, or only those to some presentations, one by one.

    Raises StoreError for a folder that is not a run.
    """
    manifest = read_manifest(run)
    samples = {
        (use.name, sample.id): sample
        for use in manifest.benchmarks
        for sample in reopen_benchmark(use, run).samples(use.selection)
    }
    for exchange in read_exchanges(run):
        request, response = exchange.request, exchange.response
        sample = samples.get((request.benchmark, request.sample_id))
        if sample is None or request.kind != "generate" or request.variant.step:
            continue  # a step is not a reply to the question
        if only is not None and (request.benchmark, exchange.protocol, sample.id, request.variant) not in only:
            continue
        if response.error or not shortened(response.text or ""):
            continue
        turn = sample.rounds[request.variant.turn]
        if not turn.options:
            continue
        yield label_item(UnparsedReply(predict(exchange.protocol, turn, request, response), turn, response.text or ""))


def label_item(reply: UnparsedReply) -> LabelItem:
    """A reply under the digest by which labels name it."""
    matching = matching_item(reply)
    content = msgspec.json.encode((matching.question, matching.options, matching.labels, matching.reply))
    return LabelItem(hashlib.blake2b(content, digest_size=8).hexdigest(), reply)


def hard_items(run: Path) -> Iterator[HardItem]:
    """All different replies of a run to questions with options. Raises StoreError for a folder that is not a run."""
    extractors = named_extractors()
    digests: set[str] = set()
    for item in label_items(run):
        if item.id in digests:
            continue
        digests.add(item.id)
        matching, variant = matching_item(item.unparsed), item.unparsed.prediction.variant
        readings = {
            name: extractor.read(matching.reply, matching.options, variant.labels).choice
            for name, extractor in extractors.items()
        }
        yield HardItem(item.id, item.unparsed, readings)


def hard_sample(run: Path, count: int, seed: int = 0) -> list[HardItem]:
    """At most `count` hard replies; a larger sample holds those of a smaller."""
    hard = [item for item in hard_items(run) if item.hard]
    return sorted(hard, key=lambda item: rng_for("agree", item.id, seed).random())[:count]


def read_labels(path: Path) -> dict[tuple[str, str], HumanLabel]:
    """The label that counts, by reply and rater. Raises StoreError for a line that is not a label."""
    labels: dict[tuple[str, str], HumanLabel] = {}
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
        try:
            label = msgspec.json.decode(line, type=HumanLabel)
        except JSON_FAULTS as error:
            raise StoreError(f"{path}:{number}: not a label ({error}); mend or remove the line") from None
        labels[label.item, label.by] = label
    return {key: label for key, label in labels.items() if label.label is not None}


def write_label(path: Path, label: HumanLabel) -> None:
    with path.open("ab") as file:
        file.write(msgspec.json.encode(label) + b"\n")


def import_labels(source: Path, run: Path) -> tuple[int, int]:
    """Add labels from a file to those of a run; how many fit a reply of it, and how many there are.

    A line names its reply by `item` (as labels.jsonl does) or by `sample_id`, and has a `label`: an option label that
    was shown, or X. Raises DataError for a line without either, or an option label that the question does not have.
    """
    everything = list(hard_items(run))
    by_id = {item.id: item for item in everything}
    by_sample: dict[str, list[HardItem]] = defaultdict(list)
    for item in everything:
        by_sample[item.unparsed.prediction.sample_id].append(item)
    labels, lines = [], source.read_bytes().splitlines()
    for number, line in enumerate(lines, 1):
        where = f"{source}:{number}"
        row = _row(line, where)
        matches = [by_id[row.item]] if row.item in by_id else by_sample.get(row.sample_id, [])
        if len(matches) > 1:
            raise DataError(f"{where}: {row.sample_id} has {len(matches)} different replies; name one by its item")
        for item in matches:
            if row.label not in (*item.option_labels, NONE):
                raise DataError(f"{where}: label {row.label!r} is not one of {', '.join(item.option_labels)} or {NONE}")
            labels.append(HumanLabel(item.id, row.label, row.by, item.unparsed.prediction.sample_id))
    for label in labels:
        write_label(run / LABELS, label)
    return len(labels), len(lines)


class _Row(Struct):
    label: str
    item: str = ""
    sample_id: str = ""
    by: str = ""


def _row(line: bytes, where: str) -> _Row:
    try:
        row = msgspec.json.decode(line, type=_Row)
    except JSON_FAULTS as error:
        raise DataError(f"{where}: not a label ({error})") from None
    if not row.item and not row.sample_id:
        raise DataError(f"{where}: names no reply; give item or sample_id")
    return row


def label_by_judges(run: Path, items: Sequence[LabelItem], spec: JudgeSpec, announce: Callable[[str], object]) -> str:
    """Have judges label replies, by majority, and return whom the labels are by. Raises what `JudgeEnsemble` raises."""
    panel = JudgeEnsemble([load_model(model) for model in spec.models], run, spec, announce)
    by = f"{OF_JUDGE}{panel.name} ({prompt_version(spec)})"
    given = read_labels(run / LABELS)
    rows = panel.verdicts([matching_item(item.unparsed, spec) for item in items])
    for item, verdict in zip(items, map(majority_verdict, rows), strict=True):
        if verdict.outcome in ("given", "none"):
            label = NONE if verdict.value is None else item.option_labels[verdict.value]
            if (item.id, by) not in given or given[item.id, by].label != label:
                write_label(run / LABELS, HumanLabel(item.id, label, by, item.unparsed.prediction.sample_id))
    return by


def people_of(items: Sequence[HardItem], labels: Mapping[tuple[str, str], HumanLabel]) -> dict[str, list[Reading]]:
    """What people said, by reply, as places."""
    option_labels = {item.id: item.option_labels for item in items}
    readings: dict[str, list[Reading]] = defaultdict(list)
    for (item, by), label in labels.items():
        if item in option_labels and not by.startswith(OF_JUDGE):
            readings[item].append(None if label.label == NONE else option_labels[item].index(label.label or ""))
    return dict(readings)


def agreement_study(run: Path, *, seed: int = 0, meaning: bool = False) -> tuple[list[Agreement], float | None]:
    """Agreement of every extractor, and of every judge with verdicts in the run, with what people said.

    Where several people labelled a reply their majority counts; a tie leaves the reply out. The second value is
    Krippendorff's alpha among people, None for one rater. Raises DataError where nothing is labelled.
    """
    everything = list(hard_items(run))
    readings_of_people = people_of(everything, read_labels(run / LABELS))
    agreed = {item: reading for item, readings in readings_of_people.items() for reading in said_by_most(readings)}
    labelled = [item for item in everything if item.id in agreed]
    if not labelled:
        raise DataError(
            f"{run}: no reply is labelled yet; run `snellen agree {as_word(run)}` in a terminal, or give --labels"
        )
    rows = []
    for name, readings in _readers(run, labelled, meaning):
        heard = [item for item in labelled if item.id in readings]
        pairs = [(readings[item.id], agreed[item.id]) for item in heard]
        groups = [f"{i.unparsed.prediction.benchmark} {i.unparsed.prediction.sample_id}" for i in heard]
        if pairs:
            rows.append(agreement(name, pairs, groups, rng_for("agree", name, "bootstrap", seed)))
    several = [readings for readings in readings_of_people.values() if len(readings) > 1]
    return rows, krippendorff_alpha(several) if several else None


def said_by_most(said: Sequence[SaidT]) -> Iterator[SaidT]:
    """What most say; nothing where two are said equally often."""
    ranked = Counter(said).most_common(2)
    if len(ranked) == 1 or ranked[0][1] > ranked[1][1]:
        yield ranked[0][0]


def _readers(run: Path, items: Sequence[HardItem], meaning: bool) -> Iterator[tuple[str, dict[str, Reading]]]:
    for name in named_extractors():
        yield name, {item.id: item.readings[name] for item in items}
    if meaning:
        open_items = [item for item in items if item.unparsed.prediction.reason == "no match"]
        near = semantic_matching.nearest([(shortened(item.unparsed.reply), item.unparsed.shown) for item in open_items])
        yield (
            semantic_matching.VERSION,
            {item.id: nearest.chosen() for item, nearest in zip(open_items, near, strict=True)},
        )
    for path in sorted(run.glob(f"judge-*/{JUDGE}")):
        judge = msgspec.json.decode(path.read_bytes(), type=ModelIdentity)
        responses = _answers(path.parent)
        for prompt, version in matching_prompts().items():
            yield f"{judge.name} ({version})", dict(_verdicts(items, JudgeSpec(prompt=prompt), responses))


def _answers(folder: Path) -> dict[tuple[Message, ...], Response]:
    """A judge's responses by what it was told, whatever the longest verdict was set to."""
    return {e.request.messages: e.response for e in read_exchanges(folder) if e.response.error is None}


def _verdicts(
    items: Iterable[HardItem], spec: JudgeSpec, responses: dict[tuple[Message, ...], Response]
) -> Iterator[tuple[str, Reading]]:
    for item in items:
        verdict = replay_verdict(
            matching_item(item.unparsed, spec).start(), lambda request: responses.get(request.messages)
        )
        if verdict is not None and not verdict.failed:
            yield item.id, verdict.value
