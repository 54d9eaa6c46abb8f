"""Frames of a clip: a video (by PyAV, extra `video`), a moving GIF, or a folder with the frames as images.

A video is read twice. Its packets tell when each frame is shown; then each one that is wanted is decoded from the
keyframe before it. Where packets do not tell, or promise other frames than there are, all of the clip is decoded.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from snellen.common.drafts import ClipFrame
from snellen.common.foreign import IMAGE_BYTES, open_file, read_file
from snellen.common.late import import_extra
from snellen.errors import DataError

QUALITY = 95
"""Of the JPEG that a decoded frame becomes, its colours in full resolution."""
PICTURES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})
_EPSILON = 1e-6
"""Seconds that a step may be off by rounding."""


class FrameSampling(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which frames of a clip are shown."""

    frames: int = 8
    """How many; with the rule `fps` the most. A clip with fewer shows all of them."""
    rule: Literal["uniform", "middles", "fps"] = "uniform"
    """By the frames' count, `uniform`: evenly from the first to the last; `middles`: the middle of each of as many
    equal parts. By their times, `fps`: what is shown at each step of 1 / fps seconds, or evenly some of these where
    they are too many."""
    fps: float = 1.0

    def positions(self, times: Sequence[float]) -> list[int]:
        """The places of the frames among all, whose times are given in seconds, ascending. Raises DataError."""
        if self.frames < 1 or self.fps <= 0:
            raise DataError(
                f"{self.frames} frames at {self.fps:g} a second cannot be shown; give numbers above 0"
            )
        if self.rule == "middles":
            count = min(self.frames, len(times))
            return [(2 * part + 1) * len(times) // (2 * count) for part in range(count)]
        shown = _at_rate(times, self.fps) if self.rule == "fps" else range(len(times))
        last = min(self.frames, len(shown)) - 1
        return [shown[step * (len(shown) - 1) // max(last, 1)] for step in range(last + 1)]


def _at_rate(times: Sequence[float], fps: float) -> list[int]:
    """The frame that is shown at each step, once where several steps meet it."""
    steps = int((times[-1] - times[0]) * fps + _EPSILON) + 1
    return list(
        dict.fromkeys(
            bisect_right(times, times[0] + step / fps + _EPSILON) - 1 for step in range(steps)
        )
    )


class _Index(Struct, frozen=True):
    """Of a clip's frames: when each is shown, and those from which decoding can begin, both in ticks, ascending."""

    stamps: list[int]
    keyframes: list[int]
    tick: float
    """Seconds."""


def sampled_frames(path: Path, sampling: FrameSampling, where: str) -> list[ClipFrame]:
    """The frames of a clip that are shown, in order. Raises DataError, naming `where`, for a broken or empty clip."""
    if path.is_dir():
        return _of_folder(path, sampling, where)
    for read_index in (packet_index, decoded_index):
        frames = indexed_frames(path, sampling, where, read_index)
        if frames:
            return frames
    raise DataError(
        f"{where}: the clip {path} gives no frames, or none with a time; replace the file"
    )


def _of_folder(path: Path, sampling: FrameSampling, where: str) -> list[ClipFrame]:
    if sampling.rule == "fps":
        raise DataError(
            f"{where}: {path} is a folder of frames, whose times are not known; take another rule than fps"
        )
    files = [file for file in path.iterdir() if file.suffix.lower() in PICTURES]
    if not files:
        raise DataError(f"{where}: the folder {path} holds no frames; replace it")
    files.sort(
        key=lambda file: [
            int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", file.name)
        ]
    )
    chosen = [files[place] for place in sampling.positions(range(len(files)))]
    return [ClipFrame(f"{path.name}/{file.name}", read_file(file, IMAGE_BYTES)) for file in chosen]


def indexed_frames(
    path: Path, sampling: FrameSampling, where: str, read_index: Callable[[Path, str], _Index]
) -> list[ClipFrame]:
    """The sampled frames by an index of the clip; none where it does not hold. Raises DataError."""
    index = read_index(path, where)
    if not index.stamps:
        return []
    stamps = [
        index.stamps[place]
        for place in sampling.positions([stamp * index.tick for stamp in index.stamps])
    ]
    times = [round((stamp - index.stamps[0]) * index.tick, 3) for stamp in stamps]
    names = ["/".join(path.parts[-2:]) + f"#t={time:.3f}" for time in times]
    pictures = list(_decoded(path, index, stamps, where))
    return list(map(ClipFrame, names, pictures, times)) if len(pictures) == len(names) else []


def packet_index(path: Path, where: str) -> _Index:
    """By the packets, which are not decoded; empty where they have no times."""
    with _opened(path, where) as (clip, stream):
        packets = [packet for packet in clip.demux(stream) if packet.size]
        if "mp4" in clip.format.name and len(packets) < stream.frames:
            raise DataError(
                f"{where}: the clip {path} breaks off after {len(packets)} of {stream.frames} frames"
            )
        shown = [packet for packet in packets if not packet.is_discard]
        if any(packet.pts is None for packet in shown):
            shown.clear()
        keyframes = {packet.pts for packet in shown if packet.is_keyframe}
        return _Index(
            sorted({packet.pts for packet in shown}), sorted(keyframes), float(stream.time_base)
        )


def decoded_index(path: Path, where: str) -> _Index:
    """By all its frames, decoded from end to end."""
    with _opened(path, where) as (clip, stream):
        stamps = {frame.pts for frame in clip.decode(stream) if frame.pts is not None}
        return _Index(sorted(stamps), [], float(stream.time_base))


def _decoded(path: Path, index: _Index, stamps: Sequence[int], where: str) -> Iterator[bytes]:
    """The frames at these times, as JPEG; fewer where one is not there."""
    with _opened(path, where) as (clip, stream):
        frames, last = clip.decode(stream), index.stamps[0]
        for stamp in stamps:
            before = bisect_right(index.keyframes, stamp)
            if before and index.keyframes[before - 1] > last:
                clip.seek(index.keyframes[before - 1], stream=stream)
                frames = clip.decode(stream)
            frame = next(
                (frame for frame in frames if frame.pts is not None and frame.pts >= stamp), None
            )
            if frame is None or frame.pts != stamp:
                return
            if frame.is_corrupt:
                raise DataError(
                    f"{where}: the clip {path} is damaged at {stamp * index.tick:.3f} s; replace the file"
                )
            last = stamp
            yield _as_jpeg(frame)


def _as_jpeg(frame: Any) -> bytes:
    file = io.BytesIO()
    frame.to_image().rotate(frame.rotation, expand=True).save(
        file, "JPEG", quality=QUALITY, subsampling=0
    )
    return file.getvalue()


@contextmanager
def _opened(path: Path, where: str) -> Iterator[tuple[Any, Any]]:
    """A clip and its stream of images. What cannot be read, there or in the body, is a DataError."""
    av = import_extra("av", "video", f"the clip {path.name}")
    try:
        if not path.stat().st_size:
            raise DataError(f"{where}: the clip {path} is empty; replace the file")
        with open_file(path) as file, av.open(file) as clip:
            if not clip.streams.video:
                raise DataError(f"{where}: the clip {path} has no images; replace the file")
            stream = clip.streams.video[0]
            stream.thread_type = "AUTO"
            yield clip, stream
    except (av.FFmpegError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"{where}: the clip {path} cannot be read ({reason}); replace the file"
        ) from None
