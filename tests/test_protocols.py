"""Protocols, driven by hand: what they ask, when they stop, and what the field's numbers make of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from small import prompt_for
from snellen.errors import UnknownNameError
from snellen.extraction import find_extractor
from snellen.protocols.base import Protocol, needed_kind, parse_protocol
from snellen.protocols.choice import Circular, Dialogue, Instability, Likelihood, Vanilla, rotations
from snellen.protocols.prediction import LikelihoodRule, most_likely, predict
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.records import (
    Answer,
    ContinuationScore,
    Decoding,
    Failure,
    ImageRef,
    Prediction,
    Request,
    Response,
    Sample,
    Turn,
    Variant,
)
from snellen.runs.drivers import next_requests
from snellen.scoring import choice_metrics as metrics

WORDS = ("cat", "dog", "horse", "cow", "sheep", "goat")
IMAGE = ImageRef("ab" * 32, "image/png", 8, 6)
Replies = Callable[[Request], Response | str]
Asked = list[tuple[Request, Response]]


def sample_of(count: int, name: str = "q") -> Sample:
    return Sample(name, "b", "Which animal?", (IMAGE,), WORDS[:count])


def converse(
    protocol: Protocol,
    sample: Sample,
    reply: Replies,
    prompt: PromptRenderer | None = None,
    history: tuple[str, ...] = (),
) -> Asked:
    """All that the protocol asks of a model that replies so, in order."""
    wave = protocol.ask(
        sample, prompt or prompt_for("dialogue" if sample.turns else "choice"), history
    )
    asked: Asked = []
    responses: list[Response] = []
    while True:
        try:
            requests = next_requests(wave, responses)
        except StopIteration:
            return asked
        given = [reply(request) for request in requests]
        responses = [Response(text=one) if isinstance(one, str) else one for one in given]
        asked.extend(zip(requests, responses, strict=True))


def predictions(protocol: Protocol, sample: Sample, asked: Asked) -> list[Prediction]:
    return [
        predict(protocol.label, sample.rounds[request.variant.turn], request, response)
        for request, response in asked
    ]


def naming(option: int) -> Replies:
    """A model that knows the option by what it is, wherever it stands."""
    return lambda request: f"({request.variant.labels[request.variant.order.index(option)]})"


def placing(place: int) -> Replies:
    """A model that names a place, whatever stands there."""
    return lambda request: f"({request.variant.labels[place]})"


# --- names -------------------------------------------------------------------------------------------------------

settings_of = {
    "vanilla": st.builds(
        Vanilla,
        by=st.sampled_from(["generation", "likelihood"]),
        labels=st.sampled_from(["upper", "lower", "number", "random"]),
        in_context=st.booleans(),
    ),
    "circular": st.builds(
        Circular,
        all_passes=st.booleans(),
        in_context=st.booleans(),
        extractor=st.sampled_from(["standard", "strict"]),
    ),
    "instability": st.builds(
        Instability,
        m=st.integers(1, 9),
        perturb=st.sampled_from(["order", "template", "order,labels", "all", "template,order"]),
        in_context=st.booleans(),
        seed=st.integers(0, 99),
    ),
    "likelihood": st.builds(Likelihood, m=st.integers(1, 6), seed=st.integers(0, 9)),
    "dialogue": st.builds(
        Dialogue,
        history=st.sampled_from(["online", "verbatim", "gold"]),
        m=st.integers(1, 5),
        in_context=st.booleans(),
    ),
}


@given(st.one_of(*settings_of.values()))
def test_a_label_is_the_string_that_names_the_protocol(protocol: Protocol) -> None:
    again = parse_protocol(protocol.label)
    assert again == protocol
    assert again.label == protocol.label


def test_only_what_differs_from_the_defaults_is_in_the_label() -> None:
    assert parse_protocol("instability?m=5").label == "instability"
    assert (
        parse_protocol("instability?m=3&in_context=false").label
        == "instability?m=3&in_context=false"
    )
    assert parse_protocol("circular?all_passes").label == "circular?all_passes=true"
    for name, default in (
        ("vanilla", "false"),
        ("circular", "false"),
        ("instability", "true"),
        ("dialogue", "true"),
    ):
        assert parse_protocol(f"{name}?in_context={default}").label == name
        assert parse_protocol(name).in_context is (default == "true")
    assert needed_kind(parse_protocol("likelihood")) == needed_kind(
        parse_protocol("vanilla?by=likelihood")
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("circlar", "unknown protocol 'circlar'; did you mean circular"),
        ("instability?n=5", "unknown option of instability 'n'; known: "),
        ("vanilla?label=upper", r"unknown option of vanilla 'label'; did you mean labels"),
        ("instability?m=many", "protocol 'instability.m=many': Expected `int`"),
        ("instability?m=0", "instability needs m >= 1, not 0"),
        ("likelihood?m=0", "likelihood needs m >= 1, not 0"),
        ("dialogue?m=-1", "dialogue needs m >= 1, not -1"),
        ("instability?perturb=colour", "perturb=colour is not one of template, order, labels, all"),
        ("vanilla?by=magic", "Invalid enum value 'magic'"),
        ("circular?extractor=standrad", "unknown extractor 'standrad'; did you mean standard"),
        ("dialogue?extractor=standrad", "unknown extractor 'standrad'; did you mean standard"),
        ("dialogue?history=silver", "Invalid enum value 'silver'"),
    ],
)
def test_a_wrong_protocol_is_refused_before_anything_is_asked(text: str, fault: str) -> None:
    with pytest.raises(UnknownNameError, match=fault):
        parse_protocol(text)


def test_a_protocol_says_what_it_applies_to() -> None:
    text, choice = Sample("t", "b", "What?"), sample_of(4)
    dialogue = Sample("d", "b", turns=(Turn("Which?", ("cat", "dog")),))
    applies = {
        name: [parse_protocol(name).applies(sample) for sample in (text, choice, dialogue)]
        for name in (
            "vanilla",
            "vanilla?by=likelihood",
            "circular",
            "instability",
            "instability?by=likelihood",
            "likelihood",
            "likelihood?pmi=text",
            "dialogue",
        )
    }
    assert applies == {
        "vanilla": [True, True, True],
        "vanilla?by=likelihood": [False, True, True],
        "circular": [False, True, False],
        "instability": [True, True, True],
        "instability?by=likelihood": [False, True, True],
        "likelihood": [False, True, True],
        "likelihood?pmi=text": [False, True, False],
        "dialogue": [False, False, True],
    }


@pytest.mark.parametrize(
    ("name", "presentations", "vanilla", "words"),
    [
        ("vanilla", 1, 1, ""),
        ("circular", 4, 1, "stops_early circular"),
        ("circular?all_passes", 4, 1, "circular"),
        ("instability", 5, 5, "instability"),
        ("instability?m=1", 1, 1, ""),
        ("likelihood?m=2", 2, 2, "instability"),
        ("likelihood?pmi=text", 1, 1, "baselines"),
        ("dialogue?m=3", 3, 3, "instability"),
    ],
)
def test_a_protocol_declares_what_its_presentations_are_good_for(
    name: str, presentations: int, vanilla: int, words: str
) -> None:
    """`vanilla`: how many of its presentations make a vanilla accuracy, the first ones."""
    declared = parse_protocol(name).declaration  # type: ignore[attr-defined]
    assert declared.n_presentations(sample_of(4)) == presentations
    assert declared.n_unbiased == vanilla
    unbiased = [declared.is_unbiased(Variant(test=test)) for test in range(presentations)]
    assert unbiased == [test < vanilla for test in range(presentations)]
    flags = ("stops_early", "baselines", "circular", "instability")
    assert [flag for flag in flags if getattr(declared, flag)] == words.split()
    assert declared.sees_images


def test_without_a_seed_the_first_presentation_is_asked_with_seed_0() -> None:
    def reply(request: Request) -> Response:
        return Response(text="(A)", scores=tuple(ContinuationScore(-float(i), 1) for i in range(2)))

    sample = replace(TALK, turns=(TALK.turns[2],))
    for name in ("vanilla", "instability?m=2", "likelihood?m=2", "dialogue?m=2"):
        seeds = [
            request.variant.seed for request, _ in converse(parse_protocol(name), sample, reply)
        ]
        assert seeds == list(range(len(seeds))), name


# --- vanilla -----------------------------------------------------------------------------------------------------


def test_vanilla_asks_once_in_the_stored_order() -> None:
    [(request, _)] = converse(Vanilla(), sample_of(4), naming(2))
    assert request.variant.order == (0, 1, 2, 3)
    assert "(A) cat; (B) dog; (C) horse; (D) cow." in request.messages[0].text


@given(st.permutations(range(5)), st.integers(0, 4))
def test_a_prediction_is_the_option_and_not_its_letter(order: list[int], place: int) -> None:
    request = prompt_for("choice").generate(
        sample_of(5),
        Variant(template="choice.generation.0", order=tuple(order), labels=tuple("ABCDE")),
    )
    question = Turn("Which animal?", WORDS[:5])
    for reply in (
        f"({'ABCDE'[place]})",
        WORDS[order[place]],
        f"The answer is ({'ABCDE'[place]}) {WORDS[order[place]]}.",
    ):
        assert predict("vanilla", question, request, Response(text=reply)).choice == order[place]


def test_a_prediction_keeps_probabilities_by_identity() -> None:
    reply = "You'd think it is the first one, a cat, but maybe it's the dog"
    question = Turn("Which animal?", ("cat", "dog", "cow"))
    renderer = prompt_for("choice")
    shown_by_order = {}
    for order in ((0, 1, 2), (2, 1, 0)):
        variant = Variant(template="choice.generation.0", order=order, labels=tuple("ABC"))
        request = renderer.generate(replace(sample_of(3), options=question.options), variant)
        shown_by_order[order] = predict("vanilla", question, request, Response(text=reply))
    as_stored = shown_by_order[0, 1, 2]
    reversed_order = shown_by_order[2, 1, 0]

    assert len(as_stored.probabilities) == 4
    assert sum(as_stored.probabilities) == pytest.approx(1, abs=1e-3)
    assert as_stored.probability_of([2]) < as_stored.probability_of([0, 1])
    assert reversed_order.probability_of([2]) < reversed_order.probability_of([0, 1])


def test_a_presentation_that_says_no_order_shows_the_options_as_they_are_stored() -> None:
    request = prompt_for("choice").generate(
        sample_of(3),
        Variant(template="choice.generation.0", order=(0, 1, 2), labels=("A", "B", "C")),
    )
    unordered = replace(request, variant=replace(request.variant, order=()))
    prediction = predict(
        "mine", Turn("Which animal?", WORDS[:3]), unordered, Response(text="(C) horse")
    )
    assert (prediction.choice, prediction.follows_format) == (2, True)


def test_open_questions_are_predicted_by_their_text() -> None:
    sample = Sample("t", "b", "What?")
    asked = converse(Vanilla(), sample, lambda request: " a cat ", prompt_for("text"))
    assert [
        (p.text, p.choice, p.extraction_method) for p in predictions(Vanilla(), sample, asked)
    ] == [(" a cat ", None, "verbatim")]


def test_a_reply_is_read_with_its_question() -> None:
    confidences = {}
    for question in ("Which statement is right?", "Which statement is wrong?"):
        sample = replace(sample_of(3), question=question)
        asked = converse(Vanilla(), sample, lambda request: "B is correct: the picture shows it.")
        [prediction] = predictions(Vanilla(), sample, asked)
        confidences[question] = prediction.confidence
    assert confidences["Which statement is right?"] == "certain"
    assert confidences["Which statement is wrong?"] != "certain"


def test_a_prediction_says_by_what_it_was_read() -> None:
    sample = sample_of(2)
    asked = converse(Vanilla(), sample, lambda request: "(A)")
    likely = converse(
        Likelihood(), sample, lambda request: Response(scores=tuple(scores(-1.0, -2.0)))
    )
    read = [
        predict("p", sample.rounds[0], request, response, extractor, rule)
        for (request, response), extractor, rule in zip(
            (*asked, *asked, *likely),
            ("standard", "strict", "strict"),
            ("sum", "sum", "byte"),
            strict=True,
        )
    ]
    assert [p.extractor_version for p in read] == [
        find_extractor("standard").version,
        find_extractor("strict").version,
        "likelihood-byte-1",
    ]


def test_what_could_not_be_parsed_is_kept_as_it_came_and_only_that() -> None:
    replies = ["  Well. ", "", "(B)"]
    texts = [
        p.unparsed_text
        for reply in replies
        for p in predictions(
            Vanilla(), sample_of(3), converse(Vanilla(), sample_of(3), lambda r, reply=reply: reply)
        )
    ]
    assert texts == ["  Well. ", "", None]


def test_an_error_is_predicted_as_one() -> None:
    failed = Response(error=Failure("timeout", "too late", 3))
    [prediction] = predictions(
        Vanilla(), sample_of(3), converse(Vanilla(), sample_of(3), lambda request: failed)
    )
    assert (prediction.choice, prediction.extraction_method, prediction.error) == (
        None,
        None,
        failed.error,
    )
    assert (prediction.reason, prediction.detail) == ("request failed", "timeout")


# --- circular ----------------------------------------------------------------------------------------------------


def test_rotations_are_all_cyclic_shifts_from_the_unshifted_on() -> None:
    assert list(rotations(3)) == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    for count in range(2, 9):
        places = Counter(
            (place, option) for order in rotations(count) for place, option in enumerate(order)
        )
        assert set(places.values()) == {1}
        assert len(places) == count * count


def test_circular_asks_all_rotations_of_a_model_that_knows() -> None:
    asked = converse(Circular(), sample_of(4), naming(3))
    assert [request.variant.order for request, _ in asked] == list(rotations(4))
    assert {p.choice for p in predictions(Circular(), sample_of(4), asked)} == {3}


def test_circular_stops_when_two_rotations_disagree() -> None:
    assert len(converse(Circular(), sample_of(4), placing(0))) == 2
    assert len(converse(Circular(all_passes=True), sample_of(4), placing(0))) == 4


def test_circular_stops_at_a_reply_that_names_no_option_and_at_an_error() -> None:
    assert len(converse(Circular(), sample_of(4), lambda request: "I cannot say.")) == 1
    assert (
        len(
            converse(
                Circular(), sample_of(4), lambda request: Response(error=Failure("server", "500"))
            )
        )
        == 1
    )


def test_what_ends_a_question_early_is_read_by_the_extractor_of_the_protocol() -> None:
    assert len(converse(Circular(), sample_of(4), lambda request: "It is a cat.")) == 4
    assert (
        len(converse(Circular(extractor="strict"), sample_of(4), lambda request: "It is a cat."))
        == 1
    )


scripts = st.integers(2, 6).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.integers(0, count - 1),
        st.lists(st.none() | st.integers(0, count - 1), min_size=count, max_size=count),
        st.sampled_from(["option", "place"]),
    )
)


@given(scripts)
def test_stopping_early_gives_the_verdict_of_all_passes(
    script: tuple[int, int, list[int | None], str],
) -> None:
    """`script` says for each rotation which option (or place) is named, or None for a reply nobody can read."""
    count, gold, chosen, what = script
    sample, answer = sample_of(count), Answer("q", options=(gold,))

    def reply(request: Request) -> str:
        pick = chosen[request.variant.test]
        if pick is None:
            return "Who knows?"
        place = request.variant.order.index(pick) if what == "option" else pick
        return f"({request.variant.labels[place]})"

    early, whole = (
        predictions(protocol, sample, converse(protocol, sample, reply))
        for protocol in (Circular(), Circular(all_passes=True))
    )
    assert len(early) <= len(whole) == count
    assert [(p.variant, p.choice) for p in early] == [
        (p.variant, p.choice) for p in whole[: len(early)]
    ]
    verdicts = [metrics.circular(found, answer, count) for found in (early, whole)]
    assert verdicts[0] == verdicts[1]
    strict = [1.0 if verdict == 1 else 0.0 for verdict in verdicts]
    assert strict[0] == strict[1] == float(all(p.choice == gold for p in whole))


@given(st.permutations(range(4)), st.integers(0, 3))
def test_shuffling_the_stored_options_changes_no_verdict(order: list[int], gold: int) -> None:
    """A model that goes by the options' texts is right or wrong whatever order they are stored in."""
    shuffled = replace(sample_of(4), options=tuple(WORDS[i] for i in order))
    for protocol in (Vanilla(), Circular(), Instability(), Likelihood()):

        def reply(request: Request) -> Response:
            if request.kind == "loglikelihood":
                return Response(
                    scores=tuple(
                        ContinuationScore(-float(t != WORDS[gold]), 1)
                        for t in request.continuations
                    )
                )
            return Response(text=WORDS[gold])

        found = predictions(protocol, shuffled, converse(protocol, shuffled, reply))
        assert {shuffled.options[p.choice] for p in found if p.choice is not None} == {WORDS[gold]}
        assert all(p.choice == order.index(gold) for p in found)


