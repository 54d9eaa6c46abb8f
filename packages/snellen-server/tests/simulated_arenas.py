"""Simulated arenas whose truth is known: skills, tastes, sides, lazy and bought voters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from snellen_server.arena_ratings.bradley_terry import PairModel, fit_ratings
from snellen_server.arena_ratings.log import DEFAULTS, OUTCOMES, SCHEMA
from snellen_server.arena_ratings.votes import BOTH_BAD, LEFT, Array, RatingSettings

NODES = 40
"""Points of the Gauss-Hermite rule over voters' tastes."""
SECONDS = 30.0
"""Time between two votes."""


@dataclass(frozen=True)
class Population:
    """Models with known skills, and the honest voters who compare them.

    A vote's log odds for the left side are skill_left - skill_right + position + the voter's own taste for either
    model; a tie has Davidson's weight nu. Lazy voters always choose the left side.
    """

    skills: tuple[float, ...]
    """In log odds."""
    voters: int
    votes: int
    nu: float = 0.5
    both_bad: float = 0.05
    """Probability that both replies are found bad, whatever the models."""
    position: float = 0.0
    taste: float = 0.0
    """Standard deviation of a voter's own preference for each model."""
    activity: float = 1.0
    """Standard deviation of the logarithm of how much a voter votes; 0: all the same."""
    lazy: float = 0.0
    """Share of lazy voters."""
    focus: float = 1.0
    """How much more often than the others the first model is drawn."""

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(f"model-{number:02d}" for number in range(len(self.skills)))


@dataclass(frozen=True)
class Rigging:
    """Bought votes: a number of voters, each of whom gives a number of votes to one model, only in its own battles.

    They know it by its replies. `sent` is how often each vote is sent with the same token.
    """

    model: int
    voters: int
    votes: int
    sent: int = 1


def simulated_battles(
    population: Population, rng: np.random.Generator, *riggings: Rigging
) -> pl.DataFrame:
    """Battles with the columns of `SCHEMA`, by time; honest voters are called voter-N, bought ones bought-I-N.

    Pairs are drawn with the propensity that each battle states; which model is on the left is a coin's toss.
    """
    size, votes = len(population.skills), population.votes
    pairs, propensities = _pairs(population)
    pair_index = rng.choice(len(pairs), votes, p=propensities)
    sides = np.where(rng.random((votes, 1)) < 0.5, pairs[pair_index], pairs[pair_index][:, ::-1])
    activity = np.exp(rng.normal(0, population.activity, population.voters))
    voter = rng.choice(population.voters, votes, p=activity / activity.sum())
    tastes = np.array(population.skills) + rng.normal(
        0, population.taste, (population.voters, size)
    )
    advantage = tastes[voter, sides[:, 0]] - tastes[voter, sides[:, 1]] + population.position
    cumulative = np.stack(_shares(advantage, population.nu), axis=1).cumsum(axis=1)
    outcome = np.minimum((rng.random((votes, 1)) > cumulative).sum(axis=1), 2)
    outcome[rng.random(votes) < population.both_bad] = BOTH_BAD
    lazy = rng.random(population.voters) < population.lazy
    outcome[lazy[voter]] = LEFT
    parts = [
        _table(
            population,
            sides,
            outcome,
            [f"voter-{number}" for number in voter],
            propensities[pair_index],
        )
    ]
    parts += [_bought(population, rigging, number, rng) for number, rigging in enumerate(riggings)]
    battles = pl.concat(parts)
    count = battles.height
    mixed = battles[rng.permutation(count).tolist()].with_columns(
        pl.Series("id", [f"battle-{number:09d}" for number in range(count)]),
        pl.Series("time", np.arange(count) * SECONDS),
    )
    again = [
        mixed.filter(pl.col("voter").str.starts_with(f"bought-{number}-"))
        for number, rigging in enumerate(riggings)
        for _ in range(rigging.sent - 1)
    ]
    return pl.DataFrame(pl.concat([mixed, *again]).sort("time", maintain_order=True))


def true_ratings(population: Population, settings: RatingSettings | None = None) -> Array:
    """(M,) ratings, in points, of endlessly many honest and lazy votes on pairs that are drawn evenly.

    Where voters differ or sides matter, votes do not quite follow the model that rates them; the truth is then the
    rating that fits the exact shares of outcomes best.
    """
    settings = settings or RatingSettings()
    size, skills = len(population.skills), np.array(population.skills)
    left, right = np.nonzero(~np.eye(size, dtype=bool))
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    spread = np.sqrt(2) * population.taste * nodes
    advantage = (skills[left] - skills[right] + population.position)[:, None] + spread
    shares = np.stack(_shares(advantage, population.nu), axis=-1)
    honest = np.einsum("pno,n->po", shares, weights / weights.sum()) * (1 - population.both_bad)
    expected = (1 - population.lazy) * honest + population.lazy * np.array([1.0, 0.0, 0.0])
    model = PairModel(size, left, right, settings.position, settings.method == "davidson")
    return np.asarray(
        settings.initial + settings.points * fit_ratings(model, expected[None])[0, :size]
    )


def _pairs(population: Population) -> tuple[Array, Array]:
    """(P, 2) unordered pairs of models, and the propensity (P,) of each."""
    pairs = np.stack(np.triu_indices(len(population.skills), 1), axis=1)
    chances = np.where((pairs == 0).any(axis=1), population.focus, 1.0)
    return pairs, chances / chances.sum()


def _shares(advantage: Array, nu: float) -> tuple[Array, Array, Array]:
    """Probabilities of left, right and tie, in Davidson's model."""
    left, right = np.exp(advantage / 2), np.exp(-advantage / 2)
    total = left + right + nu
    return left / total, right / total, nu / total


def _bought(
    population: Population, rigging: Rigging, number: int, rng: np.random.Generator
) -> pl.DataFrame:
    count = rigging.voters * rigging.votes
    opponents = np.delete(np.arange(len(population.skills)), rigging.model)
    opponent = rng.choice(opponents, count)
    on_left = rng.random(count) < 0.5
    sides = np.stack(
        [np.where(on_left, rigging.model, opponent), np.where(on_left, opponent, rigging.model)],
        axis=1,
    )
    pairs, propensities = _pairs(population)
    place = {
        (int(first), int(second)): chance
        for (first, second), chance in zip(pairs, propensities, strict=True)
    }
    propensity = np.array(
        [place[min(first, second), max(first, second)] for first, second in sides.tolist()]
    )
    voters = [
        f"bought-{number}-{voter}" for voter in np.repeat(np.arange(rigging.voters), rigging.votes)
    ]
    return _table(population, sides, np.where(on_left, LEFT, 1), voters, propensity)


def _table(
    population: Population, sides: Array, outcome: Array, voters: list[str], propensity: Array
) -> pl.DataFrame:
    """Battles without an id and a time."""
    names = pl.Series(population.models)
    columns = {
        "left": names.gather(sides[:, 0]),
        "right": names.gather(sides[:, 1]),
        "outcome": pl.Series(OUTCOMES).gather(outcome),
        "voter": pl.Series(voters, dtype=pl.String),
        "propensity": pl.Series(propensity),
    }
    frame = pl.DataFrame(columns)
    fixed = [
        pl.lit(DEFAULTS.get(name), dtype).alias(name)
        for name, dtype in SCHEMA.items()
        if name not in columns
    ]
    return frame.with_columns(fixed).select(*SCHEMA)
