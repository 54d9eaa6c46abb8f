"""Parse and write model strings, such as `hf:org/name?dtype=bfloat16`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Struct

from snellen import registry
from snellen.common.foreign import read_file, regular_file
from snellen.common.paths import expanded
from snellen.errors import ModelError, UnknownNameError
from snellen.own_code import code_hint

ADAPTER_CONFIG = "adapter_config.json"
"""File that PEFT writes into the folder of an adapter."""
STATE_FILES = (".safetensors", ".bin", ".json", ".jinja", ".model", ".txt", ".py")
"""Suffixes of the files in a model folder that its answers depend on."""
_EXAMPLES = "hf:org/name, hf:./folder, openai:name@http://host:port/v1 or snellen:tiny"
_SCHEMES_BY_PREFIX = {
    "gpt-": "openai",
    "chatgpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini": "gemini",
}
"""Schemes of well-known models, by the prefix of their name."""
_NAMES_OF_VLMEVALKIT = {
    "llava_v1.5_7b": "hf:llava-hf/llava-1.5-7b-hf",
    "llava_v1.5_13b": "hf:llava-hf/llava-1.5-13b-hf",
    "llava_next_mistral_7b": "hf:llava-hf/llava-v1.6-mistral-7b-hf",
    "llava_next_vicuna_7b": "hf:llava-hf/llava-v1.6-vicuna-7b-hf",
    "Qwen2-VL-2B-Instruct": "hf:Qwen/Qwen2-VL-2B-Instruct",
    "Qwen2-VL-7B-Instruct": "hf:Qwen/Qwen2-VL-7B-Instruct",
    "Qwen2.5-VL-3B-Instruct": "hf:Qwen/Qwen2.5-VL-3B-Instruct",
    "Qwen2.5-VL-7B-Instruct": "hf:Qwen/Qwen2.5-VL-7B-Instruct",
    "Qwen2.5-VL-72B-Instruct": "hf:Qwen/Qwen2.5-VL-72B-Instruct",
    "SmolVLM2": "hf:HuggingFaceTB/SmolVLM2-2.2B-Instruct",
    "GPT4o": "openai:gpt-4o",
    "GPT4o_MINI": "openai:gpt-4o-mini",
}
"""Model strings of models that VLMEvalKit calls by names of its own (vlmeval/config.py)."""


class ModelSpec(Struct, frozen=True):
    """The parts of a model string `scheme:target?option=value&...`.

    Examples:
        >>> spec = ModelSpec("birds:watcher?loud=true", "birds", "watcher", {"loud": "true"})
        >>> spec.scheme, spec.target, spec.options
        ('birds', 'watcher', {'loud': 'true'})
    """

    text: str
    """The complete string."""
    scheme: str
    target: str
    options: dict[str, str]


def parse_spec(text: str) -> ModelSpec:
    """Parse a model string.

    Raises:
        ModelError: It has no scheme. The message suggests the string that was probably meant.
    """
    body, _, query = text.partition("?")
    scheme, colon, target = body.partition(":")
    if scheme in ("http", "https"):
        raise ModelError(
            f"model {text!r} is the address of a server; name its model as well: openai:NAME@{body}"
        )
    if not colon or not target:
        is_checkpoint = Path(body, "config.json").is_file()
        code = code_hint(body, "model")
        if code and not is_checkpoint:
            raise ModelError(f"model {text!r} names no function or class; {code}")
        suggestion = suggested_string(text)
        hint = f"examples are {_EXAMPLES}"
        if suggestion:
            hint = f"did you mean {suggestion}?"
        raise ModelError(f"model {text!r} has no scheme; {hint}")
    return ModelSpec(text, scheme, target, dict(parse_qsl(query, keep_blank_values=True)))


def says_batch(text: str) -> bool:
    """Return whether a model string has the option `batch=true`, without loading the model."""
    _, _, query = text.partition("?")
    return dict(parse_qsl(query)).get("batch", "").lower() in ("true", "1")


def suggested_string(text: str) -> str:
    """Return the model string that a name without a scheme most likely means, or an empty string.

    Other harnesses write `gpt-4o`, `openai/gpt-4o`, `hf/org/name` and `org/name`. An embedded model is called by its
    name.
    """
    first, slash, rest = text.partition("/")
    if slash and first in registry.names("models"):
        return f"{first}:{rest}"
    if Path(text, "manifest.json").is_file():  # the folder of a run
        return f"replay:{text}"
    if Path(text).is_dir():
        return f"hf:{text}" if text.startswith((".", "/")) else f"hf:./{text}"
    if slash:
        return f"hf:{text}"
    with suppress(UnknownNameError):
        registry.find_registered("model_checks", "snellen")(ModelSpec(text, "snellen", text, {}))
        return f"snellen:{text}"
    if text in _NAMES_OF_VLMEVALKIT:
        return _NAMES_OF_VLMEVALKIT[text]
    for prefix, scheme in _SCHEMES_BY_PREFIX.items():
        if text.startswith(prefix):
            return f"{scheme}:{text}"
    return ""


def model_string(model: str, **options: Any) -> str:
    """Add options to a model string.

    Args:
        model: The model string.
        options: Values by name. None leaves an option out; anything but a string is written as JSON.

    Examples:
        >>> model_string("hf:org/name", dtype="bfloat16", window=4, revision=None)
        'hf:org/name?dtype=bfloat16&window=4'
    """
    texts = {}
    for name, value in sorted(options.items()):
        if value is None:
            continue
        if isinstance(value, str):
            texts[name] = value
        else:
            texts[name] = msgspec.json.encode(value, order="deterministic").decode()
    if not texts:
        return model
    separator = "&" if "?" in model else "?"
    return model + separator + urlencode(texts)


def as_model_string(model: Any) -> Any:
    """Return the model string of a table `{"model": ..., OPTION: VALUE}`; anything else is returned unchanged.

    Raises:
        ModelError: The table has no model.

    Examples:
        >>> as_model_string("snellen:oracle")
        'snellen:oracle'
    """
    if not isinstance(model, Mapping):
        return model
    if not isinstance(model.get("model"), str):
        raise ModelError(
            f'a model given as a table needs its model string: model = "openai:...", not {dict(model)}'
        )
    return model_string(**model)


def locate_checkpoint(spec: ModelSpec) -> tuple[str, str]:
    """Return the folder or repository of a model string, and its revision, without loading anything.

    Raises:
        ModelError: The folder has no model, or the target is not the name of a repository.
    """
    target = spec.target
    if target.startswith((".", "/", "~")) or Path(target).is_dir():
        folder = expanded(target)
        if not folder.is_dir():
            raise ModelError(f"{spec.text}: there is no folder {folder}; check the path")
        if not (folder / "config.json").is_file():
            raise ModelError(f"{spec.text}: {folder} has no config.json; {_suggest_folder(folder)}")
        check_state_files(folder, spec.text)
        return str(folder), ""
    name, _, revision = target.partition("@")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        scheme = spec.text.partition(":")[0]
        raise ModelError(
            f"{spec.text}: {name!r} is not a repository name; write {scheme}:org/name[@revision] or {scheme}:./folder"
        )
    return name, revision


def check_state_files(folder: Path, what: str) -> None:
    """Check that libraries, which open the files of a model by themselves, find no pipe or device among them.

    Args:
        folder: A folder of a model or of an adapter.
        what: The model string, for errors.

    Raises:
        ModelError: One of the files is not a regular file.
    """
    for path in sorted(folder.iterdir()):
        if path.suffix not in STATE_FILES:
            continue
        try:
            regular_file(path)
        except OSError as error:
            raise ModelError(f"{what}: cannot read {path}: {error.strerror}") from None


def _suggest_folder(folder: Path) -> str:
    """Return what to write in place of a folder without `config.json`."""
    if (folder / ADAPTER_CONFIG).is_file():
        return f"it holds an adapter: write {_adapter_string(folder)}"
    checkpoints = [
        path for path in folder.glob("checkpoint-*") if path.name.partition("-")[2].isdecimal()
    ]
    if not checkpoints:
        return "point at the folder save_pretrained wrote"
    last = max(checkpoints, key=lambda path: int(path.name.partition("-")[2]))
    if (last / ADAPTER_CONFIG).is_file():
        return f"its last checkpoint holds an adapter: write {_adapter_string(last)}"
    return f"did you mean its last checkpoint, hf:{last}?"


def _adapter_string(folder: Path) -> str:
    """Return the model string of an adapter on the base model that its configuration names."""
    base = ""
    with suppress(OSError, msgspec.DecodeError, AttributeError):
        config = msgspec.json.decode(read_file(folder / ADAPTER_CONFIG))
        base = config.get("base_model_name_or_path") or ""
    return f"hf:{base or 'BASE'}?peft={folder}"
