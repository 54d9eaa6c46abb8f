"""Accuracies corrected by labels (prediction-powered inference, Angelopoulos et al. 2023), and how wrong the reader is.

The replies of an accuracy lie in cells: by how they were read, and whether they were scored as right. In each cell the
labels estimate which share is right in truth. The corrected accuracy is the sum over cells of weight times that share:
a difference estimator stratified after the draw, so that a reader who tells nothing costs nothing beside an estimate
from labels alone. Two things make its interval: other questions might have been asked (by picture, `estimate_mean`),
and other replies drawn (by cell, Wilson's, which keeps its width where no reply was misread).
`bench/audit_coverage.py` measures how often it holds the truth.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.audit.draw import AuditDesign, DrawnReply, read_design
from snellen.analysis.audit.population import HEADLINE, WORDLESS, AuditedAccuracy, audited_accuracies
from snellen.analysis.capability import ALL
from snellen.analysis.statistics import CONFIDENCE, estimate_mean, margins, mean_of_estimates, wilson
from snellen.metrics.declaration import Metric, share
from snellen.protocols.prompts.rendering import labels_for
from snellen.records import Estimate, Result, Sample
from snellen.scoring.agreement import LABELS, NONE, OF_JUDGE, ReplyKey, read_labels, said_by_most
from snellen.scoring.scored_run import ScoredRun

AUDITED = "accuracy_audited"
AUDITED_METRIC = Metric(
    what="accuracy corrected by labels of a drawn part of the replies (`snellen audit`)",
    rows=(
        share(
            AUDITED, "accuracy after audit", scale="", unparsed="counted", secondary_to=HEADLINE, label="after audit"
        ),
    ),
)


class Meaning(Struct, frozen=True):
    """What a label says of a drawn reply."""

    choice: int | None
    """The option meant, by identity, or None for none."""
    weight: float
    """How many replies it stands for: 1 / the probability with which it was drawn."""


Meanings = Mapping[ReplyKey, Meaning]


class ReadingCell(Struct, frozen=True):
    """Replies that were read in one way and are all scored as right, or all as wrong."""

    weight: float
    """The part of the accuracy that they are."""
    right: float
    """By labels, the share of them that is right; as scored where none was labelled."""
    labelled: float = 0.0
    """How many labels say so, if all had the same weight (Kish); infinite where none is needed."""
    drawn: float = 0.0
    """The sum of the labels' weights."""

    @property
    def margins(self) -> tuple[float, float]:
        """How far the share may lie below and above, in parts of the accuracy."""
        if math.isinf(self.labelled):
            return 0.0, 0.0
        low, high = wilson(self.right, self.labelled) if self.labelled else (0.0, 1.0)
        return self.weight * (self.right - low), self.weight * (high - self.right)


def cell_of(weight: float, scored_right: bool, labels: Sequence[tuple[float, float]]) -> ReadingCell:
    """The cell of so much weight; `labels` are pairs of a weight, and 1 for right in truth or 0."""
    drawn = math.fsum(own for own, _ in labels)
    if not drawn:
        return ReadingCell(weight, float(scored_right))
    right = math.fsum(own * truth for own, truth in labels) / drawn
    return ReadingCell(weight, min(1.0, right), drawn**2 / math.fsum(own**2 for own, _ in labels), drawn)


def with_reading_error(linearised: Estimate, expected: Estimate, cells: Sequence[ReadingCell]) -> Estimate:
    """The corrected accuracy with its interval: on either side the wider one of two margins.

    `linearised` is the mean over questions of what the cells expect of each, and what each label adds to its question:
    its spread over pictures is that of both samples together, whatever questions about one picture have in common.
    `expected` is the mean without what labels add; its margins and those of the cells add up (MOVER).
    """
    if linearised.low is None or linearised.high is None or linearised.value is None:
        return linearised
    by_cells = (math.hypot(*side) for side in zip(margins(expected), *(cell.margins for cell in cells), strict=True))
    below, above = map(max, margins(linearised), by_cells)
    return replace(linearised, low=max(0.0, linearised.value - below), high=min(1.0, linearised.value + above))


