"""Callbacks for the user while data are fetched: messages, progress, and questions before large downloads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

OFFLINE = "HF_HUB_OFFLINE"
_TRUE = frozenset({"1", "on", "yes", "true"})


def _ignore_report(*report: object) -> None:
    pass


class UserCallbacks(NamedTuple):
    """Functions by which the code that downloads data talks to the user.

    By default nothing is shown, and no terms are accepted.
    """

    say: Callable[[str], object] = _ignore_report
    """Called with a line that says what is fetched from where, or that a server does not answer."""
    progress: Callable[[str, int, int], object] = _ignore_report
    """Called with a file's name, the bytes fetched so far, and its size; 0 if the size is unknown."""
    agree: Callable[[str], object] = lambda question: True
    """Returns whether to continue with a download that takes much disk space and network traffic."""
    accept: Callable[[str], bool] = lambda question: False
    """Returns whether the user accepts the terms of a licence."""


_NO_CALLBACKS = UserCallbacks()
_callbacks: ContextVar[UserCallbacks] = ContextVar("user_callbacks", default=_NO_CALLBACKS)


def user_callbacks() -> UserCallbacks:
    """Return the functions that talk to the user, set by the innermost `using_callbacks` block."""
    return _callbacks.get()


@contextmanager
def using_callbacks(callbacks: UserCallbacks) -> Iterator[None]:
    """Talk to the user by these functions inside the block.

    `go_offline` and `agree_to_all` last only until its end.
    """
    token = _callbacks.set(callbacks)
    offline_before = os.environ.get(OFFLINE)
    try:
        yield
    finally:
        _callbacks.reset(token)
        if os.environ.get(OFFLINE) != offline_before:
            _set_offline(offline_before)


def agree_to_all() -> None:
    """Agree to all downloads and terms until the end of the `using_callbacks` block."""
    _callbacks.set(
        user_callbacks()._replace(agree=lambda question: True, accept=lambda question: True)
    )


def go_offline() -> None:
    """Forbid network access from now on, also for the libraries of the Hugging Face hub."""
    _set_offline("1")


def _set_offline(value: str | None) -> None:
    """Set the variable that forbids network access, or remove it if `value` is None."""
    if value is None:
        os.environ.pop(OFFLINE, None)
    else:
        os.environ[OFFLINE] = value
    # The hub's library reads the variable once, when it is imported.
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        setattr(constants, OFFLINE, is_true(value))


def is_offline() -> bool:
    """Return whether network access is forbidden by HF_HUB_OFFLINE, which the libraries of the
    Hugging Face hub obey too.
    """
    loaded = sys.modules.get("huggingface_hub.constants")
    return is_true(os.environ.get(OFFLINE)) or getattr(loaded, OFFLINE, False)


def is_true(value: str | None) -> bool:
    """Return whether the value of an environment variable means yes, by the same rules as in the
    hub's libraries.
    """
    return (value or "").casefold() in _TRUE
