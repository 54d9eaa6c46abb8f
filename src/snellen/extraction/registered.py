"""Extractors that users and packages register: functions that take fewer arguments than Snellen's own."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from snellen.errors import HookError
from snellen.extraction.reading import (
    OPTIONAL_ARGUMENTS,
    ExtractedChoice,
    Extractor,
    NamedExtractor,
)
from snellen.extraction.standard import read_choice


def as_extractor(name: str, registered: Any) -> NamedExtractor:
    """Return a registered extractor in the form in which Snellen calls it.

    It may be registered as a `NamedExtractor` or as a function of reply, options and labels, which need not take
    `finish` and `question`. A function of the reply alone returns the part of the reply, such as its last line, that
    the standard extractor then reads. The version of a function is its name with a digest of its file.

    Raises HookError for anything else.
    """
    if isinstance(registered, NamedExtractor):
        extractor = registered
    elif callable(registered) and not isinstance(registered, type):
        extractor = NamedExtractor(f"{name}-{_digest_of_file(registered)}", registered)
    else:
        raise HookError(
            f"the extractor {name!r} is {registered!r}; it has to be a NamedExtractor, or a function of reply, options "
            "and labels"
        )
    read = _with_all_arguments(name, extractor.read)
    if read is extractor.read:
        return extractor
    return replace(extractor, read=read)


def _digest_of_file(function: Callable[..., Any]) -> str:
    """Return a digest of the file in which a function is written, or of its type if it has no file."""
    try:
        content = Path(inspect.getfile(function)).read_bytes()
    except (TypeError, OSError):
        content = repr(type(function)).encode()
    return hashlib.sha256(content).hexdigest()[:8]


def _with_all_arguments(name: str, read: Callable[..., Any]) -> Extractor:
    """Return a function that accepts `finish` and `question`, for one that may take fewer arguments.

    Arguments that `read` does not take are not passed on. If `read` takes the reply alone, it returns a part of the
    reply, which the standard extractor then reads. Raises HookError if `read` takes other arguments.
    """
    signature = inspect.signature(read)
    parameters = signature.parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    required = [
        parameter for parameter in parameters if parameter.default is inspect.Parameter.empty
    ]
    if len(required) == 1 and inspect.Parameter.VAR_POSITIONAL not in kinds:
        return _extractor_of_part(read)
    takes_any_keyword = inspect.Parameter.VAR_KEYWORD in kinds
    taken = [key for key in OPTIONAL_ARGUMENTS if takes_any_keyword or key in signature.parameters]
    try:
        signature.bind("", (), (), **dict.fromkeys(taken))
    except TypeError:
        raise HookError(
            f"the extractor {name!r} takes {signature}; it has to take (reply, options, labels)"
        ) from None
    if len(taken) == len(OPTIONAL_ARGUMENTS):
        return read

    def read_with_taken(
        reply: str, options: Sequence[str], labels: Sequence[str], **more: Any
    ) -> Any:
        """Call the extractor with those of the arguments that it takes."""
        passed_on = {key: more[key] for key in taken}
        return read(reply, options, labels, **passed_on)

    return read_with_taken


def _extractor_of_part(part_of: Callable[[str], Any]) -> Extractor:
    """Return an extractor that reads what a function returns for a reply, such as its last line; None is no answer."""

    def read(
        reply: str,
        options: Sequence[str],
        labels: Sequence[str],
        *,
        finish: str | None = None,
        question: str = "",
    ) -> ExtractedChoice:
        part = part_of(reply)
        text = "" if part is None else str(part)
        return read_choice(text, options, labels, finish=finish, question=question)

    return read
