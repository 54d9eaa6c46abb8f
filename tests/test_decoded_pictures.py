"""Images of every odd form are shown to a model as people see them, and stored as they came."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image

import small
from snellen.common.decoding import (
    FIRST_FRAME,
    ORIENTATION,
    _is_plain,
    _is_usual_jpeg,
    decode_image,
    inspect_image,
    to_plain_file,
)
from snellen.common.drafts import ImageSpec, Outline
from snellen.common.drawing import render_image
from snellen.errors import DataError
from snellen.models.chat import ImagePartCache

RED, WHITE, BLACK = (255, 0, 0), (255, 255, 255), (0, 0, 0)


def saved(picture: Image.Image, form: str = "PNG", **settings: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **settings)
    return file.getvalue()


def levels(values: list[float], kind: type, form: str = "PNG") -> tuple[list[int], tuple[str, ...]]:
    """The grey levels that a model is shown of one row of values, and the notes."""
    decoded = decode_image(saved(Image.fromarray(np.array([values], dtype=kind)), form), "here")
    shown = np.asarray(decoded.upright)
    assert (shown[..., 0] == shown[..., 1]).all()
    assert (shown[..., 0] == shown[..., 2]).all()
    return shown[0, :, 0].tolist(), decoded.notes


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_grey_of_sixteen_bits_keeps_its_levels(form: str) -> None:
    assert levels([0, 128, 129, 257 * 100, 32768, 65535], np.uint16, form) == (
        [0, 0, 1, 100, 128, 255],
        (),
    )


@pytest.mark.parametrize(
    ("values", "kind", "shown", "range_"),
    [
        ([0, 0.5, 0.25, 1], np.float32, [0, 128, 64, 255], "from 0 (black) to 1 (white)"),
        ([0.25, 0.25], np.float32, [64, 64], "from 0 (black) to 1 (white)"),
        ([0, 7, 100, 255], np.float32, [0, 7, 100, 255], "from 0 (black) to 255 (white)"),
        ([-10, 0, 10], np.float32, [0, 128, 255], "from -10 (black) to 10 (white)"),
        ([300, 300], np.float32, [0, 0], "from 300 (black) to 300 (white)"),
        ([0, 7, 255], np.int32, [0, 7, 255], "from 0 (black) to 255 (white)"),
        ([0, 50_000, 100_000], np.int32, [0, 128, 255], "from 0 (black) to 100000 (white)"),
    ],
)
def test_what_has_no_agreed_range_is_stretched_and_noted(
    values: list[float], kind: type, shown: list[int], range_: str
) -> None:
    assert levels(values, kind, "TIFF") == (
        shown,
        (f"an image of 32 bits per pixel is shown {range_}",),
    )


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_values_that_are_no_numbers_are_refused_in_one_line(odd: float) -> None:
    with pytest.raises(DataError, match=r"^here: the image contains values that are not numbers"):
        levels([0, odd, 1], np.float32, "TIFF")


def grid(orientation: int, form: str, **settings: Any) -> bytes:
    """An upright image, red above and blue below, 16 x 8, stored so that EXIF has to turn it."""
    upright = Image.new("RGB", (16, 8), RED)
    upright.paste((0, 0, 255), (0, 4, 16, 8))
    upright.paste((0, 255, 0), (0, 0, 8, 4))
    back = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}
    stored = upright if orientation == 1 else upright.transpose(Image.Transpose(back[orientation]))
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return saved(stored, form, exif=exif, **settings)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_as_exif_says(orientation: int, form: str) -> None:
    settings = {"JPEG": {"quality": 100, "subsampling": 0}, "WEBP": {"lossless": True}}.get(
        form, {}
    )
    content = grid(orientation, form, **settings)
    shown = decode_image(content, "here").upright
    assert shown.size == (16, 8)
    corners = [shown.getpixel(place) for place in ((2, 1), (13, 1), (2, 6))]
    assert np.abs(np.array(corners) - [(0, 255, 0), RED, (0, 0, 255)]).max() < 12
    media_type, sent = to_plain_file(inspect_image(content, "here"), content)
    assert Image.open(io.BytesIO(sent)).size == (16, 8)
    assert (media_type, sent == content) == (
        ("image/png", False)
        if orientation > 1 or form == "TIFF"
        else (f"image/{form.lower()}", True)
    )


def test_damaged_exif_leaves_a_picture_as_it_is_stored() -> None:
    content = saved(Image.new("RGB", (4, 2), RED), "JPEG", exif=b"Exif\0\0nonsense")
    assert decode_image(content, "here").upright.size == (4, 2)


def _palette() -> bytes:
    picture = Image.new("P", (4, 4), 1)
    picture.putpalette([0, 0, 0, *RED])
    return saved(picture)


def _clear_palette() -> bytes:
    picture = Image.new("P", (4, 4), 1)
    picture.putpalette([*RED, 0, 0, 0])
    return saved(picture, transparency=1)


@pytest.mark.parametrize(
    ("make", "colour"),
    [
        (lambda: saved(Image.new("CMYK", (4, 4), (0, 255, 255, 0)), "JPEG", quality=100), RED),
        (lambda: saved(Image.new("CMYK", (4, 4), (0, 255, 255, 0)), "TIFF"), RED),
        (_palette, RED),
        (_clear_palette, WHITE),
        (lambda: saved(Image.new("RGBA", (4, 4), (0, 0, 0, 0))), WHITE),
        (lambda: saved(Image.new("RGBA", (4, 4), (255, 0, 0, 51))), (255, 204, 204)),
        (lambda: saved(Image.new("LA", (4, 4), (0, 128))), (127, 127, 127)),
        (lambda: saved(Image.new("RGB", (4, 4), BLACK), transparency=BLACK), WHITE),
        (lambda: saved(Image.new("1", (4, 4), 1)), WHITE),
        (lambda: saved(Image.new("L", (1, 1), 7)), (7, 7, 7)),
    ],
)
def test_colours_come_out_as_people_see_them(
    make: Callable[[], bytes], colour: tuple[int, ...]
) -> None:
    content = make()
    shown = decode_image(content, "here")
    assert shown.notes == ()
    _, sent = to_plain_file(inspect_image(content, "here"), content)
    for picture in (shown.upright, Image.open(io.BytesIO(sent)).convert("RGB")):
        assert np.abs(np.array(picture.getpixel((0, 0))) - colour).max() <= 2


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_several_frames_the_first_is_shown_and_noted(form: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, BLACK)]
    settings = {"lossless": True} if form == "WEBP" else {}
    content = saved(frames[0], form, save_all=True, append_images=frames[1:], **settings)
    shown = decode_image(content, "here")
    assert (shown.upright.getpixel((0, 0)), shown.notes) == (RED, (FIRST_FRAME,))
    media_type, sent = to_plain_file(inspect_image(content, "here"), content)
    assert (media_type, Image.open(io.BytesIO(sent)).format) == ("image/png", "PNG")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF"])
def test_a_plain_picture_is_sent_as_it_is_stored(form: str) -> None:
    content = small.picture(3, form)
    image = inspect_image(content, "here")
    assert to_plain_file(image, content) == (image.media_type, content)


TURNED = Image.Exif()
TURNED[ORIENTATION] = 6
JPEGS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("RGB", {}),
    "grey": ("L", {}),
    "four colours": ("CMYK", {}),
    "progressive": ("RGB", {"progressive": True}),
    "turned": ("RGB", {"exif": TURNED}),
    "with a comment": ("RGB", {"comment": b"Exif"}),
    "with a profile": ("RGB", {"icc_profile": b"profile"}),
    "two frames": ("RGB", {"save_all": True, "append_images": [Image.new("RGB", (64, 48))]}),
}


@pytest.mark.parametrize("odd", JPEGS)
def test_segments_of_a_jpeg_say_what_pillow_finds(odd: str) -> None:
    mode, settings = JPEGS[odd]
    content = saved(Image.new(mode, (64, 48)), "MPO" if odd == "two frames" else "JPEG", **settings)
    as_pillow_finds = _is_plain(
        replace(inspect_image(content, "here"), media_type="image/png"), content, "here"
    )
    assert not _is_usual_jpeg(content) or as_pillow_finds
    assert _is_usual_jpeg(content) == (odd in ("plain", "grey", "progressive", "with a comment"))
    for end in range(200):
        assert not _is_usual_jpeg(content[:end])


def test_what_a_local_model_cannot_be_shown_is_sent_to_no_server() -> None:
    content = saved(Image.fromarray(np.array([[0, np.nan]], dtype=np.float32)), "TIFF")
    with pytest.raises(DataError, match="values that are not numbers"):
        to_plain_file(inspect_image(content, "here"), content)


def test_a_server_is_sent_what_a_local_model_is_shown() -> None:
    content = saved(Image.fromarray(np.array([[0, 25_700, 65_535]], dtype=np.uint16)))
    part = bytes(ImagePartCache().part(inspect_image(content, "here"), lambda image: content))
    sent = base64.b64decode(part.partition(b"base64,")[2].partition(b'"')[0])
    assert np.asarray(Image.open(io.BytesIO(sent)))[0, :, 0].tolist() == [0, 100, 255]


def test_boxes_count_in_the_stored_grid_and_the_crop_is_set_upright() -> None:
    stored = Image.new("RGB", (20, 10), BLACK)
    stored.paste(RED, (0, 0, 8, 2))
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    content = saved(stored, exif=exif)
    shown = ImageSpec(content, (0, 0, 8, 4), (Outline((0, 2, 8, 2), (0, 255, 0), 1),))
    cut = Image.open(io.BytesIO(render_image(shown, content, "here")))
    assert cut.size == (4, 8)
    # Turned by 90 degrees clockwise, what is above comes to the right.
    assert [cut.getpixel((x, 4)) for x in range(4)] == [(0, 255, 0)] * 2 + [RED] * 2


def test_a_crop_keeps_the_levels_of_sixteen_bits() -> None:
    content = saved(Image.fromarray(np.full((4, 4), 25_700, dtype=np.uint16)))
    cut = Image.open(io.BytesIO(render_image(ImageSpec(content, (0, 0, 2, 2)), content, "here")))
    assert cut.getpixel((0, 0)) == (100, 100, 100)
