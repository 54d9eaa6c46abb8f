"""A loaded model that answers single questions about images, for people who try it out."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from snellen.common.attribute_hints import same_hint, unknown_attribute
from snellen.common.decoding import inspect_image
from snellen.common.foreign import IMAGE_BYTES, read_file
from snellen.common.images import Images
from snellen.errors import DataError, ModelError
from snellen.models.base import AsyncModel, Model
from snellen.records import (
    Decoding,
    ImagePart,
    ImageRef,
    Message,
    Part,
    Request,
    Response,
    TextPart,
    Variant,
)

MODEL_HINTS = {
    **same_hint(
        "generate(image, question) returns the reply", "chat", "ask", "predict", "__call__"
    ),
    **same_hint("evaluate(model, benchmarks)", "evaluate", "score", "test"),
}


class ModelInHand:
    """A model that was loaded. It has all attributes of the model itself, which is `model`."""

    def __init__(self, model: Model | AsyncModel) -> None:
        self.model = model

    def generate(
        self,
        image: Any,
        question: Any = None,
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
    ) -> Any:
        """Return the reply to a question about an image.

        Args:
            image: A path, a PIL image, the bytes of a file, an array of shape (height, width) or (height, width, 3) with
                values from 0 to 255, a list of these, or None for a question without an image.
            question: The text of the question. `generate(requests, images)` is the method of the model itself.
            max_new_tokens: Maximum length of the reply.
            temperature: 0 for greedy decoding.

        Raises:
            DataError: The image cannot be read, or the question is no text.
            ModelError: The model did not reply.
        """
        if not isinstance(question, str):
            if question is None or not isinstance(image, (list, tuple)):
                raise DataError(
                    "generate(image, question) needs an image, or None, and the text of a question"
                )
            return self.model.generate(image, question)  # type: ignore[union-attr]
        given = image if isinstance(image, (list, tuple)) else [image]
        shown_images = ShownImages()
        content: list[Part] = [
            ImagePart(shown_images.add(each)) for each in given if each is not None
        ]
        content.append(TextPart(question))
        request = Request(
            "question",
            hashlib.sha256(question.encode()).hexdigest()[:12],
            Variant(),
            (Message("user", tuple(content)),),
            decoding=Decoding(max_new_tokens=max_new_tokens, temperature=temperature),
        )
        response = _respond(self.model, request, shown_images)
        if response.error is not None:
            raise ModelError(f"{self.model.name} did not reply: {response.error.detail}")
        return response.text or ""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the model."""
        if name == "model" or name.startswith("__"):  # of a copy that is being made
            raise AttributeError(name)
        try:
            return getattr(self.model, name)
        except AttributeError:
            raise unknown_attribute(self, name, MODEL_HINTS) from None

    def __repr__(self) -> str:
        return repr(self.model)


class ShownImages:
    """The images of a question, in memory."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def add(self, image: Any) -> ImageRef:
        """Add an image in any of the forms that `ModelInHand.generate` takes. Raises DataError if it cannot be read."""
        content, where = _image_file(image)
        reference = inspect_image(content, where)
        self._contents[reference.digest] = content
        return reference

    def read(self, image: ImageRef) -> bytes:
        """Return the bytes of an image."""
        return self._contents[image.digest]


def _image_file(image: Any) -> tuple[bytes, str]:
    """Return the bytes of an image file, and what errors call it."""
    if isinstance(image, (str, os.PathLike)):
        return _read_image(Path(image).expanduser()), str(image)
    if isinstance(image, (bytes, bytearray)):
        return bytes(image), "the image"
    if hasattr(image, "__array__") and not hasattr(image, "save"):
        image = _image_of_array(image)
    if not hasattr(image, "save"):
        kind = type(image).__name__
        raise DataError(
            f"{kind} is not an image; give a path, a PIL image, the bytes of a file or an array"
        )
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue(), "the image"


def _read_image(path: Path) -> bytes:
    try:
        return read_file(path, IMAGE_BYTES)
    except FileNotFoundError:
        raise DataError(
            f"there is no image {path}; the image comes first: generate(image, question)"
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from None


def _image_of_array(array: Any) -> Any:
    import numpy as np
    from PIL import Image

    values = np.asarray(array)
    has_colours = values.ndim == 3 and values.shape[2] in (3, 4)
    if values.dtype != np.uint8 or not (values.ndim == 2 or has_colours):
        raise DataError(
            f"an array of {values.dtype} with shape {values.shape} is not an image; give (height, width, 3) of uint8, "
            "0 to 255"
        )
    return Image.fromarray(values)


def _respond(model: Model | AsyncModel, request: Request, images: Images) -> Response:
    if isinstance(model, Model):
        responses: Sequence[Response] = model.generate([request], images)
        return responses[0]
    # In a thread of its own, because notebooks have a running event loop.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, _ask_once(model, request, images)).result()


async def _ask_once(model: AsyncModel, request: Request, images: Images) -> Response:
    try:
        return await model.ask(request, images)
    finally:
        await model.close()
