"""Evaluate a Python function of a question and its images."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

from snellen.common.decoding import decode_image
from snellen.common.images import Images
from snellen.errors import DataError, HookError, ModelError, SnellenError
from snellen.models.base import failed
from snellen.models.object_digest import digested_facts, object_fingerprint
from snellen.records import ImagePart, ImageRef, Request, Response

BATCH_SIZE = 16
"""Questions for which a function that takes several is called at once."""
BATCH_NAMES = frozenset({"questions", "prompts", "texts"})
"""Names of the first parameter of a function that takes several questions."""
ONE_IMAGE_NAMES = frozenset({"image", "picture", "img"})
IMAGE_NAMES = frozenset({*ONE_IMAGE_NAMES, "images", "pictures", "imgs"})
"""Names of a first parameter that show that a function takes its arguments in another order."""


class FunctionModel:
    """A model made of a function of a question and its images.

    The function is `f(question, images)`, which returns the reply. `question` is the complete prompt, with its options
    and instructions. `images` are PIL images in RGB, in the order of the prompt. A function whose first parameter is
    called `questions`, `prompts` or `texts` gets lists of both and returns a list of replies.

    If the second parameter is called `image`, it gets the only image of a question instead of a list. A function whose
    first parameter is called `image` or `images` gets the question second.

    If there are several images, or text before the only one, the prompt has `<image 1>`, `<image 2>` ... at their
    places. A conversation of several turns is written with `USER:` and `ASSISTANT:` before each turn.

    Args:
        function: The function.
        name: Name that results show. By default the name of the function.
        threads: Threads that call the function at the same time.
        batch_size: Questions for which a function of several is called at once.

    Raises:
        ModelError: The function does not take two arguments.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str = "",
        *,
        threads: int = 1,
        batch_size: int = BATCH_SIZE,
    ) -> None:
        self._function = function
        self.name = name or _shown_name(function)
        first, second = _parameters(function, self.name)
        self._takes_images_first = first in IMAGE_NAMES
        question_name, image_name = (second, first) if self._takes_images_first else (first, second)
        self._takes_several = question_name in BATCH_NAMES
        self._takes_one_image = image_name in ONE_IMAGE_NAMES
        self._threads = threads
        self._questions_per_call = batch_size if self._takes_several else 1
        self.batch_size = max(batch_size, threads * self._questions_per_call)

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint that the function declares, or a digest of its code and defaults."""
        function = self._function
        is_plain = inspect.isroutine(function) or isinstance(function, partial)
        if is_plain and not hasattr(function, "fingerprint"):
            return digested_facts({"function": function}, {})
        return object_fingerprint(function)

    def generate(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """Return the replies of the function. A request whose images cannot be read fails on its own."""
        responses: dict[int, Response] = {}
        questions: list[str] = []
        decoded_images: list[list[Any]] = []
        places: list[int] = []
        for place, request in enumerate(requests):
            try:
                decoded = [_decoded(image, images) for image in request.images]
            except DataError as error:
                responses[place] = failed("bad_request", str(error))
                continue
            places.append(place)
            questions.append(prompt_text(request))
            decoded_images.append(decoded)
        for place, reply in zip(places, self._replies(questions, decoded_images), strict=True):
            responses[place] = Response(text=reply, finish="stop")
        return [responses[place] for place in range(len(requests))]

    def _replies(self, questions: list[str], images: list[list[Any]]) -> list[str]:
        """Return the reply to each question, from as many calls at the same time as there are threads."""
        pairs = list(zip(questions, images, strict=True))
        size = self._questions_per_call
        calls = [pairs[start : start + size] for start in range(0, len(pairs), size)]
        if self._threads == 1 or len(calls) < 2:
            replies_by_call = [self._replies_of_call(call) for call in calls]
        else:
            pool = ThreadPoolExecutor(self._threads)
            try:
                replies_by_call = list(pool.map(self._replies_of_call, calls))
            finally:
                pool.shutdown(cancel_futures=True)
        return list(chain.from_iterable(replies_by_call))

    def _replies_of_call(self, pairs: Sequence[tuple[str, list[Any]]]) -> list[str]:
        """Return the replies to the questions and images of one call of the function."""
        if not self._takes_several:
            [(question, decoded_images)] = pairs
            return [self._check_reply(self._call(question, self._only_image(decoded_images)))]
        questions = [question for question, _ in pairs]
        replies = self._call(questions, [decoded_images for _, decoded_images in pairs])
        if isinstance(replies, str) or not isinstance(replies, Iterable):
            raise ModelError(
                f"{self.name} returned {replies!r:.100} for {len(questions)} questions; return a list with a reply for "
                "each, or call its first parameter `question` to get them one by one"
            )
        texts = [self._check_reply(reply) for reply in replies]
        if len(texts) != len(questions):
            raise ModelError(
                f"{self.name} returned {len(texts)} replies for {len(questions)} questions; return one for each"
            )
        return texts

    def _only_image(self, images: list[Any]) -> Any:
        """Return what the second parameter gets: the images, or the only one if it is called `image`."""
        if not self._takes_one_image:
            return images
        if len(images) > 1:
            raise ModelError(
                f"{self.name} takes one image, and a question has {len(images)}; call the parameter `images` to get a "
                "list"
            )
        return images[0] if images else None

    def _call(self, question: Any, images: Any) -> Any:
        try:
            if self._takes_images_first:
                return self._function(images, question)
            return self._function(question, images)
        except SnellenError:
            raise
        except Exception as error:
            raise HookError(f"the model {self.name} failed on a question", error) from error

    def _check_reply(self, reply: Any) -> str:
        if not isinstance(reply, str):
            hint = ""
            if isinstance(reply, list):
                hint = "; a function of several questions calls its first parameter `questions`"
            raise ModelError(
                f"{self.name} returned {reply!r:.100}; return the reply as a str{hint}"
            )
        return reply


def _parameters(function: Callable[..., Any], name: str) -> tuple[str, str]:
    """Return the names of a function's first two parameters. Raises ModelError if it cannot be called with two arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function of C
        return "", ""
    try:
        signature.bind("question", [])
    except TypeError:
        raise ModelError(
            f"{name}{signature} cannot be asked: a function of a model takes the question and a list of PIL images, "
            "f(question, images), and returns the reply"
        ) from None
    first, second, *_ = [*signature.parameters, "", ""]
    return first, second


def _shown_name(function: Callable[..., Any]) -> str:
    """Return the name that results show: that of `def`, or `lambda`, or that of the class of an object."""
    name = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else name


def _decoded(image: ImageRef, images: Images) -> Any:
    return decode_image(images.read(image), f"image {image.digest[:12]}").upright


def prompt_text(request: Request) -> str:
    """Return the prompt of a request as one text, with marks where its images are."""
    first_part = request.messages[0].content[0] if request.messages[0].content else None
    is_marked = len(request.images) > 1 or (
        bool(request.images) and not isinstance(first_part, ImagePart)
    )
    image_number = 0
    turns: list[tuple[str, str]] = []
    for message in request.messages:
        text = ""
        for part in message.content:
            if not isinstance(part, ImagePart):
                text += part.text
                continue
            image_number += 1
            if is_marked:
                text += f"<image {image_number}>"
        turns.append((message.role, text))
    if len(turns) == 1:
        return turns[0][1]
    return "\n".join(f"{role.upper()}: {text}" for role, text in turns)
