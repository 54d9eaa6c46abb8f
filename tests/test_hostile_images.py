"""Images that unpack to more pixels than are allowed: one of them, or all of a build together."""

from __future__ import annotations

import base64
import io
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import small
from snellen.api import build
from snellen.common import decoding
from snellen.common.decoding import MAX_PIXELS, inspect_image
from snellen.common.drafts import ImageSpec
from snellen.common.drawing import image_content
from snellen.errors import BuildLimitError, DataError
from snellen.formats.rows import read_rows

SIDE = 10_001
"""Of an image with slightly more than MAX_PIXELS."""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)


def saved(form: str, **settings: str) -> bytes:
    file = io.BytesIO()
    Image.new("1", (SIDE, SIDE)).save(file, form, **settings)
    return file.getvalue()


def png() -> bytes:
    return saved("PNG")


def tiff() -> bytes:
    return saved("TIFF", compression="group4")


def webp() -> bytes:
    """A lossless WebP whose header says another size: 14 bits for either side, less one."""
    content = bytearray(small.picture(1, "WEBP"))
    if content[12:16] != b"VP8 ":
        raise AssertionError("Pillow writes lossy WebP by default")
    content[26:30] = struct.pack("<HH", SIDE, SIDE)
    return bytes(content)


def gif() -> bytes:
    content = bytearray(small.picture(1, "GIF"))
    content[6:10] = struct.pack("<HH", SIDE, SIDE)
    return bytes(content)


def jpeg() -> bytes:
    content = small.picture(1, "JPEG")
    frame = content.index(b"\xff\xc0")
    return content[: frame + 5] + struct.pack(">HH", SIDE, SIDE) + content[frame + 9 :]


def bmp() -> bytes:
    content = bytearray(small.picture(1, "BMP"))
    content[18:26] = struct.pack("<ii", SIDE, SIDE)
    return bytes(content)


FORMS = pytest.mark.parametrize("bomb", [png, tiff, webp, gif, jpeg, bmp])
TWO = {"question": "Which?", "A": "cat", "B": "dog", "answer": "A"}
REFUSED = f"t.jsonl:2: the image has {SIDE} x {SIDE} pixels, above the limit of {MAX_PIXELS}"


@FORMS
@pytest.mark.parametrize("beginning", ["", "data:image/png;base64,"])
def test_a_bomb_in_a_cell_is_refused_with_its_row(
    bomb: Callable[[], bytes], beginning: str
) -> None:
    if bomb is bmp and not beginning:
        pytest.skip("the base64 of BMP begins like a word")
    content = bomb()
    assert len(content) < 500_000
    cell = beginning + base64.b64encode(content).decode()
    table = small.write([{**TWO, "image": small.cell(1)}, {**TWO, "image": cell}], Path("t.jsonl"))
    with pytest.raises(DataError, match=REFUSED):
        build(str(table), to="made")


@FORMS
def test_a_bomb_in_a_file_is_refused_with_its_row(bomb: Callable[[], bytes]) -> None:
    Path("small.png").write_bytes(small.picture(1))
    Path("large").write_bytes(bomb())
    rows = [{**TWO, "image_path": name} for name in ("small.png", "large")]
    with pytest.raises(DataError, match=REFUSED):
        build(str(small.write(rows, Path("t.jsonl"))), to="made")


