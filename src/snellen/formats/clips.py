"""Return frames of a clip, which is a video (read by PyAV, extra `video`), a moving GIF, or a
folder of images.

A video is read twice. First its packets (encoded frames) tell when each frame is shown. Then the
frames to show are decoded, each from the keyframe before it. If the packets have no times, or wrong
ones, all of the video is decoded.
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

JPEG_QUALITY = 95
"""Quality, from 1 to 100, of the JPEG that a decoded frame becomes. Its colours keep their full resolution."""
PICTURES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})
_EPSILON = 1e-6
"""Seconds that a step may be off by rounding."""


class FrameSampling(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule that says which frames of a video clip are shown."""

    frames: int = 8
    """Number of frames to show, or with the rule `fps` the maximum.

    All frames are shown if the clip has fewer.
    """
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
    """Return the indices of the frames that are visible at the times 0, 1 / fps, 2 / fps, ...
    seconds after the first frame.

    A frame that is visible at several of these times is listed once.

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
    """When the frames of a clip are shown (`stamps`), and which of them decoding can start from
    (`keyframes`).

    Both are times in ticks, ascending.
    """

    stamps: list[int]
    keyframes: list[int]
    tick: float
    """Length of a tick in seconds."""


def sampled_frames(path: Path, sampling: FrameSampling, where: str) -> list[ClipFrame]:
    """Return the frames to show of a clip, in order.

    The clip is a video file, or a folder with an image for each frame. Raises DataError, which
    begins with `where`, if the clip is damaged or empty.
    """
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
        """Return a sort key that compares numbers in names as numbers: frame2.png comes before frame10.png."""
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
    """Return the frames to show of a video file, found by an index of its frames.

    Args:
        path: The clip.
        sampling: The rule that says which frames to show.
        where: Location of the row that names the clip, for error messages.
        read_index: Function that returns the index of a clip.

    Returns:
        The frames. An empty list if the index is not usable, because it has no times, or wrong
        ones.

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
    """Return an index of a clip that is made quickly, from its packets (encoded frames), without
    decoding them.

    Its lists are empty if the packets have no times. Raises DataError if the file is cut off.
    """
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
    """Return an index of a clip that is made by decoding all of it.

    This is slow, but works if packets have no times.
    """
    with _open_clip(path, where) as (clip, stream):
        stamps = {frame.pts for frame in clip.decode(stream) if frame.pts is not None}
        return _Index(stamps=sorted(stamps), keyframes=[], tick=float(stream.time_base))


def _decode_frames(path: Path, index: _Index, stamps: Sequence[int], where: str) -> Iterator[bytes]:
    """Yield the frames at the given times as JPEG.

    If there is no frame at a time, no further frames are yielded. A keyframe is a frame that is stored without reference
    to others, so that decoding can begin there. To save time, decoding jumps to the last keyframe before the next time.

    Args:
        path: The clip.
        index: Its index.
        stamps: Times of the frames in ticks, ascending.
        where: Location of the row that names the clip, for error messages.
    """
    with _open_clip(path, where) as (clip, stream):
        frames = clip.decode(stream)
        last_stamp = index.stamps[0]
        for stamp in stamps:
            keyframe_count = bisect_right(index.keyframes, stamp)  # of those at this time or before
            if keyframe_count:
                keyframe = index.keyframes[keyframe_count - 1]
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
    upright.save(file, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return file.getvalue()


@contextmanager
def _open_clip(path: Path, where: str) -> Iterator[tuple[Any, Any]]:
    """Open a video file, and yield it and its video stream.

    Errors of reading the file, also inside the block, become DataError.
    """
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
