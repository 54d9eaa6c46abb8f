"""Frames of clips: the right ones, at the right times, of every kind of file; and one line for a broken clip."""

from __future__ import annotations

import struct
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clips
from snellen.errors import DataError
from snellen.formats.clips import (
    FrameSampling,
    decoded_index,
    indexed_frames,
    packet_index,
    sampled_frames,
)

EVEN = [number / 10 for number in range(60)]
UNEVEN = list(accumulate([0.1, 0.1, 0.5, 0.02, 0.03, 1.0] * 10, initial=0.0))[:60]
KINDS = [("a.mp4", "libx264"), ("a.mp4", "mpeg4"), ("a.webm", "libvpx-vp9"), ("a.webm", "libvpx"), ("a.gif", "gif"),
         ("a.avi", "mpeg4"), ("a.mkv", "libx264")]  # fmt: skip


def numbers(path: Path, **sampling: object) -> list[int]:
    frames = sampled_frames(path, FrameSampling(**sampling), "row 3")
    return [clips.number_shown(frame.content) for frame in frames]


@pytest.mark.parametrize(("name", "codec"), KINDS)
@pytest.mark.parametrize("times", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_frames_are_the_right_ones(
    name: str, codec: str, times: list[float], tmp_path: Path
) -> None:
    path = clips.clip(tmp_path / name, times, codec)
    assert numbers(path, frames=60) == list(range(60))
    assert numbers(path, frames=5) == [0, 14, 29, 44, 59]
    assert numbers(path, frames=4, rule="middles") == [7, 22, 37, 52]
    steps = range(int(times[-1]) + 1)
    shown = [
        max(place for place, time in enumerate(times) if time <= step + 0.001) for step in steps
    ]
    assert numbers(path, frames=60, rule="fps") == list(dict.fromkeys(shown))
    frames = sampled_frames(path, FrameSampling(frames=3), "row 3")
    assert [frame.name for frame in frames] == [
        f"{tmp_path.name}/{name}#t={times[place]:.3f}" for place in (0, 29, 59)
    ]


@pytest.mark.parametrize(("name", "codec"), KINDS)
def test_frames_found_by_their_packets_are_those_of_decoding_all(
    name: str, codec: str, tmp_path: Path
) -> None:
    path = clips.clip(tmp_path / name, UNEVEN, codec)
    sampling = FrameSampling(frames=7)
    quick = indexed_frames(path, sampling, "row 3", packet_index)
    assert len(quick) == 7 and quick == indexed_frames(path, sampling, "row 3", decoded_index)


def test_a_clip_with_fewer_frames_shows_all_and_one_with_too_many_steps_shows_them_evenly(
    tmp_path: Path,
) -> None:
    path = clips.clip(tmp_path / "a.mp4", EVEN[:3])
    assert numbers(path) == numbers(path, rule="middles") == [0, 1, 2]
    assert numbers(path, frames=1) == [0] and numbers(path, frames=1, rule="middles") == [1]
    assert numbers(clips.clip(tmp_path / "b.mp4", EVEN), frames=3, rule="fps", fps=2) == [0, 25, 55]


@given(st.integers(1, 500), st.integers(1, 70))
def test_uniform_frames_are_those_of_the_toolkits(total: int, frames: int) -> None:
    places = FrameSampling(frames=frames).positions([float(place) for place in range(total)])
    count = min(frames, total)
    assert places == [int(place + 1e-9) for place in np.linspace(0, total - 1, count)]


def test_a_folder_of_frames_is_a_clip(tmp_path: Path) -> None:
    for number in range(12):
        clips.numbered(number).save(tmp_path / f"frame{number}.png")
    assert numbers(tmp_path, frames=4) == [0, 3, 7, 11]
    [first, *_] = sampled_frames(tmp_path, FrameSampling(), "row 3")
    assert first.name == f"{tmp_path.name}/frame0.png"


def test_a_turned_clip_is_set_upright(tmp_path: Path) -> None:
    path = clips.clip(tmp_path / "a.mp4", EVEN[:2])
    content = path.read_bytes()
    matrix = struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30)
    half = struct.pack(">9i", -65536, 0, 0, 0, -65536, 0, 0, 0, 1 << 30)
    track = content.index(b"tkhd")
    at = content.index(matrix, track)
    path.write_bytes(content[:at] + half + content[at + len(half) :])
    [_, frame] = sampled_frames(path, FrameSampling(), "row 3")
    assert clips.number_shown(frame.content) == 1 << 7


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", r"the clip .*a\.mp4 is empty; replace the file"),
        (
            b"no video at all" * 100,
            r"the clip .*a\.mp4 cannot be read \(Invalid data found.*\); replace the file",
        ),
    ],
)
def test_a_broken_clip_is_one_line(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(content)
    with pytest.raises(DataError, match=f"^row 3: {said}$"):
        numbers(tmp_path / "a.mp4")


def test_a_clip_that_breaks_off_is_told(tmp_path: Path) -> None:
    whole = clips.clip(tmp_path / "a.mp4", EVEN, movflags="faststart").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(
        DataError, match=r"^row 3: the clip .*cut\.mp4 breaks off after \d\d of 60 frames$"
    ):
        numbers(tmp_path / "cut.mp4")
    head = clips.clip(tmp_path / "a.webm", EVEN, "libvpx-vp9").read_bytes()[:60]
    (tmp_path / "cut.webm").write_bytes(head)
    with pytest.raises(DataError, match=r"^row 3: the clip .*cut\.webm .*; replace the file$"):
        numbers(tmp_path / "cut.webm")


def test_a_folder_without_frames_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 3: the folder .* holds no frames; replace it"):
        numbers(tmp_path)


def test_what_cannot_be_sampled_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="0 frames at 1 a second cannot be shown"):
        numbers(clips.clip(tmp_path / "a.mp4", EVEN[:3]), frames=0)
    clips.numbered(1).save(tmp_path / "1.png")
    with pytest.raises(DataError, match="take another rule than fps"):
        numbers(tmp_path, rule="fps")
