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
    rule: Literal["uniform", "middles", "first", "fps"] = "uniform"
    """By the frames' count, `uniform`: evenly from the first to the last; `middles`: the middle of each of as many
    equal parts; `first`: the first ones. By their times, `fps`: what is shown at each step of 1 / fps seconds, or evenly some of these where
    they are too many."""
    fps: float = 1.0

    def positions(self, times: Sequence[float]) -> list[int]:
        """Return the indices of the frames to show.

        Args:
            times: Time of each frame of the clip in seconds, ascending.

        Raises:
            DataError: The number of frames, or of frames per second, is not positive.

        Examples:
            >>> FrameSampling(frames=3).positions([0.0, 0.1, 0.2, 0.3, 0.4])
            [0, 2, 4]
        """
        if self.frames < 1 or self.fps <= 0:
            raise DataError(
                f"{self.frames} frames at {self.fps:g} a second cannot be shown; give numbers above 0"
            )
        if self.rule == "middles":
            count = min(self.frames, len(times))
            # The middle of part k of n equal parts is at (2 k + 1) / (2 n) of the clip.
            return [(2 * part + 1) * len(times) // (2 * count) for part in range(count)]

        if self.rule == "first":
            return list(range(min(self.frames, len(times))))
        if self.rule == "fps":
            candidates: Sequence[int] = _frames_at_rate(times, self.fps)
        else:
            candidates = range(len(times))
        count = min(self.frames, len(candidates))
        intervals = max(count - 1, 1)
        last = len(candidates) - 1
        return [candidates[step * last // intervals] for step in range(count)]


def _frames_at_rate(times: Sequence[float], fps: float) -> list[int]:
    """Return the indices of the frames that are visible every 1 / fps seconds, from the first frame on.

    A frame that is visible at several of these moments is listed once.

    Args:
        times: Time of each frame in seconds, ascending.
        fps: Frames per second.
    """
    duration = times[-1] - times[0]
    moment_count = int(duration * fps + _EPSILON) + 1
    frames: list[int] = []
    for number in range(moment_count):
        moment = times[0] + number / fps
        # The visible frame is the last one that began at this moment or before.
        frame = bisect_right(times, moment + _EPSILON) - 1
        if not frames or frame != frames[-1]:
            frames.append(frame)
    return frames


class _Index(Struct, frozen=True):
    """Of a clip's frames: when each is shown, and those from which decoding can begin, both in ticks, ascending."""

    stamps: list[int]
    keyframes: list[int]
    tick: float
    """Seconds."""


def sampled_frames(path: Path, sampling: FrameSampling, where: str) -> list[ClipFrame]:
    """Return the frames of a clip, or of a folder of images, that are to be shown, in order. Raises DataError,
    naming `where`, for a broken or empty clip."""
    if path.is_dir():
        return _frames_of_folder(path, sampling, where)
    for read_index in (packet_index, decoded_index):
        frames = indexed_frames(path, sampling, where, read_index)
        if frames:
            return frames
    raise DataError(
        f"{where}: the clip {path} gives no frames, or none with a time; replace the file"
    )


def _frames_of_folder(path: Path, sampling: FrameSampling, where: str) -> list[ClipFrame]:
    """Return the sampled images of a folder, in the order of the numbers in their names.

    Args:
        path: The folder.
        sampling: The rule by which images are chosen.
        where: The row that names the folder, for error messages.

    Raises:
        DataError: If the rule needs times, or the folder has no images.
    """
    if sampling.rule == "fps":
        raise DataError(
            f"{where}: {path} is a folder of frames, whose times are not known; take another rule than fps"
        )
    files = [file for file in path.iterdir() if file.suffix.lower() in PICTURES]
    if not files:
        raise DataError(f"{where}: the folder {path} holds no frames; replace it")

    def numeric_order(file: Path) -> list[int | str]:
        # frame2.png comes before frame10.png.
        texts_and_numbers: list[int | str] = []
        for part in re.split(r"(\d+)", file.name):
            texts_and_numbers.append(int(part) if part.isdecimal() else part)
        return texts_and_numbers

    files.sort(key=numeric_order)
    frames = []
    for index in sampling.positions(range(len(files))):
        file = files[index]
        frames.append(ClipFrame(f"{path.name}/{file.name}", read_file(file, IMAGE_BYTES)))
    return frames


def indexed_frames(
    path: Path, sampling: FrameSampling, where: str, read_index: Callable[[Path, str], _Index]
) -> list[ClipFrame]:
    """Return the sampled frames of a clip, found by an index of its frames.

    Args:
        path: The clip.
        sampling: Which frames to return.
        where: What names the clip, for messages.
        read_index: Returns the index of a clip: the time stamps of its frames and keyframes.

    Returns:
        The frames; empty if the index has no times, or times at which no frame is decoded.

    Raises:
        DataError: The clip is damaged.
    """
    index = read_index(path, where)
    if not index.stamps:
        return []
    all_times = [stamp * index.tick for stamp in index.stamps]
    stamps = [index.stamps[position] for position in sampling.positions(all_times)]
    pictures = list(_decode_frames(path, index, stamps, where))
    if len(pictures) != len(stamps):
        return []
    clip_name = "/".join(path.parts[-2:])
    frames: list[ClipFrame] = []
    for stamp, picture in zip(stamps, pictures, strict=True):
        time = round((stamp - index.stamps[0]) * index.tick, 3)
        frames.append(ClipFrame(f"{clip_name}#t={time:.3f}", picture, time))
    return frames


def packet_index(path: Path, where: str) -> _Index:
    """Return an index of a clip from its packets, without decoding them. Its lists are empty if packets have no
    times. Raises DataError if the file is cut off."""
    with _open_clip(path, where) as (clip, stream):
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
            stamps=sorted({packet.pts for packet in shown}),
            keyframes=sorted(keyframes),
            tick=float(stream.time_base),
        )


def decoded_index(path: Path, where: str) -> _Index:
    """Return an index of a clip by decoding it from end to end, which is slow but works without times of packets."""
    with _open_clip(path, where) as (clip, stream):
        stamps = {frame.pts for frame in clip.decode(stream) if frame.pts is not None}
        return _Index(stamps=sorted(stamps), keyframes=[], tick=float(stream.time_base))


def _decode_frames(path: Path, index: _Index, stamps: Sequence[int], where: str) -> Iterator[bytes]:
    """Yield the frames with these time stamps as JPEG. It stops early if one does not exist. Frames between are
    skipped by seeking to the last keyframe before."""
    with _open_clip(path, where) as (clip, stream):
        frames = clip.decode(stream)
        last_stamp = index.stamps[0]
        for stamp in stamps:
            n_keyframes_before = bisect_right(index.keyframes, stamp)
            if n_keyframes_before:
                keyframe = index.keyframes[n_keyframes_before - 1]
                if keyframe > last_stamp:
                    clip.seek(keyframe, stream=stream)
                    frames = clip.decode(stream)
            following = (frame for frame in frames if frame.pts is not None and frame.pts >= stamp)
            frame = next(following, None)
            if frame is None or frame.pts != stamp:
                return
            if frame.is_corrupt:
                raise DataError(
                    f"{where}: the clip {path} is damaged at {stamp * index.tick:.3f} s; replace the file"
                )
            last_stamp = stamp
            yield _encode_jpeg(frame)


def _encode_jpeg(frame: Any) -> bytes:
    """Return a decoded frame as JPEG, turned upright."""
    file = io.BytesIO()
    upright = frame.to_image().rotate(frame.rotation, expand=True)
    upright.save(file, "JPEG", quality=QUALITY, subsampling=0)
    return file.getvalue()


@contextmanager
def _open_clip(path: Path, where: str) -> Iterator[tuple[Any, Any]]:
    """Open a clip, and yield it with its video stream. Errors of reading it, within the block too, become
    DataError."""
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
