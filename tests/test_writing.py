"""Distractors that a model writes: asked as the paper prints it, checked, asked again, kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import small
from snellen import registry
from snellen.api import build
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft
from snellen.errors import DataError, ModelError
from snellen.records import Failure, Request, Response
from snellen.reformulation.distractor_prompts import parse_proposals, request_text, usable_proposals
from snellen.reformulation.wordnet import open_wordnet

OPTIONS = QuestionDraft(
    "What animal is it?", texts=("dog", "puppy"), distractors=DistractorSpec(prompt="options")
)
REASON = "It barks."
RATIONALES = QuestionDraft(
    "Why is it a dog?",
    texts=(REASON,),
    distractors=DistractorSpec(prompt="rationales", rationale="dog", tiers=(("It flies.",),)),
)


def test_writers_are_asked_in_the_words_of_the_paper() -> None:
    assert request_text(OPTIONS, 3) == (
        "You are a multiple-choice generator. Given a question and an answer, you need to generate three additional "
        "incorrect options while ensuring their plausibility and confusion.\nQuestion: What animal is it?\nAnswer: dog"
    )
    assert request_text(RATIONALES, 3) == (
        "You are a multiple-choice generator. Given a question and an answer, along with a rationale for that answer, "
        "you need to generate 3 counterfactual rationales. These counterfactual rationales should be contextually "
        "relevant while also being sufficiently distinct from the correct rationale.\n"
        "Question: Why is it a dog?\nAnswer: dog\nRationale: It barks."
    )
    dialogue = QuestionDraft(
        "Is it old?", texts=("about ten years",), distractors=DistractorSpec(prompt="dialogue")
    )
    assert request_text(dialogue, 3) == (
        "I will provide a question with the correct answer, please give me 3 incorrect options to help me get a "
        "single-choice question.\nQuestion: Is it old?\nAnswer: about ten years"
    )
    assert "generate five additional" in request_text(OPTIONS, 5)
    assert request_text(OPTIONS, 3, attempt=1).startswith(
        request_text(OPTIONS, 3) + "\nGive exactly 3 incorrect"
    )


@pytest.mark.parametrize(
    "reply",
    [
        "cat\nhorse\ncow",
        "1. cat\n2. horse\n3. cow",
        "Here are three incorrect options:\n\n- cat\n- horse\n- cow\n\nI hope this helps!",
        "(A) cat\n(B) horse\n(C) cow",
        "A) **cat**\nB) **horse**\nC) **cow**",
        'Incorrect options:\n1) "cat"\n2) "horse"\n3) "cow"',
        "Option 1: cat\nOption 2: horse\nOption 3: cow",
        '["cat", "horse", "cow"]',
        '```json\n["cat", "horse", "cow"]\n```',
        "cat, horse, and cow",
        "cat; horse; cow",
        "<think>dog is right\nso not dog</think>\ncat\nhorse\ncow",
    ],
)
def test_the_options_of_a_reply_are_found_however_they_are_listed(reply: str) -> None:
    assert parse_proposals(reply) == ["cat", "horse", "cow"]


def test_what_cannot_be_a_distractor_is_left_out_and_counted() -> None:
    rejected: dict[str, int] = {}
    reply = "1. The dog.\n2. puppies\n3. cat\n4. a Cat\n5. horse"
    assert usable_proposals(reply, OPTIONS, ["cow"], rejected) == ["cat", "horse"]
    assert rejected == {
        "says the same as the answer": 1,
        "says the same as another right answer": 1,
        "says the same as another option": 1,
    }


def test_a_synonym_is_no_distractor_where_wordnet_is_there() -> None:
    try:
        wordnet = open_wordnet()
    except DataError as error:
        pytest.skip(f"waits for wordnet-base: {error}")
    couch = QuestionDraft(
        "What is it?", texts=("couch",), distractors=DistractorSpec(prompt="options")
    )
    rejected: dict[str, int] = {}
    assert usable_proposals(
        "sofa\na lounge\nbed\nautomobile\ncar", couch, [], rejected, wordnet.synonymous
    ) == [
        "bed",
        "automobile",
    ]
    assert rejected == {"says the same as the answer": 2, "says the same as another option": 1}


# --- through build -----------------------------------------------------------------------------------------------

QUESTIONS = {
    "q0": ("What animal is it?", "dog"),
    "q1": ("What colour is it?", "red"),
    "q2": ("Is it old?", "yes"),
}


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    for number, (name, (question, answer)) in enumerate(QUESTIONS.items()):
        wanted = DistractorSpec(tiers=(("pool one", "pool two", "pool three"),), prompt="options")
        yield Draft(
            name,
            (QuestionDraft(question, texts=(answer,), distractors=wanted),),
            (small.picture(number),),
            where=name,
        )


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> BenchmarkSpec:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    registry.register("readers", "test-open", "test_writing:read")
    return BenchmarkSpec(
        name="open", title="open", formulation="choice", source=SourceSpec("test-open")
    )


class Author:
    """A model of the user's own that replies from a list, question by question."""

    fingerprint = "the author"

    def __init__(self, replies: dict[str, list[str]]) -> None:
        self.replies = replies
        self.asked: list[str] = []

    def generate(self, requests: Sequence[Request], images: object) -> list[str]:
        self.asked += [request.messages[0].text for request in requests]
        return [self._reply(request) for request in requests]

    def _reply(self, request: Request) -> str:
        return self.replies[request.sample_id][request.variant.test]


