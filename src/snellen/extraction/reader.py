"""Which option a reply means where no rule says it for certain: a probability for each option, and for none.

Boosted trees weigh the clues of a reply (`snellen.extraction.clues`). They have learnt from labelled replies
(training/reader); what they say of hands they had not learnt from is what their probabilities were calibrated on
(isotonic regression). A reading counts where, of all held-out readings of its kind at least as probable, no more than
the share that was asked for were wrong, one more than were seen being counted as wrong, as in conformal risk control
(Angelopoulos et al. 2024). There are two kinds: a reply that has the option in so many words, and prose. That share is
a ratio, and falls with the probability by and large only, so the rate is measured and not guaranteed.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from snellen.extraction import clues
from snellen.extraction.clues import Sight
from snellen.extraction.likeness import packaged_arrays

Array = np.ndarray[Any, Any]


class Trees(NamedTuple):
    """All nodes of all trees. A leaf is a node that leads to itself, whatever the row."""

    roots: Array
    """[trees] of node numbers."""
    column: Array
    """[nodes]: which value of a row a node looks at."""
    limit: Array
    """[nodes]: up to it a row goes left."""
    children: Array
    """[2 x nodes]: of each node where a row goes to the left, then to the right."""
    value: Array
    """[nodes]: what a leaf adds to the log odds; 0 elsewhere."""
    depth: int

    def log_odds(self, rows: Array) -> Array:
        """The sum of the leaves that each row comes to: [rows, columns] -> [rows]."""
        nodes = np.tile(self.roots, (len(rows), 1))
        values, begins = rows.ravel(), np.arange(len(rows))[:, None] * rows.shape[1]
        for _ in range(self.depth):
            goes_right = values.take(begins + self.column.take(nodes)) > self.limit.take(nodes)
            nodes = self.children.take(2 * nodes + goes_right)
        return np.asarray(self.value.take(nodes).sum(axis=1, dtype=np.float64))


# --- the reader -------------------------------------------------------------------------------------------------------

MODEL = "reader.npz"


class Limits(NamedTuple):
    """What probabilities are worth for replies of a kind."""

    chances: Array
    """Ascending probabilities of a reading ..."""
    errors: Array
    """... and the bound on the share of wrong ones among the held-out readings from there on."""


class ReaderModel(NamedTuple):
    """What the file of the reader holds."""

    version: str
    names: tuple[str, ...]
    """The clues, in the order of a row."""
    trees: Trees
    scores: Array
    """Ascending log odds ..."""
    chances: Array
    """... and how often an option with such odds was the one that a reader of the reply had named."""
    direct: Limits
    """Of replies that answer directly."""
    prose: Limits
    """Of all others."""

    def limit(self, error: float, *, direct: bool) -> float:
        """The least probability from which on at most a share `error` of the readings is wrong, one half at least;
        above 1 for none."""
        held = self.direct if direct else self.prose
        enough = np.flatnonzero(held.errors <= error)
        return max(0.5, float(held.chances[enough[0]])) if len(enough) else 2.0


@lru_cache(maxsize=1)
def model() -> ReaderModel:
    """The reader that ships with Snellen."""
    with packaged_arrays(MODEL) as held:
        about = json.loads(str(held["about"]))
        parts = {name: held[name] for name in ("roots", "column", "limit", "children", "value")}
        return ReaderModel(
            about["version"],
            tuple(about["names"]),
            Trees(**parts, depth=about["depth"]),
            held["scores"],
            held["chances"],
            *(
                Limits(held[f"{kind} chances"], held[f"{kind} errors"])
                for kind in ("direct", "prose")
            ),
        )


def probabilities(sight: Sight) -> Array:
    """Of each option how probable it is that the reply means it: [options]. What is missing to 1 is for none."""
    held = model()
    names, rows = clues.rows(sight)
    if names != held.names:
        raise AssertionError("the reader was trained on other clues: run training/reader/train.py")
    return calibrated(held.trees.log_odds(rows), held)


def calibrated(log_odds: Array, held: ReaderModel) -> Array:
    """Probabilities that add up to 1 at most."""
    chances = np.interp(log_odds, held.scores, held.chances)
    return np.asarray(chances / max(1.0, float(chances.sum())))
