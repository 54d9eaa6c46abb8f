"""A server on loopback whose replies never end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n"


@contextmanager
def endless(
    beginning: bytes = HEAD, piece: bytes = bytes(1 << 16), pause: float = 0
) -> Iterator[str]:
    """The address of a server that sends a beginning, then one piece again and again, with a pause after each."""

    def answer(connected: socket.socket) -> None:
        with suppress(OSError), connected:
            connected.recv(1 << 16)
            connected.sendall(beginning)
            while True:
                connected.sendall(piece)
                time.sleep(pause)

    def serve() -> None:
        with suppress(OSError):
            while True:
                connected, _ = server.accept()
                threading.Thread(target=answer, args=(connected,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
