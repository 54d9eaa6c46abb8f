"""The reference: one row at a time, without cache and padding, with log-softmax in float64.

Faster ways of running a model are compared with it, and it is the plain way itself. A batch could not be the reference, because in
some models the rows of a batch change one another. The inputs are also put together by code that no
faster way uses, because shared code would have the same mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from snellen.models.hf.decoding import GrowingReplies, TokenChooser
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, Tensors
from snellen.models.hf.load import double, inference, input_device
from snellen.models.hf.model_layout import ModelLayout

Scores = list[list[float]]
"""Log-probabilities of one request: one list per continuation, one number per token."""


@dataclass(frozen=True)
class ReferenceReply:
    """The log-probabilities of a reply's tokens, and how far they are from the likeliest tokens."""

    scores: list[float]
    """Log-probability of each token of the reply, in nats."""
    deficits: list[float]
    """For each token of the reply, how much higher the log-probability of the likeliest token was, in nats.

    All are 0 for a reply of the likeliest tokens (greedy).
    """


def reference_scores(layout: ModelLayout, prompts: Sequence[ContinuedPrompt]) -> list[Scores]:
    """Return the token scores of every continuation of every prompt, each from a forward pass of its own."""
    return [plain_scores(layout, prompt) for prompt in prompts]


def plain_scores(layout: ModelLayout, prompt: ContinuedPrompt) -> Scores:
    """Return the token scores of every continuation of a prompt, each from a forward pass of its own."""
    replies = [reference_reply(layout, prompt.context, tail) for tail in prompt.tails]
    return [reply.scores for reply in replies]


def plain_reply(
    layout: ModelLayout, context: EncodedPrompt, choose: TokenChooser, longest: int
) -> list[int]:
    """Return the token ids of a reply to a prompt, each chosen after a forward pass over all text before it.

    Args:
        layout: The model.
        context: The prompt.
        choose: Chooses the next token.
        longest: Maximum number of tokens of the reply.
    """
    reply = GrowingReplies(1, choose)
    with inference():
        while len(reply.tokens[0]) < longest and not reply.ended[0]:
            logits = _logits(layout, context, reply.tokens[0])
            reply.choose(logits[-1:])
    return reply.tokens[0]


def reference_reply(
    layout: ModelLayout, context: EncodedPrompt, reply: Sequence[int]
) -> ReferenceReply:
    """Return the log-probabilities of the tokens of `reply` after a prompt, from one forward pass over both."""
    import torch

    with inference():
        if layout.encoder_decoder:
            logits = _logits(layout, context, reply[:-1])
        else:
            logits = _logits(layout, context, reply)[-len(reply) - 1 : -1]
        log_probabilities = double(logits).log_softmax(-1)
        tokens = torch.tensor(reply, device=log_probabilities.device)[:, None]
        scores = log_probabilities.gather(-1, tokens)[:, 0]
        deficits = log_probabilities.amax(-1) - scores
        return ReferenceReply(scores.tolist(), deficits.tolist())


def _logits(layout: ModelLayout, context: EncodedPrompt, after: Sequence[int]) -> Any:
    """Return the logits [tokens, vocabulary] at each token of a text, from a forward pass over this text alone.

    All logits are computed. Asking the model for only the last ones would be faster, but some
    models then return wrong logits, and the reference must not depend on it.

    Args:
        layout: The model.
        context: The prompt.
        after: Token ids after it. In an encoder-decoder model, they follow the decoder's start
            token, and the logits are those of the decoder.
    """
    import torch

    device = input_device(layout.model)
    layout.forget_positions()
    if layout.encoder_decoder:
        inputs = _inputs(layout, context, ())
        inputs["decoder_input_ids"] = torch.tensor([[layout.start, *after]], device=device)
    else:
        inputs = _inputs(layout, context, after)
    return layout.model(**inputs, use_cache=False).logits[0]


def _inputs(layout: ModelLayout, context: EncodedPrompt, after: Sequence[int]) -> Tensors:
    """Return the model's inputs for one row: the prompt `context`, followed by the text tokens `after`.

    Inputs with one entry per token become longer by an entry for each added token. Inputs of shape
    [1, tokens], which label tokens, get the label of text. Inputs with more dimensions, which say
    what a token sees, repeat the entry of the last token.
    """
    import torch

    model = layout.model
    device = input_device(model)
    ids = torch.tensor([[*context.ids, *after]])
    inputs = {"input_ids": ids.to(device), "attention_mask": torch.ones_like(ids).to(device)}
    for name, value in context.extras.items():
        if name in context.per_token and after:
            if value.ndim == 2:
                label = layout.reply_type if name == "token_type_ids" else 0
                added = [torch.full((1, len(after)), label, dtype=value.dtype)]
            else:
                added = [value[:, -1:]] * len(after)
            value = torch.cat([value, *added], dim=1)
        if isinstance(value, torch.Tensor):
            number_format = model.dtype if value.is_floating_point() else value.dtype
            value = value.to(device, number_format)
        inputs[name] = value
    return inputs
