"""A vision-language model that decides whether images and texts that people send may be shown."""

from __future__ import annotations

import asyncio
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor

from snellen import Decoding, Request, Response, load_model
from snellen.plugin_api import (
    AsyncModel,
    ImagePart,
    ImageRef,
    Message,
    Model,
    TextPart,
    Variant,
    decode_image,
)
from snellen_server.hosting.contributions import UNAVAILABLE, Contribution, ModerationVerdict

QUESTION = """Does this {kind} fit a public website? It does not if it shows or asks for any of these: nudity or sex, \
sexual content about children, graphic violence, self-harm, hatred of a group of people, instructions for weapons or drugs, \
private documents of a person.{text}

Answer with one word: safe or unsafe."""
"""What the model is asked. Guard models that know only their own form answer with the same two words."""


class ContributedImage:
    """The image of a contribution, as models ask for it."""

    def __init__(self, contribution: Contribution) -> None:
        """Read what the image of a contribution is: a PNG or a JPEG. A text has none."""
        self.content = contribution.image
        self.refs: tuple[ImageRef, ...] = ()
        if self.content:
            pixels = decode_image(self.content, "the image").upright
            is_png = self.content.startswith(b"\x89PNG")
            media_type = "image/png" if is_png else "image/jpeg"
            digest = hashlib.sha256(self.content).hexdigest()
            self.refs = (ImageRef(digest, media_type, pixels.width, pixels.height),)

    def read(self, image: ImageRef) -> bytes:
        """Return the bytes of the image; a request can only name this one."""
        return self.content


class ModelModerator:
    """Asks a model of Snellen's, such as `openai:meta-llama/Llama-Guard-4-12B@http://localhost:8000/v1`.

    The model is opened when something is to be judged for the first time. Only the reply "safe" lets a contribution
    pass: everything else, a failure included, refuses it.
    """

    def __init__(self, model: str) -> None:
        """Prepare to ask the model with this model string; nothing is loaded yet."""
        self._model_string = model
        self._loading: asyncio.Future[Model | AsyncModel] | None = None
        # Local models answer in one thread, one question after the other.
        self._executor = ThreadPoolExecutor(1, "snellen-moderator")

    async def judge(self, contribution: Contribution) -> ModerationVerdict:
        """Return the model's verdict on a text or an image.

        Raises:
            SnellenError: The model cannot be opened.
        """
        model = await self._get_model()
        images = await asyncio.to_thread(ContributedImage, contribution)  # decoding is slow
        text = f"\n\nThe text: {contribution.text}" if contribution.kind == "text" else ""
        question = QUESTION.format(kind=contribution.kind, text=text)
        image_parts = [ImagePart(image) for image in images.refs]
        message = Message("user", (*image_parts, TextPart(question)))
        request = Request(
            "moderation",
            "",
            Variant(),
            (message,),
            decoding=Decoding(max_new_tokens=8),
        )
        if isinstance(model, AsyncModel):
            response = await model.ask(request, images)
        else:
            loop = asyncio.get_running_loop()
            [response] = await loop.run_in_executor(
                self._executor, model.generate, [request], images
            )
        return read_verdict(response, contribution.kind)

    async def _get_model(self) -> Model | AsyncModel:
        """Return the model. Load it first if it is not loaded or an earlier attempt failed.

        Loading goes on if the wait for it is cancelled, so that a large model is ready for one of the next contributions.
        """
        loading = self._loading
        if loading is None or (loading.done() and loading.exception()):
            loop = asyncio.get_running_loop()
            loading = loop.run_in_executor(self._executor, self._load)
            self._loading = loading
        return await asyncio.shield(loading)

    def _load(self) -> Model | AsyncModel:
        return load_model(self._model_string).model

    async def close(self) -> None:
        """Close the connections of a model behind a network, and stop the thread of local ones."""
        if self._loading is not None and self._loading.done() and not self._loading.exception():
            model = self._loading.result()
            if isinstance(model, AsyncModel):
                await model.close()
        self._executor.shutdown(wait=False, cancel_futures=True)


def read_verdict(response: Response, kind: str) -> ModerationVerdict:
    """Return the verdict that a reply states: its only word is "safe", or one of its words is "unsafe".

    Any other reply refuses for now. It may repeat the question before its answer ("safe or unsafe: unsafe"), or be cut
    before it is complete.

    >>> read_verdict(Response(text="safe"), "image").is_allowed
    True
    >>> read_verdict(Response(text="unsafe\\nS12"), "image").reason
    'this server does not accept such images'
    """
    words = re.findall(r"[a-z]+", (response.text or "").lower())
    if response.error is not None or not words:
        return UNAVAILABLE
    if "unsafe" in words:
        return ModerationVerdict(False, f"this server does not accept such {kind}s")
    return ModerationVerdict(True) if words == ["safe"] else UNAVAILABLE
