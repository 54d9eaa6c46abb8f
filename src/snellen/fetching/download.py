"""Download a file from one of several addresses: resume, retry, check the content, and put it in place atomically."""

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
from snellen.callers import for_caller, source_setting
from snellen.common.addresses import open_address
from snellen.common.foreign import (
    Allowance,
    LimitError,
    effective_limit,
    format_bytes,
    open_file,
    read_file,
)
from snellen.errors import DataError
from snellen.fetching.user_callbacks import is_offline, user_callbacks
from snellen.formats.retry_after import parse_retry_after

ATTEMPTS = 5
"""Consecutive attempts without a byte after which a download fails."""
MIN_PAUSE_SECONDS = 0.25
"""Base of the pause between attempts, in seconds. It doubles with each attempt without a byte, up to 8."""
MAX_PAUSE_SECONDS = 60.0
"""Maximum pause that a server may request, in seconds."""
MAX_SILENCE_SECONDS = 60.0
"""Seconds without a byte after which an attempt ends."""
SPARE_BYTES = 64 << 20
"""Bytes that are left free on a disk."""
FILE_BYTES = 200e9
"""Maximum bytes of a file of unknown size."""
MIN_BYTES_PER_SECOND = 20_000
"""Bytes per second: a file of known size may take as long as at this rate, and at least an hour."""
FILE_SECONDS = 24 * 3600
"""Maximum seconds for a file of unknown size."""


