"""Keep API keys out of model strings, which are stored with the run and printed.

A key that is written into a model string is refused. Instead, `${NAME}` in an address or in
`extra_body` names an environment variable. The model string keeps this reference, and only the
requests contain the variable's value.
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
"""Keys in the place of a model's name. Real names may also begin with `sk-` or be long, so this pattern is stricter."""


def _looks_like_key(text: str) -> bool:
    """Return whether a text seems to contain a key: a known prefix such as `sk-`, or 20 letters and digits in a row."""
    text = _REFERENCE.sub("", text)
    for word in _LONG_WORD.findall(text):
        has_digit = any(character.isdigit() for character in word)
        has_letter = any(character.isalpha() for character in word)
        if has_digit and has_letter:
            return True
    return _begins_like_key(text)


def _begins_like_key(text: str) -> bool:
    """Return whether a word of the text begins with a prefix of known keys (`sk-...`), or is a JSON web token."""
    return bool(_PREFIXED.search(text) or _JSON_WEB_TOKEN.search(text))


def _key_in(fields: Any, name: str = "") -> bool:
    """Return whether a JSON value contains something that seems to be a secret key.

    A string does if it begins like a key (`sk-...`), or if the name of its field says so
    (`api_key`). A reference `${NAME}` to an environment variable does not. A field whose name
    itself begins like a key counts as well.

    Args:
        fields: A JSON value, such as the user's `extra_body`.
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
    """Raise ModelError if a model string contains a key in its address, in `extra_body` or in an option.

    The message does not repeat the key. A reference `${NAME}` is refused if the variable is not
    set.

    Args:
        scheme: The kind of model string, such as `openai`, for the message.
        address: The address in the model string.
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
    """Return a text in which each reference `${NAME}` is replaced by the value of the environment variable.

    These values are removed from everything that is printed or stored from now on. Raises
    ModelError if a variable is not set.
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
    """Return a JSON value with the variables' values in place of the references `${NAME}` in all its strings."""
    if isinstance(fields, str):
        return with_keys(fields)
    if isinstance(fields, dict):
        return {name: filled_fields(value) for name, value in fields.items()}
    if isinstance(fields, list):
        return [filled_fields(value) for value in fields]
    return fields
