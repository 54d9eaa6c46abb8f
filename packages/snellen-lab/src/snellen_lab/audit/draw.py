"""Draw a random part of a run's replies, so that people can label them.

The replies are drawn in strata (by how they were read) with known probabilities. The draw is stored
as audit.json (`AuditDesign`) in the run's folder.
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
"""Share of replies that are expected to be misread, by how they were read (`reading_of`). It only decides how many
replies of each kind are drawn for labelling."""
EXPECTED_MISREAD_OTHERWISE = 0.15
MIN_SHARE = 0.15
"""Smallest share of the draw for each reading, before all shares are scaled to add up to 1."""


class DrawnReply(Struct, frozen=True):
    """A reply that was drawn and is to be labelled."""

    item: str
    """Id under which its label is stored."""
    benchmark: str
    protocol: str
    sample_id: str
    variant: Variant
    reading: str
    """Its stratum: how it was read (`reading_of`), or the most doubtful reading of the replies that were drawn with it."""
    probability: float
    """Probability with which it was drawn."""

    @property
    def key(self) -> ReplyKey:
        return self.benchmark, self.protocol, self.sample_id, self.variant


class Stratum(Struct, frozen=True):
    """The replies of a run that were read in the same way, such as `certain`."""

    reading: str
    replies: int
    """Number of all its replies."""
    drawn: int
    """Number of replies that were drawn."""


class AuditDesign(Struct, frozen=True, kw_only=True):
    """The drawn replies with the details of the draw, from which the estimate can be repeated."""

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
        """Return the drawn replies to the questions that `run` has, which may be only some of all."""
        samples = {scored.spec.name: scored.samples for scored in run.benchmarks}
        return tuple(
            reply for reply in self.drawn if reply.sample_id in samples.get(reply.benchmark, ())
        )


def read_design(run: Path) -> AuditDesign | None:
    """Return the stored draw of a run's audit; None if nothing was drawn.

    Raises StoreError if the file is damaged.
    """
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
    """Return a draw of a run's replies that has at least `limit` replies, if there are as many.

    The stored draw is returned if it has the same seed and enough replies, and if the run has
    received no replies since. Otherwise a new draw is made and stored in the run's folder.

    Args:
        run: The run.
        limit: Number of replies to draw.
        seed: Seed of the draw.
        part: The same run with some of its questions only. If given, `limit` counts the replies to
            these questions, and the draw from the whole run is made as large as that needs.
    """
    narrowed = part or run
    stored = read_design(run.folder)
    if (
        stored is not None
        and stored.is_of(run.folder)
        and stored.seed == seed
        and len(stored.drawn_replies_of(narrowed)) >= limit
    ):
        return stored

    design = draw_replies(run, limit, seed)
    if narrowed is not run:
        n_replies = sum(stratum.replies for stratum in design.strata)
        # Draw more from the whole run until the chosen questions have enough replies.
        while len(design.drawn) < n_replies:
            n_drawn_in_part = len(design.drawn_replies_of(narrowed))
            if n_drawn_in_part >= limit:
                break
            growth = max(1.1, limit / max(n_drawn_in_part, 1))
            larger_limit = min(n_replies, math.ceil(len(design.drawn) * growth))
            design = draw_replies(run, larger_limit, seed)
    content = msgspec.json.format(msgspec.json.encode(design), indent=1)
    write_atomically(run.folder / AUDIT_FILE, content)
    return design


class _Drawable(Struct, frozen=True, gc=False):
    """A unit that may be drawn: a reply, or all replies to a question."""

    rank: float
    """Position in the order of the draw: the smallest are drawn first."""
    weight: float
    """Weight of a reply in the mean over all accuracies of the run."""
    unit: AuditedUnit


def draw_replies(run: ScoredRun, limit: int, seed: int) -> AuditDesign:
    """Draw at most `limit` replies for labelling.

    With the same seed, a larger draw contains a smaller one. A unit of the draw is a single reply
    or, if a question is only right when all its replies are (CircularEval), all replies to the
    question. Units are sorted into strata by how sure their reading is, such as `certain` or
    `open`; for several replies, the least sure one decides. Within a stratum, the probability of a
    unit is proportional to its weight in the mean over all accuracies of the run. The units with
    the smallest u / weight are drawn, for a uniform random number u (sequential Poisson sampling,
    Ohlsson 1998).

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

    drawn_keys: list[tuple[ReplyKey, str, float]] = []
    n_units_drawn: Counter[str] = Counter()
    n_replies_drawn: Counter[str] = Counter()
    for reading in order:
        index = n_units_drawn[reading]
        n_units_drawn[reading] += 1
        for reply in strata[reading][index].unit.to_label:
            drawn_keys.append((reply_key(reply), reading, probabilities[reading][index]))
            n_replies_drawn[reading] += 1

    items = drawn_items(run.folder, [key for key, _, _ in drawn_keys])
    drawn_replies = []
    for key, reading, probability in drawn_keys:
        drawn_replies.append(DrawnReply(items[key].id, *key, reading, probability))
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
        drawn=tuple(drawn_replies),
    )