# --- instability -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(2, 7))
@pytest.mark.parametrize("times", [1, 2, 3])
def test_every_option_stands_in_every_place_equally_often_when_m_is_a_multiple(
    count: int, times: int
) -> None:
    asked = converse(Instability(m=count * times, seed=3), sample_of(count), placing(0))
    places = Counter(pair for request, _ in asked for pair in enumerate(request.variant.order))
    assert places == {(place, option): times for place in range(count) for option in range(count)}


def test_orders_are_the_same_for_the_same_seed_and_new_for_another() -> None:
    def orders(protocol: Instability, name: str) -> list[tuple[int, ...]]:
        return [
            request.variant.order
            for request, _ in converse(protocol, sample_of(6, name), placing(0))
        ]

    assert orders(Instability(), "q") == orders(Instability(), "q")
    assert orders(Instability(), "q") != orders(Instability(seed=1), "q")
    assert orders(Instability(), "q") != orders(Instability(), "r")
    assert orders(Instability(m=3), "q") == orders(Instability(m=5), "q")[:3]


@pytest.mark.parametrize(
    ("name", "labels", "orders"),
    [
        ("vanilla?labels=random", "1", ["0123"]),
        ("circular?labels=random&all_passes", "11A1", ["0123", "1230", "2301", "3012"]),
        (
            "instability?m=6&perturb=all&seed=3",
            "a1AAA1",
            ["2103", "1032", "0321", "3210", "3201", "2013"],
        ),
    ],
)
def test_what_is_drawn_for_a_presentation_is_drawn_again_by_each_snellen_to_come(
    name: str, labels: str, orders: list[str]
) -> None:
    """Frozen: another draw is another request, so that a run that was stopped would begin anew."""
    given = [r.variant for r, _ in converse(parse_protocol(name), sample_of(4), naming(0))]
    assert ["".join(map(str, variant.order)) for variant in given] == orders
    assert "".join(variant.labels[0] for variant in given) == labels


