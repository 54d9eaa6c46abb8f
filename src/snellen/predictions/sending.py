"""Talks to the leaderboard of a Snellen server: what may be submitted to, and a submission."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from email.message import Message
from http.client import HTTPResponse
from ipaddress import ip_address
from typing import IO, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec
from msgspec import Struct

from snellen.errors import DataError, StoreError

SECONDS = 120.0
MOST_BYTES = 16 << 20
T = TypeVar("T")


class BoardQuestions(Struct, frozen=True):
    """A benchmark of a board, and the beginning of the digest of its questions."""

    name: str
    questions: str


class BoardHere(Struct, frozen=True):
    """A board of the server."""

    name: str
    title: str
    benchmarks: tuple[BoardQuestions, ...]


class SentSubmission(Struct, frozen=True):
    """What the server says of a submission that it has taken."""

    id: str
    address: str
    state: str


class _NoRedirects(HTTPRedirectHandler):
    """A key is sent to the server that was named, and to no other."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        return None


class LeaderboardClient:
    """One server's leaderboard. Raises DataError for an address over which a key would be readable on its way."""

    def __init__(self, url: str, token: str) -> None:
        address = urlsplit(url)
        if address.scheme != "https" and not (address.scheme == "http" and _is_this_machine(address.hostname or "")):
            raise DataError(f"--to {url} would send your key unencrypted; write https://HOST")
        self.url = f"{address.scheme}://{address.netloc}{address.path.rstrip('/')}"
        self._token = token
        self._opener = build_opener(_NoRedirects)

    def boards(self) -> list[BoardHere]:
        """What may be submitted to. Raises StoreError when the server cannot be reached or refuses."""
        return self._ask("/api/v1/boards", list[BoardHere])

    def submit(self, board: str, content: bytes, fields: Mapping[str, str]) -> SentSubmission:
        """Upload predictions as JSONL with what is declared of the model. Raises StoreError, as above."""
        boundary = secrets.token_hex(16)
        body = _multipart(boundary, content, fields)
        headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
        return self._ask(f"/api/v1/boards/{quote(board)}/submissions", SentSubmission, body, headers)

    def _ask(self, path: str, kind: type[T], body: bytes | None = None, headers: Mapping[str, str] | None = None) -> T:
        sent = {"authorization": f"Bearer {self._token}", "accept": "application/json", **(headers or {})}
        request = Request(f"{self.url}{path}", body, sent)  # noqa: S310  # the scheme was checked
        try:
            answer: HTTPResponse
            with self._opener.open(request, timeout=SECONDS) as answer:
                return msgspec.json.decode(answer.read(MOST_BYTES), type=kind)
        except HTTPError as error:
            with error:
                raise StoreError(f"{self.url} refuses ({error.code}): {_reason(error.read(MOST_BYTES))}") from None
        except (URLError, OSError) as error:
            raise StoreError(f"{self.url} cannot be reached ({getattr(error, 'reason', error)}); see --to") from None
        except msgspec.DecodeError as error:
            raise StoreError(f"{self.url}{path} is no leaderboard of Snellen ({error}); see --to") from None


def _multipart(boundary: str, content: bytes, fields: Mapping[str, str]) -> bytes:
    parts = [
        f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
        if value
    ]
    file = f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="predictions.jsonl"\r\n'
    kind = "content-type: application/octet-stream\r\n\r\n"
    return b"".join([*parts, f"{file}{kind}".encode(), content, f"\r\n--{boundary}--\r\n".encode()])


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "it does not say why; is it a Snellen server?"


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
