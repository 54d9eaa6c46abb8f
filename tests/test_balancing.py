"""Several servers of one model: each gets its part of the requests, and one that is gone is not missed."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

import snellen as sn
from servers import Server, broken, slow, start_server
from snellen.building.benchmark import Benchmark
from snellen.errors import ModelError
from snellen.fetching.user_callbacks import UserCallbacks, using_callbacks
from snellen.models.balancing import BalancedServer, BalancedServers
from snellen.models.client import Clock
from snellen.models.identity import identifying_string
from snellen.models.loading import load_model
from snellen.models.openai import OpenAIModel
from snellen.models.openai_places import OpenAIOptions, Place
from snellen.records import Request, Response
from snellen.runs.journal import read_exchanges
from snellen.runs.run_progress import RunProgress
from test_openai import Shelf, Waits, ask, question

PROTOCOLS = ("circular", "instability?m=3")
TIMERS = Path("/proc/net/tcp")


class Time:
    """Seconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def model_at(*urls: str, clock: Clock | None = None, **options: object) -> OpenAIModel:
    chosen = OpenAIOptions(**options)  # type: ignore[arg-type]
    return OpenAIModel(
        f"openai:any@{','.join(urls)}",
        "any",
        Place(urls),
        chosen,
        clock or Clock(Waits(), lambda: 0.0),
    )


def texts(responses: list[Response]) -> list[str]:
    assert not [response.error for response in responses if response.error]
    return [str(response.text) for response in responses]


def questions_of(count: int) -> list[Request]:
    return [question(f"{number}: which? (A) one; (B) two.") for number in range(count)]


def requests_to(server: Server) -> int:
    return server.stats()["requests"]


def test_a_run_over_two_servers_one_of_which_goes_half_way_is_that_over_one(
    questions: Benchmark, tmp_path: Path
) -> None:
    def run(model: str, name: str, **how: object) -> Counter[tuple[str, str | None]]:
        sn.evaluate(model, str(questions.folder), PROTOCOLS, runs=tmp_path, name=name, **how)  # type: ignore[arg-type]
        return Counter(
            (e.request.key, e.response.text)
            for e in read_exchanges(tmp_path / name)
            if not e.reused
        )

    with ExitStack() as first_is_up, start_server(latency=0.005) as second:
        first = first_is_up.enter_context(start_server(latency=0.005))
        seen: list[int] = []

        def go_half_way(state: RunProgress) -> None:
            if state.requests >= 30 and not seen:
                seen.append(requests_to(first))
                first_is_up.close()

        both = run(
            f"openai:any@{first.url},{second.url}?concurrency=4", "both", progress=go_half_way
        )
        [of_first], of_second = seen, requests_to(second)
        assert (
            of_first > 10 and of_second > 40
        )  # what was on its way when the first went is asked of the second
        assert both == run(f"openai:any@{second.url}", "one")
        assert not [e for e in read_exchanges(tmp_path / "both") if e.response.error]


def test_servers_are_asked_by_what_they_have_in_hand() -> None:
    with start_server(latency=0.01) as quick, start_server(latency=0.2) as slower:
        model = model_at(quick.url, slower.url, concurrency=4)
        texts(ask(model, *questions_of(60)))
        assert model.concurrency == 8
        assert quick.stats()["peak"] <= 4 and slower.stats()["peak"] <= 4
        assert requests_to(quick) > 3 * requests_to(slower) >= 12


def test_a_server_that_fails_again_and_again_is_left_alone_and_tried_again_later() -> None:
    time = Time()
    with start_server() as sound, start_server(script=[broken(times=50)]) as failing:
        model = model_at(failing.url, sound.url, clock=Clock(Waits(), time), concurrency=4)

        def asked() -> int:
            """How often the failing server was asked of eight questions at once, which are all answered."""
            before = requests_to(failing)
            texts(ask(model, *questions_of(8)))
            return requests_to(failing) - before

        assert 3 <= asked() <= 8
        assert asked() == 0
        time.now += 0.6
        assert [asked(), asked()] == [1, 0]  # a single request tries it, and fails
        time.now += 0.6
        assert asked() == 0  # it is left alone for longer now
        time.now += 0.6
        failing.script()
        assert [asked(), asked()] == [1, 4]


def test_a_server_that_hangs_is_left_alone() -> None:
    with start_server() as sound, start_server(script=[slow(5.0, times=50)]) as hanging:
        model = model_at(hanging.url, sound.url, concurrency=2, timeout=0.1)
        texts(ask(model, *questions_of(20)))
        assert requests_to(hanging) <= 4


