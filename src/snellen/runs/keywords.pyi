"""The fields of a run as keywords of Python, for type checkers and editors. Written by `make fields`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from snellen.runs.spec import JudgeSpec, ScoringSpec

class ScoringKeywords(TypedDict, total=False):
    extractor: str | Path
    likelihood_rule: Literal["own", "sum", "mean", "byte", "softmax", "pmi", "conditional"]
    metrics: str | Iterable[str]
    unparsed: Literal["not-right", "legacy-random"]
    guess_seed: int
    as_published: bool
    errata: bool
    errata_files: str | Iterable[str]

class RunKeywords(TypedDict, total=False):
    roles: Mapping[str, Any]
    method: Literal["generation", "likelihood", "both"]
    controls: str | Iterable[str]
    where: str | Path
    held_out_for: str | Iterable[str]
    cards: str | Path
    limit: int | None
    templates: str | Path
    prompt: str | Path
    prefix: bool
    few_shot: int
    few_shot_from: str | Path
    few_shot_same: bool
    few_shot_seed: int
    temperature: float | None
    top_p: float | None
    seed: int
    stop: str | Iterable[str]
    max_new_tokens: int | None
    until: str | Path
    name: str | Path
    label: str | Path
    runs: str | Path
    workers: int
    ray: str | Path
    ray_workers: int | None
    gpus_per_worker: float | None
    window: int
    error_budget: float
    price: tuple[float, ...] | None
    max_cost: float | None
    max_requests: int | None
    max_time: float | None
    wait: bool
    cache: str | Path
    strict: bool
    moved: bool
    allow_same_requests: bool
    report: bool
    scoring: ScoringSpec | ScoringKeywords
    judge: JudgeSpec | Any