@pytest.mark.parametrize("name", ["likelihood?m=7", "instability?m=7"])
def test_presentations_take_turns_with_the_wordings_of_a_question(name: str) -> None:
    sample = replace(sample_of(3), rewordings=("Name the animal.", "What is it called?"))

    def reply(request: Request) -> Response:
        return Response(text="(A)", scores=tuple(ContinuationScore(-float(i), 1) for i in range(3)))

    requests = [request for request, _ in converse(parse_protocol(name), sample, reply)]
    assert [request.variant.wording for request in requests] == [0, 1, 2, 0, 1, 2, 0]
    ways = ("Which animal?", *sample.rewordings)
    texts = ["\n".join(message.text for message in request.messages) for request in requests]
    assert [[way in text for way in ways].index(True) for text in texts] == [0, 1, 2, 0, 1, 2, 0]
    same = [
        r.variant.wording for r, _ in converse(Instability(m=3, perturb="order"), sample, reply)
    ]
    assert same == [0, 0, 0]


@pytest.mark.parametrize(
    ("perturb", "templates", "orders", "labels"),
    [
        ("template", 5, 1, 1),
        ("order", 1, 4, 1),
        ("labels", 1, 1, 3),
        ("template,order", 5, 4, 1),
        ("all", 5, 4, 3),
    ],
)
def test_only_what_is_perturbed_differs(
    perturb: str, templates: int, orders: int, labels: int
) -> None:
    variants = [
        request.variant
        for request, _ in converse(Instability(m=24, perturb=perturb), sample_of(4), placing(0))
    ]
    assert len({v.template for v in variants[:5]}) == templates
    assert len({v.order for v in variants[:4]}) == orders
    assert len({v.labels for v in variants}) == labels
    assert variants[0].template == "choice.generation.0"
    if orders == 1:
        assert variants[0].order == (0, 1, 2, 3)
    if labels == 1:
        assert variants[0].labels == ("A", "B", "C", "D")


