"""Files that an operator of a server supplies: regular, of a bounded size, with or without a byte order mark."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

from snellen.errors import DataError, SnellenError, StoreError
from snellen_server.arena.running import _images_of
from snellen_server.arena.settings import read_arena_file
from snellen_server.arena_ratings.rating import read_snapshot
from snellen_server.hosting.configuration import KEY_FILE, load_configuration
from snellen_server.hosting.contributions import PictureStore, clean_image
from snellen_server.hosting.credentials import open_key
from snellen_server.hosting.database import restore
from snellen_server.leaderboard.checking import READERS_BY_SUFFIX, UploadFindings, UploadLimits

Made = Callable[[Path], None]
Read = Callable[[Path], object]


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def load(path: Path) -> object:
    return load_configuration(path.parent, path)


def read_stored(path: Path) -> object:
    """Read an image of a server's store that was replaced by what lies at a path."""
    store = PictureStore(path.parent / "pictures", 1000)
    digest = "ab" * 32
    (store.root / "ab").mkdir(parents=True)
    (store.root / "ab" / digest).symlink_to(path)
    return store.read(digest)


def read_upload(path: Path) -> object:
    limits = UploadLimits(rows=10, unpacked_bytes=1000)
    return list(READERS_BY_SUFFIX[path.suffix](path, limits, UploadFindings()))


def first_image(path: Path) -> object:
    return _images_of(str(path.parent), 1)


def unpack(path: Path) -> object:
    return restore(path, path.parent / "restored")


@pytest.mark.parametrize("make", [a_pipe, a_link_to_a_pipe, a_device])
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("server.toml", load),
        ("arena.toml", read_arena_file),
        ("snapshot.json", read_snapshot),
        (KEY_FILE, open_key),
        ("photo.png", first_image),
        ("stored", read_stored),
        ("upload.jsonl", read_upload),
        ("upload.parquet", read_upload),
        ("backup.tar", unpack),
    ],
)
def test_what_is_no_regular_file_is_refused_at_once(
    make: Made, name: str, read: Read, tmp_path: Path
) -> None:
    make(tmp_path / name)
    with pytest.raises((SnellenError, OSError), match=r"it is a (pipe|device), not a file"):
        read(tmp_path / name)


def test_a_file_of_settings_is_not_read_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = tmp_path / "server.toml"
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    for read in (load, read_arena_file):
        with pytest.raises(DataError, match=r"it has more than 67\.1 MB; .*SNELLEN_LIMITS=10"):
            read(huge)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_before_settings_is_no_fault(encoding: str, tmp_path: Path) -> None:
    server, arena = tmp_path / "server.toml", tmp_path / "arena.toml"
    server.write_text('hosts = ["münchen.example"]\n', encoding)
    arena.write_text("least_votes = 3\n", encoding)
    assert load_configuration(tmp_path, server).hosts == ("münchen.example",)
    assert read_arena_file(arena) == {"least_votes": 3}


def test_settings_in_another_encoding_are_one_line(tmp_path: Path) -> None:
    server = tmp_path / "server.toml"
    server.write_text('hosts = ["münchen.example"]\n', "latin-1")
    with pytest.raises(DataError, match=r"server\.toml is not text in UTF-8; save it"):
        load_configuration(tmp_path, server)


def test_a_key_that_cannot_be_read_names_its_file(tmp_path: Path) -> None:
    a_device(tmp_path / KEY_FILE)
    with pytest.raises(StoreError, match=f"{KEY_FILE} cannot be read .*restore the original key"):
        open_key(tmp_path / KEY_FILE)


LINK = tarfile.TarInfo("pictures/ab/link")
LINK.type, LINK.linkname = tarfile.SYMTYPE, "../../key"
PIPE = tarfile.TarInfo("key")
PIPE.type = tarfile.FIFOTYPE


@pytest.mark.parametrize(
    "member",
    [LINK, PIPE, tarfile.TarInfo("../outside"), tarfile.TarInfo("pictures/../../outside/x")],
    ids=lambda member: member.name,
)
def test_a_backup_holds_files_that_back_up_writes_and_no_others(
    member: tarfile.TarInfo, tmp_path: Path
) -> None:
    archive = tmp_path / "backup.tar"
    with tarfile.open(archive, "w") as tar:
        tar.addfile(member, io.BytesIO())
    with pytest.raises(DataError, match=r"is not a backup of a server: it holds '.*', which"):
        restore(archive, tmp_path / "restored")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["backup.tar", "restored"]


def test_a_backup_that_was_packed_and_cut_is_one_line(tmp_path: Path) -> None:
    whole, cut = tmp_path / "backup.tar.gz", tmp_path / "cut.tar.gz"
    with tarfile.open(whole, "w:gz") as tar:
        key = tarfile.TarInfo(KEY_FILE)
        key.size = 100_000
        tar.addfile(key, io.BytesIO(os.urandom(key.size)))
    cut.write_bytes(whole.read_bytes()[:50_000])
    with pytest.raises(DataError, match=r"cut\.tar\.gz cannot be read as a backup"):
        restore(cut, tmp_path / "restored")


def test_a_picture_that_people_send_is_still_kept_and_shown(tmp_path: Path) -> None:
    """The witness of the refusals above: a real one passes the same doors."""
    sent = io.BytesIO()
    Image.new("RGB", (8, 6), "teal").save(sent, "PNG")
    (tmp_path / "photo.png").write_bytes(sent.getvalue())
    assert first_image(tmp_path / "photo.png") == [(sent.getvalue(), "")]
    store = PictureStore(tmp_path / "store", 1000)
    cleaned = clean_image(sent.getvalue(), 1000)
    store.put(cleaned)
    assert store.read(cleaned.digest) == cleaned.content
