"""Krippendorff's alpha: how far raters agree, between 0 (as by chance) and 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, Literal

Distance = Literal["nominal", "interval"]
"""How far two ratings differ: `nominal` by 1 unless they are equal, `interval` by (a - b)^2."""


class RatingCounts:
    """How often each value was given to each item, from which alpha is computed for any sample of the items.

    Alpha is 1 - observed / expected disagreement (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability").
    The package evalica computes the same numbers, and the tests compare with it. It is not used here: its bootstrap
    cannot resample groups of items, and calling it for each of thousands of resamples takes 24 to 28 times as long. It
    would also require pandas and SciPy, and calls alpha 1 where it is undefined.

    Args:
        units: The ratings of each item; raters who did not rate it are left out. Items with one rating do not count.
        distance: How two ratings are compared. `interval` requires numbers.

    Examples:
        >>> counts = RatingCounts([[1, 1], [2, 2], [3], [1, 2]], "nominal")
        >>> counts.n_items, counts.n_ratings
        (3, 6)
        >>> round(counts.alpha(), 3)
        0.444
        >>> counts.alpha([1, 1, 0])  # without the item on which the raters disagree
        1.0
    """

    def __init__(self, units: Sequence[Sequence[Any]], distance: Distance) -> None:
        """Count the values of each unit, and compute the unit's disagreement.

        Args:
            units: For each rated item, the values that its raters gave. An item with a single value is left out.
            distance: How far apart two values are: "nominal" is 1 for different ones, otherwise their squared difference.
        """
        # Imported here since many commands that compute no alpha load this module, and numpy takes longer than they do.
        import numpy as np

        comparable = [unit for unit in units if len(unit) > 1]
        values: dict[Hashable, None] = {}
        for unit in comparable:
            values.update(dict.fromkeys(unit))
        # How often each value was given to each unit: shape (units, values).
        counts = []
        for unit in comparable:
            counts.append([unit.count(value) for value in values])
        self._counts = np.array(counts, dtype=np.float64).reshape(len(comparable), len(values))

        if distance == "nominal":
            self._distances = 1 - np.eye(len(values))
        else:
            numbers = np.array(list(values), dtype=np.float64)
            self._distances = (numbers[:, np.newaxis] - numbers) ** 2
        sizes = self._counts.sum(axis=1)
        disagreements = ((self._counts @ self._distances) * self._counts).sum(axis=1)
        self._disagreements = disagreements / (sizes - 1)

    @property
    def n_items(self) -> int:
        """The number of items with two ratings or more."""
        return len(self._counts)

    @property
    def n_ratings(self) -> int:
        """The number of ratings of these items."""
        return int(self._counts.sum())

    def alpha(self, times: Sequence[int] | None = None) -> float | None:
        """Return alpha.

        Args:
            times: How often each item with two ratings or more is in a sample, in the order of the items; by default
                once.

        Returns:
            At most 1. It is undefined (None) if all ratings are the same, or if no item has two.
        """
        import numpy as np

        weights = np.ones(self.n_items) if times is None else np.array(times, dtype=np.float64)
        totals = weights @ self._counts
        expected = float(totals @ self._distances @ totals)
        if not expected:
            return None
        observed = float((totals.sum() - 1) * (weights @ self._disagreements))
        return 1 - observed / expected


def nominal_alpha(units: Sequence[Sequence[Hashable]]) -> float | None:
    """Return Krippendorff's alpha for values without an order. None is a value like any other.

    Args:
        units: The ratings of each item by its raters. Items with one rating do not count.

    Returns:
        At most 1. It is undefined (None) if all ratings are the same, or if no item has two.
    """
    # Many pairs of ratings are the same, so each different pair is compared only once.
    times = Counter(tuple(unit) for unit in units if len(unit) > 1)
    return RatingCounts(list(times), "nominal").alpha(list(times.values()))
