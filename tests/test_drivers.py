"""Drivers: batches, order, shared requests, and what a model must not do."""

from __future__ import annotations

import asyncio
import base64
import itertools
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import small
from slow_model import Slow, SlowAsync
from snellen.api import build, evaluate, score
from snellen.building import source_state
from snellen.building.benchmark import FORMAT, Benchmark
from snellen.catalogue import select
from snellen.common.images import Images
from snellen.errors import DataError, ErrorBudgetError, ModelError, StoreError, UnknownNameError
from snellen.models.embedded import Scripted
from snellen.models.hf.load import HfOptions
from snellen.models.loading import load_model
from snellen.models.model_strings import parse_spec
from snellen.models.options import read_options
from snellen.protocols.prediction import LikelihoodRule, above_baseline, most_likely
from snellen.records import (
    IMPOSSIBLE,
    ContinuationScore,
    Failure,
    ImageRef,
    Request,
    Response,
    Variant,
)
from snellen.report.sample_cards import shown_options
from snellen.runs.drivers import check_response
from snellen.runs.finding import find_benchmarks
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import read_manifest
from snellen.runs.run_progress import RunProgress


class Watching(Slow):
    """Keeps the batches it was given."""

    def __init__(self, batch_size: int = 8) -> None:
        super().__init__(batch_size=batch_size)
        self.batches: list[list[Request]] = []

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        self.batches.append(list(requests))
        return super().generate(requests, images)

    loglikelihood = generate


def run(model: Any, benchmark: Benchmark, protocols: Any, folder: Path, **settings: Any) -> Any:
    return evaluate(
        model,
        str(benchmark.folder),
        protocols,
        runs=folder,
        name="run",
        error_budget=1.0,
        **settings,
    )


# --- what a model is given ---------------------------------------------------------------------------------------


def test_a_batch_holds_one_kind_and_all_presentations_of_a_sample(
    questions: Benchmark, tmp_path: Path
) -> None:
    model = Watching(batch_size=20)
    run(model, questions, ["instability?m=5", "likelihood?m=5"], tmp_path)
    for batch in model.batches:
        assert len({request.kind for request in batch}) == 1
        samples = [request.sample_id for request in batch]
        assert all(samples.count(sample) == 5 for sample in samples)


def test_a_model_that_prepares_pictures_is_told_of_them_a_window_before_they_are_asked_about(
    questions: Benchmark, tmp_path: Path
) -> None:
    class Preparing(Watching):
        def __init__(self) -> None:
            super().__init__(batch_size=4)
            self.told: list[str] = []
            self.known: list[list[str]] = []

        def expect(self, pictures: Sequence[ImageRef], images: Images) -> None:
            self.told += [image.digest for image in pictures]

        def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
            self.known.append(list(self.told))
            return super().generate(requests, images)

    model = Preparing()
    run(model, questions, ["vanilla"], tmp_path)
    asked = [[request.images[0].digest for request in batch] for batch in model.batches]
    assert [len(known) for known in model.known] == [8, 12, 12]
    assert model.told == [digest for batch in asked for digest in batch]


def test_presentations_of_a_picture_come_one_after_the_other(
    questions: Benchmark, tmp_path: Path
) -> None:
    model = Watching(batch_size=1000)
    run(model, questions, ["instability?m=5"], tmp_path)
    [batch] = model.batches
    shown = [request.images[0].digest for request in batch]
    runs = [digest for digest, before in zip(shown, ["", *shown], strict=False) if digest != before]
    assert len(runs) == len(set(runs)) == 6


@pytest.mark.parametrize("batch_size", [1, 7, 40])
def test_a_window_is_full_but_for_the_presentations_of_the_last_sample(
    batch_size: int, questions: Benchmark, tmp_path: Path
) -> None:
    model = Watching(batch_size)
    run(model, questions, ["instability?m=5"], tmp_path)
    sizes = [len(batch) for batch in model.batches]
    assert sum(sizes) == 60
    assert all(batch_size <= size < batch_size + 5 for size in sizes[:-1])


def test_many_requests_are_in_flight_at_once(questions: Benchmark, tmp_path: Path) -> None:
    model = SlowAsync(0.001, concurrency=3)
    run(model, questions, "vanilla", tmp_path)
    # The driver brings up to twice as many; the model keeps its own limit.
    assert 3 <= model.most <= 6


