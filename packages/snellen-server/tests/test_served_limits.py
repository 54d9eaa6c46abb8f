"""What a server bears from outside: slow clients, endless headers, a database or a disk that fails, curious users."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi", reason="waits for fastapi")

import uvicorn

from hosting import hosted
from http_browser import PASSWORD
from postgres import IS_THERE, running_cluster
from served import served
from snellen.viewing import patience
from snellen.viewing.patience import http_protocol
from snellen.viewing.serving import open_listener
from snellen_server.hosting.about import folder_fault

SILENT = {
    "nothing": b"",
    "part of a head": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ",
    "part of a body": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nname=a",
    "blank lines after a request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n\r\n",
}
ENDLESS = {
    "headers": (b"GET / HTTP/1.1\r\n", b"x-a: " + b"b" * 1000 + b"\r\n"),
    "one header": (b"GET / HTTP/1.1\r\nx-a: ", b"b" * 1000),
    "an address": (b"GET /", b"b" * 1000),
    "trailers": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
        b"x-a: " + b"b" * 1000 + b"\r\n",
    ),
}


async def hello(scope: dict, receive: object, send: object) -> None:  # type: ignore[type-arg]
    """An application that reads no body."""
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b"hi"})  # type: ignore[operator]


@contextmanager
def patient() -> Iterator[int]:
    """The port of a small application behind the protocol of the pages and the server."""
    listener = open_listener(0)
    config = uvicorn.Config(hello, http=http_protocol(), ws="none", lifespan="off", log_config=None)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)


def read_to_end(connection: socket.socket) -> bytes:
    """All that comes until the server hangs up."""
    content = b""
    connection.settimeout(60)
    try:
        while part := connection.recv(1 << 16):
            content += part
    except ConnectionError:
        pass
    return content


@pytest.mark.parametrize("sent", SILENT.values(), ids=SILENT)
def test_a_client_that_sends_no_whole_request_is_not_waited_for(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(patience, "BODY_SECONDS", 0.3)
    with patient() as port, socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent)
        content = read_to_end(connection)
    has_reply = b"200 OK" in content
    assert has_reply == (b"\r\n\r\n" in sent)
    assert has_reply or b"408 Request Timeout" in content


def test_a_client_that_sends_a_little_again_and_again_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "HEAD_SECONDS", 0.5)
    with patient() as port, socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        with pytest.raises(ConnectionError):
            while True:
                connection.sendall(b"a: b\r\n")
                time.sleep(0.05)


@pytest.mark.parametrize("parts", ENDLESS.values(), ids=ENDLESS)
def test_headers_without_end_are_not_collected(parts: tuple[bytes, bytes]) -> None:
    begin, part = parts
    sent = 0
    with patient() as port, socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(begin)
        with pytest.raises(ConnectionError):
            while sent < 100_000_000:
                connection.sendall(part * 64)
                sent += len(part) * 64


def test_one_address_holds_a_limited_number_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "MAX_CONNECTIONS_PER_ADDRESS", 5)
    with patient() as port, ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(5)
        ]
        refused = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert read_to_end(refused) == b""
        held[0].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert read_to_end(held[0]).endswith(b"hi")
        time.sleep(0.1)
        again = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        again.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert read_to_end(again).endswith(b"hi")


def test_a_large_body_in_small_parts_and_many_requests_on_one_connection_are_read() -> None:
    with patient() as port, httpx.Client(trust_env=False, timeout=30) as client:
        for _ in range(20):
            parts = (b"a" * 1000 for _ in range(1000))
            assert client.post(f"http://127.0.0.1:{port}/", content=parts).text == "hi"


# --- a database or a disk that fails -----------------------------------------------------------------------------


@pytest.mark.skipif(not IS_THERE, reason="waits for PostgreSQL")
def test_without_its_database_a_server_answers_503_and_goes_on_once_it_is_back(
    tmp_path: Path,
) -> None:
    with running_cluster() as database, hosted(tmp_path, database=database.url) as server:
        anna = server.signed_in("Anna")
        assert anna.get("/account").status_code == 200
        database.stop()
        for address in ("/account", "/api/v1/me", "/arena"):
            assert anna.get(address).status_code == 503, address
        assert anna.get("/account").headers["retry-after"] == "5"
        assert "the database does not answer" in anna.get("/account").text
        stranger = server.visitor()
        assert "does not answer" in stranger.get("/readyz").json()["missing"]["database"]
        assert stranger.get("/healthz").status_code == 200
        database.start()
        assert anna.get("/account").status_code == 200
        assert anna.get("/readyz").status_code == 200


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(mounting, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_server_on_a_full_disk_is_not_ready(full_disk: Path) -> None:
    with hosted(full_disk / "lab") as server:
        missing = server.visitor().get("/readyz").json()["missing"]
        assert "the disk of its folder is full" in missing["folder"]
        assert str(full_disk) not in str(missing)
        with pytest.raises(OSError, match="No space"), (full_disk / "filler").open("wb") as file:
            while True:
                file.write(bytes(1 << 16))
        assert "cannot be written" in server.visitor().get("/readyz").json()["missing"]["folder"]
        (full_disk / "filler").unlink()


def test_a_folder_that_is_gone_or_has_little_room_is_a_fault(tmp_path: Path) -> None:
    assert folder_fault(tmp_path) is None
    assert "is full" in (folder_fault(tmp_path, least_free=1 << 60) or "")
    assert "cannot be written" in (folder_fault(tmp_path / "gone") or "")


# --- who reads and who changes what ------------------------------------------------------------------------------


def test_nobody_else_reads_the_files_of_a_server_in_a_folder_that_was_there(tmp_path: Path) -> None:
    folder, log = tmp_path / "lab", tmp_path / "log"
    folder.mkdir(mode=0o755)
    log.mkdir()
    earlier = folder / "snellen.sqlite"
    earlier.touch(mode=0o644)
    earlier.chmod(0o644)
    with served("serve", folder, folder=log) as server:
        while server.visitor().get("/readyz").status_code != 200:
            time.sleep(0.1)
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert {path.name for path in files} >= {"snellen.sqlite", "snellen.sqlite-wal", "key"}
        readable = [path.name for path in files if path.stat().st_mode & 0o077]
        assert not readable


def test_people_change_their_own_password(tmp_path: Path) -> None:
    other = "another horse battery"
    with hosted(tmp_path) as server:
        anna, elsewhere = server.signed_in("Anna"), server.signed_in("Anna")

        wrong = anna.post("/account/password", {"password": "wrong", "new_password": other})
        assert wrong.status_code == 403 and "nothing was changed" in wrong.text
        short = anna.post("/account/password", {"password": PASSWORD, "new_password": "short"})
        assert short.status_code == 403 and "at least 10 characters" in short.text
        assert server.visitor().sign_in("Anna", other).status_code == 403

        done = anna.post("/account/password", {"password": PASSWORD, "new_password": other})
        assert done.status_code == 200 and "Your password was changed." in done.text
        assert anna.get("/account").status_code == 200
        assert elsewhere.get("/account").status_code == 303, "other sessions have ended"
        assert server.visitor().sign_in("Anna", PASSWORD).status_code == 403
        assert server.visitor().sign_in("Anna", other).status_code == 303
        stranger = server.visitor()
        given = {"password": other, "new_password": PASSWORD}
        assert stranger.post("/account/password", given).status_code != 200
        assert server.visitor().sign_in("Anna", other).status_code == 303
