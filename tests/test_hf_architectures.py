"""Architectures of other kinds than LLaVA: linear attention, odd inputs, odd processors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers.cache_utils import DYNAMIC_LAYER_TYPE_MAPPING, DynamicCache

from snellen.models.hf.cache_layers import (
    copy_cache,
    layer_tensors,
    plain_layers,
    select_cache_rows,
    states_beside_layers,
)
from snellen.models.hf.collate import pad_rows
from snellen.models.hf.conversation import Conversation
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, Encoder, extend, truncate
from snellen.models.hf.engine import Engine
from snellen.models.hf.ladder import FastPaths
from snellen.models.hf.load import without_warnings
from snellen.models.hf.model_layout import input_names, read_layout
from snellen.models.hf.noise import largest_difference
from snellen.models.hf.probe import build_probe
from snellen.models.hf.reference import reference_scores
from snellen.models.hf.selfcheck import SelfCheckResult, choose_fast_paths
from tiny_configs import normal
from tiny_registered import make_registered

STATES = {"linear_attention", "conv", "hybrid", "hybrid_sliding"}
"""Kinds of layers with a state that forward passes change in place."""


def probed(name: str) -> tuple[Engine, list[ContinuedPrompt], Encoder]:
    small = make_registered(name)
    words = small.processor.tokenizer
    layout = read_layout(small.model, words.pad_token_id, words.eos_token_id)
    conversation = Conversation(small.processor, small.model.config.model_type)
    encoder = Encoder(small.processor, input_names(small.model), closes=layout.encoder_decoder)
    with without_warnings():
        return Engine(layout, 16, 4096), build_probe(conversation, encoder, layout.encoder_decoder), encoder


def checked(name: str) -> tuple[SelfCheckResult, float, Engine, list[ContinuedPrompt]]:
    """What the self-check chose, and how far that is from the reference."""
    engine, probe, _ = probed(name)
    verdict = choose_fast_paths(engine, probe)
    scored = engine.score(probe, verdict.fast_paths)
    return verdict, largest_difference(reference_scores(engine.layout, probe), scored), engine, probe


def _filled(kind: str, rows: int) -> Any:
    """A cache of one layer of a kind, after one forward pass."""
    layer = DYNAMIC_LAYER_TYPE_MAPPING[kind](sliding_window=4)
    cache = DynamicCache()
    cache.layers = [layer]
    if kind in STATES:
        layer.update_conv_state(normal(1, rows, 6, 3))
        layer.update_recurrent_state(normal(2, rows, 2, 4, 4))
    if kind not in ("linear_attention", "conv"):
        layer.update(normal(3, rows, 2, 5, 4), normal(4, rows, 2, 5, 4))
    if kind == "indexed_attention":
        layer.update_indexer(normal(5, rows, 5, 4))
    return cache


def _more(kind: str, cache: Any, rows: int) -> None:
    layer = cache.layers[0]
    if kind in STATES:
        layer.update_conv_state(normal(6, rows, 6, 1))
        layer.update_recurrent_state(normal(7, rows, 2, 4, 4))
    if kind not in ("linear_attention", "conv"):
        layer.update(normal(8, rows, 2, 1, 4), normal(9, rows, 2, 1, 4))


@pytest.mark.parametrize("kind", sorted(set(DYNAMIC_LAYER_TYPE_MAPPING) - {"dummy"}))
def test_a_copy_of_a_cache_grows_without_changing_it(kind: str) -> None:
    cache = _filled(kind, 2)
    before = [tensor.clone() for tensor in layer_tensors(cache.layers[0])]
    _more(kind, copy_cache(cache), 2)
    assert before and all(map(torch.equal, before, layer_tensors(cache.layers[0])))


@pytest.mark.parametrize("kind", sorted(set(DYNAMIC_LAYER_TYPE_MAPPING) - {"dummy"}))
def test_every_state_of_a_layer_follows_its_row(kind: str) -> None:
    cache = _filled(kind, 2)
    chosen = select_cache_rows(cache, torch.tensor([1, 0, 1]))
    for whole, part in zip(layer_tensors(cache.layers[0]), layer_tensors(chosen.layers[0]), strict=True):
        assert torch.equal(part, whole[[1, 0, 1]])
    # Growth of the rows that were chosen leaves the others alone.
    before = [tensor.clone() for tensor in layer_tensors(cache.layers[0])]
    _more(kind, chosen, 3)
    assert all(map(torch.equal, before, layer_tensors(cache.layers[0])))


def test_states_beside_the_layers_are_chosen_too_and_forbid_cutting() -> None:
    cache = _filled("full_attention", 2)
    assert plain_layers(cache)
    cache.linear_cache = [normal(1, 2, 3, 3), None]
    assert states_beside_layers(cache) == ("linear_cache",) and not plain_layers(cache)
    chosen = select_cache_rows(cache, torch.tensor([1, 1, 1]))
    assert torch.equal(chosen.linear_cache[0], cache.linear_cache[0][[1, 1, 1]])


def test_a_hybrid_shares_a_picture_and_runs_questions_together() -> None:
    verdict, off, engine, probe = checked("qwen3_5")
    assert "LinearAttentionLayer" in verdict.facts.odd_layers
    paths = verdict.fast_paths
    assert paths.shared and paths.batch and not (paths.ragged or paths.tree or paths.prefix_cache)
    assert off <= verdict.tolerance.token
    # One prefill for the picture of the first two questions, one for the other picture.
    prefills = []
    engine.layout.model.register_forward_pre_hook(
        lambda *given: prefills.append("pixel_values" in given[2]), with_kwargs=True
    )
    engine.score(probe, paths)
    assert sum(prefills) == 2


def test_inputs_per_token_are_found_by_their_length_and_not_by_their_names() -> None:
    engine, probe, _ = probed("ernie4_5_vl_moe")
    assert probe[0].context.per_token == {"mm_token_type_ids", "moe_mm_token_type_ids"}
    verdict = choose_fast_paths(engine, probe)
    # The experts of the last block are told which tokens are a picture's, also where few of them are run.
    assert verdict.fast_paths.tree and verdict.fast_paths.shared
    assert largest_difference(reference_scores(engine.layout, probe), engine.score(probe, verdict.fast_paths)) < 1e-4


def test_idefics_is_asked_and_sees_its_picture() -> None:
    verdict, off, engine, probe = checked("idefics")
    assert probe[0].context.per_token == {"image_attention_mask"}
    assert probe[0].context.extras["image_attention_mask"].ndim == 3
    assert off <= verdict.tolerance.token
    first = probe[0]
    pixels = normal(5, *first.context.extras["pixel_values"].shape)
    other = EncodedPrompt(
        first.context.ids, {**first.context.extras, "pixel_values": pixels}, ("other",), (), first.context.per_token
    )
    moved = reference_scores(engine.layout, [first, ContinuedPrompt(other, first.tails)])
    assert largest_difference(moved[:1], moved[1:]) > 0.01


def test_an_input_that_is_as_long_as_the_prompt_by_chance_is_not_per_token() -> None:
    class Chance:
        """A processor whose pictures have as many tiles as one prompt has tokens."""

        tokenizer = SimpleNamespace(bos_token=None, is_fast=False)
        image_processor = SimpleNamespace()

        def __call__(self, images: Any = None, text: str = "", **_: Any) -> dict[str, Any]:
            ids = torch.tensor([[ord(letter) for letter in text]])
            return {"input_ids": ids, "pixel_values": torch.zeros(1, 5, 3), "kinds": torch.zeros_like(ids)}

    encoder = Encoder(Chance())
    ids, extras = encoder._process([], "hello")
    assert encoder._entries_per_token([], "hello", len(ids), extras) == {"kinds"}


def test_a_mask_of_pictures_is_repeated_for_new_tokens_and_a_label_is_that_of_text() -> None:
    extras = {
        "seen": torch.tensor([[[1, 0], [1, 0], [0, 1]]]),
        "kinds": torch.tensor([[0, 1, 1]]),
        "sizes": torch.ones(1, 2),
    }
    prompt = EncodedPrompt((5, 6, 7), extras, ("cat",), (), frozenset({"seen", "kinds"}))
    longer = extend(prompt, (8, 9), 0)
    assert longer.extras["seen"][0].tolist() == [[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]]
    assert longer.extras["kinds"].tolist() == [[0, 1, 1, 0, 0]] and longer.extras["sizes"].shape == (1, 2)
    assert truncate(longer, 2).extras["seen"].shape == (1, 2, 2)
    assert pad_rows([prompt, longer], 0, "right")["seen"].shape == (2, 5, 2)


def test_a_model_with_plain_positions_is_not_given_positions_in_a_plane() -> None:
    """EXAONE 4.5 keeps `rope_deltas` from the model that it is made of, and never uses them."""
    verdict, off, engine, _ = checked("exaone4_5")
    assert engine.layout.rotary is None and verdict.fast_paths.shared and off <= verdict.tolerance.token


def test_what_a_processor_returns_on_demand_is_asked_for_where_the_model_needs_it() -> None:
    engine, probe, _ = probed("cosmos3_edge")
    assert "mm_token_type_ids" in probe[0].context.per_token
    assert reference_scores(engine.layout, probe[:1])


def test_a_token_that_the_processor_puts_behind_a_prompt_belongs_to_the_prompt() -> None:
    _, probe, encoder = probed("chameleon")
    context = probe[0].context
    assert context.ids[-1] == encoder.tokenizer.sep_token_id
    assert encoder.decode(probe[0].tails[0]).strip() == "yes"


def test_a_probe_of_two_shapes_tells_that_padded_pictures_are_seen_otherwise() -> None:
    """Emu3 turns a picture into tokens, padding included: a batch of two shapes is a nat off."""
    engine, probe, _ = probed("emu3")
    probe = [ContinuedPrompt(prompt.context, prompt.tails[:1]) for prompt in probe[1:]]
    assert len({tuple(prompt.context.extras["image_sizes"][0].tolist()) for prompt in probe}) == 2
    expected = reference_scores(engine.layout, probe)
    alone, together = FastPaths(cache=True), FastPaths(cache=True, batch=True, ragged=True)
    assert largest_difference(expected, engine.score(probe, alone)) < 1e-4
    assert largest_difference(expected, engine.score(probe, together)) > 0.01
