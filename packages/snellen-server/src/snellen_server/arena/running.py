"""The arena of a running server: draws pairs of models, collects their replies and streams them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Row

from snellen import DataError, Decoding, Request, Response, SnellenError
from snellen.plugin_api import (
    EVALUATED,
    Exchange,
    ImagePart,
    ImageRef,
    ImageStore,
    Variant,
    find_benchmarks,
    image_bytes,
    read_exchanges,
    read_manifest,
)
from snellen_server.arena.battles import (
    BattleKind,
    BattleTurn,
    Contender,
    NewBattle,
    Side,
    SideReply,
    VoteFacts,
    finish_turn,
    void_battle,
)
from snellen_server.arena.languages import language_of
from snellen_server.arena.leaks import identity_leak, names_pattern
from snellen_server.arena.model_pool import (
    ALONE,
    ModelPool,
    ServedModel,
    StoredImages,
    conversation,
    version_of,
)
from snellen_server.arena.settings import (
    ARENA,
    MAX_IMAGES,
    ArenaModel,
    ArenaSettings,
    Honeypot,
    Sampling,
)
from snellen_server.arena.spending import Spending
from snellen_server.arena.voters import (
    current_period,
    network_key,
    network_pseudonym,
    question_digest,
)
from snellen_server.arena_ratings.style import SIDES, style_of
from snellen_server.hosting.database import BusyError
from snellen_server.hosting.monitoring import LOGGER
from snellen_server.hosting.pictures import keep_image
from snellen_server.hosting.services import Services

UNIFORM_SHARE = 0.2
"""Share of uniform draws with sampling by need. It bounds propensities from below, by which votes are divided."""


@dataclass(frozen=True)
class DrawnPair:
    """Two models, drawn at random, and the sides on which they are shown."""

    left: str
    right: str
    propensity: float
    """Probability of drawing this pair, regardless of sides."""


def pair_probabilities(
    pairs: Sequence[tuple[str, str]],
    votes: Mapping[frozenset[str], int],
    sampling: Sampling,
    boosts: Mapping[str, float] | None = None,
) -> list[float]:
    """Return the probability of drawing each of `pairs`, of which there must be at least one.

    With the sampling `uniform`, all pairs are equally likely. With `need`, the probability of a pair with n votes is
    proportional to 1 / (n + 1), so that the numbers of votes become equal, and one draw in five (`UNIFORM_SHARE`) is
    uniform. With either, the probability of a pair is then multiplied by the larger boost of its two models.

    Args:
        pairs: Pairs of model names.
        votes: Number of votes on each pair.
        sampling: How pairs are drawn.
        boosts: A factor for each model; 1 for a model that is not in it.
    """
    if sampling == "uniform":
        probabilities = [1 / len(pairs)] * len(pairs)
    else:
        needs = [1 / (1 + votes.get(frozenset(pair), 0)) for pair in pairs]
        total_need = sum(needs)
        uniform = UNIFORM_SHARE / len(pairs)
        probabilities = [uniform + (1 - UNIFORM_SHARE) * need / total_need for need in needs]
    if not boosts:
        return probabilities

    boosted: list[float] = []
    for (left, right), probability in zip(pairs, probabilities, strict=True):
        factor = max(boosts.get(left, 1.0), boosts.get(right, 1.0))
        boosted.append(probability * factor)
    total = sum(boosted)
    return [probability / total for probability in boosted]


def draw_pair(
    pairs: Sequence[tuple[str, str]],
    votes: Mapping[frozenset[str], int],
    sampling: Sampling,
    rng: random.Random,
    boosts: Mapping[str, float] | None = None,
) -> DrawnPair:
    """Draw a pair of models, and at random which of them is on the left.

    The probabilities are those of `pair_probabilities`, which also describes the arguments.
    """
    probabilities = pair_probabilities(pairs, votes, sampling, boosts)
    index = rng.choices(range(len(pairs)), weights=probabilities)[0]
    left, right = rng.sample(pairs[index], 2)
    return DrawnPair(left, right, probabilities[index])


Sides = dict[Side, ServedModel]
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif")


@dataclass(frozen=True)
class ExampleImage:
    """An example image that the operator offers to visitors, with a question about it or ""."""

    digest: str
    question: str
    width: int
    height: int


@dataclass
class ReplyProgress:
    """The replies to a question so far. One task writes them; any number of web streams read them."""

    texts: dict[Side, str] = field(default_factory=dict)
    ended: set[Side] = field(default_factory=set)
    outcome: dict[str, Any] | None = None
    """How the question ended: `{"state": "answered", "token": ...}`, or `{"state": "voided", "message": ...}`."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the next change and then replaced by a new event. Take it before reading, so that no change is missed."""

    def tell(self, side: Side, text: str) -> None:
        self.texts[side] = text
        self._wake()

    def end(self, outcome: dict[str, Any]) -> None:
        self.outcome = outcome
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


