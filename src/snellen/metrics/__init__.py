"""Metrics: pure functions from replies and golds to numbers.

A per-sample text metric is `metric(reply, references) -> float` in [0, 1]; a corpus metric is
`metric(replies, references, *, tokens="standard") -> CorpusScore`. Where a paper's number follows another rule than
the correct one, that rule is a separate `legacy` metric.
"""