@pytest.mark.parametrize("name", ["vanilla?", "circular?all_passes&", "instability?m=2&"])
@pytest.mark.parametrize("shown", [True, False])
def test_the_example_dialogue_is_shown_in_every_presentation_or_in_none(
    name: str, shown: bool
) -> None:
    asked = converse(
        parse_protocol(f"{name}in_context={str(shown).lower()}"), sample_of(2), naming(0)
    )
    assert {request.variant.in_context for request, _ in asked} == {shown}
    assert {len(request.messages) > 2 for request, _ in asked} == {shown}


def test_all_presentations_come_in_one_wave() -> None:
    wave = Instability(m=7).ask(sample_of(4), prompt_for("choice"))
    assert [request.variant.test for request in next(wave)] == list(range(7))


def test_an_open_question_is_presented_with_several_templates() -> None:
    sample = Sample("t", "b", "What?")
    asked = converse(Instability(), sample, lambda request: "x", prompt_for("text"))
    assert [request.variant.template for request, _ in asked] == [
        f"text.generation.{i}" for i in range(5)
    ]
    assert not any(request.variant.in_context or request.variant.order for request, _ in asked)


def entropy(choices: str) -> float:
    variants = [Variant(test=i) for i in range(len(choices))]
    return metrics.instability(
        [
            Prediction(
                "instability",
                "generation",
                "b",
                "q",
                v,
                "k",
                choice=None if c == "?" else "ABCDEFG".index(c),
            )
            for v, c in zip(variants, choices, strict=True)
        ]
    )


