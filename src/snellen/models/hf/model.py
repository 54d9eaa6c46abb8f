"""The adapter: a transformers model behind Snellen's two methods."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from snellen.errors import DataError, ModelError
from snellen.images import Images
from snellen.models.base import ALL_KINDS, ModelSpec, read_options
from snellen.models.hf.collate import batches
from snellen.models.hf.conversation import Conversation
from snellen.models.hf.decoding import like_decoding, reply_to
from snellen.models.hf.encode import Continued, Encoded, Encoder
from snellen.models.hf.load import HfOptions, Loaded, load, quiet
from snellen.models.hf.plain import rows_of, score_rows
from snellen.records import ContinuationScore, Failure, Kind, Request, Response, Usage

ADAPTER = "hf 1"
"""Version of the adapter; it grows when the same model would answer differently."""
T = TypeVar("T")
R = TypeVar("R")


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
        self.batch_size = options.rows(16 if loaded.facts.get("device") == "cpu" else 32)
        self._model, self._facts = loaded.model, loaded.facts
        self._exact = options.scoring == "exact"
        self._rows = self.batch_size
        self._conversation = Conversation(loaded.processor)
        self._encoder = Encoder(loaded.processor)
        self._pad = _pad_token(loaded)
        self._token_type = 1 if getattr(loaded.model.config, "model_type", "") == "paligemma" else 0

    def fingerprint(self) -> dict[str, str]:
        return {**self._facts, "adapter": ADAPTER, "scoring": "exact" if self._exact else "batched"}

    def generate(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """Replies in the order of the requests."""
        started = time.perf_counter()
        responses: dict[int, Response] = {}
        groups: dict[Any, list[tuple[int, Encoded]]] = {}
        for i, request in enumerate(requests):
            encoded = self._encoded(request, images)
            if isinstance(encoded, Response):
                responses[i] = encoded
            else:
                kind = (like_decoding(request), frozenset(encoded.extras))
                groups.setdefault(kind, []).append((i, encoded))
        for group in groups.values():
            asked = [requests[i] for i, _ in group]
            rows = [encoded for _, encoded in group]
            replies = self._by_batches(
                rows,
                lambda row: len(row.ids),
                lambda places, rows=rows, asked=asked: reply_to(  # type: ignore[misc]
                    self._model, self._encoder, [rows[p] for p in places], [asked[p] for p in places], self._pad
                ),
            )
            responses.update(zip((i for i, _ in group), replies, strict=True))
        seconds = (time.perf_counter() - started) / max(1, len(requests))
        return [self._noted(responses[i], seconds) for i in range(len(requests))]

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """One score a continuation: the sum of its tokens' log-probabilities in nats."""
        started = time.perf_counter()
        responses: dict[int, Response] = {}
        groups: dict[frozenset[str], list[tuple[int, Continued]]] = {}
        for i, request in enumerate(requests):
            asked = self._continued(request, images)
            if isinstance(asked, Response):
                responses[i] = asked
            else:
                groups.setdefault(frozenset(asked.context.extras), []).append((i, asked))
        for group in groups.values():
            scored = iter(self._score([asked for _, asked in group]))
            for i, asked in group:
                scores = tuple(
                    ContinuationScore(sum(next(scored)), len(tail), len(text.encode()))
                    for tail, text in zip(asked.tails, requests[i].continuations, strict=True)
                )
                responses[i] = Response(scores=scores, usage=Usage(len(asked.context.ids), 0))
        seconds = (time.perf_counter() - started) / max(1, len(requests))
        return [self._noted(responses[i], seconds) for i in range(len(requests))]

    def _score(self, asked: Sequence[Continued]) -> list[list[float]]:
        rows = rows_of(asked)
        return self._by_batches(
            rows,
            lambda row: len(row[0].ids) + len(row[1]),
            lambda places: score_rows(self._model, [rows[p] for p in places], self._pad, self._token_type),
            1 if self._exact else None,
        )

    def _by_batches(
        self,
        rows: Sequence[T],
        length: Callable[[T], int],
        run: Callable[[list[int]], Sequence[R]],
        size: int | None = None,
    ) -> list[R]:
        """`run` over all rows; a batch that does not fit in memory is halved, and the size remembered."""
        results: dict[int, R] = {}
        waiting = list(batches(rows, size or self._rows, length))
        while waiting:
            places = waiting.pop(0)
            try:
                with quiet():
                    made = run(places)
            except (RuntimeError, MemoryError) as error:
                if not _out_of_memory(error) or len(places) == 1:
                    raise
                self._rows = min(self._rows, (len(places) + 1) // 2)
                waiting = [places[: self._rows], places[self._rows :], *waiting]
                continue
            results.update(zip(places, made, strict=True))
        return [results[i] for i in range(len(rows))]

    def _encoded(self, request: Request, images: Images) -> Encoded | Response:
        """The prompt as tensors, or the response that says why it cannot be one."""
        try:
            return self._encoder.encode(self._conversation.write(request.messages), images)
        except (DataError, ValueError, OSError) as error:
            return _failed(error)

    def _continued(self, request: Request, images: Images) -> Continued | Response:
        try:
            prompt = self._conversation.write(request.messages)
            encoded = self._encoder.encode(prompt, images)
            return self._encoder.continue_with(prompt, encoded, request.continuations)
        except (DataError, ValueError, OSError) as error:
            return _failed(error)

    def _noted(self, response: Response, seconds: float) -> Response:
        if response.error:
            return response
        return replace(
            response, seconds=seconds or response.seconds, notes=(*self._conversation.notes, *response.notes)
        )


def _failed(error: Exception) -> Response:
    return Response(error=Failure("bad_request", " ".join(str(error).split())[:300]))


def _pad_token(loaded: Loaded) -> int:
    tokenizer = getattr(loaded.processor, "tokenizer", loaded.processor)
    ends = loaded.model.generation_config.eos_token_id
    first = ends[0] if isinstance(ends, (list, tuple)) else ends
    return int(next((i for i in (tokenizer.pad_token_id, first) if i is not None), 0))


def _out_of_memory(error: Exception) -> bool:
    import torch

    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "not enough memory" in str(error)
