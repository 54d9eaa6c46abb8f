"""Read API keys from the environment, because a model string is stored with the run and printed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from snellen.common.foreign import Secret
from snellen.errors import ModelError
from snellen.models.key_references import refuse_written_keys
from snellen.models.model_strings import ModelSpec


def refuse_secrets(spec: ModelSpec) -> None:
    """Raise ModelError if a model string contains a key or a password. The message does not repeat it."""
    variable = spec.options.get("api_key_env", "")
    if "api_key" in spec.options or not re.fullmatch(r"[A-Za-z_]\w*|", variable):
        raise ModelError(
            f"{spec.scheme}: a key does not belong in the model string, which is stored with the run; "
            "put it into an environment variable and write ?api_key_env=ITS_NAME"
        )
    if re.search(r"://[^/]*@", spec.target):
        raise ModelError(
            f"{spec.scheme}: a user or password does not belong in the URL; write ?api_key_env=NAME_OF_VARIABLE"
        )
    extra_body = None
    with suppress(msgspec.DecodeError):
        extra_body = msgspec.json.decode(spec.options.get("extra_body", "null"))
    others = {name: value for name, value in spec.options.items() if name != "api_key_env"}
    refuse_written_keys(spec.scheme, spec.target, extra_body, others)


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
                f"{spec.text}: the environment variable {name} does not hold an API key; set it again"
            )
        return Secret(key).reveal()
    hint = f" or {otherwise}" if otherwise and not variable else ""
    raise ModelError(
        f"{spec.text}: the environment variable {' or '.join(names)} is not set; put the API key into it{hint}"
    )
