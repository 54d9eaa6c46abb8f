"""Prepare images in other threads, while the model works on the images before them."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from snellen.common.images import Images
from snellen.records import ImageRef

P = TypeVar("P")


class Lookahead(Generic[P]):
    """Prepares up to `most` expected images in threads; beyond that, the earliest expected are dropped.

    Its threads, at most `threads`, end when no images are left to prepare.
    """

    def __init__(
        self, prepare: Callable[[ImageRef, Images], P], most: int, threads: int = 1
    ) -> None:
        self._prepare = prepare
        self._most = most
        self._threads = threads
        self._expected: OrderedDict[str, Future[P]] = OrderedDict()
        """Results by digest of image, in the order in which they were expected."""
        self._queue: deque[tuple[Future[P], ImageRef, Images]] = deque()
        self._lock = threading.Lock()
        self._running_threads = 0

    def expect(self, image: ImageRef, images: Images) -> None:
        """Prepare an image after those that were expected before it."""
        if image.digest in self._expected:
            return
        result: Future[P] = Future()
        self._expected[image.digest] = result
        while len(self._expected) > self._most:
            _, oldest = self._expected.popitem(last=False)
            oldest.cancel()
        with self._lock:
            self._queue.append((result, image, images))
            starts_thread = self._running_threads < self._threads
            if starts_thread:
                self._running_threads += 1
        if starts_thread:
            threading.Thread(target=self._work, name="snellen-images", daemon=True).start()

    def _work(self) -> None:
        """Prepare images from the queue until it is empty. This runs in a thread."""
        while True:
            with self._lock:
                if not self._queue:
                    self._running_threads -= 1
                    return
                result, image, images = self._queue.popleft()
            if result.set_running_or_notify_cancel():
                try:
                    result.set_result(self._prepare(image, images))
                except BaseException as error:  # for `take`
                    result.set_exception(error)

    def take(self, image: ImageRef) -> P | None:
        """Return a prepared image, and forget it. If it is being prepared now, wait for it.

        None if its preparation has not begun or has failed. The caller then prepares the image
        itself, and gets the error if there is one.
        """
        result = self._expected.pop(image.digest, None)
        if result is None or result.cancel() or result.exception() is not None:
            return None
        return result.result()
