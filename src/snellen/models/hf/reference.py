"""The reference: one row at a time, no cache, no padding, log-softmax in float64.

A batch is no reference: where rows change one another it is wrong by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from snellen.models.hf.collate import pad_rows, to_device
from snellen.models.hf.devices import double
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, extend
from snellen.models.hf.full_forward import decoder_logits
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.written import TokenPicker, Written

Scores = list[list[float]]
"""Log-probabilities of one request: one list per continuation, one number per token."""


@dataclass(frozen=True)
class ReferenceReply:
    """What one full forward pass over a prompt and a reply says of the reply."""

    scores: list[float]
    """Log-probability of each token of the reply, in nats."""
    deficits: list[float]
    """How much likelier the likeliest token was at each place, in nats; 0 throughout for a greedy reply."""


def reference_scores(layout: ModelLayout, prompts: Sequence[ContinuedPrompt]) -> list[Scores]:
    """Token scores of every continuation of every prompt, each from a forward pass of its own."""
    return [[reference_reply(layout, prompt.context, tail).scores for tail in prompt.tails] for prompt in prompts]


def reference_reply(layout: ModelLayout, context: EncodedPrompt, reply: Sequence[int]) -> ReferenceReply:
    """Scores and deficits of the tokens of `reply` after `context`."""
    import torch

    with torch.inference_mode():
        values = double(_all_logits(layout, context, reply)).log_softmax(-1)
        scores = values.gather(-1, torch.tensor(reply, device=values.device)[:, None])[:, 0]
        return ReferenceReply(scores.tolist(), (values.amax(-1) - scores).tolist())


def write_token_by_token(
    layout: ModelLayout, rows: Sequence[EncodedPrompt], pick: TokenPicker, longest: int
) -> list[list[int]]:
    """New tokens of every request, each from a forward pass over its prompt and all tokens before."""
    import torch

    replies = []
    with torch.inference_mode():
        for place, row in enumerate(rows):
            written = Written(1, pick([place]))
            while len(written.said[0]) < longest and not written.ended[0]:
                # The place after the last token is asked for by a token that is not looked at.
                written.choose(_all_logits(layout, row, (*written.said[0], layout.pad))[-1:])
            replies.append(written.said[0])
    return replies


def _all_logits(layout: ModelLayout, context: EncodedPrompt, reply: Sequence[int]) -> Any:
    """[len(reply), vocabulary]: the logits that predict the tokens of `reply`."""
    if layout.encoder_decoder:
        return decoder_logits(layout, [(context, tuple(reply))])[0][: len(reply)]
    whole = extend(context, reply, layout.reply_type)
    batch = to_device(layout.model, pad_rows([whole], layout.pad, "right"))
    layout.forget_positions()
    # All logits are computed: what a model makes of a request for the last ones is not to be trusted here.
    return layout.model(**batch, use_cache=False).logits[0, -len(reply) - 1 : -1]
