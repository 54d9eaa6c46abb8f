"""Reasoning in several rounds: the talk itself, how replies are read, a crash within a round, and what is reported."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import reasoning_roles
import small
import snellen as sn
from reasoning_roles import PROTOCOL, ROLES, Actor, AsyncActor
from snellen.analysis.headline import protocol_preference
from snellen.building.benchmark import Benchmark
from snellen.errors import DataError, StoreError, UnknownNameError
from snellen.extraction import STANDARD
from snellen.protocols.base import parse_protocol
from snellen.protocols.prompts.role_prompts import parse_reasoning_prompts
from snellen.protocols.prompts.templates import default_templates, registered_templates
from snellen.protocols.reasoning import legacy_conclusion, legacy_sub_questions
from snellen.protocols.reasoning_parsing import (
    ReadConclusion,
    standard_conclusion,
    standard_sub_questions,
)
from snellen.records import Exchange, Request
from snellen.report.summary import summary_rows
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import read_manifest
from snellen.scoring.journal_reading import with_conclusions
from snellen.scoring.reply_labels import label_items

GOLDEN = Path(__file__).parent / "reasoning_transcript.txt"
SECONDS_TO_WAIT = 60


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """Questions answered in round 1, in round 2, and never; the right answers are cat, dog, horse."""
    return small.built(small.rows(3), tmp_path_factory.mktemp("three") / "made")


@pytest.fixture(scope="module")
def whole(three: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with single-turn beside the talk."""
    runs = tmp_path_factory.mktemp("whole")
    cast = {role: Actor(role) for role in ROLES}
    sn.evaluate(
        Actor(), str(three.folder), ["vanilla", PROTOCOL], roles=cast, runs=runs, name="run"
    )
    return runs / "run"


def steps_of(folder: Path, sample_id: str) -> list[Exchange]:
    steps = [
        e
        for e in read_exchanges(folder)
        if e.request.sample_id == sample_id and e.request.variant.step
    ]
    return sorted(
        steps, key=lambda e: e.request.variant.step.number if e.request.variant.step else 0
    )


def outline(folder: Path, sample_id: str) -> list[str]:
    """`1 sub-questions questioner` for each step."""
    found = []
    for exchange in steps_of(folder, sample_id):
        step = exchange.request.variant.step
        assert step
        found.append(" ".join(filter(None, (str(step.round), step.purpose, exchange.request.role))))
    return found


# --- the talk ----------------------------------------------------------------------------------------------------


def test_the_talk_is_the_golden_one(whole: Path) -> None:
    """Caption, one-line list, a sub-question that was asked before, an echoed turn; sure in round 2."""
    lines = []
    for exchange in steps_of(whole, "q001"):
        step = exchange.request.variant.step
        assert step
        lines.append(
            f"=== {step.number}: round {step.round}, {step.purpose}, {exchange.request.role or 'evaluated'}"
        )
        for message in exchange.request.messages:
            pictures = "[image] " * sum(
                part.__class__.__name__ == "ImagePart" for part in message.content
            )
            lines.append(f"--- {message.role}\n{pictures}{message.text}")
        lines.append(f"--- reply\n{exchange.response.text}")
    assert "\n".join(lines) + "\n" == GOLDEN.read_text("utf-8")


ROUND_1 = [
    "0 caption",
    "1 sub-questions questioner",
    "1 sub-answer",
    "1 sub-answer",
    "1 analysis reasoner",
]
ROUND_2 = ["2 sub-questions questioner", "2 sub-answer", "2 sub-answer", "2 analysis reasoner"]
ROUND_3 = ["3 sub-questions questioner", "3 sub-answer", "3 conclusion reasoner"]


def test_it_stops_at_the_round_of_the_answer_or_after_the_last(whole: Path) -> None:
    assert outline(whole, "q000") == ROUND_1
    assert outline(whole, "q001") == ROUND_1 + ROUND_2
    assert outline(whole, "q002") == ROUND_1 + ROUND_2 + ROUND_3


def test_doubt_is_allowed_until_the_last_round_and_then_forbidden(whole: Path) -> None:
    told = {
        e.request.variant.step.purpose: e.request.messages[0].text
        for e in steps_of(whole, "q002")
        if e.request.role == "reasoner" and e.request.variant.step
    }
    assert (
        "We are not sure" in told["analysis"] and "You must give an answer" not in told["analysis"]
    )
    assert (
        "We are not sure" not in told["conclusion"]
        and "You must give an answer" in told["conclusion"]
    )


