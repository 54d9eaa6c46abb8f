"""Read API keys from the environment, because a model string is stored with the run and printed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from snellen.callers import for_caller
from snellen.common.foreign import Secret
from snellen.errors import ModelError
from snellen.models.key_references import refuse_written_keys
from snellen.models.model_strings import ModelSpec


def refuse_secrets(spec: ModelSpec) -> None:
    """Raise ModelError if a model string contains a key or a password. The message does not repeat it."""
    variable = spec.options.get("api_key_env", "")
    if "api_key" in spec.options or not re.fullmatch(r"[A-Za-z_]\w*|", variable):
        raise ModelError(
            f"{spec.scheme}: do not put a key into the model string, which is stored with the run; put it into an "
            "environment variable and write ?api_key_env=ITS_NAME"
        )
    if re.search(r"://[^/]*@", spec.target):
        raise ModelError(
            f"{spec.scheme}: do not put a user name or password into the URL; write ?api_key_env=NAME_OF_VARIABLE"
        )
    extra_body = None
    with suppress(msgspec.DecodeError):
        extra_body = msgspec.json.decode(spec.options.get("extra_body", "null"))
    others = {name: value for name, value in spec.options.items() if name != "api_key_env"}
    refuse_written_keys(spec.scheme, spec.target, extra_body, others)


def key_not_sent() -> str:
    """Return what to do when a server of the user's own asks for a key, and none was sent.

    Examples:
        >>> key_not_sent()
        'no key was sent, because OPENAI_API_KEY goes to OpenAI alone; api_key_env="OPENAI_API_KEY" sends it here'
    """
    option = for_caller(
        "?api_key_env=OPENAI_API_KEY in the model string", 'api_key_env="OPENAI_API_KEY"'
    )
    return f"no key was sent, because OPENAI_API_KEY goes to OpenAI alone; {option} sends it here"


def api_key(spec: ModelSpec, variable: str, usual: Sequence[str], otherwise: str = "") -> str:
    """Return an API key from the environment.

    Args:
        spec: The model, named in errors.
        variable: Name of the environment variable. If it is empty, the first of `usual` that is set is used.
        usual: Names that the provider's own programs use.
        otherwise: What else the user can do, for the error message.

    Returns:
        The key, or an empty string if no variable is named.

    Raises:
        ModelError: No named variable is set, or it does not hold a key.
    """
    names = [variable] if variable else list(usual)
    if not names:
        return ""
    for name in names:
        key = os.environ.get(name, "").strip()
        if not key:
            continue
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ModelError(
                f"{spec.text}: the environment variable {name} does not contain a valid API key; set it again"
            )
        return Secret(key).reveal()
    if re.search(r"[a-z]", variable) and re.search(r"[0-9]", variable):
        # A key that was written where the name of its variable belongs: it is not repeated.
        raise ModelError(
            f"{spec.scheme}: the environment variable that ?api_key_env= names is not set; write the name of a "
            "variable there, not the key itself"
        )
    hint = f" or {otherwise}" if otherwise and not variable else ""
    raise ModelError(
        f"{spec.text}: the environment variable {' or '.join(names)} is not set; set it to the API key{hint}"
    )
