"""Split names at commas, because other harnesses take several names as one text: `A,B`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from snellen.callers import for_caller
from snellen.errors import SnellenError, UnknownNameError
from snellen.models.loading import names_model
from snellen.protocols.base import parse_protocol
from snellen.runs.finding import matching_specs


def separated_models(models: Iterable[Any]) -> list[Any]:
    """Split model strings at commas: `A,B` becomes two models if each part is a model string.

    A comma can also be part of a model string, such as between two addresses. The text is then left as it is.

    Raises:
        UnknownNameError: The text is `snellen:A,B`, where the second part lacks its prefix.

    Examples:
        >>> separated_models(["snellen:tiny,snellen:oracle", "openai:one@http://first/v1,http://second/v1"])
        ['snellen:tiny', 'snellen:oracle', 'openai:one@http://first/v1,http://second/v1']
    """
    separated: list[Any] = []
    for model in models:
        parts = _comma_parts(model)
        if len(parts) > 1 and all(names_model(part) for part in parts):
            separated += parts
            continue
        if parts and parts[0].startswith("snellen:"):
            corrected = []
            for part in parts:
                corrected.append(part if names_model(part) else f"snellen:{part}")
            example = for_caller(" ".join(corrected), str(corrected))
            raise UnknownNameError(f"{model}: give each model with its scheme: {example}")
        separated.append(model)
    return separated


def separated_benchmarks(benchmarks: Iterable[Any]) -> list[Any]:
    """Split benchmarks at commas: `A,B` becomes two, unless a benchmark, a file or a folder has this name.

    Raises:
        UnknownNameError: A part is not a benchmark. The message says how to give several benchmarks.

    Examples:
        >>> separated_benchmarks(["eyechart/shape,eyechart/count"])
        ['eyechart/shape', 'eyechart/count']
    """
    advice = for_caller("separate benchmarks by spaces", "give several benchmarks as a list")
    separated: list[Any] = []
    for benchmark in benchmarks:
        if _is_benchmark(benchmark) or str(benchmark).startswith("hf://"):
            separated.append(benchmark)
        else:
            separated += _checked_parts(benchmark, _check_benchmark, advice)
    return separated


def separated_protocols(protocols: str | Iterable[str]) -> list[str]:
    """Split protocols at commas: `A,B` becomes two. A comma after `?` belongs to the options of a protocol.

    Raises:
        UnknownNameError: A part is not a protocol. The message says how to give several protocols.

    Examples:
        >>> separated_protocols("vanilla,circular")
        ['vanilla', 'circular']
    """
    advice = for_caller("repeat -p for each protocol", "give several protocols as a list")
    separated: list[str] = []
    given = [protocols] if isinstance(protocols, str) else protocols
    for protocol in given:
        name = str(protocol).partition("?")[0]
        if "," in name:
            separated += _checked_parts(protocol, parse_protocol, advice)
        else:
            separated.append(protocol)
    return separated


def _comma_parts(value: Any) -> list[str]:
    """Return the parts of a text between commas, without surrounding spaces.

    Returns:
        The parts; empty if the value is not a text, has no comma, or has several lines.
    """
    if not isinstance(value, str) or "," not in value or "\n" in value:
        return []
    stripped_parts = [part.strip() for part in value.split(",")]
    return [part for part in stripped_parts if part]


def _checked_parts(text: Any, check: Callable[[str], object], advice: str) -> list[Any]:
    """Split a text at commas, and check each part.

    Args:
        text: The text. Without a comma, it is returned as the only part and not checked.
        check: Function that raises an error for a part that is not a valid name.
        advice: How the user can give several names, for the message of the error.

    Raises:
        UnknownNameError: A part is not a valid name.
    """
    parts = _comma_parts(text)
    if not parts:
        return [text]
    for part in parts:
        try:
            check(part)
        except SnellenError as error:
            raise UnknownNameError(f"{error} ({advice})") from None
    return parts


def _is_benchmark(text: Any) -> bool:
    """Return whether a text is one benchmark, also if it contains a comma."""
    if not _comma_parts(text):
        return True
    try:
        _check_benchmark(text)
    except SnellenError:
        return False
    return True


def _check_benchmark(text: str) -> None:
    """Raise an error if no benchmark, file or folder has this name."""
    if not Path(text).exists():
        matching_specs(text)
