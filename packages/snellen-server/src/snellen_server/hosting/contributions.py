"""Texts and images that people send: moderation, and the cleaning and storing of images.

An image is decoded, limited in size and freed of metadata. It is stored under the digest of the
result.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import io
import os
import re
import unicodedata
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from snellen import DataError
from snellen.plugin_api import decode_image, read_file
from snellen_server.hosting.features import find
from snellen_server.hosting.monitoring import LOGGER

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
"""The formats that are accepted. Pillow may not try to decode any other."""
_DIGEST = re.compile("[0-9a-f]{64}")
JPEG_QUALITY = 92
AT_ONCE = 2


@dataclass(frozen=True)
class StoredImage:
    """An uploaded image after cleaning, as it is stored and shown: a PNG or JPEG without metadata."""

    digest: str
    media_type: str
    width: int
    height: int
    content: bytes


def clean_image(content: bytes, most_pixels: int) -> StoredImage:
    """Return an uploaded image without anything but its visible pixels.

    It is turned upright as its metadata say; of an animation only the first frame is kept. Raises
    DataError if the content is not a PNG, JPEG, WebP or GIF file (the file's name does not matter),
    or has more than `most_pixels` pixels.
    """
    from PIL import Image

    where = "the image"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=FORMATS) as opened:
                (width, height), kind = opened.size, opened.format
    except Image.DecompressionBombError:
        raise DataError(
            f"{where} has too many pixels; at most {most_pixels:,} are allowed"
        ) from None
    except (OSError, SyntaxError, ValueError, EOFError):
        raise DataError(f"{where} is not a readable PNG, JPEG, WebP or GIF file") from None
    if width * height > most_pixels:
        raise DataError(
            f"{where} has {width} x {height} pixels; at most {most_pixels:,} are allowed"
        )
    upright = decode_image(content, where).upright
    # Pillow would copy comments and profiles of the opened image into the file, so a new image is made.
    pixels = Image.frombytes("RGB", upright.size, upright.tobytes())
    file = io.BytesIO()
    if kind == "JPEG":
        pixels.save(file, "JPEG", quality=JPEG_QUALITY)
    else:
        pixels.save(file, "PNG")
    clean_bytes = file.getvalue()
    media_type = "image/jpeg" if kind == "JPEG" else "image/png"
    return StoredImage(
        hashlib.sha256(clean_bytes).hexdigest(),
        media_type,
        pixels.width,
        pixels.height,
        clean_bytes,
    )


class PictureStore:
    """A folder of cleaned images, named by their digests."""

    def __init__(self, root: Path, most_pixels: int) -> None:
        self.root, self._most_pixels = root, most_pixels
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def clean(self, content: bytes) -> StoredImage:
        """Clean an image in a thread, at most `AT_ONCE` images at a time to save memory.

        Raises DataError as `clean_image` does.
        """
        async with self._gate:
            return await asyncio.to_thread(clean_image, content, self._most_pixels)

    def put(self, picture: StoredImage) -> None:
        """Store an image. When this returns, the complete file is on the disk.

        An interrupted call leaves no partial image behind under the final name.
        """
        path = self._path(picture.digest)
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        passing = path.with_name(f"{picture.digest}.{os.getpid()}.{os.urandom(4).hex()}.part")
        with passing.open("xb") as file:
            file.write(picture.content)
            file.flush()
            os.fsync(file.fileno())
        passing.rename(path)

    def read(self, digest: str) -> bytes | None:
        """Return the bytes of the stored image with this digest; None if there is none.

        A name that is not a SHA-256 digest also gives None, so that no other file can be read.
        """
        if not _DIGEST.fullmatch(digest):
            return None
        try:
            return read_file(self._path(digest))
        except FileNotFoundError:
            return None

    def delete(self, digest: str) -> None:
        if _DIGEST.fullmatch(digest):
            self._path(digest).unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        return self.root / digest[:2] / digest


@dataclass(frozen=True)
class Contribution:
    """What somebody sent: a text, or an image as it will be stored (decoded, without metadata)."""

    kind: Literal["text", "image"]
    text: str = ""
    image: bytes = b""
    purpose: str = ""
    """What it was sent for, such as `arena question`."""


@dataclass(frozen=True)
class ModerationVerdict:
    """A moderator's decision whether a contribution may be shown. `reason` is shown to the sender."""

    is_allowed: bool
    reason: str = ""


Moderator = Callable[[Contribution], ModerationVerdict | Awaitable[ModerationVerdict]]
"""An entry point of the group `snellen_server.moderators`. A plain function is called in a thread."""
UNAVAILABLE = ModerationVerdict(False, "it could not be checked; try again later")


_CHILD = r"(child|children|kids?|minors?|toddlers?|preteens?|underage|(under|\b1[0-7])[ -]?(year|yr)s?[ -]?old|schoolgirls?|schoolboys?)"
_SEXUAL = r"(sex(ual|ually)?|nudes?|naked|undress(ed|ing)?|porn(ography)?|erotic)"
BLOCKED_TEXTS = (
    rf"\b{_CHILD}\b.{{0,60}}\b{_SEXUAL}\b",
    rf"\b{_SEXUAL}\b.{{0,60}}\b{_CHILD}\b",
    r"\b(undress|nudify|strip (her|him|them)|remove (her|his|their) cloth(es|ing))\b",
)
"""Patterns of texts that a server refuses unless its operator sets others: sexual texts about children, and questions to
undress people in images. They are a first line for texts in English, and no substitute for a moderation service."""
BLOCKED = ModerationVerdict(False, "this server does not accept such texts")


class Moderation:
    """The moderators of a server: patterns of texts that it refuses, then those that the operator has named."""

    def __init__(
        self,
        names: Sequence[str],
        seconds: float,
        blocked_texts: Sequence[str] = (),
        model: str = "",
    ) -> None:
        """Find the moderators.

        Args:
            names: Names of registered moderators, which all must allow a contribution.
            seconds: The time that each may take.
            blocked_texts: Regular expressions of texts to refuse.
            model: Model string of a model that must allow it as well; empty for none.
        """
        from snellen_server.hosting.model_moderator import ModelModerator

        self._blocked = [re.compile(text, re.IGNORECASE | re.DOTALL) for text in blocked_texts]
        self._moderators: dict[str, Moderator] = {name: find("moderators", name) for name in names}
        self._model = ModelModerator(model) if model else None
        if self._model is not None:
            self._moderators[model] = self._model.judge
        self._seconds = seconds

    async def judge(self, contribution: Contribution) -> ModerationVerdict:
        """Return the first refusal by a moderator, or that the contribution is allowed.

        The blocked texts are checked first. A moderator that raises, takes too long, or returns
        anything but a ModerationVerdict counts as a refusal.
        """
        if contribution.kind == "text":
            # Full-width and other look-alike letters are compared as plain ones.
            plain_text = unicodedata.normalize("NFKC", contribution.text)
            if any(pattern.search(plain_text) for pattern in self._blocked):
                return BLOCKED
        for name, moderator in self._moderators.items():
            verdict = await self._ask(name, moderator, contribution)
            if not verdict.is_allowed:
                return verdict
        return ModerationVerdict(True)

    async def close(self) -> None:
        """Close the model that moderates, if there is one."""
        if self._model is not None:
            await self._model.close()

    async def _ask(
        self, name: str, moderator: Moderator, contribution: Contribution
    ) -> ModerationVerdict:
        """Return one moderator's verdict.

        If the moderator fails or takes too long, this is `UNAVAILABLE`, a refusal for now.
        """
        try:
            async with asyncio.timeout(self._seconds):
                if inspect.iscoroutinefunction(moderator):
                    verdict = await moderator(contribution)
                else:
                    verdict = await asyncio.to_thread(moderator, contribution)
        except Exception:  # anything that another package's code does must refuse
            LOGGER.exception("moderator failed", extra={"facts": {"moderator": name}})
            return UNAVAILABLE
        if not isinstance(verdict, ModerationVerdict):
            LOGGER.error(
                "moderator gave no verdict",
                extra={"facts": {"moderator": name, "gave": type(verdict).__name__}},
            )
            return UNAVAILABLE
        return verdict
