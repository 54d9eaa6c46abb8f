"""How far readers of replies agree with people, with intervals; what people said; and where they do not (MMBench 4.3).

labels.jsonl    one Label a line beside the run's journal; the last line of a rater about a reply counts

A reading is the place of an option in the order shown, or None for "no option is meant".
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.foreign import read_file
from snellen.common.paths import as_word, home
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.extraction import named_extractors
from snellen.extraction.hard_replies import HardReply, hard_replies
from snellen.formats.json_files import JSON_FAULTS, add_lines, kept_lines
from snellen.models.base import AsyncModel, Model
from snellen.models.identity import ModelIdentity
from snellen.models.loading import load_model
from snellen.protocols.prediction import predict
from snellen.protocols.prompts.rendering import labels_for
from snellen.protocols.prompts.role_prompts import shortened
from snellen.protocols.verdict import (
    Verdict,
    majority_verdict,
    matching_prompt,
    matching_prompts,
    replay_verdict,
)
from snellen.records import Message, Prediction, Response, Turn, Variant
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import read_manifest
from snellen.runs.spec import JudgeSpec
from snellen.scoring.judges import DEFAULT_JUDGE, JUDGE, JudgeEnsemble
from snellen.scoring.unparsed import UnparsedReply, matching_item

RESAMPLES = 1000
Reading = int | None
Pair = tuple[Reading, Reading]
"""What one said of a reply, and what the other said."""
Statistic = Callable[[Sequence[Pair]], float | None]


class AgreementInterval(Struct, frozen=True):
    """A statistic with its 95% bootstrap interval; None where it is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Agreement(Struct, frozen=True):
    """One reader of replies against people."""

    reader: str
    n: int
    """Labelled replies that it was asked about."""
    share: AgreementInterval
    kappa: AgreementInterval
    alpha: AgreementInterval
    case_one: int
    """Disagreements in which one side says that no option is meant."""
    case_two: int
    """Disagreements between two options."""


def agreement(
    reader: str, pairs: Sequence[Pair], groups: Sequence[str], rng: random.Random
) -> Agreement:
    """Agreement of (reader, people) pairs; replies of one group (a question) are drawn together."""
    differ = [
        (said_by_reader, said_by_people)
        for said_by_reader, said_by_people in pairs
        if said_by_reader != said_by_people
    ]
    case_one = sum(None in pair for pair in differ)
    share, kappa, alpha = bootstrap_agreement(
        pairs, groups, (observed, cohen_kappa, krippendorff_alpha), rng
    )
    return Agreement(reader, len(pairs), share, kappa, alpha, case_one, len(differ) - case_one)


def observed(pairs: Sequence[Pair]) -> float | None:
    """Share of the pairs that agree, 0 to 1."""
    return sum(first == second for first, second in pairs) / len(pairs) if pairs else None


def cohen_kappa(pairs: Sequence[Pair]) -> float | None:
    """Cohen's kappa (1960): (observed - expected) / (1 - expected), at most 1; 0 is chance.

    None where both sides say one and the same throughout, so that there is nothing to agree about.
    """
    n = len(pairs)
    if not n:
        return None
    first: Counter[Reading] = Counter()
    second: Counter[Reading] = Counter()
    for (said_by_first, said_by_second), count in Counter(pairs).items():
        first[said_by_first] += count
        second[said_by_second] += count
    expected = sum(count * second[value] for value, count in first.items()) / n**2
    if expected >= 1:
        return None
    return ((observed(pairs) or 0.0) - expected) / (1 - expected)


def krippendorff_alpha(units: Sequence[Sequence[Reading]]) -> float | None:
    """Krippendorff's alpha for nominal values: 1 - observed / expected disagreement, at most 1; 0 is chance.

    A unit holds what each rater said of one reply; units of one rating count for nothing. None where all ratings
    are the same, or none can be compared.
    """
    total: Counter[Reading] = Counter()
    apart = 0.0
    for unit, times in Counter(map(tuple, units)).items():
        size = len(unit)
        if size < 2:
            continue
        counts = Counter(unit)
        for value, count in counts.items():
            total[value] += times * count
        apart += times * (size**2 - sum(count**2 for count in counts.values())) / (size - 1)
    n = total.total()
    expected = n**2 - sum(count**2 for count in total.values())
    return 1 - (n - 1) * apart / expected if expected else None


def bootstrap_agreement(
    pairs: Sequence[Pair],
    groups: Sequence[str],
    statistics: Sequence[Statistic],
    rng: random.Random,
) -> list[AgreementInterval]:
    """Each statistic with the 2.5th and 97.5th percentile over resamples of whole groups."""
    order = sorted(range(len(pairs)), key=lambda i: groups[i])
    clusters = [
        [pairs[i] for i in members] for _, members in groupby(order, key=lambda i: groups[i])
    ]
    resampled: list[list[float]] = [[] for _ in statistics]
    for _ in range(RESAMPLES if len(clusters) > 1 else 0):
        resample = [pair for cluster in rng.choices(clusters, k=len(clusters)) for pair in cluster]
        for values, statistic in zip(resampled, statistics, strict=True):
            if (value := statistic(resample)) is not None:
                values.append(value)
    return [
        AgreementInterval(statistic(pairs), *percentile_interval(values))
        for statistic, values in zip(statistics, resampled, strict=True)
    ]


