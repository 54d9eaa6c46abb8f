"""The audit of a run: how often its replies were misread, by labels of a random part of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from snellen import Sample
from snellen.plugin_api import LABELS_FILE, NO_OPTION, ScoredRun, labels_for, read_labels
from snellen_lab.agreement.labelled_replies import JUDGE_LABELLER
from snellen_lab.agreement.readers import majority_votes
from snellen_lab.audit.draw import AuditDesign, DrawnReply, read_design
from snellen_lab.audit.estimate import cell_of
from snellen_lab.audit.population import (
    WORDLESS,
    Meaning,
    Meanings,
    audited_protocols,
    reading_of,
    reply_key,
)

CONFIDENCE_LEVEL = 0.95

MIN_LABELLED_SHARE = 0.9
"""Share of the replies from the beginning of a draw that are labelled if labelling followed the draw."""


class ReadingError(Struct, frozen=True):
    """How often the replies with one kind of reading, such as `certain`, were misread.

    A reply was misread if its label names another option than the reading, or if only one of the
    two names an option.
    """

    reading: str
    replies: int
    labelled: int
    misread: int
    """Labelled replies that were misread."""
    share: float | None
    """Estimated share of all replies; None without labels."""
    at_most: float
    """Upper limit of the share, with 95% confidence."""


class Audit(Struct, frozen=True):
    """The result of labelling the drawn replies of a run."""

    design: AuditDesign
    drawn_replies: int
    """Number of drawn replies, among the questions to which the run is narrowed."""
    raters: tuple[str, ...]
    """Names of those who labelled; models after `judge:`."""
    labelled_replies: int
    """Number of labelled replies, up to where labelling stopped."""
    readings: tuple[ReadingError, ...]
    meanings: Meanings


def audit_of(run: ScoredRun, by: str | None = None) -> Audit | None:
    """Return the audit of a run by labels of people, or of judge models if no person labelled it.

    Args:
        run: The run. If it has only some of its questions, only replies to these count.
        by: The only rater whose labels count. By default the majority of the raters counts.

    Returns:
        The audit. None if no reply was drawn or labelled, or if the run has received more replies
            since the draw.
    """
    design = read_design(run.folder)
    if design is None or not design.is_of(run.folder):
        return None
    drawn_replies = design.drawn_replies_of(run)
    raters, labels = labels_that_count(run.folder, {reply.item for reply in drawn_replies}, by)
    samples_by_benchmark = {scored.spec.name: scored.samples for scored in run.benchmarks}
    meanings = {}
    for reply in labelled_beginning(drawn_replies, labels):
        label = labels.get(reply.item)
        if label:
            sample = samples_by_benchmark[reply.benchmark][reply.sample_id]
            choice = _option_meant(reply, sample, label)
            meanings[reply.key] = Meaning(choice, 1 / reply.probability)
    if not meanings:
        return None
    errors = tuple(_reading_errors(run, meanings))
    return Audit(design, len(drawn_replies), raters, len(meanings), errors, meanings)


def labelled_beginning(
    drawn_replies: Sequence[DrawnReply], items: Container[str]
) -> Sequence[DrawnReply]:
    """Return the longest beginning of a draw in which at least nine in ten replies are labelled.

    People label replies in the order of the draw, so this is what they have labelled so far. Labels
    of later replies were given for another reason: `snellen agree`, for example, chooses replies
    that are hard to read. These would bias the estimate.
    """
    n_labelled = 0
    length = 0
    for n_seen, reply in enumerate(drawn_replies, 1):
        if reply.item in items:
            n_labelled += 1
        if n_labelled >= MIN_LABELLED_SHARE * n_seen:
            length = n_seen
    return drawn_replies[:length]


def labels_that_count(
    run: Path, items: set[str], by: str | None = None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return who labelled these replies, and the label of each reply by majority.

    Judge models only count if no person labelled.

    Args:
        run: The folder of the run.
        items: The ids of the replies.
        by: The only rater whose labels count; None for all.

    Returns:
        The raters whose labels count, sorted; and the label of each reply. It is "" if two labels have equally many votes.
        A reply without any label that counts is left out.
    """
    labels: dict[tuple[str, str], str] = {}
    for (item, rater), label in read_labels(run / LABELS_FILE).items():
        if item in items:
            labels[item, rater] = label.label or NO_OPTION

    all_raters = {rater for _, rater in labels}
    people = {rater for rater in all_raters if not rater.startswith(JUDGE_LABELLER)}
    if by is not None:
        raters = {by} & all_raters
    else:
        raters = people or all_raters

    votes: dict[str, list[str]] = defaultdict(list)
    for (item, rater), label in labels.items():
        if rater in raters:
            votes[item].append(label)
    majority_labels = {}
    for item, item_votes in votes.items():
        majority_labels[item] = next(majority_votes(item_votes), "")
    return tuple(sorted(raters)), majority_labels


