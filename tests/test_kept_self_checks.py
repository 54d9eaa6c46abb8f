"""Which models of tests share a self-check, and which have one of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import torch
import transformers

import kept_self_checks
from hf_strangers import Neighbour, config
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt
from snellen.models.hf.engine import Engine
from snellen.models.hf.model_layout import read_layout
from tiny_configs import tokens

Count = Callable[..., int]


def made(kind: Any = transformers.LlavaForConditionalGeneration) -> Any:
    torch.manual_seed(0)
    return kind(config()).eval()


@pytest.fixture
def count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Count:
    """Counts the self-checks of these models that are done, each with a new engine."""
    done: list[Any] = []

    def check(engine: Engine, probe: Any, *, exact: bool) -> str:
        done.append(engine)
        return "a result"

    monkeypatch.setattr(kept_self_checks, "choose_fast_paths", check)
    choose = kept_self_checks.keeping_self_checks(tmp_path / "kept")

    def counted(*models: Any, rows: int = 4) -> int:
        done.clear()
        for model in models:
            probe = [ContinuedPrompt(EncodedPrompt(tokens(8, 1), {}), (tokens(2, 3),))]
            assert choose(Engine(read_layout(model, 0), rows, 4096), probe) == "a result"
        return len(done)

    return counted


def test_equal_models_are_checked_once(count: Count) -> None:
    assert count(made(), made()) == 1
    assert count(made(), rows=8) == 1  # another engine


def test_another_weight_or_setting_is_checked(count: Count) -> None:
    assert count(made()) == 1
    other_weight = made()
    with torch.no_grad():
        other_weight.get_output_embeddings().weight[3, 0] += 0.01
    other_setting = made()
    other_setting.config.text_config.rms_norm_eps = 0.1
    assert count(other_weight, other_setting) == 2


def test_code_of_a_test_is_checked_each_time(count: Count, monkeypatch: pytest.MonkeyPatch) -> None:
    assert count(made(Neighbour), made(Neighbour)) == 2
    hooked = made()
    hooked.model.register_forward_hook(lambda *given: None)
    assert count(made(), hooked, hooked) == 3
    replaced = made()
    replaced.lm_head.forward = lambda hidden: hidden
    assert count(replaced, replaced) == 2
    monkeypatch.setattr(Engine, "score", lambda *given: [])
    assert count(made(), made()) == 2
