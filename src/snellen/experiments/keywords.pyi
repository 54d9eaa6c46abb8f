"""The fields of a comparison as keywords of Python, for type checkers and editors. Written by `make fields`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypedDict

class CompareKeywords(TypedDict, total=False):
    metrics: str | Iterable[str]
    baseline: str | Path
    correction: Literal["holm", "bh", "none"]
    resamples: int
    seed: int