@dataclass(frozen=True)
class PlacedHoneypot:
    """A honeypot (a prepared battle that tests voters) with the digest of its image, if any."""

    honeypot: Honeypot
    digests: tuple[str, ...]


UNAVAILABLE = "a model is not available right now; try again in a moment"
RECITED_WORDS_A_SECOND = 40.0
"""Speed at which the known replies of a honeypot are streamed."""
MAX_RECITAL_SECONDS = 6.0
"""Longest time for such a reply, in seconds."""


class Arena:
    """State of the arena while the server runs: models, examples, honeypots and battles in progress."""

    def __init__(self, services: Services, settings: ArenaSettings) -> None:
        """Prepare the arena of a server; nothing is loaded or started yet."""
        self.services = services
        self.settings = settings
        self.pool = ModelPool(settings)
        self.file_changed_at = 0
        """Time of the last change of the file of settings that was looked at, in nanoseconds (`arena.reloading`)."""
        self.examples: tuple[ExampleImage, ...] = ()
        self.recorded = RecordedReplies()
        self.spending = Spending(settings, services.configuration.folder, services.database)
        self.honeypots: tuple[PlacedHoneypot, ...] = ()
        self.leak_patterns = leak_patterns(settings)
        self._network_key: tuple[int, bytes] | None = None
        self.pair_votes: Mapping[frozenset[str], int] = {}
        """Number of people's votes on each pair of models, as of the last rating."""
        self._images = StoredImages(services.pictures)
        self._random = random.SystemRandom()
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: dict[str, ReplyProgress] = {}
        """Battles whose replies are still being streamed, by name."""

    # --- pairs ---------------------------------------------------------------------------------------------------

    def draw(self) -> DrawnPair:
        """Draw two models with free capacity for a battle. Raises BusyError if there are fewer than two."""
        available = sorted(self.pool.available)
        if len(available) < 2:
            raise BusyError(self.pool.why_no_battle or "the models are busy; try again soon")
        pairs = list(combinations(available, 2))
        boosts = {model.name: model.boost for model in self.settings.models}
        return draw_pair(pairs, self.pair_votes, self.settings.sampling, self._random, boosts)

    def change_models(self, models: tuple[ArenaModel, ...]) -> None:
        """Add, remove and change models while the server runs. Battles in progress end with the models they have."""
        self.settings = msgspec.structs.replace(self.settings, models=models)
        self.pool.change(models)
        self.spending.change_prices(models)
        self.leak_patterns = leak_patterns(self.settings)

    def draw_recorded(self) -> tuple[DrawnPair, bytes]:
        """Draw two models, and a question to which both have a recorded reply from an earlier run.

        Returns:
            The pair, and the key of the question in `recorded`.

        Raises:
            DataError: If no two models have recorded replies to the same question.
        """
        questions_of_pair = self.recorded.shared
        pairs = list(questions_of_pair)
        if not pairs:
            raise DataError("this arena has no replies from runs to vote on")
        pair = draw_pair(pairs, self.pair_votes, self.settings.sampling, self._random)
        # A pair is stored in one order, but drawn in either.
        keys = questions_of_pair.get((pair.left, pair.right))
        if not keys:
            keys = questions_of_pair[pair.right, pair.left]
        return pair, self._random.choice(keys)

    def draw_honeypot(self, digests: Sequence[str], question: str) -> PlacedHoneypot | None:
        """Return a honeypot with these images and this question, or None for a normal battle.

        A honeypot is a prepared battle whose better reply is known. It is returned with the
        probability `honeypot_share`, and never if no honeypot has the same images and question.
        """
        fitting = [
            placed
            for placed in self.honeypots
            if placed.digests == tuple(digests) and placed.honeypot.question == question
        ]
        return self._draw_rarely(fitting)

    def draw_recorded_honeypot(self) -> PlacedHoneypot | None:
        """Return any honeypot with the probability `honeypot_share`, else None for a normal battle.

        It takes the place of a battle between recorded replies.
        """
        return self._draw_rarely(self.honeypots)

    def _draw_rarely(self, fitting: Sequence[PlacedHoneypot]) -> PlacedHoneypot | None:
        """Return a random one of these honeypots with the probability `honeypot_share`, else None."""
        if not fitting or self._random.random() >= self.settings.honeypot_share:
            return None
        return self._random.choice(fitting)

    def honeypot_battle(self, kind: BattleKind, placed: PlacedHoneypot) -> NewBattle:
        """Return a battle between the two replies of a honeypot, on random sides."""
        honeypot = placed.honeypot
        better_side: Side = self._random.choice(("left", "right"))
        if better_side == "left":
            left = honeypot.better
            right = honeypot.worse
        else:
            left = honeypot.worse
            right = honeypot.better
        turn = BattleTurn(honeypot.question, SideReply(left.reply), SideReply(right.reply))
        return NewBattle(
            kind,
            Contender(left.model, self._version(left.model)),
            Contender(right.model, self._version(right.model)),
            turn,
            placed.digests,
            self.settings.sampling,
            origin={"better": better_side},
        )

    def _version(self, name: str) -> str:
        served_model = self.pool.models.get(name)
        return served_model.version if served_model else ""

    def recite(self, name: str, turn: BattleTurn) -> ReplyProgress:
        """Stream the prepared replies of a honeypot as if models were writing them, and store them."""
        progress = self._under_way[name] = ReplyProgress()
        self._run(self._recite(name, turn, progress))
        return progress

    async def _recite(self, name: str, turn: BattleTurn, progress: ReplyProgress) -> None:
        """Stream recorded replies word by word, as if the two models were writing them now, and finish the turn.

        Args:
            name: Id of the battle.
            turn: The question with its recorded replies.
            progress: Receives the growing text of each reply.
        """
        sides: tuple[Side, Side] = ("left", "right")
        words_by_side: dict[Side, list[str]] = {}
        for side in sides:
            reply: SideReply | None = getattr(turn, side)
            if reply:
                words_by_side[side] = re.findall(r"\S+\s*", reply.text) or [reply.text]
        longest = max(len(words) for words in words_by_side.values())
        pause = min(1 / RECITED_WORDS_A_SECOND, MAX_RECITAL_SECONDS / longest)
        async with self._closing_stream(name, progress):
            for count in range(1, longest + 1):
                await asyncio.sleep(pause * self._random.uniform(0.5, 1.5))
                for side, words in words_by_side.items():
                    if count == len(words):
                        progress.ended.add(side)
                    if count <= len(words):
                        progress.tell(side, "".join(words[:count]))
            signer = self.services.signer
            token = await self.services.database.write(finish_turn, signer, name, [turn])
            if token is None:
                message = "this battle is void because you started another battle; start a new one"
                progress.end({"state": "voided", "message": message})
            else:
                self.services.metrics["snellen_arena_battles"].labels("answered").inc()
                progress.end({"state": "answered", "token": token})

    # --- votes ---------------------------------------------------------------------------------------------------

    async def vote_facts(
        self, network: str, *, consent: bool = False
    ) -> Callable[[Row[Any]], VoteFacts]:
        """Return a function that takes a battle and returns what to record about a vote on it.

        Args:
            network: The network from which the vote came.
            consent: Whether the voter lets the operator publish the conversation.
        """
        pseudonym = network_pseudonym(network, await self._current_network_key())
        signer, patterns = self.services.signer, self.leak_patterns

        def facts_of(battle: Row[Any]) -> VoteFacts:
            """Return further facts about a vote on a battle: its language, the style of the replies, and whether a model revealed itself."""
            turns = turns_of(battle)
            detail: dict[str, Any] = {
                "language": language_of(turns[0].prompt) if turns else "",
                "style": style_of_replies(turns),
            }
            if consent:
                detail["consent"] = True
            leak = identity_leak(turns, patterns)
            return VoteFacts(pseudonym, question_digest(signer, battle), leak, detail)

        return facts_of

    async def _current_network_key(self) -> bytes:
        """Return the key for the pseudonyms of networks in the current period.

        A new period, and a new key, begins every `network_days` days. So nobody can follow the
        votes of a network for longer than that.
        """
        period = current_period(self.settings.network_days)
        if self._network_key is not None:
            known_period, known_key = self._network_key
            if known_period == period:
                return known_key
        key = await self.services.database.write(network_key, period)
        self._network_key = (period, key)
        return key

    def model(self, name: str) -> ServedModel:
        """Return a model that is ready to reply.

        Messages do not name the model, because a battle may hide it.

        Raises:
            DataError: If there is no model with this name.
            BusyError: If the model is not available.
        """
        served_model = self.pool.models.get(name)
        if served_model is None:
            raise DataError("there is no model with this name")
        if not served_model.replies:
            raise BusyError(UNAVAILABLE)
        return served_model

    def contender(self, name: str) -> Contender:
        """Return a model with its version, as a battle stores it. Raises the errors of `model`."""
        return Contender(name, self.model(name).version)

    # --- questions -----------------------------------------------------------------------------------------------

    @contextmanager
    def reserve(self, left: str, right: str) -> Iterator[Sides]:
        """Reserve a place in the queue of each model, and release the places if the block fails.

        Args:
            left: The model on the left, or the only one.
            right: The model on the right; empty if there is only one.

        Raises:
            BusyError: If a model has no free place.
            DataError: If there is no model with one of the names.
        """
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
        self, name: str, sides: Sides, turns: Sequence[BattleTurn], images: Sequence[ImageRef]
    ) -> ReplyProgress:
        """Start to send the last question of a battle to its models, and return the progress.

        The models must have been reserved. Their replies are streamed and stored in the background.
        """
        progress = self._under_way[name] = ReplyProgress()
        self._run(self._answer_and_close(name, sides, turns, images, progress))
        return progress

    def under_way(self, name: str) -> ReplyProgress | None:
        """Return the progress of the last question of a battle, or None once it has ended."""
        return self._under_way.get(name)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task in the background to its end.

        So the replies to a question are stored even if the person closes the page.
        """
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer_and_close(
        self,
        name: str,
        sides: Sides,
        turns: Sequence[BattleTurn],
        images: Sequence[ImageRef],
        progress: ReplyProgress,
    ) -> None:
        """Ask the models of all sides for their next reply at the same time, store the replies, and end the stream.

        Args:
            name: Id of the battle.
            sides: The model of each side.
            turns: The battle's questions so far with their replies; the last question has no replies yet.
            images: The images that the questions are about.
            progress: Receives the text of the replies while they are written.
        """
        async with self._closing_stream(name, progress):
            requests = [
                self._ask_side(side, model, turns, images, progress)
                for side, model in sides.items()
            ]
            answers = await asyncio.gather(*requests)
            replies = dict(zip(sides, answers, strict=True))
            result = await self._store_replies(name, sides, turns, replies)
            progress.end(result)

    @asynccontextmanager
    async def _closing_stream(self, name: str, progress: ReplyProgress) -> AsyncIterator[None]:
        """End the stream of a battle when the `with` block ends, even after an internal error.

        After an error the page is told that the battle is void.
        """
        try:
            yield
        except Exception as error:
            LOGGER.exception("battle not settled", extra={"facts": {"error": type(error).__name__}})
            progress.end(
                {"state": "voided", "message": "an internal error occurred; start another battle"}
            )
        finally:
            # The user may have sent the next question already.
            if self._under_way.get(name) is progress:
                del self._under_way[name]

    async def _ask_side(
        self,
        side: Side,
        model: ServedModel,
        turns: Sequence[BattleTurn],
        images: Sequence[ImageRef],
        progress: ReplyProgress,
    ) -> tuple[Response, float]:
        """Send the last question, with the earlier ones and their replies, to one model.

        Returns:
            The model's response, and the seconds that the question waited in its queue.
        """
        *earlier, last = turns
        history: list[tuple[str, str]] = []
        for turn in earlier:
            reply: SideReply | None = getattr(turn, side)
            history.append((turn.prompt, reply.text if reply else ""))
        messages = conversation(history, last.prompt, images)
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

    async def _store_replies(
        self,
        name: str,
        sides: Sides,
        turns: Sequence[BattleTurn],
        answers: Mapping[Side, tuple[Response, float]],
    ) -> dict[str, Any]:
        """Store the replies to a question, or make the battle void if a model failed.

        Returns:
            What the page is told: `{"state": "answered", "token": ...}`, where the token allows a
            vote, or `{"state": "voided", "message": ...}`.
        """
        replies: dict[str, SideReply] = {}
        faults: list[str] = []
        for side, (response, waited) in answers.items():
            if response.error is None:
                text = response.text or ""
                replies[side] = SideReply(text, response.seconds, waited, response.finish)
            else:
                faults.append(f"{sides[side].name}: {response.error.kind}")
        *earlier, last = turns
        settled = [*earlier, BattleTurn(last.prompt, **replies)]
        count = self.services.metrics["snellen_arena_battles"]
        if faults:
            fault = "; ".join(faults)
            await self.services.database.write(void_battle, name, settled, fault)
            count.labels("voided").inc()
            return {
                "state": "voided",
                "message": "a model failed, so this battle is void; start another",
            }
        signer = self.services.signer
        token = await self.services.database.write(finish_turn, signer, name, settled)
        if token is None:
            message = "this battle is void because it took too long or you started another battle; start a new one"
            return {"state": "voided", "message": message}
        count.labels("answered").inc()
        return {"state": "answered", "token": token}

    # --- start and end -------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Start loading models, examples, honeypots and replies of runs; whatever fails is logged and skipped."""
        if len(self.settings.models) == 1:
            LOGGER.warning(ALONE)
        self.pool.start()
        self._run(self._gather_examples())
        self._run(self._gather_honeypots())
        if self.settings.runs:
            self._run(self._gather_recorded())

    async def close(self) -> None:
        """Wait up to `grace_seconds` for battles in progress, cancel the others, and close the models."""
        if self._tasks:
            _, late = await asyncio.wait(
                self._tasks, timeout=self.services.configuration.grace_seconds
            )
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.pool.close()

    async def _gather_recorded(self) -> None:
        """Read the replies of earlier runs that people may vote on; if they cannot be read, that is logged."""
        try:
            self.recorded = await asyncio.to_thread(
                read_recorded, [Path(run) for run in self.settings.runs]
            )
        except SnellenError as error:
            LOGGER.error("replies of runs cannot be read", extra={"facts": {"error": str(error)}})

    async def _gather_examples(self) -> None:
        """Read and store the example images; a source that cannot be read is logged and left out."""
        pictures = list[ExampleImage]()
        for source in self.settings.examples:
            try:
                for content, question in await asyncio.to_thread(
                    _images_of, source, self.settings.examples_each
                ):
                    stored = await keep_image(self.services, content)
                    pictures.append(
                        ExampleImage(stored.digest, question, stored.width, stored.height)
                    )
            except SnellenError as error:
                LOGGER.error(
                    "examples cannot be read",
                    extra={"facts": {"source": source, "error": str(error)}},
                )
        self.examples = tuple(pictures)

    async def _gather_honeypots(self) -> None:
        """Store the images of honeypots (questions with a known better reply).

        One that cannot be read is logged and left out.
        """
        placed = list[PlacedHoneypot]()
        for honeypot in self.settings.honeypots:
            digests: tuple[str, ...] = ()
            try:
                if honeypot.image:
                    content = image_bytes(Path(honeypot.image), honeypot.image)
                    digests = ((await keep_image(self.services, content)).digest,)
            except SnellenError as error:
                LOGGER.error("a honeypot cannot be read", extra={"facts": {"error": str(error)}})
                continue
            placed.append(PlacedHoneypot(honeypot, digests))
        self.honeypots = tuple(placed)