def percentile_interval(values: list[float]) -> tuple[float | None, float | None]:
    """The 2.5th and the 97.5th, nearest rank; sorts what it is given."""
    if not values:
        return None, None
    values.sort()
    last = len(values) - 1
    return values[round(0.025 * last)], values[round(0.975 * last)]


def agreement_sentence(row: Agreement) -> str:
    """One line: agreement, kappa, and the two cases of disagreement."""
    if not row.n:
        return f"{row.reader} gave no verdict on the labelled hard replies"
    share, kappa = agreement_interval_text(row.share), agreement_interval_text(row.kappa)
    return (
        f"{row.reader} agrees with people on {share} of {row.n} labelled hard replies, kappa {kappa}; disagreements: "
        f"{row.case_one} about none (case I), {row.case_two} between options (case II)"
    )


def agreement_interval_text(interval: AgreementInterval) -> str:
    """`0.87 [0.82, 0.91]`, or a dash for what is not defined."""
    if interval.value is None:
        return "-"
    if interval.low is None or interval.high is None:
        return f"{interval.value:.2f}"
    return f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


# --- calibration on the labelled hard replies of the package ---------------------------------------------------------


def calibrate(
    judges: Sequence[Model | AsyncModel],
    spec: JudgeSpec = DEFAULT_JUDGE,
    announce: Callable[[str], object] = lambda line: None,
) -> list[Agreement]:
    """Agreement of each judge with the labels of the held-out half; replies without a verdict are left out of its n.

    `spec` says how they are asked, whatever models it names and however often they may fail. Verdicts are kept under
    $SNELLEN_HOME, so that a judge is asked once. Raises what a panel raises.
    """
    replies = hard_replies(held_out=True)
    panel = JudgeEnsemble(judges, home() / "calibration", replace(spec, failures=1.0), announce)
    rows = panel.verdicts([matching_item(as_unparsed(hard), spec) for hard in replies])
    version = matching_prompt(spec.prompt)
    return [
        _of_judge(f"{judge.name} ({version})", replies, column)
        for judge, column in zip(judges, zip(*rows, strict=True), strict=True)
    ]


def as_unparsed(hard: HardReply) -> UnparsedReply:
    """A labelled reply as scoring would find it."""
    labels = labels_for("upper", len(hard.options))
    variant = Variant(order=tuple(range(len(hard.options))), labels=labels)
    prediction = Prediction(
        "calibration", "generation", "calibration", hard.id, variant, "", reason="no match"
    )
    return UnparsedReply(prediction, Turn(hard.question, hard.options), hard.reply)


def _of_judge(name: str, replies: Sequence[HardReply], verdicts: Sequence[Verdict]) -> Agreement:
    heard = [
        (hard, verdict)
        for hard, verdict in zip(replies, verdicts, strict=True)
        if not verdict.failed
    ]
    pairs = [(verdict.value, hard.expected) for hard, verdict in heard]
    return _agreement(name, pairs, [hard.group for hard, _ in heard])


def _agreement(name: str, pairs: Sequence[Pair], groups: Sequence[str]) -> Agreement:
    return agreement(name, pairs, groups, rng_for("calibration", name, "bootstrap"))


# --- what people say of replies: a sample of hard ones, labels in a file that only grows, readings to compare with ----


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
        return (
            self.readings["standard"] is None
            or self.readings["strict"] is None
            or len(readings) > 1
        )


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
        if (
            only is not None
            and (request.benchmark, exchange.protocol, sample.id, request.variant) not in only
        ):
            continue
        if response.error or not shortened(response.text or ""):
            continue
        turn = sample.rounds[request.variant.turn]
        if not turn.options:
            continue
        yield label_item(
            UnparsedReply(
                predict(exchange.protocol, turn, request, response), turn, response.text or ""
            )
        )


def label_item(reply: UnparsedReply) -> LabelItem:
    """A reply under the digest by which labels name it."""
    matching = matching_item(reply)
    content = msgspec.json.encode(
        (matching.question, matching.options, matching.labels, matching.reply)
    )
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
    labels = {(label.item, label.by): label for label in kept_lines(path, HumanLabel, "a label")}
    return {key: label for key, label in labels.items() if label.label is not None}


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
    labels, lines = list[HumanLabel](), read_file(source).splitlines()
    for number, line in enumerate(lines, 1):
        where = f"{source}:{number}"
        row = _row(line, where)
        matches = [by_id[row.item]] if row.item in by_id else by_sample.get(row.sample_id, [])
        if len(matches) > 1:
            raise DataError(
                f"{where}: {row.sample_id} has {len(matches)} different replies; name one by its item"
            )
        for item in matches:
            if row.label not in (*item.option_labels, NONE):
                raise DataError(
                    f"{where}: label {row.label!r} is not one of {', '.join(item.option_labels)} or {NONE}"
                )
            labels.append(
                HumanLabel(item.id, row.label, row.by, item.unparsed.prediction.sample_id)
            )
    add_lines(run / LABELS, *labels)
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