@pytest.mark.parametrize(
    ("choices", "nats"),
    [
        # The paper's own example: AABBC over three options.
        ("AABBC", 1.0549),
        ("AAAAA", 0.0),
        # The most that five presentations can give, for 2, 3, 4 and 5 or more options.
        ("AAABB", 0.6730),
        ("AABBC", 1.0549),
        ("AABCD", 1.3322),
        ("ABCDE", 1.6094),
        ("AABB?", 1.0549),
        ("?????", 0.0),
        ("A", 0.0),
    ],
)
def test_instability_is_the_entropy_of_what_was_chosen(choices: str, nats: float) -> None:
    assert entropy(choices) == pytest.approx(nats, abs=5e-5)
    assert entropy("".join(sorted(choices, reverse=True))) == pytest.approx(entropy(choices))


@given(st.integers(2, 7), st.lists(st.integers(0, 6), min_size=1, max_size=12))
def test_instability_is_bounded_by_the_options_and_by_the_presentations(
    count: int, chosen: list[int]
) -> None:
    value = entropy("".join("ABCDEFG"[c % count] for c in chosen))
    assert -1e-12 <= value <= min(math.log(count), math.log(len(chosen))) + 1e-9
    share, rest = divmod(len(chosen), count)
    most = -sum(
        k / len(chosen) * math.log(k / len(chosen))
        for k in [share + 1] * rest + [share] * (count - rest)
        if k
    )
    assert value <= most + 1e-9


