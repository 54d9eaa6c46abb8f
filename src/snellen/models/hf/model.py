"""The adapter: a transformers model behind Snellen's two methods."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from snellen.errors import DataError, ModelError
from snellen.images import Images
from snellen.models.base import ALL_KINDS, ModelSpec, read_options
from snellen.models.hf.anatomy import dissect
from snellen.models.hf.conversation import Conversation
from snellen.models.hf.decoding import end_tokens, generate_plainly, like_decoding, picker, response
from snellen.models.hf.encode import PER_TOKEN, Continued, Encoded, Encoder
from snellen.models.hf.engine import Engine, packed
from snellen.models.hf.load import HfOptions, Loaded, load, working
from snellen.models.hf.probe import probe
from snellen.models.hf.selfcheck import Verdict, check
from snellen.records import ContinuationScore, Failure, Kind, Request, Response, Usage

ADAPTER = "hf 1"
"""Version of the adapter; it grows when the same model would answer differently."""
ROWS = {"cpu": 16, "cuda": 32}
TOKENS = {"cpu": 4096, "cuda": 16384}
"""What goes into one forward before memory has its say."""
logger = logging.getLogger("snellen")


def open_hf(spec: ModelSpec) -> HFModel:
    """The model that `hf:org/name[@revision]` or `hf:./folder` names, ready to answer.

    Raises MissingExtraError without torch or transformers, ModelError when it cannot be loaded.
    """
    options = read_options(spec, HfOptions)
    try:
        options.rows(1)
    except ValueError:
        raise ModelError(f"{spec.text}: batch_size is a positive number or auto, not {options.batch_size}") from None
    return HFModel(spec.text, load(spec, options), options)


class HFModel:
    """A transformers model that generates replies and scores continuations."""

    def __init__(self, name: str, loaded: Loaded, options: HfOptions) -> None:
        self.name = name
        self.kinds: frozenset[Kind] = ALL_KINDS
        device = "cpu" if loaded.facts["device"] == "cpu" else "cuda"
        self.batch_size = options.rows(ROWS[device])
        self._facts = loaded.facts
        self._conversation = Conversation(loaded.processor, loaded.model.config.model_type)
        self._anatomy = dissect(loaded.model, _pad_token(loaded))
        unknown = PER_TOKEN - set(inspect.signature(loaded.model.forward).parameters)
        self._encoder = Encoder(loaded.processor, unknown, closes=self._anatomy.encoder_decoder)
        self._longest = _longest(loaded.model)
        exact = options.scoring == "exact"
        self._engine = Engine(self._anatomy, 1 if exact else self.batch_size, TOKENS[device])
        if not exact:
            self._check(name)

    def fingerprint(self) -> dict[str, str]:
        return {
            **self._facts,
            "adapter": ADAPTER,
            "prompt": self._conversation.name,
            "scoring": self._engine.abilities.name,
        }

    def generate(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """Replies in the order of the requests: new text without special tokens, stripped of white space."""
        started = time.perf_counter()
        asked = [self._encoded(request, images) for request in requests]
        responses = {i: found for i, found in enumerate(asked) if isinstance(found, Response)}
        groups: dict[Any, list[tuple[int, Encoded]]] = {}
        for i, row in enumerate(asked):
            if isinstance(row, Encoded):
                groups.setdefault((like_decoding(requests[i]), frozenset(row.extras)), []).append((i, row))
        ends = end_tokens(self._anatomy)
        for group in groups.values():
            rows, said = [row for _, row in group], [requests[i] for i, _ in group]
            for (i, row), tokens in zip(group, self._write(rows, said), strict=True):
                responses[i] = response(self._encoder, row, tokens, ends, requests[i])
        return self._finished(responses, started)

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """One score a continuation: the sum of its tokens' log-probabilities in nats."""
        started = time.perf_counter()
        asked = [self._continued(request, images) for request in requests]
        responses = {i: found for i, found in enumerate(asked) if isinstance(found, Response)}
        groups: dict[frozenset[str], list[tuple[int, Continued]]] = {}
        for i, found in enumerate(asked):
            if isinstance(found, Continued):
                groups.setdefault(frozenset(found.context.extras), []).append((i, found))
        for group in groups.values():
            with working(self._anatomy.model):
                scored = self._engine.score([found for _, found in group])
            for (i, found), tails in zip(group, scored, strict=True):
                scores = tuple(
                    ContinuationScore(sum(tail), len(tail), len(text.encode()))
                    for tail, text in zip(tails, requests[i].continuations, strict=True)
                )
                responses[i] = Response(scores=scores, usage=Usage(len(found.context.ids), 0))
        return self._finished(responses, started)

    def _write(self, rows: Sequence[Encoded], requests: Sequence[Request]) -> list[list[int]]:
        """New tokens of requests of like decoding."""
        engine = self._engine

        def run(places: list[int]) -> list[list[int]]:
            part = [rows[place] for place in places]
            with engine.remember(part):
                return generate_plainly(self._anatomy, self._encoder, part, [requests[place] for place in places])

        with working(self._anatomy.model):
            if engine.abilities.cache:
                pick = picker(self._anatomy, self._encoder, requests)
                return engine.write(rows, pick, requests[0].decoding.max_new_tokens)
            order = sorted(range(len(rows)), key=lambda place: -len(rows[place].ids))
            return engine.in_batches(packed(order, range(len(rows)), engine.budget.rows), run)

    def _check(self, name: str) -> None:
        """Ask the model which fast paths it allows; one line says when it does not allow all."""
        try:
            with working(self._anatomy.model):
                verdict: Verdict = check(
                    self._engine, probe(self._conversation, self._encoder, self._anatomy.encoder_decoder)
                )
        except (ValueError, RuntimeError, TypeError, KeyError, IndexError) as error:
            first = " ".join(str(error).split())[:200]
            raise ModelError(
                f"{name}: a picture and a question cannot be put to it ({type(error).__name__}: {first}); "
                "it may be no vision-language model, or of an architecture that this adapter does not know"
            ) from error
        self._engine.abilities = verdict.abilities
        if verdict.line:
            # Without a cached prompt every option costs a prefill: the user should know why it is slow.
            slow = not (verdict.abilities.cache or self._anatomy.encoder_decoder)
            logger.log(logging.WARNING if slow else logging.INFO, "%s: %s", name, verdict.line)

    def _encoded(self, request: Request, images: Images) -> Encoded | Response:
        """The prompt as tensors, or the response that says why it cannot be one."""
        try:
            encoded = self._encoder.encode(self._conversation.write(request.messages), images)
            return self._within(encoded, request.decoding.max_new_tokens)
        except (DataError, ValueError, OSError) as error:
            return _failed(error)

    def _continued(self, request: Request, images: Images) -> Continued | Response:
        try:
            prompt = self._conversation.write(request.messages)
            encoded = self._encoder.encode(prompt, images)
            if self._anatomy.encoder_decoder:
                return self._encoder.reply_with(encoded, request.continuations)
            found = self._encoder.continue_with(prompt, encoded, request.continuations)
            self._within(found.context, max(map(len, found.tails)))
            return found
        except (DataError, ValueError, OSError) as error:
            return _failed(error)

    def _within(self, encoded: Encoded, more: int) -> Encoded:
        """Raises ValueError for a prompt that leaves no room: cutting it would change the question."""
        if self._longest and len(encoded.ids) + more > self._longest and not self._anatomy.encoder_decoder:
            raise ValueError(
                f"the prompt has {len(encoded.ids)} tokens and the reply up to {more}, the model takes {self._longest}"
            )
        return encoded

    def _finished(self, responses: dict[int, Response], started: float) -> list[Response]:
        """In order, with the time that each took on average and the notes on how it was asked."""
        seconds = (time.perf_counter() - started) / max(1, len(responses))
        notes = self._conversation.notes
        return [
            found if found.error else replace(found, seconds=seconds, notes=(*notes, *found.notes))
            for _, found in sorted(responses.items())
        ]


def _failed(error: Exception) -> Response:
    return Response(error=Failure("bad_request", " ".join(str(error).split())[:300]))


def _longest(model: Any) -> int | None:
    text = getattr(model.config, "text_config", model.config)
    longest = getattr(text, "max_position_embeddings", None)
    return int(longest) if longest else None


def _pad_token(loaded: Loaded) -> int:
    tokenizer = getattr(loaded.processor, "tokenizer", loaded.processor)
    ends = loaded.model.generation_config.eos_token_id
    first = ends[0] if isinstance(ends, (list, tuple)) else ends
    return int(next((i for i in (tokenizer.pad_token_id, first) if i is not None), 0))
