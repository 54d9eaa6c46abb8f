"""Translate command lines of other evaluation harnesses to `snellen run`, for error messages."""

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
"""Flags of other harnesses that are options of a model string in Snellen."""
IN_PROCESS = (
    "batch_size",
    "device",
    "device_map",
    "dtype",
    "attn_implementation",
    "load_in_4bit",
    "load_in_8bit",
)
"""Options of models in this process, which a server sets for itself."""
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
OUTPUT_FLAGS = ("--output", "-o", "--output-path", "--output-dir")
"""Flags of other harnesses for the folder of results. Their error message has the complete command, too."""
GENERATION = ("--gen-kwargs", "--generation-kwargs", "--generation-config")
"""Flags of other harnesses with settings of generation as `NAME=VALUE`, between commas."""
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
"""Flags of other harnesses for what Snellen does anyway, or for more lines in the terminal."""
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
    "--mode": "a run asks and scores; `snellen score RUN` scores again without the model",
    "--predict-only": "a run asks and scores",
    "--wandb-args": "`snellen export RUN --track wandb:PROJECT` after the run",
}
"""What to do instead of a flag that has no counterpart in `snellen run`."""
CHECKPOINTS = ("pretrained", "model_version", "model_name", "model")
"""Names of the model among `--model_args`."""


class TranslatedLine(Struct, frozen=True):
    """A `snellen run` command for a command line of another harness."""

    line: str
    """The command, with MODEL or BENCHMARK for what is missing; empty if no flag is about models or benchmarks."""
    left_out: tuple[str, ...] = ()
    """Flags without a counterpart in Snellen, with their values and what to do instead."""

    def __str__(self) -> str:
        """Return the line as a message quotes it, with what it leaves out."""
        left_out = f" (left out: {', '.join(self.left_out)})" if self.left_out else ""
        return f"`{self.line}`{left_out}"