def test_the_metrics_of_one_question_by_hand() -> None:
    def of(*choices: int | None) -> list[Prediction]:
        return [
            Prediction(
                "p",
                "generation",
                "b",
                "q",
                Variant(test=i),
                "k",
                choice=c,
                follows_format=c is not None,
            )
            for i, c in enumerate(choices)
        ]

    answer = Answer("q", options=(1,))
    assert metrics.accuracy(of(1, 0, None, 1), answer) == pytest.approx(2 / 4)
    assert metrics.accuracy_of_parsed(of(1, 0, None, 1), answer) == pytest.approx(2 / 3)
    assert metrics.accuracy_upper(of(1, 0, None, 1), answer) == pytest.approx(3 / 4)
    assert metrics.accuracy(of(None), answer) == 0.0
    assert metrics.accuracy_of_parsed(of(None), answer) is None
    assert metrics.hit_rate(of(1, 0, None, 1)) == pytest.approx(3 / 4)
    assert metrics.circular(of(1, 1), answer, 2) == 1.0
    assert metrics.circular(of(1, None), answer, 2) == 0.0
    assert metrics.circular_of_parsed(of(1, None), answer, 2) is None
    assert metrics.circular(of(1), answer, 2) is None
    assert (
        metrics.circular_of_parsed(of(None, 0), answer, 2)
        == metrics.circular_of_parsed(of(0, None), answer, 2)
        == 0.0
    )
    # Two right options, but not the same one twice.
    assert metrics.circular(of(1, 2), Answer("q", options=(1, 2)), 2) == 0.0


# --- likelihood --------------------------------------------------------------------------------------------------


def test_likelihood_scores_the_options_in_their_own_order_under_m_templates() -> None:
    asked = converse(
        Likelihood(m=3),
        sample_of(3),
        lambda r: Response(
            scores=tuple(ContinuationScore(-1.0 * (t != "dog"), 1) for t in r.continuations)
        ),
    )
    assert [request.continuations for request, _ in asked] == [("cat", "dog", "horse")] * 3
    assert [request.variant.template for request, _ in asked] == [
        f"choice.likelihood.{i}" for i in range(3)
    ]
    assert {(p.choice, p.method) for p in predictions(Likelihood(m=3), sample_of(3), asked)} == {
        (1, "likelihood")
    }


def test_rotations_under_likelihood_are_one_request_and_one_choice() -> None:
    protocol = Circular(by="likelihood")
    asked = converse(
        protocol,
        sample_of(4),
        lambda r: Response(
            scores=tuple(ContinuationScore(-float(t != "cow"), 1) for t in r.continuations)
        ),
    )
    assert len(asked) == 4
    assert len({request.key for request, _ in asked}) == 1
    assert {p.choice for p in predictions(protocol, sample_of(4), asked)} == {3}


def scores(
    *sums: float, tokens: tuple[int, ...] = (), octets: tuple[int, ...] = ()
) -> list[ContinuationScore]:
    return [
        ContinuationScore(value, *(counts[i] if counts else 1 for counts in (tokens, octets)))
        for i, value in enumerate(sums)
    ]


def test_a_tie_goes_to_the_lower_index_and_is_said() -> None:
    for rule in get_args(LikelihoodRule):
        assert most_likely(scores(-2.0, -1.0, -1.0), rule) == (1, "tie", None)


def test_nan_and_scores_all_the_same_decide_nothing() -> None:
    assert most_likely(scores(-1.0, math.nan), "sum") == (None, None, "not a number")
    assert most_likely(scores(-1.0, -1.0, -1.0), "sum") == (None, None, "all alike")
    assert most_likely([], "sum") == (None, None, "not a number")
    assert most_likely(scores(-1.0, -2.0), "sum") == (0, "likelihood", None)
    assert most_likely(scores(-1.0), "sum") == (
        0,
        "likelihood",
        None,
    )  # one option is no tie with itself


