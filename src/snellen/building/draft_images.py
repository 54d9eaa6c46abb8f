"""Images of drafts: stored once each, however many questions show them."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator
from pathlib import Path

from msgspec.structs import replace

from snellen.common.drafts import Draft, ImageFile, ImageSpec, LazyFrames, LazyImage
from snellen.common.drawing import image_content
from snellen.common.images import ImageStore
from snellen.records import ImageRef


class DraftImages:
    """Stores the images of drafts, and the frames of their clips.

    Args:
        store: Where the images are stored.
    """

    def __init__(self, store: ImageStore) -> None:
        """Start without images. Each image of a source is stored once, however many questions show it."""
        self._store = store
        self._images: dict[Hashable, ImageRef] = {}
        """Stored images, by file and by what is done to it."""
        self._clips: dict[str, list[tuple[str, ImageRef]]] = {}
        """Name and image of each frame of a video clip, by the location of the clip."""
        self.digests: set[str] = set()
        """Digests of all stored images."""

    def named(self, draft: Draft) -> Iterator[tuple[str, ImageRef]]:
        """Yield the images of a draft in order, each with the name of its file; a clip yields its frames.

        The name includes the folder, as in `photos/1.png`. It is empty for an image without a file of its own, such as
        one that a table contains.

        Raises:
            DataError: A file is not an image.
        """
        for image in draft.images:
            if isinstance(image, LazyFrames):
                yield from self._frames(image, draft.where)
            else:
                yield _file_name(image), self._stored(image, draft.where)

    def _frames(self, clip: LazyFrames, where: str) -> list[tuple[str, ImageRef]]:
        """Return the name and the stored image of each frame of a video clip. A clip is read only once.

        Args:
            clip: The clip.
            where: The location of the question, for error messages.
        """
        if clip.place not in self._clips:
            frames: list[tuple[str, ImageRef]] = []
            for frame in clip.read():
                image = self._store.put(frame.content, where)
                image = replace(image, time=frame.time)
                frames.append((frame.name, image))
                self.digests.add(image.digest)
            self._clips[clip.place] = frames
        return self._clips[clip.place]

    def _stored(self, image: ImageFile | ImageSpec, where: str) -> ImageRef:
        """Store an image of a question and return a reference to it. The same image is stored only once.

        Args:
            image: The image file, with a crop and outlines to draw if the question has them.
            where: The location of the question, for error messages.
        """
        spec = image if isinstance(image, ImageSpec) else ImageSpec(image)
        # The same file with another crop or other outlines is another image.
        key = (file_identity(spec.file), spec.crop, spec.outlines)
        if key not in self._images:
            stored = self._store.put(image_content(spec, where), where)
            self._images[key] = stored
            self.digests.add(stored.digest)
        return self._images[key]


def file_identity(file: ImageFile) -> Hashable:
    """Return a value that is equal for two image files only if they are the same: the path, or a
    digest of the content.
    """
    if isinstance(file, LazyImage):
        return file.place
    if isinstance(file, Path):
        return file
    return hashlib.sha256(file).hexdigest()


def _file_name(image: ImageFile | ImageSpec) -> str:
    """Return the last two parts of an image's path, such as `train/1.png`; empty if the image has no file of its own."""
    file = image.file if isinstance(image, ImageSpec) else image
    if not isinstance(file, Path):
        return ""
    return "/".join(file.parts[-2:])