@pytest.mark.skipif(not TIMERS.exists(), reason="needs Linux's table of connections")
def test_the_machine_of_a_server_that_says_nothing_is_asked_whether_it_is_there() -> None:
    with start_server() as server:
        model = model_at(server.url)

        async def ask_then_look() -> list[str]:
            await model.ask(question(), Shelf())
            rows = [line.split() for line in TIMERS.read_text().splitlines()]
            await model.close()
            return [row[5] for row in rows if row[2].endswith(f":{server.port:04X}")]

        # Linux, proc_net_tcp: timer 02 is keepalive's; then when it fires, in hundredths of a second.
        [(kind, when)] = [
            timer.split(":") for timer in asyncio.run(ask_then_look()) if timer != "00:00000000"
        ]
        assert kind == "02" and 1000 < int(when, 16) <= 1500


def test_where_all_are_gone_the_run_ends_as_with_one(questions: Benchmark) -> None:
    with start_server() as first, start_server() as second:
        urls = first.url, second.url
    with pytest.raises(ModelError, match=r"no request got through .* is it running"):
        ask(model_at(*urls, stop_after=4, retries=2), *questions_of(8))


def test_all_are_asked_before_a_request_has_failed() -> None:
    with ExitStack() as gone, start_server() as last:
        urls = [gone.enter_context(start_server()).url for _ in range(3)]
        gone.close()
        waits = Waits()
        model = model_at(*urls, last.url, clock=Clock(waits, lambda: 0.0), retries=0)
        texts(ask(model, *questions_of(6)))
        assert waits == []


def test_a_request_that_is_cancelled_leaves_its_place() -> None:
    with start_server(latency=0.2) as one, start_server(latency=0.2) as other:
        model = model_at(one.url, other.url, concurrency=1)

        async def cancel_then_ask() -> str | None:
            asking = [
                asyncio.create_task(model.ask(request, Shelf())) for request in questions_of(6)
            ]
            await asyncio.sleep(0.05)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            response = await model.ask(question(), Shelf())
            await model.close()
            return response.text

        assert asyncio.run(cancel_then_ask())


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["ask", "answered", "failed", "unreachable"]),
            st.integers(0, 2),
            st.floats(0, 40),
        ),
        max_size=40,
    )
)
def test_there_is_always_a_server_to_ask_and_one_that_is_down_gets_single_requests(
    steps: list[tuple[str, int, float]],
) -> None:
    time = Time()
    servers = BalancedServers([f"http://127.0.0.1:{port}" for port in (1, 2, 3)], {}, 1024, 4, time)
    everybody = servers._servers
    for what, number, seconds in steps:
        time.now += seconds
        server: BalancedServer = everybody[number]
        if what == "ask":
            chosen = servers.choose()
            assert chosen is not None
            if chosen.is_down and any(not one.is_down for one in everybody):
                assert chosen.asked_again <= time.now and not chosen.assigned
            chosen.assigned += 1
        elif what == "answered":
            server.answered()
            server.assigned = max(server.assigned - 1, 0)
        else:
            server.failed(time.now, unreachable=what == "unreachable")
            server.assigned = max(server.assigned - 1, 0)
        assert servers.choose(everybody) is None


def test_the_addresses_of_all_servers_are_part_of_who_answers() -> None:
    one, two = "openai:any@http://a:1/v1", "openai:any@http://b:2/v1,https://c/v1/?concurrency=9"
    assert identifying_string(one) == identifying_string(two) == "openai:any@/v1"
    assert load_model(one).fingerprint()["address"] == "a:1"
    assert load_model(two).fingerprint()["address"] == "b:2,c"
    in_another_order = "openai:any@https://c/v1,http://b:2/v1"
    assert load_model(in_another_order).fingerprint() == load_model(two).fingerprint()
    assert identifying_string("openai:a,b@http://a:1/v1") == "openai:a,b@/v1"


@pytest.mark.parametrize(
    ("urls", "fault"),
    [
        ("http://a:1/v1,http://b:2/v2", "servers of a model must have the same path"),
        ("http://a:1/v1,https://api.openai.com/v1", "servers of a model must have the same path"),
        ("http://a:1/v1,http://b:x/v1", "http://b:x/v1 is not a valid address"),
    ],
)
def test_urls_that_make_no_sense_together_say_so(urls: str, fault: str) -> None:
    with pytest.raises(ModelError, match=fault):
        load_model(f"openai:any@{urls}")


