"""Architectures of other kinds than LLaVA: linear attention, odd inputs, odd processors."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers as tf
from transformers.cache_utils import DYNAMIC_LAYER_TYPE_MAPPING, DynamicCache

from snellen.models.hf.cached_forward import (
    pad_rows,
)
from snellen.models.hf.caches import (
    copy_cache,
    layer_tensors,
    plain_layers,
    select_cache_rows,
    states_beside_layers,
)
from snellen.models.hf.conversation import ChatPrompt, Conversation
from snellen.models.hf.encode import (
    ContinuedPrompt,
    EncodedPrompt,
    Encoder,
    Visuals,
    extend,
    truncate,
)
from snellen.models.hf.engine import Engine
from snellen.models.hf.load import without_warnings
from snellen.models.hf.model_layout import input_names, read_layout
from snellen.models.hf.probe import build_probe
from snellen.models.hf.reference import reference_scores
from snellen.models.hf.selfcheck import (
    ODD_LAYERS,
    TREES,
    SelfCheckResult,
    choose_fast_paths,
    without_refused_pairs,
)
from snellen.models.hf.sharing_plan import FastPaths
from snellen.models.hf.tolerance import largest_difference
from tiny_archs import unigram
from tiny_configs import IMAGE, VOCABULARY, asked, begun, make, normal, sharpen
from tiny_registered import make_registered, shrunk

STATES = {"linear_attention", "conv", "hybrid", "hybrid_sliding"}
"""Kinds of layers with a state that forward passes change in place."""


def probed(name: str) -> tuple[Engine, list[ContinuedPrompt], Encoder]:
    small = make_registered(name)
    words = small.processor.tokenizer
    layout = read_layout(small.model, words.pad_token_id, words.eos_token_id)
    conversation = Conversation(small.processor, small.model.config.model_type)
    encoder = Encoder(small.processor, input_names(small.model), closes=layout.encoder_decoder)
    with without_warnings():
        probe = build_probe(conversation, encoder, layout.encoder_decoder)
        return Engine(layout, 16, 4096), without_refused_pairs(layout, probe), encoder


def checked(name: str) -> tuple[SelfCheckResult, float, Engine, list[ContinuedPrompt]]:
    """What the self-check chose, and how far that is from the reference."""
    engine, probe, _ = probed(name)
    verdict = choose_fast_paths(engine, probe)
    scored = engine.score(probe, verdict.fast_paths)
    return (
        verdict,
        largest_difference(reference_scores(engine.layout, probe), scored),
        engine,
        probe,
    )


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
    for whole, part in zip(
        layer_tensors(cache.layers[0]), layer_tensors(chosen.layers[0]), strict=True
    ):
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
    assert verdict.refusals[TREES] == ODD_LAYERS
    paths = verdict.fast_paths
    assert paths == FastPaths("rows", shared=True)
    assert off <= verdict.tolerance.token
    # One prefill for the image of the first two questions, one for the other image.
    prefills = []
    engine.layout.model.register_forward_pre_hook(
        lambda *given: prefills.append("pixel_values" in given[2]), with_kwargs=True
    )
    engine.score(probe[:3], paths)
    assert sum(prefills) == 2


def test_inputs_per_token_are_found_by_their_length_and_not_by_their_names() -> None:
    engine, probe, _ = probed("ernie4_5_vl_moe")
    assert probe[0].context.per_token == {"mm_token_type_ids", "moe_mm_token_type_ids"}
    verdict = choose_fast_paths(engine, probe)
    # The experts of the last block are told which tokens are an image's, also where few of them are run.
    assert verdict.fast_paths.way == "tree" and verdict.fast_paths.shared
    assert (
        largest_difference(
            reference_scores(engine.layout, probe), engine.score(probe, verdict.fast_paths)
        )
        < 1e-4
    )


def test_idefics_is_asked_and_sees_its_picture() -> None:
    verdict, off, engine, probe = checked("idefics")
    assert probe[0].context.per_token == {"image_attention_mask"}
    assert probe[0].context.extras["image_attention_mask"].ndim == 3
    assert off <= verdict.tolerance.token
    # Each of its forward passes takes the image, also those that continue a cache.
    assert engine.layout.images_again
    assert verdict.fast_paths == verdict.replies == FastPaths("tree", shared=True)
    first = probe[0]
    pixels = normal(5, *first.context.extras["pixel_values"].shape)
    other = EncodedPrompt(
        first.context.ids,
        {**first.context.extras, "pixel_values": pixels},
        ("other",),
        (),
        first.context.per_token,
    )
    moved = reference_scores(engine.layout, [first, ContinuedPrompt(other, first.tails)])
    assert largest_difference(moved[:1], moved[1:]) > 0.01


def test_an_input_that_is_as_long_as_the_prompt_by_chance_is_not_per_token() -> None:
    class Chance:
        """A processor whose images have as many tiles as one prompt has tokens."""

        tokenizer = SimpleNamespace(bos_token=None, is_fast=False)
        image_processor = SimpleNamespace()

        def __call__(self, images: Any = None, text: str = "", **_: Any) -> dict[str, Any]:
            ids = torch.tensor([[ord(letter) for letter in text]])
            return {
                "input_ids": ids,
                "pixel_values": torch.zeros(1, 5, 3),
                "kinds": torch.zeros_like(ids),
            }

    encoder = Encoder(Chance())
    ids, extras = encoder._process(Visuals(), "hello")
    assert encoder._entries_per_token(Visuals(), "hello", len(ids), extras) == {"kinds"}


def test_a_mask_of_pictures_is_repeated_for_new_tokens_and_a_label_is_that_of_text() -> None:
    extras = {
        "seen": torch.tensor([[[1, 0], [1, 0], [0, 1]]]),
        "kinds": torch.tensor([[0, 1, 1]]),
        "sizes": torch.ones(1, 2),
    }
    prompt = EncodedPrompt((5, 6, 7), extras, ("cat",), (), frozenset({"seen", "kinds"}))
    longer = extend(prompt, (8, 9))
    assert longer.extras["seen"][0].tolist() == [[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]]
    assert longer.extras["kinds"].tolist() == [[0, 1, 1, 0, 0]] and longer.extras[
        "sizes"
    ].shape == (1, 2)
    assert truncate(longer, 2).extras["seen"].shape == (1, 2, 2)
    assert pad_rows([prompt, longer], 0)["seen"].shape == (2, 5, 2)


def test_a_model_with_plain_positions_is_not_given_positions_in_a_plane() -> None:
    """EXAONE 4.5 keeps `rope_deltas` from the model that it is made of, and never uses them."""
    verdict, off, engine, _ = checked("exaone4_5")
    assert (
        engine.layout.rotary is None
        and verdict.fast_paths.shared
        and off <= verdict.tolerance.token
    )


def test_what_a_processor_returns_on_demand_is_asked_for_where_the_model_needs_it() -> None:
    engine, probe, _ = probed("cosmos3_edge")
    assert "mm_token_type_ids" in probe[0].context.per_token
    assert reference_scores(engine.layout, probe[:1])


def test_a_token_that_the_processor_puts_behind_a_prompt_belongs_to_the_prompt() -> None:
    _, probe, encoder = probed("chameleon")
    context = probe[0].context
    assert context.ids[-1] == encoder.tokenizer.sep_token_id
    assert encoder.tokens.decode(probe[0].tails[0]).strip() == "yes"


def test_pictures_of_two_shapes_share_no_batch() -> None:
    """Emu3 turns an image into tokens, padding included: a padded batch of two shapes is a nat off."""
    engine, probe, _ = probed("emu3")
    probe = [ContinuedPrompt(prompt.context, prompt.tails[:1]) for prompt in probe[1:3]]
    contexts = [prompt.context for prompt in probe]
    assert len({tuple(context.extras["image_sizes"][0].tolist()) for context in contexts}) == 2
    expected = reference_scores(engine.layout, probe)
    together = FastPaths("tree")
    assert largest_difference(expected, engine.score(probe, together)) < 1e-4
    with pytest.raises(ValueError, match="different shapes"):
        pad_rows(contexts, 0)


def by_hand(name: str, head: EncodedPrompt, **changes: Any) -> tuple[Engine, list[ContinuedPrompt]]:
    """A small model of type `name`, without its processor, and what it is asked. `changes` are settings of its text."""
    kind = tf.CONFIG_MAPPING[name]
    settings = shrunk(
        kind().to_dict(), lambda token: IMAGE if token == "image_token" else 7, VOCABULARY
    )
    settings["text_config"] |= changes
    torch.manual_seed(0)
    model = tf.AutoModelForImageTextToText.from_config(
        kind.from_dict(settings), dtype=torch.float32
    )
    return Engine(read_layout(sharpen(model), 0), 8, 4096), asked(head)


def of_pixtral() -> EncodedPrompt:
    return begun(4, pixel_values=normal(1, 1, 3, 32, 32), image_sizes=torch.tensor([[32, 32]]))


@pytest.mark.slow
def test_a_block_that_mixes_places_after_its_feed_forward_part_shares_pictures() -> None:
    """Inkling's feed-forward part is followed by a convolution over places."""
    head = begun(4, pixel_values=normal(1, 4, 2, 8, 8, 3))
    engine, window = by_hand("inkling_mm_model", head, logits_mup_width_multiplier=1.0)
    verdict = choose_fast_paths(engine, window)
    assert verdict.fast_paths.shared
    assert (
        largest_difference(
            reference_scores(engine.layout, window), engine.score(window, verdict.fast_paths)
        )
        < 1e-4
    )


