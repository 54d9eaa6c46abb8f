"""The models of an arena. Each has a queue of limited length and a time limit for its replies."""

from __future__ import annotations

import asyncio
import hashlib
import io
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import msgspec
from msgspec.structs import replace
from PIL import Image

from snellen import DataError, Decoding, Request, Response, SnellenError, load_model
from snellen.plugin_api import (
    AsyncModel,
    AsyncStreamingModel,
    Failure,
    ImagePart,
    ImageRef,
    Images,
    Message,
    Model,
    ReplyListener,
    StreamingModel,
    TextPart,
    Variant,
    identity_of,
)
from snellen_server.arena.settings import ArenaModel, ArenaSettings
from snellen_server.hosting.contributions import PictureStore
from snellen_server.hosting.database import BusyError
from snellen_server.hosting.monitoring import LOGGER

FAILURES_BEFORE_PAUSE = 3
"""Failures in a row after which a model is left out of battles, until it replies to a trial."""
TRIAL_SECONDS = 30.0
"""The pause between two trials of a model."""
IDLE_CHECK_SECONDS = 1.0
"""Pause between two looks at whether a removed model has answered all of its questions."""
OPENED_BY = ("model", "concurrency", "waiting")
"""Settings with which a model is opened; where one changes, it is opened anew."""
TRIAL_QUESTION = "Which colour is this? Reply with one word."

ALONE = "the arena has one model, but battles need two"


def version_of(fingerprint: Mapping[str, str]) -> str:
    """Return a short digest of everything that a model's answers depend on; ratings treat versions as different models."""
    return hashlib.sha256(msgspec.json.encode(fingerprint, order="sorted")).hexdigest()[:12]


class StoredImages:
    """Gives models access to the images that people have uploaded."""

    def __init__(self, store: PictureStore) -> None:
        self._store = store

    def read(self, image: ImageRef) -> bytes:
        """Return the bytes of an uploaded image. Raises DataError if it was deleted since."""
        content = self._store.read(image.digest)
        if content is None:
            raise DataError(f"the image {image.digest[:12]} is no longer available")
        return content


class TrialImage:
    """A small image for trial questions, which test whether a model replies at all.

    It is sent like an image of a battle, so that a trial fails whenever a battle would.
    """

    def __init__(self) -> None:
        """Draw a red square of 64 x 64 pixels."""
        file = io.BytesIO()
        Image.new("RGB", (64, 64), "red").save(file, "PNG")
        self._content = file.getvalue()
        digest = hashlib.sha256(self._content).hexdigest()
        self.image = ImageRef(digest, "image/png", 64, 64)

    def read(self, image: ImageRef) -> bytes:
        return self._content


