"""Gradient-boosted trees as arrays, and what they say of a row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Trees(NamedTuple):
    """All nodes of all trees. A leaf is a node that leads to itself, whatever the row."""

    roots: Array
    """[trees] of node numbers."""
    column: Array
    """[nodes]: which value of a row a node looks at."""
    limit: Array
    """[nodes]: up to it a row goes left."""
    left: Array
    right: Array
    value: Array
    """[nodes]: what a leaf adds to the log odds; 0 elsewhere."""
    depth: int

    def log_odds(self, rows: Array) -> Array:
        """The sum of the leaves that each row comes to: [rows, columns] -> [rows]."""
        nodes = np.broadcast_to(self.roots, (len(rows), len(self.roots)))
        lines = np.arange(len(rows))[:, None]
        for _ in range(self.depth):
            goes_left = rows[lines, self.column[nodes]] <= self.limit[nodes]
            nodes = np.where(goes_left, self.left[nodes], self.right[nodes])
        return np.asarray(self.value[nodes].sum(axis=1, dtype=np.float64))