def test_what_waits_to_be_asked_again_leaves_its_place_to_others(
    questions: Benchmark, tmp_path: Path
) -> None:
    class Waiting(SlowAsync):
        """Of four requests three wait until all the others were answered."""

        begun = waiting = 0

        async def ask(self, request: Request, images: Images) -> Response:
            self.begun += 1
            if self.begun % 4:
                self.waiting += 1
                while len(self.asked) < 3:
                    await asyncio.sleep(0)
                self.waiting -= 1
            return await super().ask(request, images)

    model = Waiting(concurrency=2)
    run(model, questions, "vanilla", tmp_path)
    assert len(model.asked) == 12


@pytest.mark.parametrize("make_model", [Slow, SlowAsync])
def test_the_same_request_is_asked_once_and_answers_all_its_presentations(
    make_model: type[Slow], questions: Benchmark, tmp_path: Path
) -> None:
    model = make_model()
    results = run(model, questions, ["likelihood?m=9", "circular?by=likelihood"], tmp_path)
    # Nine presentations take turns with six templates; the rotations are the first of them once more.
    assert len(model.asked) == len(set(model.asked)) == 12 * 6
    exchanges = list(read_exchanges(tmp_path / "run"))
    assert len(exchanges) == 12 * (9 + 4)
    assert sum(exchange.reused for exchange in exchanges) == 12 * 7
    assert (results.runs[0].distinct_requests, results.runs[0].reused) == (12 * 6, 12 * 7)


@pytest.mark.parametrize("make_model", [Slow, SlowAsync])
def test_progress_adds_up_to_the_work(
    make_model: type[Slow], questions: Benchmark, tmp_path: Path
) -> None:
    states: list[RunProgress] = []
    model = make_model(failing=0.2)
    run(model, questions, ["circular", "likelihood"], tmp_path, progress=states.append)
    first, last = states[0], states[-1]
    assert (first.done, first.total, first.requests) == (0, 24, 0)
    assert (last.done, last.total, last.requests) == (24, 24, len(model.asked))
    failures = sum(
        exchange.response.error is not None for exchange in read_exchanges(tmp_path / "run")
    )
    assert last.failures == failures > 0
    assert all(before.requests <= after.requests for before, after in itertools.pairwise(states))


@pytest.mark.parametrize("make_model", [Slow, SlowAsync])
@pytest.mark.parametrize("protocol", ["vanilla", "circular"])
def test_progress_tells_which_questions_were_answered_before(
    make_model: type[Slow], protocol: str, questions: Benchmark, tmp_path: Path
) -> None:
    run(make_model(), questions, protocol, tmp_path, limit=8)
    states: list[RunProgress] = []
    run(make_model(), questions, protocol, tmp_path, progress=states.append)
    assert (states[-1].done, states[-1].total, states[-1].stored) == (12, 12, 8)


# --- what a model gives back -------------------------------------------------------------------------------------


def test_a_reply_of_another_number_is_the_models_fault(
    questions: Benchmark, tmp_path: Path
) -> None:
    class Short(Slow):
        def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
            return super().generate(requests, images)[:-1]

    with pytest.raises(ModelError, match="slow gave 7 responses to 8 requests"):
        run(Short(), questions, "vanilla", tmp_path)


LIKELY = Request("b", "q", Variant(), (), "loglikelihood", ("a", "b"))
GENERATED = Request("b", "q", Variant(), ())


@pytest.mark.parametrize(
    ("request_", "response", "fault"),
    [
        (GENERATED, Response(), "the model gave no text"),
        (LIKELY, Response(text="a"), "the model gave 0 scores for 2 continuations"),
        (
            LIKELY,
            Response(scores=(ContinuationScore(-1, 1),)),
            "the model gave 1 scores for 2 continuations",
        ),
        (
            LIKELY,
            Response(scores=(ContinuationScore(math.nan, 1),) * 2),
            "the model gave nan for a log-likelihood",
        ),
        (
            LIKELY,
            Response(scores=(ContinuationScore(-math.inf, 1),) * 2),
            "the model gave -inf for a log-likelihood",
        ),
        (
            LIKELY,
            Response(scores=(ContinuationScore(-1, 1), ContinuationScore(math.inf, 1))),
            "the model gave inf for a log-likelihood",
        ),
    ],
)
def test_a_response_that_answers_nothing_becomes_a_failure(
    request_: Request, response: Response, fault: str
) -> None:
    checked = check_response(request_, response)
    assert checked.error is not None
    assert (checked.error.kind, checked.error.detail) == ("model", fault)


