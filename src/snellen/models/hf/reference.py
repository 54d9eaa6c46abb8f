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
    """Token scores of every continuation of every prompt, each from a forward pass of its own."""
    return [
        [reference_reply(layout, prompt.context, tail).scores for tail in prompt.tails]
        for prompt in prompts
    ]


def reference_reply(
    layout: ModelLayout, context: EncodedPrompt, reply: Sequence[int], *, stepwise: bool = False
) -> ReferenceReply:
    """Scores and deficits of the tokens of `reply` after `context`, by one forward pass over both.

    `stepwise`: by one pass for each token, over what stands before it and nothing else. Where the scores of a text
    depend on the text after it, this alone says what a reply should have been.
    """
    import torch

    with inference():
        if stepwise:
            logits = torch.stack(
                [_logits(layout, context, reply[:place])[-1] for place in range(len(reply))]
            )
        elif layout.encoder_decoder:
            logits = _logits(layout, context, reply[:-1])
        else:
            logits = _logits(layout, context, reply)[-len(reply) - 1 : -1]
        values = double(logits).log_softmax(-1)
        scores = values.gather(-1, torch.tensor(reply, device=values.device)[:, None])[:, 0]
        return ReferenceReply(scores.tolist(), (values.amax(-1) - scores).tolist())


def _logits(layout: ModelLayout, context: EncodedPrompt, after: Sequence[int]) -> Any:
    """[places, vocabulary]: what the model says at each place of `context` and `after`, or of a decoder's text: its
    first token and `after`. Nothing else is in the forward pass. All logits are computed: what a model makes of a
    request for the last ones is not to be trusted here."""
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
    """The inputs of one row. Where there is one entry per token, a text has an image's view of the last token before
    it, or the kind of a reply."""
    import torch

    device, ids = input_device(layout.model), torch.tensor([[*context.ids, *after]])
    inputs = {"input_ids": ids.to(device), "attention_mask": torch.ones_like(ids).to(device)}
    for name, value in context.extras.items():
        if name in context.per_token and after:
            kind = layout.reply_type if name == "token_type_ids" else 0
            kinds = (
                torch.full((1, len(after)), kind, dtype=value.dtype)
                if value.ndim == 2
                else value[:, -1:]
            )
            value = torch.cat([value, *[kinds] * (1 if value.ndim == 2 else len(after))], dim=1)
        if isinstance(value, torch.Tensor):
            value = value.to(
                device, layout.model.dtype if value.is_floating_point() else value.dtype
            )
        inputs[name] = value
    return inputs
