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
from snellen.models.base import (
    ALL_KINDS,
    AnswerGroup,
    ReplyListener,
    ShownByName,
    answer_group,
)
from snellen.models.hf.conversation import ChatPrompt
from snellen.models.hf.decoding import (
    decoding_group,
    to_response,
    token_picker,
    with_listener,
)
from snellen.models.hf.encode import KEPT_IMAGES, ContinuedPrompt, EncodedPrompt, Encoder
from snellen.models.hf.engine import Engine
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
from snellen.models.hf.model_layout import input_names, longest_text, read_layout
from snellen.models.hf.probe import REFUSALS, Shows, build_probe, refusals
from snellen.models.hf.prompter import Prompter
from snellen.models.hf.reference import Scores
from snellen.models.hf.selfcheck import SelfCheckResult, choose_fast_paths
from snellen.models.hf.sharing_plan import PLAIN, FastPaths
from snellen.models.hf.spot_checks import CheckReason, SpotChecks
from snellen.models.hf.tolerance import UnrepeatableError
from snellen.models.model_strings import ModelSpec, parse_spec
from snellen.models.options import read_options
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
UNUSABLE = (DataError, OSError, MemoryError, *REFUSALS)
"""Errors of one request on its way to the model: a broken image, a prompt too long, a processor that gives up."""
logger = logging.getLogger("snellen")


