"""Greedy or sampled replies, none of which depends on its neighbours in the batch.

Sampling is the argmax of logits plus Gumbel noise, which is a draw from their softmax (Gumbel-max:
Maddison et al., "A* sampling", 2014, section 2). The noise of a request comes from its own
generator, seeded by its key, which includes the decoding seed.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from snellen.models.hf.cached_forward import TokenPicker, pad_rows, to_device
from snellen.models.hf.encode import EncodedPrompt, Encoder
from snellen.models.hf.load import import_transformers, inference
from snellen.models.hf.model_layout import ModelLayout
from snellen.records import Decoding, Request, Response, Usage


def decoding_group(request: Request) -> tuple[Any, ...]:
    """Decoding settings that requests of one batch must share."""
    decoding: Decoding = request.decoding
    return (decoding.max_new_tokens, decoding.temperature, decoding.top_p, decoding.stop)


def token_picker(layout: ModelLayout, encoder: Encoder, requests: Sequence[Request]) -> TokenPicker:
    """Chooses the next tokens of `requests`, which share their decoding settings."""
    ends, stops = layout.end_tokens, requests[0].decoding.stop

    def pick(
        members: Sequence[int],
    ) -> Callable[[Any, list[list[int]]], tuple[list[int], list[bool]]]:
        shift = gumbel_noise([requests[member] for member in members])

        def choose(logits: Any, tokens_so_far: list[list[int]]) -> tuple[list[int], list[bool]]:
            tokens: list[int] = shift(logits.float()).argmax(-1).tolist()
            return tokens, [
                token in ends or (bool(stops) and _holds(encoder.decode([*before, token]), stops))
                for token, before in zip(tokens, tokens_so_far, strict=True)
            ]

        return choose

    return pick


def telling(pick: TokenPicker, tell: Callable[[list[int]], None]) -> TokenPicker:
    """The same choices for one request; `tell` is given its tokens after each."""

    def pick_and_tell(
        members: Sequence[int],
    ) -> Callable[[Any, list[list[int]]], tuple[list[int], list[bool]]]:
        choose = pick(members)

        def choose_and_tell(
            logits: Any, tokens_so_far: list[list[int]]
        ) -> tuple[list[int], list[bool]]:
            tokens, ends = choose(logits, tokens_so_far)
            tell([*tokens_so_far[0], tokens[0]])
            return tokens, ends

        return choose_and_tell

    return pick_and_tell


def generate_plainly(
    layout: ModelLayout,
    encoder: Encoder,
    rows: Sequence[EncodedPrompt],
    requests: Sequence[Request],
) -> list[list[int]]:
    """New tokens by the model's own `generate`, in one batch."""
    import torch

    decoding, prompt = requests[0].decoding, _prompts(layout, rows)["input_ids"]
    shift, transformers = gumbel_noise(requests), import_transformers()

    class Shift(transformers.LogitsProcessor):
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            return shift(scores.float())

    class StopAt(transformers.StoppingCriteria):
        def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
            texts = [encoder.decode(row) for row in _new(layout, input_ids, prompt).tolist()]
            return torch.tensor(
                [_holds(text, decoding.stop) for text in texts], device=input_ids.device
            )

    shifts = [Shift()] if decoding.temperature > 0 else []
    stops = [StopAt()] if decoding.stop else []
    return generate_rows(
        layout, rows, decoding.max_new_tokens, logits_processor=shifts, stopping_criteria=stops
    )


