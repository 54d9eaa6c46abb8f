"""The records: JSON there and back, and what the key of a request depends on."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from snellen.reasons import UnscoredReason
from snellen.records import (
    Answer,
    ContinuationScore,
    Decoding,
    Estimate,
    Exchange,
    Failure,
    History,
    ImagePart,
    ImageRef,
    Message,
    Prediction,
    Region,
    Request,
    Response,
    Result,
    Sample,
    Score,
    TextPart,
    Turn,
    Usage,
    Variant,
)

words = st.text(max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)
images = st.builds(
    ImageRef,
    digest=words,
    media_type=words,
    width=st.integers(1, 10**6),
    height=st.integers(1, 10**6),
)
turns = st.builds(Turn, question=words, options=st.tuples() | st.tuples(words, words))
variants = st.builds(
    Variant,
    test=st.integers(0, 99),
    turn=st.integers(0, 9),
    template=words,
    order=st.permutations(range(4)).map(tuple),
    labels=st.sampled_from([(), ("A", "B"), ("1", "2", "3")]),
    in_context=st.booleans(),
    seed=st.integers(0, 2**62),
)
parts = st.builds(TextPart, words) | st.builds(ImagePart, images)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant"]),
    content=st.lists(parts).map(tuple),
)
decodings = st.builds(
    Decoding,
    max_new_tokens=st.integers(0, 999),
    temperature=st.floats(0, 2),
    seed=st.integers(0, 9),
)
requests = st.builds(
    Request,
    benchmark=words,
    sample_id=words,
    variant=variants,
    messages=st.lists(messages, max_size=3).map(tuple),
    kind=st.sampled_from(["generate", "loglikelihood"]),
    continuations=st.lists(words, max_size=3).map(tuple),
    decoding=decodings,
)
failures = st.builds(
    Failure,
    kind=st.sampled_from(["timeout", "auth", "model"]),
    detail=words,
    attempts=st.integers(1, 9),
)
scores = st.builds(
    ContinuationScore, sum=numbers, tokens=st.integers(0, 99), bytes=st.integers(0, 99)
)
usages = st.builds(
    Usage,
    prompt_tokens=st.none() | st.integers(0, 9),
    completion_tokens=st.none() | st.integers(0, 9),
)
responses = st.builds(
    Response,
    text=st.none() | words,
    scores=st.lists(scores, max_size=3).map(tuple),
    finish=st.none() | words,
    usage=st.none() | usages,
    seconds=st.none() | numbers,
    error=st.none() | failures,
    notes=st.lists(words, max_size=2).map(tuple),
)
samples = st.builds(
    Sample,
    id=words,
    benchmark=words,
    question=words,
    images=st.lists(images, max_size=2).map(tuple),
    options=st.lists(words, max_size=4).map(tuple),
    context=st.none() | words,
    turns=st.lists(turns, max_size=2).map(tuple),
    regions=st.lists(
        st.builds(Region, box=st.tuples(numbers, numbers, numbers, numbers)), max_size=1
    ).map(tuple),
    group=words,
    tags=st.dictionaries(words, words, max_size=2),
)
estimates = st.builds(
    Estimate,
    value=st.none() | numbers,
    stderr=numbers,
    low=numbers,
    high=numbers,
    n=st.integers(0, 9),
)
methods = st.sampled_from(["generation", "likelihood"])
predictions = st.builds(
    Prediction,
    protocol=words,
    method=methods,
    benchmark=words,
    sample_id=words,
    variant=variants,
    key=words,
    choice=st.none() | st.integers(0, 9),
    text=st.none() | words,
    follows_format=st.booleans(),
    error=st.none() | failures,
)
verdicts = st.builds(
    Score,
    protocol=words,
    method=methods,
    benchmark=words,
    sample_id=words,
    turn=st.integers(0, 9),
    metric=words,
    value=st.none() | numbers,
    reason=st.none() | st.sampled_from(get_args(UnscoredReason)),
    detail=words,
)
results = st.builds(
    Result,
    model=words,
    benchmark=words,
    protocol=words,
    method=methods,
    metric=words,
    estimate=estimates,
)
records = st.one_of(
    samples,
    requests,
    responses,
    predictions,
    verdicts,
    results,
    st.builds(Exchange, protocol=words, request=requests, response=responses, reused=st.booleans()),
    st.builds(
        Answer,
        sample_id=words,
        turn=st.integers(0, 9),
        options=st.just((1, 2)),
        texts=st.just(("a",)),
    ),
    st.builds(History, sample_id=words, replies=st.just(("a", "b"))),
)


@given(records)
def test_a_record_comes_back_from_json_as_it_went(record: Any) -> None:
    assert msgspec.json.decode(msgspec.json.encode(record), type=type(record)) == record


@pytest.mark.parametrize(
    ("kind", "text", "place"),
    [
        (Sample, '{"id": 5, "benchmark": "b"}', r"\$\.id"),
        (Sample, '{"benchmark": "b"}', "missing required field `id`"),
        (Response, '{"scores": [{"sum": null, "tokens": 1}]}', r"\$\.scores\[0\]\.sum"),
        (Failure, '{"kind": "boredom", "detail": ""}', r"\$\.kind"),
        (Message, '{"role": "user", "content": [{"type": "sound"}]}', r"\$\.content\[0\]\.type"),
    ],
)
def test_json_of_another_form_is_an_error_that_names_the_field(
    kind: type, text: str, place: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match=place):
        msgspec.json.decode(text, type=kind)


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Sample("q", "b").id = "other"  # type: ignore[misc]


IMAGE = ImageRef("ab" * 32, "image/png", 8, 6)
ASKED = Request(
    benchmark="b",
    sample_id="q",
    variant=Variant(test=0, template="choice.generation.0", order=(0, 1), labels=("A", "B")),
    messages=(
        Message("user", (ImagePart(IMAGE), TextPart("What?"))),
        Message("assistant", (TextPart("The"),)),
    ),
)


@pytest.mark.parametrize(
    "change",
    [
        {"benchmark": "c"},
        {"sample_id": "r"},
        {"variant": Variant(test=3, seed=7)},
        {"variant": Variant(turn=1, order=(1, 0), labels=("1", "2"), in_context=True)},
    ],
)
def test_the_key_does_not_depend_on_what_the_model_never_sees(change: dict[str, Any]) -> None:
    assert replace(ASKED, **change).key == ASKED.key


def changed(**image: Any) -> tuple[Message, ...]:
    return (
        Message("user", (ImagePart(replace(IMAGE, **image)), TextPart("What?"))),
        ASKED.messages[1],
    )


@pytest.mark.parametrize(
    "change",
    [
        {"messages": ASKED.messages[:1]},
        {"messages": (ASKED.messages[0], Message("user", ASKED.messages[1].content))},
        {"messages": (Message("user", ASKED.messages[0].content[::-1]), ASKED.messages[1])},
        {"messages": changed(digest="cd" * 32)},
        {"messages": changed(media_type="image/jpeg")},
        {"kind": "loglikelihood"},
        {"continuations": ("a",)},
        {"decoding": Decoding(max_new_tokens=31)},
        {"decoding": Decoding(temperature=0.5)},
        {"decoding": Decoding(top_p=0.5)},
        {"decoding": Decoding(seed=1)},
        {"decoding": Decoding(stop=("\n",))},
    ],
)
def test_the_key_depends_on_all_that_the_model_sees(change: dict[str, Any]) -> None:
    assert replace(ASKED, **change).key != ASKED.key


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"temperature": float("0.0"), "top_p": float("1")}, {}),
        ({"temperature": 0, "top_p": 1}, {}),
        ({"temperature": 1}, {"temperature": 1.0}),
        ({"stop": ["."]}, {"stop": (".",)}),
    ],
)
def test_the_key_does_not_depend_on_how_a_setting_is_written(
    given: dict[str, Any], same: dict[str, Any]
) -> None:
    one, other = (replace(ASKED, decoding=Decoding(**settings)) for settings in (given, same))
    assert one == other and one.key == other.key


def test_the_key_of_a_request_stays_what_it_is() -> None:
    # A journal is found again by this key: another value orphans every run made so far.
    assert ASKED.key == "89f579e1cf0b3999237759367fd33870"


@given(st.lists(words, max_size=4), st.lists(words, max_size=4))
def test_texts_that_only_join_to_the_same_have_different_keys(
    one: list[str], other: list[str]
) -> None:
    asked = [replace(ASKED, continuations=tuple(texts)) for texts in (one, other)]
    assert (asked[0].key == asked[1].key) == (one == other)


def test_a_key_survives_the_journal() -> None:
    assert msgspec.json.decode(msgspec.json.encode(ASKED), type=Request).key == ASKED.key


def test_a_sample_is_a_choice_a_text_or_a_dialogue_by_what_it_has() -> None:
    turn = Turn("What?", ("a", "b"))
    assert Sample("q", "b", "What?").formulation == "text"
    assert Sample("q", "b", "What?", options=("a", "b")).formulation == "choice"
    assert Sample("q", "b", turns=(turn, turn)).formulation == "dialogue"
    assert Sample("q", "b", "What?", options=("a", "b")).rounds == (turn,)
    assert Sample("q", "b", turns=(turn, turn)).rounds == (turn, turn)


def test_a_request_names_its_images_in_order() -> None:
    assert ASKED.images == (IMAGE,)
    assert ASKED.messages[0].text == "What?"