def test_an_empty_text_is_an_answer() -> None:
    assert check_response(GENERATED, Response(text="")) == Response(text="")


def test_half_characters_of_a_reply_are_replaced_and_noted(
    questions: Benchmark, tmp_path: Path
) -> None:
    run(Scripted(lambda request: "(A) \ud83d cat"), questions, "vanilla", tmp_path)
    response = next(read_exchanges(tmp_path / "run")).response
    assert (response.text, response.notes) == ("(A) \ufffd cat", ("half characters",))


def test_nan_never_comes_into_the_journal(questions: Benchmark, tmp_path: Path) -> None:
    model = Scripted({}, scores=lambda request: [math.nan] * 4)
    results = run(model, questions, "likelihood", tmp_path)
    [row] = [
        row
        for row in results.rows
        if row.metric == "accuracy" and row.benchmark == "mine" and not row.slice
    ]
    assert (row.estimate.n, row.estimate.errors) == (0, 12)
    assert score(tmp_path / "run").rows == results.rows


@pytest.mark.parametrize("rule", ["sum", "mean", "byte", "softmax"])
def test_an_option_of_probability_zero_is_legal_and_ranks_last(
    questions: Benchmark, tmp_path: Path, rule: LikelihoodRule
) -> None:
    model = Scripted({}, scores=lambda request: [-math.inf, -1e6, -2.0, -math.inf])
    results = run(model, questions, "likelihood", tmp_path, scoring={"likelihood_rule": rule})
    [scored] = results.runs[0].benchmarks
    predictions = list(scored.predictions)
    assert {prediction.choice for prediction in predictions} == {2}
    assert all(prediction.error is None for prediction in predictions)
    shown = shown_options(predictions[0], None, ("cat", "dog", "horse", "cow"))
    assert shown[2].share == 1.0 and shown[0].share == shown[3].share == 0.0
    if rule != "softmax":
        assert shown[0].score == shown[3].score == "-inf"


def test_probability_zero_is_last_whatever_the_option_scores_without_the_picture() -> None:
    scores, without = (
        [ContinuationScore(value, 1) for value in (IMPOSSIBLE, -5.0)],
        ContinuationScore(IMPOSSIBLE, 1),
    )
    above = above_baseline(scores, [without, ContinuationScore(-1.0, 1)], "sum")
    assert above is not None and most_likely(above, "sum")[0] == 1


# --- adapted objects ---------------------------------------------------------------------------------------------


class Plain:
    """A user's own model: texts and numbers, nothing of Snellen's."""

    def generate(self, requests: Sequence[Request], images: Images) -> list[str]:
        return ["(B)" for _ in requests]

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> list[list[float]]:
        return [[-float(i != 1) for i in range(len(request.continuations))] for request in requests]


def test_any_object_with_the_two_methods_is_a_model(questions: Benchmark, tmp_path: Path) -> None:
    results = run(Plain(), questions, ["vanilla", "likelihood"], tmp_path)
    for protocol in ("vanilla", "likelihood"):
        assert results.value("accuracy", benchmark="mine", protocol=protocol) == 0.25
    assert read_manifest(tmp_path / "run").fingerprint["class"] == f"{__name__}.Plain"


def test_a_model_without_likelihoods_is_refused_before_anything_is_asked(
    questions: Benchmark, tmp_path: Path
) -> None:
    model = Scripted(lambda request: "(A)")
    with pytest.raises(
        ModelError,
        match="snellen:scripted does not provide log-likelihoods, which likelihood needs",
    ):
        run(model, questions, ["vanilla", "likelihood"], tmp_path)
    assert not (tmp_path / "run").exists()


def test_an_object_that_is_no_model_is_refused(questions: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"object is not a model: it needs generate\(requests, images\)"
    ):
        run(object(), questions, "vanilla", tmp_path)


