"""Which replies of a run are labelled: a stratified random sample whose probabilities are known and kept.

audit.json    an AuditDesign beside the run's journal
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen import __version__
from snellen.plugin_api import (
    AUDIT_FILE,
    JSON_FAULTS,
    DataError,
    LabelItem,
    Prediction,
    ReplyKey,
    ScoredRun,
    StoreError,
    Variant,
    find_extractor,
    journals,
    label_items,
    read_file,
    rng_for,
    write_atomically,
)
from snellen_lab.audit.population import AuditedUnit, audited_protocols, reply_key

EXPECTED_MISREAD = {"certain": 0.02, "open": 0.5}
"""Shares that may be misread, as guessed before any label: they decide how many replies are drawn and nothing else."""
OTHERWISE = 0.15
LEAST_SHARE = 0.15
"""The least part of the draw that each reading gets, before all parts are made to add up to the whole."""


class DrawnReply(Struct, frozen=True):
    """A reply to be labelled."""

    item: str
    """What its label is kept under."""
    benchmark: str
    protocol: str
    sample_id: str
    variant: Variant
    reading: str
    """Its stratum: how it was read when it was drawn, or the most doubtful of the replies drawn with it."""
    probability: float
    """With which it was drawn."""

    @property
    def key(self) -> ReplyKey:
        return self.benchmark, self.protocol, self.sample_id, self.variant


class Stratum(Struct, frozen=True):
    """The replies that were read in one way."""

    reading: str
    replies: int
    drawn: int


class AuditDesign(Struct, frozen=True, kw_only=True):
    """What was drawn and how, so that the estimate can be made again."""

    snellen: str
    """The version that drew."""
    seed: int
    read_by: tuple[str, ...]
    """Versions of what had read the replies."""
    journals: dict[str, int]
    """The journals that were drawn from, with their bytes."""
    strata: tuple[Stratum, ...]
    drawn: tuple[DrawnReply, ...]
    """In order: the first so many are what a smaller draw holds."""

    def is_of(self, run: Path) -> bool:
        """Whether the run has not been asked more since."""
        return self.journals == _sizes(run)

    def drawn_in(self, run: ScoredRun) -> tuple[DrawnReply, ...]:
        """The drawn replies to questions that are in a run, as it is narrowed to some."""
        samples = {scored.spec.name: scored.samples for scored in run.benchmarks}
        return tuple(
            reply for reply in self.drawn if reply.sample_id in samples.get(reply.benchmark, ())
        )


def read_design(run: Path) -> AuditDesign | None:
    """The design of a run's audit; None where there is none. Raises StoreError for a damaged file."""
    path = run / AUDIT_FILE
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(read_file(path), type=AuditDesign)
    except (OSError, *JSON_FAULTS) as error:
        raise StoreError(
            f"{path}: not the design of an audit ({error}); remove it and draw again"
        ) from None


def design_for(run: ScoredRun, limit: int, seed: int, part: ScoredRun | None = None) -> AuditDesign:
    """The design that is kept in a run's folder, if it has drawn as many; else a new one, which is kept.

    With `part`, the run narrowed to some questions, it has drawn as many replies to these, as far as there are so many.
    """
    kept, narrowed = read_design(run.folder), part or run
    if (
        kept
        and kept.is_of(run.folder)
        and kept.seed == seed
        and len(kept.drawn_in(narrowed)) >= limit
    ):
        return kept
    design = draw_replies(run, limit, seed)
    replies = sum(stratum.replies for stratum in design.strata)
    while (
        narrowed is not run
        and len(design.drawn_in(narrowed)) < limit
        and len(design.drawn) < replies
    ):
        wanted = max(1.1, limit / max(len(design.drawn_in(narrowed)), 1))
        design = draw_replies(run, min(replies, math.ceil(len(design.drawn) * wanted)), seed)
    write_atomically(
        run.folder / AUDIT_FILE, msgspec.json.format(msgspec.json.encode(design), indent=1)
    )
    return design


