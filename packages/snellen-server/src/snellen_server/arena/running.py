"""The arena of a running server: draws pairs, has them answered, and streams the replies."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Row

from snellen.plugin_api import (
    EVALUATED,
    DataError,
    Decoding,
    Exchange,
    ImageRef,
    ImageStore,
    Request,
    Response,
    SnellenError,
    Variant,
    find_benchmarks,
    picture_bytes,
    read_exchanges,
    read_manifest,
)
from snellen_server.arena.battles import (
    BattleTurn,
    Contender,
    Side,
    SideReply,
    finish_turn,
    void_battle,
)
from snellen_server.arena.model_pool import (
    ALONE,
    ModelPool,
    ServedModel,
    StoredImages,
    conversation,
    version_of,
)
from snellen_server.arena.settings import ARENA, ArenaSettings, Sampling
from snellen_server.hosting.database import BusyError
from snellen_server.hosting.monitoring import LOGGER
from snellen_server.hosting.pictures import keep_picture
from snellen_server.hosting.services import Services

UNIFORM_SHARE = 0.2
"""The share of draws by need that are uniform, so that no propensity is so small that its inverse blows up."""


@dataclass(frozen=True)
class DrawnPair:
    """Two models on their sides."""

    left: str
    right: str
    propensity: float
    """With which probability these two were drawn, on whichever sides."""


def pair_probabilities(
    pairs: Sequence[tuple[str, str]], votes: Mapping[frozenset[str], int], sampling: Sampling
) -> list[float]:
    """With which probability each of `pairs` (at least one) is drawn.

    `uniform` draws all alike. `need` draws a pair of n votes with a weight of 1 / (n + 1), so that pairs come to
    equal numbers of votes, and one draw in five (`UNIFORM_SHARE`) uniformly.
    """
    if sampling == "uniform":
        return [1 / len(pairs)] * len(pairs)
    weights = [1 / (1 + votes.get(frozenset(pair), 0)) for pair in pairs]
    total = sum(weights)
    return [UNIFORM_SHARE / len(pairs) + (1 - UNIFORM_SHARE) * weight / total for weight in weights]


def draw_pair(
    pairs: Sequence[tuple[str, str]],
    votes: Mapping[frozenset[str], int],
    sampling: Sampling,
    rng: random.Random,
) -> DrawnPair:
    """One of `pairs` by `pair_probabilities`, on random sides."""
    probabilities = pair_probabilities(pairs, votes, sampling)
    [place] = rng.choices(range(len(pairs)), weights=probabilities)
    left, right = rng.sample(pairs[place], 2)
    return DrawnPair(left, right, probabilities[place])


Sides = dict[Side, ServedModel]
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif")


@dataclass(frozen=True)
class ExamplePicture:
    """A picture to try, with a question about it where there is one."""

    digest: str
    question: str
    width: int
    height: int


@dataclass
class ReplyProgress:
    """What has come of the replies to one question. One task writes, and any number of streams read."""

    texts: dict[Side, str] = field(default_factory=dict)
    ended: set[Side] = field(default_factory=set)
    outcome: dict[str, Any] | None = None
    """What became of the question: `{"state": "answered", "token": ...}`, or `{"state": "voided", "message": ...}`."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the next change, and another's from then on: who takes it before reading misses nothing."""

    def tell(self, side: Side, text: str) -> None:
        self.texts[side] = text
        self._wake()

    def end(self, outcome: dict[str, Any]) -> None:
        self.outcome = outcome
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Arena:
    """What the feature holds while the server runs."""

    def __init__(self, services: Services, settings: ArenaSettings) -> None:
        self.services, self.settings = services, settings
        self.pool = ModelPool(settings)
        self.examples: tuple[ExamplePicture, ...] = ()
        self.recorded = RecordedReplies()
        self.pair_votes: Mapping[frozenset[str], int] = {}
        """Votes of people on each pair of models, as of the last rating."""
        self._images = StoredImages(services.pictures)
        self._random = random.SystemRandom()
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: dict[str, ReplyProgress] = {}
        """By battle, of those whose replies still come."""

    # --- pairs ---------------------------------------------------------------------------------------------------

    def draw(self) -> DrawnPair:
        """Two models that have room, for a battle. Raises BusyError when there are not two."""
        available = sorted(self.pool.available)
        if len(available) < 2:
            raise BusyError(
                self.pool.why_no_battle
                or "the models have more questions than they can answer; ask again soon"
            )
        pairs = list(combinations(available, 2))
        return draw_pair(pairs, self.pair_votes, self.settings.sampling, self._random)

    def draw_recorded(self) -> tuple[DrawnPair, bytes]:
        """Two models that runs have asked the same, and the question. Raises DataError when there are none."""
        pairs = list(self.recorded.shared)
        if not pairs:
            raise DataError("this arena has no replies of runs to vote on")
        pair = draw_pair(pairs, self.pair_votes, self.settings.sampling, self._random)
        shared = self.recorded.shared
        keys = shared.get((pair.left, pair.right)) or shared[pair.right, pair.left]
        return pair, self._random.choice(keys)

    def model(self, name: str) -> ServedModel:
        """A model that can be asked. Raises DataError, BusyError, without its name, which a battle may hide."""
        served_model = self.pool.models.get(name)
        if served_model is None:
            raise DataError("a model of this name is not here, or not any more")
        if not served_model.replies:
            raise BusyError("a model cannot be asked just now; ask again in a moment")
        return served_model

    def contender(self, name: str) -> Contender:
        """The same as a battle records it."""
        return Contender(name, self.model(name).version)

    # --- questions -----------------------------------------------------------------------------------------------

    @contextmanager
    def reserved(self, left: str, right: str) -> Iterator[Sides]:
        """The models of both sides, each with a place in its queue, which is given back when the block fails; one
        alone stands on the left. Raises BusyError when a model has no room, DataError for an unknown one."""
        sides: Sides = {"left": self.model(left)}
        if right:
            sides["right"] = self.model(right)
        reserved_models = list[ServedModel]()
        try:
            for model in sides.values():
                model.reserve()
                reserved_models.append(model)
            yield sides
        except BaseException:
            for model in reserved_models:
                model.give_back()
            raise

    def answer(
        self, name: str, sides: Sides, turns: Sequence[BattleTurn], image: ImageRef | None
    ) -> ReplyProgress:
        """Have the last question of a battle answered by models that were reserved, and record what comes of it."""
        progress = self._under_way[name] = ReplyProgress()
        self._run(self._settle(name, sides, turns, image, progress))
        return progress

    def under_way(self, name: str) -> ReplyProgress | None:
        """The replies to the last question of a battle, while they come."""
        return self._under_way.get(name)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it to its end, whether or not anybody listens: a battle is settled even when its page was closed."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(
        self,
        name: str,
        sides: Sides,
        turns: Sequence[BattleTurn],
        image: ImageRef | None,
        progress: ReplyProgress,
    ) -> None:
        try:
            answers = await asyncio.gather(
                *(self._side(side, model, turns, image, progress) for side, model in sides.items())
            )
            replies = dict(zip(sides, answers, strict=True))
            progress.end(await self._record(name, sides, turns, replies))
        except Exception as error:  # the stream that waits must hear of the end, whatever it is
            LOGGER.exception("battle not settled", extra={"facts": {"error": type(error).__name__}})
            progress.end(
                {"state": "voided", "message": "something went wrong here; begin another battle"}
            )
        finally:
            if (
                self._under_way.get(name) is progress
            ):  # the next question may have been asked already
                del self._under_way[name]

    async def _side(
        self,
        side: Side,
        model: ServedModel,
        turns: Sequence[BattleTurn],
        image: ImageRef | None,
        progress: ReplyProgress,
    ) -> tuple[Response, float]:
        *earlier, last = turns
        history = [
            (turn.prompt, reply.text if (reply := getattr(turn, side)) else "") for turn in earlier
        ]
        messages = conversation(history, last.prompt, image)
        request = Request("arena", "", Variant(turn=len(earlier)), messages, decoding=Decoding())
        response, waited = await model.answer(
            request, self._images, lambda text: progress.tell(side, text)
        )
        self.services.metrics["snellen_arena_reply_seconds"].labels(model.name).observe(
            response.seconds or 0.0
        )
        if response.error is None:
            progress.ended.add(side)
            progress.tell(side, response.text or "")
        return response, waited

    async def _record(
        self,
        name: str,
        sides: Sides,
        turns: Sequence[BattleTurn],
        answers: Mapping[Side, tuple[Response, float]],
    ) -> dict[str, Any]:
        replies = {
            side: SideReply(response.text or "", response.seconds, waited, response.finish)
            for side, (response, waited) in answers.items()
            if response.error is None
        }
        *earlier, last = turns
        settled = [*earlier, BattleTurn(last.prompt, **replies)]
        count = self.services.metrics["snellen_arena_battles"]
        if faults := [
            f"{sides[side].name}: {response.error.kind}"
            for side, (response, _) in answers.items()
            if response.error
        ]:
            fault = "; ".join(faults)
            await self.services.database.write(void_battle, name, settled, fault)
            count.labels("voided").inc()
            return {
                "state": "voided",
                "message": "a model failed, so this battle is void; begin another",
            }
        signer = self.services.signer
        token = await self.services.database.write(finish_turn, signer, name, settled)
        if token is None:
            message = (
                "this battle is void: it took too long, or you have begun another; begin a new one"
            )
            return {"state": "voided", "message": message}
        count.labels("answered").inc()
        return {"state": "answered", "token": token}

    # --- start and end -------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Load models, examples and replies of runs, each as it can be had; what fails is logged and left out."""
        if len(self.settings.models) == 1:
            LOGGER.warning(ALONE)
        self.pool.start()
        self._run(self._gather_examples())
        if self.settings.runs:
            self._run(self._gather_recorded())

    async def close(self) -> None:
        """Wait for the battles under way, as long as a stop waits for answers, and let go of the models."""
        if self._tasks:
            _, late = await asyncio.wait(
                self._tasks, timeout=self.services.configuration.grace_seconds
            )
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.pool.close()

    async def _gather_recorded(self) -> None:
        try:
            self.recorded = await asyncio.to_thread(
                read_recorded, [Path(run) for run in self.settings.runs]
            )
        except SnellenError as error:
            LOGGER.error("replies of runs cannot be read", extra={"facts": {"error": str(error)}})

    async def _gather_examples(self) -> None:
        pictures = list[ExamplePicture]()
        for source in self.settings.examples:
            try:
                for content, question in await asyncio.to_thread(
                    _pictures_of, source, self.settings.examples_each
                ):
                    stored = await keep_picture(self.services, content)
                    pictures.append(
                        ExamplePicture(stored.digest, question, stored.width, stored.height)
                    )
            except SnellenError as error:
                LOGGER.error(
                    "examples cannot be read",
                    extra={"facts": {"source": source, "error": str(error)}},
                )
        self.examples = tuple(pictures)


