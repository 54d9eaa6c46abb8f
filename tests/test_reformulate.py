"""The re-formulation toolkit: which samples take part, which distractors, which regions."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import small
from snellen.building.recipe import BuildStats, Recipe, needs_writing, reformulate
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.common.drafts import DistractorSpec, Draft, ImageSpec, Outline, QuestionDraft
from snellen.common.drawing import PALETTE, from_corners, render_image
from snellen.errors import DataError
from snellen.records import Box
from snellen.reformulation.answer_equality import opposite_yes_no, same_answer
from snellen.reformulation.distractors import MAX_CANDIDATES, to_multiple_choice
from snellen.reformulation.sampling import (
    Sampling,
    SamplingRule,
    draw_sample,
    inclusion_probabilities,
)

# --- sampling --------------------------------------------------------------------------------------------------

strata = st.lists(st.sampled_from("abcde"), min_size=1, max_size=120)
ratios = st.sampled_from([0.01, 0.02, 0.1, 0.2, 0.25, 0.5, 0.999, 1.0]) | st.floats(0.001, 1)


@st.composite
def samplings(draw: st.DrawFn, size: int) -> Sampling:
    """Any rule that a source of `size` samples can satisfy."""
    rule = draw(st.sampled_from(["all", "random", "balanced", "equal", "equidistant"]))
    count = st.integers(1, size)
    match rule:
        case "all":
            return Sampling()
        case "equidistant":
            return Sampling(rule, step=draw(st.integers(1, 2 * size)))
        case "equal":
            return (
                Sampling(rule, each=draw(count))
                if draw(st.booleans())
                else Sampling(rule, count=draw(count))
            )
        case _:
            return (
                Sampling(rule, ratio=draw(ratios))
                if draw(st.booleans())
                else Sampling(rule, count=draw(count))
            )


@given(data=st.data(), strata=strata)
def test_places_are_ascending_distinct_and_the_same_again(
    data: st.DataObject, strata: list[str]
) -> None:
    sampling = data.draw(samplings(len(strata)))
    places = draw_sample(strata, sampling, "bench", "sample", 0)
    assert places == sorted(set(places)) and set(places) <= set(range(len(strata)))
    assert places == draw_sample(tuple(strata), sampling, "bench", "sample", 0)


@given(data=st.data(), strata=strata)
def test_a_rule_takes_as_many_as_it_says(data: st.DataObject, strata: list[str]) -> None:
    sampling = data.draw(samplings(len(strata)))
    count, sizes = len(strata), Counter(strata)
    if sampling.each:
        expected = sum(min(size, sampling.each) for size in sizes.values())
    elif sampling.step:
        expected = -(-count // sampling.step)
    elif sampling.ratio:
        # The whole part; the least ratio here is no rounding error away from it.
        expected = max(int(sampling.ratio * count + 1e-9), 1)
    else:
        expected = sampling.count or count
    assert len(draw_sample(strata, sampling, "bench")) == expected


@pytest.mark.parametrize(
    ("count", "ratio", "taken"),
    [
        (3669, 0.1, 366),
        (2167, 0.1, 216),
        (4049, 0.1, 404),
        (50000, 0.1, 5000),
        (100, 0.29, 29),
        (5, 0.1, 1),
    ],
)
def test_a_ratio_takes_the_whole_part_of_its_share_and_one_at_least(
    count: int, ratio: float, taken: int
) -> None:
    # The first four are sizes behind the paper's published scores.
    assert len(draw_sample(["x"] * count, Sampling("random", ratio=ratio), "b")) == taken


@pytest.mark.parametrize(
    ("count", "step", "taken"), [(8696, 40, 218), (21320, 100, 214), (38267, 100, 383)]
)
def test_equidistant_sampling_gives_the_papers_sizes(count: int, step: int, taken: int) -> None:
    assert len(draw_sample(["x"] * count, Sampling("equidistant", step=step), "b")) == taken


@given(data=st.data(), strata=strata)
def test_balanced_shares_are_within_one_of_proportional(
    data: st.DataObject, strata: list[str]
) -> None:
    wanted = data.draw(st.integers(1, len(strata)))
    places = draw_sample(strata, Sampling("balanced", count=wanted), "b")
    taken = Counter(strata[place] for place in places)
    for name, size in Counter(strata).items():
        assert abs(taken[name] - wanted * size / len(strata)) < 1


@given(data=st.data(), strata=strata)
def test_equal_shares_differ_only_where_a_stratum_is_exhausted(
    data: st.DataObject, strata: list[str]
) -> None:
    places = draw_sample(
        strata, Sampling("equal", count=data.draw(st.integers(1, len(strata)))), "b"
    )
    sizes, taken = Counter(strata), Counter(strata[place] for place in places)
    most = max(taken.values())
    for name, size in sizes.items():
        assert taken[name] == size or taken[name] >= most - 1


@given(strata=strata, seed=st.integers(0, 99))
def test_only_the_order_of_the_strata_names_matters_and_not_the_names(
    strata: list[str], seed: int
) -> None:
    renamed = [f"stratum {name}" for name in strata]
    half = Sampling("balanced", ratio=0.5)
    assert draw_sample(strata, half, "b", seed) == draw_sample(renamed, half, "b", seed)


def test_names_seed_the_draw() -> None:
    draws = {
        tuple(draw_sample(["x"] * 50, Sampling("random", count=5), "bench", seed))
        for seed in range(20)
    }
    assert len(draws) == 20


def test_every_sample_is_drawn_as_often_as_any_other() -> None:
    counts: Counter[int] = Counter()
    for seed in range(2000):
        counts.update(draw_sample(list("aab" * 4), Sampling("balanced", count=3), seed))
    # 12 samples, 3 of them each time: 500 of 2000 for each, give or take 4.5 standard errors (19.4).
    assert all(abs(counts[place] - 500) < 88 for place in range(12))


SPATIAL = [f"relation {n}" for n in range(66) for _ in range(1 + 200 // (n + 1))]
"""As many relations as VSR has, few of them frequent."""
SMALL = ["yes"] * 50 + ["no"] * 30 + [f"rare {n}" for n in range(20)]


LABELS = ("yes", "not sure", "no")
ENTAILMENT = [
    f"{picture}/{label}"
    for picture in range(9)
    for n, label in enumerate(LABELS)
    for _ in range(1 + n + picture % 3)
]
"""Nine images; of their labels the rarest has one to three samples."""


@pytest.mark.parametrize("count", [3, 9, 27, 30, 40, 54])
def test_from_each_picture_as_many_of_each_label_are_drawn(count: int) -> None:
    drawn = Counter(
        ENTAILMENT[place]
        for place in draw_sample(ENTAILMENT, Sampling("grouped", count=count), "b", 1)
    )
    sets = {stratum.partition("/")[0]: number for stratum, number in drawn.items()}
    assert drawn == {
        f"{picture}/{label}": number for picture, number in sets.items() for label in LABELS
    }
    assert sum(drawn.values()) == count // 3 * 3
    # An image gives a second set only when each has given one, and a third when each that can has given two.
    most = {str(picture): 1 + picture % 3 for picture in range(9)}
    assert all(
        number >= min(most[p], max(sets.values()) - 1)
        for p, number in (sets.items() if count > 27 else ())
    )


def test_a_picture_that_lacks_a_label_gives_nothing_and_says_so_and_more_sets_than_there_are_are_refused() -> (
    None
):
    lacking = [*ENTAILMENT, "odd/yes", "odd/no"]
    sampling = Sampling("grouped", count=12)
    chances = inclusion_probabilities(lacking, sampling)
    assert (chances["odd/yes"], chances["0/yes"], chances["0/no"]) == (
        0.0,
        4 / 9,
        pytest.approx(4 / 27),
    )
    assert not any(
        place >= len(ENTAILMENT)
        for seed in range(50)
        for place in draw_sample(lacking, sampling, "b", seed)
    )
    with pytest.raises(
        DataError,
        match="the source has 18 sets of one sample of each of 3 labels in a group, 19 are",
    ):
        draw_sample(ENTAILMENT, Sampling("grouped", count=57), "b")


@pytest.mark.parametrize(
    ("strata", "sampling"),
    [
        (ENTAILMENT, Sampling("grouped", count=12)),
        (ENTAILMENT, Sampling("grouped", count=42)),
        ([f"answer {n}" for n in range(300)], Sampling("balanced", ratio=0.1)),
        (SMALL, Sampling("balanced", ratio=0.1)),
        (SPATIAL, Sampling("balanced", ratio=0.02)),
        (SMALL, Sampling("equal", count=11)),
        (SMALL, Sampling("equal", count=31)),
        (SMALL, Sampling("equal", each=3)),
        (SMALL, Sampling("random", count=7)),
        (SMALL, Sampling("equidistant", step=7)),
    ],
)
def test_every_sample_is_drawn_with_the_probability_that_is_stated(
    strata: list[str], sampling: Sampling
) -> None:
    draws = 750
    chances = inclusion_probabilities(strata, sampling)
    counts: Counter[int] = Counter()
    for seed in range(draws):
        counts.update(draw_sample(strata, sampling, "b", seed))
    assert min(chances.values()) > 0
    for place, name in enumerate(strata):
        chance = chances[name]
        # Of 1,000 samples none may be off by five standard errors of a binomial share.
        assert (
            abs(counts[place] / draws - chance) <= 5 * (chance * (1 - chance) / draws) ** 0.5 + 1e-9
        )
    # The mean number drawn is the sum of the probabilities.
    assert sum(counts.values()) / draws == pytest.approx(
        sum(chances[name] for name in strata), rel=1e-9
    )


@given(data=st.data(), strata=strata)
def test_probabilities_add_up_to_what_is_drawn(data: st.DataObject, strata: list[str]) -> None:
    count = data.draw(st.integers(1, len(strata)))
    rules: list[SamplingRule] = ["random", "balanced", "equal"]
    sampling = Sampling(data.draw(st.sampled_from(rules)), count=count)
    chances = inclusion_probabilities(strata, sampling)
    assert sum(chances[name] for name in strata) == pytest.approx(count)
    assert all(0 < chance <= 1 + 1e-12 for chance in chances.values())
    assert len(draw_sample(strata, sampling, "b")) == count


@given(strata=strata, sampling=st.sampled_from([Sampling("random", ratio=0.1, keep_below=121)]))
def test_a_small_source_is_kept_whole(strata: list[str], sampling: Sampling) -> None:
    assert draw_sample(strata, sampling, "b") == list(range(len(strata)))


def test_more_samples_than_there_are_cannot_be_drawn() -> None:
    with pytest.raises(DataError, match="the source has 3 samples, 4 are to be drawn"):
        draw_sample(list("abc"), Sampling("balanced", count=4), "b")


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"rule": "random"}, "takes ratio or count, not nothing"),
        ({"rule": "all", "ratio": 0.1}, "takes nothing, not ratio"),
        ({"rule": "equal", "ratio": 0.1}, "takes each or count, not ratio"),
        ({"rule": "balanced", "ratio": 0.1, "count": 3}, "not ratio and count"),
        ({"rule": "random", "ratio": 1.5}, r"not a share in \(0, 1\]"),
        ({"rule": "random", "ratio": 0.0}, r"not a share in \(0, 1\]"),
        ({"rule": "equidistant", "step": 0}, "leaves nothing"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Sampling(**settings)


# --- answers ---------------------------------------------------------------------------------------------------

SAME = [
    ("dog", "the Dogs."), ("two", "2"), ("Yes!", "yes"), ("a red car", "red car"), ("T-shirt", "t shirt"),
    ("white and black", "black and white"), ("box", "boxes"), ("bus", "buses"), ("house", "houses"),
    ("berry", "berries"), ("knife", "knives"), ("leaf", "leaves"), ("woman", "women"), ("policeman", "policemen"),
    ("child", "children"), ("person", "people"), ("young person", "young people"), ("glass", "glasses"),
    ("dish", "dishes"), ("Ｄｏｇ", "dog"), ("café", "CAFÉ"), ("sunglass", "sunglasses"), ("the", "The"),
]  # fmt: skip
DIFFERENT = [
    ("dog", "cat"), ("red", "red and white"), ("left", "right"), ("1", "10"), ("cafe", "café"), ("+", "-"),
    ("bus", "bush"), ("glass", "grass"), ("princess", "prince"), ("is", "i"), ("no", "not sure"), ("man", "woman"),
    ("grass", "gras"), ("hotdog", "hot dog"), ("on top of", "under"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_answers_say_the_same(one: str, other: str) -> None:
    assert same_answer(one, other) and same_answer(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_two_answers_say_different_things(one: str, other: str) -> None:
    assert not same_answer(one, other) and not same_answer(other, one)


@given(one=st.text(max_size=12), other=st.text(max_size=12))
def test_saying_the_same_is_symmetric_and_every_answer_says_the_same_as_itself(
    one: str, other: str
) -> None:
    assert same_answer(one, one) and same_answer(one, f" {one} ")
    assert same_answer(one, other) == same_answer(other, one)


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ("yes", "no"),
        ("No", "Yes"),
        ("YES", "NO"),
        ("yes.", "no."),
        ("maybe", None),
        ("no one", None),
        ("", None),
    ],
)
def test_the_opposite_of_an_answer(answer: str, other: str | None) -> None:
    assert opposite_yes_no(answer) == other


# --- options ---------------------------------------------------------------------------------------------------

WORDS = tuple("cat dog horse cow sheep goat hen duck pig mule deer fox wolf bear".split())
words = st.sampled_from(WORDS)
tiers = st.lists(
    st.lists(words | words.map(str.upper) | words.map(lambda w: f"the {w}s"), max_size=8),
    max_size=3,
)


def choice(
    texts: Iterable[str],
    wanted: DistractorSpec,
    count: int = 4,
    seed: int = 0,
    rejected: Any = None,
) -> QuestionDraft:
    return to_multiple_choice(
        QuestionDraft("Which?", texts=tuple(texts), distractors=wanted),
        count,
        random.Random(seed),
        rejected or Counter(),
        "a.json:3",
    )


@given(
    tiers=tiers,
    texts=st.lists(words, min_size=1, max_size=4),
    count=st.integers(2, 6),
    seed=st.integers(0, 99),
)
def test_the_gold_is_there_once_and_no_distractor_is_right(
    tiers: list[list[str]], texts: list[str], count: int, seed: int
) -> None:
    wanted = DistractorSpec(
        tuple(tiers), fillers=("Not sure", "Unknown"), also_right=("wolf",), allow_fewer=True
    )
    found = choice(texts, wanted, count, seed)
    [gold] = found.gold
    assert found.options[gold] == texts[0] and 2 <= len(found.options) <= count
    assert found.texts == () and found.distractors is None
    others = [option for place, option in enumerate(found.options) if place != gold]
    assert not any(same_answer(option, right) for option in others for right in (*texts, "wolf"))
    assert not any(
        same_answer(one, other) for place, one in enumerate(others) for other in others[:place]
    )
    assert found == choice(texts, wanted, count, seed)


@given(count=st.integers(2, len(WORDS)), gold=words)
def test_as_many_options_are_made_as_are_asked_for(count: int, gold: str) -> None:
    assert len(choice([gold], DistractorSpec((WORDS,)), count).options) == count


def test_the_gold_stands_in_each_place_equally_often() -> None:
    golds = Counter(
        choice(["cat"], DistractorSpec((WORDS,)), seed=seed).gold[0] for seed in range(2000)
    )
    # 500 each, give or take 4.5 standard errors (19.4).
    assert all(abs(golds[place] - 500) < 88 for place in range(4))


def test_each_candidate_of_a_tier_is_drawn_equally_often() -> None:
    drawn = Counter(
        option
        for seed in range(2000)
        for option in choice(["cat"], DistractorSpec((WORDS,)), seed=seed).options
    )
    # 3 of 13: 461.5 of 2000 each, give or take 4.5 standard errors (18.8).
    assert drawn.pop("cat") == 2000 and len(drawn) == 13
    assert all(abs(times - 461.5) < 85 for times in drawn.values())


@given(seed=st.integers(0, 999))
def test_the_nearest_tier_comes_first(seed: int) -> None:
    found = choice(["cat"], DistractorSpec((("dog",), ("cow", "hen"), ("pig", "fox"))), seed=seed)
    assert set(found.options) == {"cat", "dog", "cow", "hen"}
    found = choice(["cat"], DistractorSpec((("dog",), ("fox",), ("cow", "hen"))), seed=seed)
    assert {"cat", "dog", "fox"} < set(found.options) and len(found.options) == 4


def test_different_seeds_give_different_options() -> None:
    assert (
        len({choice(["cat"], DistractorSpec((WORDS,)), seed=seed).options for seed in range(30)})
        == 30
    )


@pytest.mark.parametrize("pool", [("cat", "cat", "cats"), ("", " ", "Cat"), ()])
def test_too_few_candidates_are_an_error_with_its_place(pool: tuple[str, ...]) -> None:
    with pytest.raises(
        DataError, match=r"a\.json:3: 3 distractors are wanted for 'cat', the source has 1 that fit"
    ):
        choice(["cat"], DistractorSpec((pool, ("dog",))))
    with pytest.raises(DataError, match=r"a\.json:3: no distractor for 'cat' in the source"):
        choice(["cat"], DistractorSpec((pool,), allow_fewer=True))


def test_padding_fills_up_in_its_order() -> None:
    wanted = DistractorSpec((("dog",),), fillers=("Not sure", "Unknown", "Other"))
    assert set(choice(["cat"], wanted).options) == {"cat", "dog", "Not sure", "Unknown"}


@pytest.mark.parametrize("gold", ["yes", "No"])
def test_a_yes_no_question_gets_the_other_one_unless_it_is_padded(gold: str) -> None:
    other = opposite_yes_no(gold)
    assert set(choice([gold], DistractorSpec((WORDS,))).options) == {gold, other}
    padded = choice([gold], DistractorSpec((("yes", "no"),), fillers=("Not sure", "Unknown")))
    assert sorted(option.casefold() for option in padded.options) == [
        "no",
        "not sure",
        "unknown",
        "yes",
    ]


def test_what_is_left_out_is_counted_by_reason() -> None:
    rejected: Counter[str] = Counter({"earlier": 1})
    wanted = DistractorSpec(
        (("", "cats", "kitten", "dog", "dogs"), ("cow", "hen")), also_right=("felines",)
    )
    choice(["cat", "kitten"], wanted, rejected=rejected)
    assert rejected == {
        "earlier": 1,
        "empty": 1,
        "says the same as the answer": 1,
        "says the same as another right answer": 1,
        "says the same as another option": 1,
    }


def test_a_question_that_has_its_options_keeps_them() -> None:
    given = QuestionDraft("Which?", options=("a", "b"), gold=(1,))
    assert to_multiple_choice(given, 4, random.Random(0), Counter(), "here") is given


def test_options_for_a_hidden_answer_cannot_be_made() -> None:
    with pytest.raises(DataError, match=r"a\.json:3: no answer to make options for"):
        choice([], DistractorSpec((WORDS,)))


def test_a_large_tier_is_drawn_from_and_not_shuffled() -> None:
    class Counted(tuple[str, ...]):
        read = 0

        def __getitem__(self, place: Any) -> Any:
            Counted.read += 1
            return super().__getitem__(place)

    assert (
        len(
            choice(
                ["0x"], DistractorSpec((Counted(f"{number}y" for number in range(100_000)),))
            ).options
        )
        == 4
    )
    assert 3 <= Counted.read < MAX_CANDIDATES


# --- recipe ----------------------------------------------------------------------------------------------------


def spec(**source: Any) -> BenchmarkSpec:
    return BenchmarkSpec(
        name="b", title="B", formulation="choice", source=SourceSpec("none", **source)
    )


class Source:
    """Sixty questions in three strata, and how often they were read."""

    readings = 0

    def __call__(self) -> Iterator[Draft]:
        self.readings += 1
        for number in range(60):
            texts = (WORDS[number % len(WORDS)],)
            yield Draft(
                id=str(number),
                rounds=(
                    QuestionDraft(
                        "Which?",
                        texts=texts,
                        distractors=DistractorSpec((WORDS,), prompt="options"),
                    ),
                ),
                where=f"file:{number}",
                stratum="abc"[number % 3],
            )


class Scripted:
    """Writes three words that no pool has."""

    name = "scripted"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def write(self, benchmark: str, drafts: Any, count: int, rejected: Any) -> list[Draft]:
        self.asked.append(len(drafts))
        tier = tuple(f"written {number}" for number in range(count))
        return [
            Draft(
                d.id,
                (
                    QuestionDraft(
                        "Which?", texts=d.rounds[0].texts, distractors=DistractorSpec((tier,))
                    ),
                ),
                where=d.where,
            )
            for d in drafts
        ]


def test_a_source_is_selected_from_sampled_and_made_multiple_choice_in_its_order() -> None:
    source, making = Source(), BuildStats()
    select, sample = Sampling("equal", each=10), Sampling("balanced", ratio=0.2)
    drafts = list(
        reformulate(
            spec(select=select, sample=sample), source, Recipe(distractors="pool"), None, making
        )
    )
    assert (making.read, making.complete, len(drafts), source.readings) == (60, 30, 6, 2)
    assert [int(draft.id) for draft in drafts] == sorted(int(draft.id) for draft in drafts)
    assert Counter(draft.stratum for draft in drafts) == {"a": 2, "b": 2, "c": 2}
    assert all(len(draft.rounds[0].options) == 4 for draft in drafts)


def test_a_benchmark_that_takes_everything_is_read_once() -> None:
    source, making = Source(), BuildStats()
    drafts = list(reformulate(spec(), source, Recipe(distractors="pool"), None, making))
    assert (making.read, making.complete, len(drafts), source.readings) == (60, 60, 60, 1)


@given(ratio=st.sampled_from([0.1, 0.5, 1.0]), seed=st.integers(0, 5), options=st.integers(2, 8))
def test_a_question_has_the_same_options_whatever_else_is_sampled(
    ratio: float, seed: int, options: int
) -> None:
    whole = {d.id: d for d in made(Recipe(Sampling(), options, "pool", seed))}
    part = made(Recipe(Sampling("random", ratio=ratio), options, "pool", seed))
    assert part == [whole[draft.id] for draft in part]
    assert {len(draft.rounds[0].options) for draft in part} == {options}


def made(recipe: Recipe) -> list[Draft]:
    return list(reformulate(spec(), Source(), recipe, None, BuildStats()))


def test_another_seed_gives_other_options_and_another_sample() -> None:
    one, other = (made(Recipe(Sampling("random", count=30), None, "pool", seed)) for seed in (0, 1))
    assert [d.id for d in one] != [d.id for d in other]
    both = {d.id: d for d in one}
    assert any(both[d.id].rounds != d.rounds for d in other if d.id in both)


def test_written_distractors_come_from_the_writer_and_a_benchmark_without_one_is_refused() -> None:
    writer = Scripted()
    drafts = list(reformulate(spec(), Source(), Recipe(), writer, BuildStats()))
    assert [draft.id for draft in drafts] == [str(number) for number in range(60)]
    for number, draft in enumerate(drafts):
        assert set(draft.rounds[0].options) == {
            WORDS[number % 14],
            "written 0",
            "written 1",
            "written 2",
        }
    assert sum(writer.asked) == 60
    with pytest.raises(
        DataError, match=r"file:0: .* name one with writer='MODEL', or .* distractors='pool'"
    ):
        list(reformulate(spec(), Source(), Recipe(), None, BuildStats()))


def test_nobody_writes_options_for_yes_or_no() -> None:
    wanted = DistractorSpec(prompt="options")
    assert needs_writing(QuestionDraft("?", texts=("cat",), distractors=wanted))
    assert not needs_writing(QuestionDraft("?", texts=("Yes",), distractors=wanted))
    assert needs_writing(
        QuestionDraft(
            "?", texts=("Yes",), distractors=DistractorSpec(prompt="dialogue", fillers=("Unknown",))
        )
    )
    assert not needs_writing(
        QuestionDraft("?", texts=("cat",), distractors=DistractorSpec((WORDS,)))
    )
    assert not needs_writing(QuestionDraft("?", options=("a", "b"), gold=(0,)))


# --- regions ---------------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 24, 20
GREY = (90, 120, 150)


def plain_image() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT), GREY).save(out, "PNG")
    return out.getvalue()


def pixels(outlines: Iterable[Outline], crop: Box | None = None) -> list[str]:
    """The image with its outlines, a letter a pixel, a line a row."""
    content = plain_image()
    picture = Image.open(
        io.BytesIO(render_image(ImageSpec(content, crop, tuple(outlines)), content, "here"))
    )
    letters = {GREY: ".", **dict(zip(PALETTE, "rgbyMCOP", strict=True))}
    assert picture.mode == "RGB"
    return [
        "".join(letters[picture.getpixel((x, y))] for x in range(picture.width))
        for y in range(picture.height)
    ]


def test_an_object_is_boxed_in_red_three_pixels_wide() -> None:  # GOI
    assert pixels([Outline((3.9, 2.9, 12.9, 10.9), width=3)]) == [
        *["........................"] * 2,
        *["...rrrrrrrrrrrrrr......."] * 3,
        *["...rrr........rrr......."] * 6,
        *["...rrrrrrrrrrrrrr......."] * 3,
        *["........................"] * 6,
    ]


def test_boxes_of_missing_objects_are_red_green_blue_and_gold_the_later_over_the_earlier() -> (
    None
):  # MOS
    boxes = [(0, 0, 8, 8), (12, 0, 8, 8), (0, 10, 8, 8), (12, 10, 8, 8), (6, 6, 7, 7)]
    found = pixels(Outline(box, PALETTE[place], 3) for place, box in enumerate(boxes))
    assert found == [
        *["rrrrrrrrr...ggggggggg..."] * 3,
        *["rrr...rrr...ggg...ggg..."] * 3,
        *["rrrrrrMMMMMMMMggggggg..."] * 3,
        "......MMM..MMM..........",
        "bbbbbbMMM..MMMyyyyyyy...",
        *["bbbbbbMMMMMMMMyyyyyyy..."] * 2,
        "bbb...MMMMMMMMy...yyy...",
        *["bbb...bbb...yyy...yyy..."] * 2,
        *["bbbbbbbbb...yyyyyyyyy..."] * 3,
        "........................",
    ]


def test_a_referred_region_is_boxed_two_pixels_wide_from_its_corners() -> (
    None
):  # RefCOCO_res, gIC15
    assert pixels([Outline(from_corners(20.5, 12.2, 4.7, 3.1), width=2)]) == [
        *["........................"] * 3,
        *["....rrrrrrrrrrrrrrrrr..."] * 2,
        *["....rr.............rr..."] * 6,
        *["....rrrrrrrrrrrrrrrrr..."] * 2,
        *["........................"] * 7,
    ]


@pytest.mark.parametrize(("width", "inner"), [(2, 6), (5, 0)])
def test_a_text_is_boxed_two_or_five_pixels_wide(
    width: int, inner: int
) -> None:  # gTextOCR, gCOCO-Text
    side = "r" * width
    assert pixels([Outline((2, 4, 15, 9), width=width)]) == [
        *["........................"] * 4,
        *["..rrrrrrrrrrrrrrrr......"] * width,
        *[f"..{side}{'.' * (16 - 2 * width)}{side}......"] * inner,
        *["..rrrrrrrrrrrrrrrr......"] * width,
        *["........................"] * 6,
    ]


@given(
    x=st.floats(-30, 30),
    y=st.floats(-30, 30),
    w=st.floats(0.01, 60),
    h=st.floats(0.01, 60),
    width=st.integers(1, 9),
)
def test_an_outline_is_the_clipped_box_less_its_inside(
    x: float, y: float, w: float, h: float, width: int
) -> None:
    outside = x >= WIDTH or y >= HEIGHT or x + w <= 0 or y + h <= 0
    if outside:
        with pytest.raises(
            DataError, match=r"here: the box .* has no area inside the image of 24 x 20 pixels"
        ):
            pixels([Outline((x, y, w, h), width=width)])
        return
    left, top = max(int(x), 0), max(int(y), 0)
    right, bottom = min(int(x + w), WIDTH - 1), min(int(y + h), HEIGHT - 1)
    for row, line in enumerate(pixels([Outline((x, y, w, h), width=width)])):
        for column, letter in enumerate(line):
            within = left <= column <= right and top <= row <= bottom
            edge = min(column - left, right - column, row - top, bottom - row)
            assert (letter == "r") == (within and edge < width)


@given(x=st.floats(-9, 30), y=st.floats(-9, 30), w=st.floats(0.01, 40), h=st.floats(0.01, 40))
def test_a_cut_shows_the_pixels_of_its_box(x: float, y: float, w: float, h: float) -> None:
    content = io.BytesIO()
    numbered = Image.new("RGB", (WIDTH, HEIGHT))
    for column in range(WIDTH):
        for row in range(HEIGHT):
            numbered.putpixel((column, row), (column, row, 0))
    numbered.save(content, "PNG")
    picture = ImageSpec(content.getvalue(), (x, y, w, h))
    if x >= WIDTH or y >= HEIGHT or x + w <= 0 or y + h <= 0:
        with pytest.raises(DataError, match="has no area inside the image of 24 x 20"):
            render_image(picture, content.getvalue(), "here")
        return
    cut = Image.open(io.BytesIO(render_image(picture, content.getvalue(), "here")))
    columns = [c for c in range(WIDTH) if int(x) <= c < int(x + w)] or [max(int(x), 0)]
    rows = [r for r in range(HEIGHT) if int(y) <= r < int(y + h)] or [max(int(y), 0)]
    assert cut.size == (len(columns), len(rows))
    places = [(place, line) for line in range(cut.height) for place in range(cut.width)]
    assert [cut.getpixel(place) for place in places] == [
        (column, row, 0) for row in rows for column in columns
    ]


def test_outlines_are_drawn_on_what_was_cut_out() -> None:
    assert pixels([Outline((0, 0, 3, 2), width=1)], crop=(5, 5, 6, 4)) == [
        "rrrr..",
        "r..r..",
        "rrrr..",
        "......",
    ]


@pytest.mark.parametrize(
    "box",
    [
        (2, 2, 0, 5),
        (2, 2, 5, 0),
        (2, 2, -3, 4),
        (24, 0, 5, 5),
        (0, 20, 5, 5),
        (-9, 0, 8.5, 5),
        (float("nan"), 0, 5, 5),
        (0, 0, float("inf"), 5),
    ],
)
def test_a_box_without_area_in_the_picture_is_refused_with_its_place(box: Box) -> None:
    for picture in (ImageSpec(b"", outlines=(Outline(box),)), ImageSpec(b"", crop=box)):
        with pytest.raises(
            DataError, match=r"val.json:7: the box .* has no area inside the image of 24 x 20"
        ):
            render_image(picture, plain_image(), "val.json:7")


def test_a_picture_without_regions_keeps_its_bytes() -> None:
    content = small.picture(3, "JPEG")
    assert render_image(ImageSpec(content), content, "here") is content


def test_a_picture_cut_short_is_refused_with_its_place() -> None:
    with pytest.raises(DataError, match=r"val\.json:7: not a readable image"):
        render_image(
            ImageSpec(b"", outlines=(Outline((0, 0, 2, 2)),)), plain_image()[:60], "val.json:7"
        )


@given(corners=st.tuples(*[st.floats(0, 500)] * 4))
def test_two_corners_make_the_same_box_whichever_comes_first(
    corners: tuple[float, float, float, float],
) -> None:
    x1, y1, x2, y2 = corners
    box = from_corners(x1, y1, x2, y2)
    assert box == from_corners(x2, y2, x1, y1) == from_corners(x1, y2, x2, y1)
    assert box[2] >= 0 and box[3] >= 0
