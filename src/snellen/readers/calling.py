"""Call readers, those of other packages with errors that name the reader and the place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from snellen import registry
from snellen.common.drafts import Draft, ImageSpec, LazyFrames, LazyImage
from snellen.errors import HookError, SnellenError

Reader = Callable[[dict[str, Any], Path | None], Iterator[Draft]]
"""`reader(params, folder)` yields the drafts of a source."""
IMAGE_KINDS = (bytes, Path, LazyImage, ImageSpec, LazyFrames)


def find_reader(name: str) -> Reader:
    """Return the reader of this name.

    Raises:
        UnknownNameError: There is no such reader.
        HookError: It cannot be imported. A reader of another package raises it, too, if it fails or yields something
            that is not a `Draft`.
    """
    reader: Reader = registry.find_registered("readers", name)
    module = getattr(reader, "__module__", None) or ""
    is_own = module.partition(".")[0] == "snellen"
    return reader if is_own else partial(_read, name, reader)


def _read(
    name: str, reader: Reader, params: dict[str, Any], folder: Path | None
) -> Iterator[Draft]:
    """Yield the drafts of a reader of another package."""
    place = "before its first question"
    try:
        for draft in reader(params, folder):
            if not isinstance(draft, Draft):
                raise HookError(
                    f"the reader {name!r} yielded {draft!r:.60} {place}; it has to yield Draft records"
                )
            for image in draft.images:
                if not isinstance(image, IMAGE_KINDS):
                    raise HookError(
                        f"the reader {name!r} gave {draft.where or draft.id} the image {image!r:.60}; an image is a "
                        "Path, the bytes of an image file, or a LazyImage whose function returns them"
                    )
            place = f"after the question {draft.id} ({draft.where})"
            yield draft
    except (SnellenError, OSError):
        raise
    except Exception as error:  # foreign code may raise anything
        raise HookError(f"the reader {name!r} failed {place}", error) from error
