"""What a run may take, what it would take, what it took, and answers that are kept across runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import Struct

import snellen as sn
from servers import Server, malformed, start_server
from small import cell, picture, rows
from snellen import registry
from snellen.building.benchmark import Benchmark
from snellen.callers import called_from_command_line
from snellen.cli import cli, main
from snellen.errors import SpentBudgetError
from snellen.plugin_api import Declaration, PromptRenderer, RequestGenerator
from snellen.records import Failure, Request, Response, Usage, Variant
from snellen.runs.drivers import RunBudget
from snellen.runs.earlier_answers import AnswerCache
from snellen.runs.forecast import Amount, forecast_requests
from snellen.runs.journal import read_exchanges
from snellen.runs.plan import RunPlan, plan_run
from snellen.runs.spec import ExecutionSpec, run_spec
from snellen.scoring.request_costs import usage_text


class Counting:
    """Counts how often it is asked, and what that takes."""

    kinds, batch_size = frozenset({"generate"}), 4
    fingerprint = "counting"

    def __init__(self, name: str = "counting", reply: str = "(A)") -> None:
        self.name, self.reply, self.asked = name, reply, 0

    def generate(self, requests: list[Request], images: Any) -> list[Response]:
        self.asked += len(requests)
        return [Response(text=self.reply, usage=Usage(1000, 10, 400, 5)) for _ in requests]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with start_server() as running:
        yield running


def answered(folder: str) -> int:
    return sum(not one.reused for one in read_exchanges(Path(folder)))


def test_a_run_stops_at_its_requests_and_the_same_call_goes_on(questions: Benchmark) -> None:
    model, calls = Counting(), 0
    while True:
        calls += 1
        try:
            results = sn.evaluate(
                model, str(questions.folder), "circular", limit=9, name="run", max_requests=7
            )
        except SpentBudgetError as spent:
            assert "stopped at max_requests=7" in str(
                spent
            ) and "repeat the call to continue" in str(spent)
            assert model.asked == answered("runs/run") == 7 * calls
            continue
        break
    whole = sn.evaluate(Counting(), str(questions.folder), "circular", limit=9, name="whole")
    assert calls == -(-answered("runs/whole") // 7) > 1 and results.rows == whole.rows


def test_requests_on_their_way_to_a_server_are_kept_when_the_budget_is_spent(
    server: Server, questions: Benchmark
) -> None:
    before = server.stats()["requests"]
    with pytest.raises(SpentBudgetError):
        sn.evaluate(
            f"openai:any@{server.url}",
            str(questions.folder),
            "circular",
            name="run",
            max_requests=10,
        )
    assert server.stats()["requests"] - before == answered("runs/run") == 10


def test_workers_share_a_budget() -> None:
    shares = [RunBudget(ExecutionSpec(max_requests=7, workers=3), worker) for worker in range(3)]
    assert [sum(share.allow_request() for _ in range(9)) for share in shares] == [3, 2, 2]


def test_money_counts_for_what_is_on_its_way_and_time_ends_a_run() -> None:
    now = 0.0
    budget = RunBudget(
        ExecutionSpec(max_cost=1.0, price=(100.0, 0.0), max_time=60), clock=lambda: now
    )
    assert budget.allow_request()
    budget.record_response(Response(text="", usage=Usage(1000, 0)))  # a tenth
    assert (
        sum(budget.allow_request() for _ in range(20)) == 9 and budget.exhausted_by == "max_cost=1"
    )
    budget = RunBudget(ExecutionSpec(max_time=60), clock=lambda: now)
    assert budget.allow_request()
    now = 60.0
    assert not budget.allow_request() and budget.exhausted_by == "max_time=60"


def test_a_budget_of_money_ends_a_run_whose_tokens_nobody_counts(questions: Benchmark) -> None:
    reply = '{"choices": [{"message": {"role": "assistant", "content": "(A)"}, "finish_reason": "stop"}]}'
    with start_server(script=[malformed(reply, times=1000)]) as server:
        model = f"openai:any@{server.url}?concurrency=2"
        with pytest.raises(
            SpentBudgetError,
            match="max_cost=1, which cannot be enforced because the replies have no token counts",
        ):
            sn.evaluate(
                model, str(questions.folder), "circular", name="run", max_cost=1, price=(1, 1)
            )
        assert server.stats()["requests"] == answered("runs/run") <= 2


def test_before_a_price_is_known_no_more_are_paid_than_may_be_in_flight(
    questions: Benchmark,
) -> None:
    with start_server(latency=0.05) as server:
        model = f"openai:any@{server.url}?concurrency=3"
        with pytest.raises(SpentBudgetError, match="3 requests were answered in this session"):
            sn.evaluate(
                model, str(questions.folder), "circular", name="run", max_cost=1e-6, price=(1, 1)
            )
        assert server.stats()["requests"] == answered("runs/run") == 3


def test_an_answer_without_counts_costs_what_the_others_do() -> None:
    budget = RunBudget(ExecutionSpec(max_cost=1.0, price=(100.0, 0.0)))
    for usage in (Usage(1000, 0), None, Usage()):
        assert budget.allow_request()
        budget.record_response(Response(text="", usage=usage))
    assert (
        sum(budget.allow_request() for _ in range(20)) == 7 and budget.exhausted_by == "max_cost=1"
    )


def test_a_spent_budget_of_money_says_what_was_paid(questions: Benchmark) -> None:
    with pytest.raises(
        SpentBudgetError,
        match=r"0.0105: 10 requests were answered in this session at a cost of 0.01",
    ):
        sn.evaluate(
            Counting(),
            str(questions.folder),
            "circular",
            name="run",
            max_cost=0.0105,
            price=(1, 0),
            window=1,
        )


def test_a_budget_of_money_without_a_price_is_refused(questions: Benchmark) -> None:
    with pytest.raises(sn.DataError, match="set price"):
        sn.evaluate(Counting(), str(questions.folder), max_cost=1)


def test_a_spent_budget_is_exit_code_4_and_one_line(
    server: Server, questions: Benchmark, capfd: pytest.CaptureFixture[str]
) -> None:
    command = [
        "run",
        f"openai:any@{server.url}",
        str(questions.folder),
        "--name",
        "r",
        "--max-requests",
        "3",
    ]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 4 and capfd.readouterr().err.strip().splitlines()[-1].endswith(
        "to score what is there"
    )


def test_a_command_that_a_message_names_can_be_given_as_it_stands(questions: Benchmark) -> None:
    with called_from_command_line(), pytest.raises(SpentBudgetError) as spent:
        sn.evaluate(Counting(), str(questions.folder), name="it's $HOME (2)", max_requests=4)
    [command] = re.findall(r"`(snellen score .*)`", str(spent.value))
    program, *words = shlex.split(command)
    assert (program, words) == ("snellen", ["score", "runs/it's $HOME (2)"])
    assert CliRunner().invoke(cli, words, catch_exceptions=False).exit_code == 0


@pytest.mark.parametrize(
    ("budget", "latency"),
    [
        (("--max-requests", "5"), 0.0),
        (("--price", "1000,1000", "--max-cost", "0.2"), 0.0),
        (("--max-time", "0.2"), 0.02),
    ],
)
def test_a_run_that_a_budget_stops_again_and_again_ends_as_if_it_had_none(
    budget: tuple[str, ...], latency: float, questions: Benchmark, capfd: pytest.CaptureFixture[str]
) -> None:
    with start_server(latency=latency) as server:
        command = [
            "run",
            f"openai:any@{server.url}?concurrency=1",
            str(questions.folder),
            "-p",
            "circular?all_passes=true",
        ]
        codes = []
        while not codes or codes[-1] == 4:
            with pytest.raises(SystemExit) as ended:
                main([*command, "--name", "parts", *budget])
            codes.append(ended.value.code or 0)
            err = capfd.readouterr().err
            assert codes[-1] == 0 or (f"stopped at {budget[-2]}" in err and "Traceback" not in err)
        assert codes[-1] == 0 and len(codes) > 2
        asked = [bytes(seen.body) for seen in server.seen()]
        assert len(asked) == len(set(asked)) == answered("runs/parts") == 48
        with pytest.raises(SystemExit):
            main([*command, "--name", "whole"])
    parts, whole = (sn.load_run(f"runs/{name}") for name in ("parts", "whole"))
    assert [row.estimate for row in parts.rows] == [row.estimate for row in whole.rows]


@pytest.mark.parametrize(
    "protocol", ["vanilla", "circular", "circular?all_passes=true", "instability?m=3"]
)
def test_what_is_forecast_holds_what_is_asked(protocol: str, questions: Benchmark) -> None:
    spec = run_spec(
        {
            "models": ("counting",),
            "benchmarks": (str(questions.folder),),
            "protocols": (protocol,),
            "limit": 8,
            "name": "r",
        }
    )
    before = forecast_requests(plan_run(spec))
    sn.evaluate(Counting(), str(questions.folder), protocol, limit=8, name="r")
    asked = [one for one in read_exchanges(Path("runs/r")) if not one.reused]
    assert before.least.requests <= len(asked) <= before.most.requests
    assert (before.least == before.most) == (protocol != "circular")
    if before.least == before.most:
        assert before.least.images == sum(len(one.request.images) for one in asked)
    after = forecast_requests(plan_run(spec))
    assert after.answered == len({one.request.key for one in asked})
    assert after.most.requests <= before.most.requests - after.answered


@pytest.fixture
def sized(make: Callable[..., Benchmark]) -> Benchmark:
    """Three questions not all in ASCII, two about an image of 300 x 500 and one about an image of 2000 x 2000."""
    sizes = [(2000, 2000), (300, 500), (300, 500)]
    return make(
        [
            {
                **row,
                "question": f"猫 or 犬, number {i}?",
                "image": b64encode(picture(i, size=sizes[i])).decode(),
            }
            for i, row in enumerate(rows(3, pictures=3))
        ]
    )


def tokens_of(request: Request) -> int:
    """As `METHOD` and the documentation say, by hand: 300 x 500 / 750 = 200 for an image, 1,600 for a large one."""
    texts = [*(message.text for message in request.messages), *request.continuations]
    plain = [sum(ord(letter) < 128 for letter in text) for text in texts]
    words = sum(-(-n // 4) + len(text) - n for n, text in zip(plain, texts, strict=True))
    return words + (1600 if request.sample_id == "q000" else 200) + 16


def planned(benchmark: Benchmark, protocol: str) -> RunPlan:
    given = {
        "models": ("counting",),
        "benchmarks": (str(benchmark.folder),),
        "protocols": (protocol,),
        "name": "r",
    }
    return plan_run(run_spec(given))


@pytest.mark.parametrize(
    "protocol", ["vanilla", "likelihood", "circular?all_passes=true", "instability?m=3"]
)
def test_a_forecast_counts_tokens_as_it_says_it_does(protocol: str, sized: Benchmark) -> None:
    before = forecast_requests(planned(sized, protocol))
    model = sn.Scripted(
        lambda request: "(A)", lambda request: [-1.0] * len(request.continuations), name="counting"
    )
    sn.evaluate(model, str(sized.folder), protocol, name="r")
    asked = [one.request for one in read_exchanges(Path("runs/r")) if not one.reused]
    written = (
        0 if protocol == "likelihood" else sum(request.decoding.max_new_tokens for request in asked)
    )
    amount = Amount(len(asked), len(asked), sum(map(tokens_of, asked)), written)
    assert (before.model, before.folder, before.answered) == ("counting", "runs/r", 0)
    assert (before.least, before.most) == (amount, amount)
    assert forecast_requests(planned(sized, protocol)).most == Amount()


def test_a_forecast_says_how_far_it_reaches_and_what_was_answered(sized: Benchmark) -> None:
    """Circular asks a question once where the first pass goes wrong, and in all four orders where each is right."""
    before = forecast_requests(planned(sized, "circular"))
    sn.evaluate(Counting(), str(sized.folder), "circular?all_passes=true", name="whole")
    passes = [one.request for one in read_exchanges(Path("runs/whole"))]
    every, first = (
        sum(map(tokens_of, some)) for some in (passes, [r for r in passes if r.variant.test == 0])
    )
    reply = passes[0].decoding.max_new_tokens
    costs = [(read * 10 + calls * reply * 100) / 1e6 for calls, read in ((3, first), (12, every))]
    assert list(before.lines((10.0, 100.0))) == [
        "counting: 3 to 12 requests to send, in runs/r",
        f"  3 to 12 images to send; about {first:,} to {every:,} input tokens, at most {12 * reply:,} output tokens",
        f"  {costs[0]:,.3g} to {costs[1]:,.3g} at the price given",
        "  token counts are estimates: one token for four letters, width x height / 750 for an image (at most 1,600), and "
        "the maximum length for a reply; models count differently, especially for images",
    ]
    sn.evaluate(Counting(), str(sized.folder), limit=2, name="r")
    lines = list(forecast_requests(planned(sized, "vanilla")).lines(None))
    assert lines[0].startswith("counting: 1 requests to send") and "price" not in " ".join(lines)
    assert lines[1] == "  2 were answered earlier and are not sent again"


def test_a_failed_request_is_asked_again_and_so_forecast(sized: Benchmark) -> None:
    failing = sn.Scripted(
        lambda request: Response(error=Failure("server", "gone")), name="counting"
    )
    sn.evaluate(failing, str(sized.folder), name="r", error_budget=1.0)
    after = forecast_requests(planned(sized, "vanilla"))
    assert (after.answered, after.least.requests) == (0, 3)


class AgainIfFirst(Struct, frozen=True):
    """Asks in words where the first option is more likely than the second, and once more where words came."""

    gold_history, method, label, declaration = False, "generation", "again", Declaration()

    def applies(self, sample: sn.Sample) -> bool:
        return True

    def ask(
        self, sample: sn.Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        if sample.options:
            template = prompt.template_ids("likelihood")[0]
            [likelihood] = yield [prompt.loglikelihood(sample, Variant(template=template))]
            first, second, *_ = likelihood.scores or ()
            if first.sum / first.bytes <= second.sum / second.bytes:
                return
        for test, template in enumerate(prompt.template_ids("generation")[:2]):
            [reply] = yield [prompt.generate(sample, Variant(test=test, template=template))]
            if not reply.text:
                return


def test_a_forecast_holds_for_a_protocol_of_one_s_own_that_reads_scores_and_replies(
    sized: Benchmark, make: Callable[..., Benchmark], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a question with options: likelihoods and one request in words at least, two at most; else one or two."""
    monkeypatch.setitem(registry._NAMES, "protocols", dict(registry._NAMES["protocols"]))
    registry.register("protocols", "again", AgainIfFirst)
    of_choices = forecast_requests(planned(sized, "again"))
    assert (of_choices.least.requests, of_choices.most.requests) == (6, 9)
    question = {"id": "q", "question": "What is it?", "answer": "cat", "image": cell(0)}
    of_words = forecast_requests(
        planned(make([question], name="words", formulation="text"), "again")
    )
    assert (of_words.least.requests, of_words.most.requests) == (1, 2)


