"""What the labels of a run's drawn replies say: how often replies were misread, and its numbers corrected by that."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen.plugin_api import (
    AFTER_AUDIT,
    ALL,
    AS_READ,
    CAPABILITY,
    CONFIDENCE,
    HEADLINE,
    JUDGE_LABELLER,
    LABELS_FILE,
    NO_OPTION,
    TASK_CAPABILITY,
    BenchmarkSpec,
    Estimate,
    Method,
    NumberCorrection,
    Result,
    Sample,
    ScoredRun,
    declared,
    headline_rows,
    headlines_of,
    labels_for,
    read_labels,
)
from snellen_lab.agreement.readers import majority_votes
from snellen_lab.audit.draw import AuditDesign, DrawnReply, read_design
from snellen_lab.audit.estimate import AuditedPart, Tree, cell_of, corrected_number
from snellen_lab.audit.population import (
    WORDLESS,
    Meaning,
    Meanings,
    audited_protocols,
    reading_of,
    reply_key,
    why_not_audited,
)

# --- the audit of a run ----------------------------------------------------------------------------------------------


class ReadingError(Struct, frozen=True):
    """How often replies that were read in one way were misread: another option than the label says, or one or none."""

    reading: str
    replies: int
    labelled: int
    misread: int
    share: float | None
    """Of all of them, as estimated; None without labels."""
    at_most: float
    """With 95% confidence."""


class Audit(Struct, frozen=True):
    """What the labels of a run's drawn replies say."""

    design: AuditDesign
    drawn: int
    """How many replies of the run, as it is narrowed to some questions, were drawn."""
    raters: tuple[str, ...]
    """Who labelled; models after `judge:`."""
    labelled: int
    """Of the drawn replies, as far as labelling came."""
    readings: tuple[ReadingError, ...]
    meanings: Meanings


def audit_of(run: ScoredRun, by: str | None = None) -> Audit | None:
    """The audit of a run by labels of people (several: what most say), or where there are none those of judges.

    `by` is the one whose labels alone count. None where nothing was drawn or labelled, or the run was asked more since.
    Of a run that is narrowed to some questions it is what the labels of their replies say.
    """
    design = read_design(run.folder)
    if design is None or not design.is_of(run.folder):
        return None
    drawn = design.drawn_in(run)
    raters, labels = labels_that_count(run.folder, {reply.item for reply in drawn}, by)
    samples = {scored.spec.name: scored.samples for scored in run.benchmarks}
    meanings = {
        reply.key: Meaning(
            _option_meant(reply, samples[reply.benchmark][reply.sample_id], labels[reply.item]),
            1 / reply.probability,
        )
        for reply in labelled_beginning(drawn, labels)
        if labels.get(reply.item)
    }
    if not meanings:
        return None
    return Audit(
        design, len(drawn), raters, len(meanings), tuple(_reading_errors(run, meanings)), meanings
    )


def labelled_beginning(drawn: Sequence[DrawnReply], items: Container[str]) -> Sequence[DrawnReply]:
    """The beginning of a draw up to where labelling stopped, that is, the longest of which nine in ten are labelled.

    What was labelled after it was chosen in some other way: replies that are hard to read, by `snellen agree`.
    """
    labelled = accumulate(reply.item in items for reply in drawn)
    return drawn[: max((n for n, count in enumerate(labelled, 1) if count >= 0.9 * n), default=0)]


