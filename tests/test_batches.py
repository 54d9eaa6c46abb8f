"""Runs whose requests are submitted in batches, against a server that behaves as OpenAI's and Anthropic's do."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import small
import snellen as sn
from batch_servers import (
    ANSWERED,
    BAD,
    BUSY,
    EXPIRED,
    KEY,
    NO_TEMPERATURE,
    BatchService,
    Json,
    batch_service,
)
from snellen.building.benchmark import Benchmark
from snellen.fetching.user_callbacks import UserCallbacks, using_callbacks
from snellen.models.batches import AnthropicBatches, BatchLimits, OpenAIBatches
from snellen.runs import batch_driver
from snellen.runs.journal import read_exchanges

SAMPLES = 6
FORMS = ("openai", "anthropic")


@pytest.fixture
def service() -> Iterator[BatchService]:
    with batch_service() as running:
        yield running


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service answers at once; waiting a second for it would be most of the time of these tests."""
    monkeypatch.setattr(batch_driver, "FIRST_PAUSE_SECONDS", 0.05)


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    rows = small.rows(SAMPLES, pictures=SAMPLES)
    return small.built(rows, tmp_path_factory.mktemp("questions") / "built", name="questions")


def model_of(service: BatchService, form: str = "openai", options: str = "batch=true") -> str:
    path = "v1" if form == "openai" else "anthropic"
    return f"{form}:any@{service.url}/{path}?api_key_env=TEST_KEY&retries=1&{options}"


def evaluate(
    model: str, questions: Benchmark, folder: Path, **settings: object
) -> tuple[sn.Results, list[str]]:
    said: list[str] = []
    with using_callbacks(UserCallbacks(say=said.append)):
        results = sn.evaluate(
            model,
            str(questions.folder),
            settings.pop("protocols", ["vanilla"]),
            runs=folder,
            name="run",
            **settings,
        )
    return results, said


def command(service: BatchService, questions: Benchmark, folder: Path, *flags: str) -> list[str]:
    form = "openai"
    if "anthropic" in flags:
        form = "anthropic"
    own_flags = [flag for flag in flags if flag not in FORMS]
    model = model_of(service, form)
    run = [sys.executable, "-m", "snellen", "run", model, str(questions.folder), "-p", "vanilla"]
    return [*run, "--name", "run", "--runs", str(folder), *own_flags]


