"""Images are checked on the way in, kept once, and come back as the bytes they were."""

from __future__ import annotations

import hashlib
import io
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import small
from snellen.common.decoding import inspect_image
from snellen.common.images import ImageStore
from snellen.errors import DataError
from snellen.records import ImageRef

FORMS = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "GIF": "image/gif",
    "BMP": "image/bmp",
    "WEBP": "image/webp",
}


def png_claiming(width: int, height: int) -> bytes:
    """A few bytes that say they are an image of that size."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + name
            + content
            + struct.pack(">I", zlib.crc32(name + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes(64))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(("form", "media_type"), [*FORMS.items(), ("TIFF", "image/tiff")])
def test_an_image_is_known_by_its_digest_type_and_size(form: str, media_type: str) -> None:
    content = small.picture(1, form, (9, 5))
    assert inspect_image(content, "here") == ImageRef(
        hashlib.sha256(content).hexdigest(), media_type, 9, 5
    )


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "empty"),
        (b"hello, I am a text", "not a readable image"),
        (small.picture(1)[:50], "not a readable image"),
        (small.picture(1, "JPEG")[:-40], "not a readable image"),
        (small.picture(1, "PPM"), "PPM is not supported; convert it to PNG or JPEG"),
        (png_claiming(30_000, 30_000), "decompression bomb"),
        (png_claiming(12_000, 12_000), "12000 x 12000 pixels, above the limit of 100000000"),
    ],
)
def test_what_is_no_usable_image_is_refused_with_its_place(content: bytes, fault: str) -> None:
    with pytest.raises(DataError, match=fault) as caught:
        inspect_image(content, "table.tsv:7")
    assert str(caught.value).startswith("table.tsv:7: ")
    assert "\n" not in str(caught.value)


def test_the_limit_of_pixels_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_MAX_PIXELS", "40")
    with pytest.raises(DataError, match="8 x 6 pixels, above the limit of 40"):
        inspect_image(small.picture(), "here")
    monkeypatch.setenv("SNELLEN_MAX_PIXELS", "48")
    assert inspect_image(small.picture(), "here").width == 8
    monkeypatch.setenv("SNELLEN_MAX_PIXELS", "many")
    with pytest.raises(DataError, match="SNELLEN_MAX_PIXELS='many' is not a number"):
        inspect_image(small.picture(), "here")


@settings(max_examples=300)
@given(st.sampled_from([*FORMS]), st.integers(0, 2**32), st.floats(0, 1))
def test_a_damaged_file_is_an_image_or_a_data_error_and_nothing_else(
    form: str, seed: int, kept: float
) -> None:
    rng = random.Random(seed)
    content = bytearray(small.picture(3, form))
    for _ in range(rng.randint(0, 4)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    try:
        inspect_image(bytes(content[: int(len(content) * kept) if seed % 2 else None]), "here")
    except DataError as error:
        assert str(error).startswith("here: ")


@settings(max_examples=150)
@given(
    st.booleans(), st.integers(0, 2), st.sampled_from(["RGB", "L", "CMYK"]), st.integers(0, 2**32)
)
def test_a_damaged_jpeg_is_refused_as_by_a_decoder_of_all_its_pixels(
    progressive: bool, subsampling: int, mode: str, seed: int
) -> None:
    rng = random.Random(seed)
    whole = io.BytesIO()
    noise = Image.frombytes("RGB", (90, 33), rng.randbytes(90 * 33 * 3)).convert(mode)
    noise.save(whole, "JPEG", progressive=progressive, subsampling=subsampling)
    content = bytearray(whole.getvalue())
    place = rng.randrange(len(content))
    match seed % 3:
        case 0:
            del content[place:]
        case 1:
            del content[place : place + rng.randrange(1, 400)]
        case _:
            content[place] ^= 1 << rng.randrange(8)
    assert _is_sound(inspect_image, bytes(content), "here") == _is_sound(_decode, bytes(content))


def _decode(content: bytes) -> None:
    with Image.open(io.BytesIO(content)) as picture:
        picture.load()


def _is_sound(check: Callable[..., object], *content: object) -> bool:
    try:
        check(*content)
    except (DataError, OSError, SyntaxError, ValueError):
        return False
    return True


def test_the_same_bytes_are_kept_once_and_come_back_unchanged(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    first, again, other = (store.put(small.picture(colour), "here") for colour in (1, 1, 2))
    assert first == again != other
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2
    assert store.read(first) == small.picture(1)
    store.path(first.digest).unlink()
    with pytest.raises(
        DataError, match=f"image {first.digest[:12]} is missing .*build the benchmark again"
    ):
        store.read(first)