class LocalThread:
    """The single thread in which all models of this process run, and a lock for taking turns in it."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(1, "snellen-model")
        self.gate = asyncio.Semaphore(1)


class ServedModel:
    """A model of the arena with its queue. Its methods must be called in the server's event loop."""

    def __init__(self, settings: ArenaModel, local: LocalThread) -> None:
        """Prepare a model without loading it; `local` is the thread on which models of this machine run."""
        self.settings, self._local = settings, local
        self.state: Literal["loading", "ready", "failed"] = "loading"
        self.version = ""
        """A digest of all that its answers depend on."""
        self._model: Model | AsyncModel | None = None
        self._taken = 0
        self._gate = asyncio.Semaphore(settings.concurrency)
        self._failures = 0
        self._trials: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def is_available(self) -> bool:
        """Return whether the model replies and its queue has room for another question."""
        return self.replies and self.has_room

    @property
    def replies(self) -> bool:
        """Return whether the model is open, not retired, and has not failed several times in a row."""
        return (
            self.state == "ready"
            and not self.settings.retired
            and self._failures < FAILURES_BEFORE_PAUSE
        )

    @property
    def has_room(self) -> bool:
        return self._taken < self.settings.concurrency + self.settings.waiting

    async def load(self) -> None:
        """Open the model.

        If that fails, the error is logged and the model takes no part in battles. A model behind an
        API must also answer a trial question, because a wrong address or key shows only then.
        """
        try:
            opening = asyncio.get_running_loop().run_in_executor(
                self._local.executor, load_model, self.settings.model
            )
            model = (await opening).model
            self._model = model
            identity = await asyncio.to_thread(identity_of, model)
        except (SnellenError, OSError, ImportError, RuntimeError) as error:
            self.state = "failed"
            LOGGER.error(
                "model cannot be opened", extra={"facts": {"model": self.name, "error": str(error)}}
            )
            return
        self.version = version_of(identity.fingerprint)
        if isinstance(self._model, AsyncModel):
            # Opening such a model sends no request, so a wrong address or key is noticed only when it is asked.
            if not await self._passes_trial():
                self._leave_out()
        else:
            self._gate = self._local.gate
        self.state = "ready"

    def _leave_out(self) -> None:
        """Exclude the model from battles until it answers a trial question."""
        self._failures = FAILURES_BEFORE_PAUSE
        if self._trials is None:
            self._trials = asyncio.create_task(self._try_again())

    async def _try_again(self) -> None:
        """After too many failures, ask a trial question at intervals until the model answers it."""
        while self._failures >= FAILURES_BEFORE_PAUSE:
            await asyncio.sleep(TRIAL_SECONDS)
            if await self._passes_trial():
                self._failures = 0
        self._trials = None

    async def _passes_trial(self) -> bool:
        """Ask the model a trial question, as a battle would, and return whether it replied."""
        picture = TrialImage()
        messages = conversation([], TRIAL_QUESTION, [picture.image])
        request = Request("arena", "trial", Variant(), messages, decoding=Decoding())
        async with self._gate:
            response = await self._answer(request, picture, lambda text: None)
        if response.error is not None:
            facts = {"model": self.name, "error": response.error.kind}
            LOGGER.warning("a model fails its trial", extra={"facts": facts})
        return response.error is None

    async def close_when_idle(self) -> None:
        """Wait until the model has answered all questions in its queue, then close it."""
        while self._taken:
            await asyncio.sleep(IDLE_CHECK_SECONDS)
        await self.close()

    async def close(self) -> None:
        """Stop the trial questions, and close the model's connections."""
        if self._trials is not None:
            self._trials.cancel()
            await asyncio.gather(self._trials, return_exceptions=True)
        if isinstance(self._model, AsyncModel):
            await self._model.close()

    def reserve(self) -> None:
        """Take a place in the model's queue, which `answer` frees again.

        Raises BusyError if the queue is full.
        """
        if not self.has_room:
            raise BusyError("the models are busy; try again in a moment")
        self._taken += 1

    def give_back(self) -> None:
        """Free a place in the queue that `reserve` took, if no question is asked after all."""
        self._taken -= 1

    async def answer(
        self, request: Request, images: Images, listener: ReplyListener
    ) -> tuple[Response, float]:
        """Ask the model a question for which `reserve` took a place, and free the place.

        Returns:
            The response, and the seconds that the question waited in the queue. If the model fails,
            the response contains the error.
        """
        started_at = time.monotonic()
        try:
            async with self._gate:
                waited = time.monotonic() - started_at
                response = await self._answer(request, images, listener)
        finally:
            self.give_back()
        if response.error is None:
            self._failures = 0
        else:
            LOGGER.warning(
                "a model failed",
                extra={"facts": {"model": self.name, "error": response.error.kind}},
            )
            self._failures += 1
            if self._failures >= FAILURES_BEFORE_PAUSE:
                self._leave_out()
        seconds = time.monotonic() - started_at - waited
        return replace(response, seconds=seconds), waited

    async def _answer(self, request: Request, images: Images, listener: ReplyListener) -> Response:
        """Ask the model within its time limit; every failure becomes a response with an error."""
        decoding = replace(request.decoding, max_new_tokens=self.settings.reply_tokens)
        decoded_request = replace(request, decoding=decoding)
        working = asyncio.ensure_future(self._ask(decoded_request, images, listener))
        try:
            async with asyncio.timeout(self.settings.seconds):
                return await asyncio.shield(working)
        except TimeoutError:
            working.cancel()
            return Response(
                error=Failure("timeout", f"no reply within {self.settings.seconds:g} s")
            )
        except (
            Exception
        ) as error:  # whatever a model raises, the battle ends and the server goes on
            LOGGER.exception("model failed", extra={"facts": {"model": self.name}})
            return Response(error=Failure("model", f"{type(error).__name__}: {error}"))

    async def _ask(self, request: Request, images: Images, listener: ReplyListener) -> Response:
        """Ask the model, and return its response.

        If the model can stream, `listener` receives the text so far while the reply grows. It is
        always called in the event loop, also for a model that runs in a thread.
        """
        model, loop = self._model, asyncio.get_running_loop()
        if model is None:
            return Response(error=Failure("model", "it is not open"))
        if isinstance(model, AsyncStreamingModel):
            return await model.ask_streaming(request, images, listener)
        if isinstance(model, AsyncModel):
            return await model.ask(request, images)

        def tell(text: str) -> None:
            loop.call_soon_threadsafe(listener, text)

        return await loop.run_in_executor(
            self._local.executor, _run_local_model, model, request, images, tell
        )