def finished(words: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TEST_KEY": KEY, "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, capture_output=True, text=True, env=environment, check=False)


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that has submitted a batch and waits for it."""
    environment = {**os.environ, "TEST_KEY": KEY, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        assert any("submitted batch" in line for line in process.stderr)
        yield process


def wires(folder: Path) -> list[tuple[str, str | None, tuple[str, ...]]]:
    """Key, text and notes of all replies of a run."""
    return [
        (exchange.request.key, exchange.response.text, exchange.response.notes)
        for exchange in read_exchanges(folder / "run")
    ]


# --- the same requests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_sends_the_bodies_and_keeps_the_replies_of_direct_requests(
    form: str, service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    direct, _ = evaluate(model_of(service, form, ""), questions, tmp_path / "direct")
    sent_alone = sorted(json.dumps(body) for body in service.alone)
    service.alone.clear()

    batched, _ = evaluate(model_of(service, form), questions, tmp_path / "batched")

    [batch] = service.batches.values()
    in_batch = [json.dumps(body) for _, body in batch.requests]
    assert len(service.alone) == 1
    assert sorted([*in_batch, json.dumps(service.alone[0])]) == sent_alone
    assert batched.value() == direct.value()
    kept = {(key, text) for key, text, _ in wires(tmp_path / "batched")}
    assert kept == {(key, text) for key, text, _ in wires(tmp_path / "direct")}


@pytest.mark.parametrize("form", FORMS)
def test_the_id_of_the_batch_is_noted_with_each_reply(
    form: str, service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    evaluate(model_of(service, form), questions, tmp_path)
    [batch] = service.batches
    noted = [f"sent in batch {batch}" in notes for _, _, notes in wires(tmp_path)]
    assert (noted.count(True), noted.count(False)) == (SAMPLES - 1, 1)
    notes = json.loads((tmp_path / "run" / "manifest.json").read_bytes())["notes"]
    assert any("batch endpoint" in note for note in notes)


def test_a_run_goes_on_without_batches_and_the_other_way_round(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    evaluate(model_of(service, options=""), questions, tmp_path, limit=2)
    evaluate(model_of(service), questions, tmp_path)
    evaluate(model_of(service, options=""), questions, tmp_path)
    assert set(service.paid.values()) == {1}
    assert len(service.paid) == SAMPLES


def test_a_protocol_of_several_waves_takes_a_batch_for_each(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    evaluate(model_of(service), questions, tmp_path, protocols=["circular"])
    assert set(service.paid.values()) == {1}
    direct = tmp_path / "direct"
    evaluate(model_of(service, options=""), questions, direct, protocols=["circular"])
    assert {key for key, *_ in wires(tmp_path)} == {key for key, *_ in wires(direct)}


# --- coming back ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_process_that_does_not_wait_ends_with_code_5_and_the_next_one_fetches(
    form: str, service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.held = True
    words = command(service, questions, tmp_path, "--no-wait", form)
    first = finished(words)
    second = finished(words)
    service.held = False
    third = finished(words)

    assert (first.returncode, second.returncode, third.returncode) == (5, 5, 0), third.stderr
    assert "repeat the command" in first.stderr
    assert "in_progress, 0 of 5 requests finished" in second.stderr
    assert len(service.batches) == 1
    assert set(service.paid.values()) == {1}
    assert KEY not in first.stderr + second.stderr + third.stderr + third.stdout
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_a_process_killed_while_it_waits_loses_nothing(
    form: str, service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.held = True
    words = command(service, questions, tmp_path, form)
    with started(words) as process:
        process.send_signal(signal.SIGKILL)
    service.held = False

    again = finished(words)

    assert again.returncode == 0, again.stderr
    assert len(service.batches) == 1
    assert len(service.paid) == SAMPLES
    assert set(service.paid.values()) == {1}


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_whose_id_was_never_received_is_found_and_not_paid_twice(
    form: str, service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.hangs_after_accepting = True
    words = command(service, questions, tmp_path, form)
    environment = {**os.environ, "TEST_KEY": KEY, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, env=environment)
    assert service.accepted.wait(120)
    process.send_signal(signal.SIGKILL)
    process.wait()
    service.hangs_after_accepting = False

    again = finished(words)

    assert again.returncode == 0, again.stderr
    assert "found batch" in again.stderr
    assert len(service.batches) == 1
    assert set(service.paid.values()) == {1}


def test_a_service_that_lists_no_batches_is_not_sent_the_same_again(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.held = True
    service.lists_batches = False
    with pytest.raises(sn.PendingBatchesError):
        evaluate(model_of(service), questions, tmp_path, wait=False)
    ledger = tmp_path / "run" / "batches.jsonl"
    lines = ledger.read_text().splitlines()
    ledger.write_text(lines[0] + "\n")  # as if killed before the id was written
    with pytest.raises(sn.ModelError, match="remove the last line of"):
        evaluate(model_of(service), questions, tmp_path)
    assert len(service.batches) == 1


def test_anothers_batch_of_the_same_size_is_told_by_its_results(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.held = True
    model = model_of(service, "anthropic")
    with pytest.raises(sn.PendingBatchesError):
        evaluate(model, questions, tmp_path, wait=False)
    ledger = tmp_path / "run" / "batches.jsonl"
    ledger.write_text(ledger.read_text().splitlines()[0] + "\n")
    [other] = service.batches.values()
    other.requests = [(f"other-{number}", body) for number, (_, body) in enumerate(other.requests)]
    service.held = False
    evaluate(model, questions, tmp_path)
    assert len(wires(tmp_path)) == SAMPLES
    own = service.batches["msgbatch_2"]
    assert len(own.requests) == SAMPLES - 2  # one of the five was sent alone


def test_the_batch_of_another_run_is_not_taken_for_a_submission_that_failed(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.held = True
    model = model_of(service, "anthropic")
    with pytest.raises(sn.PendingBatchesError):
        evaluate(model, questions, tmp_path / "first", wait=False)
    service.faults_of_creation = 1
    with pytest.raises(sn.PendingBatchesError) as pending:
        evaluate(model, questions, tmp_path / "second", wait=False)
    assert pending.value.batches == ("msgbatch_2",)


def test_of_several_batches_of_the_same_size_the_one_with_the_results_is_found(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.held = True
    model = model_of(service, "anthropic")
    with pytest.raises(sn.PendingBatchesError):
        evaluate(model, questions, tmp_path, wait=False)
    ledger = tmp_path / "run" / "batches.jsonl"
    ledger.write_text(ledger.read_text().splitlines()[0] + "\n")
    [own] = service.batches.values()
    strange = [(f"other-{number}", body) for number, (_, body) in enumerate(own.requests)]
    service.batches = {}
    service.accept(strange, {}, "other_")
    service.batches[own.id] = own
    service.held = False
    evaluate(model, questions, tmp_path)
    assert list(service.batches) == ["other_1", own.id]
    assert len(wires(tmp_path)) == SAMPLES


def test_results_that_cannot_be_fetched_now_are_asked_for_again(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.faults_of_results = 2
    _, said = evaluate(model_of(service), questions, tmp_path)
    assert any("Try again.; trying again" in line for line in said)
    assert len(wires(tmp_path)) == SAMPLES


def test_interrupting_leaves_the_batch_and_says_how_to_come_back(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.held = True
    with started(command(service, questions, tmp_path)) as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        rest = process.stderr.read()
    assert process.returncode == 128 + signal.SIGINT
    assert "snellen batches" in rest
    assert not service.batches["batch_1"].is_cancelled


def test_batches_of_a_run_are_shown_and_cancelled(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.held = True
    words = command(service, questions, tmp_path, "--no-wait")
    finished(words)
    verb = [sys.executable, "-m", "snellen", "batches", str(tmp_path / "run")]
    shown = finished(verb)
    cancelled = finished([*verb, "--cancel"])
    after = finished(words)
    assert "batch_1: in_progress, 0 of 5 requests finished" in shown.stdout
    assert "batch_1: cancelled" in cancelled.stdout
    assert after.returncode == 3  # the error budget
    assert "the batch was cancelled" in after.stderr
    assert "no batch is open" in finished(verb).stdout

    service.held = False
    assert finished(command(service, questions, tmp_path)).returncode == 0
    assert len(service.paid) == SAMPLES


def test_cancelling_leaves_out_the_batches_that_have_ended(
    service: BatchService, questions: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenAIBatches, "limits", BatchLimits(3, 200_000_000))
    service.held = True
    with pytest.raises(sn.PendingBatchesError):
        evaluate(model_of(service), questions, tmp_path, wait=False)
    service.held = False
    service.carry_out(service.batches["batch_1"])
    service.held = True
    verb = [sys.executable, "-m", "snellen", "batches", str(tmp_path / "run"), "--cancel"]
    shown = finished(verb).stdout
    assert "batch_1: completed, " in shown
    assert "batch_2: cancelled, " in shown


def test_a_larger_limit_takes_what_an_earlier_batch_answered(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.held = True
    with pytest.raises(sn.PendingBatchesError) as pending:
        evaluate(model_of(service), questions, tmp_path, wait=False)
    assert pending.value.batches == ("batch_1",)
    service.held = False
    evaluate(model_of(service), questions, tmp_path, limit=2)
    assert len(wires(tmp_path)) == 2
    evaluate(model_of(service), questions, tmp_path)
    assert set(service.paid.values()) == {1}
    assert len(service.paid) == SAMPLES


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fate", [BUSY, EXPIRED])
def test_requests_that_fail_for_a_passing_reason_are_submitted_again(
    fate: str, form: str, service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    def fail_once(body: Json, times: int) -> str:
        return fate if times == 0 and body not in service.alone else ANSWERED

    service.fate = fail_once
    results, _ = evaluate(model_of(service, form), questions, tmp_path)
    assert len(service.batches) == 2
    assert len(service.paid) == SAMPLES
    assert results.value() is not None


@pytest.mark.parametrize("form", FORMS)
def test_requests_that_are_refused_are_named_and_the_others_kept(
    form: str, service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    refused: list[str] = []

    def refuse_two(body: Json, times: int) -> str:
        text = json.dumps(body["messages"])
        if service.alone and len(refused) < 2 and text not in refused and body not in service.alone:
            refused.append(text)
        return BAD if text in refused else ANSWERED

    service.fate = refuse_two
    with pytest.raises(sn.ErrorBudgetError, match=r"2 of 6 requests failed.*HTTP 400"):
        evaluate(model_of(service, form), questions, tmp_path)
    assert len(service.batches) == 1
    assert len(service.paid) == SAMPLES - 2


def test_a_failure_that_stays_ends_after_three_batches(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.fate = lambda body, times: BUSY
    with pytest.raises(sn.ErrorBudgetError, match="5 of 6 requests failed") as failure:
        evaluate(model_of(service), questions, tmp_path)
    assert len(service.batches) == 3
    assert KEY not in str(failure.value)


def test_a_setting_that_the_model_refuses_is_found_before_the_batch(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.fate = lambda body, times: NO_TEMPERATURE
    evaluate(model_of(service), questions, tmp_path)
    [batch] = service.batches.values()
    assert not any("temperature" in body for _, body in batch.requests)
    left_out = "temperature was not sent: the server rejects it"
    assert all(left_out in notes for _, _, notes in wires(tmp_path))


def test_a_full_queue_leads_to_smaller_batches(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.most_requests = 2
    service.refusal = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}
    _, said = evaluate(model_of(service), questions, tmp_path)
    sizes = [len(batch.requests) for batch in service.batches.values()]
    assert sizes == [5, 2, 2, 1]
    assert set(service.paid.values()) == {1}
    assert any("submitting at most 2 requests at once" in line for line in said)


def test_requests_of_a_refused_batch_count_once_in_the_budget(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.most_requests = 2
    service.refusal = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}
    evaluate(model_of(service), questions, tmp_path, max_requests=SAMPLES)
    assert len(wires(tmp_path)) == SAMPLES


def test_a_batch_that_is_refused_as_a_whole_ends_the_run(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.most_requests = 1
    service.refusal = {"code": "invalid_json_line", "message": "not parseable", "line": 3}
    with pytest.raises(sn.ModelError, match="batch_1 was refused: line 3: not parseable"):
        evaluate(model_of(service), questions, tmp_path)
    service.refusal = None
    evaluate(model_of(service), questions, tmp_path)
    assert set(service.paid.values()) == {1}


@pytest.mark.parametrize(
    ("form", "endpoint"), [("openai", OpenAIBatches), ("anthropic", AnthropicBatches)]
)
def test_limits_of_a_file_are_respected(
    form: str,
    endpoint: type,
    service: BatchService,
    questions: Benchmark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint, "limits", BatchLimits(2, 10_000_000))
    evaluate(model_of(service, form), questions, tmp_path / "count")
    assert [len(batch.requests) for batch in service.batches.values()] == [2, 2, 1]

    [largest] = [max(len(json.dumps(body)) for _, body in service.batches.popitem()[1].requests)]
    service.batches.clear()
    monkeypatch.setattr(endpoint, "limits", BatchLimits(100, 2 * largest + 2 * 1024))
    evaluate(model_of(service, form), questions, tmp_path / "size")
    assert max(len(batch.requests) for batch in service.batches.values()) < SAMPLES - 1
    assert sum(len(batch.requests) for batch in service.batches.values()) == SAMPLES - 1


def test_published_limits() -> None:
    assert OpenAIBatches.limits == BatchLimits(50_000, 200_000_000)
    assert AnthropicBatches.limits == BatchLimits(100_000, 256_000_000)


# --- costs ------------------------------------------------------------------------------------------------------------


def test_costs_are_half_in_the_forecast_the_line_and_the_table(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    price = ("--price", "2000,1000")
    direct = [word.replace("&batch=true", "") for word in command(service, questions, tmp_path)]
    full = finished([*direct, *price, "--dry-run"]).stdout
    half = finished([*command(service, questions, tmp_path), *price, "--dry-run"]).stdout
    full_cost = float(full.split(" at the price given")[0].split()[-1].replace(",", ""))
    half_cost = float(half.split(" at half the price given")[0].split()[-1].replace(",", ""))
    assert half_cost == pytest.approx(full_cost / 2, rel=0.01)
    assert "up to 24 hours" in half

    _, said = evaluate(model_of(service), questions, tmp_path, price=(2000.0, 1000.0))
    assert any("at half the price given" in line and "24 hours" in line for line in said)
    scored = sn.score(tmp_path / "run").runs[0]
    [cost] = scored.costs
    assert cost.usage is not None
    assert cost.usage.batch_prompt_tokens == 5 * 1000
    # One direct request and five of half the price: 3.5 x (1,000 x 2,000 + 10 x 1,000) / 1,000,000.
    from snellen.runs.drivers import cost_of

    assert cost_of(cost.usage, (2000.0, 1000.0)) == pytest.approx(3.5 * 2.01)


def test_requests_in_open_batches_are_not_forecast_again(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.held = True
    words = command(service, questions, tmp_path)
    finished([*words, "--no-wait"])
    forecast = finished([*words, "--dry-run"]).stdout
    assert "0 requests to send" in forecast
    assert "5 are in batches that were submitted earlier" in forecast


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_direct_run_does_not_pay_for_what_is_in_a_batch(
    service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    service.held = True
    with pytest.raises(sn.PendingBatchesError):
        evaluate(model_of(service), questions, tmp_path, wait=False)
    with pytest.raises(sn.StoreError, match="add batch=true"):
        evaluate(model_of(service, options=""), questions, tmp_path)
    assert len(service.alone) == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"until": "accuracy ±2"}, "remove batch=true"),
        ({"max_cost": 1.0, "price": (1.0, 1.0)}, "max_cost cannot stop a batch"),
        ({"max_time": 5.0}, "use wait=False"),
        ({"protocols": ["likelihood"]}, "log-likelihoods"),
        ({"judge": "SELF"}, "a judge is asked directly"),
    ],
)
def test_what_batches_cannot_do_is_refused_before_anything_is_sent(
    settings: dict[str, object],
    words: str,
    service: BatchService,
    questions: Benchmark,
    tmp_path: Path,
) -> None:
    model = model_of(service)
    if settings.get("judge") == "SELF":
        settings = {"judge": model}
    with pytest.raises(sn.SnellenError, match=words):
        evaluate(model, questions, tmp_path, **settings)
    assert not service.batches


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("gemini:any?batch=true", "unknown option 'batch'"),
        ("azure:any@https://x.openai.azure.com?batch=true", "openai: and anthropic:"),
        ("openai:any@http://a/v1,http://b/v1?batch=true", "needs one server"),
        ("openai:any@http://a/v1?batch=perhaps", "true or false"),
    ],
)
def test_models_without_batches(model: str, words: str) -> None:
    with pytest.raises(sn.ModelError, match=words):
        sn.load_model(model)


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_example_of_the_page_runs(
    service: BatchService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    service.held = True
    page = (Path(__file__).parents[1] / "docs" / "batches.md").read_text("utf-8")
    [example] = re.findall(r"^```py\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    code = example.replace("openai:gpt-4o-mini?batch=true", model_of(service))
    exec(compile(code, "batches.md", "exec"), {})
    assert "come back later for ('batch_1',)" in capsys.readouterr().out
    service.held = False
    exec(compile(code.replace("wait=False", "wait=True"), "batches.md", "exec"), {})
    assert set(service.paid.values()) == {1}


# --- dialogues and several models -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_dialogue_takes_a_batch_for_each_round_and_asks_what_a_direct_run_asks(
    form: str, service: BatchService, tmp_path: Path
) -> None:
    dialogue = sn.load_benchmark("eyechart/dialogue")
    rounds = max(len(sample.turns) for sample in dialogue.benchmark.samples())
    runs = {}
    for name, options in (("direct", ""), ("batched", "batch=true")):
        model = model_of(service, form, options)
        runs[name] = sn.evaluate(
            model, "eyechart/dialogue", ["dialogue"], limit=3, runs=tmp_path / name, name="run"
        )
        if name == "direct":
            service.alone.clear()
    assert runs["batched"].value() == runs["direct"].value()
    keys = {name: {key for key, *_ in wires(tmp_path / name)} for name in runs}
    assert keys["batched"] == keys["direct"]
    assert len(service.batches) == rounds  # what was replied in one round is told in the next


@pytest.mark.parametrize("batched", ["all", "evaluated", "role"])
def test_several_models_of_a_run_are_asked_in_batches_where_their_strings_say_so(
    batched: str, service: BatchService, questions: Benchmark, tmp_path: Path
) -> None:
    def model(is_batched: bool, name: str) -> str:
        return model_of(service, options="batch=true" if is_batched else "").replace(
            "any@", f"{name}@"
        )

    results, _ = evaluate(
        model(batched != "role", "evaluated"),
        questions,
        tmp_path,
        protocols=["reasoning"],
        roles=dict.fromkeys(("reasoner", "questioner"), model(batched != "evaluated", "helper")),
    )
    direct, _ = evaluate(
        model(False, "evaluated"),
        questions,
        tmp_path / "direct",
        protocols=["reasoning"],
        roles=dict.fromkeys(("reasoner", "questioner"), model(False, "helper")),
    )
    assert results.value() == direct.value()
    assert {key for key, *_ in wires(tmp_path)} == {key for key, *_ in wires(tmp_path / "direct")}
    submitted = {body["model"] for batch in service.batches.values() for _, body in batch.requests}
    expected = {"all": {"evaluated", "helper"}, "evaluated": {"evaluated"}, "role": {"helper"}}
    assert submitted == expected[batched]
