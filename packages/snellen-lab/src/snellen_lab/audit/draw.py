"""Draw replies of a run for labelling: a stratified random sample with known probabilities.

The design is stored in audit.json (`AuditDesign`) next to the run's journal.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen import DataError, StoreError, __version__
from snellen.plugin_api import (
    AUDIT_FILE,
    JSON_FAULTS,
    LabelItem,
    Prediction,
    ScoredRun,
    Variant,
    find_extractor,
    journals,
    label_items,
    read_file,
    rng_for,
    write_atomically,
)
from snellen_lab.audit.population import AuditedUnit, ReplyKey, audited_protocols, reply_key

EXPECTED_MISREAD = {"certain": 0.02, "open": 0.5}
"""Expected share of misread replies by reading, before any label. It only decides how many replies are drawn."""
EXPECTED_MISREAD_OTHERWISE = 0.15
MIN_SHARE = 0.15
"""Smallest share of the draw for each reading, before all shares are scaled to add up to 1."""


class DrawnReply(Struct, frozen=True):
    """A reply to be labelled."""

    item: str
    """Key under which its label is stored."""
    benchmark: str
    protocol: str
    sample_id: str
    variant: Variant
    reading: str
    """Its stratum: how it was read at the draw, or the most doubtful reading of the replies drawn with it."""
    probability: float
    """Probability with which it was drawn."""

    @property
    def key(self) -> ReplyKey:
        return self.benchmark, self.protocol, self.sample_id, self.variant


class Stratum(Struct, frozen=True):
    """Replies of one reading."""

    reading: str
    replies: int
    drawn: int


class AuditDesign(Struct, frozen=True, kw_only=True):
    """The drawn replies and how they were drawn, so that the estimate can be repeated."""

    snellen: str
    """Version of Snellen that drew the replies."""
    seed: int
    read_by: tuple[str, ...]
    """Versions of the extractors that had read the replies."""
    journals: dict[str, int]
    """Sizes in bytes of the journals with the replies."""
    strata: tuple[Stratum, ...]
    drawn: tuple[DrawnReply, ...]
    """In the order of the draw: a smaller draw has the first of these."""

    def is_of(self, run: Path) -> bool:
        """Return whether the run has received no replies since the draw."""
        return self.journals == _journal_sizes(run)

    def drawn_replies_of(self, run: ScoredRun) -> tuple[DrawnReply, ...]:
        """Return the drawn replies to the questions to which a run is narrowed."""
        samples = {scored.spec.name: scored.samples for scored in run.benchmarks}
        return tuple(
            reply for reply in self.drawn if reply.sample_id in samples.get(reply.benchmark, ())
        )


def read_design(run: Path) -> AuditDesign | None:
    """Return the design of a run's audit, or None. Raises StoreError for a damaged file."""
    path = run / AUDIT_FILE
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(read_file(path), type=AuditDesign)
    except (OSError, *JSON_FAULTS) as error:
        raise StoreError(
            f"{path}: not the design of an audit ({error}); delete the file and draw again"
        ) from None


def design_for(run: ScoredRun, limit: int, seed: int, part: ScoredRun | None = None) -> AuditDesign:
    """Return the design in a run's folder if it is large enough, else draw and store a new one.

    Args:
        run: The run.
        limit: Number of replies to draw.
        seed: Seed of the draw.
        part: The run narrowed to some questions. The design then has `limit` replies to these, or all of them.
    """
    narrowed = part or run
    stored = read_design(run.folder)
    is_current = stored is not None and stored.is_of(run.folder) and stored.seed == seed
    if stored is not None and is_current and len(stored.drawn_replies_of(narrowed)) >= limit:
        return stored

    design = draw_replies(run, limit, seed)
    if narrowed is not run:
        n_replies = sum(stratum.replies for stratum in design.strata)
        # Draw more until the narrowed run has its share.
        while len(design.drawn_replies_of(narrowed)) < limit and len(design.drawn) < n_replies:
            growth = max(1.1, limit / max(len(design.drawn_replies_of(narrowed)), 1))
            larger_limit = min(n_replies, math.ceil(len(design.drawn) * growth))
            design = draw_replies(run, larger_limit, seed)
    content = msgspec.json.format(msgspec.json.encode(design), indent=1)
    write_atomically(run.folder / AUDIT_FILE, content)
    return design


class _Drawable(Struct, frozen=True, gc=False):
    """A unit that may be drawn."""

    rank: float
    """Position in the order of the draw: the smallest are drawn first."""
    weight: float
    """Weight of a reply in the mean over all accuracies of the run."""
    unit: AuditedUnit


