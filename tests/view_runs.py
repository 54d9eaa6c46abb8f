"""Runs for the tests of `snellen view`, and a server of their pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from snellen.common.images import Images
from snellen.models.base import ALL_KINDS
from snellen.records import ContinuationScore, Request, Response
from snellen.viewing.library import RunLibrary
from snellen.viewing.local_pages import LocalPages, make_server
from snellen.viewing.serving import open_listener

HOSTILE = '<img src="x" onerror="document.title=1"><script>document.title="owned"</script> "quoted" & \'said\''
"""A text that a page must show as it stands."""


class Replying:
    """Chooses the option that `choose` names, by identity; -1 is a reply that names none."""

    kinds = ALL_KINDS
    batch_size = 4

    def __init__(
        self, name: str, choose: Callable[[Request], int], gate: threading.Semaphore | None = None
    ) -> None:
        self.name, self._choose, self._gate = name, choose, gate

    def fingerprint(self) -> dict[str, str]:
        return {"model": self.name}

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        return [self._reply(request) for request in requests]

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> list[Response]:
        return [self._score(request) for request in requests]

    def _reply(self, request: Request) -> Response:
        if self._gate:
            self._gate.acquire()
        option = self._choose(request)
        if option < 0:
            return Response(text=f"I cannot tell. {HOSTILE}")
        return Response(text=f"({request.variant.labels[request.variant.order.index(option)]})")

    def _score(self, request: Request) -> Response:
        option = self._choose(request)
        return Response(
            scores=tuple(
                ContinuationScore(-0.5 if i == option else -3.0, 1, 1)
                for i, _ in enumerate(request.continuations)
            )
        )


@contextmanager
def serving(
    *roots: Path, index: Path, refresh: bool = True, may_change: bool = False
) -> Iterator[httpx.Client]:
    """A client of the pages of all runs below some folders, served on loopback; indexed already, or not yet. One that
    may change something has opened the address that the command prints, and has `token` among its headers."""
    library = RunLibrary(roots, index, may_be_empty=True)
    if refresh:
        library.refresh()
    listener = open_listener(0)
    pages = LocalPages(library)
    server = make_server(pages)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with httpx.Client(base_url=address, timeout=30, trust_env=False, verify=False) as client:
            if may_change:
                client.get("/", params={"token": pages.secret})
                client.headers["token"] = pages.secret
            yield client
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


def until(found: Callable[[], bool], seconds: float = 30) -> None:
    """Check again until it is so; the longer a check takes, the longer is the pause before the next one."""
    end = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if found():
            return
        assert time.monotonic() < end, "it never came to be"
        time.sleep(max(0.02, 4 * (time.monotonic() - began)))