class FetchError(DataError):
    """Error for a file that cannot be downloaded from one place, although another place may have
    it.

    If the Hugging Face hub refused the download, `code` and `reason` are the ones that it sent.
    """

    def __init__(self, message: str, code: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class _Tag(Struct):
    """Which version of a file a partial download belongs to: its address, and the version that the
    server named (its ETag).
    """

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
    """Download a file to `target` and check its content.

    Returns False if it was there already, otherwise True. If several processes need the same file,
    one downloads it and the others wait.

    Args:
        addresses: Addresses of the file, tried in order until one succeeds.
        target: Path of the file.
        expected: Expected size and checksum.
        lock: File by which processes wait for each other; by default next to `target`.
        token: Sent to the server as a login, but not to other servers that it redirects to.
        most: Maximum bytes of a file of unknown size.
        seconds: Maximum seconds for a file of unknown size, including all attempts.
        within: Limits of bytes and time that all files of a build share.

    Raises:
        FetchError: The file cannot be downloaded from any address within the limits.
        DataError: The file cannot be written to the disk.
    """
    if expected.size:
        seconds = max(3600.0, expected.size / MIN_BYTES_PER_SECOND)
    # Before locking, because the file may be in a folder that this user can only read.
    if _is_there(target, expected):
        return False
    with writing(target.parent), _locked(lock or target.with_name(target.name + ".lock")):
        if _is_there(target, expected):
            return False
        if target.exists():
            _set_aside(target)
        if is_offline():
            raise FetchError(
                f"{addresses[0]} is not on this machine, and HF_HUB_OFFLINE is set; unset it to download the file"
            )
        faults = []
        for address in addresses:
            try:
                # Each attempt that starts from the beginning may download all bytes.
                allowance = Allowance(2 * ATTEMPTS * most, seconds, address, within)
                _fetch_checked(_Task(address, expected, token, most, allowance), target)
                return True
            except FetchError as error:
                faults.append(error)
        raise faults[0]


def _is_there(target: Path, expected: Content) -> bool:
    return target.exists() and not content_fault(target, expected)


class _Task(Struct, frozen=True):
    """What to download: the address, the expected content of the file, and the limits of bytes and
    time.
    """

    address: str
    expected: Content
    token: str
    most: float
    allowance: Allowance

    @property
    def limit(self) -> float:
        """Bytes after which the download is aborted; for a file of known size slightly more than its size."""
        return (
            self.expected.size + BLOCK_BYTES if self.expected.size else effective_limit(self.most)
        )


def _fetch_checked(task: _Task, target: Path) -> None:
    """Download a file, check its content, and move it to `target`.

    If the content is wrong, the file is downloaded once more. If it is wrong again, FetchError is
    raised.
    """
    address = task.address
    expected = task.expected
    part = target.with_name(target.name + ".part")
    for is_last_attempt in (False, True):
        _fetch_whole(task, part)
        fault = content_fault(part, expected)
        if not fault:
            part.replace(target)
            _tag_file(part).unlink(missing_ok=True)
            return
        _set_aside(part)
        if is_last_attempt:
            raise FetchError(
                f"{address} had unexpected content in two downloads: {fault}; the file has changed, or a proxy "
                "alters it"
            )


def _set_aside(path: Path) -> None:
    """Rename a file with wrong content to `*.wrong`, replacing an earlier one."""
    path.replace(path.with_name(path.name.removesuffix(".part") + ".wrong"))
    _tag_file(path).unlink(missing_ok=True)


def _fetch_whole(task: _Task, part: Path) -> None:
    """Download a file into `part`.

    An interrupted download is continued where it stopped, after a pause. Raises FetchError if
    `ATTEMPTS` attempts in a row bring no further bytes, or if the server's answer is final.
    """
    address = task.address
    expected = task.expected
    failures = 0  # attempts in a row without a further byte
    while True:
        size_before = _size(part)
        pause = 0.0  # seconds for which the server asks the client to wait
        try:
            if _fetch_rest(task, part):
                return
            fault: Exception = FetchError(
                f"the download of {address} was interrupted after {_size(part):,} bytes"
            )
        except urllib.error.HTTPError as error:
            fault = _refusal(address, error)
            error.close()
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.unlink(missing_ok=True)
            elif error.code not in _TEMPORARY_STATUSES:
                raise fault from None
            pause = _wanted_pause(error.headers)
            if pause > MAX_PAUSE_SECONDS:
                raise FetchError(f"{fault}, in {pause:,.0f} seconds") from None
        except LimitError as error:
            part.unlink(missing_ok=True)
            _tag_file(part).unlink(missing_ok=True)
            raise FetchError(str(error.strerror)) from error
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.errno in _DISK_FULL_ERRORS:
                raise _no_room(part.parent, expected.size - _size(part), address) from None
            fault = unreached(address, error)
            if _is_final(error):
                raise fault from None
        has_progressed = _size(part) > size_before
        failures = 0 if has_progressed else failures + 1
        if failures == ATTEMPTS:
            raise fault from None
        time.sleep(pause or min(MIN_PAUSE_SECONDS * 2**failures, 8.0))


_TEMPORARY_STATUSES = frozenset({408, 416, 425, 429, 500, 502, 503, 504})
_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


def _fetch_rest(task: _Task, part: Path) -> bool:
    """Send one request for the bytes that a partly downloaded file lacks, and append them.

    The file is downloaded from its beginning if the server does not send a part of it, or if it has changed on the server
    since the first bytes were downloaded. That is recognised by the version of the file (its ETag or date), which is
    stored in a file next to `part`.

    Args:
        task: The address, the expected content and the limits.
        part: The file with the bytes that were downloaded so far. It need not exist.

    Returns:
        Whether the file is complete now. A file whose size the server does not state counts as complete.
    """
    address = task.address
    expected = task.expected
    present = _size(part)
    stored_version = ""
    stored_tag = _read_tag(part)
    if stored_tag is not None and stored_tag.address == address:
        stored_version = stored_tag.version
    else:
        present = 0  # the bytes may be of another file
    headers = {"User-Agent": f"snellen/{__version__}", "Accept-Encoding": "identity"}
    if present and stored_version:
        headers["Range"] = f"bytes={present}-"
        headers["If-Range"] = stored_version
    elif present and expected.is_known:
        headers["Range"] = f"bytes={present}-"
    else:
        present = 0
    if present and present == expected.size:
        return True
    request = Request(address, headers=headers)  # noqa: S310 (addresses of entries: http or https)
    if task.token:
        request.add_unredirected_header("Authorization", f"Bearer {task.token}")
    with open_address(request, task.allowance, _Redirects(), silence=MAX_SILENCE_SECONDS) as reply:
        if reply.status != http.HTTPStatus.PARTIAL_CONTENT:
            present = 0
        stated_size = present + _content_length(reply.headers)
        check_kind(address, reply.headers)
        check_room(part.parent, max(stated_size, expected.size) - present, address)
        _check_limit(task, stated_size)
        version = reply.headers.get("ETag") or reply.headers.get("Last-Modified") or ""
        report_progress = user_callbacks().progress
        if version.startswith("W/"):
            version = ""  # a weak tag does not identify bytes
        # Opening the file empties it before its tag names the new version.
        with part.open("r+b" if present else "wb") as file:
            _tag_file(part).write_bytes(msgspec.json.encode(_Tag(address, version)))
            file.seek(present)
            while True:
                block = reply.read1(BLOCK_BYTES)
                if not block:
                    break
                present += len(block)
                _check_limit(task, present)
                has_passed_checkpoint = present % ROOM_EVERY < len(block)
                if has_passed_checkpoint:
                    check_room(part.parent, 0, address)
                file.write(block)
                report_progress(part.name.removesuffix(".part"), present, stated_size)
    is_size_known = stated_size > 0
    return present >= stated_size or not is_size_known


def _content_length(headers: Message) -> int:
    length = str(headers.get("Content-Length") or "")
    return int(length) if length.isdecimal() and len(length) < 20 else 0


def _check_limit(task: _Task, size: int) -> None:
    """Raise an error if a download has more bytes than allowed.

    It is FetchError if the size of the file is known, because then its content is wrong, and
    otherwise LimitError.
    """
    if size <= task.limit:
        return
    if task.expected.size:
        raise FetchError(
            f"{task.address} has unexpected content: it is larger than {task.expected.size:,} bytes"
        )
    raise LimitError(f"{task.address} has more than {format_bytes(task.limit)}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects of a server.

    A login token is sent on only if the redirect leads to the same server.
    """

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """Return the request that follows a redirect. It has the token only if scheme and host stay the same."""
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        secret = req.get_header("Authorization")
        old_scheme, old_host, *_ = urlsplit(req.full_url)
        new_scheme, new_host, *_ = urlsplit(newurl)
        is_same_server = (new_scheme, new_host) == (old_scheme, old_host)
        if following is not None and secret and is_same_server:
            following.add_unredirected_header("Authorization", secret)
        return following


def check_kind(address: str, headers: Message) -> None:
    """Raise FetchError if a server sent a web page instead of data."""
    name = address.partition("?")[0].casefold()
    is_web_page = str(headers.get("Content-Type", "")).startswith("text/html")
    if is_web_page and not name.endswith((".html", ".htm", ".txt")):
        raise FetchError(
            f"{address} returned a web page instead of data; sign in to the proxy or service that shows it, or "
            f"give files that you already have with {source_setting()}"
        )


def check_room(folder: Path, needed: int, name: str) -> None:
    """Raise DataError if a folder's disk has no room for this many more bytes."""
    if needed > shutil.disk_usage(folder).free - SPARE_BYTES:
        raise _no_room(folder, needed, name)


def _no_room(folder: Path, needed: int, name: str) -> DataError:
    """Return the error for a disk without room. `needed` is the number of missing bytes; 0 or less if it is unknown."""
    amount = format_bytes(needed) if needed > 0 else "some bytes"
    return DataError(
        f"{name} needs {amount} more, but the disk of {folder} has "
        f"{format_bytes(shutil.disk_usage(folder).free)} free; free some space, or set another folder in {_SETTINGS}"
    )


_SETTINGS = "SNELLEN_DATA (HF_HUB_CACHE for datasets of the hub)"


def _refusal(address: str, error: urllib.error.HTTPError) -> FetchError:
    """Return the error for an HTTP status such as 404, with a message that says what the user can
    do.
    """
    match error.code:
        case 301 | 302 | 303 | 307 | 308:
            words = (
                f"redirects in a circle or to a missing page ({error.code}); download it manually and give it "
                f"with {source_setting()}"
            )
        case 401 | 403:
            words = f"requires a login ({error.code}); download it manually and give it with {source_setting()}"
        case 404 | 410:
            words = f"no longer exists ({error.code}); give files that you already have with {source_setting()}"
        case 429:
            words = "has rate-limited this client (429, too many requests); try again later"
        case status:
            words = f"answers {status} {error.reason}; try again later"
    code = error.headers.get("X-Error-Code", "")
    reason = error.headers.get("X-Error-Message", "")
    return FetchError(f"{address} {words}", code, reason)


def unreached(address: str, error: Exception) -> FetchError:
    """Return the error for a server that cannot be reached."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    host = address.split("/")[2]
    if isinstance(reason, ssl.SSLCertVerificationError):
        return FetchError(
            f"the certificate of {host} is not trusted ({reason.verify_message}); if you use a proxy, set "
            "SSL_CERT_FILE to its certificate"
        )
    if isinstance(reason, socket.gaierror):
        return FetchError(
            f"cannot resolve {host}; check your network connection, or set HTTPS_PROXY"
        )
    words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return FetchError(f"{address} cannot be reached ({words})")


def _is_final(error: Exception) -> bool:
    """Return whether an error will not go away by trying again."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return isinstance(reason, (ssl.SSLCertVerificationError, socket.gaierror))


def _wanted_pause(headers: Message) -> float:
    """Return the seconds that a server asks to wait; 0 if it does not say."""
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
    """Turn errors of writing to the disk inside the block into DataError about the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno in _DISK_FULL_ERRORS:
            again = for_caller("run the same command", "repeat the call")
            raise DataError(f"{folder}: the disk is full; free some space, then {again}") from None
        raise DataError(
            f"{folder}: cannot write ({error.strerror or error}); set a writable folder in {_SETTINGS}"
        ) from None


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    """Hold a file lock, after waiting for other processes to release it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- whether a file holds what it should ------------------------------------------------------------------------------


BLOCK_BYTES = 1 << 20
ROOM_EVERY = 256 << 20
"""Bytes after which the free disk space is checked again."""


class Content(Struct, frozen=True):
    """What is known about the expected content of a file.

    An unknown size is 0, and an unknown digest is empty.
    """

    size: int = 0
    sha256: str = ""
    md5: str = ""
    git: str = ""
    """SHA-1 of the file in the form of a git object. The hub names small files by it."""

    @property
    def is_known(self) -> bool:
        return bool(self.sha256 or self.md5 or self.git)


def content_fault(path: Path, expected: Content) -> str:
    """Return how a file differs from the expected content; empty if it does not, or nothing is
    known about the content.

    Raises OSError if the file cannot be read.
    """
    size = path.stat().st_size
    if expected.size and size != expected.size:
        return f"it has {size:,} bytes, not {expected.size:,}"
    for name, digest in (("sha256", expected.sha256), ("md5", expected.md5), ("git", expected.git)):
        if not digest:
            continue
        actual = digest_of(path, name)
        if actual == digest.lower():
            return ""
        return f"its {_TITLES[name]} is {actual}, not {digest.lower()}"
    return ""


_TITLES = {"sha256": "SHA-256", "md5": "MD5", "git": "git digest"}


def digest_of(path: Path, name: str) -> str:
    """Return a digest of a file in hexadecimal digits. Raises OSError if the file cannot be read.

    Args:
        path: The file.
        name: Which digest: `sha256`, `md5` or `git`, like the fields of `Content`. The last is the SHA-1 by which Git names
            a file: of `blob`, the size and the content.
    """
    algorithm = "sha1" if name == "git" else name
    digest = hashlib.new(algorithm, usedforsecurity=False)
    if name == "git":
        digest.update(f"blob {path.stat().st_size}\0".encode())
    with open_file(path) as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            digest.update(block)
    return digest.hexdigest()