def test_a_question_that_ends_in_doubt_is_unknown_and_not_right(whole: Path) -> None:
    results = sn.score(whole)

    def value(metric: str) -> float | None:
        return results.value(metric, benchmark="mine", protocol=PROTOCOL)

    # q000: dog said, cat is right; q001: dog, right; q002: none.
    assert (value("accuracy"), value("unparsed_rate")) == (1 / 3, 1 / 3)
    assert (value("accuracy_of_parsed"), value("accuracy_upper")) == (1 / 2, 2 / 3)
    assert value("rounds_used") == (1 + 2 + 3) / 3
    assert value("requests_used") == (5 + 9 + 12) / 3
    assert value("tokens_used") == 11 * (5 + 9 + 12) / 3
    [scored] = results.runs[0].benchmarks
    reasons = {p.sample_id: p.reason for p in scored.predictions if p.protocol == PROTOCOL}
    assert reasons == {"q000": None, "q001": None, "q002": "undecided"}


def test_each_role_has_its_own_count(whole: Path) -> None:
    uses = {
        use.role: (use.model, use.answered, use.failed) for use in sn.score(whole).runs[0].roles
    }
    # Two images share captions and sub-answers: each is asked once. The single turn asks one label a question.
    assert uses["questioner"] == ("scripted questioner", 1 + 2 + 3, 0)
    assert uses["reasoner"] == ("scripted reasoner", 1 + 2 + 3, 0)
    asked = {e.request.key for e in read_exchanges(whole) if not e.request.role}
    assert uses[""] == ("scripted answerer", len(asked), 0)


def test_no_request_to_another_model_holds_a_picture_and_each_to_the_evaluated_one_does(
    whole: Path,
) -> None:
    for exchange in read_exchanges(whole):
        assert bool(exchange.request.images) == (exchange.request.role == "")


def talk(
    make: Callable[..., Benchmark],
    replies: dict[str, Callable[[Request], str]],
    protocol: str,
    **row: Any,
) -> Path:
    """The run of one question in which each role replies by its rule."""
    benchmark = make([{**small.rows(1)[0], **row}])
    rules = {"": lambda request: "a thing"} | replies
    models = {
        role: sn.Scripted(rule, name=f"scripted {role}", fingerprint="1", answers_by_sample=True)
        for role, rule in rules.items()
    }
    evaluated = models.pop("")
    sn.evaluate(evaluated, str(benchmark.folder), protocol, roles=models, name="talk")
    return Path("runs/talk")


def fixed(*texts: str) -> Callable[[Request], str]:
    """Replies in turn, the last one for good."""
    left = list(texts)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def test_a_reply_that_cannot_be_read_is_asked_for_once_more(make: Callable[..., Benchmark]) -> None:
    folder = talk(
        make,
        {"questioner": fixed("Certainly.", "Is it red?"), "reasoner": fixed("Well.", "Answer: 3")},
        "reasoning?rounds=2",
    )
    assert outline(folder, "q000") == [
        "0 caption",
        "1 sub-questions questioner",
        "1 sub-questions questioner",
        "1 sub-answer",
        "1 analysis reasoner",
        "1 analysis reasoner",
    ]
    again = steps_of(folder, "q000")[-1].request.messages[-1].text
    assert again.endswith(
        'It starts with "Answer:" and holds the number or letter of one possible answer.'
    )
    assert sn.score(folder).value("unparsed_rate", benchmark="mine") == 0


def test_what_cannot_be_read_twice_is_unknown(make: Callable[..., Benchmark]) -> None:
    folder = talk(
        make, {"questioner": fixed("Is it red?"), "reasoner": fixed("Well.")}, "reasoning?rounds=3"
    )
    assert outline(folder, "q000")[-2:] == ["1 analysis reasoner"] * 2
    results = sn.score(folder)
    assert (
        results.value("unparsed_rate", benchmark="mine"),
        results.value("accuracy", benchmark="mine"),
    ) == (1, 0)


