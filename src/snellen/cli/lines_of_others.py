"""The `snellen run` line that a command line of another harness stands for."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

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
    "--device-map": "device_map",
    "--dtype": "dtype",
    "--torch-dtype": "dtype",
    "--attn-implementation": "attn_implementation",
    "--batch-size": "batch_size",
    "--peft": "peft",
    "--adapter": "peft",
    "--adapter-path": "peft",
    "--lora": "peft",
    "--lora-path": "peft",
    "--min-pixels": "min_pixels",
    "--max-pixels": "max_pixels",
    "--trust-remote-code": "trust_remote_code",
    "--load-in-4bit": "load_in_4bit",
    "--load-in-8bit": "load_in_8bit",
    "--system-instruction": "system",
    "--system-prompt": "system",
    "--system": "system",
    "--concurrency": "concurrency",
    "--num-concurrent": "concurrency",
    "--max-connections": "concurrency",
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
    "--output": "--runs",
    "-o": "--runs",
    "--log-dir": "--runs",
    "--work-dir": "--runs",
    "--samples": "--limit",
    "--num-samples": "--limit",
    "--max-samples": "--limit",
    "-n": "--limit",
    "--max-tokens": "--max-new-tokens",
    "--max-output-tokens": "--max-new-tokens",
    "--num-workers": "--workers",
    "--use-cache": "--cache",
    "--judge-model": "--judge",
    "--protocol": "--protocols",
}
PLACES = ("--output", "-o", "--output-path", "--output-dir")
"""Flags of a place for results, in whose message the whole line stands as well."""
GENERATION = ("--gen-kwargs", "--generation-kwargs", "--generation-config")
"""Flags with settings of generation as `NAME=VALUE`, between commas."""
GENERATION_FLAGS = {
    "temperature": "--temperature",
    "top_p": "--top-p",
    "max_new_tokens": "--max-new-tokens",
    "max_tokens": "--max-new-tokens",
    "max_gen_toks": "--max-new-tokens",
    "until": "--stop",
    "stop": "--stop",
    "seed": "--seed",
}
WITHOUT_EFFECT = (
    "--log-samples",
    "--verbose",
    "--verbosity",
    "--apply-chat-template",
    "--fewshot-as-multiturn",
    "--reuse",
    "--write-out",
    "--log-samples-suffix",
)
"""Flags that ask for what happens anyway, or for more lines in the terminal."""
SCHEMES = {
    **dict.fromkeys(
        (
            "openai-chat-completions",
            "openai-completions",
            "local-chat-completions",
            "local-completions",
            "openai_compatible",
            "openai_compatible_chat",
            "async_openai",
            "gpt4v",
        ),
        "openai",
    ),
    **dict.fromkeys(("anthropic-chat", "anthropic-chat-completions", "claude"), "anthropic"),
    "gemini_api": "gemini",
}
"""Schemes of model strings, by the names of model classes in other harnesses."""
LATER = {
    "--fail-under": "`snellen score RUN --fail-under {}` after the run",
    "--fail-if-worse": "`snellen compare RUN BASELINE --fail-if-worse {}` after the run",
    "--mode": "a run asks and scores, `snellen score RUN` scores again",
    "--predict-only": "a run asks and scores",
    "--wandb-args": "`snellen export RUN --track wandb:PROJECT` after the run",
}
"""What to do instead of a flag that no flag of `snellen run` stands for."""
CHECKPOINTS = ("pretrained", "model_version", "model_name", "model")
"""Names of the model among `--model_args`."""


class TranslatedLine(Struct, frozen=True):
    """A `snellen run` line for the words of another harness."""

    line: str
    """The line; empty if no flag is about models or benchmarks. What is missing is MODEL or BENCHMARK."""
    left_out: tuple[str, ...] = ()
    """Flags that the line has nothing for, with their values and what to do instead."""

    def __str__(self) -> str:
        """Return the line as a message quotes it, with what it leaves out."""
        left_out = f" (left out: {', '.join(self.left_out)})" if self.left_out else ""
        return f"`{self.line}`{left_out}"


def line_of_others(
    words: Sequence[str], known: Mapping[str, bool] = MappingProxyType({})
) -> TranslatedLine:
    """Return the `snellen run` line that words with flags of another harness stand for.

    Args:
        words: The words behind `snellen run`.
        known: For each flag of `snellen run`, whether it has a value. Other flags are translated, or left out.

    Examples:
        >>> line = "--model hf --model_args pretrained=org/name,dtype=float32 --tasks pope,mme --nproc 4"
        >>> translated = line_of_others(line.split())
        >>> translated.line
        "snellen run 'hf:org/name?dtype=float32' pope mme"
        >>> translated.left_out
        ('--nproc 4',)
    """
    models: list[str] = []
    benchmarks: list[str] = []
    options: dict[str, str] = {}
    translated_flags: list[str] = []
    left_out: list[str] = []
    flags = _flags(words, known)
    names_of_flags = {flag for flag, _ in flags}
    if names_of_flags.isdisjoint((*MODELS, *MODEL_ARGUMENTS, *BENCHMARKS, *MODEL_OPTIONS, *PLACES)):
        return TranslatedLine("")
    has_model = not names_of_flags.isdisjoint((*MODELS, *MODEL_ARGUMENTS))
    for flag, values in flags:
        own_flag = OTHER_NAMES.get(flag, flag)
        if not flag:
            for word in values:
                is_first = not models and not benchmarks and not has_model
                (models if is_first or names_model(word) else benchmarks).append(word)
        elif flag in MODELS:
            models += _names(values)
        elif flag in MODEL_ARGUMENTS:
            options |= _pairs(values)
        elif flag in BENCHMARKS:
            benchmarks += _names(values)
        elif flag in MODEL_OPTIONS:
            options[MODEL_OPTIONS[flag]] = " ".join(values) or "true"
        elif flag in GENERATION:
            translated_flags += _generation_flags(_pairs(values), left_out)
        elif flag == "--log-samples":
            left_out.append("--log_samples (every reply is stored)")
        elif flag in WITHOUT_EFFECT:
            continue
        elif _has_no_use(own_flag, values, known):
            left_out.append(_describe_left_out(flag, values))
        else:
            translated_flags += [own_flag, *values]
    strings = _model_strings(models, options)
    line = [
        "snellen",
        "run",
        *(strings or ["MODEL"]),
        *(benchmarks or ["BENCHMARK"]),
        *translated_flags,
    ]
    return TranslatedLine(shlex.join(line), tuple(left_out))


def _pairs(values: Sequence[str]) -> dict[str, str]:
    """Return settings that are given as `NAME=VALUE`, between commas."""
    pairs = (pair.partition("=") for value in values for pair in value.split(","))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def _generation_flags(settings: Mapping[str, str], left_out: list[str]) -> list[str]:
    """Return the flags for settings of generation, and append the others to what is left out."""
    flags: list[str] = []
    for name, value in settings.items():
        if name in GENERATION_FLAGS:
            flags += [GENERATION_FLAGS[name], value]
        elif name != "do_sample":  # follows from the temperature
            left_out.append(f"{name}={value}")
    return flags


def _has_no_use(flag: str, values: Sequence[str], known: Collection[str]) -> bool:
    """Return whether `snellen run` has nothing for a flag, or cannot use its value."""
    if flag in ("--limit", "--seed", "--few-shot"):
        return not (len(values) == 1 and values[0].isdecimal())
    if known:
        return flag not in known
    return flag not in OTHER_NAMES.values()


def _describe_left_out(flag: str, values: Sequence[str]) -> str:
    """Return a flag that has no counterpart here, with what to do instead where that is known."""
    shown = shlex.join([flag, *values])
    if flag in LATER:
        return f"{shown} ({LATER[flag].format(shlex.join(values) or 'NUMBER')})"
    if flag == "--limit":
        return f"{shown} (a limit is a number of samples)"
    return shown


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


def _flags(
    words: Sequence[str], known: Mapping[str, bool] = MappingProxyType({})
) -> list[tuple[str, list[str]]]:
    """Return flags, with hyphens, and the values behind each; the words before the first are behind an empty flag.

    A flag of another harness takes all words up to the next flag, as `--data A B` does. Other flags take one, or none
    if `known` says so.
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
        takes_none = known.get(flag) is False
        if takes_none or (values and not is_list):
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
            is_scheme = model in ("vllm", "sglang", "openai", "anthropic", "gemini")
            scheme = model if is_scheme else SCHEMES.get(model, "hf")
            strings.append(f"{scheme}:{checkpoint}")
        elif address and "@" not in model:
            strings.append(f"openai:{model.removeprefix('openai:')}@{address}")
        else:
            strings.append(model if names_model(model) else suggested_string(model) or model)
    if checkpoint and not models:
        strings.append(f"openai:{checkpoint}@{address}" if address else f"hf:{checkpoint}")
    return [model_string(string, **options) for string in strings]
