"""Fast paths against the plain path, on small random models of every architecture, in float32."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import torch
import transformers as tf
from accelerate import dispatch_model

from snellen.models.hf.caches import (
    ROOM,
    with_room,
)
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, extend
from snellen.models.hf.engine import Engine
from snellen.models.hf.load import inference
from snellen.models.hf.model_layout import read_layout
from snellen.models.hf.prefix_cache import RECENT, PrefixCache
from snellen.models.hf.reference import reference_scores
from snellen.models.hf.selfcheck import SelfCheckResult, choose_fast_paths
from snellen.models.hf.sharing_plan import PLAIN, FastPaths
from snellen.models.hf.tolerance import largest_difference
from tiny_configs import ARCHITECTURES, asked, make, normal, tokens

EXPECTED = {
    "PaliGemma": "tree, prompt shared",
    "Gemma 3": "rows, image shared",
    "BLIP-2 FlanT5": "rows, prompt shared",
    "InstructBLIP FlanT5": "rows, prompt shared",
    "Florence-2": "rows, prompt shared",
    "GIT": "rows, image shared",
    "Kosmos-2": "rows, image shared",
}
EVERYTHING = "tree, image shared"
ALL = FastPaths("tree", shared=True)


def engine_of(model: Any, rows: int = 8) -> Engine:
    return Engine(read_layout(model, 0), rows, 4096)


@cache
def checked(name: str) -> SelfCheckResult:
    """What the self-check of an architecture finds, which is the same each time."""
    model, head = make(name)
    return choose_fast_paths(engine_of(model), asked(head))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> tuple[str, Any, Any]:
    return request.param, *make(request.param)


def test_the_self_check_finds_the_right_strategy_and_it_equals_the_plain_path(
    architecture: tuple[str, Any, Any],
) -> None:
    name, model, head = architecture
    engine, window, verdict = engine_of(model), asked(head), checked(name)
    engine.layout = verdict.adjusted(engine.layout)
    assert verdict.fast_paths.name == EXPECTED.get(name, EVERYTHING)
    plain = engine_of(model, rows=1).score(window, PLAIN)
    assert largest_difference(plain, engine.score(window, verdict.fast_paths)) < 1e-4
    assert largest_difference(plain, [[*scores] for scores in engine.score(window, PLAIN)]) < 1e-4


def test_texts_without_a_picture_score_as_one_row_at_a_time(
    architecture: tuple[str, Any, Any],
) -> None:
    name, model, _ = architecture
    engine = engine_of(model)
    engine.fast_paths = checked(name).fast_paths
    window = [
        ContinuedPrompt(
            EncodedPrompt(tokens(7 + i, 9 + i * i), {}), (tokens(1, 1), tokens(2, 5), tokens(3, 3))
        )
        for i in range(3)
    ]
    try:
        expected = reference_scores(engine.layout, window)
    except (TypeError, ValueError) as error:  # it reads no text alone
        with pytest.raises(type(error)):
            engine.score(window)
        return
    difference = largest_difference(expected, engine.score(window))
    # PaliGemma and GIT read such texts otherwise, which spot checks on the requests of a run find.
    assert difference < 1e-4 or name in ("PaliGemma", "GIT")


def test_scores_see_the_picture(architecture: tuple[str, Any, Any]) -> None:
    _, model, head = architecture
    first = asked(head)[0]
    extras = {
        **first.context.extras,
        "pixel_values": normal(77, *first.context.extras["pixel_values"].shape),
    }
    other = replace(first, context=replace(first.context, extras=extras, digests=("bird",)))
    engine = engine_of(model)
    assert largest_difference(engine.score([first], PLAIN), engine.score([other], PLAIN)) > 0.01


def test_a_wrong_path_is_found_out() -> None:
    verdict = checked("PaliGemma")
    assert verdict.differences[EVERYTHING] > 0.1
    assert f"{EVERYTHING} is off by" in verdict.line
    assert verdict.line.count("image shared") == 1  # narrower paths that fail too are not listed
    assert "\n" not in verdict.line


def test_layers_with_a_sliding_window_are_never_given_holes_though_a_short_probe_would_pass() -> (
    None
):
    model, head = make("Gemma 3")
    short = [
        ContinuedPrompt(extend(head, tokens(i, 2)), (tokens(3, 1), tokens(4, 2))) for i in range(2)
    ]
    verdict = choose_fast_paths(engine_of(model), short)
    assert verdict.fast_paths.way == "rows"


def test_rope_positions_do_not_leak_from_one_sample_to_the_next() -> None:
    model, head = make("Qwen2-VL")
    engine, window = engine_of(model), asked(head)
    text_only = ContinuedPrompt(EncodedPrompt(tokens(9, 20), {}), (tokens(1, 3),))
    fresh = engine_of(make("Qwen2-VL")[0]).score([text_only], PLAIN)
    engine.score(window, ALL)
    for fast_paths in (PLAIN, FastPaths("rows"), FastPaths("tree")):
        engine.score(window[:1], fast_paths)
        assert largest_difference(fresh, engine.score([text_only], fast_paths)) < 1e-4


@pytest.mark.parametrize("name", ["LLaVA-NeXT", "Qwen2.5-VL", "PaliGemma", "InstructBLIP Vicuna"])
def test_a_prefix_of_an_earlier_call_serves_its_own_picture_and_no_other(name: str) -> None:
    model, head = make(name)
    engine, window = engine_of(model), asked(head)
    able = checked(name).fast_paths
    assert able.way == "tree"
    plain = engine_of(model, rows=1).score(window, PLAIN)
    # One by one, as waves ask; the third is about another image, and the whole window comes last.
    for i, one in enumerate(window):
        assert largest_difference(plain[i : i + 1], engine.score([one], able)) < 1e-4
    before = engine.prefix_cache.served
    assert largest_difference(plain, engine.score(window, able)) < 1e-4
    assert engine.prefix_cache.served > before
    other = [replace(w, context=replace(w.context, digests=("bird",))) for w in window[:1]]
    before = engine.prefix_cache.served
    engine.score(other, able)
    assert engine.prefix_cache.served == before


def test_what_generation_has_read_serves_likelihood() -> None:
    model, head = make("LLaVA")
    engine, window = engine_of(model), asked(head)
    engine.fast_paths = ALL
    engine.generate([one.context for one in window], greedy, 5)
    found = engine.score(window)
    assert engine.prefix_cache.served == 2
    assert largest_difference(engine_of(model, rows=1).score(window, PLAIN), found) < 1e-4


def test_kept_prefixes_stay_within_their_room_and_the_first_ones_stay() -> None:
    model, head = make("LLaVA")
    first = asked(head)[0]
    window = [replace(first, context=replace(first.context, digests=(str(i),))) for i in range(6)]
    engine = engine_of(model)
    tokens_kept = len(first.context.ids)
    row = (
        2 * tokens_kept * 2 * 2 * 16 * 4
    )  # keys and values, 2 layers of 2 heads of 16 numbers of 4 bytes
    engine.prefix_cache = PrefixCache(int(3.5 * row))
    for _ in range(2):
        engine.score(window, ALL)
    assert engine.prefix_cache.served == 3
    later = [
        replace(first, context=replace(first.context, digests=(f"later {i}",))) for i in range(6)
    ]
    for _ in range(RECENT + 2):
        engine.score(later, ALL)
    assert engine.prefix_cache.served == 3 + 3


def greedy(members: Any) -> Any:
    """Each next token is the likeliest; how long a reply is depends on its first token."""

    def choose(logits: torch.Tensor, said: list[list[int]]) -> tuple[list[int], list[bool]]:
        chosen: list[int] = logits.float().argmax(-1).tolist()
        return chosen, [
            len(before) > (*before, token)[0] % 7
            for before, token in zip(said, chosen, strict=True)
        ]

    return choose


@pytest.mark.parametrize(
    "name", ["LLaVA", "Qwen2-VL", "Mllama", "BLIP-2 OPT", "Kosmos-2", "PaliGemma", "Gemma 3"]
)
def test_replies_that_end_early_leave_the_others_as_they_are(name: str) -> None:
    model, head = make(name)
    engine, window = engine_of(model), [one.context for one in asked(head)]
    more = [replace(extend(head, tokens(40 + i, 3 + i)), digests=("cat",)) for i in range(4)]
    prompts = [*window, *more] if "qformer_input_ids" not in window[0].extras else window
    engine.fast_paths = checked(name).fast_paths
    together = engine.generate(prompts, greedy, 12)
    alone = engine_of(model)
    alone.fast_paths = FastPaths("rows")
    assert together == [alone.generate([prompt], greedy, 12)[0] for prompt in prompts]
    assert len({len(reply) for reply in together}) > 1


@pytest.mark.parametrize("able", [ALL, FastPaths("rows")], ids=["tree", "rows"])
def test_no_mask_is_made_for_a_token_that_sees_all_before_it(able: FastPaths) -> None:
    model, head = make("LLaVA")
    engine = engine_of(model)
    engine.fast_paths = able
    one, short = (extend(head, tokens(5, length)) for length in (6, 3))
    others = [replace(one, digests=(name,)) for name in ("cat", "dog")]
    masks: list[Any] = []

    def note(module: Any, given: Any, named: dict[str, Any]) -> None:
        if named["position_ids"].shape[-1] == 1:
            masks.append(named["attention_mask"])

    with model.model.language_model.layers[0].register_forward_pre_hook(note, with_kwargs=True):
        for window, whole in (
            ([one], True),
            (others, True),
            ([replace(short, digests=("cat",)), others[1]], False),
        ):
            masks.clear()
            alone = [reply for row in window for reply in engine.generate([row], greedy, 6, PLAIN)]
            assert engine.generate(window, greedy, 6) == alone
            assert masks
            needs_none = whole or able.way == "rows"  # rows are run with those of their length
            assert all((mask is None) == needs_none for mask in masks)


@pytest.mark.parametrize("name", ["LLaVA", "BLIP-2 OPT"])
def test_a_model_that_accelerate_has_spread_is_as_fast_and_as_exact(
    name: str, tmp_path: Path
) -> None:
    model, head = make(name)
    window, whole = asked(head), engine_of(model)
    expected, usual = whole.score(window, PLAIN), checked(name).fast_paths
    said = whole.generate([one.context for one in window], greedy, 5, usual)
    model, _ = make(name)
    places = {
        part: "disk" if part.endswith("1") or "vision" in part else "cpu"
        for part in parts_of(model)
    }
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # of parameters that are no modules, and stay where they are
        spread = dispatch_model(model, places, main_device="cpu", offload_dir=tmp_path)
    assert {part.device.type for part in spread.parameters()} == {"cpu", "meta"}
    engine = engine_of(spread)
    verdict = choose_fast_paths(engine, window)
    assert verdict.fast_paths == usual
    assert verdict.tolerance.noise is None  # the weights are not here to be widened
    assert largest_difference(expected, engine.score(window, usual)) < 1e-4
    assert engine.generate([one.context for one in window], greedy, 5, usual) == said


def parts_of(module: Any, prefix: str = "") -> list[str]:
    """Names of the blocks of a model, and of what is in no block."""
    tensors = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    own = [f"{prefix}{name}" for name, _ in tensors]
    for name, part in module.named_children():
        deeper = any(True for _ in part.children()) and not name.isdigit() and "vision" not in name
        own += parts_of(part, f"{prefix}{name}.") if deeper else [f"{prefix}{name}"]
    return own


@pytest.mark.parametrize("name", ["GIT", "BLIP-2 FlanT5", "LLaVA"])
def test_the_vision_tower_runs_once_a_picture(name: str) -> None:
    model, head = make(name)
    engine, window = engine_of(model, rows=3), asked(head)
    able = choose_fast_paths(engine, window).fast_paths
    assert engine.vision_tower is not None
    seen = engine.vision_tower.runs
    engine.score(
        [
            replace(w, context=replace(w.context, digests=(f"new {w.context.digests[0]}",)))
            for w in window
        ],
        able,
    )
    assert engine.vision_tower.runs - seen == 2


def test_an_encoder_reads_a_prompt_once_for_its_continuations_and_its_reply() -> None:
    model, head = make("InstructBLIP FlanT5")
    engine, window = engine_of(model, rows=16), asked(head)
    encoder, rows = model.language_model.get_encoder(), 0

    def count(module: Any, given: Any, output: Any) -> None:
        nonlocal rows
        rows += output.last_hidden_state.shape[0]

    with encoder.register_forward_hook(count):
        engine.score(window, FastPaths("rows"))
        assert rows == len(window) < sum(len(prompt.tails) for prompt in window)
        engine.generate([prompt.context for prompt in window], greedy, 5, FastPaths("rows"))
        assert rows == 2 * len(window)


def test_a_window_larger_than_the_budget_gives_the_same_scores() -> None:
    model, head = make("LLaVA-NeXT")
    window = asked(head) * 3
    whole = engine_of(model).score(window, ALL)
    for rows, budget in ((1, 4096), (2, 60), (5, 100)):
        assert (
            largest_difference(
                whole, Engine(read_layout(model, 0), rows, budget).score(window, ALL)
            )
            < 1e-4
        )


@pytest.mark.parametrize("able", [FastPaths("rows"), ALL], ids=["rows", "tree"])
def test_running_out_of_memory_halves_the_batch_and_loses_nothing(able: FastPaths) -> None:
    model, head = make("LLaVA")
    first = asked(head)[0]
    window = [replace(first, context=replace(first.context, digests=(str(i),))) for i in range(6)]
    engine = engine_of(model, rows=8)
    expected = engine.score(window, able)
    forward, sizes = model.forward, []

    def tight(*args: Any, **settings: Any) -> Any:
        rows = settings["input_ids"].shape[0]
        sizes.append(rows)
        if rows > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(*args, **settings)

    tight.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    model.forward = tight
    assert largest_difference(expected, engine.score(window, able)) < 1e-4
    assert engine.budget.rows < 8
    sizes.clear()
    engine.score(window, able)
    assert max(sizes) <= 2


def test_kept_prefixes_give_way_before_batches_are_halved() -> None:
    model, head = make("LLaVA")
    engine, window = engine_of(model), asked(head)
    expected = engine.score(window, ALL)
    forward, refused = model.forward, []

    def once_full(*args: Any, **settings: Any) -> Any:
        if not refused:
            refused.append(True)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(*args, **settings)

    once_full.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    model.forward = once_full
    seen = [one for one in window if one.context.digests == ("cat",)]
    other = [replace(one, context=replace(one.context, digests=("bird",))) for one in seen]
    assert (
        largest_difference(
            engine_of(make("LLaVA")[0], rows=1).score(other, PLAIN), engine.score(other, ALL)
        )
        < 1e-4
    )
    assert refused
    assert engine.budget.rows == 8
    assert largest_difference(expected, engine.score(window, ALL)) < 1e-4


def test_a_cache_with_room_grows_as_a_plain_one_does_and_copies_what_it_holds_once() -> None:
    plain = tf.DynamicCache()
    plain.update(normal(1, 2, 3, 5, 4), normal(2, 2, 3, 5, 4), 0)
    before = plain.layers[0].keys.clone()
    first, second, places = with_room(plain, 100), with_room(plain, 100), set()
    for step in range(ROOM):
        more = normal(3 + step, 2, 3, 1, 4), normal(100 + step, 2, 3, 1, 4)
        keys, values = first.update(*more, 0)
        second.update(*(-part for part in more), 0)
        places.add(keys.data_ptr())
        expected = plain.update(*more, 0)
        assert torch.equal(keys, expected[0])
        assert torch.equal(values, expected[1])
    assert len(places) == 1
    assert first.get_seq_length() == second.get_seq_length() == 5 + ROOM
    keys, _ = first.update(*more, 0)  # beyond the room that was made
    assert torch.equal(keys[:, :, : 5 + ROOM], plain.layers[0].keys)
    assert torch.equal(second.layers[0].keys[:, :, :5], before)
    assert torch.equal(second.layers[0].keys[:, :, 5:], -plain.layers[0].keys[:, :, 5:])


def test_what_was_cut_back_is_not_written_behind_its_old_end() -> None:
    plain = tf.DynamicCache()
    plain.update(normal(1, 1, 2, 5, 4), normal(2, 1, 2, 5, 4), 0)
    cache = with_room(plain, 8)
    more = normal(3, 1, 2, 1, 4), normal(4, 1, 2, 1, 4)
    whole, _ = cache.update(*more, 0)
    cache.crop(-3)
    keys, _ = cache.update(*more, 0)
    assert torch.equal(keys, torch.cat([whole[:, :, :3], more[0]], dim=2))
    assert torch.equal(whole[:, :, 5:], more[0])  # what was shown before is as it was


def test_cudnn_neither_rounds_nor_compiles_while_a_model_is_run_and_is_then_as_it_was() -> None:
    def settings() -> tuple[bool, bool]:
        return torch.backends.cudnn.allow_tf32, torch.backends.cuda.cudnn_sdp_enabled()

    before = settings()
    with inference(), inference():
        assert settings() == (False, False)
        assert torch.is_inference_mode_enabled()
    assert settings() == before
    torch.backends.cudnn.allow_tf32 = False
    with pytest.raises(ZeroDivisionError), inference():
        raise ZeroDivisionError
    assert settings() == (False, before[1])
    torch.backends.cudnn.allow_tf32 = before[0]