def test_where_nothing_new_is_asked_the_round_is_the_last(make: Callable[..., Benchmark]) -> None:
    folder = talk(
        make,
        {
            "questioner": fixed("Is it red?", "is it RED ?"),
            "reasoner": fixed("Answer: We are not sure", "Answer: 1"),
        },
        "reasoning",
    )
    assert outline(folder, "q000") == [
        "0 caption",
        "1 sub-questions questioner",
        "1 sub-answer",
        "1 analysis reasoner",
        "2 sub-questions questioner",
        "2 sub-questions questioner",
        "2 conclusion reasoner",
    ]
    assert sn.score(folder).value("accuracy", benchmark="mine") == 1


def test_an_answer_beside_a_doubt_counts_in_the_last_round_only(
    make: Callable[..., Benchmark],
) -> None:
    folder = talk(
        make,
        {
            "questioner": fixed("Is it red?", "Is it big?"),
            "reasoner": fixed("Answer: We are not sure, but 1"),
        },
        "reasoning?rounds=2",
    )
    assert outline(folder, "q000")[-1] == "2 conclusion reasoner"
    assert sn.score(folder).value("accuracy", benchmark="mine") == 1


def test_at_most_so_many_sub_questions_of_a_round_are_asked(make: Callable[..., Benchmark]) -> None:
    many = " ".join(
        f"Is it {colour}?" for colour in ("red", "blue", "green", "black", "white", "grey", "pink")
    )
    folder = talk(
        make, {"questioner": fixed(many), "reasoner": fixed("Answer: 1")}, "reasoning?questions=3"
    )
    assert outline(folder, "q000").count("1 sub-answer") == 3


def test_without_a_caption_nothing_is_said_of_one(make: Callable[..., Benchmark]) -> None:
    roles = {"questioner": fixed("Is it red?"), "reasoner": fixed("Answer: 1")}
    folder = talk(make, roles, "reasoning?caption=none")
    assert outline(folder, "q000")[0] == "1 sub-questions questioner"
    told = [message.text for e in steps_of(folder, "q000") for message in e.request.messages[1:]]
    assert not any("escription" in text for text in told)


def test_an_open_question_is_answered_in_words(make: Callable[..., Benchmark]) -> None:
    roles = {
        "questioner": fixed("Is it red?"),
        "reasoner": fixed("Analysis: I see.\n**Answer:** No, it is not."),
    }
    row = {"options": None, "question": "Is there a dog in the image?", "answer": "no"}
    benchmark = make([{**small.rows(1)[0], **row}], formulation="text", metrics=("pope",))
    models = {
        role: sn.Scripted(rule, fingerprint=role, answers_by_sample=True)
        for role, rule in roles.items()
    }
    cast = sn.Scripted(lambda request: "a thing", fingerprint="1")
    results = sn.evaluate(
        cast, str(benchmark.folder), ["vanilla", "reasoning"], roles=models, name="open"
    )
    assert results.value("pope_accuracy", benchmark="mine", protocol="reasoning") == 1
    assert results.value("pope_unparsed_rate", benchmark="mine", protocol="vanilla") == 1
    told = steps_of(Path("runs/open"), "q000")[-1].request.messages
    assert "Possible answers" not in told[-1].text and "a word or a short phrase" in told[0].text


def test_an_open_question_that_ends_in_doubt_is_wrong(make: Callable[..., Benchmark]) -> None:
    roles = {"questioner": "Is it red?", "reasoner": "Answer: We are not sure"}
    benchmark = make(
        [{**small.rows(1)[0], "options": None, "question": "Is there a dog?", "answer": "no"}],
        formulation="text",
        metrics=("pope", "exact_match"),
    )
    models = {
        role: sn.Scripted(lambda _, text=text: text, fingerprint=role)
        for role, text in roles.items()
    }
    cast = sn.Scripted(lambda request: "a thing", fingerprint="1")
    results = sn.evaluate(
        cast, str(benchmark.folder), "reasoning?rounds=1", roles=models, name="open"
    )
    for metric, value in {"pope_accuracy": 0, "pope_unparsed_rate": 1, "exact_match": 0}.items():
        assert results.value(metric, benchmark="mine") == value


@pytest.mark.parametrize("extractor", ["strict", "legacy:lvlm-ehub", "legacy:reform-eval"])
def test_the_answer_that_ended_the_talk_is_the_same_under_all_rules(
    whole: Path, extractor: str
) -> None:
    def choices(results: sn.Results) -> dict[str, int | None]:
        [scored] = results.runs[0].benchmarks
        return {p.sample_id: p.choice for p in scored.predictions if p.protocol == PROTOCOL}

    assert (
        choices(sn.score(whole, extractor=extractor))
        == choices(sn.score(whole))
        == {"q000": 1, "q001": 1, "q002": None}
    )


