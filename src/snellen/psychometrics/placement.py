"""Where to ask next: levels are numbered from the hardest, and each call says which ones are asked together."""

from __future__ import annotations

import random
from collections.abc import Sequence

from snellen.psychometrics.posterior import Posterior, at_most

AT_ONCE = 6
"""Questions of a test that are asked together."""
CHECK_EVERY = 12
"""One question of so many is a check at an easier level: it shows lapses, and curves that do not rise."""
SURPRISE = 0.2
"""Probability of so few right answers below which a check goes back to the same level."""
SURE = 0.975
"""Probability that the threshold lies beyond the levels from which no more is asked."""


def first_levels(levels: int, count: int) -> list[int]:
    """So many levels, spread evenly: they find where the threshold may be."""
    return [int((place + 0.5) * levels / count) for place in range(count)]


def next_levels(posterior: Posterior, left: Sequence[int], count: int, rng: random.Random) -> list[int]:
    """The levels of the next `count` questions, each the most informative one if those before it are answered as
    expected, but for checks. `left` says how many questions each level still has."""
    remaining, levels = list(left), list[int]()
    asked = round(float(posterior.asked.sum()))
    for number in range(asked + 1, asked + 1 + min(count, sum(remaining))):
        level = posterior.most_informative(remaining)
        if number % CHECK_EVERY == 0:
            level = _check_level(posterior, level, remaining, rng)
        levels.append(level)
        remaining[level] -= 1
        posterior = posterior.after(level)
    return levels


def _check_level(posterior: Posterior, level: int, left: Sequence[int], rng: random.Random) -> int:
    """A level easier than this one: one whose answers fall short of its curve, else any; this one if it is the last."""
    easier = [place for place in range(level + 1, len(left)) if left[place]]
    expected = posterior.mean_right
    surprises = {
        place: at_most(round(posterior.right[place]), round(posterior.asked[place]), expected[place])
        for place in easier
    }
    worst = min(easier, key=lambda place: surprises[place], default=level)
    if easier and surprises[worst] >= SURPRISE:
        return rng.choice(easier)
    return worst


def is_known(posterior: Posterior, width: float) -> bool:
    """Whether the interval is no wider than `width` (in units of x), or the threshold surely beyond the levels."""
    interval, levels = posterior.threshold, posterior.grid.levels
    beyond = max(posterior.beyond(levels[-1]), posterior.below(levels[0]))
    return posterior.asked.sum() >= 2 * AT_ONCE and (interval.high - interval.low <= width or beyond > SURE)