def _strata(run: ScoredRun, seed: int) -> dict[str, list[_Drawable]]:
    """Return the units of each stratum, in the order in which they are drawn."""
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
    """Yield for each unit to be drawn the stratum that it comes from.

    This ends when the drawn units are expected to have `limit` replies. A unit may have several.
    """
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
    """Return for each of these replies what a person must see to label it, in the order of `keys`."""
    items: dict[ReplyKey, LabelItem] = {}
    for item in label_items(run, set(keys)):
        key = reply_key(item.unparsed.prediction)
        items[key] = item
    return {key: items[key] for key in keys}


def allocation(strata: Mapping[str, tuple[float, int]], limit: int) -> Iterator[str]:
    """Decide for one unit after the other from which stratum it is drawn.

    A stratum has the replies that were read in the same way. By Neyman's allocation, the number of
    units from it is proportional to its weight times the standard deviation sqrt(p (1 - p)), where
    p is the expected share of misread replies. Each stratum gets at least the share `MIN_SHARE`. By
    Sainte-Laguë's method, the first units of the sequence are distributed in the same way as all.

    Args:
        strata: For each stratum, its weight and its number of units.
        limit: Number of units to draw.

    Yields:
        The name of a stratum for each unit.
    """
    spreads = {}
    for reading, (weight, _) in strata.items():
        misread = EXPECTED_MISREAD.get(reading, EXPECTED_MISREAD_OTHERWISE)
        spreads[reading] = weight * math.sqrt(misread * (1 - misread))
    total_spread = math.fsum(spreads.values())
    shares = {reading: max(MIN_SHARE, spread / total_spread) for reading, spread in spreads.items()}

    n_drawn = dict.fromkeys(sorted(strata), 0)

    def quotient(reading: str) -> float:
        return shares[reading] / (2 * n_drawn[reading] + 1)

    n_units = sum(size for _, size in strata.values())
    for _ in range(min(limit, n_units)):
        unfinished = []
        for reading, count in n_drawn.items():
            _, size = strata[reading]
            if count < size:
                unfinished.append(reading)
        next_reading = max(unfinished, key=quotient)
        n_drawn[next_reading] += 1
        yield next_reading


def proportional_probabilities(weights: Sequence[float], count: int) -> list[float]:
    """Return the probabilities with which units are drawn: in proportion to their weights, but at most 1.

    Args:
        weights: The weight of each unit.
        count: Number of units to draw; the probabilities sum to it.

    Example:
        >>> proportional_probabilities([4.0, 1.0, 1.0], 2)
        [1.0, 0.5, 0.5]
    """
    if not count:
        return [0.0] * len(weights)
    # The heaviest units are drawn with certainty, as long as their share of the remaining draws would be above 1.
    n_certain = 0
    remaining_weight = math.fsum(weights)
    for weight in sorted(weights, reverse=True):
        if (count - n_certain) * weight <= remaining_weight * (1 + 1e-9):
            break
        n_certain += 1
        remaining_weight -= weight
    return [min(1.0, (count - n_certain) * weight / remaining_weight) for weight in weights]


def _uniform(reply: Prediction, seed: int) -> float:
    """Return a random number in [0, 1) for a reply, the same one whenever the same seed is used."""
    purpose = f"audit {reply.protocol} {msgspec.json.encode(reply.variant).decode()}"
    return rng_for(reply.benchmark, reply.sample_id, purpose, seed).random()


def _journal_sizes(run: Path) -> dict[str, int]:
    """Return the size in bytes of each file with replies in a run's folder, by file name."""
    return {path.name: path.stat().st_size for path in journals(run)}