def translate_line(
    words: Sequence[str], known: Mapping[str, bool] = MappingProxyType({})
) -> TranslatedLine:
    """Translate a command line of another harness to a `snellen run` command.

    Args:
        words: The words of the command line, without the program.
        known: The flags of `snellen run`, and whether each has a value. Flags that are not among them are
            translated if they have a counterpart, and otherwise left out.

    Returns:
        The command, and what was left out of it. The command is empty if no flag is one of another harness.

    Examples:
        >>> line = "--model hf --model_args pretrained=org/name,dtype=float32 --tasks pope,mme --nproc 4"
        >>> translated = translate_line(line.split())
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
    flags_and_values = _group_by_flag(words, known)
    flags = {flag for flag, _ in flags_and_values}
    flags_to_translate = (*MODELS, *MODEL_ARGUMENTS, *BENCHMARKS, *MODEL_OPTIONS, *OUTPUT_FLAGS)
    if flags.isdisjoint(flags_to_translate):
        return TranslatedLine("")
    has_model_flag = not flags.isdisjoint((*MODELS, *MODEL_ARGUMENTS))
    for flag, values in flags_and_values:
        own_flag = OTHER_NAMES.get(flag, flag)
        if not flag:
            for word in values:
                is_first_word = not models and not benchmarks and not has_model_flag
                if is_first_word or names_model(word):
                    models.append(word)
                else:
                    benchmarks.append(word)
        elif flag in MODELS:
            models += _split_names(values)
        elif flag in MODEL_ARGUMENTS:
            options |= _parse_pairs(values)
        elif flag in BENCHMARKS:
            benchmarks += _split_names(values)
        elif flag in MODEL_OPTIONS:
            options[MODEL_OPTIONS[flag]] = " ".join(values) or "true"
        elif flag in GENERATION:
            translated_flags += _generation_flags(_parse_pairs(values), left_out)
        elif flag == "--log-samples":
            left_out.append("--log_samples (every reply is stored)")
        elif flag in WITHOUT_EFFECT:
            continue
        elif _is_unusable(own_flag, values, known):
            left_out.append(_describe_left_out(flag, values))
        else:
            translated_flags += [own_flag, *values]
    if _is_served(models, options):
        for name in IN_PROCESS:
            if name in options:
                left_out.append(f"{name}={options.pop(name)} (the server decides)")
    strings = _model_strings(models, options)
    for string in strings:
        if not names_model(string):
            left_out.append(
                f"the name of the model, {string}, is of another toolkit: write hf:ORG/NAME or openai:NAME@URL in its place"
            )
    line = [
        "snellen",
        "run",
        *(strings or ["MODEL"]),
        *(benchmarks or ["BENCHMARK"]),
        *translated_flags,
    ]
    return TranslatedLine(shlex.join(line), tuple(left_out))


def _parse_pairs(values: Sequence[str]) -> dict[str, str]:
    """Return settings that are written as `NAME=VALUE,NAME=VALUE`, by name. Parts without an equals sign are ignored."""
    settings = {}
    for text in values:
        for pair in text.split(","):
            name, equals, value = pair.partition("=")
            if equals:
                settings[name.strip()] = value.strip()
    return settings


def _generation_flags(settings: Mapping[str, str], left_out: list[str]) -> list[str]:
    """Translate settings of generation to flags of `snellen run`.

    Args:
        settings: The settings by their name in the other harness.
        left_out: Settings without a counterpart are appended to this list, as `NAME=VALUE`.

    Returns:
        The flags and their values.
    """
    flags: list[str] = []
    for name, value in settings.items():
        if name in GENERATION_FLAGS:
            flags += [GENERATION_FLAGS[name], value]
        elif name != "do_sample":  # it follows from the temperature
            left_out.append(f"{name}={value}")
    return flags


def _is_unusable(flag: str, values: Sequence[str], known: Collection[str]) -> bool:
    """Return whether a flag has to be left out, because `snellen run` does not have it or cannot use its value.

    For example, `--limit 0.1` cannot be used, because a limit is a whole number of samples.

    Args:
        flag: The flag, under its name in Snellen.
        values: The words after it.
        known: The flags of `snellen run`; if empty, only the flags that have a name in another harness count as
            known.
    """
    if flag in ("--limit", "--seed", "--few-shot"):
        is_number = len(values) == 1 and values[0].isdecimal()
        return not is_number
    if known:
        return flag not in known
    return flag not in OTHER_NAMES.values()


def _describe_left_out(flag: str, values: Sequence[str]) -> str:
    """Return a flag and its values as a text for the list of what was left out, if possible with what to do instead."""
    flag_text = shlex.join([flag, *values])
    if flag in LATER:
        advice = LATER[flag].format(shlex.join(values) or "NUMBER")
        return f"{flag_text} ({advice})"
    if flag == "--limit":
        return f"{flag_text} (a limit is a number of samples)"
    return flag_text


def line_to_build(flag: str, words: Sequence[str]) -> str:
    """Return the `snellen build` command that names a column of a table, for a flag such as `--image-col`.

    Args:
        flag: The flag.
        words: The words after `snellen run`. The first file among them is taken for the table.

    Returns:
        The command; empty if the flag does not name a column.

    Examples:
        >>> line_to_build("--image-col", ["snellen:tiny", "--image-col", "picture"])
        'snellen build FILE --column image=picture'
    """
    flag = flag.replace("_", "-")
    column = COLUMN.fullmatch(flag.removeprefix("--").replace("-", "_"))
    if not column:
        return ""
    role = COLUMN_ROLES.get(column[1], column[1])
    file = "FILE"
    for word in words:
        if Path(word).suffix and Path(word).is_file():
            file = word
            break
    column_name = "NAME"
    for other_flag, values in _group_by_flag(words):
        if other_flag == flag and values:
            column_name = values[0]
            break
    return shlex.join(["snellen", "build", file, "--column", f"{role}={column_name}"])


def _group_by_flag(
    words: Sequence[str], known: Mapping[str, bool] = MappingProxyType({})
) -> list[tuple[str, list[str]]]:
    """Group the words of a command line by the flag that they belong to.

    For example, `hf:x --data A B --limit 5 pope` gives `("", ["hf:x"])`, `("--data", ["A", "B"])`, `("--limit",
    ["5"])` and `("", ["pope"])`. A flag for models or benchmarks takes all words up to the next flag, and any other
    flag one word.

    Args:
        words: The words.
        known: Whether a flag has a value, by flag. Flags that are not among these are assumed to have one.

    Returns:
        Pairs of a flag, with hyphens in place of underscores, and its values. The flag is empty for words that
        belong to none.
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
        takes_several = not flag or flag in MODELS or flag in BENCHMARKS
        takes_none = known.get(flag) is False
        is_complete = bool(values) and not takes_several
        if takes_none or is_complete:
            flags.append(("", [word]))
        else:
            values.append(word)
    return flags


def _split_names(values: Sequence[str]) -> list[str]:
    """Return names that were given as separate words or with commas between them. Paths and model strings stay whole."""
    names: list[str] = []
    for value in values:
        is_single_name = Path(value).exists() or "?" in value or "://" in value
        if is_single_name:
            names.append(value)
        else:
            names += [name for name in value.split(",") if name]
    return names


def _is_served(models: Sequence[str], options: Mapping[str, str]) -> bool:
    """Return whether a model of another harness is behind a server, and not in this process."""
    if "base_url" in options:
        return True
    schemes = {SCHEMES.get(model, model.partition(":")[0]) for model in models}
    return not schemes.isdisjoint(("openai", "anthropic", "gemini"))


def _model_strings(models: Sequence[str], options: dict[str, str]) -> list[str]:
    """Return Snellen's model strings for models of another harness: `hf` with `pretrained=org/name` gives
    `hf:org/name`.

    Args:
        models: Names of models, or of the harness's classes of models, such as `hf` and `vllm`.
        options: Options of the models. They may include the checkpoint, as `pretrained`, and the address of a
            server, as `base_url`.
    """
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