# --- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "kind", "fault"),
    [
        ("gpt-4", ModelError, "model 'gpt-4' has no scheme; did you mean openai:gpt-4?"),
        ("snellen:", ModelError, "has no scheme"),
        ("snelen:tiny", UnknownNameError, "unknown model 'snelen'; did you mean snellen"),
        (
            "snellen:orcale",
            UnknownNameError,
            "unknown embedded model 'orcale'; did you mean oracle",
        ),
        ("snellen:biased?q=0.5", ModelError, "unknown option 'q'; known: p, seed"),
        (
            "snellen:biased?p=often",
            ModelError,
            "p='often' is not a number that is at least 0 and at most 1; write p=0.5",
        ),
        (
            "snellen:biased?p=2",
            ModelError,
            "snellen:biased.p=2: p='2' is not a number that is at least 0 and at most 1",
        ),
        ("snellen:oracle?p=1", ModelError, "unknown option 'p'"),
        ("snellen:always-a?x", ModelError, "unknown option 'x'"),
        ("snellen:uniform?sed=1", ModelError, "unknown option 'sed'; did you mean seed"),
        ("snellen:scripted?file=no.json", DataError, "cannot read replies from no.json"),
        ("replay:no/such/run", StoreError, "there is no folder no/such/run"),
    ],
)
def test_a_wrong_model_string_is_one_line(spec: str, kind: type[Exception], fault: str) -> None:
    with pytest.raises(kind, match=fault) as caught:
        load_model(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "fault"),
    [
        (
            "temperature=0,5",
            "temperature='0,5' is not a number that is at least 0; write temperature=0.5",
        ),
        (
            "temperature=-1",
            "temperature='-1' is not a number that is at least 0; write temperature=0.5, for example",
        ),
        (
            "top_p=0",
            "top_p='0' is not a number that is more than 0 and at most 1; write top_p=0.5, for example",
        ),
        (
            "top_p=1,5",
            "top_p='1,5' is not a number that is more than 0 and at most 1; write top_p=0.5, for example",
        ),
        ("seed=one", "seed='one' is not a whole number; write seed=1, for example"),
        (
            "max_tokens=0",
            "max_tokens='0' is not a whole number that is at least 1; write max_tokens=1, for example",
        ),
        ("pickle=yes", "pickle='yes' is not true or false; write pickle=true, for example"),
        ("scoring=exakt", "unknown value of scoring 'exakt'; did you mean exact?"),
        (
            "chat_template_kwargs=thinking",
            "chat_template_kwargs='thinking' is not a table in JSON; "
            'write chat_template_kwargs={"name": "value"}, for example',
        ),
        (
            'stop=["a"',
            'stop=\'["a"\' is not a text, or a list of texts in JSON; write stop=["one", "two"], for example',
        ),
    ],
)
def test_a_wrong_value_of_an_option_says_which_what_was_written_and_what_to_write(
    option: str, fault: str
) -> None:
    spec = parse_spec(f"hf:m?{option}")
    with pytest.raises(ModelError) as caught:
        read_options(spec, HfOptions)
    assert str(caught.value) == f"hf:m?{option}: {fault}"


@pytest.mark.parametrize(
    ("benchmark", "where", "kind", "fault"),
    [
        (
            "eyechart/color",
            "",
            UnknownNameError,
            "unknown benchmark 'eyechart/color'; did you mean eyechart/colour",
        ),
        ("./nothing", "", DataError, r"there is no folder ./nothing; build it with sn\.build"),
        (
            "eyechart/colour",
            "levl == 'easy'",
            DataError,
            "where: unknown fact 'levl'; did you mean level",
        ),
        (
            "eyechart/colour",
            "level == 'mild'",
            DataError,
            "no sample of eyechart/colour meets the condition where=",
        ),
        (
            "eyechart",
            "dimension == 'XX'",
            DataError,
            "no sample of eyechart meets the condition where=",
        ),
        ("eyechart/colour", "level =", DataError, "is not a condition"),
    ],
)
def test_a_wrong_benchmark_or_condition_is_one_line(
    benchmark: str, where: str, kind: type[Exception], fault: str
) -> None:
    with pytest.raises(kind, match=fault) as caught:
        find_benchmarks([benchmark], where)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_benchmark_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"is not a built benchmark; build it with sn\.build\(FILE, to="
    ):
        find_benchmarks([str(tmp_path)])


# --- which benchmarks --------------------------------------------------------------------------------------------


def names(*patterns: str, where: str = "", limit: int | None = None) -> dict[str, int]:
    uses = find_benchmarks(patterns, where, limit)
    return {use.benchmark.name: use.benchmark.count(use.selection) for use in uses}


