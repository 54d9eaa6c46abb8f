"""Stop a run on Ctrl-C, SIGTERM or SIGHUP without losing replies in flight, which would have to be paid again.

After the first signal no more requests are sent, and replies in flight are awaited for at most
`GRACE_SECONDS`. A second signal stops the run at once.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from snellen.errors import Interrupted

GRACE_SECONDS = 30.0
"""Maximum seconds to wait for replies in flight."""
SAME_SIGNAL_SECONDS = 0.5
"""Signals within this many seconds count as one, because a terminal and a parent process may both pass it on."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DEFAULT_HANDLERS = (signal.SIG_DFL, signal.default_int_handler)

_stop_requests: dict[asyncio.AbstractEventLoop, StopRequest] = {}


class StopRequest:
    """Whether the current asyncio task was asked to stop, by a signal or by `stop_loop`, and how it stops.

    Args:
        send_nothing_more: Called at the first signal. It has to stop sending requests.
    """

    def __init__(self, send_nothing_more: Callable[[], object]) -> None:
        self._send_nothing_more = send_nothing_more
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._first_signal_time = 0.0
        self.signal = 0
        """Number of the first signal; 0 before that."""

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop sending requests and wait for the replies to those that were sent; on a second call, stop at once.

        A second call within `SAME_SIGNAL_SECONDS` is ignored, because a terminal and a parent process may both pass on
        the same signal.

        Args:
            number: The number of the signal that was received.
        """
        if not self.signal:
            self.signal = number
            self._first_signal_time = time.monotonic()
            self._loop.call_later(GRACE_SECONDS, self._cancel)
            self._send_nothing_more()
            return
        seconds_since_first = time.monotonic() - self._first_signal_time
        if seconds_since_first > SAME_SIGNAL_SECONDS:
            self._cancel()

    def _cancel(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals inside the block, and raise `Interrupted` at its end if one arrived.

        A signal that the program ignores or handles itself is not touched.
        """
        replaced_handlers: dict[signal.Signals, Any] = {}
        _stop_requests[self._loop] = self
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                handler = signal.getsignal(number)
                if _is_replaceable(handler):
                    replaced_handlers[number] = handler
        for number in replaced_handlers:
            self._loop.add_signal_handler(number, self.stop, number)
        try:
            yield
        except asyncio.CancelledError:
            if not self.signal:
                raise
        finally:
            del _stop_requests[self._loop]
            for number, handler in replaced_handlers.items():
                self._loop.remove_signal_handler(number)
                signal.signal(number, handler)
        if self.signal:
            raise Interrupted(self.signal)


def _is_replaceable(handler: object) -> bool:
    """Return whether a signal handler belongs to Python, to an asyncio runner, or to Snellen's command line.

    Any other handler is the user's, and stays in place.
    """
    function = getattr(handler, "func", handler)  # the handler of an asyncio runner is a partial
    module = getattr(function, "__module__", "")
    return handler in _DEFAULT_HANDLERS or module in ("snellen.cli", "asyncio.runners")


def stop_loop(loop: asyncio.AbstractEventLoop) -> bool:
    """Ask the coroutine in the event loop of another thread to stop.

    Returns:
        Whether it will: the coroutine is inside a `StopRequest.listening` block.
    """
    stop_request = _stop_requests.get(loop)
    if stop_request is None:
        return False
    loop.call_soon_threadsafe(stop_request.stop)
    return True