def test_rules_differ_in_what_a_score_is_divided_by() -> None:
    three = scores(-4.0, -5.0, -6.0, tokens=(1, 4, 2), octets=(4, 5, 12))
    assert [most_likely(three, rule)[0] for rule in ("sum", "mean", "byte")] == [0, 1, 2]
    assert [most_likely(three, rule)[0] for rule in ("conditional", "softmax", "pmi")] == [0, 1, 0]
    assert most_likely(scores(-1.0, -2.0, tokens=(0, 0), octets=(0, 0)), "byte") == (
        0,
        "likelihood",
        None,
    )


@given(st.lists(st.floats(-1e6, 0), min_size=2, max_size=6), st.randoms())
def test_the_most_likely_option_does_not_depend_on_the_order_of_the_others(
    sums: list[float], rng: object
) -> None:
    choice, method, reason = most_likely(scores(*sums), "sum")
    assert (method or reason) == (
        "all alike" if len(set(sums)) == 1 else "tie" if sums.count(max(sums)) > 1 else "likelihood"
    )
    assert choice is None or sums[choice] == max(sums)
    if method == "likelihood":
        assert most_likely(scores(*sums[::-1]), "sum")[0] == len(sums) - 1 - choice  # type: ignore[operator]


# --- dialogue ----------------------------------------------------------------------------------------------------

TALK = Sample(
    "d",
    "b",
    images=(IMAGE,),
    turns=(Turn("Which?", ("cat", "dog", "cow")), Turn("What?"), Turn("And?", ("red", "blue"))),
)


def histories(asked: Asked) -> list[list[str]]:
    """What the model is said to have replied, by request (the in-context reply and the prefix left out)."""
    found = []
    for request, _ in asked:
        replies = [message.text for message in request.messages if message.role == "assistant"]
        found.append(
            [reply for reply in replies if reply not in ("The answer is", "The answer is (A) Yes.")]
        )
    return found


def test_a_dialogue_tells_the_model_its_own_answers() -> None:
    replies = {0: "It is B", 1: "a small cat", 2: "(A)"}
    asked = converse(Dialogue(), TALK, lambda request: replies[request.variant.turn])
    assert histories(asked) == [
        [],
        ["The answer is (B) dog."],
        ["The answer is (B) dog.", "a small cat"],
    ]
    assert [p.choice for p in predictions(Dialogue(), TALK, asked)] == [1, None, 0]


def test_a_dialogue_reads_its_history_by_the_extractor_of_the_protocol() -> None:
    told = [
        histories(converse(Dialogue(extractor=name), TALK, lambda r: " dog"))[1]
        for name in ("standard", "strict")
    ]
    assert told == [["The answer is (B) dog."], ["The answer is dog"]]


@pytest.mark.parametrize("reply", ["dog", " dog", "The answer is dog", "The answer is dog\n"])
def test_an_unparsed_reply_is_told_behind_the_prefix_that_it_went_on_from(reply: str) -> None:
    asked = converse(Dialogue(extractor="strict"), TALK, lambda request: reply)
    assert histories(asked)[1] == ["The answer is dog"]


def test_a_dialogue_with_gold_history_tells_the_published_answers() -> None:
    protocol = Dialogue(history="gold")
    asked = converse(
        protocol, TALK, lambda request: "(C) cow", history=("cat", "a gold text", "red")
    )
    assert histories(asked) == [
        [],
        ["The answer is (A) cat."],
        ["The answer is (A) cat.", "a gold text"],
    ]
    assert protocol.gold_history
    assert not Dialogue().gold_history


@pytest.mark.parametrize(
    ("votes", "told"),
    [
        ("ABB", "The answer is (B) dog."),
        ("BAAB?", "The answer is (B) dog."),
        ("CAB", "The answer is (C) cow."),
        ("??C", "The answer is (C) cow."),
        ("???", "The answer is nobody knows"),
    ],
)
def test_the_history_is_what_most_presentations_chose_and_ties_go_to_the_earliest(
    votes: str, told: str
) -> None:
    def reply(request: Request) -> str:
        vote = votes[request.variant.test]
        return " nobody knows" if vote == "?" else f"({vote})"

    asked = converse(Dialogue(m=len(votes)), replace(TALK, turns=TALK.turns[:2]), reply)
    assert [one for one in histories(asked) if one] == [[told]] * len(votes)


