"""Pictures made ready in a thread of their own while the model works on those before them."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from snellen.images import Images
from snellen.records import ImageRef

P = TypeVar("P")


class Lookahead(Generic[P]):
    """Prepares up to `most` pictures that are expected; of more, the first expected are given up.

    Its thread lives as long as there are pictures to make ready.
    """

    def __init__(self, prepare: Callable[[ImageRef, Images], P], most: int) -> None:
        self._prepare, self._most = prepare, most
        self._coming: OrderedDict[str, Future[P]] = OrderedDict()
        self._waiting: deque[tuple[Future[P], ImageRef, Images]] = deque()
        self._lock = threading.Lock()
        self._works = False

    def expect(self, image: ImageRef, images: Images) -> None:
        """Begin with a picture as soon as those expected before it are ready."""
        if image.digest in self._coming:
            return
        coming = self._coming[image.digest] = Future()
        while len(self._coming) > self._most:
            self._coming.popitem(last=False)[1].cancel()
        with self._lock:
            self._waiting.append((coming, image, images))
            begins, self._works = not self._works, True
        if begins:
            threading.Thread(target=self._work, name="snellen-pictures", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._works = False
                    return
                coming, image, images = self._waiting.popleft()
            if coming.set_running_or_notify_cancel():
                try:
                    coming.set_result(self._prepare(image, images))
                except BaseException as error:  # kept for whoever takes the picture
                    coming.set_exception(error)

    def take(self, image: ImageRef) -> P | None:
        """What was prepared, once. None where nothing was, where it has not been begun, and where it failed: then the
        caller prepares the picture itself, and sees why."""
        coming = self._coming.pop(image.digest, None)
        if coming is None or coming.cancel() or coming.exception() is not None:
            return None
        return coming.result()
