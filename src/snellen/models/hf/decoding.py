"""Choose the tokens of replies, greedily or at random. No reply depends on the others in its batch.

A random token is the one with the largest sum of its logit and Gumbel noise. This is the same as
drawing from the softmax (Gumbel-max: Maddison et al., "A* sampling", 2014, section 2). Each request
gets its noise from its own generator, whose seed is computed from the request's key. The key
contains the user's seed.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from snellen.models.hf.cached_forward import (
    Side,
    TokenChooser,
    TokenPicker,
    pad_rows,
    to_device,
)
from snellen.models.hf.encode import EncodedPrompt
from snellen.models.hf.load import import_transformers, inference
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.tokens import TextTokens
from snellen.records import Decoding, Request, Response, Usage


def decoding_group(request: Request) -> tuple[Any, ...]:
    """Return the decoding settings of a request, which must be equal for all requests of a batch."""
    decoding: Decoding = request.decoding
    return (decoding.max_new_tokens, decoding.temperature, decoding.top_p, decoding.stop)


def token_picker(
    layout: ModelLayout, tokenizer: TextTokens, requests: Sequence[Request]
) -> TokenPicker:
    """Return the function that chooses the next tokens of some requests, all with the same decoding settings."""
    end_tokens = layout.end_tokens
    stops = requests[0].decoding.stop

    def pick(members: Sequence[int]) -> TokenChooser:
        """Return the function that chooses the next token of some requests, given by their indices."""
        add_noise = gumbel_noise([requests[member] for member in members])

        def choose(logits: Any, tokens_so_far: list[list[int]]) -> tuple[list[int], list[bool]]:
            """Choose the next token of each request, and return the tokens and whether each one ends its reply.

            Args:
                logits: Logits of the next token; shape (requests, vocabulary).
                tokens_so_far: New tokens of each request before this one.
            """
            tokens: list[int] = add_noise(logits.float()).argmax(-1).tolist()
            ends = []
            for token, before in zip(tokens, tokens_so_far, strict=True):
                is_end = token in end_tokens
                if stops and not is_end:
                    is_end = _contains_any(tokenizer.decode([*before, token]), stops)
                ends.append(is_end)
            return tokens, ends

        return choose

    return pick


def with_listener(pick: TokenPicker, tell: Callable[[list[int]], None]) -> TokenPicker:
    """Return a function that chooses the same tokens as `pick` for a single request, and reports them.

    After each token, `tell` is called with all token ids of the reply so far.
    """

    def pick_and_tell(members: Sequence[int]) -> TokenChooser:
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
    tokenizer: TextTokens,
    rows: Sequence[EncodedPrompt],
    requests: Sequence[Request],
) -> list[list[int]]:
    """Return the token ids of a reply to each prompt, by the model's own `generate`, in one batch.

    Args:
        layout: The model.
        tokenizer: Decodes tokens, to find stop strings.
        rows: The prompts.
        requests: The requests of these prompts, all with the same decoding settings.
    """
    import torch

    transformers = import_transformers()
    decoding = requests[0].decoding
    prompt_ids = _padded_prompts(layout, rows)["input_ids"]
    add_noise = gumbel_noise(requests)

    class AddNoise(transformers.LogitsProcessor):
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            return add_noise(scores.float())

    class StopAtStrings(transformers.StoppingCriteria):
        def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
            ended = []
            for tokens in _new_tokens(layout, input_ids, prompt_ids).tolist():
                ended.append(_contains_any(tokenizer.decode(tokens), decoding.stop))
            return torch.tensor(ended, device=input_ids.device)

    processors = [AddNoise()] if decoding.temperature > 0 else []
    criteria = [StopAtStrings()] if decoding.stop else []
    return generate_rows(
        layout,
        rows,
        decoding.max_new_tokens,
        logits_processor=processors,
        stopping_criteria=criteria,
    )


def generate_rows(
    layout: ModelLayout, rows: Sequence[EncodedPrompt], longest: int, **watchers: Sequence[Any]
) -> list[list[int]]:
    """Return at most `longest` new token ids for each row, by the model's own `generate`, in one batch.

    The likeliest tokens are chosen, unless `watchers` change the scores.

    Args:
        layout: The model.
        rows: The prompts.
        longest: Maximum number of new tokens.
        watchers: The lists `logits_processor` and `stopping_criteria` of transformers.
    """
    transformers = import_transformers()
    model = layout.model
    batch = _padded_prompts(layout, rows)
    settings = transformers.GenerationConfig(
        max_new_tokens=longest,
        do_sample=False,
        num_beams=1,
        pad_token_id=layout.pad,
        eos_token_id=sorted(layout.end_tokens) or None,
        bos_token_id=model.generation_config.bos_token_id,
        decoder_start_token_id=layout.start if layout.encoder_decoder else None,
    )
    list_types = {
        "logits_processor": transformers.LogitsProcessorList,
        "stopping_criteria": transformers.StoppingCriteriaList,
    }
    watcher_lists = {name: list_types[name](parts) for name, parts in watchers.items()}
    layout.forget_positions()
    with inference(), _without_stored_settings(layout):
        sequences = model.generate(**batch, generation_config=settings, **watcher_lists)
    new_tokens: list[list[int]] = _new_tokens(layout, sequences, batch["input_ids"]).tolist()
    return new_tokens


@contextlib.contextmanager
def _without_stored_settings(layout: ModelLayout) -> Iterator[None]:
    """Replace the model's generation settings by empty ones inside the block.

    `generate` takes each setting that it is not given from the model's own ones. Those of
    Florence-2, for example, force the first and last tokens and forbid repeated n-grams.
    """
    models = [layout.model]
    if layout.language_model is not layout.model:
        models.append(layout.language_model)
    stored = [model.generation_config for model in models]
    try:
        for model in models:
            model.generation_config = import_transformers().GenerationConfig()
        yield
    finally:
        for model, settings in zip(models, stored, strict=True):
            model.generation_config = settings


def gumbel_noise(requests: Sequence[Request]) -> Callable[[Any], Any]:
    """Return a function that changes logits so that the largest one belongs to the token to choose.

    It adds Gumbel noise to logits of shape (requests, vocabulary). The largest sum then belongs to
    a token that is drawn from the softmax. At temperature 0 nothing is added.
    """
    import torch

    decoding = requests[0].decoding
    if decoding.temperature <= 0:
        return lambda logits: logits
    generators = [torch.Generator().manual_seed(_seed(request)) for request in requests]
    tiny = torch.finfo(torch.float32).tiny

    def add_noise(logits: Any) -> Any:
        """Return logits [requests, vocabulary] with Gumbel noise, after temperature and top-p were applied."""
        scores = _nucleus(logits / decoding.temperature, decoding.top_p)
        vocabulary = scores.shape[1]
        # Each request has its own generator, so that its draws do not depend on the batch.
        rows = [torch.rand(vocabulary, generator=generator) for generator in generators]
        uniform = torch.stack(rows).clamp_min(tiny)
        exponential = (-uniform.log()).clamp_min(tiny)
        gumbel = -exponential.log()
        return scores + gumbel.to(scores.device)

    return add_noise


def to_response(
    tokenizer: TextTokens,
    row: EncodedPrompt,
    tokens: Sequence[int],
    ends: frozenset[int],
    request: Request,
) -> Response:
    """Return the response to a request: the generated text up to its end token or stop string, stripped of white space.

    Args:
        tokenizer: Decodes tokens.
        row: The encoded prompt.
        tokens: The generated tokens.
        ends: The tokens that end a reply.
        request: The request.
    """
    stops = request.decoding.stop
    length = _index_of_first(tokens, ends)
    ended = length < len(tokens)
    generated = length + 1 if ended else length
    text = tokenizer.decode(tokens[:length])
    if stops and _contains_any(text, stops):
        # After a stop string comes padding up to the batch's longest row.
        generated = 1
        while generated < length and not _contains_any(tokenizer.decode(tokens[:generated]), stops):
            generated += 1
        text = text[: min(text.find(stop) for stop in stops if stop in text)]
        ended = True
    return Response(
        text=text.strip(),
        finish="stop" if ended else "length",
        usage=Usage(len(row.ids), generated),
    )


def _index_of_first(tokens: Sequence[int], wanted: frozenset[int]) -> int:
    """Return the index of the first token that is in `wanted`, or the number of tokens if none is."""
    for index, token in enumerate(tokens):
        if token in wanted:
            return index
    return len(tokens)


def _padded_prompts(layout: ModelLayout, rows: Sequence[EncodedPrompt]) -> dict[str, Any]:
    """Return the batch of prompts for `generate`.

    A decoder continues from the last position, so padding is on the left. An encoder pads as in scoring, so that its
    outputs can be cached.
    """
    side: Side = "right" if layout.encoder_decoder else "left"
    return to_device(layout.model, pad_rows(rows, layout.pad, side))


def _new_tokens(layout: ModelLayout, sequences: Any, prompt_ids: Any) -> Any:
    """Return the tokens [rows, new tokens] after the prompt in the output of `generate`.

    Some models return the prompt too, others (BLIP-2) do not. A decoder's output begins with its start token.
    """
    if layout.encoder_decoder:
        return sequences[:, 1:]
    width = prompt_ids.shape[1]
    if sequences.shape[1] < width:
        return sequences
    has_prompt = bool((sequences[:, :width] == prompt_ids).all())
    return sequences[:, width:] if has_prompt else sequences


def _contains_any(text: str, stops: Sequence[str]) -> bool:
    return any(stop in text for stop in stops)


def _nucleus(scores: Any, top_p: float) -> Any:
    """Return the scores with all but the smallest set of tokens of total probability >= top_p set to -inf."""
    if top_p >= 1:
        return scores
    descending, order = scores.sort(descending=True)
    probabilities = descending.softmax(-1)
    probability_before = probabilities.cumsum(-1) - probabilities
    excluded = (probability_before >= top_p).gather(1, order.argsort(1))
    return scores.masked_fill(excluded, float("-inf"))


def _seed(request: Request) -> int:
    """Return the seed of a request's random numbers: 63 bits of a digest of its key."""
    digest = hashlib.blake2b(f"sample:{request.key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
