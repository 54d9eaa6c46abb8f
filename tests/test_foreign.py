"""The door for bytes from elsewhere: regular files, so many bytes, so many seconds, and no secrets."""

from __future__ import annotations

import json
import logging
import os
import pickle
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from urllib.request import Request

import msgspec
import pytest

from endless_server import HEAD, endless
from snellen.common.addresses import open_address
from snellen.common.foreign import (
    LIMITS,
    Allowance,
    LimitError,
    NotAFileError,
    Secret,
    decode_text,
    effective_limit,
    lines_of,
    open_file,
    read_file,
    read_text,
    without_secrets,
)

Made = Callable[[Path], None]


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(path))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (a_pipe, "a pipe"),
        (a_link_to_a_pipe, "a pipe"),
        (a_device, "a device"),
        (a_socket, "a socket"),
        (Path.mkdir, "a folder"),
    ],
)
def test_only_regular_files_are_opened(make: Made, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    make(path)
    with pytest.raises(NotAFileError, match=f"it is {kind}, not a file"):
        open_file(path)


def test_no_descriptor_stays_open_when_a_file_is_refused(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with suppress(NotAFileError):
            open_file(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_of_more_bytes_is_refused_and_the_limit_can_be_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1500)
    assert len(read_file(path, 1500)) == 1500
    with pytest.raises(LimitError, match=r"it has more than 1 KB; .* SNELLEN_LIMITS=10"):
        read_file(path, 1000)
    monkeypatch.setenv(LIMITS, "1.5")
    assert len(read_file(path, 1000)) == 1500


@pytest.mark.parametrize("factor", ["0", "-3", "nan", "inf", "much", ""])
def test_a_factor_that_is_none_changes_no_limit(
    factor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIMITS, factor)
    assert effective_limit(1000) == 1000


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_is_no_part_of_a_text(encoding: str, tmp_path: Path) -> None:
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    path = tmp_path / "exam.toml"
    path.write_bytes((mark + 'name = "é"').encode(encoding))
    assert read_text(path) == decode_text(path.read_bytes()) == 'name = "é"'


def test_lines_have_a_longest_length(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nbb\nccc")
    with open_file(path) as file:
        assert list(lines_of(file, 3)) == [b"a\n", b"bb\n", b"ccc"]
    with open_file(path) as file, pytest.raises(LimitError, match="a line of it has more than 2 B"):
        list(lines_of(file, 2))


# --- addresses --------------------------------------------------------------------------------------------------------


def test_an_endless_reply_ends_with_the_allowance() -> None:
    with endless() as address, pytest.raises(LimitError, match=r"the image has more than 1.0 MB"):
        open_address(Request(address), Allowance(1e6, 30, "the image")).read()


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [(HEAD, b"x"), (b"HTTP/1.1 200 OK\r\n", b"X-More: yes\r\n"), (b"HTTP/1.1 2", b"0")],
    ids=["body", "headers", "status"],
)
def test_a_dripping_reply_ends_with_the_allowance(beginning: bytes, piece: bytes) -> None:
    with (
        endless(beginning, piece, 0.1) as address,
        pytest.raises(LimitError, match="the image took more than 1 seconds"),
    ):
        open_address(Request(address), Allowance(1e6, 1, "the image")).read()


def test_what_several_spend_is_spent_of_the_whole() -> None:
    build = Allowance(1000, 60, "the images of this build")
    Allowance(800, 60, "a", build).spend(700)
    with pytest.raises(LimitError, match="the images of this build has more than 1 KB"):
        Allowance(800, 60, "b", build).spend(700)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://127.0.0.1/a", "data:,a"])
def test_other_schemes_are_not_opened(address: str) -> None:
    with pytest.raises(OSError, match="unknown url type"):
        open_address(Request(address), Allowance(1e6, 5, "it"))


# --- secrets ----------------------------------------------------------------------------------------------------------

VALUE = 'sk-äö/planted "key" 4711'


def test_no_sink_prints_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(VALUE)
    assert secret.reveal() == VALUE
    assert f"{secret}{secret!r}{secret:>9}" == "***Secret(***)      ***"
    assert msgspec.json.encode({"key": secret}, enc_hook=str) == b'{"key":"***"}'
    assert pickle.loads(pickle.dumps(secret)).reveal() == "***"
    with caplog.at_level(logging.INFO):
        logging.getLogger("snellen").info("with %s and %r", secret, [secret])
    assert VALUE not in caplog.text
    for encode in (json.dumps, msgspec.json.encode):
        with pytest.raises(TypeError) as failed:
            encode({"key": secret})
        shown = "".join(
            traceback.TracebackException.from_exception(failed.value, capture_locals=True).format()
        )
        assert "4711" not in shown.replace("VALUE", "")


def test_texts_are_shown_without_the_secrets_that_are_known() -> None:
    Secret(VALUE)
    Secret("EMPTY")  # too short for a secret
    quoted = "https://host/sk-%C3%A4%C3%B6%2Fplanted%20%22key%22%204711/v1"
    in_json = json.dumps({"key": VALUE})
    shown = without_secrets(f"{VALUE} {quoted} {in_json} EMPTY")
    assert shown == '*** https://host/***/v1 {"key": "***"} EMPTY'


def test_the_door_loads_nothing_heavy() -> None:
    code = "import sys, snellen.common.foreign; print([m for m in ('http.client', 'ssl', 'gzip', 'PIL', 'msgspec') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