def open_hf(
    spec: ModelSpec, load: Callable[[ModelSpec, HfOptions], LoadedModel] = load_pretrained
) -> HFModel:
    """Return the model that `hf:org/name[@revision]` or `hf:./folder` names, ready for use.

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
        self._options = options
        self._facts = loaded.facts | options.facts(checkpoint)
        self._prompter = Prompter(
            name,
            loaded.processor,
            loaded.model.config.model_type,
            options,
            checkpoint,
            clips_as_video=options.clips != "images",
        )
        self._conversation = self._prompter.conversation
        if options.clips == "video" and not self._conversation.takes_video:
            raise ModelError(
                f"{name}: clips=video was requested, but its processor or chat template does not support video; "
                "use clips=images"
            )
        self._layout = read_layout(
            loaded.model, _pad_token(loaded), _tokenizer(loaded).eos_token_id
        )
        self._encoder = Encoder(
            loaded.processor,
            input_names(loaded.model),
            closes=self._layout.encoder_decoder,
            tokens=self._prompter.tokens,
            keep=max(KEPT_IMAGES, 2 * self.batch_size),  # those of a window and of the next
        )
        self._longest = longest_text(loaded.model)
        self._exact = options.scoring == "exact"
        self._self_checks = loaded.self_checks
        self._distrusted: set[AnswerGroup] = set()
        """Groups of requests in which an earlier session of a run, or another worker, found a difference."""
        rows = 1 if self._exact else self.batch_size
        self._engine = Engine(
            self._layout, rows, max(self.batch_size, ROWS["cpu"]) * TOKENS_A_ROW[kind]
        )
        self._clips_refused = ""
        """Why clips cannot be given as video, once that was tried; empty if they can."""
        self._clips_seen: Counter[str] = Counter()
        """Requests with a clip, by how it was given."""
        self._default_content: Shows = "images" if loaded.sees_images else "text"
        self._proofs: dict[Shows, _Proof] = {
            self._default_content: self._prove(self._default_content)
        }
        """How prompts are run, by what they show. Those with clips are tried when the first is asked."""

    def fingerprint(self) -> dict[str, str]:
        facts = {
            **self._facts,
            "adapter": ADAPTER,
            **self._prompter.facts(),
        }
        facts["scoring"] = self._proofs[self._default_content].name
        if self._conversation.takes_video:
            facts["clips"] = "as pictures" if self._options.clips == "images" else "as video"
        return facts

    def findings(self) -> tuple[str, ...]:
        """Return sentences for the run's manifest: what spot checks have found so far, and how clips were given."""
        lines = []
        for form, count in self._clips_seen.items():
            requests = "request" if count == 1 else "requests"
            line = f"clips were given {form} in {count} {requests}"
            if form == "as video" and "clips" in self._proofs:
                line += f", scored by {self._proofs['clips'].name}"
            lines.append(line)
        spot_check_lines: dict[str, None] = {}
        for check in self._spot_checks():
            spot_check_lines.update(dict.fromkeys(check.findings))
        return (*lines, *spot_check_lines)

    @property
    def disproved(self) -> frozenset[AnswerGroup]:
        """Groups of requests in which a spot check found a difference."""
        return frozenset[AnswerGroup]().union(*(check.disproved for check in self._spot_checks()))

    def distrust(self, group: AnswerGroup) -> None:
        """Answer all further requests of a group in the plain way: one row at a time, without a cache."""
        self._distrusted.add(group)

    def doubts(self, request: Request) -> bool:
        """Return whether the earlier answer to a request may be wrong.

        It may if a spot check found a wrong answer in the group of the request.
        """
        sent = self._prompter.sent(request)
        return any(check.doubts(sent) for check in self._spot_checks())

    def _spot_checks(self) -> list[SpotChecks]:
        return [proof.spot_checks for proof in self._proofs.values()]

    def seen_pixels(self, image: Any) -> Sequence[Any]:
        """Return an image as the network receives it.

        The result has one array of shape (channels, height, width) for each tile. It is empty if
        the output of the processor is not an image.
        """
        return self._encoder.seen_pixels(image)

    def expect(self, expected: Sequence[ImageRef], images: Images) -> None:
        """Decode and resize images of later requests while an accelerator works on earlier ones.

        On a CPU nothing would be gained: both would share its cores.
        """
        if self._on_accelerator:
            self._encoder.expect(expected, images)

    def generate(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """Return replies in the order of the requests: new text without special tokens, stripped of white space."""
        return self._replies(requests, images, None)

    def generate_streaming(
        self, request: Request, images: Images, listener: ReplyListener
    ) -> Response:
        """Return a reply, and call `listener` with the text so far after each token.

        If a spot check finds that the reply is wrong, it is generated again in the plain way. The
        listener is then called with a shorter text.
        """
        [response] = self._replies([request], images, listener)
        return response

    def _replies(
        self, requests: Sequence[Request], images: Images, listener: ReplyListener | None
    ) -> list[Response]:
        """Return replies in the order of the requests. With a listener, there is only one request."""
        started = time.perf_counter()
        requests = [self._prompter.sent(request) for request in requests]
        with without_warnings():
            prompts = [self._encoded(request, images) for request in requests]
        groups: dict[Any, list[int]] = {}
        for index, (request, prompt) in enumerate(zip(requests, prompts, strict=True)):
            if isinstance(prompt, EncodedPrompt):
                key = decoding_group(request), _group_of(prompt)
                groups.setdefault(key, []).append(index)

        def respond(index: int, tokens: Sequence[int]) -> Response:
            request = requests[index]
            row = cast(EncodedPrompt, prompts[index])
            response = to_response(
                self._prompter.tokens, row, tokens, self._layout.end_tokens, request
            )
            return self._prompter.without_thoughts(response, request)

        def reply(group: list[int]) -> list[Response]:
            """Return the responses to a group of requests that may share batches."""
            group_requests = [requests[index] for index in group]
            rows = [cast(EncodedPrompt, prompts[index]) for index in group]
            longest = group_requests[0].decoding.max_new_tokens

            def write(paths: FastPaths) -> list[list[int]]:
                pick = token_picker(self._layout, self._prompter.tokens, group_requests)
                if listener is not None:
                    pick = with_listener(
                        pick, lambda tokens: listener(respond(group[0], tokens).text or "")
                    )
                with quiet_and_single_threaded(self._layout.model):
                    return self._engine.generate(rows, pick, longest, paths)

            replies = self._checked(group_requests, rows, images, write, SpotChecks.check_reply)
            return [respond(index, tokens) for index, tokens in zip(group, replies, strict=True)]

        return self._answered(prompts, list(groups.values()), reply, started)

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """Return one score per continuation of each request: the sum of its tokens' log-probabilities in nats."""
        started = time.perf_counter()
        requests = [self._prompter.sent(request) for request in requests]
        with without_warnings():
            prompts = [self._continued(request, images) for request in requests]
        groups: dict[Any, list[int]] = {}
        for index, prompt in enumerate(prompts):
            if isinstance(prompt, ContinuedPrompt):
                groups.setdefault(_group_of(prompt.context), []).append(index)

        def score(group: list[int]) -> list[Response]:
            """Return the responses to a group of requests that may share batches."""
            group_requests = [requests[index] for index in group]
            rows = [cast(ContinuedPrompt, prompts[index]) for index in group]
            run = partial(self._engine.score, rows)
            with quiet_and_single_threaded(self._layout.model):
                scores = self._checked(group_requests, rows, images, run, SpotChecks.check_scores)
            responses = []
            for request, row, tails in zip(group_requests, rows, scores, strict=True):
                responses.append(_scored(row, tails, request.continuations))
            return responses

        return self._answered(prompts, list(groups.values()), score, started)

    def _answered(
        self,
        prompts: Sequence[EncodedPrompt | ContinuedPrompt | Response],
        groups: Sequence[list[int]],
        run: Callable[[list[int]], list[Response]],
        started: float,
    ) -> list[Response]:
        """Return the responses to all requests, in order.

        Args:
            prompts: For each request, its prompt as tensors, or its response if encoding failed.
            groups: Indices of the requests to run together.
            run: Returns the responses of a group.
            started: When the call began, by `time.perf_counter`.
        """
        responses: dict[int, Response] = {}
        for index, prompt in enumerate(prompts):
            if isinstance(prompt, Response):
                responses[index] = prompt
        for group in groups:
            responses.update(zip(group, _each_if_not_all(group, run), strict=True))
        seconds_per_request = (time.perf_counter() - started) / max(1, len(responses))

        ordered = []
        for index, response in sorted(responses.items()):
            if not response.error:
                notes = (*self._conversation.notes, *_notes(prompts[index]), *response.notes)
                response = replace(response, seconds=seconds_per_request, notes=notes)
            ordered.append(response)
        return ordered

    def _checked(
        self,
        requests: Sequence[Request],
        rows: Sequence[Row],
        images: Images,
        run: Callable[[FastPaths], list[R]],
        agrees: Callable[[SpotChecks, Row, R, CheckReason], bool],
    ) -> list[R]:
        """Return the results of a group of requests, after some of them were compared with the reference.

        If a result differs, the whole group is run again in the plain way, and so are all later
        requests of the same kind with the same number of images. `doubts` then says which earlier
        answers may be wrong. The reference needs more memory than the fast way. If there is not
        enough, the request is not checked, and not counted as checked.

        Args:
            requests: The requests of the group.
            rows: Their prompts as tensors.
            images: Where their images are read.
            run: Returns the result of each request, given the fast paths to use.
            agrees: Returns whether a result agrees with the reference.
        """
        proof = self._proof_of(_context(rows[0]))
        paths = proof.replies if requests[0].kind == "generate" else proof.scores
        if paths == PLAIN:
            return run(PLAIN)
        checks = proof.spot_checks

        def run_plainly() -> list[R]:
            checks.asked_plainly.update(request.key for request in requests)
            return run(PLAIN)

        groups = {answer_group(request) for request in requests}
        if groups & (checks.disproved | self._distrusted):
            return run_plainly()
        try:
            results = run(paths)
        except REFUSALS:
            if len(requests) > 1:  # `_each_if_not_all` finds the request that it fails on
                raise
            return run_plainly()
        checks.note_answered(requests, rows)
        for request, row, result in zip(requests, rows, results, strict=True):
            reason = checks.reason_to_check(request, row)
            if reason is None:
                continue
            self._check_processor(request, images, checks)
            is_equal = unless_out_of_memory(partial(agrees, checks, row, result, reason))
            if is_equal or is_equal is None:
                continue
            logger.warning(
                "%s: %s differs from the same request run alone by more than rounding; it and what was asked with it "
                "are asked again one row at a time (%s)",
                self.name,
                request.sample_id,
                "; ".join(checks.findings),
            )
            checks.disproved |= groups
            return run_plainly()
        return results

    def _check_processor(self, request: Request, images: Images, checks: SpotChecks) -> None:
        """Warn if the processor makes different inputs when it encodes a request for a second time."""
        with without_warnings():
            repeats = self._encoder.repeats(self._prompter.write(request), images)
        if not repeats:
            checks.unrepeatable += 1
            logger.warning(
                "%s: its processor makes other inputs of %s a second time",
                self.name,
                request.sample_id,
            )

    def _proof_of(self, row: EncodedPrompt) -> _Proof:
        """Return how a prompt has to be run, which depends on whether it shows images, clips or both.

        For clips, this is found out when the first prompt with a clip is sent.
        """
        content = _content_of(row)
        default = self._proofs[self._default_content]
        if content == "images":
            return default
        if content == "both":
            return _Proof(PLAIN, PLAIN, PLAIN.name, default.spot_checks)
        if "clips" not in self._proofs:
            if self._clips_refused:
                raise ModelError(self._clips_refused)
            try:
                self._proofs["clips"] = self._prove("clips")
            except ModelError as error:
                self._clips_refused = str(error)
                raise
        return self._proofs["clips"]

    def _prove(self, shows: Shows) -> _Proof:
        """Find out which fast paths are exact for the model, and log one line if not all of them are.

        Raises ModelError if the model cannot process prompts with this content at all.
        """
        engine = self._engine
        name = self.name
        try:
            with quiet_and_single_threaded(self._layout.model):
                probe = build_probe(
                    self._conversation, self._encoder, self._layout.encoder_decoder, shows
                )
                # Another model of the same weights may have been checked already.
                key = (shows, self.batch_size, self._exact)
                if key not in self._self_checks:
                    self._self_checks[key] = choose_fast_paths(engine, probe, exact=self._exact)
                verdict: SelfCheckResult = self._self_checks[key]
                engine.layout = verdict.adjusted(engine.layout)
        except UnrepeatableError as error:
            raise ModelError(f"{name}: {error}") from error
        except refusals() as error:
            message = " ".join(str(error).split())[:200]
            if shows == "clips":
                raise ModelError(
                    f"{name}: it cannot process a clip as video ({type(error).__name__}: {message}); use "
                    "?clips=images"
                ) from error
            raise ModelError(
                f"{name}: it cannot process an image and a question ({type(error).__name__}: {message}); it may not "
                "be a vision-language model, or its architecture is not supported"
            ) from error
        if verdict.line and not self._exact:
            # Without a cached prompt every option costs a prefill, so the user should know why it is slow.
            is_slow = verdict.fast_paths == PLAIN
            line = f"clips: {verdict.line}" if shows == "clips" else verdict.line
            logger.log(logging.WARNING if is_slow else logging.INFO, "%s: %s", name, line)
        spot_checks = SpotChecks(self._layout, verdict.tolerance)
        return _Proof(verdict.fast_paths, verdict.replies, verdict.name, spot_checks)

    def _encoded(self, request: Request, images: Images) -> EncodedPrompt | Response:
        """Return the prompt as tensors, or a failed response saying why it cannot be encoded."""
        try:
            encoded = self._encode(self._prompter.write(request), images)
            self._require_room(encoded, request.decoding.max_new_tokens)
            return encoded
        except UNUSABLE as error:
            return _failed(error)

    def _encode(self, prompt: ChatPrompt, images: Images) -> EncodedPrompt:
        """Return a prompt as tensors, and count prompts with clips."""
        has_frames = any(image.time is not None for image in prompt.images)
        if prompt.clips:
            self._clips_seen["as video"] += 1
        elif has_frames:
            self._clips_seen["as pictures"] += 1
        return self._encoder.encode(prompt, images)

    def _continued(self, request: Request, images: Images) -> ContinuedPrompt | Response:
        """Return prompt and continuations as tensors, or a failed response saying why they cannot be encoded."""
        try:
            prompt = self._prompter.write(request)
            encoded = self._encode(prompt, images)
            texts = self._prompter.continuations(request)
            if self._layout.encoder_decoder:
                continued = self._encoder.reply_with(encoded, texts)
            else:
                continued = self._encoder.continue_with(prompt, encoded, texts)
                self._prompter.require_finished(request, prompt)
            longest_tail = max(len(tail) for tail in continued.tails)
            self._require_room(continued.context, longest_tail)
            return continued
        except UNUSABLE as error:
            return _failed(error)

    def _require_room(self, encoded: EncodedPrompt, more: int) -> None:
        """Raise ValueError for a prompt that leaves no room for a reply of `more` tokens.

        Cutting the prompt would change the question.
        """
        length = len(encoded.ids)
        together = max(length, more) if self._layout.encoder_decoder else length + more
        if self._longest and together > self._longest:
            raise ValueError(
                f"the prompt has {length} tokens and the reply up to {more}, but the model takes at "
                f"most {self._longest}"
            )


def _context(row: EncodedPrompt | ContinuedPrompt) -> EncodedPrompt:
    return row if isinstance(row, EncodedPrompt) else row.context


def _group_of(row: EncodedPrompt) -> tuple[Any, ...]:
    """Return a key that is equal for prompts that can be run together.

    They have the same content (such as clips), the same number of images, and inputs with the same
    names.
    """
    return _content_of(row), len(row.digests), frozenset(row.extras)


def _content_of(row: EncodedPrompt) -> Literal["images", "clips", "both"]:
    """Return what a prompt shows. A prompt with text only is run like those with images."""
    if not row.clips:
        return "images"
    return "clips" if row.clips == len(row.digests) else "both"


def _each_if_not_all(
    indices: list[int], run: Callable[[list[int]], list[Response]]
) -> list[Response]:
    """Return the results of all requests together. If that raises an error, run each half by itself, and so on.

    In this way, a request that cannot be run fails alone.
    """
    try:
        return run(indices)
    except (*REFUSALS, ModelError, MemoryError) as error:
        if len(indices) == 1:
            return [_failed(error, "model")]
    # Outside of `except`: the error holds the frames of the failed pass, and these its tensors.
    half = len(indices) // 2
    return [*_each_if_not_all(indices[:half], run), *_each_if_not_all(indices[half:], run)]


def _scored(
    prompt: ContinuedPrompt, token_scores: Scores, continuations: Sequence[str]
) -> Response:
    """Return the response to a request for the log-likelihoods of several continuations of a prompt.

    Args:
        prompt: The tokens of the prompt and of its continuations.
        token_scores: For each continuation, the log-probability of each of its tokens, in nats.
        continuations: Texts of the continuations.
    """
    scores = []
    for token_logprobs, text in zip(token_scores, continuations, strict=True):
        n_bytes = len(text.encode())
        scores.append(ContinuationScore(sum(token_logprobs), len(token_logprobs), n_bytes))
    n_prompt_tokens = len(prompt.context.ids)
    return Response(scores=tuple(scores), usage=Usage(n_prompt_tokens, 0))


def _failed(error: Exception, kind: ErrorKind = "bad_request") -> Response:
    """Return the failure of one request, in one line. Errors that are not meant for users keep their type's name."""
    message = " ".join(str(error).split())[:300]
    is_for_users = isinstance(error, (SnellenError, OSError))
    if kind == "bad_request" and isinstance(error, ValueError):
        is_for_users = True
    if not (is_for_users and message):
        message = f"{type(error).__name__}: {message}"
    return Response(error=Failure(kind, message))


def _notes(prompt: EncodedPrompt | ContinuedPrompt | Response) -> tuple[str, ...]:
    """Return notes on how a prompt was made."""
    if isinstance(prompt, Response):
        return ()
    return _context(prompt).notes


def _tokenizer(loaded: LoadedModel) -> Any:
    return getattr(loaded.processor, "tokenizer", loaded.processor)


def _pad_token(loaded: LoadedModel) -> int:
    """Return the token to pad with: the tokenizer's, else the first end of a reply, else 0."""
    pad_token = _tokenizer(loaded).pad_token_id
    if pad_token is None:
        ends = loaded.model.generation_config.eos_token_id
        pad_token = ends[0] if isinstance(ends, (list, tuple)) else ends
    return int(pad_token) if pad_token is not None else 0


@dataclass(frozen=True)
class _Proof:
    """How prompts with a certain content have to be run, and the spot checks on them."""

    scores: FastPaths
    replies: FastPaths
    name: str
    """A description of both, for the run's manifest."""
    spot_checks: SpotChecks