def corrected_accuracy(parts: Sequence[AuditedAccuracy], over: str, meanings: Meanings) -> Estimate:
    """The accuracy of some benchmarks, whose questions count alike (`over` is `questions`) or else the benchmarks."""
    n_questions = sum(len(part.scores) for part in parts)
    counts = [1 / n_questions if over == "questions" else 1 / len(parts) / len(part.scores) for part in parts]
    weights: dict[tuple[str, bool], list[float]] = defaultdict(list)
    labels: dict[tuple[str, bool], list[tuple[float, float]]] = defaultdict(list)
    for part, of_question in zip(parts, counts, strict=True):
        for reply in part.replies:
            weights[reply.cell].append(of_question * reply.share)
            if meaning := meanings.get(reply.key):
                weight = of_question * reply.share * meaning.weight
                labels[reply.cell].append((weight, part.is_right(reply, meaning.choice)))
    cells = {key: cell_of(math.fsum(own), key[1], labels[key]) for key, own in weights.items()}
    cells |= {key: ReadingCell(cells[key].weight, 0.0, math.inf) for key in cells if key[0] == WORDLESS}
    values = [_question_values(part, cells, meanings) for part in parts]
    groups = [[part.scored.samples[score.sample_id].group for score in part.scores] for part in parts]
    expected, linearised = (_mean(side, groups, over) for side in zip(*values, strict=True))
    return with_reading_error(linearised, expected, list(cells.values()))


def _question_values(
    part: AuditedAccuracy, cells: Mapping[tuple[str, bool], ReadingCell], meanings: Meanings
) -> tuple[list[float], list[float]]:
    """What the cells expect of each question, and that with what the labels of its replies add."""
    shifts: dict[tuple[str, int], float] = defaultdict(float)
    added: dict[tuple[str, int], float] = defaultdict(float)
    for reply in part.replies:
        cell = cells[reply.cell]
        shifts[reply.question] += reply.share * (cell.right - reply.right)
        if cell.drawn and (meaning := meanings.get(reply.key)):
            residual = part.is_right(reply, meaning.choice) - cell.right
            added[reply.question] += reply.share * meaning.weight * residual * cell.weight / cell.drawn
    questions = [(score.sample_id, score.turn) for score in part.scores]
    expected = [(score.value or 0.0) + shifts[key] for score, key in zip(part.scores, questions, strict=True)]
    return expected, [value + added[key] for value, key in zip(expected, questions, strict=True)]


def _mean(values: Sequence[Sequence[float]], groups: Sequence[Sequence[str]], over: str) -> Estimate:
    if over == "questions":
        return estimate_mean(list(chain.from_iterable(values)), list(chain.from_iterable(groups)))
    return mean_of_estimates([estimate_mean(own, alike) for own, alike in zip(values, groups, strict=True)])


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
    raters: tuple[str, ...]
    """Who labelled; models after `judge:`."""
    labelled: int
    """Of the drawn replies, as far as labelling came."""
    readings: tuple[ReadingError, ...]
    meanings: Meanings


def audit_of(run: ScoredRun, by: str | None = None) -> Audit | None:
    """The audit of a run by labels of people (several: what most say), or where there are none those of judges.

    `by` is the one whose labels alone count. None where nothing was drawn or labelled, or the run was asked more since.
    """
    design = read_design(run.folder)
    if design is None or not design.is_of(run.folder):
        return None
    raters, labels = labels_that_count(run.folder, {reply.item for reply in design.drawn}, by)
    samples = {scored.spec.name: scored.samples for scored in run.benchmarks}
    meanings = {
        reply.key: Meaning(
            _option_meant(reply, samples[reply.benchmark][reply.sample_id], labels[reply.item]), 1 / reply.probability
        )
        for reply in labelled_beginning(design, labels)
        if labels.get(reply.item) and reply.sample_id in samples.get(reply.benchmark, ())
    }
    if not meanings:
        return None
    return Audit(design, raters, len(meanings), tuple(_reading_errors(run, meanings)), meanings)


