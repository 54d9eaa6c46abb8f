"""Keys in model strings: refused where they are written out, with_keys in where `${NAME}` names an environment variable.

A model string is stored with the run and printed. `${NAME}` in an address or in `extra_body` stays in it as it is and is
replaced by the variable's value only in what is sent.
"""

from __future__ import annotations

import os
import re
from typing import Any

from snellen.common.foreign import Secret
from snellen.errors import ModelError

_REFERENCE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
_KEY_NAME = re.compile(
    r"(?:^|[-_.])(?:key|apikey|token|secret|password|passwd|authorization|auth|credentials?|cookie|signature|jwt|bearer)$",
    re.IGNORECASE,
)
"""Names of fields that hold a key: `api_key`, `x-api-key`, `authorization`, but not `max_tokens`."""
_LONG_WORD = re.compile(r"[A-Za-z0-9_]{20,}")
_PREFIXED = re.compile(
    r"\b(?:sk|hf|ghp|pk|rk|xoxb)[-_](?=[\w-]*(?:\d|[a-z][A-Z]))[\w-]{8,}"
    r"|\bAIza[\w-]{8,}"
    r"|\bBearer[-_ ]?[A-Za-z0-9][\w-]{7,}"
)
"""Keys of known services. They have digits or mixed case, unlike `skip_special_tokens`, `hf_overrides` and "skateboard"."""
_JSON_WEB_TOKEN = re.compile(r"\beyJ[\w-]{8,}\.[\w-]+")
_KEY_AS_MODEL_NAME = re.compile(r"\b(?:sk-|hf_|ghp_|pk-|rk-|xoxb-|AIza)(?=[\w-]*\d)[\w-]{16,}")
"""What no model is called. Names of models begin like keys and have long words, so this asks for more."""


def _looks_like_key(text: str) -> bool:
    """Return whether a text looks like it contains a key: a usual beginning, or a long run of letters and digits."""
    text = _REFERENCE.sub("", text)
    for word in _LONG_WORD.findall(text):
        has_digit = any(character.isdigit() for character in word)
        has_letter = any(character.isalpha() for character in word)
        if has_digit and has_letter:
            return True
    return _begins_like_key(text)


def _begins_like_key(text: str) -> bool:
    """Return whether a word of the text begins like the keys of known services, or is a JSON web token."""
    return bool(_PREFIXED.search(text) or _JSON_WEB_TOKEN.search(text))


def _key_in(fields: Any, name: str = "") -> bool:
    """Return whether a value of `extra_body`, or a value inside it, seems to be a secret key.

    A text does if the name of its field says so (`api_key`) or if it begins like a key (`sk-...`), unless it is a
    reference to an environment variable. A field whose name begins like a key does, too.

    Args:
        fields: A JSON value.
        name: Name of the field that holds it.
    """
    if _begins_like_key(name):
        return True
    if isinstance(fields, dict):
        return any(_key_in(value, str(inner_name)) for inner_name, value in fields.items())
    if isinstance(fields, list):
        return any(_key_in(value, name) for value in fields)
    if not isinstance(fields, str) or not fields:
        return False
    is_reference = not _REFERENCE.sub("", fields).removeprefix("Bearer").strip()
    if is_reference:
        return False
    return bool(_KEY_NAME.search(name)) or _begins_like_key(fields)


def refuse_written_keys(scheme: str, address: str, fields: Any, options: dict[str, str]) -> None:
    """Raise ModelError for a key that is written out in an address, in `extra_body` or as an option of its own.

    The error does not repeat it. References whose variable is not set are refused, too.

    Args:
        scheme: The kind of model string, such as `openai:`, for the message.
        address: The address.
        fields: The value of `extra_body`.
        options: All options by name, as they are written.
    """
    _, _, host_and_path = address.partition("://")
    _, _, path = host_and_path.partition("/")
    key_options = [name for name, value in options.items() if value and _KEY_NAME.search(name)]
    where = ""
    if _key_in(fields):
        where = "extra_body"
    elif key_options:
        where = f"?{key_options[0]}="
    elif (
        _looks_like_key(path)
        or _KEY_AS_MODEL_NAME.search(address)
        or _JSON_WEB_TOKEN.search(address)
    ):
        where = "the address"
    if where:
        raise ModelError(
            f"{scheme}: do not put a key into {where}, because the model string is stored with the run; put it "
            "into an environment variable and write ${ITS_NAME} instead"
        )
    for text in (address, *options.values()):
        with_keys(text)


def with_keys(text: str) -> str:
    """Return text with the values of the environment variables that it names, which are secrets from now on.

    Raises ModelError for a variable that is not set.
    """

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1], "").strip()
        if not found:
            raise ModelError(
                f"the model string names the environment variable {match[1]}, which is not set; set it"
            )
        return Secret(found).reveal()

    return _REFERENCE.sub(value, text)


def filled_fields(fields: Any) -> Any:
    """Return the fields of a request body with environment variables in place of the references to them, at any depth."""
    if isinstance(fields, str):
        return with_keys(fields)
    if isinstance(fields, dict):
        return {name: filled_fields(value) for name, value in fields.items()}
    if isinstance(fields, list):
        return [filled_fields(value) for value in fields]
    return fields
