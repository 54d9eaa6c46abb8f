"""HTTP/1.1 as servers speak it: replies of every framing, cut anywhere, proxies and TLS, and what is no reply."""

from __future__ import annotations

import asyncio
import base64
import gc
import itertools
import shutil
import socket
import ssl
import subprocess
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from snellen.models.byte_budget import ByteBudget
from snellen.models.connections import (
    Connections,
    HttpReply,
    HttpRequest,
    TooLongError,
    TransportError,
)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
POLICIES = {"asyncio": asyncio.DefaultEventLoopPolicy, "uvloop": uvloop.EventLoopPolicy}


@pytest.fixture(scope="module", params=POLICIES, autouse=True)
def event_loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test runs on both event loops: commands use asyncio's own, and the server uvloop."""
    earlier = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(POLICIES[request.param]())
    yield
    asyncio.set_event_loop_policy(earlier)


async def request_of(reader: asyncio.StreamReader) -> bytes:
    """The next request, its body included; nothing where the client has closed."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or b"0")
    return head + await reader.readexactly(size)


def replying(*parts: bytes, closing: bool = True) -> Serve:
    """Answers every request by these parts, each sent by itself."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await request_of(reader):
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            if closing:
                break
        writer.close()

    return serve


@asynccontextmanager
async def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that serves each connection so; its port. It ends when all of them have."""
    serving: set[asyncio.Task[None] | None] = set()

    async def to_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            await serve(reader, writer)
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    listener = await asyncio.start_server(to_the_end, "127.0.0.1", 0, ssl=tls, limit=1 << 23)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await asyncio.gather(*filter(None, serving))


def exchanged(
    serve: Serve,
    *bodies: bytes,
    tls: ssl.SSLContext | None = None,
    path: str = "/chat",
    most_bytes: int = 1 << 20,
) -> list[HttpReply]:
    """The replies to a request for each body, one after the other."""

    async def play() -> list[HttpReply]:
        async with listening(serve, tls) as port:
            connections = Connections(
                f"http{'s' * bool(tls)}://localhost:{port}/v1", {"x-key": "k"}, most_bytes
            )
            try:
                return [await send(connections, body, path) for body in bodies]
            finally:
                await connections.close()

    return asyncio.run(play())


async def send(connections: Connections, body: bytes, path: str = "/chat") -> HttpReply:
    async def compose() -> HttpRequest:
        return HttpRequest("POST", path, body, {"x-own": "1"})

    return await connections.send(compose)


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;note=x\r\nabc\r\n00A\r\n0123456789\r\n0\r\nx-t: 1\r\n\r\n"
REPLIES = {
    b"HTTP/1.1 200 OK\r\nContent-Length:  5 \r\nX-A: b\r\n\r\nhello": b"hello",
    b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n": b"",
    b"HTTP/1.1 204 No Content\r\n\r\n": b"",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi": b"hi",
    CHUNKED: b"abc0123456789",
    b"HTTP/1.1 200 OK\r\n\r\nup to the end": b"up to the end",
    b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi": b"hi",
}


@pytest.mark.parametrize("reply", REPLIES)
@given(cuts=st.lists(st.integers(0, 80), max_size=4))
def test_a_reply_is_read_however_it_is_framed_and_cut(reply: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(reply)) for cut in cuts), len(reply)]
    parts = [reply[start:end] for start, end in itertools.pairwise(places)]
    [came] = exchanged(replying(*parts), b"{}")
    assert came.body == REPLIES[reply]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"", "closed the connection before the end"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
            "closed the connection before the end",
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe",
            "closed the connection before the end",
        ),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfive\r\n", "not valid HTTP .*five"),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabcd\r\n",
            "not valid HTTP .*abcd",
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            "transfer encoding 'gzip, chunked'",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "not valid HTTP .*content-length: -1"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "not valid HTTP .*SSH-2.0-OpenSSH_9.6"),
        (b"HTTP/1.1 200 OK\r\nno header\r\n\r\n", "not valid HTTP .*no header"),
        (
            b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
            "not valid HTTP .*Too many headers",
        ),
    ],
)
def test_what_is_no_whole_reply_is_a_fault_that_says_why(reply: bytes, why: str) -> None:
    with pytest.raises(TransportError, match=why):
        exchanged(replying(reply), b"{}")


def test_no_more_is_read_of_a_reply_than_may_be() -> None:
    with pytest.raises(TooLongError):
        exchanged(replying(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 3000), b"{}", most_bytes=2048)


@pytest.mark.parametrize(
    ("base", "path", "headers"),
    [
        ("/v1", "/a b", {}),
        ("/v1", "/a\r\nx: y", {}),
        ("/v1", "/ä", {}),
        ("/v1", "/a", {"x": "y\r\nz: 1"}),
        ("/v 1", "/a", {}),
    ],
)
def test_nothing_is_sent_that_would_be_read_as_something_else(
    base: str, path: str, headers: dict[str, str]
) -> None:
    async def compose() -> HttpRequest:
        return HttpRequest("GET", path, headers=headers)

    async def play() -> None:
        async with listening(replying(OK)) as port:
            connections = Connections(f"http://127.0.0.1:{port}{base}", {})
            try:
                await connections.send(compose)
            finally:
                await connections.close()

    with pytest.raises(TransportError, match=r"HTTP does not allow|line break"):
        asyncio.run(play())


def test_a_request_arrives_as_it_was_meant_and_its_connection_is_used_again() -> None:
    seen: list[list[bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append([])
        while request := await request_of(reader):
            seen[-1].append(request)
            writer.write(OK)
        writer.close()

    large = bytes(range(256)) * 20_000
    exchanged(serve, b"{}", large)
    [[small, whole]] = seen
    head = small.split(b"\r\n")
    assert head[0] == b"POST /v1/chat HTTP/1.1"
    assert head[1].startswith(b"Host: localhost:")
    assert head[2:] == [b"x-key: k", b"x-own: 1", b"Content-Length: 2", b"", b"{}"]
    assert whole.endswith(large)


def test_a_host_whose_first_address_is_silent_is_reached_at_its_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    tcp = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")

    async def play() -> HttpReply:
        loop_type = type(asyncio.get_running_loop())
        getaddrinfo, sock_connect = loop_type.getaddrinfo, loop_type.sock_connect

        async def find(loop: Any, host: Any, port: Any, **kind: Any) -> Any:
            if host != "two.example":
                return await getaddrinfo(loop, host, port, **kind)
            return [(*tcp, ("127.0.0.2", port)), (*tcp, ("127.0.0.1", port))]

        async def connect(loop: Any, sock: socket.socket, address: tuple[str, int]) -> None:
            if address[0] == "127.0.0.2":  # as behind a firewall that drops packets
                await asyncio.Event().wait()
            await sock_connect(loop, sock, address)

        async with listening(replying(OK)) as port:
            monkeypatch.setattr(loop_type, "getaddrinfo", find)
            monkeypatch.setattr(loop_type, "sock_connect", connect)
            connections = Connections(f"http://two.example:{port}", {})
            try:
                return await send(connections, b"{}")
            finally:
                await connections.close()

    assert asyncio.run(play()).body == b"hi"


def test_a_connection_in_use_when_all_are_closed_is_not_kept() -> None:
    async def play() -> None:
        has_come, may_reply = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request_of(reader)
            has_come.set()
            await may_reply.wait()
            writer.write(OK)
            assert not await request_of(reader)

        async with listening(serve) as port:
            connections = Connections(f"http://127.0.0.1:{port}", {})
            asking = asyncio.create_task(send(connections, b"{}"))
            await has_come.wait()
            await connections.close()
            may_reply.set()
            assert (await asking).body == b"hi"

    asyncio.run(play())


def test_a_connection_that_was_closed_while_the_event_loop_was_busy_is_not_used_again() -> None:
    async def play() -> list[HttpReply]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            server = Thread(target=serve_two_connections, args=(listener,), daemon=True)
            server.start()
            connections = Connections(f"http://127.0.0.1:{port}", {})
            first = await send(connections, b"{}")
            time.sleep(0.2)  # the server closes the connection meanwhile
            second = await send(connections, b"{}")
            await connections.close()
            server.join()
        return [first, second]

    assert [reply.body for reply in asyncio.run(play())] == [b"hi", b"hi"]


def test_a_session_ends_with_its_event_loop(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Thread(target=serve_two_connections, args=(listener,), daemon=True)
        server.start()
        connections = Connections(f"http://127.0.0.1:{listener.getsockname()[1]}", {})
        replies = [asyncio.run(send(connections, b"{}")) for _ in range(2)]
        server.join()
    del connections
    gc.collect()
    assert [reply.body for reply in replies] == [b"hi", b"hi"]
    assert not caplog.messages  # aiohttp reports sessions that nobody closed


def serve_two_connections(listener: socket.socket) -> None:
    """Answer a request on each of two connections, and close it."""
    for _ in range(2):
        connection, _ = listener.accept()
        with connection:
            while not connection.recv(1 << 16).endswith(b"{}"):
                pass
            connection.sendall(OK)


def test_a_server_that_replies_before_it_has_read_all_is_heard() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        while await reader.read(1 << 16):
            pass
        writer.close()

    [came] = exchanged(serve, bytes(8 << 20))
    assert came.status == 413


def test_of_large_requests_few_are_in_hand_though_many_wait_for_replies() -> None:
    in_hand, held_before = ByteBudget(1 << 20), list[int]()

    async def play() -> None:
        all_have_come = asyncio.Barrier(6)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request_of(reader)
            await all_have_come.wait()
            writer.write(OK)

        async def compose() -> HttpRequest:
            held_before.append(in_hand.held)
            return HttpRequest("POST", "/", bytes(3 << 20))

        async with listening(serve) as port:
            connections = Connections(f"http://127.0.0.1:{port}", {}, budget=in_hand)
            replies = await asyncio.gather(*(connections.send(compose) for _ in range(6)))
            await connections.close()
        assert {reply.body for reply in replies} == {b"hi"}

    asyncio.run(play())
    assert (held_before, in_hand.held) == ([0] * 6, 0)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate of localhost by itself, in one file."""
    if not shutil.which("openssl"):
        pytest.skip("needs the command openssl")
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    words += [
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        str(path),
        "-out",
        str(path.with_suffix(".crt")),
    ]
    subprocess.run(words, check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_tls_is_spoken_with_a_server_whose_certificate_is_trusted(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = replying(OK, closing=False)
    with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED"):
        exchanged(serve, b"{}", tls=server_context(certificate))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    replies = exchanged(serve, b"{}", bytes(3 << 20), tls=server_context(certificate))
    assert [reply.body for reply in replies] == [b"hi", b"hi"]


def test_a_proxy_opens_a_way_to_a_server_that_speaks_tls(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setattr("snellen.models.proxies.is_loopback", lambda host: False)
    asked: list[bytes] = []

    async def play(status: bytes) -> HttpReply:
        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while part := await reader.read(1 << 16):
                    writer.write(part)
            finally:
                writer.close()

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 " + status + b"\r\n\r\n")
            if status.startswith(b"200"):
                onward, back = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(carry(reader, back), carry(onward, writer))

        async with (
            listening(replying(OK), server_context(certificate)) as port,
            listening(forward) as proxy,
        ):
            monkeypatch.setenv("https_proxy", f"http://user:word@127.0.0.1:{proxy}")
            connections = Connections(f"https://localhost:{port}/v1", {"authorization": "Bearer k"})
            try:
                return await send(connections, b"{}")
            finally:
                await connections.close()

    assert asyncio.run(play(b"200 Connection established")).body == b"hi"
    [head] = asked
    assert head.startswith(b"CONNECT localhost:")
    assert b"proxy-authorization: Basic " + base64.b64encode(b"user:word") in head.replace(
        b"Proxy-A", b"proxy-a"
    )
    assert b"Bearer" not in head
    with pytest.raises(TransportError, match=r"the proxy 127\.0\.0\.1:\d+ returned 403"):
        asyncio.run(play(b"403 Forbidden"))


def test_a_request_that_waits_for_its_reply_takes_no_memory() -> None:
    class Content(bytearray):
        """Bytes that can be watched: whether anybody still holds them."""

    held: list[weakref.ref[Content]] = []

    async def play() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request_of(reader)
            await asyncio.sleep(0)
            gc.collect()
            held_while_waiting.append(held[0]() is not None)
            writer.write(OK)

        async def compose() -> HttpRequest:
            content = Content(1 << 20)
            held.append(weakref.ref(content))
            return HttpRequest("POST", "/", content)

        async with listening(serve) as port:
            connections = Connections(f"http://127.0.0.1:{port}", {})
            await connections.send(compose)
            await connections.close()

    held_while_waiting: list[bool] = []
    asyncio.run(play())
    assert held_while_waiting == [False]
