"""Measure how far extractors and judges agree with people who labelled replies (MMBench 4.3)."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from snellen import DataError, JudgeSpec
from snellen.plugin_api import (
    LABELS_FILE,
    AsyncModel,
    JudgeEnsemble,
    Model,
    Prediction,
    Turn,
    UnparsedReply,
    Variant,
    Verdict,
    labels_for,
    named_extractors,
    read_labels,
    rng_for,
    snellen_home,
    stored_readings,
)
from snellen_lab.agreement.hard_replies import HardReply, hard_replies
from snellen_lab.agreement.krippendorff import nominal_alpha
from snellen_lab.agreement.labelled_replies import HardItem, Reading, hard_items, human_readings
from snellen_lab.agreement.statistics import (
    Agreement,
    Pair,
    agreement,
    agreement_sentence,
)

DEFAULT_JUDGE = JudgeSpec()
"""How judges are prompted by default."""
VoteT = TypeVar("VoteT", Reading, str)

# --- on the replies of a run -----------------------------------------------------------------------------------------


def agreement_study(run: Path, *, seed: int = 0) -> tuple[list[Agreement], float | None]:
    """Measure the agreement of extractors and judges with people who labelled replies of a run.

    If several people labelled a reply, their majority counts; a tie leaves the reply out.

    Args:
        run: Folder of the run.
        seed: Seed of the bootstrap.

    Returns:
        The agreement of every extractor and of every judge with verdicts in the run, and Krippendorff's alpha among
        people, which is None if no reply has several raters.

    Raises:
        DataError: No reply is labelled.
    """
    items = list(hard_items(run))
    readings_of_people = human_readings(items, read_labels(run / LABELS_FILE))
    ground_truth: dict[str, Reading] = {}
    for item_id, readings in readings_of_people.items():
        for reading in majority_votes(readings):
            ground_truth[item_id] = reading
    labelled = [item for item in items if item.id in ground_truth]
    if not labelled:
        raise DataError(
            f"{run}: no reply has a label yet; run `snellen agree {shlex.quote(str(run))}` in a terminal, or give a file of labels"
        )

    rows = []
    for name, readings_of_reader in _readers(run, labelled):
        pairs: list[Pair] = []
        groups: list[str] = []
        for item in labelled:
            if item.id not in readings_of_reader:
                continue
            prediction = item.unparsed.prediction
            pairs.append((readings_of_reader[item.id], ground_truth[item.id]))
            groups.append(f"{prediction.benchmark} {prediction.sample_id}")
        if pairs:
            rng = rng_for("agree", name, "bootstrap", seed)
            rows.append(agreement(name, pairs, groups, rng))

    rated_by_several = [ratings for ratings in readings_of_people.values() if len(ratings) > 1]
    if not rated_by_several:
        return rows, None
    return rows, nominal_alpha(rated_by_several)


def majority_votes(votes: Sequence[VoteT]) -> Iterator[VoteT]:
    """Yield the most frequent vote, or nothing if two votes are tied."""
    ranked = Counter(votes).most_common(2)
    if len(ranked) == 1 or ranked[0][1] > ranked[1][1]:
        yield ranked[0][0]


def _readers(run: Path, items: Sequence[HardItem]) -> Iterator[tuple[str, dict[str, Reading]]]:
    """Yield the name of each extractor and judge, with how it read each reply."""
    for name in named_extractors():
        yield name, {item.id: item.readings[name] for item in items}
    for name, verdicts in stored_readings(run, [item.unparsed for item in items]):
        readings: dict[str, Reading] = {}
        for item, verdict in zip(items, verdicts, strict=True):
            if verdict is not None and not verdict.failed:
                readings[item.id] = verdict.place
        yield name, readings


# --- on the labelled hard replies of the package ---------------------------------------------------------------------


def calibrate(
    judges: Sequence[Model | AsyncModel],
    spec: JudgeSpec = DEFAULT_JUDGE,
    announce: Callable[[str], object] = lambda line: None,
) -> list[Agreement]:
    """Measure the agreement of judges with the held-out half of Snellen's labelled hard replies.

    Verdicts are stored under $SNELLEN_HOME, so that each judge is asked once. Replies without a verdict are left out.

    Args:
        judges: The models.
        spec: How the judges are prompted. The models that it names and its limit on failures are ignored.
        announce: Receives lines for the user.

    Raises:
        SnellenError: As `JudgeEnsemble.verdicts`.
    """
    replies = hard_replies(held_out=True)
    panel = JudgeEnsemble(
        judges, snellen_home() / "calibration", replace(spec, failures=1.0), announce
    )
    rows = panel.verdicts([as_unparsed(reply).judge_task(spec) for reply in replies])
    agreements = []
    for judge_index, judge in enumerate(judges):
        verdicts = [row[judge_index] for row in rows]
        agreements.append(
            _agreement_of_judge(f"{judge.name} ({panel.prompt_version})", replies, verdicts)
        )
    return agreements


def calibration_sentences(
    judges: Sequence[Model | AsyncModel], judge: JudgeSpec, announce: Callable[[str], None]
) -> list[str]:
    """Say of each judge how far it agrees with people: for `snellen score --judge-calibrate`."""
    return [agreement_sentence(agreement) for agreement in calibrate(judges, judge, announce)]


def as_unparsed(hard: HardReply) -> UnparsedReply:
    """Return a labelled reply in the form of a reply that the rules of scoring could not read."""
    labels = labels_for("upper", len(hard.options))
    variant = Variant(order=tuple(range(len(hard.options))), labels=labels)
    prediction = Prediction(
        "calibration", "generation", "calibration", hard.id, variant, "", reason="no match"
    )
    return UnparsedReply(prediction, Turn(hard.question, hard.options), hard.reply)


def _agreement_of_judge(
    name: str, replies: Sequence[HardReply], verdicts: Sequence[Verdict]
) -> Agreement:
    """Measure the agreement of a judge's valid verdicts with people."""
    pairs: list[Pair] = []
    groups: list[str] = []
    for reply, verdict in zip(replies, verdicts, strict=True):
        if not verdict.failed:
            pairs.append((verdict.place, reply.expected))
            groups.append(reply.group)
    return agreement(name, pairs, groups, rng_for("calibration", name, "bootstrap"))
