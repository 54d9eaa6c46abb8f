"""The same question several times at a temperature: pass@k, majority vote, agreement."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.cli import cli
from snellen.common.seeds import rng_for
from snellen.protocols import parse_protocol
from snellen.records import Request
from snellen.runs.journal import read_exchanges
from snellen.scoring.choice_metrics import pass_at


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def drawn(request: Request) -> str:
    """A reply drawn by the request's seed: mostly one option of the question, at times another or none."""
    rng = rng_for("drawn", request.sample_id, request.decoding.seed)
    return rng.choice([*"AAB", "I cannot tell."])


@given(st.integers(1, 8), st.data())
def test_pass_at_k_is_the_share_of_all_choices_of_k_replies_with_a_right_one(
    n: int, data: Any
) -> None:
    k, c = data.draw(st.integers(1, n)), data.draw(st.integers(0, n))
    chosen = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at(k, n, c) == pytest.approx(sum(map(any, chosen)) / len(chosen))


def test_the_numbers_of_a_run_are_those_counted_by_hand(questions: Benchmark) -> None:
    model = sn.Scripted(drawn, name="drawn", fingerprint="drawn")
    protocol = "repeat?k=2&n=5"
    results = sn.evaluate(
        model, str(questions.folder), protocol, limit=12, temperature=0.8, name="r"
    )
    golds = {row["sample_id"]: row["gold_options"] for row in results.samples().to_dicts()}
    replies: dict[str, list[int | None]] = {}
    for one in read_exchanges(Path("runs/r")):
        text = one.response.text or ""
        choice = one.request.variant.order["ABCD".index(text)] if len(text) == 1 else None
        replies.setdefault(one.request.sample_id, []).append(choice)
    assert {len(choices) for choices in replies.values()} == {5} and len(replies) == 12
    passes, votes, agrees = [], [], []
    for sample, choices in replies.items():
        right = [choice in golds[sample] for choice in choices]
        passes.append(sum(any(pair) for pair in itertools.combinations(right, 2)) / 10)
        most = max(map(choices.count, choices))
        leading = {choice for choice in choices if choices.count(choice) == most}
        votes.append(sum(choice in golds[sample] for choice in leading) / len(leading))
        agrees.append(sum(a == b is not None for a, b in itertools.combinations(choices, 2)) / 10)
    for metric, values in (
        ("pass_at_k", passes),
        ("majority_vote", votes),
        ("repeat_agreement", agrees),
    ):
        [row] = [
            r for r in results.rows if r.metric == metric and r.benchmark != "*" and not r.slice
        ]
        assert row.estimate.value == pytest.approx(sum(values) / 12), metric
        assert row.estimate.low is not None and row.estimate.low < row.estimate.value < (
            row.estimate.high or 0
        )
        assert row.estimate.groups < row.estimate.n, "intervals are over images"


def test_the_seeds_follow_that_of_the_run_and_the_first_is_shared_with_it(
    questions: Benchmark,
) -> None:
    model = sn.Scripted(drawn, name="drawn", fingerprint="drawn")
    sn.evaluate(
        model,
        str(questions.folder),
        ["vanilla", "repeat?k=3"],
        limit=4,
        temperature=1.0,
        seed=7,
        name="r",
    )
    asked = [one for one in read_exchanges(Path("runs/r")) if not one.reused]
    assert len(asked) == 12 and {one.request.decoding.seed for one in asked} == {7, 8, 9}


def test_at_temperature_0_repeats_are_refused_unless_they_are_asked_for(
    questions: Benchmark,
) -> None:
    model = sn.Scripted(lambda request: "(A)", name="drawn", fingerprint="drawn")
    with pytest.raises(
        sn.DataError, match="at temperature 0, all replies to a question should be identical"
    ):
        sn.evaluate(model, str(questions.folder), "repeat?k=3", limit=4)
    results = sn.evaluate(model, str(questions.folder), "repeat?k=3&greedy=true", limit=4)
    assert results.value("repeat_agreement", benchmark=questions.name) == 1.0


@pytest.mark.parametrize(
    "of", ["circular", "likelihood", "repeat", "instability?m=3", "control?of=circular"]
)
def test_what_asks_more_than_once_is_not_repeated(of: str) -> None:
    with pytest.raises(sn.UnknownNameError):
        parse_protocol(f"repeat?of={of}")


def test_a_protocol_of_another_is_found_again_by_its_label() -> None:
    for text in (
        "repeat?k=5",
        "repeat?k=2&n=8&of=vanilla?in_context=true",
        "control?picture=text&of=repeat?k=3",
    ):
        assert parse_protocol(text).label == text and parse_protocol(
            parse_protocol(text).label
        ) == parse_protocol(text)
    assert parse_protocol("repeat").label == "repeat?k=5"


def test_the_terminal_shows_pass_at_k(questions: Benchmark) -> None:
    command = [
        "run",
        "snellen:uniform",
        str(questions.folder),
        "-p",
        "repeat?k=2",
        "--temperature",
        "1",
        "--no-report",
    ]
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert done.exit_code == 0 and "pass@k" in done.output and "majority vote" in done.output