def test_a_dry_run_asks_nothing_and_says_the_price(questions: Benchmark) -> None:
    command = [
        "run",
        "openai:none@http://127.0.0.1:9/v1",
        str(questions.folder),
        "--dry-run",
        "--price",
        "1,2",
    ]
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert (
        done.exit_code == 0
        and "at the price given" in done.output
        and "token counts are estimates" in done.output
    )
    assert not Path("runs").exists()


def test_the_tokens_of_a_run_are_added_up_by_kind_and_priced(questions: Benchmark) -> None:
    lines: list[str] = []
    results = sn.evaluate(
        Counting(),
        str(questions.folder),
        limit=5,
        name="r",
        price=(10.0, 100.0),
        announce=lines.append,
    )
    [use] = results.runs[0].roles
    assert use.usage == Usage(5000, 50, 2000, 25)
    assert (
        usage_text(use.usage)
        == "5,000 input tokens (2,000 of them cached), 50 output tokens (25 of them reasoning)"
    )
    price = (
        "0.055 at the price given, which counts cached tokens as others (a third price is theirs)"
    )
    assert any(line.endswith(f"as counted by the model); {price}") for line in lines)
    assert sn.load_run("runs/r").runs[0].roles == (use,)


def test_answers_of_another_run_are_taken_from_the_cache_and_counted(questions: Benchmark) -> None:
    first, again, other = Counting(), Counting(), Counting("other")
    sn.evaluate(first, str(questions.folder), "vanilla", limit=6, name="one", cache="answers")
    results = sn.evaluate(
        again, str(questions.folder), "circular", limit=6, name="two", cache="answers"
    )
    [use] = results.runs[0].roles
    assert (
        use.from_cache == 6
        and use.answered == again.asked > 0
        and "6 more from the cache" in use.sentence()
    )
    plain = sn.evaluate(Counting(), str(questions.folder), "circular", limit=6, name="plain")
    assert plain.rows == results.rows
    sn.evaluate(other, str(questions.folder), "vanilla", limit=6, name="other", cache="answers")
    assert other.asked == first.asked == 6


