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
