"""Finds the Java programs inside the package pycocoevalcap, without importing it or writing into it."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from snellen.errors import MissingExtraError


def find_jar(path: str, purpose: str) -> tuple[str, Path]:
    """The java command and a jar of pycocoevalcap (`path` within the package). Raises MissingExtraError."""
    java = shutil.which("java")
    if java is None:
        raise MissingJavaError(purpose)
    package = importlib.util.find_spec("pycocoevalcap")
    places = [] if package is None else list(package.submodule_search_locations or ())
    jar = next((place for folder in places if (place := Path(folder, path)).is_file()), None)
    if jar is None:
        raise MissingExtraError("pycocoevalcap", "meteor", purpose)
    return java, jar


class MissingJavaError(MissingExtraError):
    """No `java` on the path."""

    def __init__(self, purpose: str) -> None:
        Exception.__init__(
            self, f"{purpose} runs a Java program, and no java was found: install a Java runtime (8 or later) on PATH"
        )
