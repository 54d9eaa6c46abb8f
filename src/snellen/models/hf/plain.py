"""Log-likelihood by full forwards: nothing is shared. The twin of every fast path."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from snellen.models.hf.collate import stack
from snellen.models.hf.encode import Continued, Encoded, Tensors, extend

Row = tuple[Encoded, tuple[int, ...]]
"""A context, and the tokens after it that are scored."""


def rows_of(asked: Sequence[Continued]) -> list[Row]:
    return [(request.context, tail) for request in asked for tail in request.tails]


def score_rows(model: Any, rows: Sequence[Row], pad: int, token_type: int) -> list[list[float]]:
    """Log-probability (nats, float32) of every scored token of every row, in one forward."""
    import torch

    whole = [extend(context, tail, token_type) for context, tail in rows]
    batch = to_device(model, stack(whole, pad, "right"))
    start = min(len(context.ids) for context, _ in rows) - 1
    length = batch["input_ids"].shape[1]
    with torch.inference_mode():
        logits = model(**batch, **keep(model, length - start), use_cache=False).logits
    logits = logits[:, start - length :]
    return [
        token_scores(logits[i, len(context.ids) - 1 - start :], tail).tolist() for i, (context, tail) in enumerate(rows)
    ]


def token_scores(logits: Any, tail: Sequence[int]) -> Any:
    """log p of each token of `tail`, where logits[i] predicts tail[i]; [len(tail)], float32."""
    import torch

    ids = torch.tensor(tail, device=logits.device)[:, None]
    return logits[: len(tail)].float().log_softmax(-1).gather(-1, ids)[:, 0]


def keep(model: Any, positions: int) -> dict[str, int]:
    """The setting that computes logits of the last `positions` only, where the model knows it."""
    known = "logits_to_keep" in inspect.signature(model.forward).parameters
    return {"logits_to_keep": positions} if known else {}


def to_device(model: Any, batch: Tensors) -> Tensors:
    """On the model's device, pictures in its number format."""
    import torch

    moved = {}
    for name, value in batch.items():
        if isinstance(value, torch.Tensor):
            number = model.dtype if value.is_floating_point() else value.dtype
            value = value.to(model.device, number)
        moved[name] = value
    return moved
