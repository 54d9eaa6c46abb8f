"""The reference: one row at a time, no cache, no padding, log-softmax in float64.

A batch is not a reference: where rows change one another it is wrong by itself. Nor is code that shares a fault with
the path that it checks, so inputs are put together here by code that no path uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, Tensors
from snellen.models.hf.load import double, inference, input_device
from snellen.models.hf.model_layout import ModelLayout

Scores = list[list[float]]
"""Log-probabilities of one request: one list per continuation, one number per token."""


@dataclass(frozen=True)
class ReferenceReply:
    """What full forward passes over a prompt and a reply say about the reply."""

    scores: list[float]
    """Log-probability of each token of the reply, in nats."""
    deficits: list[float]
    """By how much the likeliest token was likelier at each place, in nats; 0 throughout for a greedy reply."""


def reference_scores(layout: ModelLayout, prompts: Sequence[ContinuedPrompt]) -> list[Scores]:
    """Return the token scores of every continuation of every prompt, each from a forward pass of its own."""
    scores: list[Scores] = []
    for prompt in prompts:
        replies = [reference_reply(layout, prompt.context, tail) for tail in prompt.tails]
        scores.append([reply.scores for reply in replies])
    return scores


def reference_reply(
    layout: ModelLayout, context: EncodedPrompt, reply: Sequence[int], *, stepwise: bool = False
) -> ReferenceReply:
    """Return scores and deficits of the tokens of `reply` after `context`.

    They are from one forward pass over both or, with `stepwise`, from one pass for each token over the text before it.
    If the scores of a text depend on the text after it, only `stepwise` tells what a reply should have been.
    """
    import torch

    with inference():
        if stepwise:
            steps = []
            for length in range(len(reply)):
                steps.append(_logits(layout, context, reply[:length])[-1])
            logits = torch.stack(steps)
        elif layout.encoder_decoder:
            logits = _logits(layout, context, reply[:-1])
        else:
            logits = _logits(layout, context, reply)[-len(reply) - 1 : -1]
        log_probabilities = double(logits).log_softmax(-1)
        tokens = torch.tensor(reply, device=log_probabilities.device)[:, None]
        scores = log_probabilities.gather(-1, tokens)[:, 0]
        deficits = log_probabilities.amax(-1) - scores
        return ReferenceReply(scores.tolist(), deficits.tolist())


def _logits(layout: ModelLayout, context: EncodedPrompt, after: Sequence[int]) -> Any:
    """Return the logits [tokens, vocabulary] at each token of a text, from a forward pass over nothing else.

    The text is `context` and `after`; for a decoder, its first token and `after`. All logits are computed, because what
    a model makes of a request for the last ones is not to be trusted here.
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
    """Return the inputs of one row: `context` and the text tokens `after`.

    Inputs with one entry per token are extended: labels [1, tokens] by that of a reply, and others, which say what a
    token sees, by that of the last token.
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
