"""Evaluate a Python function of a question and its images."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any, NamedTuple

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
MAX_SHOWN_IDS = 3
"""Questions of a failed call that a message names."""
ONE_IMAGE_NAMES = frozenset({"image", "picture", "img"})
IMAGE_NAMES = frozenset({*ONE_IMAGE_NAMES, "images", "pictures", "imgs"})
"""Names of a first parameter that show that a function takes its arguments in another order."""


class _AskedQuestion(NamedTuple):
    """A question with all that the function gets."""

    index: int
    """Place of its request among those of the batch."""
    sample_id: str
    prompt: str
    images: list[Any]


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
        for part in self.generate_in_parts(requests, images):
            responses.update(part)
        return [responses[index] for index in range(len(requests))]

    def generate_in_parts(
        self, requests: Sequence[Request], images: Images
    ) -> Iterator[dict[int, Response]]:
        """Yield the responses of each call of the function by the index of their request, as soon as it returns.

        If a call fails or the user stops the run, the replies of calls that have ended are yielded before the error is
        raised.
        """
        unreadable: dict[int, Response] = {}
        asked: list[_AskedQuestion] = []
        for index, request in enumerate(requests):
            try:
                decoded = [_decoded(image, images) for image in request.images]
            except DataError as error:
                unreadable[index] = failed("bad_request", str(error))
                continue
            asked.append(_AskedQuestion(index, request.sample_id, prompt_text(request), decoded))
        if unreadable:
            yield unreadable

        size = self._questions_per_call
        calls = [asked[start : start + size] for start in range(0, len(asked), size)]
        if self._threads == 1 or len(calls) < 2:
            for call in calls:
                yield self._responses_of_call(call)
        else:
            yield from self._responses_of_threads(calls)

    def _responses_of_threads(
        self, calls: list[list[_AskedQuestion]]
    ) -> Iterator[dict[int, Response]]:
        """Yield the responses of calls of the function, as many of them at the same time as there are threads."""
        pool = ThreadPoolExecutor(self._threads)
        unyielded = {pool.submit(self._responses_of_call, call) for call in calls}
        try:
            for ended in as_completed(tuple(unyielded)):
                responses = ended.result()
                unyielded.remove(ended)
                yield responses
        except GeneratorExit:
            raise
        except BaseException:
            # The calls in progress are awaited, and their replies are kept.
            pool.shutdown(cancel_futures=True)
            for other in unyielded:
                if not other.cancelled() and other.exception() is None:
                    yield other.result()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _responses_of_call(self, asked: Sequence[_AskedQuestion]) -> dict[int, Response]:
        """Call the function with some questions, and return the responses by the index of their request."""
        responses = {}
        for question, reply in zip(asked, self._replies_of_call(asked), strict=True):
            responses[question.index] = Response(text=reply, finish="stop")
        return responses

    def _replies_of_call(self, asked: Sequence[_AskedQuestion]) -> list[str]:
        """Return the replies to the questions of one call of the function."""
        if not self._takes_several:
            [question] = asked
            reply = self._call(
                question.prompt, self._only_image(question.images), f"question {question.sample_id}"
            )
            return [self._check_reply(reply)]
        questions = [question.prompt for question in asked]
        described = describe_questions([question.sample_id for question in asked])
        replies = self._call(questions, [question.images for question in asked], described)
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

    def _call(self, question: Any, images: Any, asked: str) -> Any:
        """Call the function. Raises HookError for its errors, which says what was `asked`."""
        try:
            if self._takes_images_first:
                return self._function(images, question)
            return self._function(question, images)
        except SnellenError:
            raise
        except Exception as error:
            raise HookError(f"the model {self.name} failed on {asked}", error) from error

    def _check_reply(self, reply: Any) -> str:
        if not isinstance(reply, str):
            hint = ""
            if isinstance(reply, list):
                hint = "; a function of several questions calls its first parameter `questions`"
            raise ModelError(
                f"{self.name} returned {reply!r:.100}; return the reply as a str{hint}"
            )
        return reply


def describe_questions(sample_ids: Iterable[str]) -> str:
    """Return the questions of one call as text: `question q7`, or `one of 16 questions (q7, q2, q9, ...)`."""
    distinct = list(dict.fromkeys(sample_ids))
    if len(distinct) == 1:
        return f"question {distinct[0]}"
    more = ", ..." if len(distinct) > MAX_SHOWN_IDS else ""
    return f"one of {len(distinct)} questions ({', '.join(distinct[:MAX_SHOWN_IDS])}{more})"


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