def draw_replies(run: ScoredRun, limit: int, seed: int) -> AuditDesign:
    """Draw at most `limit` replies. With the same seed, a larger draw contains a smaller one.

    A unit is a reply, or all replies to a question that has to be right each time. Strata are the readings; the stratum
    of a question is its most doubtful reading. Within a stratum, units are drawn with probabilities in proportion to
    their weight in the mean over all accuracies of the run (equal for a single benchmark), by sequential Poisson
    sampling: those with the smallest u / weight, for uniform u (Ohlsson 1998).

    Raises DataError if there is no reply to draw.
    """
    strata = _strata(run, seed)
    if not strata:
        raise DataError(
            f"{run.folder}: no accuracy is computed from replies with known answers; there is nothing to label"
        )

    order = list(_stratum_order(strata, limit))
    probabilities: dict[str, list[float]] = {}
    for reading, members in strata.items():
        weights = [member.weight for member in members]
        probabilities[reading] = proportional_probabilities(weights, order.count(reading))

    chosen: list[tuple[ReplyKey, str, float]] = []
    n_units_drawn: Counter[str] = Counter()
    n_replies_drawn: Counter[str] = Counter()
    for reading in order:
        index = n_units_drawn[reading]
        n_units_drawn[reading] += 1
        for reply in strata[reading][index].unit.to_label:
            chosen.append((reply_key(reply), reading, probabilities[reading][index]))
            n_replies_drawn[reading] += 1

    items = drawn_items(run.folder, [key for key, _, _ in chosen])
    drawn_strata = []
    for reading, members in sorted(strata.items()):
        n_replies = sum(len(member.unit.to_label) for member in members)
        drawn_strata.append(Stratum(reading, n_replies, n_replies_drawn[reading]))
    extractor_versions = [find_extractor(name).version for name in run.extractors]
    return AuditDesign(
        snellen=__version__,
        seed=seed,
        read_by=(*extractor_versions, *run.reading_stages),
        journals=_journal_sizes(run.folder),
        strata=tuple(drawn_strata),
        drawn=tuple(
            DrawnReply(items[key].id, *key, reading, probability)
            for key, reading, probability in chosen
        ),
    )


def _strata(run: ScoredRun, seed: int) -> dict[str, list[_Drawable]]:
    """Return the units of each reading, in the order in which they are drawn."""
    protocols = list(audited_protocols(run))
    strata: dict[str, list[_Drawable]] = defaultdict(list)
    for audited in protocols:
        for unit in audited.units:
            if not unit.to_label:
                continue
            weight = unit.share / len(audited.scores) / len(protocols)
            rank = _uniform(unit.replies[0], seed) / weight
            strata[unit.reading].append(_Drawable(rank, weight, unit))

    def draw_order(member: _Drawable) -> tuple[float, bytes]:
        return member.rank, msgspec.json.encode(reply_key(member.unit.replies[0]))

    for members in strata.values():
        members.sort(key=draw_order)
    return strata


def _stratum_order(strata: Mapping[str, Sequence[_Drawable]], limit: int) -> Iterator[str]:
    """Yield the stratum of each unit to draw, until `limit` replies are expected."""
    sizes: dict[str, tuple[float, int]] = {}
    mean_replies: dict[str, float] = {}
    for reading, members in strata.items():
        sizes[reading] = (math.fsum(member.weight for member in members), len(members))
        n_replies = sum(len(member.unit.to_label) for member in members)
        mean_replies[reading] = n_replies / len(members)

    expected_replies = 0.0
    for reading in allocation(sizes, limit):
        if expected_replies >= limit:
            return
        expected_replies += mean_replies[reading]
        yield reading


def drawn_items(run: Path, keys: Sequence[ReplyKey]) -> dict[ReplyKey, LabelItem]:
    """Return the items to label for these replies, in the order of `keys`."""
    items: dict[ReplyKey, LabelItem] = {}
    for item in label_items(run, set(keys)):
        items[reply_key(item.unparsed.prediction)] = item
    return {key: items[key] for key in keys}


def allocation(strata: Mapping[str, tuple[float, int]], limit: int) -> Iterator[str]:
    """Yield the stratum of each unit to draw, one after the other.

    It is Neyman's allocation by the expected shares of misread replies, with at least `MIN_SHARE` for each stratum.
    Sainte-Laguë's divisors make each beginning of it an allocation, too.

    Args:
        strata: For each stratum, its weight and its number of units.
        limit: Number of units to draw.
    """
    spreads = {}
    for reading, (weight, _) in strata.items():
        error = EXPECTED_MISREAD.get(reading, EXPECTED_MISREAD_OTHERWISE)
        spreads[reading] = weight * math.sqrt(error * (1 - error))
    total_spread = math.fsum(spreads.values())
    shares = {reading: max(MIN_SHARE, spread / total_spread) for reading, spread in spreads.items()}

    n_drawn = dict.fromkeys(sorted(strata), 0)
    n_units = sum(size for _, size in strata.values())
    for _ in range(min(limit, n_units)):
        unfinished = [reading for reading, count in n_drawn.items() if count < strata[reading][1]]
        reading = max(unfinished, key=lambda name: shares[name] / (2 * n_drawn[name] + 1))
        n_drawn[reading] += 1
        yield reading


def proportional_probabilities(weights: Sequence[float], count: int) -> list[float]:
    """Return min(1, t * weight) for each weight, with the t for which the probabilities add up to `count`."""
    if not count:
        return [0.0] * len(weights)
    n_certain = 0
    remaining_weight = math.fsum(weights)
    for weight in sorted(weights, reverse=True):
        if (count - n_certain) * weight <= remaining_weight * (1 + 1e-9):
            break
        n_certain += 1
        remaining_weight -= weight
    return [min(1.0, (count - n_certain) * weight / remaining_weight) for weight in weights]


def _uniform(reply: Prediction, seed: int) -> float:
    """Return a number in [0, 1) that is the same for a reply in each draw."""
    purpose = f"audit {reply.protocol} {msgspec.json.encode(reply.variant).decode()}"
    return rng_for(reply.benchmark, reply.sample_id, purpose, seed).random()


def _journal_sizes(run: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in journals(run)}
