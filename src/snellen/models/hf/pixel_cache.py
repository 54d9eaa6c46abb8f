"""Cache the pixels that an image processor makes of an image, for all prompts that show this image."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Tensors = dict[str, Any]
AMBIGUOUS_HEIGHTS = (1, 3)
"""Heights in pixels of images whose rows transformers may take for color channels, as there are 1 or 3 of these."""
_LOG = threading.Lock()


@dataclass(frozen=True)
class Pixels:
    """The output of an image processor for one image, with the arguments of the call."""

    depth: int
    settings: Tensors
    features: Any


class PixelCache:
    """Image processor (or video processor) that caches its output for each image (or clip).

    Without it, an image is processed again for each prompt, even if 20 prompts show the same image.
    """

    def __init__(self, processor: Any, keep: int, names: dict[int, str]) -> None:
        """Wrap an image processor.

        Args:
            processor: The processor.
            keep: Maximum number of cached outputs.
            names: The digest of each decoded image, by the `id` of the image object. The caller
                keeps these objects alive, because Python may use the `id` of a deleted object
                again.
        """
        self._processor = processor
        self._cached: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._names = names
        self._keep = keep
        self._call: tuple[int, dict[str, Any]] | None = None
        """Nesting depth and settings of the last call with a single image."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    @property
    def is_known(self) -> bool:
        """Whether the processor is from transformers. Such a processor keeps no state between calls."""
        return type(self._processor).__module__.startswith("transformers.")

    def __call__(self, images: Any = None, *args: Any, **settings: Any) -> Any:
        """Return the processor's output for some images; a cached one if the digests of all images are known."""
        digests = self._digests_of(images)
        if args or digests is None:
            return self._process(images, settings, *args)
        depth = _depth_of_one(digests)
        if depth is not None:
            self._call = depth, settings
        key = _pixel_key(digests, settings)
        if key not in self._cached:
            self._keep_pixels(key, self._process(images, settings))
        self._cached.move_to_end(key)
        features = self._cached[key]
        if not isinstance(features, Mapping):  # Idefics' processor returns a tensor
            return features
        # A copy, because some processors take entries out of the mapping.
        mapping_type: Any = type(features)
        return mapping_type(dict(features))

    def tiles(self, image: Any) -> list[Any]:
        """Return the pixels that the processor makes of an image: an array (channels, height, width) for each tile.

        [] if the output is neither pixels nor tiles nor patches in the order of Qwen2-VL.
        """
        if self._processor is None:
            return []
        features: Any = self._processor([image], return_tensors="pt")
        if "pixel_values" not in features:
            return []
        pixels = features["pixel_values"].float().numpy()
        if pixels.ndim >= 4 and pixels.shape[-3] == 3:
            return list(pixels.reshape(-1, *pixels.shape[-3:]))
        grid = features.get("image_grid_thw")
        if grid is None:
            return []
        return [_image_of_patches(pixels, grid[0].tolist(), self._processor)]

    def compute(self, image: Any) -> Pixels | None:
        """Return the output for a single image, with the same arguments as in the last call for a single image.

        None if there was no such call yet. Nothing is cached, so another thread may call this in
        advance.
        """
        if self._call is None:
            return None
        depth, settings = self._call
        features = self._process(_nested(image, depth), settings)
        return Pixels(depth, settings, features)

    def keep(self, digest: str, pixels: Pixels) -> None:
        """Cache a result of `compute` for the image with this digest."""
        digests = _nested(digest, pixels.depth, tuple)
        self._keep_pixels(_pixel_key(digests, pixels.settings), pixels.features)

    def _process(self, images: Any, settings: Tensors, *args: Any) -> Any:
        """Return the output for some images. Raises ValueError for an image that transformers misreads."""
        if not any(height in AMBIGUOUS_HEIGHTS for height in _heights(images)):
            return self._processor(images, *args, **settings)
        with _refusing_misread_images():
            return self._processor(images, *args, **settings)

    def _keep_pixels(self, key: tuple[Any, ...], features: Any) -> None:
        self._cached[key] = features
        while len(self._cached) > self._keep:
            self._cached.popitem(last=False)

    def _digests_of(self, images: Any) -> Any:
        """Return the digests of images, in tuples that are nested like the lists of images.

        None if the digest of an image is unknown.
        """
        if isinstance(images, (list, tuple)):
            digests = tuple(self._digests_of(image) for image in images)
            return None if None in digests else digests
        return self._names.get(id(images))


@contextlib.contextmanager
def _refusing_misread_images() -> Iterator[None]:
    """Raise ValueError if transformers takes the rows of an image for its color channels inside the block.

    It goes on with the misread image then, and says so only in its log.
    """
    misread = False

    def note(record: logging.LogRecord) -> bool:
        nonlocal misread
        is_misread = "channel dimension is ambiguous" in str(record.msg)
        misread = misread or is_misread
        return not is_misread

    log = logging.getLogger("transformers.image_utils")
    with _LOG:
        level = log.level
        log.setLevel(logging.WARNING)
        log.addFilter(note)
        try:
            yield
        finally:
            log.removeFilter(note)
            log.setLevel(level)
    if misread:
        raise ValueError(
            "transformers takes the rows of an image that is 1 or 3 pixels high for its colors, so the model would not "
            "see the image; use one that is 2, or at least 4, pixels high"
        )


def _heights(images: Any) -> Iterator[int]:
    """Yield the height of each image in nested lists of images."""
    if isinstance(images, (list, tuple)):
        for image in images:
            yield from _heights(image)
    elif hasattr(images, "height"):
        yield images.height


def _pixel_key(digests: Any, settings: Tensors) -> tuple[Any, ...]:
    """Return the key under which the output for some images, with certain settings, is cached."""
    settings_by_name = sorted(settings.items(), key=lambda item: item[0])
    return (digests, repr(settings_by_name))


def _depth_of_one(digests: Any) -> int | None:
    """Return in how many tuples a single digest is nested: 2 for `(("a",),)`. None if there are several digests."""
    depth = 0
    while isinstance(digests, tuple):
        if len(digests) != 1:
            return None
        depth += 1
        digests = digests[0]
    return depth


def _nested(
    value: Any, depth: int, container: type[list[Any]] | type[tuple[Any, ...]] = list
) -> Any:
    """Return a value inside `depth` lists (or tuples) of one element: `[["a"]]` for "a" and 2."""
    for _ in range(depth):
        value = container([value])
    return value


def _image_of_patches(pixels: Any, grid: Sequence[int], processor: Any) -> Any:
    """Return the image [channels, height, width] from Qwen2-VL's patches.

    Args:
        pixels: One flattened patch per row. Patches are ordered by merged block, then within the block.
        grid: Number of frames, rows and columns of patches.
        processor: The image processor, which has the size of patches and blocks.
    """
    _, rows, columns = grid
    merged = processor.merge_size
    side = processor.patch_size
    block_rows = rows // merged
    block_columns = columns // merged
    # Axes: block row, block column, patch row, patch column, channel, frame, pixel row, pixel column.
    patches = pixels.reshape(block_rows, block_columns, merged, merged, 3, -1, side, side)
    patches = patches[:, :, :, :, :, 0]  # a still image is stored as two equal frames
    image = patches.transpose(4, 0, 2, 5, 1, 3, 6)
    return image.reshape(3, rows * side, columns * side)
