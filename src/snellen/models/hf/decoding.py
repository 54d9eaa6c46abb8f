"""Choose the tokens of replies, greedily or at random. No reply depends on the others in its batch.

A random token is the one with the largest sum of its logit and Gumbel noise. This is the same as
drawing from the softmax (Gumbel-max: Maddison et al., "A* sampling", 2014, section 2). Each request
gets its noise from its own generator, whose seed is computed from the request's key. The key
contains the user's seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from snellen.models.hf.encode import EncodedPrompt
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.tokens import TextTokens
from snellen.records import Decoding, Request, Response, Usage

TokenChooser = Callable[[Any, list[list[int]]], tuple[list[int], list[bool]]]
"""Function that chooses the next token of each row.

It is given logits of shape (rows, vocabulary) and the tokens of each row so far. It returns the token of each row, and
for each row whether this token ends the reply.
"""
TokenPicker = Callable[[Sequence[int]], TokenChooser]
"""Function that is given the indices of the requests in a batch, and returns the `TokenChooser` for them."""


class GrowingReplies:
    """The tokens generated so far for each request of a batch, and whether each reply has ended."""

    def __init__(self, count: int, choose: TokenChooser) -> None:
        self.tokens: list[list[int]] = [[] for _ in range(count)]
        self.ended = [False] * count
        self._choose = choose

    def choose(self, logits: Any) -> list[int]:
        """Choose the next token of each request, append it to its reply, and return all chosen tokens.

        Replies that have ended stay unchanged.

        Args:
            logits: Logits of the next token; shape (requests, vocabulary).
        """
        tokens, ends = self._choose(logits, self.tokens)
        for row, token in enumerate(tokens):
            if not self.ended[row]:
                self.tokens[row].append(token)
                self.ended[row] = ends[row]
        return tokens


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