def test_options_that_are_numbers_have_letters(make: Callable[..., Benchmark]) -> None:
    roles = {"questioner": fixed("Is it red?"), "reasoner": fixed("Answer: B")}
    folder = talk(make, roles, "reasoning", options=["4", "3", "2", "1"], answer=1)
    assert "A. 4\nB. 3" in steps_of(folder, "q000")[-1].request.messages[-1].text
    assert sn.score(folder).value("accuracy", benchmark="mine") == 1


def test_settings_out_of_range_are_one_line() -> None:
    with pytest.raises(UnknownNameError, match="reasoning needs rounds >= 1, not 0"):
        parse_protocol("reasoning?rounds=0")
    with pytest.raises(UnknownNameError, match="unknown template 'mine'"):
        parse_protocol("reasoning?prompts=mine")
    with pytest.raises(UnknownNameError, match="parsing"):
        parse_protocol("reasoning?parsing=lgacy")


# --- reading sub-questions ---------------------------------------------------------------------------------------

TWO = ["Is there a dog?", "What is the man holding?"]


@pytest.mark.parametrize(
    "reply",
    [
        "Sub-question 1: Is there a dog?\nSub-question 2: What is the man holding?",
        "Sub-question 1: Is there a dog? Sub-question 2: What is the man holding?",
        "Is there a dog? What is the man holding?",
        "1. Is there a dog?\n2) What is the man holding?",
        "(1) Is there a dog?\n(2) What is the man holding?",
        "- Is there a dog?\n* What is the man holding?",
        "• Is there a dog?\n• What is the man holding?",
        "**Sub-question 1:** Is there a dog?\n**Sub-question 2:** What is the *man* holding?",
        '["Is there a dog?", "What is the man holding?"]',
        '```json\n{"sub_questions": ["Is there a dog?", "What is the man holding?"]}\n```',
        '[{"id": 1, "question": "Is there a dog?"}, {"id": 2, "question": "What is the man holding?"}]',
        '{"Sub-question 1": "Is there a dog?", "Sub-question 2": "What is the man holding?"}',
        "Sure! Here are some sub-questions that would help:\n\n1. Is there a dog? That tells whether it is a pet.\n"
        "2. What is the man holding?\n\nLet me know if you need more.",
        '1. "Is there a dog?"\n2. “What is the man holding?”',
        "Here are my sub-questions: Is there a dog? What is the man holding?",
        "Is there a dog?; What is the man holding?",
        "Q1: Is there a dog?\nQ2: What is the man holding?",
        "Question 1: Is there a dog?\n\nQuestion 2: What is the man holding?",
        "| 1 | Is there a dog? |\n| 2 | What is the man holding? |",
        "<ol>\n<li>Is there a dog?</li>\n<li>What is the man holding?</li>\n</ol>",
        "<think>Is it a cat? Hm.</think>\nIs there a dog?\nWhat is the man holding?",
        "Is there a dog?\nWhat is the man holding?\nis there a DOG ?",
        "Sub-question 1: Is there a dog?\nAnswer 1: yes\nSub-question 2: What is the man holding?\nAnswer 2: a ball",
    ],
)
def test_sub_questions_are_read_however_they_are_listed(reply: str) -> None:
    found = standard_sub_questions(reply)
    assert [" ".join(question.split()) for question in found] == TWO


@pytest.mark.parametrize(
    ("reply", "questions"),
    [
        (
            "sub-question 1: is there a dog?\nSUB-QUESTION 2: IS IT RED?",
            ["is there a dog?", "IS IT RED?"],
        ),
        ("- Name the animal\n- Describe the hat", ["Name the animal", "Describe the hat"]),
        ("* Name the animal\n* Describe the hat", ["Name the animal", "Describe the hat"]),
        ("Is Mr. Smith in front of St. Paul's?", ["Is Mr. Smith in front of St. Paul's?"]),
        ("1. 图中有狗吗？\n2. 男人拿着什么？", ["图中有狗吗？", "男人拿着什么？"]),
        ("Is the sign from 1990. or later?", ["Is the sign from 1990. or later?"]),
        ("I have no further questions.", []),
        ("", []),
    ],
)
def test_sub_questions_that_are_odd_or_none(reply: str, questions: list[str]) -> None:
    assert standard_sub_questions(reply) == questions