def draw_replies(run: ScoredRun, limit: int, seed: int) -> AuditDesign:
    """Draw at most `limit` replies; a larger draw by the same seed holds those of a smaller.

    What is drawn is a reply, or all replies to a question that has to be right each time. Strata are the readings, of a
    question the one most in doubt. Within one, units are drawn with probabilities in proportion to what they weigh in
    the mean over all accuracies of the run (equal ones for a single benchmark), by sequential Poisson sampling: the
    least u / weight, u uniform (Ohlsson 1998). Raises DataError where there is nothing to draw.
    """
    protocols = list(audited_protocols(run))
    strata: dict[str, list[_Drawable]] = defaultdict(list)
    for audited in protocols:
        for unit in audited.units:
            if unit.to_label:
                weight = unit.share / len(audited.scores) / len(protocols)
                strata[unit.reading].append(
                    _Drawable(_uniform(unit.replies[0], seed) / weight, weight, unit)
                )
    if not strata:
        raise DataError(
            f"{run.folder}: no accuracy is of replies with known answers, so that there is none to label"
        )
    for members in strata.values():
        members.sort(
            key=lambda member: (
                member.place,
                msgspec.json.encode(reply_key(member.unit.replies[0])),
            )
        )
    order = list(_order(strata, limit))
    weights = {
        reading: [member.weight for member in members] for reading, members in strata.items()
    }
    probabilities = {
        reading: proportional_probabilities(own, order.count(reading))
        for reading, own in weights.items()
    }
    upcoming = {
        reading: zip((member.unit for member in members), probabilities[reading], strict=True)
        for reading, members in strata.items()
    }
    chosen = [
        (reply, reading, probability)
        for reading in order
        for unit, probability in [next(upcoming[reading])]
        for reply in unit.to_label
    ]
    drawn = Counter(reading for _, reading, _ in chosen)
    items = drawn_items(run.folder, [reply_key(reply) for reply, _, _ in chosen])
    return AuditDesign(
        snellen=__version__,
        seed=seed,
        read_by=(*(find_extractor(name).version for name in run.extractors), *run.reading_stages),
        journals=_sizes(run.folder),
        strata=tuple(
            Stratum(name, sum(len(member.unit.to_label) for member in members), drawn[name])
            for name, members in sorted(strata.items())
        ),
        drawn=tuple(
            DrawnReply(items[reply_key(reply)].id, *reply_key(reply), reading, probability)
            for reply, reading, probability in chosen
        ),
    )


class _Drawable(Struct, frozen=True, gc=False):
    place: float
    """In the order of the draw: the least are drawn first."""
    weight: float
    unit: AuditedUnit


def _order(strata: Mapping[str, Sequence[_Drawable]], limit: int) -> Iterator[str]:
    """From which stratum each unit is drawn, until `limit` replies are to be expected."""
    sizes = {
        reading: (math.fsum(member.weight for member in own), len(own))
        for reading, own in strata.items()
    }
    replies = {
        reading: sum(len(member.unit.to_label) for member in own) / len(own)
        for reading, own in strata.items()
    }
    expected = 0.0
    for reading in allocation(sizes, limit):
        if expected >= limit:
            return
        expected += replies[reading]
        yield reading


def drawn_items(run: Path, keys: Sequence[ReplyKey]) -> dict[ReplyKey, LabelItem]:
    """The replies to some presentations as they are labelled, in the order of `keys`."""
    items: dict[ReplyKey, LabelItem] = {}
    for item in label_items(run, set(keys)):
        prediction = item.unparsed.prediction
        items[
            prediction.benchmark, prediction.protocol, prediction.sample_id, prediction.variant
        ] = item
    return {key: items[key] for key in keys}


def allocation(strata: Mapping[str, tuple[float, int]], limit: int) -> Iterator[str]:
    """From which stratum each reply is drawn, one after the other; `strata` have weight and number of replies.

    Neyman's allocation by the expected shares of misread replies, where each stratum gets at least `LEAST_SHARE`.
    Sainte-Lague's divisors make every beginning of it an allocation, too.
    """
    errors = {reading: EXPECTED_MISREAD.get(reading, OTHERWISE) for reading in strata}
    spread = {
        reading: weight * math.sqrt(errors[reading] * (1 - errors[reading]))
        for reading, (weight, _) in strata.items()
    }
    shares = {
        reading: max(LEAST_SHARE, spread[reading] / math.fsum(spread.values()))
        for reading in strata
    }
    drawn = dict.fromkeys(sorted(strata), 0)
    for _ in range(min(limit, sum(count for _, count in strata.values()))):
        left = [reading for reading, count in drawn.items() if count < strata[reading][1]]
        reading = max(left, key=lambda name: shares[name] / (2 * drawn[name] + 1))
        drawn[reading] += 1
        yield reading


def proportional_probabilities(weights: Sequence[float], count: int) -> list[float]:
    """min(1, t weight) for each, with the t by which they add up to `count`."""
    if not count:
        return [0.0] * len(weights)
    taken, rest = 0, math.fsum(weights)
    for weight in sorted(weights, reverse=True):
        if (count - taken) * weight <= rest * (1 + 1e-9):
            break
        taken, rest = taken + 1, rest - weight
    return [min(1.0, (count - taken) * weight / rest) for weight in weights]


def _uniform(reply: Prediction, seed: int) -> float:
    purpose = f"audit {reply.protocol} {msgspec.json.encode(reply.variant).decode()}"
    return rng_for(reply.benchmark, reply.sample_id, purpose, seed).random()


def _sizes(run: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in journals(run)}
