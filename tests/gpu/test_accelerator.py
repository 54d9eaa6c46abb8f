"""What only an accelerator shows. Skipped where torch sees none; `pytest tests/gpu` is all there is to do on one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import torch

import tiny_archs
import tiny_configs
from snellen.models.hf.encode import extend
from snellen.models.hf.engine import Engine
from snellen.models.hf.load import (
    accelerator,
    copy_to_device,
    free_memory,
    input_device,
    total_memory,
    unless_out_of_memory,
)
from snellen.models.hf.model_layout import read_layout
from snellen.models.hf.selfcheck import choose_fast_paths
from snellen.models.hf.sharing_plan import PLAIN
from snellen.models.hf.tolerance import largest_difference
from snellen.models.loading import load_model
from snellen.records import Decoding
from tiny_archs import Pictures, ask
from tiny_configs import ARCHITECTURES, asked, make

pytestmark = pytest.mark.skipif(
    not torch.accelerator.is_available(), reason="waits for an accelerator"
)
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_archs.save("LLaVA", tmp_path_factory.mktemp("llava"))


def greedy(members: Any) -> Any:
    def choose(logits: Any, said: list[list[int]]) -> tuple[list[int], list[bool]]:
        return logits.float().argmax(-1).tolist(), [False] * len(said)

    return choose


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_chosen_path_equals_the_plain_one_and_the_cpu(name: str) -> None:
    model, head = make(name)
    window = asked(head)
    expected = Engine(read_layout(model, 0), 1, 4096).score(window, PLAIN)
    engine = Engine(read_layout(model.to(accelerator()), 0), 8, 4096)
    verdict = choose_fast_paths(engine, window)
    assert verdict.fast_paths != PLAIN
    plain = engine.score(window, PLAIN)
    assert (
        largest_difference(plain, engine.score(window, verdict.fast_paths))
        <= verdict.tolerance.token
    )
    assert largest_difference(expected, plain) < 1e-4  # float32 everywhere, added in other orders


@pytest.mark.parametrize("form", ["bfloat16", "float16"])
def test_halves_share_what_single_precision_shares(form: str) -> None:
    model, head = make("LLaVA")
    engine = Engine(read_layout(model.to(accelerator(), getattr(torch, form)), 0), 8, 4096)
    verdict = choose_fast_paths(engine, asked(head))
    assert verdict.fast_paths.way == "tree", verdict.line
    assert verdict.tolerance.noise is not None


@pytest.mark.parametrize("attention", ["sdpa", "flash_attention_2"])
def test_an_attention_that_takes_no_dense_mask_is_found_out_and_shares_what_it_can(
    attention: str, folder: Path
) -> None:
    if attention == "flash_attention_2":
        pytest.importorskip("flash_attn", reason="waits for flash_attn")
    model: Any = load_model(f"hf:{folder}?attn_implementation={attention}&dtype=bf16")
    assert (
        "prompt shared" in (scoring := model.fingerprint()["scoring"]) or "image shared" in scoring
    ), scoring


def test_the_front_door_takes_the_accelerator_by_itself(folder: Path) -> None:
    model: Any = load_model(f"hf:{folder}")
    assert model.fingerprint()["device"] == accelerator()
    pictures = Pictures()
    red = pictures.add("red")
    model.expect([red], pictures)
    [reply] = model.generate([ask("Which?", red, decoding=Decoding(5))], pictures)
    [scored] = model.loglikelihood([ask("Which?", red, continuations=("red", "no"))], pictures)
    assert (reply.error, scored.error) == (None, None)


def test_a_copy_arrives_whole_though_it_does_not_wait() -> None:
    device = torch.device(accelerator())
    copies = [(i, copy_to_device(torch.full((1 << 20,), i), device)) for i in range(8)]
    assert all(bool((copy == i).all()) for i, copy in copies)


def test_memory_that_ran_out_is_free_again() -> None:
    device = torch.device(accelerator())
    if not hasattr(torch.get_device_module(device), "mem_get_info"):
        pytest.skip("waits for a device that says how much memory it has")
    before = free_memory(device)

    def fails() -> Any:
        held = torch.empty(before // 2, dtype=torch.uint8, device=device)
        return held, torch.empty(total_memory(device), dtype=torch.uint8, device=device)

    assert unless_out_of_memory(fails) is None
    assert free_memory(device) > before * 0.9


def test_a_request_that_does_not_fit_fails_alone_and_costs_the_others_nothing(folder: Path) -> None:
    model: Any = load_model(f"hf:{folder}")
    device = input_device(model._layout.model)
    budget, pictures = model._engine.budget, Pictures()
    red = pictures.add("red")
    block = model._layout.model.model.language_model.layers[0]

    def greedy_block(module: Any, given: Any, named: Any) -> None:
        if (given[0] if given else named["hidden_states"]).shape[1] > 60:
            torch.empty(2 * total_memory(device), dtype=torch.uint8, device=device)

    questions = [
        ask(text, red, continuations=("red", "no"))
        for text in ("Which?", "Which is it " * 12, "Sure?")
    ]
    with block.register_forward_pre_hook(greedy_block, with_kwargs=True):
        replies = model.loglikelihood(questions, pictures)
    assert [reply.error is None for reply in replies] == [True, False, True]
    assert model._engine.budget == budget


@pytest.mark.parametrize("name", ["LLaVA", "BLIP-2 OPT", "Gemma 3"])
def test_a_model_over_two_devices_keeps_its_caches_where_its_blocks_are(name: str) -> None:
    if torch.accelerator.device_count() < 2:
        pytest.skip("waits for a second accelerator")
    from accelerate import dispatch_model, infer_auto_device_map

    model, head = make(name)
    window = asked(head)
    expected = Engine(read_layout(model, 0), 1, 4096).score(window, PLAIN)
    usual = choose_fast_paths(Engine(read_layout(make(name)[0], 0), 8, 4096), window).fast_paths
    half = sum(part.numel() * 4 for part in model.parameters()) * 6 // 10
    whole = sorted(
        {type(m).__name__ for m in model.modules() if type(m).__name__.endswith(("Layer", "Block"))}
    )
    places = infer_auto_device_map(model, {0: half, 1: 2 * half}, no_split_module_classes=whole)
    assert set(places.values()) == {0, 1}
    engine = Engine(read_layout(dispatch_model(model, places), 0), 8, 4096)
    verdict = choose_fast_paths(engine, window)
    assert verdict.fast_paths == usual, verdict.line
    assert largest_difference(expected, engine.score(window, usual)) < 1e-2
    more = [extend(window[0].context, tiny_configs.tokens(40 + i, 3 + i)) for i in range(3)]
    assert engine.generate(more, greedy, 6) == engine.generate(more, greedy, 6, PLAIN)


def test_the_bench_runs() -> None:
    command = [
        sys.executable,
        "bench/whitebox.py",
        "--device",
        accelerator(),
        "--size",
        "small",
        "--repetitions",
        "2",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "tokens/s" in done.stdout