# --- reading the conclusion --------------------------------------------------------------------------------------

PLANS = (
    "He is sad.",
    "He is happy and dances.",
    "He wants to leave.",
    "He is not sure where to go.",
)
NUMBERS = ("1", "2", "3", "4")


def read(reply: str, *, last: bool = False, options: tuple[str, ...] = PLANS) -> str | None:
    """The option that is read, `doubt`, or None."""
    found = standard_conclusion(reply, options, NUMBERS[: len(options)], STANDARD, last=last)
    if found is None or found.doubt:
        return found and "doubt"
    choice = STANDARD.read(found.answer, options, NUMBERS[: len(options)]).choice
    return None if choice is None else NUMBERS[choice]


@pytest.mark.parametrize(
    "reply",
    [
        "Analysis: He smiles.\nAnswer: 2",
        "ANALYSIS: he smiles.\nFINAL ANSWER: (2)",
        "analysis: he smiles. **Answer:** **2**",
        "He smiles and moves. So the answer is 2.",
        "2",
        "Analysis: he smiles.\nAnswer: 2. He is happy and dances.\nI hope this answer is helpful!",
        '{"analysis": "he smiles", "answer": 2}',
        '```json\n{"Analysis": "he smiles", "Answer": "2"}\n```',
        "Analysis: he smiles.\nAnswer:\n2",
        "Analysis: he smiles.\nMore Likely Answer: 2",
        "Analysis: he smiles.\nAnswer: He is happy and dances.",
        "Analysis: he smiles.\nAnswer: Option 2",
        "Analysis: he smiles.\nAnswer: number 2",
        "The correct answer would be number 2, since he smiles.",
        "Analysis: It is unclear where he goes. We are not sure of that. Answer: 2",
        'Answer: "2"',
        "Answer: `2`",
        "Analysis: the answer is 3 if he leaves, but he does not.\nAnswer: 2",
        "<think>3? We are not sure.</think>Analysis: he smiles.\nAnswer: 2",
        "Analysis: he smiles.\nAnswer: ２",
    ],
)
def test_an_answer_is_read_however_it_is_put(reply: str) -> None:
    assert read(reply) == read(reply, last=True) == "2"


@pytest.mark.parametrize(
    "reply",
    [
        "Analysis: hm.\nAnswer: We are not sure",
        "Analysis: hm.\nanswer: not sure.",
        "We are not sure.",
        "Answer: I'm unsure",
        "Analysis: The answer is 3 if he leaves.\nWe are not sure.",
        "Analysis: hm.\nAnswer: We cannot determine which one",
        "Answer: It can't be determined from the given answers.",
        "Analysis: hm.\nAnswer: more information is needed",
        '{"analysis": "hm", "answer": "We are not sure"}',
        "Answer: unknown",
    ],
)
def test_a_doubt_is_read_however_it_is_put(reply: str) -> None:
    assert read(reply) == read(reply, last=True) == "doubt"


def test_a_doubt_beside_an_answer_goes_first_until_the_last_round() -> None:
    for reply in ("Answer: We are not sure, but 2", "We are not sure ... but 2"):
        assert (read(reply), read(reply, last=True)) == ("doubt", "2"), reply


def test_an_option_that_says_not_sure_is_an_option() -> None:
    entailment = ("yes", "not sure", "no")
    assert read("Answer: not sure", options=entailment) == "2"
    assert read("Answer: 2. not sure", options=entailment) == "2"
    assert read("Answer: We are not sure", options=entailment) == "doubt"
    assert read("Answer: 4. He is not sure where to go.") == "4"


@pytest.mark.parametrize(
    "reply", ["I like turtles.", "", "Analysis: x\nAnswer: 7", "Answer: 1 or 2"]
)
def test_what_neither_answers_nor_doubts_is_asked_for_again(reply: str) -> None:
    assert read(reply) is None


def test_the_analysis_is_what_stands_before() -> None:
    found = standard_conclusion(
        "Analysis: He smiles.\nHe moves.\nAnswer: 2", PLANS, NUMBERS, STANDARD, last=False
    )
    assert found == ReadConclusion("He smiles.\nHe moves.", "2")


# --- the published parser ----------------------------------------------------------------------------------------


