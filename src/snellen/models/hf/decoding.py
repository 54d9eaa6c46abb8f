"""Batched generation: greedy, or sampled so that a reply does not depend on its neighbours."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from snellen.models.hf.collate import stack
from snellen.models.hf.encode import Encoded, Encoder
from snellen.models.hf.load import library
from snellen.models.hf.plain import to_device
from snellen.records import Decoding, Request, Response, Usage


def reply_to(
    model: Any, encoder: Encoder, rows: Sequence[Encoded], requests: Sequence[Request], pad: int
) -> list[Response]:
    """Replies to requests of like decoding, in one batch.

    A reply is the new text without special tokens and without white space at its ends.
    """
    import torch

    transformers = library()
    decoding = requests[0].decoding
    batch = to_device(model, stack(rows, pad, "left"))
    ends = _end_tokens(model)
    settings = transformers.GenerationConfig(
        max_new_tokens=decoding.max_new_tokens,
        do_sample=False,
        num_beams=1,
        pad_token_id=pad,
        eos_token_id=ends or None,
        bos_token_id=model.generation_config.bos_token_id,
        decoder_start_token_id=model.generation_config.decoder_start_token_id,
    )
    start = 0 if model.config.is_encoder_decoder else batch["input_ids"].shape[1]
    noise = transformers.LogitsProcessorList([seeded_noise(requests)] if decoding.temperature > 0 else [])
    stops = transformers.StoppingCriteriaList([stop_at(encoder, decoding.stop, start)] if decoding.stop else [])
    with torch.inference_mode():
        made = model.generate(**batch, generation_config=settings, logits_processor=noise, stopping_criteria=stops)
    new = made[:, start:].tolist()
    return [_response(encoder, row, ids, ends, request) for row, ids, request in zip(rows, new, requests, strict=True)]


def like_decoding(request: Request) -> tuple[Any, ...]:
    """What requests of one batch must have in common."""
    decoding: Decoding = request.decoding
    return (decoding.max_new_tokens, decoding.temperature, decoding.top_p, decoding.stop)


def seeded_noise(requests: Sequence[Request]) -> Any:
    """Makes greedy search sample: the argmax of logits plus Gumbel noise is a draw from their softmax.

    Noise comes from a generator per request, seeded by its key (which holds the decoding seed), so a
    reply does not depend on the batch. Gumbel-max: Maddison et al., "A* sampling", 2014, section 2.
    """
    import torch

    decoding = requests[0].decoding
    generators = [torch.Generator().manual_seed(_seed(request)) for request in requests]

    class SeededNoise(library().LogitsProcessor):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            scores = _nucleus(scores.float() / decoding.temperature, decoding.top_p)
            uniform = torch.stack([torch.rand(scores.shape[1], generator=generator) for generator in generators])
            tiny = torch.finfo(torch.float32).tiny
            return scores - (-uniform.clamp_min(tiny).log()).clamp_min(tiny).log().to(scores.device)

    return SeededNoise()


def stop_at(encoder: Encoder, stops: tuple[str, ...], start: int) -> Any:
    """Ends a row as soon as its new text holds one of `stops`."""
    import torch

    class StopAt(library().StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
            texts = [encoder.decode(row) for row in input_ids[:, start:].tolist()]
            return torch.tensor([any(stop in text for stop in stops) for text in texts], device=input_ids.device)

    return StopAt()


def _nucleus(scores: Any, top_p: float) -> Any:
    """Scores with all but the smallest set of tokens of total probability >= top_p removed."""
    if top_p >= 1:
        return scores
    ordered, places = scores.sort(descending=True)
    before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
    removed = (before >= top_p).scatter(1, places, before >= top_p)
    return scores.masked_fill(removed, float("-inf"))


def _seed(request: Request) -> int:
    return int.from_bytes(hashlib.blake2b(f"sample:{request.key}".encode(), digest_size=8).digest()) >> 1


def _end_tokens(model: Any) -> list[int]:
    ends = model.generation_config.eos_token_id
    return list(ends) if isinstance(ends, (list, tuple)) else [] if ends is None else [ends]


def _response(encoder: Encoder, row: Encoded, ids: list[int], ends: list[int], request: Request) -> Response:
    count = next((i for i, token in enumerate(ids) if token in ends), len(ids))
    ended = count < len(ids)
    text = encoder.decode(ids[:count])
    places = [text.find(stop) for stop in request.decoding.stop if stop in text]
    if places:
        # Tokens that a longer row of the batch made this one go on with are padding, not reply.
        text, ended = text[: min(places)], True
    return Response(
        text=text.strip(),
        finish="stop" if ended else "length",
        usage=Usage(prompt_tokens=len(row.ids), completion_tokens=count + ended),
    )
