"""From a reply to the option it names: the reference extractor, and the rules of the papers by name."""

from __future__ import annotations

from functools import partial

from snellen.extract import legacy
from snellen.extract.reading import FOUND, Confidence, Extractor, Reading, Way
from snellen.extract.standard import VERSION, read_choice

EXTRACTORS: dict[str, Extractor] = {
    "standard": read_choice,
    "strict": partial(read_choice, mode="strict"),
    "legacy:mmbench": legacy.mmbench_step1,
    "legacy:mmbench-toolkit-2024-01": legacy.toolkit,
    "legacy:mmbench-toolkit-2025-08": partial(legacy.toolkit, date="2025-08"),
    "legacy:mmbench-toolkit-2026-06": partial(legacy.toolkit, date="2026-06"),
    "legacy:reform-eval": legacy.reform_eval_first_mark,
    "legacy:lvlm-ehub": legacy.ehub_word_match,
}
"""Extractors by name, all of one signature: (reply, options in the order shown, marks) -> Reading."""

VERSIONS: dict[str, str] = {
    "standard": VERSION,
    "strict": f"{VERSION}-strict",
    "legacy:mmbench": legacy.MMBENCH_VERSION,
    "legacy:mmbench-toolkit-2024-01": "mmbench-toolkit-2024-01",
    "legacy:mmbench-toolkit-2025-08": "mmbench-toolkit-2025-08",
    "legacy:mmbench-toolkit-2026-06": "mmbench-toolkit-2026-06",
    "legacy:reform-eval": legacy.REFORM_EVAL_VERSION,
    "legacy:lvlm-ehub": legacy.EHUB_VERSION,
}
"""What is stored with a prediction, by extractor."""

__all__ = [
    "EXTRACTORS",
    "FOUND",
    "VERSION",
    "VERSIONS",
    "Confidence",
    "Extractor",
    "Reading",
    "Way",
    "read_choice",
]
