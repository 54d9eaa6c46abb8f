"""Collating rows of unequal length into one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from snellen.models.hf.encode import EncodedPrompt, Tensors
from snellen.models.hf.load import input_device, sent

Side = Literal["left", "right"]


def pad_rows(rows: Sequence[EncodedPrompt], pad: int, side: Side) -> Tensors:
    """One batch of `rows`, padded on `side`; pictures of different shape are padded with zeros."""
    import torch

    longest = max(len(row.ids) for row in rows)
    missing = [longest - len(row.ids) for row in rows]
    ids = [_padded(row.ids, pad, lack, side) for row, lack in zip(rows, missing, strict=True)]
    mask = [_padded((1,) * len(row.ids), 0, lack, side) for row, lack in zip(rows, missing, strict=True)]
    batch = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    for name in rows[0].extras:
        values = [row.extras[name] for row in rows]
        if name in rows[0].per_token:
            values = [_pad_tokens(value, lack, side) for value, lack in zip(values, missing, strict=True)]
        batch[name] = _concatenate(values)
    return batch


def to_device(model: Any, batch: Tensors) -> Tensors:
    """The batch on the model's device, with pictures in the model's dtype."""
    import torch

    device = input_device(model)
    moved = {}
    for name, value in batch.items():
        if isinstance(value, torch.Tensor):
            number = model.dtype if value.is_floating_point() else value.dtype
            value = sent(value, device).to(number)
        moved[name] = value
    return moved


def _padded(values: Sequence[int], pad: int, lack: int, side: Side) -> list[int]:
    padding = [pad] * lack
    return [*padding, *values] if side == "left" else [*values, *padding]


def _pad_tokens(values: Any, lack: int, side: Side) -> Any:
    import torch

    padding = values.new_zeros((1, lack, *values.shape[2:]))
    return torch.cat([padding, values] if side == "left" else [values, padding], dim=1)


def _concatenate(values: Sequence[Any]) -> Any:
    """Concatenate along the batch; other dimensions are padded with zeros to the largest size."""
    import torch

    if not isinstance(values[0], torch.Tensor):
        return [item for value in values for item in value]
    if len({value.shape[1:] for value in values}) > 1:
        shape = [max(sizes) for sizes in zip(*(value.shape[1:] for value in values), strict=True)]
        values = [_grown(value, shape) for value in values]
    return torch.cat(list(values), dim=0)


def _grown(values: Any, shape: Sequence[int]) -> Any:
    grown = values.new_zeros((values.shape[0], *shape))
    grown[tuple(slice(size) for size in values.shape)] = values
    return grown