def test_conditions_choose_benchmarks_by_facts_and_samples_by_tags(
    eyechart: Mapping[str, Benchmark], questions: Benchmark
) -> None:
    own = str(questions.folder)
    assert names("eyechart", where="dimension == 'CG'") == {
        "eyechart/place": 300,
        "eyechart/shape": 300,
    }
    assert names("eyechart/odd", where="level == 'easy'") == {"eyechart/odd": 100}
    spatial = {spec.name: 7 for spec in select("eyechart:spatial")}
    assert len(spatial) > 1
    assert names("eyechart:spatial", own, where="level == 'medium'", limit=7) == spatial
    assert names("eyechart/odd", own, where="level == 'easy' and suite == ''") == {"mine": 6}
    assert names("eyechart/od*", own, "eyechart/odd") == {"eyechart/odd": 300, "mine": 12}


def test_a_fact_that_only_some_benchmarks_have_chooses_among_those(
    eyechart: Mapping[str, Benchmark], tmp_path: Path
) -> None:
    bare = small.built(
        [{**row, "tag_level": None} for row in small.rows(2)], tmp_path / "bare", name="bare"
    )
    assert names("eyechart/odd", str(bare.folder), where="level == 'easy'") == {"eyechart/odd": 100}
    with pytest.raises(DataError, match="unknown fact 'level'"):
        find_benchmarks([str(bare.folder)], "level == 'easy'")


def test_a_table_that_has_changed_since_it_was_built_is_said_and_a_file_is_to_be_built_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    table = small.write(small.rows(3), tmp_path / "tables/birds.jsonl")
    for pattern in (str(table), os.path.relpath(table)):
        with pytest.raises(
            DataError,
            match=r"birds.jsonl is a file; build a benchmark from it with sn.build\('\S+birds.jsonl'\)",
        ):
            find_benchmarks([pattern])
    build(table)
    said: list[str] = []
    find_benchmarks(["birds"], announce=said.append)
    assert said == []
    small.write(small.rows(4), table)
    find_benchmarks(["birds"], announce=said.append)
    assert said == [
        f"{table} has changed since birds was built from it; this uses the earlier build. To use the current file, "
        "build it again: sn.build('tables/birds.jsonl')"
    ]
    shutil.rmtree(table.parent)
    find_benchmarks(["birds"], announce=said.append)
    assert len(said) == 1


def test_a_folder_of_pictures_that_has_changed_since_is_said_unless_it_has_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for place, row in enumerate(small.rows(2)):
        (pictures / f"{place}.png").write_bytes(base64.b64decode(row["image"]))
    (pictures / "nowhere.png").symlink_to(pictures / "gone.png")
    table = small.write(
        [{**row, "image": f"{place}.png"} for place, row in enumerate(small.rows(2))],
        tmp_path / "t.jsonl",
    )
    said: list[str] = []
    for most, expected in ((3, 1), (2, 0)):
        monkeypatch.setattr(source_state, "MAX_FILES", most)
        build(table, images=pictures, name="birds")
        find_benchmarks(["birds"], announce=said.append)
        assert said == []
        (pictures / "1.png").write_bytes((pictures / "0.png").read_bytes() + bytes(most))
        find_benchmarks(["birds"], announce=said.append)
        line = (
            f"{pictures} has changed since birds was built from it; this uses the earlier build. To use the current "
            "file, build it again: sn.build('t.jsonl', name='birds')"
        )
        assert said == expected * [line]
        said.clear()


def test_two_benchmarks_of_one_name_are_refused(questions: Benchmark, tmp_path: Path) -> None:
    other = small.built(small.rows(2), tmp_path / "other")
    with pytest.raises(DataError, match="are both named mine; remove one"):
        find_benchmarks([str(questions.folder), str(other.folder)])
    assert len(find_benchmarks([str(other.folder), str(other.folder / ".." / "other")])) == 1


def test_an_embedded_benchmark_is_built_when_it_is_first_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path))
    said: list[str] = []
    for _ in range(2):
        [use] = find_benchmarks(["eyechart/word"], announce=said.append)
    assert said == ["building eyechart/word"]
    assert use.benchmark.count() == 300
    manifest = use.benchmark.folder / "benchmark.json"
    manifest.write_text(manifest.read_text().replace(f'"format": {FORMAT}', '"format": 1'))
    [again] = find_benchmarks(["eyechart/word"], announce=said.append)
    assert again.benchmark.manifest.version == use.benchmark.manifest.version
    assert said[1:] == [
        "rebuilding eyechart/word: the existing build has another format, or is damaged"
    ]