GOOD = {"q0": ["1. dog\n2. cat\n3. cow", "cat\nhorse"], "q1": ["blue\ngreen\nyellow"]}


def options_of(spec: BenchmarkSpec, to: Path, **how: Any) -> dict[str, set[str]]:
    return {sample.id: set(sample.options) for sample in build(spec, to=to, **how).samples()}


def test_too_few_options_are_asked_for_again_and_everything_is_kept(
    spec: BenchmarkSpec, tmp_path: Path
) -> None:
    author = Author(GOOD)
    first = options_of(spec, tmp_path / "one", writer=author)
    assert first == {
        "q0": {"dog", "cat", "cow", "horse"},
        "q1": {"red", "blue", "green", "yellow"},
        "q2": {"yes", "no"},
    }
    # q0 twice, the second time with a reminder; yes/no needs nobody.
    assert len(author.asked) == 3 and sum("Give exactly 3" in text for text in author.asked) == 1
    again = Author(GOOD)
    assert options_of(spec, tmp_path / "two", writer=again) == first
    assert again.asked == []


def test_what_was_left_out_is_counted_in_the_manifest(spec: BenchmarkSpec, tmp_path: Path) -> None:
    made = build(spec, to=tmp_path / "one", writer=Author(GOOD)).manifest.build_info
    assert made.writer == "Author"
    assert made.rejected == {"says the same as the answer": 1, "says the same as another option": 1}


def test_what_is_not_written_in_three_attempts_comes_from_other_answers_and_is_counted(
    spec: BenchmarkSpec, tmp_path: Path
) -> None:
    author = Author({"q0": ["cat", "cat", "a cat"], "q1": ["blue\ngreen\nyellow"]})
    benchmark = build(spec, to=tmp_path / "one", writer=author)
    options = {sample.id: set(sample.options) for sample in benchmark.samples()}
    assert {"dog", "cat"} < options["q0"]
    assert len(options["q0"] & {"pool one", "pool two", "pool three"}) == 2
    assert (
        benchmark.manifest.build_info.rejected[
            "not written by the model; drawn from other answers instead"
        ]
        == 2
    )


def test_without_a_writer_the_way_out_is_named(spec: BenchmarkSpec, tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match="q0: a model writes the distractors of open; name one with writer='MODEL'",
    ):
        build(spec, to=tmp_path / "one")
    assert not (tmp_path / "one").exists()


def test_distractors_can_come_from_other_answers_instead(
    spec: BenchmarkSpec, tmp_path: Path
) -> None:
    options = options_of(spec, tmp_path / "one", distractors="pool")
    assert options["q1"] == {"red", "pool one", "pool two", "pool three"}


def test_a_writer_that_fails_leaves_nothing_half_built_and_what_it_wrote_is_kept(
    spec: BenchmarkSpec, tmp_path: Path
) -> None:
    class Failing(Author):
        def _reply(self, request: Request) -> Any:
            if request.sample_id == "q1":
                return Response(error=Failure("rate_limit", "out of credit"))
            return super()._reply(request)

    Failing.__qualname__ = "Author"
    Failing.__name__ = "Author"
    with pytest.raises(
        ModelError,
        match=r"the writer Author did not reply for open q1; its earlier output is in .*written",
    ):
        build(spec, to=tmp_path / "one", writer=Failing(GOOD))
    assert not (tmp_path / "one").exists()
    assert options_of(spec, tmp_path / "one", writer=(later := Author(GOOD)))["q1"] == {
        "red",
        "blue",
        "green",
        "yellow",
    }
    assert len(later.asked) == 1
