"""Where Snellen keeps built benchmarks: `$SNELLEN_HOME`, or the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    if chosen := os.environ.get("SNELLEN_HOME"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("snellen", appauthor=False))


def benchmark_folder(name: str) -> Path:
    """Where the benchmark called `name` is, or would be, built."""
    return home() / "benchmarks" / name


def slug(text: str) -> str:
    """`text` as a folder name: letters, digits, dot, dash and underscore."""
    folder_name = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in text)
    while "--" in folder_name:
        folder_name = folder_name.replace("--", "-")
    return folder_name.strip("-.") or "run"
