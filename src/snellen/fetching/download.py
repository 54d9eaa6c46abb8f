"""One file from its addresses: resumed where it broke off, tried again, checked, and put in place at once."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import http
import http.client
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from email.message import Message
from http.client import HTTPMessage
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request

import msgspec
from msgspec import Struct

from snellen import __version__
from snellen.common.addresses import open_address
from snellen.common.foreign import Allowance, LimitError, in_bytes, open_file, raised, read_file
from snellen.errors import DataError
from snellen.fetching.attendance import attendance, is_offline
from snellen.formats.retry_after import parse_retry_after

ATTEMPTS = 5
"""How many attempts in a row may fetch no byte."""
SHORTEST_PAUSE = 0.25
"""Seconds before a second attempt; twice as many before each further one, 8 at most."""
LONGEST_PAUSE = 60.0
"""The longest wait, in seconds, that a server may ask for."""
SILENCE = 60.0
"""Seconds without a byte after which an attempt is given up."""
SPARE = 64 << 20
"""Bytes of a disk that are left free."""
FILE_BYTES = 200e9
"""Most bytes of a file whose size nobody knows beforehand."""
SLOWEST = 20_000
"""Bytes a second: a file of known size may take as long as it takes at this rate, an hour at least."""
FILE_SECONDS = 24 * 3600
"""Most seconds for a file whose size nobody knows beforehand."""


class PlaceError(DataError):
    """A place that does not give what it should; another may. `code` and `reason` are the hub's own, if it refused."""

    def __init__(self, message: str, code: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class _Tag(Struct):
    """Which version of a file its fetched beginning belongs to."""

    address: str
    version: str


def fetch_file(
    addresses: Sequence[str],
    target: Path,
    expected: Content,
    *,
    lock: Path | None = None,
    token: str = "",
    most: float = FILE_BYTES,
    seconds: float = FILE_SECONDS,
    within: Allowance | None = None,
) -> bool:
    """Fetch a file to `target`, checked, unless it is there; returns whether it had to be fetched.

    Several processes may ask for one file: one fetches it, the others wait.

    Args:
        addresses: Where the file is: the second is asked when the first fails.
        target: Where it is to lie.
        expected: What it should hold.
        lock: The file by which processes wait for one another; one beside `target` unless it is named.
        token: Sent to the first server alone, not to where it leads.
        most: Bytes that a file of unknown size may have.
        seconds: Time that fetching a file of unknown size may take, with all attempts.
        within: What all files of a build may take together.

    Raises:
        PlaceError: None of the addresses gives the file within the limits.
        DataError: The disk cannot take it.
    """
    if expected.size:
        seconds = max(3600.0, expected.size / SLOWEST)
    if _is_there(target, expected):  # in a folder that others filled, which this user may only read
        return False
    with writing(target.parent), _locked(lock or target.with_name(target.name + ".lock")):
        if _is_there(target, expected):
            return False
        if target.exists():
            _set_aside(target)
        if is_offline():
            raise PlaceError(
                f"{addresses[0]} is not on this machine, and HF_HUB_OFFLINE forbids the network"
            )
        faults = []
        for address in addresses:
            try:
                # Of attempts that begin from the start again, each may take all bytes.
                allowance = Allowance(2 * ATTEMPTS * most, seconds, address, within)
                _fetch_checked(_Task(address, expected, token, most, allowance), target)
                return True
            except PlaceError as error:
                faults.append(error)
        raise faults[0]


def _is_there(target: Path, expected: Content) -> bool:
    return target.exists() and not content_fault(target, expected)


class _Task(Struct, frozen=True):
    """One address, what it should give, and what fetching it may take."""

    address: str
    expected: Content
    token: str
    most: float
    allowance: Allowance

    @property
    def limit(self) -> float:
        """Bytes after which the file is not read on: one of known size a little later than it should end."""
        return self.expected.size + BLOCK if self.expected.size else raised(self.most)


def _fetch_checked(task: _Task, target: Path) -> None:
    address, expected = task.address, task.expected
    part = target.with_name(target.name + ".part")
    for last in (False, True):
        _fetch_whole(task, part)
        fault = content_fault(part, expected)
        if not fault:
            part.replace(target)
            _tag_file(part).unlink(missing_ok=True)
            return
        _set_aside(part)
        if last:
            raise PlaceError(
                f"{address} does not hold what it should, fetched twice: {fault}; it has changed, or something on the "
                "way changes it"
            )


def _set_aside(path: Path) -> None:
    """Keep a file's wrong content beside it, once."""
    path.replace(path.with_name(path.name.removesuffix(".part") + ".wrong"))
    _tag_file(path).unlink(missing_ok=True)


def _fetch_whole(task: _Task, part: Path) -> None:
    """All bytes of a file into `part`, going on where an earlier attempt stopped."""
    address, expected = task.address, task.expected
    failures = 0
    while True:
        before, pause = _size(part), 0.0
        try:
            if _fetch_rest(task, part):
                return
            fault: Exception = PlaceError(f"{address} broke off after {_size(part):,} bytes")
        except urllib.error.HTTPError as error:
            fault = _refusal(address, error)
            error.close()
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.unlink(missing_ok=True)
            elif error.code not in _PASSING:
                raise fault from None
            pause = _wanted_pause(error.headers)
            if pause > LONGEST_PAUSE:
                raise PlaceError(f"{fault}, in {pause:,.0f} seconds") from None
        except LimitError as error:
            part.unlink(missing_ok=True)
            _tag_file(part).unlink(missing_ok=True)
            raise PlaceError(str(error.strerror)) from error
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.errno in _FULL:
                raise _no_room(part.parent, expected.size - _size(part), address) from None
            fault = unreached(address, error)
            if _is_final(error):
                raise fault from None
        failures = 0 if _size(part) > before else failures + 1
        if failures == ATTEMPTS:
            raise fault from None
        time.sleep(pause or min(SHORTEST_PAUSE * 2**failures, 8.0))


_PASSING = frozenset({408, 416, 425, 429, 500, 502, 503, 504})
_FULL = (errno.ENOSPC, errno.EDQUOT)


def _fetch_rest(task: _Task, part: Path) -> bool:
    """One request; whether all bytes are there now."""
    address, expected = task.address, task.expected
    present, tag = _size(part), _read_tag(part)
    headers = {"User-Agent": f"snellen/{__version__}", "Accept-Encoding": "identity"}
    if present and tag and tag.address == address and tag.version:
        headers |= {"Range": f"bytes={present}-", "If-Range": tag.version}
    elif present and expected.is_known and tag and tag.address == address:
        headers |= {"Range": f"bytes={present}-"}
    else:
        present = 0
    if present and present == expected.size:
        return True
    request = Request(address, headers=headers)  # noqa: S310 (addresses of entries: http or https)
    if task.token:
        request.add_unredirected_header("Authorization", f"Bearer {task.token}")
    with open_address(request, task.allowance, _Redirects(), silence=SILENCE) as reply:
        if reply.status != http.HTTPStatus.PARTIAL_CONTENT:
            present = 0
        size = present + _content_length(reply.headers)
        check_kind(address, reply.headers)
        check_room(part.parent, max(size, expected.size) - present, address)
        _check_limit(task, size)
        version = reply.headers.get("ETag") or reply.headers.get("Last-Modified") or ""
        report_progress = attendance().progress
        with part.open(
            "r+b" if present else "wb"
        ) as file:  # emptied before its tag says what comes now
            _tag_file(part).write_bytes(
                msgspec.json.encode(_Tag(address, "" if version.startswith("W/") else version))
            )
            file.seek(present)
            while block := reply.read1(BLOCK):
                present += len(block)
                _check_limit(task, present)
                if present % ROOM_EVERY < len(block):
                    check_room(part.parent, 0, address)
                file.write(block)
                report_progress(part.name.removesuffix(".part"), present, size)
    return present >= size if size else True


def _content_length(headers: Message) -> int:
    length = str(headers.get("Content-Length") or "")
    return int(length) if length.isdecimal() and len(length) < 20 else 0


def _check_limit(task: _Task, size: int) -> None:
    """Raise LimitError for a file of more bytes than are read, PlaceError where its size was known."""
    if size <= task.limit:
        return
    if task.expected.size:
        raise PlaceError(
            f"{task.address} does not hold what it should: it has more than {task.expected.size:,} bytes"
        )
    raise LimitError(f"{task.address} has more than {in_bytes(task.limit)}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """A token is sent on to another page of the same server, but to no other server."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        secret = req.get_header("Authorization")
        if following is not None and secret and urlsplit(newurl)[:2] == urlsplit(req.full_url)[:2]:
            following.add_unredirected_header("Authorization", secret)
        return following


def check_kind(address: str, headers: Message) -> None:
    """Raise PlaceError for a page that stands where data should be."""
    name = address.partition("?")[0].casefold()
    if str(headers.get("Content-Type", "")).startswith("text/html") and not name.endswith(
        (".html", ".htm", ".txt")
    ):
        raise PlaceError(
            f"{address} gave a page for people, not data; sign in at the proxy or the service that shows it, or name "
            "the files that you have with --source"
        )


def check_room(folder: Path, needed: int, name: str) -> None:
    """Raise DataError when a folder's disk cannot take so many bytes more."""
    if needed > shutil.disk_usage(folder).free - SPARE:
        raise _no_room(folder, needed, name)


def _no_room(folder: Path, needed: int, name: str) -> DataError:
    return DataError(
        f"{name} takes {in_bytes(needed) if needed > 0 else 'some bytes'} more, and the disk of {folder} has "
        f"{in_bytes(shutil.disk_usage(folder).free)} free; free some space, or name another folder, {_SETTINGS}"
    )


_SETTINGS = "SNELLEN_DATA (HF_HUB_CACHE for datasets of the hub)"


def _refusal(address: str, error: urllib.error.HTTPError) -> PlaceError:
    match error.code:
        case 301 | 302 | 303 | 307 | 308:
            words = f"redirects in a circle or to nowhere ({error.code}); fetch it by hand, and name it with --source"
        case 401 | 403:
            words = f"wants a sign-in ({error.code}); fetch it by hand, and name it with --source"
        case 404 | 410:
            words = f"is gone ({error.code}); name the files that you have with --source"
        case 429:
            words = "gives no more for now (429, too many requests); try again later"
        case status:
            words = f"answers {status} {error.reason}; try again later"
    code, reason = (error.headers.get(name, "") for name in ("X-Error-Code", "X-Error-Message"))
    return PlaceError(f"{address} {words}", code, reason)


def unreached(address: str, error: Exception) -> PlaceError:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    host = address.split("/")[2]
    if isinstance(reason, ssl.SSLCertVerificationError):
        return PlaceError(
            f"the certificate of {host} is not trusted ({reason.verify_message}); behind a proxy of your own, name its "
            "certificate in SSL_CERT_FILE"
        )
    if isinstance(reason, socket.gaierror):
        return PlaceError(
            f"{host} is not known to this network; see whether there is one, or set HTTPS_PROXY"
        )
    words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return PlaceError(f"{address} cannot be reached ({words})")


def _is_final(error: Exception) -> bool:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return isinstance(reason, (ssl.SSLCertVerificationError, socket.gaierror))


def _wanted_pause(headers: Message) -> float:
    """Seconds that a server asks to wait; 0 when it says nothing."""
    return parse_retry_after(str(headers.get("Retry-After", "")), time.time()) or 0.0


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _tag_file(part: Path) -> Path:
    return part.with_name(part.name.removesuffix(".part") + ".tag")


def _read_tag(part: Path) -> _Tag | None:
    try:
        return msgspec.json.decode(read_file(_tag_file(part)), type=_Tag)
    except (OSError, msgspec.DecodeError):
        return None


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """What a folder cannot take is a DataError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DataError(
                f"{folder}: the disk is full; free some space, then run the same command"
            ) from None
        raise DataError(
            f"{folder}: cannot write ({error.strerror or error}); name a folder that you can write, {_SETTINGS}"
        ) from None


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    """Hold a lock against other processes, waiting for the one that has it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- whether a file holds what it should ------------------------------------------------------------------------------


BLOCK = 1 << 20
ROOM_EVERY = 256 << 20
"""After so many bytes it is looked again whether the disk has room."""


class Content(Struct, frozen=True):
    """What a file should hold, as far as that is known."""

    size: int = 0
    sha256: str = ""
    md5: str = ""
    git: str = ""
    """SHA-1 of a git blob, by which the hub names small files."""

    @property
    def is_known(self) -> bool:
        return bool(self.sha256 or self.md5 or self.git)


def content_fault(path: Path, expected: Content) -> str:
    """Why a file is not what it should be, with both digests; empty when it is. Raises OSError."""
    size = path.stat().st_size
    if expected.size and size != expected.size:
        return f"it has {size:,} bytes, not {expected.size:,}"
    for name, digest in (("sha256", expected.sha256), ("md5", expected.md5), ("git", expected.git)):
        if digest:
            actual = digest_of(path, name)
            return (
                ""
                if actual == digest.lower()
                else f"its {_TITLES[name]} is {actual}, not {digest.lower()}"
            )
    return ""


_TITLES = {"sha256": "SHA-256", "md5": "MD5", "git": "git digest"}


def digest_of(path: Path, name: str) -> str:
    """The digest of a file, by the name of one of `Content`. Raises OSError."""
    digest = hashlib.new("sha1" if name == "git" else name, usedforsecurity=False)
    if name == "git":
        digest.update(f"blob {path.stat().st_size}\0".encode())
    with open_file(path) as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