def leak_patterns(settings: ArenaSettings) -> tuple[re.Pattern[str], ...]:
    """Return patterns of replies that reveal which model of this arena wrote them."""
    names: list[str] = []
    makers: list[str] = []
    for model in settings.models:
        names.append(model.name)
        names.extend(model.names)
        if model.maker:
            makers.append(model.maker)
    return names_pattern(names, makers)


def style_of_replies(turns: Sequence[BattleTurn]) -> dict[str, float]:
    """Return the style of all replies on each side together, by the names of fields of `Battle`."""
    style: dict[str, float] = {}
    for side in SIDES:
        replies: list[SideReply | None] = [getattr(turn, side) for turn in turns]
        text = "\n\n".join(reply.text for reply in replies if reply)
        style |= style_of(text, side)
    return style


def turns_of(battle: Row[Any]) -> list[BattleTurn]:
    """Return the turns of a battle, prompts and replies, from its database row."""
    return msgspec.convert(battle.turns, list[BattleTurn])


@asynccontextmanager
async def open_arena(services: Services) -> AsyncIterator[Arena]:
    """Run the arena of a server within a context, and close it at the end."""
    arena = Arena(services, services.settings(ARENA))
    await arena.prepare()
    try:
        yield arena
    finally:
        await arena.close()


