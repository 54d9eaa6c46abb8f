"""Metrics: pure functions from replies and golds to numbers.

A per-sample text metric is `metric(reply, references) -> float` in [0, 1]; a corpus metric is
`metric(replies, references, *, tokens="standard") -> CorpusScore`. Each exists as `standard` (the
corrected rule) and, where a paper's number was made by another rule, as `legacy`, apart and by name.
"""
