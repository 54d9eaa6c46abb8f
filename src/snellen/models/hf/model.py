"""The adapter that gives a transformers model Snellen's two methods."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar, cast

from msgspec.structs import replace

from snellen.common.images import Images
from snellen.errors import DataError, ModelError, SnellenError
from snellen.extraction.thoughts import split_thoughts
from snellen.models.base import ALL_KINDS, ReplyListener, ShownByName
from snellen.models.hf.conversation import ChatPrompt, Conversation
from snellen.models.hf.decoding import (
    decoding_group,
    generate_plainly,
    telling,
    to_response,
    token_picker,
)
from snellen.models.hf.encode import KEPT_IMAGES, ContinuedPrompt, EncodedPrompt, Encoder
from snellen.models.hf.engine import Engine, batches_by_form, is_proved
from snellen.models.hf.load import (
    HfOptions,
    LoadedModel,
    kind_of,
    load_pretrained,
    quiet_and_single_threaded,
    unless_out_of_memory,
    without_warnings,
)
from snellen.models.hf.load import Kind as DeviceKind
from snellen.models.hf.model_layout import input_names, read_layout
from snellen.models.hf.probe import REFUSALS, Shows, build_probe, refusals
from snellen.models.hf.reference import Scores
from snellen.models.hf.selfcheck import SelfCheckResult, choose_fast_paths, plain_paths
from snellen.models.hf.sharing_plan import PLAIN, FastPaths
from snellen.models.hf.spot_checks import Group, SpotChecks, group_of
from snellen.models.hf.thresholds import (
    UnrepeatableError,
    longest_text,
)
from snellen.models.model_strings import ModelSpec, parse_spec
from snellen.models.options import read_options
from snellen.models.template_dates import declared_date
from snellen.records import (
    ContinuationScore,
    ErrorKind,
    Failure,
    ImageRef,
    Request,
    RequestKind,
    Response,
    Usage,
)

Row = TypeVar("Row", EncodedPrompt, ContinuedPrompt)
R = TypeVar("R")
ADAPTER = "hf 6"
"""Version of the adapter; increases when the same model would answer differently."""
ROWS: dict[DeviceKind, int] = {"cpu": 16, "accelerator": 64}
TOKENS_A_ROW: dict[DeviceKind, int] = {"cpu": 256, "accelerator": 1024}
"""Initial limits of one forward pass, lowered when memory runs out: rows, and tokens for each of them; for as many
rows as on a CPU at least, since a few rows may be long."""
PROOFS = 10_000
"""How many finished conversations are remembered to begin as their prompts do."""
UNUSABLE = (DataError, OSError, MemoryError, *REFUSALS)
"""Errors of one request on its way to the model: a broken image, a prompt too long, a processor that gives up."""
logger = logging.getLogger("snellen")


def open_hf(
    spec: ModelSpec, load: Callable[[ModelSpec, HfOptions], LoadedModel] = load_pretrained
) -> HFModel:
    """The model that `hf:org/name[@revision]` or `hf:./folder` names, ready for use.

    Raises MissingExtraError without torch or transformers, ModelError when it cannot be loaded.
    """
    options = read_options(spec, HfOptions)
    try:
        options.rows(1)
    except ValueError:
        raise ModelError(
            f"{spec.text}: batch_size is a positive number or auto, not {options.batch_size}"
        ) from None
    checkpoint = parse_spec(spec.text).target
    return HFModel(spec.text, load(spec, options), options, checkpoint)


class HFModel(ShownByName):
    """A transformers model that generates replies and scores continuations.

    Args:
        name: Name that results show.
        loaded: The model and its processor.
        options: How it answers.
        checkpoint: Repository or folder of the weights, whose name says whether the model reasons.
    """

    def __init__(
        self, name: str, loaded: LoadedModel, options: HfOptions, checkpoint: str = ""
    ) -> None:
        self.name = name
        self.kinds: frozenset[RequestKind] = ALL_KINDS
        kind = kind_of(loaded.model)
        self.batch_size = options.rows(ROWS[kind])
        self._on_accelerator = kind == "accelerator"
        self._options, self._reasoning_tokens = (
            options,
            options.reasoning_budget(checkpoint),
        )
        self._facts = loaded.facts | options.facts(checkpoint)
        self._conversation = Conversation(
            loaded.processor,
            loaded.model.config.model_type,
            options.chat_template_kwargs,
            clips_as_video=options.clips != "images",
            date=declared_date(options.date),
        )
        if chance := self._conversation.chance:
            raise ModelError(
                f"{name}: its chat template is random ({chance}), so prompts are not reproducible"
            )
        if options.clips == "video" and not self._conversation.takes_video:
            raise ModelError(
                f"{name}: clips=video was requested, but its processor or chat template does not support video; "
                "use clips=images"
            )
        self._layout = read_layout(
            loaded.model, _pad_token(loaded), _tokenizer(loaded).eos_token_id
        )
        try:
            oddities = self._conversation.oddities
        except ValueError as error:
            raise ModelError(f"{name}: {error}") from error
        if oddities:
            logger.warning("%s: the chat template %s", name, "; it ".join(oddities))
        self._encoder = Encoder(
            loaded.processor,
            input_names(loaded.model),
            closes=self._layout.encoder_decoder,
            complete=self._conversation.complete,
            keep=max(KEPT_IMAGES, 2 * self.batch_size),  # those of a window and of the next
        )
        self._longest = longest_text(loaded.model)
        self._exact = options.scoring == "exact"
        self._self_checks = loaded.self_checks
        self._distrusted: set[Group] = set()
        """Groups of requests in which an earlier session of a run found a difference."""
        rows = 1 if self._exact else self.batch_size
        self._engine = Engine(
            self._layout, rows, max(self.batch_size, ROWS["cpu"]) * TOKENS_A_ROW[kind]
        )
        self._finished: set[tuple[Any, ...]] = set()
        """Shapes of conversations and replies whose finished text was checked."""
        self._clips_refused = ""
        """Why clips cannot be given as video, once that was tried; empty if they can."""
        self._clips_seen: Counter[str] = Counter()
        """Requests with a clip, by how it was given."""
        self._usual: Shows = "pictures" if loaded.sees_pictures else "words"
        self._proofs: dict[Shows, _Proof] = {self._usual: self._prove(self._usual)}
        """How prompts are run, by what they show. Those with clips are tried when the first is asked."""

    def fingerprint(self) -> dict[str, str]:
        return {
            **self._facts,
            "adapter": ADAPTER,
            "prompt": self._conversation.name,
            **({"date": str(self._conversation.date)} if self._conversation.date else {}),
            "scoring": self._proofs[self._usual].fast_paths.name,
            **({"clips": self._clips_given} if self._conversation.takes_video else {}),
        }

    @property
    def _clips_given(self) -> str:
        as_video = self._conversation.takes_video and self._options.clips != "images"
        return "as video" if as_video else "as pictures"

    def findings(self) -> tuple[str, ...]:
        """What spot checks on the requests so far found, and how clips were given, for the manifest of the run."""
        scoring = (
            f", scored by {self._proofs['clips'].fast_paths.name}"
            if "clips" in self._proofs
            else ""
        )
        clips = tuple(
            f"clips were given {form} in {count} request{'s' * (count != 1)}{scoring if form == 'as video' else ''}"
            for form, count in self._clips_seen.items()
        )
        lines = [line for check in self._spot_checks() for line in check.findings]
        return (*clips, *dict.fromkeys(lines))

    @property
    def has_doubts(self) -> bool:
        return any(check.disproved for check in self._spot_checks())

    def distrust(self, request: Request) -> None:
        """Answer requests of the group of this one by the plain path from now on."""
        self._distrusted.add(group_of(request))

    def doubts(self, request: Request) -> bool:
        """Return whether the answer to an earlier request may be wrong, since a spot check found one like it to be."""
        sent = self._options.applied(request)
        if request.kind == "generate":
            sent = self._with_room(sent)
        return any(check.doubts(sent) for check in self._spot_checks())

    def _spot_checks(self) -> list[SpotChecks]:
        return [proof.spot_checks for proof in self._proofs.values() if proof.spot_checks]

    def seen_pixels(self, picture: Any) -> Sequence[Any]:
        """An image as the network is given it, in arrays of channels x height x width: one, or one for each tile. None
        where the processor makes a row of patches."""
        return self._encoder.seen_pixels(picture)

    def expect(self, pictures: Sequence[ImageRef], images: Images) -> None:
        """Decode and resize images of later requests while an accelerator works on earlier ones.

        On a CPU nothing would be gained: both would share its cores.
        """
        if self._on_accelerator:
            self._encoder.expect(pictures, images)

    def generate(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """Replies in the order of the requests: new text without special tokens, stripped of white space."""
        started = time.perf_counter()
        requests = [self._with_room(self._options.applied(request)) for request in requests]
        with without_warnings():
            prompts = [self._encoded(request, images) for request in requests]
        groups: dict[Any, list[int]] = {}
        for i, prompt in enumerate(prompts):
            if isinstance(prompt, EncodedPrompt):
                key = decoding_group(requests[i]), _group_of(prompt)
                groups.setdefault(key, []).append(i)
        ends = self._layout.end_tokens

        def reply(places: list[int]) -> list[Response]:
            rows = [cast(EncodedPrompt, prompts[i]) for i in places]
            asked = [requests[i] for i in places]
            replies = self._checked(
                asked,
                rows,
                images,
                partial(self._write, rows, asked),
                SpotChecks.check_reply,
            )
            return [
                self._without_thoughts(
                    to_response(self._encoder, row, tokens, ends, requests[i]), requests[i]
                )
                for i, row, tokens in zip(places, rows, replies, strict=True)
            ]

        return self._answered(prompts, list(groups.values()), reply, started)

    def generate_streaming(
        self, request: Request, images: Images, listener: ReplyListener
    ) -> Response:
        """The same reply written token by token; `listener` is called after each token."""
        started = time.perf_counter()
        request = self._with_room(self._options.applied(request))
        with without_warnings():
            prompt = self._encoded(request, images)

        def tell(tokens: list[int]) -> None:
            text = to_response(
                self._encoder, cast(EncodedPrompt, prompt), tokens, self._layout.end_tokens, request
            )
            listener(self._without_thoughts(text, request).text or "")

        def reply(places: list[int]) -> list[Response]:
            row = cast(EncodedPrompt, prompt)
            pick = telling(token_picker(self._layout, self._encoder, [request]), tell)
            with quiet_and_single_threaded(self._layout.model):
                proof = self._proof_of(row)
                checks = proof.spot_checks
                is_disproved = checks is not None and group_of(request) in checks.disproved
                paths = PLAIN if is_disproved else proof.fast_paths
                [tokens] = self._engine.generate(
                    [row], pick, request.decoding.max_new_tokens, paths
                )
            response = to_response(self._encoder, row, tokens, self._layout.end_tokens, request)
            return [self._without_thoughts(response, request)]

        groups = [] if isinstance(prompt, Response) else [[0]]
        return self._answered([prompt], groups, reply, started)[0]

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """One score per continuation: the sum of its tokens' log-probabilities in nats."""
        started = time.perf_counter()
        requests = [self._options.applied(request) for request in requests]
        with without_warnings():
            prompts = [self._continued(request, images) for request in requests]
        groups: dict[Any, list[int]] = {}
        for i, prompt in enumerate(prompts):
            if isinstance(prompt, ContinuedPrompt):
                groups.setdefault(_group_of(prompt.context), []).append(i)

        def score(places: list[int]) -> list[Response]:
            rows = [cast(ContinuedPrompt, prompts[i]) for i in places]
            with quiet_and_single_threaded(self._layout.model):
                scored = self._checked(
                    [requests[i] for i in places],
                    rows,
                    images,
                    partial(self._engine.score, rows),
                    SpotChecks.check_scores,
                )
            return [
                _scored(row, tails, requests[i].continuations)
                for i, row, tails in zip(places, rows, scored, strict=True)
            ]

        return self._answered(prompts, list(groups.values()), score, started)

    def _with_room(self, request: Request) -> Request:
        """The request with what its reply may spend on reasoning, if its prompt lets it reason."""
        if not self._reasoning_tokens or request.messages[-1].role == "assistant":
            return request
        longest = request.decoding.max_new_tokens + self._reasoning_tokens
        return replace(request, decoding=replace(request.decoding, max_new_tokens=longest))

    def _without_thoughts(self, response: Response, request: Request) -> Response:
        """The response with what the model thought apart from its answer."""
        closing = (
            "" if request.messages[-1].role == "assistant" else self._conversation.opened_thought
        )
        parts = split_thoughts(response.text or "", closing)
        return replace(response, text=parts.answer, reasoning=parts.reasoning)

    def _answered(
        self,
        prompts: Sequence[EncodedPrompt | ContinuedPrompt | Response],
        groups: Sequence[list[int]],
        run: Callable[[list[int]], list[Response]],
        started: float,
    ) -> list[Response]:
        """Responses in order: failures from encoding, and the results of `run` for each group."""
        responses = {
            i: outcome for i, outcome in enumerate(prompts) if isinstance(outcome, Response)
        }
        for group in groups:
            responses.update(zip(group, _each_if_not_all(group, run), strict=True))
        seconds = (time.perf_counter() - started) / max(1, len(responses))
        notes = self._conversation.notes
        return [
            outcome
            if outcome.error
            else replace(
                outcome, seconds=seconds, notes=(*notes, *_notes(prompts[i]), *outcome.notes)
            )
            for i, outcome in sorted(responses.items())
        ]

    def _write(
        self, rows: Sequence[EncodedPrompt], requests: Sequence[Request], fast_paths: FastPaths
    ) -> list[list[int]]:
        """New tokens of requests with the same decoding settings."""
        engine, longest = self._engine, requests[0].decoding.max_new_tokens
        generating = fast_paths.writing.startswith("generate")
        by_generate = [
            i for i, row in enumerate(rows) if generating and is_proved(fast_paths, row, longest)
        ]
        token_by_token = [i for i in range(len(rows)) if i not in set(by_generate)]
        with quiet_and_single_threaded(self._layout.model):
            written = self._generated(rows, requests, by_generate, fast_paths)
            reply_of = dict(zip(sorted(by_generate), written, strict=True))
            if token_by_token:
                pick = token_picker(
                    self._layout, self._encoder, [requests[i] for i in token_by_token]
                )
                written = engine.generate(
                    [rows[i] for i in token_by_token], pick, longest, fast_paths
                )
                reply_of.update(zip(token_by_token, written, strict=True))
        return [reply_of[i] for i in range(len(rows))]

    def _generated(
        self,
        rows: Sequence[EncodedPrompt],
        requests: Sequence[Request],
        chosen: Sequence[int],
        fast_paths: FastPaths,
    ) -> list[list[int]]:
        """New tokens of the `chosen` requests by the model's own `generate`, in their order."""
        engine = self._engine

        def run(places: list[int]) -> list[list[int]]:
            part = [rows[place] for place in places]
            with engine.remember(part, fast_paths):
                return generate_plainly(
                    self._layout, self._encoder, part, [requests[place] for place in places]
                )

        most = engine.budget.rows if fast_paths.writing == "generate in batches" else 1
        order = sorted(chosen, key=lambda place: -len(rows[place].ids))
        return engine.in_batches(batches_by_form(order, rows, range(len(rows)), most), run)

    def _checked(
        self,
        requests: Sequence[Request],
        rows: Sequence[Row],
        images: Images,
        run: Callable[[FastPaths], list[R]],
        agrees: Callable[[SpotChecks, Row, R], bool],
    ) -> list[R]:
        """What `run` makes of a group by fast paths; if a spot check finds a difference in it, of the whole group again
        by the plain path, which later requests with as many images go by too. `doubts` names the earlier ones.

        The reference takes more memory than the path it checks; if there is not enough, nothing is checked or counted.
        """
        first = _context(rows[0])
        proof = self._proof_of(first)
        checks = proof.spot_checks
        if checks is None:
            return run(proof.fast_paths)
        groups = {group_of(request) for request in requests}
        if groups & (checks.disproved | self._distrusted):
            checks.asked_plainly.update(request.key for request in requests)
            return run(PLAIN)
        results = run(proof.fast_paths)
        for request, row, result in zip(requests, rows, results, strict=True):
            if not checks.is_selected(request, row):
                continue
            self._check_processor(request, images, checks)
            check = partial(agrees, checks, row, result)
            if unless_out_of_memory(check) is not False:
                continue
            logger.warning(
                "%s: %s differs from the same request run alone by more than rounding; it and what was asked with it "
                "are asked again one row at a time (%s)",
                self.name,
                request.sample_id,
                "; ".join(checks.findings),
            )
            checks.disproved |= groups
            checks.asked_plainly.update(request.key for request in requests)
            return run(PLAIN)
        return results

    def _check_processor(self, request: Request, images: Images, checks: SpotChecks) -> None:
        """Warn if the processor makes different inputs of `request` a second time."""
        write = (
            self._conversation.write
            if request.kind == "generate"
            else self._conversation.write_scored
        )
        with without_warnings():
            repeats = self._encoder.repeats(write(request.messages), images)
        if not repeats:
            checks.unrepeatable += 1
            logger.warning(
                "%s: its processor makes other inputs of %s a second time",
                self.name,
                request.sample_id,
            )

    def _proof_of(self, row: EncodedPrompt) -> _Proof:
        """How a prompt is run, found out when the first of its kind is asked."""
        if (shows := _shows(row)) == "both":
            return _Proof(PLAIN)
        if shows == "clips" and "clips" not in self._proofs:
            if self._clips_refused:
                raise ModelError(self._clips_refused)
            try:
                self._proofs["clips"] = self._prove("clips")
            except ModelError as error:
                self._clips_refused = str(error)
                raise
        return self._proofs[shows if shows == "clips" else self._usual]

    def _prove(self, shows: Shows) -> _Proof:
        """Determine which fast paths the model allows, logging one line if not all."""
        engine, name = self._engine, self.name
        try:
            with quiet_and_single_threaded(self._layout.model):
                probe = build_probe(
                    self._conversation, self._encoder, self._layout.encoder_decoder, shows
                )
                if self._exact:
                    return _Proof(plain_paths(engine, probe))
                checked = (shows, self.batch_size)
                if checked not in self._self_checks:
                    self._self_checks[checked] = choose_fast_paths(engine, probe)
                verdict: SelfCheckResult = self._self_checks[checked]
                engine.layout = verdict.laid_out(engine.layout)
        except UnrepeatableError as error:
            raise ModelError(f"{name}: {error}") from error
        except refusals() as error:
            first = " ".join(str(error).split())[:200]
            if shows == "clips":
                raise ModelError(
                    f"{name}: it cannot process a clip as video ({type(error).__name__}: {first}); use "
                    "?clips=images"
                ) from error
            raise ModelError(
                f"{name}: it cannot process an image and a question ({type(error).__name__}: {first}); it may not "
                "be a vision-language model, or its architecture is not supported"
            ) from error
        if verdict.line:
            # Without a cached prompt every option costs a prefill, so the user should know why it is slow.
            slow = not (verdict.fast_paths.cache or self._layout.encoder_decoder)
            line = f"clips: {verdict.line}" if shows == "clips" else verdict.line
            logger.log(logging.WARNING if slow else logging.INFO, "%s: %s", name, line)
        shares = verdict.fast_paths.shares
        checks = SpotChecks(self._layout, verdict.tolerance, not verdict.alone) if shares else None
        return _Proof(verdict.fast_paths, checks)

    def _encoded(self, request: Request, images: Images) -> EncodedPrompt | Response:
        """The prompt as tensors, or a failed response saying why it cannot be encoded."""
        try:
            encoded = self._encode(self._conversation.write(request.messages), images)
            return self._within(encoded, request.decoding.max_new_tokens)
        except UNUSABLE as error:
            return _failed(error)

    def _encode(self, prompt: ChatPrompt, images: Images) -> EncodedPrompt:
        if prompt.clips or any(image.time is not None for image in prompt.images):
            self._clips_seen["as video" if prompt.clips else "as pictures"] += 1
        return self._encoder.encode(prompt, images)

    def _continued(self, request: Request, images: Images) -> ContinuedPrompt | Response:
        try:
            prompt = self._conversation.write_scored(request.messages)
            encoded = self._encode(prompt, images)
            texts = [self._conversation.as_text(text) for text in request.continuations]
            if self._layout.encoder_decoder:
                continued = self._encoder.reply_with(encoded, texts)
            else:
                continued = self._encoder.continue_with(prompt, encoded, texts)
                self._require_finished(request, prompt)
            self._within(continued.context, max(map(len, continued.tails)))
            return continued
        except UNUSABLE as error:
            return _failed(error)

    def _require_finished(self, request: Request, prompt: ChatPrompt) -> None:
        """Raise ValueError unless each text that is scored has the tokens that it has in the finished talk.

        Proved once for each shape of a talk and each text.
        """
        shape = tuple(
            (message.role, tuple(map(type, message.content))) for message in request.messages
        )
        opening = request.messages[-1].text if request.messages[-1].role == "assistant" else None
        for reply in request.continuations:
            if (proof := (shape, opening, prompt.join, reply)) not in self._finished:
                finished = self._conversation.finish(request.messages, prompt, reply)
                self._encoder.require_beginning(
                    prompt.with_reply(self._conversation.as_text(reply)), finished
                )
                if len(self._finished) >= PROOFS:
                    self._finished.clear()
                self._finished.add(proof)

    def _within(self, encoded: EncodedPrompt, more: int) -> EncodedPrompt:
        """Raise ValueError for a prompt that leaves no room for the reply: cutting it would change the question."""
        together = len(encoded.ids) + more
        if self._layout.encoder_decoder:
            together = max(len(encoded.ids), more)
        if self._longest and together > self._longest:
            raise ValueError(
                f"the prompt has {len(encoded.ids)} tokens and the reply up to {more}, but the model takes at "
                f"most {self._longest}"
            )
        return encoded