def arena_of(services: Services) -> Arena:
    arena: Arena = services.held[ARENA]
    return arena


def _images_of(source: str, limit: int) -> list[tuple[bytes, str]]:
    """Return the first images of a folder or a benchmark.

    Args:
        source: A folder with images, or the name of a benchmark.
        limit: Number of images.

    Returns:
        Pairs of an image file's content and a question about the image; the question is "" for images of a folder.

    Raises:
        SnellenError: If the source cannot be found or read.
    """
    folder = Path(os.path.expanduser(source))  # noqa: PTH111  # leaves `~nobody` as it is
    files = sorted(file for file in folder.glob("*") if file.suffix.lower() in IMAGE_ENDINGS)
    if files:
        return [(image_bytes(file, source), "") for file in files[:limit]]
    images: list[tuple[bytes, str]] = []
    for selected in find_benchmarks([source]):
        benchmark = selected.benchmark
        for sample in benchmark.samples():
            if len(images) == limit:
                break
            if len(sample.images) == 1:
                content = benchmark.images.read(sample.images[0])
                images.append((content, sample.rounds[0].question))
    return images


# --- recorded replies ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordedQuestion:
    """A question that a run has asked its model, with the benchmark and sample that it comes from."""

    benchmark: str
    sample: str
    prompt: str
    images: Sequence[ImageRef]
    store: ImageStore
    """Store that contains the images."""