def test_a_raised_limit_holds_for_pillow_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow refuses from 179 million pixels on, whatever limit is set here."""
    side = 14_000
    file = io.BytesIO()
    Image.new("1", (side, side)).save(file, "PNG")
    with pytest.raises(DataError, match="decompression bomb"):
        inspect_image(file.getvalue(), "here")
    monkeypatch.setenv("SNELLEN_LIMITS", "2")
    assert inspect_image(file.getvalue(), "here").width == side


def test_all_images_of_a_build_together_have_a_limit_that_can_be_raised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Six images of 8 x 6 pixels.
    table = small.write(small.rows(12, pictures=6), Path("t.jsonl"))
    monkeypatch.setattr(decoding, "BUILD_PIXELS", 6 * 48 - 1)
    monkeypatch.setenv("SNELLEN_LIMITS", "1")
    fault = (
        "t.jsonl:6: the images of this build have more than 287 pixels; if you trust the file, set "
        "SNELLEN_LIMITS=10 to raise all limits tenfold"
    )
    for lenient in ((), ("--lenient",)):
        code, _, errors = small.command(capsys, "build", str(table), "--to", "made", *lenient)
        assert code == 2
        assert errors.splitlines()[-1] == f"snellen: {fault}"
        assert not Path("made").exists()
    raised = ("--raise-limits", "10")
    code, _, _ = small.command(capsys, "build", str(table), "--to", "made", *raised)
    assert code == 0
    assert len(list(Path("made/images").glob("*/*"))) == 6


def test_an_image_of_which_many_parts_are_shown_counts_as_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each crop decodes all of its image, however few pixels it keeps."""
    content = small.picture(1, "PNG", (100, 100))
    with decoding.limited_pixels():
        for left in range(3):
            part = ImageSpec(content, crop=(left, 0, 1, 1))
            image_content(part, "here")
    monkeypatch.setattr(decoding, "BUILD_PIXELS", 25_000)
    with pytest.raises(BuildLimitError, match="more than 25,000 pixels"), decoding.limited_pixels():
        for left in range(3):
            part = ImageSpec(content, crop=(left, 0, 1, 1))
            image_content(part, "here")


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
@pytest.mark.parametrize("target", ["pipe", "/dev/zero"])
def test_a_table_that_a_library_opens_is_a_file(name: str, target: str) -> None:
    os.mkfifo("pipe")
    Path(name).symlink_to(target)
    with pytest.raises(DataError, match=rf"{name}: .*it is a (pipe|device), not a file"):
        list(read_rows(Path(name)))


HALF = "a text contains '\\\\ud83d', an unpaired surrogate; replace it with the complete character"


@pytest.mark.parametrize("field", ["question", "B", "answer", "id"])
def test_half_of_a_surrogate_pair_in_a_question_is_one_line_with_its_row(field: str) -> None:
    rows = [{**TWO, "id": "1"}, {**TWO, "id": "2", field: "dog \ud83d"}]
    small.write(rows, Path("t.jsonl"))
    Path("t.json").write_text(json.dumps(rows))
    for name, where in (("t.jsonl", "t.jsonl:2"), ("t.json", "t.json: record 2")):
        with pytest.raises(DataError, match=f"{where}: {HALF}"):
            build(name, to="made", no_images=True)


@pytest.mark.parametrize("form", ["lines", "list", "lmms-eval"])
def test_half_of_a_surrogate_pair_in_a_reply_is_read_as_that_of_a_served_model(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**TWO, "id": "1"}, {**TWO, "id": "2"}]
    build(str(small.write(rows, Path("t.jsonl"))), to="made", no_images=True)
    replies = [{"id": "1", "prediction": "B"}, {"id": "2", "prediction": "A \ud83d"}]
    path, words, place = Path("p.jsonl"), ("--benchmark", "./made"), "p.jsonl:2"
    if form == "lines":
        small.write(replies, path)
    elif form == "list":
        path, place = Path("p.json"), "p.json: record 2"
        path.write_text(json.dumps(replies))
    else:
        words, place = (), "p.jsonl:2"
        samples = [
            {
                "doc_id": number,
                "doc": {**TWO, "question": f"Which {number}?"},
                "target": "A",
                "resps": [[reply["prediction"]]],
                "filtered_resps": [reply["prediction"]],
            }
            for number, reply in enumerate(replies)
        ]
        small.write(samples, path)
    code, shown, errors = small.command(capsys, "score", str(path), *words, "--to", "run")
    assert code == 0, errors
    assert "read as U+FFFD: 1 (" in errors + shown and place in errors + shown
    if form != "lmms-eval":
        assert "50.0%" in shown
