"""Models that are spoiled on purpose: each is noticed, and what is then chosen equals one row at a time."""

from __future__ import annotations

import builtins
import functools
import operator
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
    selecting,
    sliding,
    text_of,
)
from snellen.errors import ModelError
from snellen.models.hf.encode import ContinuedPrompt, extend
from snellen.models.hf.engine import Engine
from snellen.models.hf.model_layout import read_layout
from snellen.models.hf.probe import GreedyPicker, batch_flaw
from snellen.models.hf.reference import reference_reply, reference_scores
from snellen.models.hf.selfcheck import LONGEST_UNKNOWN, SelfCheckResult, choose_fast_paths
from snellen.models.hf.sharing_plan import PLAIN, FastPaths, ProvedRange
from snellen.models.hf.thresholds import (
    ModelFacts,
    UnrepeatableError,
    crossing_length,
    in_training_mode,
    largest_difference,
    unknown_code,
)
from snellen.models.loading import load_model
from snellen.runs.run_folder import read_manifest
from tiny_archs import Pictures, ask, save
from tiny_configs import ARCHITECTURES, TEXT, asked, make, tokens


def checked(model: Any, facts: ModelFacts | None = None) -> tuple[Engine, SelfCheckResult]:
    engine = Engine(read_layout(model, 0), 8, 4096)
    verdict = choose_fast_paths(engine, asked(head()), facts)
    engine.fast_paths = verdict.fast_paths
    return engine, verdict


def requests(lengths: tuple[int, ...]) -> list[ContinuedPrompt]:
    """Questions of these lengths about two images, with continuations of 1, 4 and 120 tokens."""
    drawn, prompts = random.Random(0), []
    for i, length in enumerate(lengths):
        context = replace(
            extend(head(), tokens(100 + i, length), 0), digests=(drawn.choice(("cat", "cow")),)
        )
        tails = tuple(tokens(200 + 3 * i + j, count) for j, count in enumerate((1, 4, 120)))
        prompts.append(ContinuedPrompt(context, tails))
    return prompts


# One of each three in every run; all of them where the slow tests run.
SOMETIMES = [
    pytest.param(name, marks=pytest.mark.slow if at % 3 else ())
    for at, name in enumerate(ADVERSARIES)
]


@pytest.mark.parametrize("name", SOMETIMES)
def test_an_adversary_is_scored_and_answered_as_one_row_at_a_time(name: str) -> None:
    engine, verdict = checked(ADVERSARIES[name]())
    assert (
        verdict.fast_paths.name != "tree, picture shared, features kept, one forward, trunks kept"
    )
    window = requests((4, 9, 60, 61, 150, 210, 330))
    assert largest_difference(reference_scores(engine.layout, window), engine.score(window)) < 1e-4
    rows = [prompt.context for prompt in window]
    if verdict.fast_paths.writing.startswith("generate"):
        near = [row for row in rows if verdict.fast_paths.proved.covers(len(row.ids), 8, 1)]
        assert not any(
            batch_flaw(engine, [row], verdict.fast_paths, verdict.tolerance) for row in near
        )
        return
    replies = engine.generate(rows, GreedyPicker(engine.layout.end_tokens), 6)
    assert replies == [plain_reply(engine.layout.model, row, 6) for row in rows]


@pytest.mark.parametrize(
    "build",
    [ADVERSARIES["pruning by the last token"], quantised, selecting],
    ids=["pruning", "quantised", "selecting"],
)
def test_replies_are_those_of_a_plain_loop(build: Callable[[], Any]) -> None:
    engine, verdict = checked(build())
    rows = [prompt.context for prompt in requests((4, 6, 12, 17, 31, 61))]
    replies = engine.generate(rows, GreedyPicker(engine.layout.end_tokens), 8)
    assert verdict.fast_paths.writing == "token by token"
    assert replies == [plain_reply(engine.layout.model, row, 8) for row in rows]


def test_a_reply_is_checked_by_what_stands_before_each_of_its_tokens() -> None:
    engine, verdict = checked(ADVERSARIES["pruning by the last token"]())
    assert not verdict.alone
    row = requests((9,))[0].context
    reply = plain_reply(engine.layout.model, row, 8)
    assert max(reference_reply(engine.layout, row, reply, stepwise=True).deficits) == 0
    assert max(reference_reply(engine.layout, row, reply).deficits) > 0.1


