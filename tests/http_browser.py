"""Somebody at a browser, or a program with a key, over real HTTP: for tests of pages of `snellen view` and of the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import httpx

PASSWORD = "correct horse battery"
"""What everybody who signs in has as a password."""
_TOKEN = re.compile(r'name="csrf-token" content="([^"]+)"')


class Browser:
    """One person at a browser, or a program with a key: cookies are kept, and forms carry the token of a page."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.http = httpx.Client(
            base_url=url,
            headers={"accept": "text/html", **(headers or {})},
            trust_env=False,
            verify=False,  # there is no TLS, and loading certificates takes long
            timeout=30,
        )

    def get(self, address: str, **settings: Any) -> httpx.Response:
        return self.http.get(address, **settings)

    def post(
        self, address: str, fields: Mapping[str, Any] | None = None, **settings: Any
    ) -> httpx.Response:
        """Sends a form with a token that is good for this person now."""
        return self.http.post(
            address, data={"csrf_token": self.token(), **(fields or {})}, **settings
        )

    def send(
        self, address: str, content: bytes, name: str = "picture.png", kind: str = "image/png"
    ) -> httpx.Response:
        """Sends a file, as a script of a page does."""
        headers = {"x-csrf-token": self.token(), "accept": "application/json"}
        return self.http.post(address, files={"file": (name, content, kind)}, headers=headers)

    def token(self) -> str:
        found = _TOKEN.search(self.http.get("/").text)
        assert found, "the page has no CSRF token"
        return found[1]

    def ask(self, address: str, body: Mapping[str, Any]) -> httpx.Response:
        """Sends JSON, as a script of a page does."""
        headers = {"x-csrf-token": self.token(), "accept": "application/json"}
        return self.http.post(address, json=body, headers=headers)

    def sign_in(self, name: str, password: str = PASSWORD) -> httpx.Response:
        return self.post("/sign-in", {"name": name, "password": password})
