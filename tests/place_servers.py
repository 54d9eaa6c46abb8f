"""The places where benchmarks lie, on loopback: the hub, a plain file server and ModelScope, with faults on demand.

    with HubServer({"owner/name": Repo({"data/a.parquet": b"..."})}, faults=Faults("cut", after=10)) as hub:
        os.environ["HF_ENDPOINT"] = hub.url
        ...
        hub.log  # what was asked, what was sent, which fault was served

Every server speaks real HTTP/1.1 with keep-alive, and decides all it does from what it was asked, from its `faults`
and from their seed. What it stores elsewhere than at its front door (the CDN of the hub, the OSS of ModelScope) is at
a second port, so that a client which sends its token there is seen in the log.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import json
import posixpath
import random
import re
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, get_args
from urllib.parse import parse_qs, quote, unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

What = Literal[
    "cut", "slow", "flipped", "short", "vanish", "storm", "html", "error", "reset", "stall"
]
KINDS: tuple[What, ...] = get_args(What)
WITHIN_BODY: frozenset[What] = frozenset({"cut", "slow", "flipped", "short"})
BROKEN = (500, 502, 503)
PIECE = 1 << 16
DATED = 1_700_000_000
LOGIN_PAGE = b"""<!DOCTYPE html>
<html><head><title>Network login</title></head>
<body><form action="/login" method="post"><p>Sign in to use this network.</p></form></body></html>
"""


class Faults(Struct, frozen=True):
    """A fault and when it happens; a server takes one or several, and the first that fits a request is served."""

    what: What
    seed: int = 0
    after: int | None = None
    """Bytes of the body before it happens (`flipped`: the index of the byte). None: drawn from the seed; a `stall`
    then comes before the reply. A `reset` after 0 bytes comes before the reply."""
    start: int = 1
    """The first request that meets it, counted among those that fit."""
    times: int | None = 1
    """How many requests meet it from there; None is all. What has vanished stays so."""
    share: float = 1.0
    """Below 1: this share of those requests, drawn from the seed by path and by how often that path was asked."""
    each: bool = False
    """`start` and `times` count the requests of each path apart."""
    where: Literal["files", "api", "any"] = "files"
    """`files` are GETs that would carry a file's bytes; `api` is the rest, HEADs and redirects among them."""
    matching: str = ""
    """A regular expression found in "METHOD /path?query"."""
    seconds: float = 1.0
    """All that `slow` takes."""
    status: int = 0
    """Of `error`; 0 is drawn from the seed among 500, 502 and 503."""
    retry_after: str = ""
    """Of `storm`; empty is drawn from the seed: 0 or 1."""


def drawn(seed: int, kinds: Sequence[What] = KINDS, *, most: int = 3) -> tuple[Faults, ...]:
    """One to `most` faults for a run: the same for the same seed. A `stall` is left for tests that set timeouts."""
    draw = random.Random(f"faults {seed}")
    choice = [kind for kind in kinds if kind != "stall"]
    return tuple(
        Faults(
            draw.choice(choice),
            seed=seed,
            start=draw.randint(1, 3),
            times=draw.choice([1, 1, 2, None]),
            share=draw.choice([1.0, 1.0, 0.5]),
            each=draw.random() < 0.5,
            where=draw.choice(["files", "files", "any"]),
            seconds=0.2,
        )
        for _ in range(draw.randint(1, most))
    )


class Blob(Struct, frozen=True):
    """A file's bytes and digests. `source` None is a file of zeros too large for any disk, made while it is sent."""

    size: int
    sha256: str
    git_sha1: str
    source: bytes | Path | None

    @classmethod
    def of(cls, source: bytes | Path) -> Blob:
        size = len(source) if isinstance(source, bytes) else source.stat().st_size
        sha256, sha1 = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size)
        for piece in cls(size, "", "", source).pieces(0, size):
            sha256.update(piece)
            sha1.update(piece)
        return cls(size, sha256.hexdigest(), sha1.hexdigest(), source)

    @classmethod
    def vast(cls, size: int) -> Blob:
        """Announces `size` bytes; its digests are of nothing, as nobody is to have all of it."""
        name = b"vast %d" % size
        return cls(size, hashlib.sha256(name).hexdigest(), hashlib.sha1(name).hexdigest(), None)

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        if self.source is None:
            for at in range(start, stop, PIECE):
                yield bytes(min(PIECE, stop - at))
            return
        with (
            io.BytesIO(self.source)
            if isinstance(self.source, bytes)
            else self.source.open("rb") as file
        ):
            file.seek(start)
            while start < stop and (piece := file.read(min(PIECE, stop - start))):
                start += len(piece)
                yield piece


Files = Mapping[str, bytes | Path | Blob]