@pytest.mark.parametrize("name", MEASURED)
def test_a_short_probe_shows_what_is_wrong_without_any_fact(name: str) -> None:
    _, verdict = checked(ADVERSARIES[name](), ModelFacts())
    assert verdict.refusals[MEASURED[name]] in ("differs", "chooses another option")


def test_active_dropout_is_refused_since_no_score_repeats() -> None:
    model = llava()
    for layer in text_of(model).layers:
        layer.mlp.__class__ = Dropout
    with pytest.raises(UnrepeatableError, match="two scores of the same prompt differ by"):
        checked(model)


def test_modules_in_training_mode_are_named() -> None:
    model = llava()
    model.model.language_model.layers[1].train()
    assert in_training_mode(model)[0] == "model.language_model.layers.1"


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_released_code_is_known_also_when_the_engine_has_wrapped_it(name: str) -> None:
    model, _ = make(name)
    Engine(read_layout(model, 0), 8, 4096)
    assert unknown_code(model) == ()


def test_a_builtin_that_a_notebook_or_ray_puts_in_place_is_no_code_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(builtins, "display", lambda: None, raising=False)
    monkeypatch.setattr(builtins, "print", functools.wraps(print)(lambda *args: None))
    assert unknown_code(llava()) == ()


def test_patches_hooks_and_subclasses_are_unknown_code() -> None:
    for spoil in (
        lambda model: setattr(model.model, "get_image_features", lambda *args, **settings: None),
        lambda model: model.model.register_forward_hook(lambda *args: None),
        lambda model: setattr(model.model, "__class__", type("Mine", (type(model.model),), {})),
    ):
        model = llava()
        spoil(model)
        assert unknown_code(model) == ("model",)


class Half:
    """Half of what it is called with; called like a function, and no function."""

    def __call__(self, *given: Any, **settings: Any) -> Any:
        return given[-1] / 2

    def half(self, *given: Any) -> Any:
        return given[-1] / 2


def put(module: Any, name: str, value: Any) -> None:
    """`value` where a part of a module stood."""
    module._modules.pop(name, None)
    vars(module)[name] = value


class Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Any) -> Any:
        return hidden / 2


OBJECTS: dict[str, Callable[[Any], Any]] = {
    "an object as hook": lambda mlp: mlp.register_forward_hook(Half()),
    "an object as hook before": lambda mlp: mlp.register_forward_pre_hook(Half()),
    "an object as forward": lambda mlp: put(mlp, "forward", Half()),
    "an object's method as forward": lambda mlp: put(mlp, "forward", Half().half),
    "an object as activation": lambda mlp: put(mlp, "act_fn", Half()),
    "an object in a closure": lambda mlp: put(mlp, "act_fn", torch.no_grad()(Half().half)),
    "an operator in C": lambda mlp: put(mlp, "act_fn", operator.methodcaller("cumsum", -2)),
    "a function of torch in C": lambda mlp: put(
        mlp, "act_fn", functools.partial(torch.cumsum, dim=-2)
    ),
    "a function with a derivative": lambda mlp: put(mlp, "act_fn", Apply.apply),
    "a compiled function": lambda mlp: put(
        mlp, "act_fn", torch.jit.trace(torch.sin, torch.ones(3), check_trace=False)
    ),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_that_is_called_is_unknown_code(kind: str) -> None:
    model = llava()
    OBJECTS[kind](text_of(model).layers[1].mlp)
    assert unknown_code(model) == ("model.language_model.layers.1.mlp",)


def test_an_object_in_a_class_is_unknown_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.models.llama.modeling_llama.LlamaMLP, "forward", Half())
    assert "model.language_model.layers.0.mlp" in unknown_code(llava())


@pytest.mark.parametrize("kind", ["an object as activation", "an object as forward"])
def test_a_model_with_an_object_of_its_own_is_scored_as_one_row_at_a_time(kind: str) -> None:
    model = llava()
    OBJECTS[kind](text_of(model).layers[1].mlp)
    engine, verdict = checked(model)
    assert not (verdict.fast_paths.shared or verdict.fast_paths.batch)
    window = requests((4, 60, 150))
    assert largest_difference(reference_scores(engine.layout, window), engine.score(window)) < 1e-4


