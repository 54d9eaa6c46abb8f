"""Forwards that go on from what was run before: prefill, take rows of it, grow them, grow a tree.

Rows are padded on the right, so a prompt is run exactly as the plain path runs it; a row that is
shorter leaves a hole in the cache, which masks hide and explicit positions step over.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from snellen.models.hf.anatomy import Anatomy
from snellen.models.hf.collate import stack, to_device
from snellen.models.hf.encode import Encoded
from snellen.models.hf.plain import keep
from snellen.models.prefix import TRUNK, Tree


@dataclass(frozen=True)
class State:
    """What a model has read so far, row by row."""

    cache: Any
    mask: Any
    """[rows, tokens], 1 where a token stands, 0 in a hole."""
    position: Any
    """[rows], where the next token stands."""
    logits: Any
    """[rows, vocabulary], predicting the next token."""
    sight: Any = None
    """[rows, 1, images, tiles]: which tiles the last token sees (Mllama)."""


def prefill(anatomy: Anatomy, rows: Sequence[Encoded]) -> State:
    """Read prompts from their beginning, pictures and all."""
    import torch

    model = anatomy.model
    batch = to_device(model, stack(rows, anatomy.pad, "right"))
    anatomy.forget()
    lengths = torch.tensor([len(row.ids) for row in rows], device=model.device)
    kept = _last_only(model, lengths)
    output = model(**batch, **kept, use_cache=True)
    each = torch.arange(len(rows), device=model.device)
    sight = batch.get("cross_attention_mask")
    return State(
        cache=_cache_of(output),
        mask=batch["attention_mask"],
        position=lengths + _offset(anatomy),
        logits=_last(output.logits, lengths, kept, batch["input_ids"].shape[1]),
        sight=None if sight is None else sight[each, lengths - 1][:, None],
    )


def take(state: State, rows: Sequence[int]) -> State:
    """The rows asked for, any of them any number of times, in a cache of their own."""
    import torch

    index = torch.tensor(rows, device=state.mask.device)
    cache = fork(state.cache)
    if rows != list(range(state.mask.shape[0])):
        cache.batch_select_indices(index)
    sight = None if state.sight is None else state.sight[index]
    return State(cache, state.mask[index], state.position[index], state.logits[index], sight)


def advance(anatomy: Anatomy, state: State, texts: Sequence[Sequence[int]], every: bool = False) -> tuple[State, Any]:
    """Read `texts[i]` in row i. The new state, and logits after every token: [rows, longest, vocabulary].

    Uses the cache of `state` up. Without `every` the logits are those of the new state only. A row
    with an empty text keeps its logits.
    """
    import torch

    device, longest = state.mask.device, max(map(len, texts))
    lengths = torch.tensor([len(text) for text in texts], device=device)
    ids = torch.tensor([[*text, *[anatomy.pad] * (longest - len(text))] for text in texts], device=device)
    steps = torch.arange(longest, device=device)
    mask = torch.cat([state.mask, (steps[None] < lengths[:, None]).to(state.mask.dtype)], dim=1)
    kept = {} if every else _last_only(anatomy.speaker, lengths.clamp_min(1))
    output = _speak(anatomy, state, ids, mask, state.position[:, None] + steps[None], kept)
    last = _last(output.logits, lengths.clamp_min(1), kept, longest)
    logits = torch.where(lengths[:, None] > 0, last, state.logits)
    grown = replace(state, cache=_cache_of(output), mask=mask, position=state.position + lengths, logits=logits)
    return grown, output.logits


def advance_trees(anatomy: Anatomy, state: State, trees: Sequence[Tree]) -> Any:
    """Read one tree in each row, in one forward. Logits of its scored nodes: [rows, most scored, vocabulary].

    Every node sees the trunk and its own ancestors. Rows are aligned at their end, where the scored
    nodes are. Uses the cache of `state` up.
    """
    import torch

    device, width = state.mask.device, max(len(tree.tokens) for tree in trees)
    ids = torch.full((len(trees), width), anatomy.pad, device=device)
    depths = torch.zeros((len(trees), width), dtype=torch.long, device=device)
    sees = torch.eye(width, dtype=torch.bool).repeat(len(trees), 1, 1)
    for row, tree in enumerate(trees):
        if tree.tokens:
            ids[row, width - len(tree.tokens) :] = torch.tensor(tree.tokens)
            depths[row, width - len(tree.tokens) :] = torch.tensor(tree.depths)
            sees[row, width - len(tree.tokens) :, width - len(tree.tokens) :] = _lineage(tree)
    allowed = torch.cat([state.mask.bool()[:, None].expand(-1, width, -1), sees.to(device)], dim=2)[:, None]
    dtype = anatomy.model.dtype
    mask = torch.zeros(allowed.shape, dtype=dtype, device=device).masked_fill(~allowed, torch.finfo(dtype).min)
    kept = keep(anatomy.speaker, max(tree.scored for tree in trees))
    return _speak(anatomy, state, ids, mask, state.position[:, None] + depths, kept).logits


def fork(cache: Any) -> Any:
    """A cache that grows without changing `cache`: its tensors are shared, growth makes new ones."""
    twin = copy.copy(cache)
    twin.layers = [copy.copy(layer) for layer in cache.layers]
    return twin


def _speak(anatomy: Anatomy, state: State, ids: Any, mask: Any, positions: Any, kept: dict[str, Any]) -> Any:
    # M-RoPE has three positions a token (time, height, width), which are equal for text.
    if anatomy.rotary is not None:
        positions = positions[None].expand(3, -1, -1)
    sight = {} if state.sight is None else {"cross_attention_mask": state.sight.expand(-1, ids.shape[1], -1, -1)}
    return anatomy.speaker(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=state.cache,
        use_cache=True,
        **kept,
        **sight,
    )


def _offset(anatomy: Anatomy) -> Any:
    """Position of the next token less the number of tokens read."""
    if anatomy.rotary is not None and anatomy.rotary.rope_deltas is not None:
        return anatomy.rotary.rope_deltas[:, 0]
    return anatomy.origin


def _lineage(tree: Tree) -> Any:
    """[nodes, nodes]: which nodes each node sees, itself included."""
    import torch

    sees = torch.eye(len(tree.tokens), dtype=torch.bool)
    for node in sorted(range(len(tree.tokens)), key=tree.depths.__getitem__):
        if tree.parents[node] != TRUNK:
            sees[node] |= sees[tree.parents[node]]
    return sees


def _cache_of(output: Any) -> Any:
    cache = getattr(output, "past_key_values", None)
    if cache is None:
        cache = output.language_model_outputs.past_key_values
    return cache


def _last_only(model: Any, lengths: Any) -> dict[str, Any]:
    """The setting that computes logits at the rows' last places only, where the model knows it."""
    return {name: (lengths - 1).unique() for name in keep(model, 1)}


def _last(logits: Any, lengths: Any, kept: dict[str, Any], longest: int) -> Any:
    """[rows, vocabulary] at each row's last token. Logits of anything before the text are stepped over."""
    import torch

    places = next(iter(kept.values()), None)
    index = lengths - 1 + logits.shape[1] - longest if places is None else torch.searchsorted(places, lengths - 1)
    return logits[torch.arange(len(lengths), device=logits.device), index]