def turns_of(battle: Row[Any]) -> list[BattleTurn]:
    """What was asked and replied in a battle, as records."""
    return msgspec.convert(battle.turns, list[BattleTurn])


@asynccontextmanager
async def open_arena(services: Services) -> AsyncIterator[Arena]:
    """The arena of a server, for as long as that runs."""
    arena = Arena(services, services.settings(ARENA))
    await arena.prepare()
    try:
        yield arena
    finally:
        await arena.close()


def arena_of(services: Services) -> Arena:
    arena: Arena = services.held[ARENA]
    return arena


def _pictures_of(source: str, most: int) -> list[tuple[bytes, str]]:
    """The first pictures of a folder, or of a benchmark with a question about each. Raises SnellenError."""
    folder = Path(source).expanduser()
    if files := sorted(file for file in folder.glob("*") if file.suffix.lower() in PICTURE_ENDINGS):
        return [(picture_bytes(file, source), "") for file in files[:most]]
    pictures = list[tuple[bytes, str]]()
    for selected in find_benchmarks([source]):
        for sample in selected.benchmark.samples():
            if len(pictures) == most:
                break
            if len(sample.images) == 1:
                pictures.append(
                    (selected.benchmark.images.read(sample.images[0]), sample.rounds[0].question)
                )
    return pictures