def test_unknown_code_in_the_projector_alone_keeps_the_tree_and_loses_batches_of_pictures() -> None:
    model = llava()
    part = model.model.multi_modal_projector
    part.__class__ = type("Mine", (type(part),), {})
    _, verdict = checked(model)
    assert (
        verdict.fast_paths.name
        == "tree, picture shared, features kept, one forward, one row at a time"
    )


def test_texts_that_stay_below_a_length_share_everything_and_longer_ones_nothing() -> None:
    _, verdict = checked(ADVERSARIES["LongRoPE"]())
    assert verdict.fast_paths.tree
    assert verdict.fast_paths.proved == ProvedRange(longest=95)
    assert verdict.fast_paths.name.endswith("up to 95 tokens, others plain")


def test_a_window_that_is_named_is_crossed_and_then_holds_at_any_length() -> None:
    _, verdict = checked(sliding())
    assert crossing_length(verdict.facts) == 100
    assert verdict.fast_paths.name == "rows, picture shared, features kept, one group at a time"
    assert verdict.fast_paths.proved == ProvedRange()


def test_blocks_of_which_some_are_read_begin_to_differ_at_the_product() -> None:
    facts = ModelFacts(lengths=(("index_topk_blocks", 16), ("index_block_size", 128)))
    assert facts.selecting == ("index_topk_blocks", 2048)
    assert ModelFacts(lengths=(("index_topk", 2048), ("index_kpool", 16))).selecting == (
        "index_topk",
        2048,
    )


@pytest.mark.parametrize("window", [8, 24])
def test_texts_of_which_a_part_is_selected_are_run_one_by_one_at_any_length(window: int) -> None:
    """Doge with a window of 8 is 0.46 nats off at 224 tokens, though rows agreed on a probe of 48."""
    engine, verdict = checked(selecting(window))
    assert (
        verdict.fast_paths.name
        == "full rows, encoders kept, one row at a time; replies token by token"
    )
    for length in (4, 20, 60, 85, 150, 210, 330):
        asked_now = requests((length,))
        assert (
            largest_difference(reference_scores(engine.layout, asked_now), engine.score(asked_now))
            < 1e-4
        )


def test_texts_shorter_than_a_selection_share_everything() -> None:
    _, verdict = checked(selecting(64))
    assert verdict.fast_paths.name.endswith("trunks kept; up to 63 tokens, others plain")


def test_a_length_that_is_no_window_holds_as_far_as_it_was_tried() -> None:
    """Chunks that texts are cut into may matter again where the next begins."""
    facts = ModelFacts(lengths=(("attention_chunk_size", 24),))
    _, verdict = checked(llava(tf.LlamaConfig(**{**TEXT, "max_position_embeddings": 4096})), facts)
    assert verdict.fast_paths.cache
    assert verdict.fast_paths.proved.longest == LONGEST_UNKNOWN


def test_the_tolerance_of_half_precision_is_measured_and_refuses_what_was_accepted_before() -> None:
    model, begun = make("PaliGemma")
    for values in model.parameters():
        if values.ndim > 1:
            values.data.mul_(0.7)
    engine = Engine(read_layout(model.to(torch.bfloat16), 0), 8, 4096)
    verdict = choose_fast_paths(engine, asked(begun))
    assert verdict.tolerance.noise is not None
    assert verdict.tolerance.token < 0.2
    assert verdict.fast_paths.cache
    assert not verdict.fast_paths.shared
    assert model.dtype == torch.bfloat16


def test_a_generate_that_echoes_the_prompt_is_refused() -> None:
    class Echo(tf.LlavaForConditionalGeneration):  # type: ignore[misc]
        def generate(self, *args: Any, **settings: Any) -> Any:
            found = super().generate(*args, **settings)
            return torch.cat([settings["input_ids"][:, :2], found[:, :-1]], 1)

    model = llava()
    model.__class__ = Echo
    engine = Engine(read_layout(model, 0), 8, 4096)
    rows = [prompt.context for prompt in asked(head())]
    _, verdict = checked(llava(), ModelFacts())
    assert batch_flaw(
        engine, rows, replace(PLAIN, writing="generate in batches"), verdict.tolerance
    )
    assert not batch_flaw(engine, rows, FastPaths(cache=True), verdict.tolerance)


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
