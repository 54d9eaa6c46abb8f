"""The fields of builds as keywords of Python, for type checkers and editors. Written by `make fields`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

class BuildKeywords(TypedDict, total=False):
    source: str | Path
    hub: bool
    revision: str | Path
    ratio: float | None
    params: Mapping[str, Any]
    decisions: Any
    name: str | Path
    images: str | Path
    dimension: str | Path
    metrics: str | Iterable[str]
    no_images: bool
    hidden_answers: bool
    fetch_images: bool
    columns: Mapping[str, str | Iterable[str]]
    answer_is: Literal["letter", "text", "index0", "index1"] | None
    to: str | Path
    answers: str | Path
    lenient: bool
    force: bool
    distractors: str | Path
    options: int | None
    writer: Any
    seed: int
    examples: int | str

class ReformKeywords(TypedDict, total=False):
    ask: str | Iterable[str]
    images: str | Path
    columns: Mapping[str, str | Iterable[str]]
    options: int | None
    distractors: str | Path
    writer: Any
    embeddings: str | Path
    per_type: int | None
    count: int | None
    seed: int
    name: str | Path
    title: str | Path
    licence: str | Path
    to: str | Path
    jury: Iterable[Any]
    blind: Iterable[Any]
    votes: Literal["majority", "all"]
    runs: str | Path
    lenient: bool
    force: bool