# --- recorded replies ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordedQuestion:
    """What was asked, of which sample."""

    benchmark: str
    sample: str
    prompt: str
    image: ImageRef | None
    images: ImageStore | None
    """Where the picture lies."""


@dataclass(frozen=True)
class RecordedReplies:
    """The replies of some runs, by what was asked."""

    contenders: Mapping[str, Contender] = field(default_factory=dict)
    """The model of each run, by its name with its version."""
    questions: Mapping[bytes, RecordedQuestion] = field(default_factory=dict)
    replies: Mapping[str, Mapping[bytes, str]] = field(default_factory=dict)
    """By contender, what it replied to which question."""
    shared: Mapping[tuple[str, str], Sequence[bytes]] = field(default_factory=dict)
    """Pairs of contenders, with the questions that both were asked."""


def read_recorded(folders: Sequence[Path]) -> RecordedReplies:
    """The replies of the runs in `folders`: those in words, to the first presentation of a question about one picture
    or none. Of two runs of one model the first counts. Raises StoreError for what is not a run."""
    contenders, questions = dict[str, Contender](), dict[bytes, RecordedQuestion]()
    replies = dict[str, dict[bytes, str]]()
    for folder in folders:
        manifest = read_manifest(folder)
        contender = Contender(manifest.model[:200], version_of(manifest.fingerprint))
        label = f"{contender.name}@{contender.version}"
        stores = {use.name: ImageStore(Path(use.folder) / "images") for use in manifest.benchmarks}
        model_replies = replies.setdefault(label, {})
        contenders[label] = contender
        for exchange in read_exchanges(folder):
            if _is_shown(exchange):
                request = exchange.request
                key = hashlib.blake2b(
                    msgspec.json.encode(request.messages), digest_size=16
                ).digest()
                model_replies.setdefault(key, _whole_reply(exchange))
                image = request.images[0] if request.images else None
                store = stores.get(request.benchmark)
                prompt = next(
                    (
                        message.text
                        for message in reversed(request.messages)
                        if message.role == "user"
                    ),
                    "",
                )
                question = RecordedQuestion(
                    request.benchmark, request.sample_id, prompt, image, store
                )
                questions.setdefault(key, question)
    shared = {
        (first, second): sorted(replies[first].keys() & replies[second].keys())
        for first, second in combinations(replies, 2)
    }
    return RecordedReplies(
        contenders, questions, replies, {pair: keys for pair, keys in shared.items() if keys}
    )


def _is_shown(exchange: Exchange) -> bool:
    request, response, variant = exchange.request, exchange.response, exchange.request.variant
    return (
        request.kind == "generate"
        and request.role == EVALUATED
        and response.error is None
        and response.text is not None
        and variant.step is None
        and variant.test == variant.turn == 0
        and not variant.baseline
        and len(request.images) <= 1
    )


def _whole_reply(exchange: Exchange) -> str:
    """What the model said, behind the beginning that it was given to continue."""
    last, text = exchange.request.messages[-1], exchange.response.text or ""
    if last.role != "assistant":
        return text
    beginning = last.text.rstrip()
    return beginning + ("" if beginning.endswith("(") else " ") + text.lstrip()
