"""Snellen: an eye chart for large vision-language models.

import snellen as sn
results = sn.evaluate("snellen:oracle", "eyechart/colour", ["circular"], limit=20)
results.table()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from snellen.api import StudyResults as StudyResults
    from snellen.api import build as build
    from snellen.api import decide as decide
    from snellen.api import evaluate as evaluate
    from snellen.api import export_benchmark as export_benchmark
    from snellen.api import load_run as load_run
    from snellen.api import score as score
    from snellen.api import study as study
    from snellen.catalogue import add_suites as add_suites
    from snellen.errors import DataError as DataError
    from snellen.errors import ErrorBudgetError as ErrorBudgetError
    from snellen.errors import ModelError as ModelError
    from snellen.errors import SnellenError as SnellenError
    from snellen.errors import StoreError as StoreError
    from snellen.errors import UnknownNameError as UnknownNameError
    from snellen.models.base import load_model as load_model
    from snellen.models.instruments import Scripted as Scripted
    from snellen.predictions.taking import import_run as import_run
    from snellen.protocols.base import parse_protocol as parse_protocol
    from snellen.records import ContinuationScore as ContinuationScore
    from snellen.records import Decoding as Decoding
    from snellen.records import Request as Request
    from snellen.records import Response as Response
    from snellen.records import Sample as Sample
    from snellen.report.live_progress import shown_progress as shown_progress
    from snellen.results import Results as Results
    from snellen.runs.progress import RunProgress as RunProgress
    from snellen.runs.spec import JudgeSpec as JudgeSpec
    from snellen.runs.spec import ScoringSpec as ScoringSpec

_HOMES = {
    "snellen.api": (
        "StudyResults",
        "build",
        "decide",
        "evaluate",
        "export_benchmark",
        "load_run",
        "score",
        "study",
    ),
    "snellen.catalogue": ("add_suites",),
    "snellen.errors": (
        "DataError",
        "ErrorBudgetError",
        "ModelError",
        "SnellenError",
        "StoreError",
        "UnknownNameError",
    ),
    "snellen.models.base": ("load_model",),
    "snellen.models.instruments": ("Scripted",),
    "snellen.predictions.taking": ("import_run",),
    "snellen.protocols.base": ("parse_protocol",),
    "snellen.records": ("ContinuationScore", "Decoding", "Request", "Response", "Sample"),
    "snellen.report.live_progress": ("shown_progress",),
    "snellen.results": ("Results",),
    "snellen.runs.progress": ("RunProgress",),
    "snellen.runs.spec": ("JudgeSpec", "ScoringSpec"),
}
_WHERE = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022 - sorted as written in the table above
    "__version__",
    "ContinuationScore",
    "DataError",
    "Decoding",
    "ErrorBudgetError",
    "JudgeSpec",
    "ModelError",
    "Request",
    "Response",
    "Results",
    "RunProgress",
    "Sample",
    "ScoringSpec",
    "Scripted",
    "SnellenError",
    "StoreError",
    "StudyResults",
    "UnknownNameError",
    "add_suites",
    "build",
    "evaluate",
    "export_benchmark",
    "import_run",
    "load_model",
    "load_run",
    "parse_protocol",
    "score",
    "shown_progress",
    "study",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import snellen` costs nothing."""
    if name not in _WHERE:
        raise AttributeError(f"module 'snellen' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