def labels_that_count(
    run: Path, items: set[str], by: str | None = None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Who labelled these replies, and what most of them say of each; nothing where as many say something else."""
    given = {
        key: label.label or NO_OPTION
        for key, label in read_labels(run / LABELS_FILE).items()
        if key[0] in items
    }
    everybody = {rater for _, rater in given}
    people = {rater for rater in everybody if not rater.startswith(JUDGE_LABELLER)}
    raters = {by} & everybody if by is not None else people or everybody
    said: dict[str, list[str]] = defaultdict(list)
    for (item, rater), label in given.items():
        if rater in raters:
            said[item].append(label)
    return tuple(sorted(raters)), {
        item: next(majority_votes(labels), "") for item, labels in said.items()
    }


def _option_meant(reply: DrawnReply, sample: Sample, label: str) -> int | None:
    options = sample.rounds[reply.variant.turn].options
    labels = reply.variant.labels or labels_for("upper", len(options))
    return (
        None
        if label == NO_OPTION
        else (reply.variant.order or range(len(options)))[labels.index(label)]
    )


def _reading_errors(run: ScoredRun, meanings: Meanings) -> Iterator[ReadingError]:
    counts: dict[str, int] = defaultdict(int)
    labels: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for reply in (
        reply
        for audited in audited_protocols(run)
        for unit in audited.units
        for reply in unit.replies
    ):
        reading = reading_of(reply)
        counts[reading] += 1
        if meaning := meanings.get(reply_key(reply)):
            labels[reading].append((meaning.weight, float(meaning.choice != reply.choice)))
    for reading in sorted(counts.keys() - {WORDLESS}):
        count, own = counts[reading], labels[reading]
        misread = cell_of(1.0, False, own)
        n_misread = sum(wrong == 1 for _, wrong in own)
        at_most = min(
            most_misread(misread.right, misread.labelled), (n_misread + count - len(own)) / count
        )
        yield ReadingError(
            reading, count, len(own), n_misread, misread.right if own else None, at_most
        )


def most_misread(share: float, labelled: float) -> float:
    """The greatest share by which so few misread replies would still be drawn with a probability of 5%.

    Clopper and Pearson's (1934) one-sided limit, 1 - 0.05^(1/n) where none is; for an effective number of labels as
    Korn and Graubard (1998), in whole replies.
    """
    n = math.floor(labelled + 1e-9)
    wrong = math.ceil(share * n - 1e-9)
    low, high = share, 1.0
    while wrong < n and high - low > 1e-9:
        middle = (low + high) / 2
        below = math.fsum(_binomial(k, n, middle) for k in range(wrong + 1))
        low, high = (middle, high) if below > 1 - CONFIDENCE else (low, middle)
    return high


def _binomial(k: int, n: int, share: float) -> float:
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(share) + (n - k) * math.log1p(-share))


# --- corrected numbers -----------------------------------------------------------------------------------------------


class Uncorrected(Struct, frozen=True):
    """A headline that labels cannot correct."""

    row: Result
    why: str


def corrected_rows(run: ScoredRun, rows: Sequence[Result], audit: Audit | None) -> Iterator[Result]:
    """A corrected row beside each of a run's `rows` that labels of replies can correct; none without an audit."""
    if audit is not None:
        corrections = _Corrections(run, rows, audit.meanings)
        yield from (corrected for row in rows if (corrected := corrections.of(row)) is not None)


def with_corrections(run: ScoredRun, rows: Sequence[Result]) -> list[Result]:
    """Return a run's rows with each number that its audit corrects in place of the number as read, which is kept.

    So the corrected number is what every sentence, table, export and comparison shows. The number as read is in a row
    of its own, `NAME_as_read`.
    """
    corrected = {}
    for row in corrected_rows(run, rows, audit_of(run)):
        corrected[_number_of(row, row.metric.removesuffix(AFTER_AUDIT))] = row.estimate
    found: list[Result] = []
    for row in rows:
        estimate = corrected.get(_number_of(row, row.metric))
        if estimate is None:
            found.append(row)
        else:
            found.append(replace(row, estimate=estimate))
            found.append(replace(row, metric=row.metric + AS_READ))
    return found


def audited_numbers(run: ScoredRun) -> Callable[[str, str, str], Estimate | None]:
    """Return how to look up the corrected numbers of single benchmarks of a run."""
    return BenchmarkCorrections(run, audit_of(run)).estimate


CORRECTION = NumberCorrection(with_corrections, audited_numbers)


def _number_of(row: Result, metric: str) -> tuple[str, ...]:
    return row.benchmark, row.dimension, row.slice, row.protocol, row.method, metric


def uncorrected_headlines(
    run: ScoredRun, rows: Sequence[Result], audit: Audit
) -> Iterator[Uncorrected]:
    """The headlines of a run without a corrected row, and why."""
    corrections = _Corrections(run, rows, audit.meanings)
    scored_by_name = {scored.spec.name: scored for scored in run.benchmarks}
    for row in rows:
        scored = scored_by_name.get(row.benchmark)
        if (
            row.slice
            or row.estimate.value is None
            or scored is None
            or row.metric not in headlines_of(scored)
        ):
            continue
        if row.method != "generation":
            yield Uncorrected(row, "a likelihood is no reply that could be misread")
        elif corrections.of(row) is None:
            why = why_not_audited(scored, row.protocol, row.metric)
            yield Uncorrected(row, why or "too few of the labelled replies tell what it would be")


class BenchmarkCorrections:
    """The numbers of single benchmarks of a run as its audit corrects them; none without an audit."""

    def __init__(self, run: ScoredRun, audit: Audit | None) -> None:
        self._audit = audit
        self._protocols = {}
        if audit is not None:
            for audited in audited_protocols(run):
                self._protocols[audited.benchmark, audited.protocol] = audited

    def estimate(self, benchmark: str, protocol: str, metric: str) -> Estimate | None:
        """Return the corrected number of a benchmark, or None if labels do not correct it."""
        audited = self._protocols.get((benchmark, protocol))
        if self._audit is None or audited is None:
            return None
        part = audited.part(metric, self._audit.meanings)
        if part is None:
            return None
        estimate = corrected_number([[[part]]], declared(metric).bounds)
        return None if estimate.value is None else estimate


class _Corrections:
    """The corrected numbers of a run by these labels."""

    def __init__(self, run: ScoredRun, rows: Sequence[Result], meanings: Meanings) -> None:
        self._run, self._rows, self._meanings = run, rows, meanings
        self._protocols = {
            (audited.benchmark, audited.protocol): audited for audited in audited_protocols(run)
        }
        self._parts: dict[tuple[str, str, str], AuditedPart | None] = {}

    def of(self, row: Result) -> Result | None:
        """The corrected row beside one; None where labels of replies cannot correct it."""
        if (
            row.method != "generation"
            or row.estimate.value is None
            or row.convention != "standard"
            or row.detail
        ):
            return None
        if (row.slice and row.metric != TASK_CAPABILITY) or declared(row.metric).secondary_to:
            return None
        members = self._members(row)
        parts = [self._part(member) for member in members]
        known = [part for part in parts if part is not None]
        if not members or len(known) < len(members):
            return None
        bounds = declared(members[0].metric).bounds
        estimate, own = corrected_number(self._tree(row, members, known), bounds), row.estimate
        if estimate.value is None:
            return None
        counts = {
            name: getattr(own, name) for name in ("n", "unscored", "errors", "absent", "not_asked")
        }
        return replace(row, metric=row.metric + AFTER_AUDIT, estimate=replace(estimate, **counts))

    def _part(self, row: Result) -> AuditedPart | None:
        key = row.benchmark, row.protocol, row.metric
        if key not in self._parts:
            audited = self._protocols.get(key[:2])
            self._parts[key] = audited.part(row.metric, self._meanings) if audited else None
        return self._parts[key]

    def _members(self, row: Result) -> list[Result]:
        """The numbers of single benchmarks that a number is made of, in the order of their names."""
        if row.benchmark != ALL:
            return [row]
        if row.metric in (HEADLINE, CAPABILITY, TASK_CAPABILITY):
            own = self._headlines.get(row.method, [])
            tasks = {
                scored.spec.name: f"task={scored.spec.task}" for scored in self._run.benchmarks
            }
            own = [each for each in own if row.slice in ("", tasks.get(each.benchmark))]
        else:
            own = [
                each
                for each in self._rows
                if (each.protocol, each.metric, each.slice) == (row.protocol, row.metric, "")
                and each.benchmark in self._specs
                and each.estimate.value is not None
            ]
        inside = (
            each for each in own if row.dimension in (ALL, self._specs[each.benchmark].dimension)
        )
        return sorted(inside, key=lambda each: each.benchmark)

    @cached_property
    def _specs(self) -> Mapping[str, BenchmarkSpec]:
        return {scored.spec.name: scored.spec for scored in self._run.benchmarks}

    @cached_property
    def _headlines(self) -> Mapping[Method, list[Result]]:
        return headline_rows(self._run, self._rows)

    def _tree(self, row: Result, members: Sequence[Result], parts: Sequence[AuditedPart]) -> Tree:
        """What counts alike in it: questions, benchmarks or dimensions."""
        if row.over == "questions":
            return [[parts]]
        if row.over != "dimensions":
            return [[[part] for part in parts]]
        by_dimension: dict[str, list[list[AuditedPart]]] = defaultdict(list)
        for member, part in zip(members, parts, strict=True):
            by_dimension[member.dimension].append([part])
        return list(by_dimension.values())