def test_the_published_parser_takes_a_line_for_one_sub_question() -> None:
    assert legacy_sub_questions(
        "Sub-question 1: Is it red? Sub-question 2: Is it big?\n\nWhat is it"
    ) == [
        "Is it red? Sub-question 2: Is it big?",
        "What is it",
    ]


@pytest.mark.parametrize(
    ("reply", "options", "answer"),
    [
        ("Analysis: hm.\nAnswer: We are not sure.", PLANS, "doubt"),
        ("Analysis: hm.\nAnswer: we are not sure.", PLANS, None),  # case counts
        ("Analysis: hm.\nanswer: 2", PLANS, None),
        ("Analysis: hm.\nAnswer: option 3, not 2.", PLANS, "3"),
        ("Analysis: hm.\nAnswer: yes.", ("yes", "not sure", "no"), "1"),
        ("Analysis: hm.\nAnswer: Yes.", ("yes", "not sure", "no"), None),
        ("Analysis: hm.\nAnswer: 9", PLANS, None),
        ("2", PLANS, None),
    ],
)
def test_the_published_parser_is_as_the_paper_has_it(
    reply: str, options: tuple[str, ...], answer: str | None
) -> None:
    found = legacy_conclusion(reply, options, NUMBERS[: len(options)], STANDARD, last=False)
    assert (found and ("doubt" if found.doubt else found.answer)) == answer


def test_the_published_parser_is_chosen_by_name(make: Callable[..., Benchmark]) -> None:
    roles = {
        "questioner": fixed("Sub-question 1: Is it red? Sub-question 2: Is it big?"),
        "reasoner": fixed("answer: 1"),
    }
    folder = talk(make, roles, "reasoning?parsing=legacy&caption=none&rounds=1")
    assert outline(folder, "q000").count("1 sub-answer") == 1
    assert sn.score(folder).value("unparsed_rate", benchmark="mine") == 1


# --- a crash, a replay -------------------------------------------------------------------------------------------


def test_a_run_that_is_killed_within_the_second_round_goes_on_there_and_asks_nothing_twice(
    tmp_path: Path,
) -> None:
    benchmark = small.built(small.rows(2)[1:], tmp_path / "second")
    calls, runs = tmp_path / "calls", tmp_path / "killed"
    # Caption, round 1 (sub-questions, two sub-answers, analysis), sub-questions of round 2, and one of its two answers.
    wanted = 1 + 4 + 2
    command = [
        sys.executable,
        reasoning_roles.__file__,
        str(benchmark.folder),
        str(runs),
        str(calls),
    ]
    process = subprocess.Popen(command, env=os.environ)
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while _lines(runs / "run") < wanted and process.poll() is None:
        assert time.monotonic() < deadline, "the process came to a halt too early"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the process was done before it could be killed"
    before = calls.read_text().splitlines()
    assert len(before) == wanted
    model, roles = AsyncActor(), {role: AsyncActor(role) for role in ROLES}
    sn.evaluate(model, str(benchmark.folder), PROTOCOL, roles=roles, runs=runs, name="run")
    # The other answer of round 2, and its analysis: no caption, no round 1, no sub-questions.
    assert (len(model.asked), len(roles["questioner"].asked), len(roles["reasoner"].asked)) == (
        1,
        0,
        1,
    )
    asked = Counter([*before, *model.asked, *roles["reasoner"].asked])
    assert set(asked.values()) == {1}
    uninterrupted = {role: AsyncActor(role) for role in ROLES}
    sn.evaluate(
        AsyncActor(), str(benchmark.folder), PROTOCOL, roles=uninterrupted, runs=runs, name="whole"
    )
    assert (runs / "run/scores.jsonl").read_bytes() == (runs / "whole/scores.jsonl").read_bytes()
    assert [_said(e) for e in steps_of(runs / "run", "q001")] == [
        _said(e) for e in steps_of(runs / "whole", "q001")
    ]


def _lines(folder: Path) -> int:
    journal = folder / "journal-0.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def _said(exchange: Exchange) -> tuple[Request, str | None]:
    return exchange.request, exchange.response.text


