"""Images within the messages of a conversation, as OpenAI, Anthropic, transformers and ms-swift write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FILE_URL = "file://"


def is_image_part(part: Any) -> bool:
    """Return whether a part of a message stands for an image, with or without saying which.

    Examples:
        >>> is_image_part({"type": "image"}), is_image_part({"type": "text", "text": "Why?"})
        (True, False)
    """
    return isinstance(part, dict) and "image" in str(part.get("type"))


def image_of_part(part: Any) -> Any:
    """Return the path, URL, base64 text or object of the image in a part of a message; None if it has none.

    Examples:
        >>> image_of_part({"type": "image_url", "image_url": {"url": "cat.png"}})
        'cat.png'
        >>> image_of_part({"type": "image", "source": {"type": "base64", "data": "iVBOR"}})
        'iVBOR'
        >>> image_of_part({"type": "image"}) is None
        True
    """
    if not is_image_part(part):
        return None
    given = None
    for name in ("image_url", "image", "path", "url", "source", "data"):
        given = given or part.get(name)
    if isinstance(given, dict):
        given = given.get("url") or given.get("data") or (given if "bytes" in given else None)
    if isinstance(given, str) and given.startswith(FILE_URL):
        return given.removeprefix(FILE_URL)
    return given


def images_of_messages(messages: Sequence[Any]) -> list[Any]:
    """Return the images in the messages of a conversation, in order.

    Examples:
        >>> parts = [{"type": "image", "image": "cat.png"}, {"type": "text", "text": "What is it?"}]
        >>> images_of_messages([{"role": "user", "content": parts}])
        ['cat.png']
    """
    images: list[Any] = []
    for message in messages:
        content = (
            message.get("content", message.get("value")) if isinstance(message, dict) else None
        )
        if not isinstance(content, list):
            continue
        for part in content:
            image = image_of_part(part)
            if image is not None:
                images.append(image)
    return images
