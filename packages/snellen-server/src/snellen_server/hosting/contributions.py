"""Images that people send: decoded, bounded, stripped of metadata, and kept by the digest of what remains."""

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
"""What is read; Pillow is not asked about anything else."""
_DIGEST = re.compile("[0-9a-f]{64}")
JPEG_QUALITY = 92
AT_ONCE = 2


@dataclass(frozen=True)
class StoredImage:
    """An image as it is shown: a PNG or a JPEG without any metadata."""

    digest: str
    media_type: str
    width: int
    height: int
    content: bytes


def clean_image(content: bytes, most_pixels: int) -> StoredImage:
    """Return only the visible pixels of an uploaded image: upright, and the first frame if there are several.

    Raises DataError for what is not a PNG, JPEG, WebP or GIF, whatever its name, and for more than `most_pixels`.
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
    # A new image, since Pillow writes comments and profiles of the one that it read.
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
        """`clean_image` in a thread, few at a time, since each takes its pixels in memory. Raises DataError."""
        async with self._gate:
            return await asyncio.to_thread(clean_image, content, self._most_pixels)

    def put(self, picture: StoredImage) -> None:
        """Keep it, whole or not at all, on disk when this returns."""
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
        """Its bytes; None for a name that is not a digest, and for an image that is not here."""
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
    """Where it is meant to stand, such as `arena question`."""


@dataclass(frozen=True)
class ModerationVerdict:
    """Whether it may be shown; the sender gets the reason."""

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
        """Return the first refusal, by blocked words or by a moderator, or that the content is allowed.

        A moderator that raises, takes too long, or answers with anything but a ModerationVerdict refuses.
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
        """Return one moderator's verdict; if it fails or takes too long, the contribution is refused for now."""
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
