"""Who watches while data are fetched and servers are reached: lines, a bar, and a question before much is fetched."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

OFFLINE = "HF_HUB_OFFLINE"
_TRUE = frozenset({"1", "on", "yes", "true"})


def _unseen(*report: object) -> None:
    pass


class Attendance(NamedTuple):
    """A callback that is not set shows or asks nothing."""

    say: Callable[[str], object] = _unseen
    """Called with a line that says what is fetched from where, or that a server does not answer."""
    progress: Callable[[str, int, int], object] = _unseen
    """Called with a file's name, the bytes fetched so far, and its size; 0 when that is not known."""
    agree: Callable[[str], object] = lambda question: True
    """Whether to go on with a fetch that takes a lot of disk space and network."""
    accept: Callable[[str], bool] = lambda question: False
    """Whether the user agrees to the terms of a licence."""


_NOBODY = Attendance()
_attending: ContextVar[Attendance] = ContextVar("attending", default=_NOBODY)


def attendance() -> Attendance:
    return _attending.get()


@contextmanager
def attended(by: Attendance) -> Iterator[None]:
    """Watch what is fetched inside the block; `go_offline` holds until its end."""
    token, before = _attending.set(by), os.environ.get(OFFLINE)
    try:
        yield
    finally:
        _attending.reset(token)
        if os.environ.get(OFFLINE) != before:
            _set_offline(before)


def agree_to_all() -> None:
    """Stop asking until `attended` ends."""
    _attending.set(attendance()._replace(agree=lambda question: True, accept=lambda question: True))


def go_offline() -> None:
    """Forbid the network from now on, also to the hub's packages."""
    _set_offline("1")


def _set_offline(value: str | None) -> None:
    if value is None:
        os.environ.pop(OFFLINE, None)
    else:
        os.environ[OFFLINE] = value
    if constants := sys.modules.get("huggingface_hub.constants"):
        setattr(constants, OFFLINE, is_true(value))


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE forbids the network, as it does for packages of the hub."""
    loaded = sys.modules.get("huggingface_hub.constants")
    return is_true(os.environ.get(OFFLINE)) or getattr(loaded, OFFLINE, False)


def is_true(value: str | None) -> bool:
    """Whether a variable of the environment says yes, as the hub's packages read theirs."""
    return (value or "").casefold() in _TRUE