def folder(root: Path) -> dict[str, Path]:
    """The files below `root`, by their path there."""
    return {
        path.relative_to(root).as_posix(): path
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def blobs(files: Files) -> dict[str, Blob]:
    return {path: it if isinstance(it, Blob) else Blob.of(it) for path, it in sorted(files.items())}


class Asked(Struct, frozen=True):
    """A request as it came in."""

    port: Literal["front", "store"]
    method: str
    target: str
    """Path and query, as sent."""
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes

    @property
    def steps(self) -> list[str]:
        """Parts of the path, unquoted one by one: a quoted slash does not part."""
        return [unquote(step) for step in urlsplit(self.target).path.strip("/").split("/")]

    @property
    def query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def wanted(self) -> str:
        """What it is about, without signatures and the like: the same when it is asked again."""
        path = self.query.get("FilePath")
        return urlsplit(self.target).path + (f"?FilePath={path}" if path else "")

    @property
    def token(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")


class Reply(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    blob: Blob
    start: int = 0
    stop: int = 0
    """The bytes of the blob that are sent."""
    file: bool = False
    """Whether these are a file's bytes."""


class Served(Struct, frozen=True):
    """A line of the log. `sent` counts body bytes given to the socket, of which a client that left read fewer."""

    number: int
    port: str
    method: str
    path: str
    range: str | None
    if_range: str | None
    authorization: str | None
    status: int = 0
    """0: no reply was begun."""
    sent: int = 0
    fault: str = ""
    after: int | None = None


class Happening(Struct, frozen=True):
    """A fault met with a request: everything that was to be drawn is."""

    what: What
    after: int | None
    mask: int
    seconds: float
    status: int
    retry_after: str


def happening(fault: Faults, key: str, length: int) -> Happening:
    """What `fault` does to a body of `length` bytes; the same for the same seed and key."""
    draw = random.Random(f"{fault.seed} {fault.what} {key}")
    where, mask = draw.randrange(max(length, 1)), draw.randint(1, 255)
    if fault.after is not None:
        where = min(fault.after, max(length - 1, 0))
    return Happening(
        fault.what,
        None if fault.what == "stall" and fault.after is None else where,
        mask,
        fault.seconds,
        fault.status or draw.choice(BROKEN),
        fault.retry_after or draw.choice("01"),
    )


def whole(
    status: int,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    kind: str = "text/plain",
) -> Reply:
    return Reply(
        status,
        {"Content-Type": kind, **(headers or {})},
        Blob(len(body), "", "", body),
        0,
        len(body),
    )


def as_json(told: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    return whole(status, json.dumps(told).encode(), headers, "application/json; charset=utf-8")


def redirect(status: int, location: str, headers: Mapping[str, str] | None = None) -> Reply:
    body = f"{HTTPStatus(status).phrase}. Redirecting to {location}".encode()
    return whole(status, body, {"Location": location, **(headers or {})})


def file_reply(
    asked: Asked, blob: Blob, headers: Mapping[str, str], *, ranges: bool = True
) -> Reply:
    """The file or the range of it that was asked for (RFC 9110, 14.2 and 13.1.5); several ranges get the whole."""
    said = {"Content-Type": "application/octet-stream", **headers}
    if not ranges:
        return Reply(200, said, blob, 0, blob.size, file=True)
    said["Accept-Ranges"] = "bytes"
    condition = asked.headers.get("if-range")
    same = condition is None or condition in (said.get("ETag"), said.get("Last-Modified"))
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.headers.get("range", "").replace(" ", ""))
    if not found or not any(found.groups()) or not same or asked.method != "GET":
        return Reply(200, said, blob, 0, blob.size, file=True)
    first, last = found.groups()
    start = int(first) if first else max(blob.size - int(last), 0)
    stop = min(int(last) + 1, blob.size) if first and last else blob.size
    if start >= stop:
        return whole(416, headers={"Content-Range": f"bytes */{blob.size}"})
    said["Content-Range"] = f"bytes {start}-{stop - 1}/{blob.size}"
    return Reply(206, said, blob, start, stop, file=True)


def shortened(reply: Reply, length: int) -> Reply:
    """As if the place had only so much of the file: a length that fits, and the digests of the whole."""
    stop = reply.start + length
    headers = dict(reply.headers)
    if reply.status == 206:
        headers["Content-Range"] = f"bytes {reply.start}-{max(stop - 1, reply.start)}/{stop}"
    return replace(reply, headers=headers, stop=stop)


def flipped(pieces: Iterator[bytes], at: int, mask: int) -> Iterator[bytes]:
    for piece in pieces:
        if 0 <= at < len(piece):
            yield piece[:at] + bytes([piece[at] ^ mask]) + piece[at + 1 :]
        else:
            yield piece
        at -= len(piece)


class PlaceServer(ABC):
    """Listens at one port or two, counts and logs requests, and serves the faults; a place answers in `answer`."""

    ports: ClassVar[tuple[Literal["front", "store"], ...]] = ("front",)

    def __init__(
        self, *, faults: Faults | Sequence[Faults] = (), tls: ssl.SSLContext | None = None
    ) -> None:
        self._lock = threading.Condition()
        self._log: list[Served] = []
        self._crashes: list[Exception] = []
        self._met: Counter[tuple[int, str]] = Counter()
        self.closing = threading.Event()
        self.tls = tls
        self.faults = faults
        self.refused_handshakes = 0
        self._listeners = {port: _Listener(self, port) for port in self.ports}

    @property
    def faults(self) -> tuple[Faults, ...]:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults | Sequence[Faults]) -> None:
        """New faults count from the next request on."""
        with self._lock:
            self._faults = (faults,) if isinstance(faults, Faults) else tuple(faults)
            self._met.clear()

    @property
    def url(self) -> str:
        return self._url("front")

    @property
    def log(self) -> tuple[Served, ...]:
        with self._lock:
            return tuple(self._log)

    def sent(self, matching: str = "") -> int:
        """Bytes of bodies sent for requests whose "METHOD /path" has the regular expression."""
        return sum(
            line.sent for line in self.log if re.search(matching, f"{line.method} {line.path}")
        )

    @abstractmethod
    def answer(self, asked: Asked, number: int) -> Reply: ...

    def missing(self, asked: Asked) -> Reply:
        """How this place says that something is not there."""
        return whole(404, b"Not Found")

    def limited(self, asked: Asked, retry_after: str) -> Reply:
        """How this place says that it was asked too often."""
        return whole(429, b"Too Many Requests", {"Retry-After": retry_after})

    def __enter__(self) -> Self:
        for port, listener in self._listeners.items():
            name = f"{self.url} {port}"
            threading.Thread(
                target=listener.serve_forever, args=(0.02,), name=name, daemon=True
            ).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.closing.set()
        for listener in self._listeners.values():
            listener.shutdown()
            listener.server_close()
            listener.hang_up()
        if self._crashes and error is None:
            raise ExceptionGroup("the test server itself failed", self._crashes)

    def _url(self, port: Literal["front", "store"]) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self._listeners[port].server_address[1]}"

    def _begin(self, asked: Asked) -> int:
        said = asked.headers.get
        with self._lock:
            number = len(self._log) + 1
            line = (
                asked.method,
                asked.target,
                said("range"),
                said("if-range"),
                said("authorization"),
            )
            self._log.append(Served(number, asked.port, *line))
        return number

    def _note(self, number: int, sent: int = 0, **changes: Any) -> None:
        """Before the bytes go out: whoever has the reply finds it in the log."""
        with self._lock:
            line = self._log[number - 1]
            self._log[number - 1] = replace(line, sent=line.sent + sent, **changes)

    def _meets(self, asked: Asked, reply: Reply) -> Happening | None:
        length = reply.stop - reply.start if asked.method != "HEAD" else 0
        file = reply.file and asked.method == "GET"
        with self._lock:
            for index, fault in enumerate(self._faults):
                if fault.where != "any" and (fault.where == "files") != file:
                    continue
                if fault.what in WITHIN_BODY and not length:
                    continue
                if not re.search(fault.matching, f"{asked.method} {asked.target}"):
                    continue
                self._met[index, ""] += 1
                self._met[index, asked.wanted] += 1
                key = f"{asked.method} {asked.wanted} {self._met[index, asked.wanted]}"
                nth = self._met[index, asked.wanted if fault.each else ""] - fault.start
                lasts = fault.times is None or fault.what == "vanish" or nth < fault.times
                lot = random.Random(f"{fault.seed} share {key}").random()
                if nth >= 0 and lasts and lot < fault.share:
                    return happening(fault, key, length)
        return None

    def _replaced(self, asked: Asked, reply: Reply, met: Happening) -> Reply:
        match met.what:
            case "vanish":
                return self.missing(asked)
            case "storm":
                return self.limited(asked, met.retry_after)
            case "error":
                return whole(met.status, f"{met.status} {HTTPStatus(met.status).phrase}".encode())
            case "html":
                return whole(
                    200, LOGIN_PAGE, {"Cache-Control": "no-store"}, "text/html; charset=utf-8"
                )
            case "short":
                return shortened(reply, met.after or 0)
            case _:
                return reply


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, place: PlaceServer, port: Literal["front", "store"]) -> None:
        self.place, self.port = place, port
        self._open: set[Any] = set()
        self._changed = threading.Condition()
        super().__init__(("127.0.0.1", 0), _Handler)

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        if self.place.tls is not None:
            # The handshake is the thread's: a client that is slow with it keeps no other waiting.
            connection = self.place.tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        with self._changed:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Every fault of a connection is caught where it is expected: what comes here is ours."""
        raise

    def hang_up(self) -> None:
        """Ends idle and stalled connections, and waits for their threads."""
        with self._changed:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            if not self._changed.wait_for(lambda: not self._open, timeout=5):
                raise RuntimeError(f"{len(self._open)} connections did not end within 5 s")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def handle(self) -> None:
        if isinstance(self.connection, ssl.SSLSocket):
            try:
                self.connection.do_handshake()
            except (ssl.SSLError, OSError):
                self.server.place.refused_handshakes += 1
                return
        # The client may leave at any time.
        with suppress(ConnectionError, ssl.SSLError):
            super().handle()

    def serve(self) -> None:
        place = self.server.place
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.server.port, self.command, self.path, headers, body)
        number = place._begin(asked)
        try:
            reply = place.answer(asked, number)
        except Exception as error:
            place._crashes.append(error)
            reply = whole(500, b"the test server itself failed")
        met = place._meets(asked, reply)
        if met is not None:
            place._note(number, fault=met.what, after=met.after)
            reply = place._replaced(asked, reply, met)
            if met.what == "stall" and met.after is None:
                place.closing.wait()
                return self.hang_up()
            if met.what == "reset" and not (met.after and self.command != "HEAD"):
                return self.hang_up(rudely=True)
        place._note(number, status=reply.status)
        self.send(number, reply, met)
        return None

    do_GET = do_HEAD = do_POST = serve  # noqa: N815

    def send(self, number: int, reply: Reply, met: Happening | None) -> None:
        self.send_response(reply.status)
        for name, value in {
            **reply.headers,
            "Content-Length": str(reply.stop - reply.start),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return None
        what, stop = met.what if met else "", reply.stop
        if met is not None and met.after is not None and what in ("cut", "reset", "stall"):
            stop = reply.start + met.after
        pieces = reply.blob.pieces(reply.start, stop)
        if met is not None and met.after is not None and what == "flipped":
            pieces = flipped(pieces, met.after, met.mask)
        if met is not None and what == "slow":
            pieces = self.dribbled(pieces, stop - reply.start, met.seconds)
        for piece in pieces:
            self.server.place._note(number, len(piece))
            try:
                self.wfile.write(piece)
            except OSError:
                self.server.place._note(number, -len(piece))
                return self.hang_up()
        if what == "stall":
            self.server.place.closing.wait()
        if what in ("cut", "reset", "stall"):
            self.hang_up(rudely=what == "reset")
        return None

    def dribbled(self, pieces: Iterator[bytes], length: int, seconds: float) -> Iterator[bytes]:
        """In some twenty drops over `seconds`; the rest at once when the server closes."""
        drop = max(length // 20, 1)
        for piece in pieces:
            for at in range(0, len(piece), drop):
                self.server.place.closing.wait(seconds * min(drop, len(piece) - at) / length)
                yield piece[at : at + drop]

    def hang_up(self, *, rudely: bool = False) -> None:
        """Ends the connection, with RST instead of FIN when `rudely`."""
        self.close_connection = True
        if rudely:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # makefile() holds the descriptor open until its last file is closed.
            self.rfile.close()
            self.connection.close()
        else:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """The log is the server's."""


