"""Models that are spoiled on purpose: each is noticed, and what is then chosen equals one row at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import torch
import transformers as tf

import snellen as sn
from hf_adversaries import (
    ADVERSARIES,
    MEASURED,
    Dropout,
    head,
    llava,
    plain_reply,
    quantised,
    text_of,
)
from snellen.errors import ModelError
from snellen.models.hf.encode import ContinuedPrompt, extend
from snellen.models.hf.engine import Engine
from snellen.models.hf.model_layout import longest_text, read_layout
from snellen.models.hf.probe import GreedyPicker
from snellen.models.hf.selfcheck import SelfCheckResult, choose_fast_paths
from snellen.models.hf.sharing_plan import PLAIN, FastPaths
from snellen.models.hf.tolerance import UnrepeatableError
from snellen.models.loading import load_model
from snellen.runs.run_folder import read_manifest
from tiny_archs import Pictures, ask, save
from tiny_configs import TEXT, asked, make, tokens


def checked(model: Any) -> tuple[Engine, SelfCheckResult]:
    engine = Engine(read_layout(model, 0), 8, 4096)
    verdict = choose_fast_paths(engine, asked(head()))
    engine.fast_paths = verdict.fast_paths
    return engine, verdict


def requests(lengths: tuple[int, ...]) -> list[ContinuedPrompt]:
    """Questions of these lengths about two images, with continuations of 1, 4 and 120 tokens."""
    drawn, prompts = random.Random(0), []
    for i, length in enumerate(lengths):
        context = replace(
            extend(head(), tokens(100 + i, length)), digests=(drawn.choice(("cat", "cow")),)
        )
        tails = tuple(tokens(200 + 3 * i + j, count) for j, count in enumerate((1, 4, 120)))
        prompts.append(ContinuedPrompt(context, tails))
    return prompts


@pytest.mark.parametrize(
    "build",
    [ADVERSARIES["pruning by the last token"], quantised],
    ids=["pruning", "quantised"],
)
def test_replies_are_those_of_a_plain_loop(build: Callable[[], Any]) -> None:
    engine, verdict = checked(build())
    rows = [prompt.context for prompt in requests((4, 6, 12, 17, 31, 61))]
    replies = engine.generate(rows, GreedyPicker(engine.layout.end_tokens), 8)
    assert verdict.replies == PLAIN
    assert replies == [plain_reply(engine.layout.model, row, 8) for row in rows]


@pytest.mark.parametrize("name", MEASURED)
def test_a_short_probe_shows_what_is_wrong(name: str) -> None:
    _, verdict = checked(ADVERSARIES[name]())
    assert verdict.refusals[MEASURED[name]] in ("differs", "chooses another option")


def test_active_dropout_is_refused_since_no_score_repeats() -> None:
    model = llava()
    for layer in text_of(model).layers:
        layer.mlp.__class__ = Dropout
    with pytest.raises(UnrepeatableError, match="two scores of the same prompt differ by"):
        checked(model)


def test_the_tolerance_of_half_precision_is_measured_and_refuses_what_was_accepted_before() -> None:
    model, begun = make("PaliGemma")
    for values in model.parameters():
        if values.ndim > 1:
            values.data.mul_(0.7)
    engine = Engine(read_layout(model.to(torch.bfloat16), 0), 8, 4096)
    verdict = choose_fast_paths(engine, asked(begun))
    assert verdict.tolerance.noise is not None
    assert verdict.tolerance.token < 0.2
    assert verdict.fast_paths != PLAIN
    assert not verdict.fast_paths.shared
    assert model.dtype == torch.bfloat16


def test_spot_checks_stand_in_the_findings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model: Any = load_model(f"hf:{save('LLaVA', tmp_path)}")
    pictures = Pictures()
    red = pictures.add("red")
    model.loglikelihood([ask("Which?", red, continuations=("red", "blue"))], pictures)
    model.generate([ask("Which?", red)], pictures)
    told = "; ".join(model.findings())
    assert "spot checks (loglikelihood): 1 request answered one row at a time too" in told
    assert "spot checks (generate): 1 request" in told
    assert not caplog.records


def test_a_group_in_which_a_spot_check_finds_a_difference_is_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save("LLaVA", tmp_path)
    model: Any = load_model(f"hf:{folder}")
    exact: Any = load_model(f"hf:{folder}?scoring=exact&batch_size=1")
    pictures = Pictures()
    red, blue = pictures.add("red"), pictures.add("blue")
    score = model._engine.score

    def wrong_but_for_the_plain_path(rows: Any, paths: FastPaths) -> Any:
        by = 0.0 if paths == PLAIN else 1.0
        return [[[value + by for value in tail] for tail in tails] for tails in score(rows, paths)]

    model._engine.score = wrong_but_for_the_plain_path
    first_window = [
        ask("Which one?", red, continuations=("red", "blue")),
        ask("Which other one?", blue, continuations=("red", "blue")),
    ]
    later_window = [ask("Which then?", blue, continuations=("red", "blue"))]

    for window in (first_window, later_window):
        answered = model.loglikelihood(window, pictures)
        for response, expected in zip(answered, exact.loglikelihood(window, pictures), strict=True):
            for score_, expected_score in zip(response.scores, expected.scores, strict=True):
                assert score_.sum == pytest.approx(expected_score.sum, abs=1e-4)

    assert caplog.text.count("differs from the same request run alone") == 1
    assert "answered one row at a time: 3" in "; ".join(model.findings())


def test_a_model_with_active_dropout_is_refused_when_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save("LLaVA", tmp_path)
    forward = tf.models.llama.modeling_llama.LlamaMLP.forward
    monkeypatch.setattr(
        tf.models.llama.modeling_llama.LlamaMLP,
        "forward",
        lambda self, x: torch.nn.functional.dropout(forward(self, x), 0.1),
    )
    with pytest.raises(ModelError, match="training mode"):
        load_model(f"hf:{folder}")


def test_the_largest_difference_of_spot_checks_stands_in_the_manifest_and_the_report(
    tmp_path: Path,
) -> None:
    results = sn.evaluate(
        "snellen:tiny",
        "eyechart/shape",
        ["vanilla", "likelihood"],
        limit=4,
        name="tiny",
        runs=tmp_path,
    )
    notes = read_manifest(tmp_path / "tiny").notes
    assert [note.partition(":")[0] for note in notes] == [
        "spot checks (generate)",
        "spot checks (loglikelihood)",
    ]
    assert all("nats (noise allows" in note for note in notes)
    results.report(tmp_path / "report.md")
    assert "spot checks (loglikelihood)" in (tmp_path / "report.md").read_text()


def test_a_scaled_rotary_embedding_takes_longer_texts() -> None:
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}
    model = llava(tf.LlamaConfig(**TEXT, rope_parameters=rope))
    assert longest_text(llava()) == TEXT["max_position_embeddings"]
    assert longest_text(model) == 4 * TEXT["max_position_embeddings"]