def test_a_reply_drawn_without_a_seed_is_not_cached(questions: Benchmark) -> None:
    asked = []
    for seed in (0, 0, 3, 3):
        model = Counting()
        name = f"run{len(asked)}"
        sn.evaluate(
            model,
            str(questions.folder),
            limit=4,
            name=name,
            temperature=1.0,
            seed=seed,
            cache="answers",
        )
        asked.append(model.asked)
    assert asked == [4, 4, 4, 0]


WRITER = """
import sys
from pathlib import Path
from snellen.records import Decoding, Exchange, Request, Response, Variant
from snellen.runs.earlier_answers import AnswerCache
cache = AnswerCache(Path("answers"), {"": "me"})
for number in range(300):
    request = Request("b", "s", Variant(), (), continuations=(str(number),), decoding=Decoding())
    cache.keep([Exchange("vanilla", request, Response(text=str(number)))])
    assert cache.find(request).text == str(number)
cache.close()
"""


def test_two_processes_write_into_one_cache() -> None:
    running = [subprocess.Popen([sys.executable, "-c", WRITER]) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    cache = AnswerCache(Path("answers"), {"": "me"})
    assert cache._file.execute("PRAGMA synchronous").fetchone() == (1,), (
        "the journals are safe, it need not be"
    )
    found = [
        cache.find(Request("other", "t", Variant(), (), continuations=(str(number),)))
        for number in range(300)
    ]
    cache.close()
    assert [response and response.text for response in found] == [
        str(number) for number in range(300)
    ]


OPENER = """
import sys
from pathlib import Path
from snellen.runs.earlier_answers import AnswerCache
for folder in sys.stdin:
    AnswerCache(Path(folder.strip()), {}).close()
    print("opened", flush=True)
"""


def test_processes_that_open_a_new_cache_at_the_same_moment() -> None:
    """SQLite refuses one that changes the journal's mode beside another at once, whatever the timeout is."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for number in range(60):
        for process in running:
            assert process.stdin
            process.stdin.write(f"answers{number}\n")
            process.stdin.flush()
        for process in running:
            assert process.stdout
            assert process.stdout.readline() == "opened\n", f"in round {number}"
    for process in running:
        process.communicate()


def test_a_file_that_is_no_cache_is_refused_in_a_line(questions: Benchmark) -> None:
    Path("answers").mkdir()
    Path("answers/answers.sqlite").write_text("not a database" * 100)
    with pytest.raises(sn.StoreError, match="choose another folder with cache="):
        sn.evaluate(Counting(), str(questions.folder), limit=2, name="r", cache="answers")