def test_a_replay_equals_the_run(whole: Path, three: Benchmark) -> None:
    replay = f"replay:{whole}"
    results = sn.evaluate(
        replay,
        str(three.folder),
        ["vanilla", PROTOCOL],
        roles=dict.fromkeys(ROLES, replay),
        name="again",
    )
    assert (whole / "scores.jsonl").read_bytes() == (
        Path("runs/again") / "scores.jsonl"
    ).read_bytes()
    for sample_id in ("q000", "q001", "q002"):
        again = [_said(e) for e in steps_of(Path("runs/again"), sample_id)]
        assert again == [_said(e) for e in steps_of(whole, sample_id)]
    assert [use.failed for use in results.runs[0].roles] == [0, 0, 0]


def test_an_unfinished_talk_is_not_asked_yet(whole: Path, tmp_path: Path) -> None:
    lines = (whole / "journal-0.jsonl").read_bytes().splitlines(keepends=True)
    for count in range(len(lines)):
        folder = tmp_path / f"cut-{count}"
        folder.mkdir()
        (folder / "manifest.json").write_bytes((whole / "manifest.json").read_bytes())
        (folder / "journal-0.jsonl").write_bytes(b"".join(lines[:count]))
        concluded = {
            e.request.sample_id: e
            for e in map(msgspec.json.Decoder(Exchange).decode, lines[:count])
            if e.request.role == "reasoner"
        }
        over = {
            name
            for name, e in concluded.items()
            if (step := e.request.variant.step)
            and step.round == reasoning_roles.ANSWERED_IN.get(name, 3)
        }
        begun = {
            e.request.sample_id
            for e in map(msgspec.json.Decoder(Exchange).decode, lines[:count])
            if e.protocol == PROTOCOL
        }
        [scored] = sn.score(folder).runs[0].benchmarks
        accuracies = {
            s.sample_id: s
            for s in scored.scores
            if (s.protocol, s.metric) == (PROTOCOL, "accuracy")
        }
        assert {name for name, s in accuracies.items() if s.value is not None} == over
        assert {s.reason for s in accuracies.values() if s.value is None} <= {"not asked"}
        # A talk that goes on longer is not left out as if it had never begun.
        assert {name for name, s in accuracies.items() if s.broken and s.steps} == begun - over


# --- words -------------------------------------------------------------------------------------------------------


def test_other_words_of_ours_are_another_version() -> None:
    """Change the version in the file with its words, then the digest here: journals name the version."""
    prompts = default_templates().reasoning
    digest = hashlib.sha256(msgspec.json.encode(prompts)).hexdigest()[:12]
    assert (prompts.version, digest) == ("snellen-reasoning-1", "c9c8cdf70297")


def test_a_template_file_may_bring_its_own_words(three: Benchmark) -> None:
    Path("mine.toml").write_text(
        '[reasoning]\ndoubt = "Hm"\n[reasoning.questioner]\nsystem = "Ask {count} things."\n'
    )
    cast = {role: Actor(role) for role in ROLES}
    sn.evaluate(
        Actor(), str(three.folder), PROTOCOL, roles=cast, name="own", templates="mine.toml", limit=1
    )
    told = next(
        e.request for e in read_exchanges(Path("runs/own")) if e.request.role == "questioner"
    )
    assert told.messages[0].text == "Ask 5 things." and told.variant.template.startswith("own-")
    reasoner = next(
        e.request for e in read_exchanges(Path("runs/own")) if e.request.role == "reasoner"
    )
    assert reasoner.messages[0].text.endswith("Answer: Hm")