def generate_rows(
    layout: ModelLayout, rows: Sequence[EncodedPrompt], longest: int, **watchers: Sequence[Any]
) -> list[list[int]]:
    """Up to `longest` new tokens by the model's own `generate`, in one batch: the likeliest, unless one of `watchers`
    (the lists `logits_processor` and `stopping_criteria`) changes that."""

    transformers, model = import_transformers(), layout.model
    batch = _prompts(layout, rows)
    settings = transformers.GenerationConfig(
        max_new_tokens=longest,
        do_sample=False,
        num_beams=1,
        pad_token_id=layout.pad,
        eos_token_id=sorted(layout.end_tokens) or None,
        bos_token_id=model.generation_config.bos_token_id,
        decoder_start_token_id=layout.start if layout.encoder_decoder else None,
    )
    kinds = {
        "logits_processor": transformers.LogitsProcessorList,
        "stopping_criteria": transformers.StoppingCriteriaList,
    }
    watching = {name: kinds[name](parts) for name, parts in watchers.items()}
    layout.forget_positions()
    with inference(), _stored_settings_aside(layout):
        sequences = model.generate(**batch, generation_config=settings, **watching)
    new: list[list[int]] = _new(layout, sequences, batch["input_ids"]).tolist()
    return new


@contextlib.contextmanager
def _stored_settings_aside(layout: ModelLayout) -> Iterator[None]:
    """Within this context the model has no generation settings of its own. `generate` would take from them whatever it
    is not told otherwise, such as the first and last tokens and the n-grams that Florence-2's force and forbid."""
    models = {id(model): model for model in (layout.model, layout.language_model)}.values()
    stored = [model.generation_config for model in models]
    try:
        for model in models:
            model.generation_config = import_transformers().GenerationConfig()
        yield
    finally:
        for model, settings in zip(models, stored, strict=True):
            model.generation_config = settings


def gumbel_noise(requests: Sequence[Request]) -> Callable[[Any], Any]:
    """A function that shifts logits [requests, vocabulary] so that their argmax is the next token."""
    import torch

    decoding = requests[0].decoding
    if decoding.temperature <= 0:
        return lambda logits: logits
    generators = [torch.Generator().manual_seed(_seed(request)) for request in requests]
    tiny = torch.finfo(torch.float32).tiny

    def shifted(logits: Any) -> Any:
        scores = _nucleus(logits / decoding.temperature, decoding.top_p)
        uniform = torch.stack(
            [torch.rand(scores.shape[1], generator=generator) for generator in generators]
        )
        return scores - (-uniform.clamp_min(tiny).log()).clamp_min(tiny).log().to(scores.device)

    return shifted


def to_response(
    encoder: Encoder,
    row: EncodedPrompt,
    tokens: Sequence[int],
    ends: frozenset[int],
    request: Request,
) -> Response:
    """The generated text up to its end token or stop string, stripped of white space."""
    stops = request.decoding.stop
    count = next((i for i, token in enumerate(tokens) if token in ends), len(tokens))
    ended = count < len(tokens)
    text = encoder.decode(tokens[:count])
    if stops and _holds(text, stops):
        # After a stop string comes padding up to the batch's longest row.
        count = next(n for n in range(1, count + 1) if _holds(encoder.decode(tokens[:n]), stops))
        text, ended = text[: min(text.find(stop) for stop in stops if stop in text)], True
        generated = count
    else:
        generated = count + ended
    return Response(
        text=text.strip(),
        finish="stop" if ended else "length",
        usage=Usage(len(row.ids), generated),
    )


def _prompts(layout: ModelLayout, rows: Sequence[EncodedPrompt]) -> dict[str, Any]:
    """A decoder continues from the last position; an encoder pads as in scoring, so that its outputs can be cached."""
    return to_device(
        layout.model, pad_rows(rows, layout.pad, "right" if layout.encoder_decoder else "left")
    )


def _new(layout: ModelLayout, sequences: Any, prompt: Any) -> Any:
    """The tokens after the prompt. Some models return the prompt, some (BLIP-2) not; a decoder has its own start."""
    if layout.encoder_decoder:
        return sequences[:, 1:]
    width = prompt.shape[1]
    again = sequences.shape[1] >= width and bool((sequences[:, :width] == prompt).all())
    return sequences[:, width:] if again else sequences


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
    return (
        int.from_bytes(hashlib.blake2b(f"sample:{request.key}".encode(), digest_size=8).digest())
        >> 1
    )
