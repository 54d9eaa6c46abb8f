"""A running server of many, over real HTTP on loopback: for tests of the house and of every feature.

with hosted(tmp_path / "server") as server:
    anna = server.signed_in("Anna")
    anna.post("/account/keys", {"title": "laptop"})     # with the CSRF token of a page, as a browser sends it
    server.admin().get("/admin/accounts")
    server.visitor().get("/")
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from argon2 import PasswordHasher

from http_browser import PASSWORD, Browser
from snellen.viewing.serving import open_listener
from snellen_server.hosting import accounts, features
from snellen_server.hosting.application import HostingServer
from snellen_server.hosting.configuration import load_configuration
from snellen_server.hosting.features import Feature
from snellen_server.hosting.services import Services, open_services

Found = TypeVar("Found")
_HASHED = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
"""Checked in no time, by what it says of itself."""


class RunningServer:
    """A server that runs in a thread of this process."""

    def __init__(self, services: Services, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self.services, self.url, self._loop = services, url, loop
        self._browsers: list[Browser] = []

    def visitor(self, **headers: str) -> Browser:
        """Somebody without an account."""
        self._browsers.append(
            Browser(self.url, {name.replace("_", "-"): value for name, value in headers.items()})
        )
        return self._browsers[-1]

    def signed_in(self, name: str, *, is_admin: bool = False) -> Browser:
        """Somebody with an account, which is made if there is none, who has signed in with the password."""
        database = self.services.database
        if database.read_now(lambda connection: accounts.find_account(connection, name)) is None:
            database.write_now(
                lambda connection: accounts.create_account(
                    connection, name, _HASHED, is_admin=is_admin
                )
            )
        browser = self.visitor()
        assert browser.sign_in(name).status_code == 303
        return browser

    def admin(self) -> Browser:
        return self.signed_in("Administrator", is_admin=True)

    def with_key(self, name: str, *scopes: str) -> Browser:
        """A program with an API key of this account."""
        database = self.services.database
        found = database.read_now(lambda connection: accounts.find_account(connection, name))
        account = (
            found[0]
            if found
            else database.write_now(lambda c: accounts.create_account(c, name, _HASHED))
        )
        token, _ = database.write_now(
            lambda connection: accounts.create_key(connection, account, "test", scopes)
        )
        return self.visitor(authorization=f"Bearer {token}", accept="application/json")

    def loop_call(self, work: Callable[[], object]) -> None:
        """Have something done in the server's event loop."""
        self._loop.call_soon_threadsafe(work)

    def do(self, work: Coroutine[Any, Any, Found]) -> Found:
        """What a coroutine gives back that runs in the server's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        for browser in self._browsers:
            browser.http.close()


@contextmanager
def hosted(folder: Path, *, limited: bool = False, **settings: Any) -> Iterator[RunningServer]:
    """A server over `folder` while the block runs, without rate limits unless they are asked for."""
    configuration = load_configuration(folder, None, **settings)
    listener = open_listener(0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    services = open_services(configuration.at_port(listener.getsockname()[1]))
    if not limited:
        lift_limits(services)
    server = HostingServer(services)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(
        target=loop.run_until_complete, args=(server.serve(sockets=[listener]),)
    )
    thread.start()
    while not server.started and thread.is_alive():  # what features open is there from then on
        time.sleep(0.01)
    running = RunningServer(services, url, loop)
    try:
        yield running
    finally:
        running.close()
        server.should_exit = True
        loop.call_soon_threadsafe(services.stopping.set)
        thread.join(60)
        loop.close()
        assert not thread.is_alive(), "the server did not stop"


def add_feature(patch: pytest.MonkeyPatch, feature: Feature) -> None:
    """Install a feature for as long as a test runs."""
    patch.setitem(features._REGISTERED["features"], feature.name, feature)


def lift_limits(services: Services) -> None:
    """Take a server's rate limits away."""
    services.limiter.wait = lambda name, rates: 0.0  # type: ignore[method-assign]