def test_a_run_refuses_to_go_on_in_other_words_of_ours(
    three: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_on() -> None:
        cast = {role: Actor(role) for role in ROLES}
        sn.evaluate(Actor(), str(three.folder), PROTOCOL, roles=cast, name="run", limit=1)

    go_on()
    assert read_manifest(Path("runs/run")).wording_versions == {PROTOCOL: "snellen-reasoning-1"}
    ours = default_templates()
    later = replace(ours, reasoning=replace(ours.reasoning, version="snellen-reasoning-2"))
    monkeypatch.setattr("snellen.runs.plan.default_templates", lambda: later)
    with pytest.raises(
        StoreError,
        match="used prompts of version snellen-reasoning-1, but they now have version snellen-reasoning-2; choose",
    ):
        go_on()


def test_wrong_words_are_one_line() -> None:
    with pytest.raises(
        DataError,
        match=r"^x: \[questioner\] first has the slot \{capshun\}; known: analysis, answers",
    ):
        parse_reasoning_prompts({"questioner": {"first": "{capshun}"}}, "x")
    with pytest.raises(
        DataError, match=r"^x: not a file of reasoning prompts .*unknown field `critic`"
    ):
        parse_reasoning_prompts({"critic": {}}, "x")


def test_the_words_for_entailment_tell_its_middle_answer_from_doubt() -> None:
    protocol = parse_protocol("reasoning?prompts=lvlm-ehub-entailment")
    assert protocol.label == "reasoning?prompts=lvlm-ehub-entailment"
    declared_version = protocol.declaration.words(default_templates())
    assert declared_version == "lvlm-ehub-entailment-1"
    texts = registered_templates("lvlm-ehub-entailment").reasoning
    assert texts.doubt == "We are not sure"
    # Everything else is as in any run.
    assert texts.reasoner == default_templates().reasoning.reasoner


# --- what is shown -----------------------------------------------------------------------------------------------


def test_single_turn_stands_beside_the_talk_in_one_table(whole: Path, tmp_path: Path) -> None:
    page = sn.score(whole).report(tmp_path / "r.md").read_text()
    rows = {
        cells[3]: cells
        for line in page.splitlines()
        if (cells := [c.strip() for c in line.split("|")])[1:2] == ["scripted answerer"]
        and len(cells) == 11
    }
    assert rows["vanilla"][4:7] != rows[PROTOCOL][4:7]
    assert rows["vanilla"][5].startswith("33.3%") and rows["vanilla"][7:9] == ["—", "1"]
    assert rows[PROTOCOL][5].startswith("33.3%") and rows[PROTOCOL][6].startswith("33.3%")
    assert rows[PROTOCOL][7].startswith("2.000") and rows[PROTOCOL][8].startswith("8.667")
    by_class = page[page.index("Accuracy by correct answer") :]
    assert "| scripted answerer | mine | dog |" in by_class
    assert "| scripted answerer | reasoner | scripted reasoner | 6 | 0 | 60 | 6 |" in page


def test_the_single_turn_and_not_the_talk_stands_for_the_model(whole: Path) -> None:
    results = sn.score(whole)
    [row] = [
        row
        for row in results.rows
        if row.metric == "accuracy"
        and row.protocol == "vanilla"
        and not row.slice
        and row.benchmark == "mine"
    ]
    [summary] = summary_rows(results.runs, results.rows)
    assert summary.accuracy.estimate.value == row.estimate.value  # type: ignore[union-attr]
    assert sorted(["reasoning", "vanilla"], key=protocol_preference) == ["vanilla", "reasoning"]


def test_whoever_reads_replies_finds_conclusions_in_place_of_steps(
    whole: Path, three: Benchmark
) -> None:
    samples = {"mine": {sample.id: sample for sample in three.samples()}}
    found = with_conclusions(read_exchanges(whole), ["vanilla", PROTOCOL], samples)
    replies = {(e.protocol, e.request.sample_id): e.response.text for e in found}
    names = ("q000", "q001", "q002")
    assert [replies["vanilla", name] for name in names] == ["(A)"] * 3
    assert [replies[PROTOCOL, name] for name in names] == ["(2) dog", "(2) dog", ""]


def test_people_label_replies_to_the_question_and_no_steps(whole: Path) -> None:
    assert {item.unparsed.reply for item in label_items(whole)} == {"(A)"}


def test_the_report_shows_the_whole_talk(whole: Path, tmp_path: Path) -> None:
    page = sn.score(whole).report(tmp_path / "r.html").read_text()
    for said in (
        "round 2 · sub-questions · questioner",
        "round 3 · conclusion · reasoner",
        "Analysis: round 3 of q002.",
        "Does it have horns?",
        "An animal in a field.",
        "What somebody made of that: round 1 of q001.",
        "questioner: declared",
    ):
        assert said in page, said


def test_embedded_models_play_all_roles_end_to_end() -> None:
    pytest.importorskip("torch", reason="waits for torch")
    results = sn.evaluate(
        "snellen:tiny-xs",
        "eyechart/shape",
        ["vanilla", "reasoning?rounds=2&role_tokens=8&answer_tokens=4"],
        roles={"questioner": "snellen:tiny-xs", "reasoner": "snellen:tiny-xs"},
        limit=2,
        name="tiny",
    )
    [scored] = results.runs[0].benchmarks
    assert len([p for p in scored.predictions if p.protocol.startswith("reasoning")]) == 2
    assert all(use.failed == 0 and use.answered > 0 for use in results.runs[0].roles)
