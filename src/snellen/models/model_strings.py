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
from snellen.errors import ModelError, UnknownNameError

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


class ModelSpec(Struct, frozen=True):
    """The parts of a model string `scheme:target?option=value&...`."""

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
    if not colon or not target:
        suggestion = _suggest_string(text)
        hint = f"write for example {_EXAMPLES}"
        if suggestion:
            hint = f"did you mean {suggestion}?"
        raise ModelError(f"model {text!r} has no scheme; {hint}")
    return ModelSpec(text, scheme, target, dict(parse_qsl(query, keep_blank_values=True)))


def _suggest_string(text: str) -> str:
    """Return the model string that a name without a scheme most likely means, or an empty string.

    Other harnesses write `gpt-4o`, `openai/gpt-4o`, `hf/org/name` and `org/name`. An embedded model is called by its
    name.
    """
    first, slash, rest = text.partition("/")
    if slash and first in registry.names("models"):
        return f"{first}:{rest}"
    if Path(text).is_dir():
        return f"hf:{text}" if text.startswith((".", "/")) else f"hf:./{text}"
    if slash:
        return f"hf:{text}"
    with suppress(UnknownNameError):
        registry.find("model_checks", "snellen")(ModelSpec(text, "snellen", text, {}))
        return f"snellen:{text}"
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
    """
    if not isinstance(model, Mapping):
        return model
    if not isinstance(model.get("model"), str):
        raise ModelError(
            f'a model as a table needs its string: model = "openai:...", not {dict(model)}'
        )
    return model_string(**model)


def locate_checkpoint(spec: ModelSpec) -> tuple[str, str]:
    """Return the folder or repository of a model string, and its revision, without loading anything.

    Raises:
        ModelError: The folder has no model, or the target is not the name of a repository.
    """
    target = spec.target
    if target.startswith((".", "/", "~")) or Path(target).is_dir():
        folder = Path(target).expanduser()
        if not folder.is_dir():
            raise ModelError(f"{spec.text}: there is no folder {folder}; check the path")
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"{spec.text}: {folder} has no config.json; point at the folder save_pretrained wrote"
            )
        return str(folder), ""
    name, _, revision = target.partition("@")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise ModelError(
            f"{spec.text}: {name!r} is not a repository name; write hf:org/name[@revision] or hf:./folder"
        )
    return name, revision
