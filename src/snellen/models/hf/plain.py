"""Log-likelihood by full forwards: nothing is shared. The twin of every fast path."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from snellen.models.hf.anatomy import Anatomy
from snellen.models.hf.collate import stack, to_device
from snellen.models.hf.encode import Continued, Encoded, extend

Row = tuple[Encoded, tuple[int, ...]]
"""A context, and the tokens after it that are scored."""


def rows_of(asked: Sequence[Continued]) -> list[Row]:
    return [(request.context, tail) for request in asked for tail in request.tails]


def score_rows(anatomy: Anatomy, rows: Sequence[Row]) -> list[list[float]]:
    """Log-probability (nats, float32) of every scored token of every row, in one forward."""
    logits = _decoder_logits(anatomy, rows) if anatomy.encoder_decoder else _logits(anatomy, rows)
    return [token_scores(values, tail).tolist() for values, (_, tail) in zip(logits, rows, strict=True)]


def token_scores(logits: Any, tail: Sequence[int]) -> Any:
    """log p of each token of `tail`, where logits[i] predicts tail[i]; [len(tail)], float32."""
    import torch

    ids = torch.tensor(tail, device=logits.device)[:, None]
    return logits[: len(tail)].float().log_softmax(-1).gather(-1, ids)[:, 0]


def keep(model: Any, positions: int) -> dict[str, Any]:
    """The setting that computes logits of the last `positions` only, where the model knows it."""
    known = "logits_to_keep" in inspect.signature(model.forward).parameters
    return {"logits_to_keep": positions} if known else {}


def _logits(anatomy: Anatomy, rows: Sequence[Row]) -> list[Any]:
    """For each row the logits from the last token of its context on."""
    model = anatomy.model
    whole = [extend(context, tail, anatomy.reply_type) for context, tail in rows]
    batch = to_device(model, stack(whole, anatomy.pad, "right"))
    start = min(len(context.ids) for context, _ in rows) - 1
    length = batch["input_ids"].shape[1]
    anatomy.forget()
    logits = model(**batch, **keep(model, length - start), use_cache=False).logits[:, start - length :]
    return [logits[i, len(context.ids) - 1 - start :] for i, (context, _) in enumerate(rows)]


def _decoder_logits(anatomy: Anatomy, rows: Sequence[Row]) -> list[Any]:
    """For each row the decoder's logits from its first token on."""
    import torch

    longest = max(len(tail) for _, tail in rows)
    said = [[anatomy.start, *tail[:-1], *[anatomy.pad] * (longest - len(tail))] for _, tail in rows]
    batch = to_device(anatomy.model, stack([context for context, _ in rows], anatomy.pad, "right"))
    decoder = torch.tensor(said, device=anatomy.model.device)
    return list(anatomy.model(**batch, decoder_input_ids=decoder, use_cache=False).logits)