# --- joining an earlier run --------------------------------------------------------------------------------------


def test_another_model_other_wording_or_other_data_do_not_mix_with_a_run(
    questions: Benchmark, tmp_path: Path
) -> None:
    run(Slow(), questions, "vanilla", tmp_path)

    class Other(Slow):
        def fingerprint(self) -> dict[str, str]:
            return {"model": "slower"}

    with pytest.raises(
        StoreError,
        match=r"a run of another model \(model was slow, is slower\); choose another name=",
    ):
        run(Other(), questions, "vanilla", tmp_path)
    with pytest.raises(StoreError, match=r"other settings \(temperature 0\.0, now 1\.0\); choose"):
        run(Slow(), questions, "vanilla", tmp_path, temperature=1.0)
    with pytest.raises(StoreError, match=r"other settings \(prefix True, now False\); choose"):
        run(Slow(), questions, "vanilla", tmp_path, prefix=False)
    changed = small.built(small.rows(11), tmp_path / "changed")
    with pytest.raises(
        StoreError,
        match=f"used version {questions.manifest.version} of mine, but the current build is",
    ):
        run(Slow(), changed, "vanilla", tmp_path)


def test_a_replayed_run_gives_the_same_scores_and_asks_nothing_new(
    questions: Benchmark, tmp_path: Path
) -> None:
    run(Slow(), questions, ["circular", "likelihood"], tmp_path)
    replay = f"replay:{tmp_path / 'run'}"
    evaluate(replay, str(questions.folder), ["circular", "likelihood"], runs=tmp_path, name="again")
    assert (tmp_path / "run" / "scores.jsonl").read_bytes() == (
        tmp_path / "again" / "scores.jsonl"
    ).read_bytes()
    results = evaluate(
        replay,
        str(questions.folder),
        "vanilla?labels=number",
        runs=tmp_path,
        name="new",
        error_budget=1,
    )
    assert all(
        row.estimate.errors == 12
        for row in results.rows
        if row.benchmark == "mine" and not row.slice
    )


@pytest.mark.parametrize("protocol", ["vanilla", "instability?m=2"])
def test_a_broken_picture_store_is_one_line(protocol: str, tmp_path: Path) -> None:
    made = small.built(small.rows(3), tmp_path / "made")
    next(path for path in (made.folder / "images").rglob("*") if path.is_file()).unlink()
    with pytest.raises(DataError, match=r"is missing from .*; build the benchmark again"):
        run(SlowAsync(), made, protocol, tmp_path)


def test_gold_history_is_asked_for_only_where_it_is_published(
    eyechart: Mapping[str, Benchmark], tmp_path: Path
) -> None:
    results = run(Slow(), eyechart["dialogue"], "dialogue?history=gold", tmp_path, limit=3)
    [hits] = [
        row
        for row in results.rows
        if row.metric == "hit_rate" and row.benchmark != "*" and not row.slice
    ]
    assert hits.estimate.n == 12
    told = [
        m.text
        for e in read_exchanges(tmp_path / "run")
        for m in e.request.messages
        if m.role == "assistant"
    ]
    replies = {reply for one in eyechart["dialogue"].histories().values() for reply in one}
    answers = [text for text in told if text not in ("The answer is", "The answer is (A) Yes.")]
    assert answers
    assert all(text.startswith("The answer is (") and text[18:-1] in replies for text in answers)


def test_a_failure_counts_under_every_presentation_that_shared_the_request(
    questions: Benchmark, tmp_path: Path
) -> None:
    broken = Scripted(lambda request: Response(error=Failure("server", "it broke")))
    with pytest.raises(ErrorBudgetError, match="12 of 12 requests failed"):
        evaluate(broken, str(questions.folder), ["vanilla", "circular"], runs=tmp_path, name="r")
    scores = score(tmp_path / "r").scores()
    assert (
        set(scores["reason"]) == {"request failed"}
        and set(scores["detail"]) == {"server"}
        and set(scores["protocol"]) == {"vanilla", "circular"}
    )