def _context(row: EncodedPrompt | ContinuedPrompt) -> EncodedPrompt:
    return row if isinstance(row, EncodedPrompt) else row.context


def _group_of(row: EncodedPrompt) -> tuple[Any, ...]:
    """What prompts have in common that are answered together: what they show, and which inputs they have."""
    return _shows(row), len(row.digests), frozenset(row.extras)


def _shows(row: EncodedPrompt) -> Literal["pictures", "clips", "both"]:
    """What a prompt shows; one of words alone is run as those with images are."""
    if not row.clips:
        return "pictures"
    return "clips" if row.clips == len(row.digests) else "both"


def _each_if_not_all(
    places: list[int], run: Callable[[list[int]], list[Response]]
) -> list[Response]:
    """`run` on all together or, if that raises, on halves, so that a bad request fails only itself."""
    try:
        return run(places)
    except (*REFUSALS, ModelError, MemoryError) as error:
        if len(places) == 1:
            return [_failed(error, "model")]
    # Outside of `except`: the error holds the frames of the failed pass, and these its tensors.
    half = len(places) // 2
    return [*_each_if_not_all(places[:half], run), *_each_if_not_all(places[half:], run)]


def _scored(row: ContinuedPrompt, tails: Scores, continuations: Sequence[str]) -> Response:
    scores = tuple(
        ContinuationScore(sum(tail), len(tail), len(text.encode()))
        for tail, text in zip(tails, continuations, strict=True)
    )
    return Response(scores=scores, usage=Usage(len(row.context.ids), 0))