class FileServer(PlaceServer):
    """Plain files by path, as any web server has them."""

    def __init__(
        self,
        files: Files,
        *,
        ranges: bool = True,
        etags: bool = True,
        dates: bool = True,
        redirects: Mapping[str, tuple[int, str]] | None = None,
        faults: Faults | Sequence[Faults] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`redirects` is by path: a status and where to. `files` and the rest may change while it runs."""
        super().__init__(faults=faults, tls=tls)
        self.files = blobs(files)
        self.ranges, self.etags, self.dates = ranges, etags, dates
        self.redirects = dict(redirects or {})

    def answer(self, asked: Asked, number: int) -> Reply:
        path = "/".join(asked.steps)
        if f"/{path}" in self.redirects:
            return redirect(*self.redirects[f"/{path}"])
        if path not in self.files:
            return self.missing(asked)
        blob = self.files[path]
        headers = {"ETag": f'"{blob.sha256[:32]}"'} if self.etags else {}
        if self.dates:
            headers["Last-Modified"] = formatdate(DATED + blob.size, usegmt=True)
        return file_reply(asked, blob, headers, ranges=self.ranges)


class Certificate(Struct, frozen=True):
    path: Path
    context: ssl.SSLContext


def self_signed(into: Path, *, name: str = "IP:127.0.0.1") -> Certificate:
    """A certificate that nobody trusts; by another `name` ("DNS:elsewhere.invalid") one that does not fit."""
    certificate, key = into / "certificate.pem", into / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split()
    )
    subprocess.run(
        [
            *command,
            "-subj",
            "/CN=places",
            "-addext",
            f"subjectAltName={name}",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return Certificate(certificate, context)


def secure_file_server(files: Files, **settings: Any) -> tuple[FileServer, bytes]:
    """A FileServer behind a self-signed certificate, and that certificate in PEM for a client that is to trust it."""
    with tempfile.TemporaryDirectory() as scratch:
        certificate = self_signed(Path(scratch))
        return FileServer(files, tls=certificate.context, **settings), certificate.path.read_bytes()


LARGE = (
    "*.parquet",
    "*.zip",
    "*.tar",
    "*.gz",
    "*.tgz",
    "*.arrow",
    "*.bin",
    "*.jpg",
    "*.png",
    "*.mp4",
    "*.7z",
)


class Repo(Struct, frozen=True):
    """A dataset: `files` are the head of its default branch, `older` those at other branches, tags or commits."""

    files: Files
    older: Mapping[str, Files] = {}
    state: Literal["public", "gated", "private", "gone", "disabled"] = "public"
    moved_to: str = ""
    tokens: tuple[str, ...] = ()
    """Those that open it when it is gated or private."""
    pending: tuple[str, ...] = ()
    """Those whose owners asked for access and have no answer."""
    rate_limited: int = 0
    """The first so many requests for it are refused with 429."""
    retry_after: int = 0
    large: tuple[str, ...] = LARGE
    """Patterns of what is kept in LFS, and so at the second port."""


class Revision(Struct, frozen=True):
    name: str
    commit: str
    files: dict[str, Blob]


def revisions(repo: Repo, branch: str) -> dict[str, Revision]:
    """By name; the commit's hash is of the contents."""
    told = {}
    for name, files in {branch: repo.files, **repo.older}.items():
        held = blobs(files)
        listing = "".join(f"{blob.git_sha1} {path}\n" for path, blob in held.items())
        told[name] = Revision(name, hashlib.sha1(f"commit {listing}".encode()).hexdigest(), held)
    return told


def pointer(blob: Blob) -> Blob:
    """What git has of a file in LFS (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md)."""
    text = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{blob.sha256}\nsize {blob.size}\n"
    )
    return Blob.of(text.encode())


