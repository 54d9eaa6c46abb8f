"""What stands beside the benches names files that exist."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


def test_the_rooms_of_the_mutation_bench_name_modules_and_test_files_that_exist() -> None:
    tree = ast.parse((ROOT / "bench" / "mutation.py").read_text("utf-8"))
    [rooms] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and node.value
        and getattr(node.target, "id", "") == "ROOMS"
    ]
    modules = [(module, tests.split()) for room in rooms.values() for module, tests in room.items()]
    assert [
        module for module, _ in modules if not (ROOT / "src" / "snellen" / module).is_file()
    ] == []
    assert {
        name
        for _, tests in modules
        for name in tests
        if not (ROOT / "tests" / f"test_{name}.py").is_file()
    } == set()


def imported(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of `bench`, for one test."""
    pytest.importorskip("transformers", reason="waits for transformers")
    monkeypatch.syspath_prepend(ROOT / "bench")
    yield importlib.import_module(name)
    del sys.modules[name]


@pytest.fixture
def whitebox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from imported("whitebox", monkeypatch)


def test_the_white_box_bench_counts_what_each_way_runs(whitebox: Any) -> None:
    import torch

    made, work = whitebox.model(whitebox.SIZES["tiny"], 64, torch.float32, "cpu"), whitebox.Work(64)
    rows = {name: whitebox.rows_of(made, work)[name] for name in list(whitebox.TARGETS)[:2]}
    prompt, tails = 5 + 64 + 55, (1, 3, 5, 8)
    one, five = whitebox.counts(rows, made).values()
    assert one["naive"] == {"passes": 4, "tokens": 4 * prompt + sum(tails), "pictures": 4}
    # One pass reads image and question, one all options, whose last token predicts nothing.
    assert one["fast"] == {"passes": 2, "tokens": prompt + sum(tails) - 4, "pictures": 1}
    assert five["naive"] == {"passes": 20, "tokens": 5 * (4 * prompt + sum(tails)), "pictures": 20}
    assert five["fast"] == {
        "passes": 2,
        "tokens": 5 + 64 + 5 * (55 + sum(tails) - 4),
        "pictures": 1,
    }
    whitebox.show_throughput(made, work, 1)


def test_the_white_box_bench_has_a_model_of_seven_billion_parameters(whitebox: Any) -> None:
    import torch

    made = whitebox.model(whitebox.SIZES["7b"], 576, torch.bfloat16, "meta")
    assert made.dtype == torch.bfloat16
    assert sum(part.numel() for part in made.parameters()) == pytest.approx(7.06e9, rel=0.01)


@pytest.mark.parametrize(
    ("image_tokens", "crops", "side"), [(64, 1, 112), (576, 1, 336), (2880, 5, 336)]
)
def test_a_picture_of_the_bench_has_the_tokens_it_says(
    whitebox: Any, image_tokens: int, crops: int, side: int
) -> None:
    assert tuple(whitebox.Work(image_tokens).pixels.shape) == (crops, 3, side, side)
    assert crops * (side // whitebox.PATCH) ** 2 == image_tokens


@pytest.fixture
def equality(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from imported("equality", monkeypatch)


def test_passes_and_tokens_of_a_model_are_counted(equality: Any) -> None:
    import torch

    model, _ = equality.make("LLaVA")
    with equality.counting(equality.read_layout(model, 0)) as cost:
        model.get_input_embeddings()(torch.tensor([[3, 4, 5]]))
    assert (cost.passes, cost.tokens) == (1, 3)


@pytest.mark.slow
def test_a_registered_architecture_is_asked_where_and_in_the_format_it_is_told(
    equality: Any,
) -> None:
    import torch

    places = []

    def halved(model: Any) -> Any:
        places.append(model.dtype)
        return model.to(torch.bfloat16)

    line = equality.registered_row("llava", halved)
    assert equality.is_right(line)
    assert float(line.split(" | ")[3]) > 1e-4  # of float32 it is 1e-06
    assert places == [torch.float32]


def test_the_table_of_registered_architectures_counts_those_that_are_right(equality: Any) -> None:
    wrong = [
        "git | Pillow | tree | 1e-06 | **4e-01** | 1",
        "fuyu | Pillow | cannot be asked: a \\| b | | | ",
    ]
    right = "llava | Pillow | tree | 1e-06 | 1e-06 | 1"
    assert equality.registered_table([*wrong, right]).startswith("1 of 3 can be asked")