@pytest.mark.parametrize(
    ("votes", "told"),
    [
        ("ABB", "The answer is B. That is my answer."),
        ("?AB", "The answer is A. That is my answer."),
        ("???", "The answer is nobody knows"),
    ],
)
def test_a_verbatim_history_is_in_the_words_of_the_first_that_chose_what_most_chose(
    votes: str, told: str
) -> None:
    def reply(request: Request) -> str:
        vote = votes[request.variant.test]
        return " nobody knows" if vote == "?" else f" {vote}. That is my answer."

    asked = converse(Dialogue(m=3, history="verbatim"), replace(TALK, turns=TALK.turns[:2]), reply)
    assert [one for one in histories(asked) if one] == [[told]] * 3


def test_all_presentations_of_a_round_share_one_history_but_not_the_template() -> None:
    asked = converse(Dialogue(m=3), TALK, lambda request: "(A)")
    rounds = [
        [request for request, _ in asked if request.variant.turn == turn] for turn in range(3)
    ]
    assert [len(requests) for requests in rounds] == [3, 3, 3]
    assert all(len({request.variant.template for request in requests}) == 3 for requests in rounds)
    assert all(
        len({str(history) for history in histories([(r, Response()) for r in requests])}) == 1
        for requests in rounds
    )


def test_a_dialogue_ends_with_a_round_that_was_never_answered() -> None:
    failed = Response(error=Failure("server", "500"))
    asked = converse(Dialogue(m=2), TALK, lambda request: failed if request.variant.test else "(A)")
    assert [request.variant.turn for request, _ in asked] == [0, 0]


def test_under_likelihood_the_history_is_the_bare_text() -> None:
    sample = replace(TALK, turns=(TALK.turns[0], TALK.turns[2]))

    def reply(request: Request) -> Response:
        return Response(
            scores=tuple(ContinuationScore(-float(i), 1) for i in range(len(request.continuations)))
        )

    asked = converse(Dialogue(by="likelihood"), sample, reply)
    assert [request.messages[-2].text if request.variant.turn else "" for request, _ in asked] == [
        "",
        "cat",
    ]
    same = converse(
        Dialogue(by="likelihood"),
        sample,
        lambda r: Response(scores=tuple(ContinuationScore(0.0, 1) for _ in r.continuations)),
    )
    assert same[1][0].messages[-2].text == ""


@pytest.mark.parametrize("name", ["vanilla", "instability?m=3", "likelihood?m=2"])
def test_a_dialogue_is_asked_by_the_other_protocols_too_under_their_own_name(name: str) -> None:
    protocol, sample = parse_protocol(name), replace(TALK, turns=(TALK.turns[0], TALK.turns[2]))

    def reply(request: Request) -> Response:
        if request.kind == "loglikelihood":
            return Response(
                scores=tuple(
                    ContinuationScore(-float(i), 1) for i in range(len(request.continuations))
                )
            )
        return Response(text="(A)")

    asked = converse(protocol, sample, reply)
    tests = getattr(protocol, "m", 1)
    assert [(r.variant.turn, r.variant.test) for r, _ in asked] == [
        (turn, test) for turn in (0, 1) for test in range(tests)
    ]
    assert {p.protocol for p in predictions(protocol, sample, asked)} == {name}


@pytest.mark.parametrize("name", ["vanilla", "instability?m=2&seed=4", "dialogue?m=2&seed=4"])
def test_the_rounds_of_a_dialogue_are_asked_with_all_settings_of_their_protocol(name: str) -> None:
    sample = replace(TALK, turns=(TALK.turns[0], TALK.turns[2]))
    prompt = prompt_for("dialogue", decoding=Decoding(temperature=1.0))
    for labels, in_context in (("lower", True), ("number", False)):
        text = f"{name}{'&' if '?' in name else '?'}labels={labels}&in_context={str(in_context).lower()}"
        protocol = parse_protocol(text)
        asked = converse(protocol, sample, lambda request: f"({request.variant.labels[1]})", prompt)
        first, seed = ("a" if labels == "lower" else "1"), getattr(protocol, "seed", 0)
        assert {request.variant.labels[0] for request, _ in asked} == {first}
        assert {request.variant.in_context for request, _ in asked} == {in_context}
        assert [r.decoding.seed for r, _ in asked] == [seed + r.variant.test for r, _ in asked]
        assert [r.variant.seed for r, _ in asked] == [seed + r.variant.test for r, _ in asked]


def test_sampled_presentations_differ_by_seed() -> None:
    prompt = prompt_for("choice", decoding=Decoding(temperature=1.0))
    asked = converse(Instability(m=3, perturb="order", seed=4), sample_of(2), placing(0), prompt)
    assert [request.decoding.seed for request, _ in asked] == [4, 5, 6]