@dataclass(frozen=True)
class RecordedReplies:
    """Replies from earlier runs, to be voted on.

    Questions are identified by the digest of all their messages, models by `NAME@VERSION`.
    """

    contenders: Mapping[str, Contender] = field(default_factory=dict)
    """The model of each run, by its name with its version."""
    questions: Mapping[bytes, RecordedQuestion] = field(default_factory=dict)
    replies: Mapping[str, Mapping[bytes, str]] = field(default_factory=dict)
    """Replies by contender and question."""
    shared: Mapping[tuple[str, str], Sequence[bytes]] = field(default_factory=dict)
    """Questions with replies of both contenders, by pair of contenders."""


def read_recorded(folders: Sequence[Path]) -> RecordedReplies:
    """Read the replies from earlier runs that a battle can show.

    A battle shows one question, with its images, and one reply of each model. So these replies are
    left out: those to later turns of a dialogue and to further presentations of a question (its
    options shuffled, for example), those to more than `MAX_IMAGES` images, those after few-shot
    examples with images, and those on benchmarks that the run's manifest does not name. If several runs have a reply of the same model to a question, the first
    one counts.

    Raises:
        StoreError: If a folder is not a run.
    """
    contenders: dict[str, Contender] = {}
    questions: dict[bytes, RecordedQuestion] = {}
    replies: dict[str, dict[bytes, str]] = {}
    for folder in folders:
        manifest = read_manifest(folder)
        contender = Contender(manifest.model[:200], version_of(manifest.fingerprint))
        label = f"{contender.name}@{contender.version}"
        stores = {use.name: ImageStore(Path(use.folder) / "images") for use in manifest.benchmarks}
        model_replies = replies.setdefault(label, {})
        contenders[label] = contender
        for exchange in read_exchanges(folder):
            request = exchange.request
            store = stores.get(request.benchmark)
            if store is None or not _can_be_shown(exchange):
                continue
            key = hashlib.blake2b(msgspec.json.encode(request.messages), digest_size=16).digest()
            model_replies.setdefault(key, _whole_reply(exchange))
            user_texts = [message.text for message in request.messages if message.role == "user"]
            prompt = user_texts[-1] if user_texts else ""
            question = RecordedQuestion(
                request.benchmark, request.sample_id, prompt, request.images, store
            )
            questions.setdefault(key, question)
    shared: dict[tuple[str, str], list[bytes]] = {}
    """For each pair of models, the questions to which both have a reply."""
    for first, second in combinations(replies, 2):
        common_keys = replies[first].keys() & replies[second].keys()
        if common_keys:
            shared[first, second] = sorted(common_keys)
    return RecordedReplies(contenders, questions, replies, shared)


def _can_be_shown(exchange: Exchange) -> bool:
    """Return whether an exchange can be part of a battle; see `read_recorded`."""
    request = exchange.request
    response = exchange.response
    is_reply = response.error is None and response.text is not None
    is_of_model = request.kind == "generate" and request.role == EVALUATED
    if not is_reply or not is_of_model:
        return False

    variant = request.variant
    is_first_presentation = variant.test == 0 and variant.turn == 0
    if not is_first_presentation or variant.step is not None or variant.baseline:
        return False

    if len(request.images) > MAX_IMAGES:
        return False
    n_messages_with_images = 0
    for message in request.messages:
        if any(isinstance(part, ImagePart) for part in message.content):
            n_messages_with_images += 1
    return n_messages_with_images <= 1


def _whole_reply(exchange: Exchange) -> str:
    """Return a reply together with the beginning that the request has set, if it has.

    For example, a request may begin the reply with "The answer is (", and the model goes on "B)".
    """
    last = exchange.request.messages[-1]
    text = exchange.response.text or ""
    if last.role != "assistant":
        return text
    beginning = last.text.rstrip()
    separator = "" if beginning.endswith("(") else " "
    return f"{beginning}{separator}{text.lstrip()}"