def test_a_model_that_puts_a_picture_before_its_places_keeps_its_cache() -> None:
    """GIT's logits are those of the image's places, and then of the text's."""
    model, head = make("GIT")
    engine, window = Engine(read_layout(model, 0), 8, 4096), asked(head)
    verdict = choose_fast_paths(engine, window)
    assert engine.layout.all_logits and verdict.fast_paths == FastPaths("rows", shared=True)
    assert (
        largest_difference(
            reference_scores(engine.layout, window), engine.score(window, verdict.fast_paths)
        )
        < 1e-4
    )


def test_positions_that_begin_behind_the_padding_token_are_continued() -> None:
    verdict, off, engine, _ = checked("kosmos-2.5")
    assert engine.layout.origin == 1 and verdict.fast_paths.way == "tree"
    assert off <= verdict.tolerance.token


def test_a_model_that_makes_no_cache_is_given_one() -> None:
    verdict, off, engine, _ = checked("granite4_vision")
    assert engine.layout.given_cache
    assert verdict.fast_paths == verdict.replies == FastPaths("tree", shared=True)
    assert off <= verdict.tolerance.token


def test_features_of_a_tower_that_puts_all_pictures_into_one_row_are_not_merged_by_rows() -> None:
    """Pixtral's: images that were seen one by one are then asked together."""
    engine, window = by_hand("mistral3", of_pixtral())
    paths = FastPaths("rows")
    for prompt in window[1:3]:
        engine.score([prompt], paths)
    assert (
        largest_difference(reference_scores(engine.layout, window), engine.score(window, paths))
        < 1e-4
    )


