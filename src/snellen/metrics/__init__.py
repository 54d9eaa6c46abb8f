"""Metrics: pure functions from replies and golds to numbers.

A per-sample text metric is `metric(reply, references) -> float` in [0, 1]; a corpus metric is
`metric(replies, references, *, tokens="standard") -> CorpusScore`. Where a paper's number follows another rule than
the correct one, that rule is a separate `legacy` metric.
"""

from __future__ import annotations

from typing import Any

from snellen.absent_names import hint_at_absent_names


def __getattr__(name: str) -> Any:
    """Raise an error that says where metrics are for somebody who looks for them in `sn.metrics`."""
    raise AttributeError(
        f"module 'snellen.metrics' has no attribute {name!r}; sn.list_metrics() shows the metrics, "
        f"sn.evaluate(..., metrics=NAME) computes one, and value(NAME) of the results is its number"
    )


hint_at_absent_names(__path__)
