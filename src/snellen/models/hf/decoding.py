"""Replies, greedy or sampled so that none depends on its neighbours in the batch.

Sampling is the argmax of logits plus Gumbel noise, which is a draw from their softmax (Gumbel-max:
Maddison et al., "A* sampling", 2014, section 2). The noise of a request comes from a generator of its
own, seeded by its key, which holds the decoding seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from snellen.models.hf.anatomy import Anatomy
from snellen.models.hf.collate import stack, to_device
from snellen.models.hf.encode import Encoded, Encoder
from snellen.models.hf.load import library
from snellen.models.hf.shared import Pick
from snellen.records import Decoding, Request, Response, Usage


def like_decoding(request: Request) -> tuple[Any, ...]:
    """What requests of one batch must have in common."""
    decoding: Decoding = request.decoding
    return (decoding.max_new_tokens, decoding.temperature, decoding.top_p, decoding.stop)


def picker(anatomy: Anatomy, encoder: Encoder, requests: Sequence[Request]) -> Pick:
    """How the next tokens of `requests`, which are of like decoding, are chosen."""
    ends, stops = end_tokens(anatomy), requests[0].decoding.stop

    def pick(members: Sequence[int]) -> Callable[[Any, list[list[int]]], tuple[list[int], list[bool]]]:
        shift = noise([requests[member] for member in members])

        def choose(logits: Any, said: list[list[int]]) -> tuple[list[int], list[bool]]:
            tokens: list[int] = shift(logits.float()).argmax(-1).tolist()
            return tokens, [
                token in ends or (bool(stops) and _holds(encoder.decode([*before, token]), stops))
                for token, before in zip(tokens, said, strict=True)
            ]

        return choose

    return pick


def generate_plainly(
    anatomy: Anatomy, encoder: Encoder, rows: Sequence[Encoded], requests: Sequence[Request]
) -> list[list[int]]:
    """New tokens by the model's own `generate`, in one batch. The twin of shared writing."""
    import torch

    transformers, model, decoding = library(), anatomy.model, requests[0].decoding
    # A decoder goes on from the last place; an encoder pads as it does for scoring, and is remembered so.
    batch = to_device(model, stack(rows, anatomy.pad, "right" if anatomy.encoder_decoder else "left"))
    settings = transformers.GenerationConfig(
        max_new_tokens=decoding.max_new_tokens,
        do_sample=False,
        num_beams=1,
        pad_token_id=anatomy.pad,
        eos_token_id=sorted(end_tokens(anatomy)) or None,
        bos_token_id=model.generation_config.bos_token_id,
        decoder_start_token_id=anatomy.start if anatomy.encoder_decoder else None,
    )
    shift = noise(requests)

    class Shift(library().LogitsProcessor):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            return shift(scores.float())

    class StopAt(library().StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
            texts = [encoder.decode(row) for row in _new(anatomy, input_ids, batch["input_ids"]).tolist()]
            return torch.tensor([_holds(text, decoding.stop) for text in texts], device=input_ids.device)

    shifts = transformers.LogitsProcessorList([Shift()] if decoding.temperature > 0 else [])
    stops = transformers.StoppingCriteriaList([StopAt()] if decoding.stop else [])
    anatomy.forget()
    with torch.inference_mode():
        made = model.generate(**batch, generation_config=settings, logits_processor=shifts, stopping_criteria=stops)
    new: list[list[int]] = _new(anatomy, made, batch["input_ids"]).tolist()
    return new


def noise(requests: Sequence[Request]) -> Callable[[Any], Any]:
    """What is added to logits [requests, vocabulary] so that their argmax is the next token."""
    import torch

    decoding = requests[0].decoding
    if decoding.temperature <= 0:
        return lambda logits: logits
    generators = [torch.Generator().manual_seed(_seed(request)) for request in requests]
    tiny = torch.finfo(torch.float32).tiny

    def shifted(logits: Any) -> Any:
        scores = _nucleus(logits / decoding.temperature, decoding.top_p)
        uniform = torch.stack([torch.rand(scores.shape[1], generator=generator) for generator in generators])
        return scores - (-uniform.clamp_min(tiny).log()).clamp_min(tiny).log().to(scores.device)

    return shifted


def response(encoder: Encoder, row: Encoded, tokens: Sequence[int], ends: frozenset[int], request: Request) -> Response:
    """What was written, up to its end token or stop string, without white space at its ends."""
    stops = request.decoding.stop
    count = next((i for i, token in enumerate(tokens) if token in ends), len(tokens))
    ended = count < len(tokens)
    text = encoder.decode(tokens[:count])
    if stops and _holds(text, stops):
        # What follows a stop string is padding up to the batch's longest row.
        count = next(n for n in range(1, count + 1) if _holds(encoder.decode(tokens[:n]), stops))
        text, ended = text[: min(text.find(stop) for stop in stops if stop in text)], True
        used = count
    else:
        used = count + ended
    return Response(text=text.strip(), finish="stop" if ended else "length", usage=Usage(len(row.ids), used))


def end_tokens(anatomy: Anatomy) -> frozenset[int]:
    """The tokens that end a reply."""
    ends = anatomy.model.generation_config.eos_token_id
    if ends is None:
        ends = anatomy.speaker.generation_config.eos_token_id
    return frozenset(ends if isinstance(ends, (list, tuple)) else [] if ends is None else [ends])


def _new(anatomy: Anatomy, made: Any, prompt: Any) -> Any:
    """The tokens after the prompt: some models return it again, some (BLIP-2) do not, a decoder has its own start."""
    if anatomy.encoder_decoder:
        return made[:, 1:]
    width = prompt.shape[1]
    again = made.shape[1] >= width and bool((made[:, :width] == prompt).all())
    return made[:, width:] if again else made


def _holds(text: str, stops: Sequence[str]) -> bool:
    return any(stop in text for stop in stops)


def _nucleus(scores: Any, top_p: float) -> Any:
    """Scores with all but the smallest set of tokens of total probability >= top_p removed."""
    if top_p >= 1:
        return scores
    ordered, places = scores.sort(descending=True)
    before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
    return scores.masked_fill((before >= top_p).gather(1, places.argsort(1)), float("-inf"))


def _seed(request: Request) -> int:
    return int.from_bytes(hashlib.blake2b(f"sample:{request.key}".encode(), digest_size=8).digest()) >> 1