def _option_meant(reply: DrawnReply, sample: Sample, label: str) -> int | None:
    """Return the option that a label names, as its index before options were shuffled.

    None is returned if the label says that the reply names no option.
    """
    if label == NO_OPTION:
        return None
    n_options = len(sample.rounds[reply.variant.turn].options)
    labels = reply.variant.labels or labels_for("upper", n_options)
    order = reply.variant.order or range(n_options)
    return order[labels.index(label)]


def _reading_errors(run: ScoredRun, meanings: Meanings) -> Iterator[ReadingError]:
    """Yield how often replies were misread, for each kind of reading in alphabetical order."""
    n_replies: dict[str, int] = defaultdict(int)
    labels: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for audited in audited_protocols(run):
        for unit in audited.units:
            for reply in unit.replies:
                reading = reading_of(reply)
                n_replies[reading] += 1
                meaning = meanings.get(reply_key(reply))
                if meaning is not None:
                    is_misread = meaning.choice != reply.choice
                    labels[reading].append((meaning.weight, float(is_misread)))

    for reading in sorted(n_replies.keys() - {WORDLESS}):
        replies = n_replies[reading]
        reading_labels = labels[reading]
        n_labels = len(reading_labels)
        n_misread = sum(is_misread == 1 for _, is_misread in reading_labels)
        cell = cell_of(1.0, 0.0, reading_labels)
        # At most, the labelled replies that were misread and all unlabelled ones are misread.
        at_most = min(
            most_misread(cell.right, cell.labelled), (n_misread + replies - n_labels) / replies
        )
        share = cell.right if reading_labels else None
        yield ReadingError(reading, replies, n_labels, n_misread, share, at_most)


def most_misread(share: float, labelled: float) -> float:
    """Return the upper limit, with 95% confidence, of the share of misread replies.

    It is Clopper and Pearson's (1934) one-sided limit: the share under which so few misread replies among the labelled
    ones have a probability of 5%. If none of n replies is misread, it is 1 - 0.05^(1/n). As Korn and Graubard (1998) do, an
    effective number of labels takes the place of n, rounded to whole replies.

    Args:
        share: Share of misread replies among the labelled ones.
        labelled: Effective number of labels.
    """
    n_labels = math.floor(labelled + 1e-9)
    n_misread = math.ceil(share * n_labels - 1e-9)

    # The limit is the share under which so few misread replies have a probability of 5%. It is found by bisection.
    low = share
    high = 1.0
    while n_misread < n_labels and high - low > 1e-9:
        middle = (low + high) / 2
        probabilities = [_binomial(count, n_labels, middle) for count in range(n_misread + 1)]
        as_few_probability = math.fsum(probabilities)
        if as_few_probability > 1 - CONFIDENCE_LEVEL:
            low = middle
        else:
            high = middle
    return high


def _binomial(successes: int, trials: int, probability: float) -> float:
    """Return the probability of a number of successes in independent trials.

    It is computed from logarithms, because thousands of trials would overflow the binomial coefficient.
    """
    failures = trials - successes
    log_combinations = (
        math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(failures + 1)
    )
    log_successes = successes * math.log(probability)
    log_failures = failures * math.log1p(-probability)
    return math.exp(log_combinations + log_successes + log_failures)