def test_a_server_that_never_answered_is_told_at_once_and_for_how_long_it_is_tried() -> None:
    lines: list[str] = []
    with using_callbacks(UserCallbacks(say=lines.append)):
        model = model_at("http://127.0.0.1:9/v1", concurrency=4, stop_after=0)
        assert all(response.error for response in ask(model, *questions_of(8)))
    assert lines == [
        "openai:any@http://127.0.0.1:9/v1: no answer yet (http://127.0.0.1:9/v1: Connect call failed ('127.0.0.1', 9); "
        "is it running?); each request is tried again for up to 32 s before it counts as failed"
    ]  # 0.5 + 1 + 2 + 4 + 8 + 16


def test_a_server_that_was_never_reached_ends_the_run_after_a_few_seconds() -> None:
    with start_server() as gone:
        url = gone.url
    waits, lines = Waits(), []
    model = model_at(url, clock=Clock(waits, lambda: 0.0), concurrency=4)
    with (
        using_callbacks(UserCallbacks(say=lines.append)),
        pytest.raises(ModelError, match=r"no request got through .*; start the server or correct"),
    ):
        ask(model, *questions_of(12))
    assert waits == [0.5, 1.0, 2.0]
    assert lines[0].endswith("is it running?); it is tried for a few more seconds")


def test_questions_about_a_server_that_was_never_reached_are_not_repeated() -> None:
    """Otherwise each of the probes would wait for these questions as well."""
    with start_server() as gone:
        url = gone.url
    waits = Waits()
    model = model_at(url, clock=Clock(waits, lambda: 0.0), concurrency=4)

    async def ask_about_it() -> object:
        try:
            return await model.client.ask_about_server(model._compose_list)
        finally:
            await model.close()

    assert asyncio.run(ask_about_it()) is None
    assert waits == []


def test_a_refused_connection_is_not_called_a_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snellen.models.connections.SLOW_TO_CONNECT", 0.01)
    with start_server() as gone:
        url = gone.url
    lines: list[str] = []

    async def wait_a_little(seconds: float) -> None:
        await asyncio.sleep(0.05)

    model = model_at(url, clock=Clock(wait_a_little, lambda: 0.0), concurrency=1)
    with (
        using_callbacks(UserCallbacks(say=lines.append)),
        pytest.raises(ModelError, match="is it running"),
    ):
        ask(model, *questions_of(2))
    assert not [line for line in lines if "no connection after" in line]


def test_a_server_that_lets_nobody_in_is_told_before_the_time_for_connecting_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("snellen.models.connections.SLOW_TO_CONNECT", 0.01)
    monkeypatch.setattr("snellen.models.connections.CONNECT_TIMEOUT", 0.2)
    lines: list[str] = []
    with using_callbacks(UserCallbacks(say=lines.append)), ExitStack() as open_sockets:
        full = open_sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = full.getsockname()[1]
        for _ in range(
            2
        ):  # more than the server has room for, so that its system drops who comes then
            waiting = open_sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        model = model_at(f"http://127.0.0.1:{port}/v1", retries=0, concurrency=2, stop_after=0)
        assert all(response.error for response in ask(model, *questions_of(3)))
    assert lines == [
        f"http://127.0.0.1:{port}/v1: no connection after 0.01 s; waiting for up to 0.2 s"
    ]


def test_a_server_that_falls_away_later_is_tried_again_in_silence() -> None:
    lines: list[str] = []
    with using_callbacks(UserCallbacks(say=lines.append)):
        with start_server() as server:
            model = model_at(server.url)
            assert texts(ask(model, *questions_of(2)))
        assert ask(model, *questions_of(3))[-1].error
    assert lines == []


@pytest.mark.parametrize(
    ("scheme", "doubt"), [("https", "does it use https"), ("http", "is it running")]
)
def test_a_server_that_does_not_speak_as_its_address_says_is_doubted_in_words(
    scheme: str, doubt: str
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as plain:
        listening = Thread(target=plain.serve_forever)
        listening.start()
        address = f"{scheme}://127.0.0.1:{plain.server_port}/v1"
        if scheme == "http":
            plain.shutdown()
            plain.server_close()
        [response] = ask(model_at(address, retries=0, stop_after=0), question())
        plain.shutdown()
        listening.join()
    assert response.error and response.error.detail.endswith(f"; {doubt}?")