def _run_local_model(
    model: Model, request: Request, images: Images, listener: ReplyListener
) -> Response:
    """Run a local model on one request. This must run in the thread of `LocalThread`."""
    if isinstance(model, StreamingModel):
        return model.generate_streaming(request, images, listener)
    [response] = model.generate([request], images)
    return response


def _is_opened_alike(first: ArenaModel, second: ArenaModel) -> bool:
    return all(getattr(first, name) == getattr(second, name) for name in OPENED_BY)


class ModelPool:
    """All models of an arena.

    Models that run in this process share one thread, so that only one of them writes at a time.
    """

    def __init__(self, settings: ArenaSettings) -> None:
        """Prepare the arena's models, and the judge model if one is configured, without loading them."""
        self._local = LocalThread()
        self.models: dict[str, ServedModel] = {
            model.name: ServedModel(model, self._local) for model in settings.models
        }
        self.judge: ServedModel | None = None
        judge = settings.judge
        if judge is not None:
            judging = ArenaModel(name=judge.name, model=judge.model, seconds=judge.seconds)
            self.judge = ServedModel(judging, self._local)
        self._loading: list[asyncio.Task[None]] = []
        self._closing: set[asyncio.Task[None]] = set()

    def change(self, models: Sequence[ArenaModel]) -> None:
        """Replace the arena's models by new settings while the server runs.

        New models are opened. Removed ones are closed when they have answered their questions. A
        model of the same name is only opened again if a setting in `OPENED_BY` differs.
        """
        kept: dict[str, ServedModel] = {}
        for settings in models:
            served = self.models.get(settings.name)
            if served is not None and _is_opened_alike(served.settings, settings):
                served.settings = settings
            else:
                served = ServedModel(settings, self._local)
                self._loading.append(asyncio.create_task(served.load()))
            kept[settings.name] = served
        removed = [served for name, served in self.models.items() if kept.get(name) is not served]
        self.models = kept
        for served in removed:
            closing = asyncio.create_task(served.close_when_idle())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def start(self) -> None:
        """Begin to load all models. Each can be asked as soon as it is loaded."""
        self._loading = [asyncio.create_task(model.load()) for model in self._all]

    @property
    def _all(self) -> Sequence[ServedModel]:
        return (*self.models.values(), *([self.judge] if self.judge else []))

    @property
    def available(self) -> Sequence[str]:
        """Return the names of the models that can take a question now."""
        return [name for name, model in self.models.items() if model.is_available]

    @property
    def is_loading(self) -> bool:
        """Return whether any model is still being loaded."""
        return any(model.state == "loading" for model in self.models.values())

    @property
    def fault(self) -> str | None:
        """Return why no battle is possible, as a sentence for visitors; None if nothing is wrong.

        An arena with fewer than two models is not a fault but the operator's choice.
        """
        if len(self.models) < 2 or sum(model.replies for model in self.models.values()) >= 2:
            return None
        if self.is_loading:
            return "its models are being loaded"
        if sum(model.state == "ready" for model in self.models.values()) >= 2:
            return (
                "fewer than two of its models reply; those that fail are tried again twice a minute"
            )
        return "fewer than two of its models could be opened; the log states the reason"

    @property
    def why_no_battle(self) -> str:
        """Return why no battle is possible, as a sentence for visitors.

        Unlike `fault`, this includes the case of an arena with a single model. It is "" if nothing
        is wrong.
        """
        return self.fault or (ALONE if len(self.models) == 1 else "")

    async def close(self) -> None:
        """Close all models without waiting for those that are being loaded or are writing a reply."""
        tasks = [*self._loading, *self._closing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for model in self._all:
            await model.close()
        self._local.executor.shutdown(wait=False, cancel_futures=True)


def conversation(
    turns: Sequence[tuple[str, str]], question: str, images: Sequence[ImageRef]
) -> tuple[Message, ...]:
    """Return the messages of a chat: earlier questions with the model's replies, then the new question.

    Args:
        turns: Pairs of an earlier question and its reply.
        question: The new question.
        images: The images that the chat is about; they are put before the first question, in order.
    """
    messages: list[Message] = []
    for prompt, reply in turns:
        messages.append(Message("user", (TextPart(prompt),)))
        messages.append(Message("assistant", (TextPart(reply),)))
    messages.append(Message("user", (TextPart(question),)))
    first = messages[0]
    image_parts = [ImagePart(image) for image in images]
    messages[0] = replace(first, content=(*image_parts, *first.content))
    return tuple(messages)