def _failed(error: Exception, kind: ErrorKind = "bad_request") -> Response:
    """The failure of one request, in one line; errors that are not meant for users keep their type's name."""
    message = " ".join(str(error).split())[:300]
    plain = isinstance(error, (SnellenError, OSError)) or (
        kind == "bad_request" and isinstance(error, ValueError)
    )
    return Response(
        error=Failure(kind, message if plain and message else f"{type(error).__name__}: {message}")
    )


def _notes(prompt: EncodedPrompt | ContinuedPrompt | Response) -> tuple[str, ...]:
    if isinstance(prompt, Response):
        return ()
    return prompt.notes if isinstance(prompt, EncodedPrompt) else prompt.context.notes


def _tokenizer(loaded: LoadedModel) -> Any:
    return getattr(loaded.processor, "tokenizer", loaded.processor)


def _pad_token(loaded: LoadedModel) -> int:
    tokenizer = _tokenizer(loaded)
    ends = loaded.model.generation_config.eos_token_id
    first = ends[0] if isinstance(ends, (list, tuple)) else ends
    return int(next((i for i in (tokenizer.pad_token_id, first) if i is not None), 0))


@dataclass(frozen=True)
class _Proof:
    """How prompts of a kind are run, as the self-check found, and the spot checks on them."""

    fast_paths: FastPaths
    spot_checks: SpotChecks | None = None