def test_a_model_whose_scores_depend_on_the_text_after_them_keeps_no_cache() -> None:
    """With a single head, Mistral Large 4's indexer gives half of the keys the score 0, and which of them are read
    depends on the length. With the 32 that are published no two keys have one score."""
    verdicts = []
    for heads, keys in ((32, 64), (1, 16)):
        engine, window = by_hand(
            "mistral_large4", of_pixtral(), index_n_heads=heads, index_topk=keys
        )
        verdicts.append(choose_fast_paths(engine, window))
        long, cut = (
            [replace(prompt, tails=(prompt.tails[2][:count],)) for prompt in window]
            for count in (5, 3)
        )
        whole = [[tail[:3] for tail in tails] for tails in reference_scores(engine.layout, long)]
        moved = largest_difference(whole, reference_scores(engine.layout, cut))
        assert moved > 0.01 if heads == 1 else moved < 1e-4
    causal, other = verdicts
    assert causal.fast_paths.shared
    assert other.name == "plain; replies token by token"
    assert "a text without what follows is off by" in other.line


def test_settings_stored_with_a_model_change_no_reply() -> None:
    """Florence-2's folder forces the first and the last token and forbids that n-grams are repeated."""
    model, head = make("Florence-2")
    stored = tf.GenerationConfig(
        forced_bos_token_id=9, forced_eos_token_id=2, no_repeat_ngram_size=1
    )
    model.generation_config = stored
    verdict = choose_fast_paths(Engine(read_layout(model, 0), 8, 4096), asked(head))
    assert verdict.replies == FastPaths("rows") and model.generation_config is stored


def test_a_control_byte_behind_a_prompt_belongs_to_the_prompt() -> None:
    """Fuyu's processor writes <0x04> there, which its tokenizer does not call special."""

    class Answering:
        tokenizer = unigram(["<unk>", "<pad>", "<bos>", "<eos>", "<0x04>"])
        image_processor = SimpleNamespace()

        def __call__(self, images: Any = None, text: str = "", **_: Any) -> dict[str, Any]:
            return {"input_ids": torch.tensor([self.tokenizer(text + "<0x04>")["input_ids"]])}

    encoder = Encoder(Answering())
    mark = Answering.tokenizer.convert_tokens_to_ids("<0x04>")
    assert mark not in Answering.tokenizer.all_special_ids
    prompt = ChatPrompt("Which colour is the circle?\n", (), "")
    continued = encoder.continue_with(prompt, encoder.encode(prompt, {}), ["red", "dark green"])
    assert continued.context.ids[-1] == mark and continued.context.ids.count(mark) == 1
    assert [encoder.tokens.decode(tail) for tail in continued.tails] == ["red", "dark green"]
