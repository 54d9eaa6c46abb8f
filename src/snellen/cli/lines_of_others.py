"""The `snellen run` line that a command line of another harness stands for."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from snellen.keyword_names import COLUMN, COLUMN_ROLES
from snellen.models.loading import names_model
from snellen.models.model_strings import model_string, suggested_string

MODELS = ("--model", "--models", "--model-name")
MODEL_ARGUMENTS = ("--model-args",)
BENCHMARKS = (
    "--task",
    "--tasks",
    "--benchmark",
    "--benchmarks",
    "--data",
    "--dataset",
    "--datasets",
    "--suite",
)
MODEL_OPTIONS = {
    "--device": "device",
    "--dtype": "dtype",
    "--batch-size": "batch_size",
    "--api-base": "base_url",
    "--base-url": "base_url",
    "--model-base-url": "base_url",
}
"""Flags that are options of a model string here."""
OTHER_NAMES = {
    "--num-fewshot": "--few-shot",
    "--fewshot": "--few-shot",
    "--output-path": "--runs",
    "--output-dir": "--runs",
    "--log-dir": "--runs",
    "--work-dir": "--runs",
    "--samples": "--limit",
    "--num-samples": "--limit",
    "--max-samples": "--limit",
    "-n": "--limit",
    "--max-tokens": "--max-new-tokens",
}
WITHOUT_EFFECT = ("--log-samples", "--verbose")
"""Switches that ask for what happens anyway."""
CHECKPOINTS = ("pretrained", "model_version", "model_name", "model")
"""Names of the model among `--model_args`."""


def line_of_others(words: Sequence[str]) -> str:
    """Return the `snellen run` line that words with flags of another harness stand for.

    Args:
        words: The words behind `snellen run`.

    Returns:
        The line; an empty string if no flag is about models or benchmarks. What is missing is MODEL or BENCHMARK.

    Examples:
        >>> line_of_others("--model hf --model_args pretrained=org/name,dtype=float32 --tasks pope,mme".split())
        "snellen run 'hf:org/name?dtype=float32' pope mme"
    """
    models: list[str] = []
    benchmarks: list[str] = []
    options: dict[str, str] = {}
    others: list[str] = []
    flags = _flags(words)
    names_of_flags = {flag for flag, _ in flags}
    if names_of_flags.isdisjoint((*MODELS, *MODEL_ARGUMENTS, *BENCHMARKS, *MODEL_OPTIONS)):
        return ""
    has_model = not names_of_flags.isdisjoint((*MODELS, *MODEL_ARGUMENTS))
    for flag, values in flags:
        if not flag:
            for word in values:
                is_first = not models and not benchmarks and not has_model
                (models if is_first or names_model(word) else benchmarks).append(word)
        elif flag in MODELS:
            models += _names(values)
        elif flag in MODEL_ARGUMENTS:
            pairs = (pair.partition("=") for value in values for pair in value.split(","))
            options |= {name: value for name, equals, value in pairs if equals}
        elif flag in BENCHMARKS:
            benchmarks += _names(values)
        elif flag in MODEL_OPTIONS:
            options[MODEL_OPTIONS[flag]] = " ".join(values)
        elif flag in OTHER_NAMES:
            others += [OTHER_NAMES[flag], *values]
        elif flag not in WITHOUT_EFFECT:
            others += [flag, *values]
    strings = _model_strings(models, options)
    return shlex.join(
        ["snellen", "run", *(strings or ["MODEL"]), *(benchmarks or ["BENCHMARK"]), *others]
    )


def build_line(flag: str, words: Sequence[str]) -> str:
    """Return the line that names a column, for a flag such as `--image-col`; empty for another flag.

    Args:
        flag: The flag.
        words: The words behind `snellen run`, among which the file may be.

    Examples:
        >>> build_line("--image-col", ["snellen:tiny", "--image-col", "picture"])
        'snellen build FILE --column image=picture'
    """
    flag = flag.replace("_", "-")
    column = COLUMN.fullmatch(flag.removeprefix("--").replace("-", "_"))
    if not column:
        return ""
    role = COLUMN_ROLES.get(column[1], column[1])
    files = [word for word in words if Path(word).suffix and Path(word).is_file()]
    named = [values[0] for name, values in _flags(words) if name == flag and values]
    column_name = named[0] if named else "NAME"
    file = files[0] if files else "FILE"
    return shlex.join(["snellen", "build", file, "--column", f"{role}={column_name}"])


def _flags(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return flags, with hyphens, and the values behind each; the words before the first are behind an empty flag.

    A flag of another harness takes all words up to the next flag, as `--data A B` does. Other flags take one.
    """
    flags: list[tuple[str, list[str]]] = [("", [])]
    for word in words:
        if word.startswith("-") and len(word) > 1:
            name, equals, value = word.partition("=")
            is_long = name.startswith("--")
            flag = name.replace("_", "-") if is_long else name
            flags.append((flag, [value] if equals else []))
            continue
        flag, values = flags[-1]
        is_list = not flag or flag in MODELS or flag in BENCHMARKS
        if values and not is_list:
            flags.append(("", [word]))
        else:
            values.append(word)
    return flags


def _names(values: Sequence[str]) -> list[str]:
    """Return names that are given one by one or between commas."""
    names: list[str] = []
    for value in values:
        is_whole = Path(value).exists() or "?" in value or "://" in value
        names += [value] if is_whole else [name for name in value.split(",") if name]
    return names


def _model_strings(models: Sequence[str], options: dict[str, str]) -> list[str]:
    """Return the model strings of names and of options, among which the name may be."""
    options = dict(options)
    address = options.pop("base_url", "")
    checkpoint = ""
    for name in CHECKPOINTS:
        checkpoint = checkpoint or options.pop(name, "")
    strings = []
    for model in models:
        if checkpoint and address:
            strings.append(f"openai:{checkpoint}@{address}")
        elif checkpoint:
            scheme = model if model in ("vllm", "openai", "anthropic", "gemini") else "hf"
            strings.append(f"{scheme}:{checkpoint}")
        elif address and "@" not in model:
            strings.append(f"openai:{model.removeprefix('openai:')}@{address}")
        else:
            strings.append(model if names_model(model) else suggested_string(model) or model)
    if checkpoint and not models:
        strings.append(f"openai:{checkpoint}@{address}" if address else f"hf:{checkpoint}")
    return [model_string(string, **options) for string in strings]