def folders(paths: Sequence[str]) -> list[str]:
    found = set[str]()
    for path in paths:
        while path := posixpath.dirname(path):
            found.add(path)
    return sorted(found)


class _Repositories(PlaceServer):
    """What the hub and ModelScope share: repositories with revisions, and large files at another port."""

    ports = ("front", "store")
    branch: ClassVar[str]

    def __init__(
        self,
        repos: Mapping[str, Repo],
        *,
        signed_for: int | None = None,
        faults: Faults | Sequence[Faults] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`signed_for`: a signed address is good for so many GETs, then 403 as after its time; None is for ever."""
        super().__init__(faults=faults, tls=tls)
        self.signed_for = signed_for
        self._used: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._repos: dict[str, tuple[Repo, dict[str, Revision]]] = {}
        for name, repo in repos.items():
            self[name] = repo

    def __setitem__(self, name: str, repo: Repo) -> None:
        """Puts a repository there, or another in its place while the server runs."""
        self._repos[name] = (repo, revisions(repo, self.branch))
        self._refusals[name] = 0

    def __getitem__(self, name: str) -> Repo:
        return self._repos[name][0]

    def commit(self, name: str, revision: str = "") -> str:
        return self._repos[name][1][revision or self.branch].commit

    @property
    def store(self) -> str:
        return self._url("store")

    def at(self, name: str, revision: str) -> Revision | None:
        """By the name of a branch or tag, or by the whole hash of a commit."""
        known = self._repos[name][1]
        return known.get(revision) or next(
            (it for it in known.values() if it.commit == revision), None
        )

    def is_large(self, name: str, path: str) -> bool:
        return any(
            fnmatch.fnmatch(posixpath.basename(path), pattern) for pattern in self[name].large
        )

    def signed(self, name: str, path: str, blob: Blob, number: int) -> str:
        signature = hashlib.sha256(f"{number} {blob.sha256}".encode()).hexdigest()
        kept = f"{self.store}/repos/{quote(name)}/{blob.sha256}"
        return f"{kept}?name={quote(posixpath.basename(path))}&X-Amz-Expires=3600&X-Amz-Signature={signature}"

    def stored(self, asked: Asked) -> Reply:
        """The bytes of a large file, at the address that the front door signed."""
        known = [revision for _, named in self._repos.values() for revision in named.values()]
        kept = {blob.sha256: blob for revision in known for blob in revision.files.values()}
        blob = kept.get(asked.steps[-1])
        signature = asked.query.get("X-Amz-Signature", "")
        if blob is None:
            return self.missing(asked)
        if asked.method == "GET":
            self._used[signature] += 1
        if not signature or (
            self.signed_for is not None and self._used[signature] > self.signed_for
        ):
            return whole(
                403, s3_error("AccessDenied", "Request has expired"), kind="application/xml"
            )
        name = asked.query.get("name", "")
        headers = {
            "ETag": f'"{hashlib.md5(blob.sha256.encode()).hexdigest()}"',
            "Last-Modified": formatdate(DATED, usegmt=True),
            "Content-Disposition": f"inline; filename*=UTF-8''{quote(name)}; filename=\"{name}\";",
        }
        return file_reply(asked, blob, headers)

    def spent(self, name: str) -> bool:
        """Whether the repository refuses this request too for being asked too often."""
        with self._lock:
            self._refusals[name] += 1
            return self._refusals[name] <= self[name].rate_limited

    def missing(self, asked: Asked) -> Reply:
        return whole(
            404, s3_error("NoSuchKey", "The specified key does not exist."), kind="application/xml"
        )


def s3_error(code: str, message: str) -> bytes:
    told = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{told}'.encode()


class _RefusedError(Exception):
    """A reply that ends the way to an answer."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


class HubServer(_Repositories):
    """The hub's API for datasets, as `huggingface_hub` 2.4.0 asks and reads it (hf_api.py, file_download.py, _http.py).

    Taken from elsewhere, as seen by others on huggingface.co in 2025 and 2026: 307 with a path alone as its Location
    for what has moved and for small files (/api/resolve-cache/...), 401 without a code and "Invalid username or
    password." for what an anonymous user may not know of, the messages of gates, RateLimit on every reply of the API,
    and that a gated dataset's info is open to all.
    """

    branch = "main"
    VERBS: ClassVar[frozenset[str]] = frozenset(
        {"revision", "tree", "paths-info", "refs", "commits", "resolve"}
    )

    def __init__(
        self,
        repos: Mapping[str, Repo],
        *,
        coded: bool = True,
        gated_tree: bool = True,
        page: int | None = None,
        expired: tuple[str, ...] = (),
        signed_for: int | None = None,
        faults: Faults | Sequence[Faults] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`coded`: private is told to anonymous users by 401 with the code RepoNotFound; off, as the hub does, without
        (`huggingface_hub` knows that answer only at an https address), and gone likewise. `gated_tree`: a gate shuts
        listings too. `page`: entries on a page of a listing; None is the hub's 1000, 50
        when expanded. `expired`: tokens that are no more."""
        super().__init__(repos, signed_for=signed_for, faults=faults, tls=tls)
        self.coded, self.gated_tree, self.page, self.expired = coded, gated_tree, page, expired

    def answer(self, asked: Asked, number: int) -> Reply:
        if asked.port == "store":
            return self.stored(asked)
        try:
            reply = self._routed(asked, number)
        except _RefusedError as refused:
            reply = refused.reply
        bucket, quota = ("api", 500) if asked.steps[0] == "api" else ("resolvers", 3000)
        limits = {
            "RateLimit": f'"{bucket}";r={max(quota - number, 1)};t=295',
            "RateLimit-Policy": f'"fixed window";"{bucket}";q={quota};w=300',
            "X-Request-Id": f"Root=1-{number:08x}",
        }
        return replace(reply, headers={**limits, **reply.headers})

    def missing(self, asked: Asked) -> Reply:
        if asked.port == "store":
            return super().missing(asked)
        return refusal(404, "Repository not found", "RepoNotFound")

    def limited(self, asked: Asked, retry_after: str) -> Reply:
        if asked.port == "store":
            return super().limited(asked, retry_after)
        bucket = "api" if asked.steps[0] == "api" else "resolvers"
        told = {"Retry-After": retry_after, "RateLimit": f'"{bucket}";r=0;t={retry_after}'}
        return refusal(429, "We had to rate limit you. Log in or wait.", headers=told)

    def _routed(self, asked: Asked, number: int) -> Reply:
        match asked.steps:
            case ["api", "datasets", *rest]:
                name, rest = self._name(rest)
                repo = self._admitted(asked, name)
                if rest[:1] in (["tree"], ["paths-info"], ["commits"]) and self.gated_tree:
                    self._gate(asked, name, repo)
                return self._api(asked, name, rest)
            case ["api", "resolve-cache", "datasets", *rest]:
                name, rest = self._name(rest)
                self._gate(asked, name, self._admitted(asked, name))
                return self._file(asked, name, self._revision(name, rest[0]), "/".join(rest[1:]))
            case ["datasets", *rest]:
                name, rest = self._name(rest)
                self._gate(asked, name, self._admitted(asked, name))
                if rest[:1] == ["resolve"] and len(rest) > 2:
                    return self._resolve(
                        asked, name, self._revision(name, rest[1]), "/".join(rest[2:]), number
                    )
        return refusal(404, "Sorry, we can't find the page you are looking for.")

    def _name(self, steps: list[str]) -> tuple[str, list[str]]:
        both = "/".join(steps[:2])
        if both in self._repos or (
            len(steps) > 1 and steps[0] not in self._repos and steps[1] not in self.VERBS
        ):
            return both, steps[2:]
        return steps[0], steps[1:]

    def _admitted(self, asked: Asked, name: str) -> Repo:
        """The repository, for those who may know of it."""
        repo = self[name] if name in self._repos else Repo({}, state="gone")
        if repo.moved_to:
            here, there = (quote(it) for it in (name, repo.moved_to))
            raise _RefusedError(redirect(307, asked.target.replace(f"/{here}", f"/{there}", 1)))
        if name in self._repos and self.spent(name):
            raise _RefusedError(self.limited(asked, str(repo.retry_after)))
        if asked.token in self.expired and repo.state != "gated":
            raise _RefusedError(refusal(401, "Invalid credentials in Authorization header"))
        hidden = repo.state == "gone" or (
            repo.state == "private" and asked.token not in repo.tokens
        )
        if hidden and not asked.token and (repo.state == "private" or not self.coded):
            if self.coded:
                raise _RefusedError(refusal(401, "Repository not found", "RepoNotFound"))
            raise _RefusedError(refusal(401, "Invalid username or password."))
        if hidden:
            raise _RefusedError(refusal(404, "Repository not found", "RepoNotFound"))
        if repo.state == "disabled":
            raise _RefusedError(refusal(403, "Access to this resource is disabled."))
        return repo

    def _gate(self, asked: Asked, name: str, repo: Repo) -> None:
        if repo.state != "gated" or asked.token in repo.tokens:
            return
        if not asked.token or asked.token in self.expired:
            how = "You must have access to it and be authenticated to access it. Please log in."
            raise _RefusedError(
                refusal(401, f"Access to dataset {name} is restricted. {how}", "GatedRepo")
            )
        if asked.token in repo.pending:
            message = (
                f"Your request to access dataset {name} is awaiting a review from the repo authors."
            )
            raise _RefusedError(refusal(403, message, "GatedRepo"))
        page = f"https://huggingface.co/datasets/{name}"
        how = f"and you are not in the authorized list. Visit {page} to ask for access."
        raise _RefusedError(
            refusal(403, f"Access to dataset {name} is restricted {how}", "GatedRepo")
        )

    def _revision(self, name: str, revision: str) -> Revision:
        found = self.at(name, revision)
        if found is None:
            raise _RefusedError(refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound"))
        return found

    def _api(self, asked: Asked, name: str, rest: list[str]) -> Reply:
        match rest:
            case []:
                return self._info(asked, name, self._revision(name, self.branch))
            case ["revision", revision]:
                return self._info(asked, name, self._revision(name, revision))
            case ["tree", revision, *under]:
                return self._tree(asked, name, self._revision(name, revision), "/".join(under))
            case ["paths-info", revision]:
                return self._paths_info(asked, name, self._revision(name, revision))
            case ["refs"]:
                return as_json(self._refs(name))
            case ["commits", revision]:
                commit = self._revision(name, revision).commit
                line = {
                    "id": commit,
                    "title": "Upload",
                    "message": "",
                    "authors": [{"user": "owner"}],
                    "date": DAY,
                }
                return as_json([line], headers={"X-Total-Count": "1"})
        return refusal(404, "Sorry, we can't find the page you are looking for.")

    def _info(self, asked: Asked, name: str, revision: Revision) -> Reply:
        state, blobs_too = self[name].state, asked.query.get("blobs", "").lower() in ("true", "1")
        siblings: list[dict[str, Any]] = [{"rfilename": path} for path in revision.files]
        if blobs_too:
            for sibling, entry in zip(siblings, self._entries(name, revision), strict=True):
                sibling |= {"size": entry["size"], "blobId": entry["oid"]}
                if lfs := entry.get("lfs"):
                    sibling["lfs"] = {
                        "sha256": lfs["oid"],
                        "size": lfs["size"],
                        "pointerSize": lfs["pointerSize"],
                    }
        told = {
            "_id": hashlib.sha1(name.encode()).hexdigest()[:24],
            "id": name,
            "author": name.split("/")[0],
            "sha": revision.commit,
            "lastModified": DAY,
            "createdAt": DAY,
            "private": state == "private",
            "gated": "auto" if state == "gated" else False,
            "disabled": False,
            "downloads": 0,
            "likes": 0,
            "tags": [],
            "siblings": siblings,
            "usedStorage": sum(blob.size for blob in revision.files.values()),
        }
        return as_json(told)

    def _entries(
        self, name: str, revision: Revision, *, expand: bool = False
    ) -> list[dict[str, Any]]:
        told = []
        for path, blob in revision.files.items():
            entry: dict[str, Any] = {
                "type": "file",
                "oid": blob.git_sha1,
                "size": blob.size,
                "path": path,
            }
            if self.is_large(name, path):
                at = pointer(blob)
                entry |= {
                    "oid": at.git_sha1,
                    "lfs": {"oid": blob.sha256, "size": blob.size, "pointerSize": at.size},
                }
            told.append(entry)
        return [self._expanded(it, revision) for it in told] if expand else told

    def _folder_entries(self, revision: Revision) -> list[dict[str, Any]]:
        return [
            {
                "type": "directory",
                "oid": hashlib.sha1(path.encode()).hexdigest(),
                "size": 0,
                "path": path,
            }
            for path in folders(list(revision.files))
        ]

    def _expanded(self, entry: dict[str, Any], revision: Revision) -> dict[str, Any]:
        return {**entry, "lastCommit": {"id": revision.commit, "title": "Upload", "date": DAY}}

    def _tree(self, asked: Asked, name: str, revision: Revision, under: str) -> Reply:
        entries = self._folder_entries(revision) + self._entries(name, revision)
        if under and under not in folders(list(revision.files)):
            raise _RefusedError(entry_missing(revision, under))
        query = asked.query
        expand, deep = (
            query.get(it, "").lower() in ("true", "1") for it in ("expand", "recursive")
        )
        inside = [it for it in entries if it["path"].startswith(f"{under}/" if under else "")]
        listed = [it for it in inside if deep or posixpath.dirname(it["path"]) == under]
        if expand:
            listed = [self._expanded(it, revision) for it in listed]
        size = self.page or (50 if expand else 1000)
        start = int(query.get("cursor", 0))
        headers = {"X-Repo-Commit": revision.commit}
        if start + size < len(listed):
            asked_for = "&".join(
                f"{key}={value}" for key, value in query.items() if key != "cursor"
            )
            path = urlsplit(asked.target).path
            headers["Link"] = f'<{self.url}{path}?{asked_for}&cursor={start + size}>; rel="next"'
        return as_json(listed[start : start + size], headers=headers)

    def _paths_info(self, asked: Asked, name: str, revision: Revision) -> Reply:
        if "json" in asked.headers.get("content-type", ""):
            told = json.loads(asked.body)
            wanted, expand = told["paths"], bool(told.get("expand"))
        else:
            form = parse_qs(asked.body.decode())
            wanted, expand = (
                form.get("paths", []),
                form.get("expand", [""])[0].lower() in ("true", "1"),
            )
        entries = self._entries(name, revision, expand=expand) + self._folder_entries(revision)
        by_path = {entry["path"]: entry for entry in entries}
        return as_json([by_path[path] for path in wanted if path in by_path])

    def _refs(self, name: str) -> dict[str, Any]:
        branches = [
            {"name": it.name, "ref": f"refs/heads/{it.name}", "targetCommit": it.commit}
            for it in self._repos[name][1].values()
        ]
        return {"branches": branches, "converts": [], "tags": [], "pullRequests": []}

    def _resolve(
        self, asked: Asked, name: str, revision: Revision, path: str, number: int
    ) -> Reply:
        blob = revision.files.get(path)
        if blob is None:
            raise _RefusedError(entry_missing(revision, path))
        told = {"X-Repo-Commit": revision.commit, "X-Linked-Size": str(blob.size)}
        if self.is_large(name, path):
            told["X-Linked-Etag"] = f'"{blob.sha256}"'
            return redirect(302, self.signed(name, path, blob, number), told)
        told["X-Linked-Etag"] = f'"{blob.git_sha1}"'
        cached = f"/api/resolve-cache/datasets/{quote(name)}/{revision.commit}/{quote(path)}"
        return redirect(307, f"{cached}?etag={quote(told['X-Linked-Etag'])}", told)

    def _file(self, asked: Asked, name: str, revision: Revision, path: str) -> Reply:
        if path not in revision.files:
            raise _RefusedError(entry_missing(revision, path))
        blob = revision.files[path]
        told = {"X-Repo-Commit": revision.commit, "ETag": f'"{blob.git_sha1}"'}
        return file_reply(asked, blob, told)


DAY = "2024-01-01T00:00:00.000Z"


def refusal(
    status: int, message: str, code: str = "", headers: Mapping[str, str] | None = None
) -> Reply:
    """As the hub refuses: its reason in headers, and in a body that a HEAD does not have."""
    told = {
        "X-Error-Message": message,
        **({"X-Error-Code": code} if code else {}),
        **(headers or {}),
    }
    if status == 401:
        told["WWW-Authenticate"] = 'Bearer realm="Authentication required", charset="UTF-8"'
    return as_json({"error": message}, status, told)


def entry_missing(revision: Revision, path: str) -> Reply:
    return refusal(
        404, f"Entry not found: {path}", "EntryNotFound", {"X-Repo-Commit": revision.commit}
    )


class ModelScopeServer(_Repositories):
    """What is needed of modelscope.cn to list a dataset's files at a revision and to fetch one.

    Shapes and where they were seen:

    - addresses, `Recursive=True|False`, `Root`, pages by `PageNumber` and `PageSize` that end with one not full, and
      `{"Data": {"Files": [...]}}`: `list_dataset_files_paginated`, `get_download_url` and `download_stream` in
      modelscope/modelscope_hub, src/modelscope_hub/_legacy_api.py at 26921de3; by `Id` from /datasets/{owner}/{name},
      and `Code`, `Message`, `RequestId`, `Success` around it: `get_dataset_id_and_type`, `get_dataset_files` and
      `get_dataset_file_url` (with Source=SDK and View) in modelscope/modelscope, modelscope/hub/api.py before 50f8d37b,
      and `datahub_raise_on_error` in errors.py there
    - fields of a file (`Name`, `Path`, `Revision`, `Sha256`, `Size`, `IsLFS`, `Type` blob or tree, ...): a reply for a
      model quoted in public tests; `CommitId` and Type tree of a folder in a dataset: the docstring of
      `get_dataset_files`; `Sha256` is what `DownloadManager` checks (modelscope_hub, _download.py)
    - 302 to an object store for what is large: `_probe_redirect_url` there; resuming by Range, 206: `download_file`
    - the token as `Authorization: Bearer` and as the cookie m_session_id: `_ensure_session_auth`
    - 404 for what is gone, 403 for what is private: `handle_http_response` in errors.py; Code 10010205001 and its
      message "record not found": an error quoted in kyegomez/swarms issue 361
    - 200 without files at a revision that is not there: neutree-ai/neutree pull request 555, of models
    """

    branch = "master"

    def __init__(
        self,
        repos: Mapping[str, Repo],
        *,
        strict_revisions: bool = False,
        signed_for: int | None = None,
        faults: Faults | Sequence[Faults] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`strict_revisions`: the listing at a revision that is not there is 404 instead of 200 without files."""
        super().__init__(repos, signed_for=signed_for, faults=faults, tls=tls)
        self.strict_revisions = strict_revisions

    def answer(self, asked: Asked, number: int) -> Reply:
        if asked.port == "store":
            return self.stored(asked)
        match asked.steps:
            case ["api", "v1", "datasets", *rest]:
                name, rest = self._name(rest)
                return self._refusal(asked, name) or self._routed(asked, name, rest, number)
        return self.missing(asked)

    def missing(self, asked: Asked) -> Reply:
        return (
            super().missing(asked)
            if asked.port == "store"
            else enveloped(404, 10010205001, "record not found")
        )

    def limited(self, asked: Asked, retry_after: str) -> Reply:
        if asked.port == "store":
            return super().limited(asked, retry_after)
        return replace(
            enveloped(429, 429, "too many requests"),
            headers={"Content-Type": "application/json", "Retry-After": retry_after},
        )

    def identity(self, name: str) -> int:
        """The dataset's `Id`."""
        return int(hashlib.sha1(name.encode()).hexdigest()[:6], 16)

    def _name(self, steps: list[str]) -> tuple[str, list[str]]:
        if steps[0].isdigit():
            return next(
                (it for it in self._repos if self.identity(it) == int(steps[0])), steps[0]
            ), steps[1:]
        return "/".join(steps[:2]), steps[2:]

    def _refusal(self, asked: Asked, name: str) -> Reply | None:
        repo = self[name] if name in self._repos else Repo({}, state="gone")
        if repo.moved_to:
            return redirect(
                307, asked.target.replace(f"/{quote(name)}", f"/{quote(repo.moved_to)}", 1)
            )
        if name in self._repos and self.spent(name):
            return self.limited(asked, str(repo.retry_after))
        if repo.state in ("gone", "disabled"):
            return self.missing(asked)
        cookie = re.search(r"m_session_id=([^;]+)", asked.headers.get("cookie", ""))
        if repo.state in ("private", "gated") and not {
            asked.token,
            cookie[1] if cookie else "",
        } & set(repo.tokens):
            return enveloped(403, 10010205003, "no permission")
        return None

    def _routed(self, asked: Asked, name: str, rest: list[str], number: int) -> Reply:
        revision = self.at(name, asked.query.get("Revision", self.branch))
        match rest:
            case []:
                owner, short = name.split("/")
                told = {"Id": self.identity(name), "Type": 4, "Name": short, "Namespace": owner}
                return enveloped(200, 200, "success", told)
            case ["repo", "tree"]:
                if revision is None and self.strict_revisions:
                    return enveloped(404, 10010205001, "record not found")
                return enveloped(200, 200, "success", self._listing(asked, name, revision))
            case ["repo"]:
                path = asked.query.get("FilePath", "")
                if revision is None or path not in revision.files:
                    return enveloped(404, 10010205001, "record not found")
                blob = revision.files[path]
                if self.is_large(name, path):
                    return redirect(302, self.signed(name, path, blob, number))
                return file_reply(asked, blob, {"ETag": f'"{blob.git_sha1}"'})
        return self.missing(asked)

    def _listing(self, asked: Asked, name: str, revision: Revision | None) -> dict[str, Any]:
        if revision is None:
            return {"Files": None, "TotalCount": 0}
        query = asked.query
        root, deep = query.get("Root", "").strip("/"), query.get("Recursive", "False") == "True"
        entries = [
            self._entry(path, None, revision, large=False) for path in folders(list(revision.files))
        ]
        for path, blob in revision.files.items():
            entries.append(self._entry(path, blob, revision, large=self.is_large(name, path)))
        inside = [it for it in entries if it["Path"].startswith(f"{root}/" if root else "")]
        listed = [it for it in inside if deep or posixpath.dirname(it["Path"]) == root]
        size, page = int(query.get("PageSize", 100)), int(query.get("PageNumber", 1))
        return {"Files": listed[size * (page - 1) : size * page], "TotalCount": len(listed)}

    def _entry(
        self, path: str, blob: Blob | None, revision: Revision, *, large: bool
    ) -> dict[str, Any]:
        return {
            "CommitId": revision.commit,
            "CommitMessage": "upload",
            "CommittedDate": DATED,
            "CommitterName": "owner",
            "InCheck": False,
            "IsLFS": large,
            "Mode": "33188" if blob else "16384",
            "Name": posixpath.basename(path),
            "Path": path,
            "Revision": revision.commit,
            "Sha256": blob.sha256 if blob else "",
            "Size": blob.size if blob else 0,
            "Type": "blob" if blob else "tree",
        }


def enveloped(status: int, code: int, message: str, told: Any = None) -> Reply:
    envelope = {
        "Code": code,
        "Message": message,
        "RequestId": "147fe511",
        "Success": status == 200,
        "Data": told,
    }
    return as_json(envelope, status)
