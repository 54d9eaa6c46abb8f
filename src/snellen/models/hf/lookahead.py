"""Pictures made ready in a thread of their own while the model works on those before them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from snellen.images import Images
from snellen.records import ImageRef

P = TypeVar("P")


class Lookahead(Generic[P]):
    """Prepares up to `most` pictures that are expected; of more, the first expected are given up."""

    def __init__(self, prepare: Callable[[ImageRef, Images], P], most: int) -> None:
        self._prepare, self._most = prepare, most
        self._coming: OrderedDict[str, Future[P]] = OrderedDict()
        self._thread: ThreadPoolExecutor | None = None

    def expect(self, image: ImageRef, images: Images) -> None:
        """Begin with a picture as soon as those expected before it are ready."""
        if image.digest in self._coming:
            return
        self._thread = self._thread or ThreadPoolExecutor(1, "snellen-pictures")
        self._coming[image.digest] = self._thread.submit(self._prepare, image, images)
        while len(self._coming) > self._most:
            self._coming.popitem(last=False)[1].cancel()

    def take(self, image: ImageRef) -> P | None:
        """What was prepared, once. None where nothing was, where it has not been begun, and where it failed: then the
        caller prepares the picture itself, and sees why."""
        coming = self._coming.pop(image.digest, None)
        if coming is None or coming.cancel() or coming.exception() is not None:
            return None
        return coming.result()