def label_by_judges(
    run: Path, items: Sequence[LabelItem], spec: JudgeSpec, announce: Callable[[str], object]
) -> str:
    """Have judges label replies, by majority, and return whom the labels are by. Raises what `JudgeEnsemble` raises."""
    panel = JudgeEnsemble([load_model(model) for model in spec.models], run, spec, announce)
    by = f"{OF_JUDGE}{panel.name} ({matching_prompt(spec.prompt)})"
    labels = read_labels(run / LABELS)
    rows = panel.verdicts([matching_item(item.unparsed, spec) for item in items])
    for item, verdict in zip(items, map(majority_verdict, rows), strict=True):
        if verdict.outcome in ("given", "none"):
            label = NONE if verdict.value is None else item.option_labels[verdict.value]
            if (item.id, by) not in labels or labels[item.id, by].label != label:
                add_lines(
                    run / LABELS, HumanLabel(item.id, label, by, item.unparsed.prediction.sample_id)
                )
    return by


def people_of(
    items: Sequence[HardItem], labels: Mapping[tuple[str, str], HumanLabel]
) -> dict[str, list[Reading]]:
    """What people said, by reply, as places. Raises DataError for an option label that the question does not have."""
    option_labels = {item.id: item.option_labels for item in items}
    readings: dict[str, list[Reading]] = defaultdict(list)
    for (item, by), label in labels.items():
        if item in option_labels and not by.startswith(OF_JUDGE):
            readings[item].append(_reading(label, option_labels[item]))
    return dict(readings)


def _reading(label: HumanLabel, option_labels: Sequence[str]) -> Reading:
    if label.label == NONE:
        return None
    if label.label not in option_labels:
        raise DataError(
            f"{LABELS}: the label {label.label!r} of the reply {label.item} is not one of {', '.join(option_labels)} "
            f"or {NONE}; add a line with another, or with null to undo it"
        )
    return option_labels.index(label.label)


def agreement_study(run: Path, *, seed: int = 0) -> tuple[list[Agreement], float | None]:
    """Agreement of every extractor, and of every judge with verdicts in the run, with what people said.

    Where several people labelled a reply their majority counts; a tie leaves the reply out. The second value is
    Krippendorff's alpha among people, None for one rater. Raises DataError where nothing is labelled.
    """
    everything = list(hard_items(run))
    readings_of_people = people_of(everything, read_labels(run / LABELS))
    agreed = {
        item: reading
        for item, readings in readings_of_people.items()
        for reading in said_by_most(readings)
    }
    labelled = [item for item in everything if item.id in agreed]
    if not labelled:
        raise DataError(
            f"{run}: no reply is labelled yet; run `snellen agree {as_word(run)}` in a terminal, or give --labels"
        )
    rows = []
    for name, readings in _readers(run, labelled):
        heard = [item for item in labelled if item.id in readings]
        pairs = [(readings[item.id], agreed[item.id]) for item in heard]
        groups = [
            f"{i.unparsed.prediction.benchmark} {i.unparsed.prediction.sample_id}" for i in heard
        ]
        if pairs:
            rows.append(agreement(name, pairs, groups, rng_for("agree", name, "bootstrap", seed)))
    several = [readings for readings in readings_of_people.values() if len(readings) > 1]
    return rows, krippendorff_alpha(several) if several else None


def said_by_most(readings: Sequence[SaidT]) -> Iterator[SaidT]:
    """What most say; nothing where two are said equally often."""
    ranked = Counter(readings).most_common(2)
    if len(ranked) == 1 or ranked[0][1] > ranked[1][1]:
        yield ranked[0][0]


def _readers(run: Path, items: Sequence[HardItem]) -> Iterator[tuple[str, dict[str, Reading]]]:
    for name in named_extractors():
        yield name, {item.id: item.readings[name] for item in items}
    for path in sorted(run.glob(f"judge-*/{JUDGE}")):
        judge = msgspec.json.decode(read_file(path), type=ModelIdentity)
        responses = _answers(path.parent)
        for prompt, version in matching_prompts().items():
            yield (
                f"{judge.name} ({version})",
                dict(_verdicts(items, JudgeSpec(prompt=prompt), responses)),
            )


def _answers(folder: Path) -> dict[tuple[Message, ...], Response]:
    """A judge's responses by what it was told, whatever the longest verdict was set to."""
    return {
        e.request.messages: e.response for e in read_exchanges(folder) if e.response.error is None
    }


def _verdicts(
    items: Iterable[HardItem], spec: JudgeSpec, responses: dict[tuple[Message, ...], Response]
) -> Iterator[tuple[str, Reading]]:
    for item in items:
        verdict = replay_verdict(
            matching_item(item.unparsed, spec).start(),
            lambda request: responses.get(request.messages),
        )
        if verdict is not None and not verdict.failed:
            yield item.id, verdict.value