def labelled_beginning(design: AuditDesign, items: Container[str]) -> Sequence[DrawnReply]:
    """The beginning of a draw up to where labelling stopped, that is, the longest of which nine in ten are labelled.

    What was labelled after it was chosen in some other way: replies that are hard to read, by `snellen agree`.
    """
    labelled = accumulate(reply.item in items for reply in design.drawn)
    return design.drawn[: max((n for n, count in enumerate(labelled, 1) if count >= 0.9 * n), default=0)]


def labels_that_count(run: Path, items: set[str], by: str | None = None) -> tuple[tuple[str, ...], dict[str, str]]:
    """Who labelled these replies, and what most of them say of each; nothing where as many say something else."""
    given = {key: label.label or NONE for key, label in read_labels(run / LABELS).items() if key[0] in items}
    everybody = {rater for _, rater in given}
    people = {rater for rater in everybody if not rater.startswith(OF_JUDGE)}
    raters = {by} & everybody if by is not None else people or everybody
    said: dict[str, list[str]] = defaultdict(list)
    for (item, rater), label in given.items():
        if rater in raters:
            said[item].append(label)
    return tuple(sorted(raters)), {item: next(said_by_most(labels), "") for item, labels in said.items()}


def _option_meant(reply: DrawnReply, sample: Sample, label: str) -> int | None:
    options = sample.rounds[reply.variant.turn].options
    labels = reply.variant.labels or labels_for("upper", len(options))
    return None if label == NONE else (reply.variant.order or range(len(options)))[labels.index(label)]


def _reading_errors(run: ScoredRun, meanings: Meanings) -> Iterator[ReadingError]:
    counts: dict[str, int] = defaultdict(int)
    labels: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for reply in chain.from_iterable(part.replies for part in audited_accuracies(run)):
        counts[reply.reading] += 1
        if meaning := meanings.get(reply.key):
            labels[reply.reading].append((meaning.weight, float(meaning.choice != reply.prediction.choice)))
    for reading in sorted(counts.keys() - {WORDLESS}):
        count, own = counts[reading], labels[reading]
        misread = cell_of(1.0, False, own)
        n_misread = sum(wrong == 1 for _, wrong in own)
        at_most = min(most_misread(misread.right, misread.labelled), (n_misread + count - len(own)) / count)
        yield ReadingError(reading, count, len(own), n_misread, misread.right if own else None, at_most)


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


def corrected_rows(run: ScoredRun, rows: Sequence[Result], audit: Audit | None) -> Iterator[Result]:
    """A corrected row for each accuracy of single replies among a run's `rows`; none without an audit."""
    if audit is None:
        return
    accuracies = {(part.benchmark, part.protocol): part for part in audited_accuracies(run)}
    dimensions = {scored.spec.name: scored.spec.dimension for scored in run.benchmarks}
    valued = {
        (row.benchmark, row.protocol) for row in rows if row.metric == HEADLINE and row.estimate.value is not None
    }
    for row in rows:
        if row.metric != HEADLINE or row.slice or row.method != "generation":
            continue
        members = [
            (name, protocol)
            for name, protocol in sorted(valued)
            if protocol == row.protocol
            and name in dimensions
            and (name == row.benchmark or (row.benchmark == ALL and row.dimension in (ALL, dimensions[name])))
        ]
        if members and all(member in accuracies for member in members):
            parts = [accuracies[member] for member in members]
            estimate = corrected_accuracy(parts, row.over, audit.meanings)
            own = row.estimate
            counts = replace(
                estimate,
                n=own.n,
                unscored=own.unscored,
                errors=own.errors,
                absent=own.absent,
                not_asked=own.not_asked,
            )
            yield replace(row, metric=AUDITED, estimate=counts)
