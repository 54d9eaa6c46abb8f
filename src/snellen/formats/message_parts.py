"""Images within the messages of a conversation, as OpenAI, Anthropic, transformers and ms-swift write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FILE_URL = "file://"
ASKING = frozenset({"human", "user", "question"})
ANSWERING = frozenset({"gpt", "assistant", "model", "bot", "chatgpt", "answer"})
SYSTEM = frozenset({"system"})
MARK = "<image>"
"""The mark that shows in the text of a message where an image is."""


def is_image_part(part: Any) -> bool:
    """Return whether a part of a message stands for an image, with or without saying which.

    Examples:
        >>> is_image_part({"type": "image"}), is_image_part({"type": "text", "text": "Why?"})
        (True, False)
        >>> is_image_part({"image": "cat.png"})  # as Qwen-VL writes it
        True
    """
    if not isinstance(part, dict):
        return False
    if "type" in part:
        return "image" in str(part["type"])
    return "image" in part or "image_url" in part


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
    image = None
    for name in ("image_url", "image", "path", "url", "source", "data"):
        image = image or part.get(name)
    if isinstance(image, dict):
        address = image.get("url") or image.get("data")
        if address or "bytes" not in image:
            image = address or None
    if isinstance(image, str) and image.startswith(FILE_URL):
        return image.removeprefix(FILE_URL)
    return image


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


def text_of_message(content: Any) -> str:
    """Return the text of a message, with a mark in place of each image. The content is a text or a list of parts."""
    if isinstance(content, list):
        texts = []
        for part in content:
            if is_image_part(part):
                texts.append(MARK)
            else:
                texts.append(_text_of_part(part))
        content = "\n".join(texts)
    return str(content or "").strip()


def _text_of_part(part: Any) -> str:
    """Return the text of a part: of `{"text": "Why?"}`, of `{"text": {"value": "Why?"}}`, or of a plain text."""
    text = part.get("text") if isinstance(part, dict) else part
    if isinstance(text, dict):  # as OpenAI's threads write it
        text = text.get("value")
    return text if isinstance(text, str) else ""


def speaker_of_message(message: Mapping[str, Any]) -> str:
    """Return who says a message, such as `user`; a text also where the file has none.

    Examples:
        >>> speaker_of_message({"from": "human", "value": "Why?"}), speaker_of_message({"role": ["user"]})
        ('human', "['user']")
    """
    return str(message.get("from", message.get("role")))


def single_exchange(messages: Any) -> tuple[str, str] | None:
    """Return the question and the reply of a conversation of one turn, without marks; None for any other.

    Examples:
        >>> single_exchange([{"from": "human", "value": "<image>\\nWhy?"}, {"from": "gpt", "value": "So."}])
        ('Why?', 'So.')
    """
    if not isinstance(messages, list):
        return None
    speakers: list[str] = []
    texts: list[str] = []
    for message in messages:
        if not isinstance(message, dict):
            return None
        speaker = speaker_of_message(message)
        if speaker not in SYSTEM:
            text = text_of_message(message.get("value", message.get("content")))
            speakers.append(speaker)
            texts.append(text.replace(MARK, "").strip())
    if not 1 <= len(speakers) <= 2 or speakers[0] not in ASKING:
        return None
    if len(speakers) == 1:
        return texts[0], ""
    if speakers[1] not in ANSWERING:
        return None
    return texts[0], texts[1]
