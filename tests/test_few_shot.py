"""Examples with their answers before a question: set apart in the build, drawn by name, shown by every protocol."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
import snellen as sn
from servers import start_server
from slow_model import PROTOCOLS, Slow
from snellen.building.benchmark import EXAMPLES, SAMPLES, Benchmark
from snellen.building.builder import ANSWERS, build_benchmark
from snellen.building.recipe import Recipe
from snellen.common.images import JoinedImages
from snellen.errors import DataError, StoreError
from snellen.records import Example, ImageRef, Request, Sample
from snellen.runs.few_shot import FewShot
from snellen.runs.journal import read_exchanges
from snellen.runs.plan import plan_run
from snellen.runs.run_folder import journals, read_manifest
from snellen.runs.runner import run_plan
from snellen.runs.spec import run_spec


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def built(rows: list[dict[str, Any]], to: str, examples: str, name: str = "mine") -> Benchmark:
    path = small.write(rows, Path(f"{to}-table.jsonl"))
    return build_benchmark(
        small.spec_of(path, name), source=path.parent, to=Path(to), recipe=Recipe(examples=examples)
    )


def open_rows(count: int) -> list[dict[str, Any]]:
    """Open questions; of the three reference texts one stands twice."""
    return [
        {
            "id": f"o{i}",
            "question": f"What is number {i}?",
            "answer": ["one", f"it is {i}", f"it is {i}"],
            "image": small.cell(100 + i),
        }
        for i in range(count)
    ]


def ids(examples: list[Example]) -> list[str]:
    return [example.id for example in examples]


# --- set apart ---------------------------------------------------------------------------------------------------


def test_whole_pictures_are_set_apart_and_never_asked() -> None:
    benchmark = built(small.rows(20), "made", "5")  # two questions share an image
    examples, asked = benchmark.examples(), list(benchmark.samples())
    assert len(examples) == benchmark.manifest.counts.examples == 6
    assert {one.id for one in (*examples, *asked)} == {f"q{i:03d}" for i in range(20)}
    assert not {image for one in examples for image in one.images} & {
        image for one in asked for image in one.images
    }
    for table, count in ((SAMPLES, 14), (ANSWERS, 14), (EXAMPLES, 6)):
        assert gzip.decompress((benchmark.folder / table).read_bytes()).count(b"\n") == count
    for example in examples:
        assert example.gold == (int(example.id[1:]) % 4,)  # as `small.rows` says


def test_the_same_build_sets_the_same_apart_and_another_seed_others() -> None:
    path = small.write(small.rows(20), Path("table.jsonl"))

    def apart(to: str, seed: int, examples: str = "6") -> Benchmark:
        recipe = Recipe(examples=examples, seed=seed)
        return build_benchmark(small.spec_of(path), source=Path(), to=Path(to), recipe=recipe)

    one, same, other = apart("one", 0), apart("same", 0), apart("other", 1)
    assert ids(one.examples()) == ids(same.examples()) != ids(other.examples())
    assert one.manifest == same.manifest and one.manifest.version != other.manifest.version
    # A smaller number takes the first of them.
    assert ids(apart("fewer", 0, "2").examples()) == ids(one.examples())[:2]


def test_a_condition_or_all_sets_apart_what_it_names() -> None:
    hard = built(small.rows(8), "hard", "level == 'hard'")
    assert ids(hard.examples()) == ["q001", "q003", "q005", "q007"] and hard.count() == 4
    everything = built(small.rows(8), "everything", "all")
    assert len(everything.examples()) == 8 and everything.count() == 0
    with pytest.raises(
        DataError,
        match="mine contains only few-shot examples; use them with few_shot_from=",
    ):
        sn.evaluate("snellen:oracle", "everything")


@pytest.mark.parametrize(
    ("examples", "fault"),
    [
        ("0", "examples=0 reserves nothing"),
        ("9", "mine: only 8 questions have an answer, so 9 cannot be reserved as examples"),
        ("level == 'none'", "mine: no question meets the condition examples=\"level == 'none'\""),
        ("level =", "examples='level =' is not a condition"),
    ],
)
def test_what_cannot_be_set_apart_is_refused_and_nothing_is_left(examples: str, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        built(small.rows(8), "made", examples)
    assert not Path("made").exists()


def test_a_hidden_answer_makes_no_example() -> None:
    rows = small.rows(8)
    for row in rows[:4]:
        del row["answer"]
    drawn = built(rows, "drawn", "2").examples()
    assert len(drawn) == 2 and {one.id for one in drawn} <= {"q004", "q005", "q006", "q007"}
    with pytest.raises(
        DataError,
        match=r"table.jsonl:1: the answer is hidden, so the question cannot be an example",
    ):
        built(rows, "all", "all")


def test_examples_that_have_changed_are_refused() -> None:
    benchmark = built(small.rows(8), "made", "2")
    path = benchmark.folder / EXAMPLES
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"examples.jsonl.gz has changed since the build"):
        benchmark.examples()


# --- drawn -------------------------------------------------------------------------------------------------------

PICTURES = st.integers(0, 4).map(lambda i: ImageRef(f"{i:064d}", "image/png", 8, 6))
QUESTIONS = st.builds(
    Sample,
    id=st.integers(0, 9).map(str),
    benchmark=st.sampled_from(("a", "b")),
    question=st.sampled_from(("Which?", "How many?")),
    images=st.lists(PICTURES, max_size=2).map(tuple),
    options=st.sampled_from(((), ("x", "y"))),
)
POOL = st.lists(
    QUESTIONS.map(
        lambda one: Example(one.id, one.benchmark, one.question, one.images, one.options, gold=(0,))
    ),
    max_size=12,
    unique_by=lambda one: (one.benchmark, one.id),
)


@given(POOL, QUESTIONS, st.integers(1, 3), st.integers(0, 3), st.booleans())
def test_neither_the_sample_nor_its_pictures_are_ever_drawn(
    pool: list[Example], sample: Sample, count: int, seed: int, same: bool
) -> None:
    fit = [
        one
        for one in pool
        if bool(one.options) == bool(sample.options)
        and (one.benchmark, one.id) != (sample.benchmark, sample.id)
        and not set(one.images) & set(sample.images)
        and (one.images or sample.images or one.question != sample.question)
    ]
    few_shot = FewShot(pool, count, seed, same)
    if len(fit) < count:
        with pytest.raises(DataError, match=f"fewer than few_shot={count} needs"):
            few_shot.examples_for(sample)
        return
    drawn = few_shot.examples_for(sample)
    assert len({(one.benchmark, one.id) for one in drawn}) == count and set(
        ids(list(drawn))
    ) <= set(ids(fit))
    assert drawn == FewShot(pool, count, seed, same).examples_for(sample)


def test_samples_are_shown_examples_of_their_own_or_the_same_ones() -> None:
    benchmark = built(small.rows(40), "made", "20")
    samples, pool = list(benchmark.samples()), benchmark.examples()
    own = [FewShot(pool, 3).examples_for(sample) for sample in samples]
    shared = [FewShot(pool, 3, shared=True).examples_for(sample) for sample in samples]
    assert len(set(map(str, own))) == len(samples) and len(set(map(str, shared))) == 1
    assert own != [FewShot(pool, 3, seed=1).examples_for(sample) for sample in samples]
    assert shared[0] != FewShot(pool, 3, seed=1, shared=True).examples_for(samples[0])
    assert shared[0] == FewShot(pool, 4, shared=True).examples_for(samples[0])[:3]


# --- shown -------------------------------------------------------------------------------------------------------


def asked(benchmarks: str, protocols: str, **how: Any) -> list[Request]:
    """What a model was asked."""
    seen: list[Request] = []

    def reply(request: Request) -> str:
        seen.append(request)
        return "(A)"

    def scores(request: Request) -> list[float]:
        seen.append(request)
        return [0.0] * len(request.continuations)

    sn.evaluate(sn.Scripted(reply, scores=scores), benchmarks, protocols, **how)
    return seen


def said(request: Request) -> list[tuple[str, str, int]]:
    """Role, text and number of images of each message."""
    return [
        (message.role, message.text, len(message.content) - 1 if message.role == "user" else 0)
        for message in request.messages
    ]


def test_an_example_is_a_turn_with_its_picture_and_its_answer_as_the_reply() -> None:
    rows = [
        small.rows(2, pictures=2)[i] | {"tag_split": split}
        for i, split in enumerate(("train", "test"))
    ]
    built(rows, "made", "split == 'train'")
    [request] = asked("made", "vanilla?labels=lower", few_shot=1, prefix=False)
    instruction, _, question = said(request)[0][1].partition("\n")
    shown = "Options: (a) cat; (b) dog; (c) horse; (d) cow."
    assert instruction and question == f"Which animal is number 0? {shown}"
    assert said(request)[1:] == [
        ("assistant", "The answer is (a) cat.", 0),
        ("user", f"Which animal is number 1? {shown}", 1),
    ]
    digests = [
        one.images[0].digest
        for one in (*Benchmark(Path("made")).examples(), *Benchmark(Path("made")).samples())
    ]
    assert [image.digest for image in request.images] == digests


def test_under_likelihood_examples_are_shown_without_options_and_answered_by_their_text() -> None:
    built(small.rows(8), "made", "4")
    for request in asked("made", "likelihood", few_shot=2):
        *examples, question = said(request)
        assert [role for role, _, _ in examples] == [
            "user",
            "assistant",
        ] * 2 and "Options" not in str(examples)
        assert {text for role, text, _ in examples if role == "assistant"} <= set(small.ANIMALS)
        assert question[0] == "user" and request.continuations == small.ANIMALS[:4]


def test_an_open_question_is_answered_by_its_most_frequent_text() -> None:
    built(open_rows(3), "made", "2")
    [request] = asked("made", "vanilla", few_shot=2)
    replies = [text for role, text, _ in said(request) if role == "assistant"]
    pictured = [
        example.id
        for image in request.images[:2]
        for example in Benchmark(Path("made")).examples()
        if image in example.images
    ]
    assert replies == [f"it is {name[1:]}" for name in pictured]


def test_every_presentation_shows_the_same_examples_and_no_in_context_sample() -> None:
    built(small.rows(8), "made", "4")
    requests = asked("made", "instability?m=3", few_shot=2)
    assert not any(request.variant.in_context for request in requests)
    for sample in Benchmark(Path("made")).samples():
        own = [request for request in requests if request.sample_id == sample.id]
        assert len(own) == 3 and len({request.images for request in own}) == 1
        for request in own:
            style = request.variant.labels[0]
            replies = [text for role, text, _ in said(request)[:4] if role == "assistant"]
            kind = (
                str.isdigit if style.isdigit() else str.isupper if style.isupper() else str.islower
            )
            assert len(replies) == 2 and all(kind(text.split("(")[1][0]) for text in replies)


@pytest.mark.parametrize(
    "protocol", ["control?picture=text", "control?picture=blank", "likelihood?pmi=text"]
)
def test_a_control_replaces_the_picture_of_the_question_alone(protocol: str) -> None:
    built(small.rows(8), "made", "4")
    pool = {image for example in Benchmark(Path("made")).examples() for image in example.images}
    own = {image for sample in Benchmark(Path("made")).samples() for image in sample.images}
    requests = asked("made", protocol, few_shot=2)
    controls = [request for request in requests if not set(request.images) & own]
    assert len(controls) == 4
    assert all(
        len([image for image in request.images if image in pool]) == 2 for request in controls
    )


def test_a_dialogue_begins_with_examples() -> None:
    built(small.rows(4), "train", "all")
    requests = asked("eyechart/dialogue", "dialogue", few_shot=2, few_shot_from="train", limit=1)
    first, second = (said(request) for request in requests[:2])
    assert [text for role, text, _ in first if role == "assistant"][:2] == [
        text for role, text, _ in second if role == "assistant"
    ][:2]
    assert len(second) == len(first) + 2 and first[4][2] == 1 and second[6][2] == 0


def test_a_server_gets_the_pictures_in_the_order_in_which_they_are_shown() -> None:
    built(small.rows(8, pictures=8), "train", "all")
    built(
        small.rows(3, pictures=3), "asked", "1", name="other"
    )  # its images are among those of `train`
    with start_server() as server:
        sn.evaluate(
            f"openai:m@http://127.0.0.1:{server.port}/v1",
            "asked",
            few_shot=3,
            few_shot_from="train",
            name="r",
        )
        bodies = [seen.asked for seen in server.seen()]
    sent = [
        [
            part["image_url"]["url"].partition(",")[2]
            for message in body["messages"]
            for part in message["content"]
            if isinstance(part, dict) and part["type"] == "image_url"
        ]
        for body in bodies
    ]
    shelf = JoinedImages([Benchmark(Path(folder)).images for folder in ("train", "asked")])
    expected = [
        [base64.b64encode(shelf.read(image)).decode() for image in exchange.request.images]
        for exchange in read_exchanges(Path("runs/r"))
    ]
    assert sorted(sent) == sorted(expected) and {len(set(pictures)) for pictures in sent} == {4}


@pytest.mark.parametrize("protocol", ["vanilla", "likelihood"])
def test_a_local_model_sees_the_pictures_of_examples(protocol: str) -> None:
    built(small.rows(8), "made", "4")
    built(small.rows(12, pictures=12)[8:], "train", "all")
    results = sn.evaluate(
        "snellen:tiny", "made", protocol, few_shot=1, few_shot_from="train", name="r", limit=2
    )
    assert results.rows[0].estimate.n == 2
    assert all(len(exchange.request.images) == 2 for exchange in read_exchanges(Path("runs/r")))


# --- a run with examples -----------------------------------------------------------------------------------------


def test_a_run_with_examples_is_the_same_without_the_file_of_answers() -> None:
    hidden = shutil.copytree(built(small.rows(8), "made", "4").folder, Path("hidden"))
    (hidden / ANSWERS).unlink()
    written = []
    for folder in ("made", "hidden"):
        spec = run_spec(
            {
                "models": ("slow",),
                "benchmarks": (folder,),
                "protocols": PROTOCOLS,
                "few_shot": 2,
                "name": folder,
            }
        )
        run_plan(Slow(), plan_run(spec))
        written.append((Path("runs") / folder / "journal-0.jsonl").read_bytes())
    assert written[0] == written[1] != b""


def test_a_run_goes_on_with_the_same_examples_and_refuses_others() -> None:
    built(small.rows(8), "made", "4")
    built(small.rows(12, pictures=12)[8:], "train", "all")
    how = {"few_shot": 2, "name": "r"}
    assert len(asked("made", "vanilla", limit=2, **how)) == 2
    assert len(asked("made", "vanilla", **how)) == 2  # the other two
    for other in ({}, {"few_shot": 1}, {**how, "few_shot_seed": 1}, {**how, "few_shot_same": True}):
        with pytest.raises(StoreError, match="runs/r contains a run with other few-shot examples"):
            asked("made", "vanilla", **{"name": "r", **other})
    with pytest.raises(StoreError, match="runs/r: mine was run with other few-shot examples"):
        asked("made", "vanilla", few_shot_from="train", **how)
    assert read_manifest(Path("runs/r")).few_shot == (2, 0, 0)
    assert len(journals(Path("runs/r"))) == 1


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        (
            {"few_shot": 2},
            r"^mine has no few-shot examples; rebuild it with some of its questions reserved",
        ),
        (
            {"few_shot": 5, "few_shot_from": "train"},
            r"^mine q000: only 4 examples with options have a different subject",
        ),
        (
            {"few_shot_from": "train"},
            r"^few_shot_from='train' needs the number of examples, such as few_shot=4",
        ),
        (
            {"few_shot": 1, "few_shot_from": "open"},
            r"^mine q000: only 0 examples with options have a different subject",
        ),
        (
            {
                "few_shot": 1,
                "few_shot_from": "train",
                "protocols": "reasoning",
                "roles": {"questioner": "snellen:oracle", "reasoner": "snellen:oracle"},
            },
            r"^reasoning has its own prompting steps and does not support examples; remove few_shot=",
        ),
    ],
)
def test_what_cannot_be_shown_is_said_before_anything_is_asked(
    how: dict[str, Any], fault: str
) -> None:
    small.built(small.rows(8), Path("made"))
    built(small.rows(12, pictures=12)[8:], "train", "all")
    built(open_rows(3), "open", "all")
    with pytest.raises(DataError, match=fault):
        sn.evaluate("snellen:oracle", "made", **how)
    assert not Path("runs").exists()


def test_flags_and_report_say_what_was_shown(capsys: pytest.CaptureFixture[str]) -> None:
    table = str(small.write(small.rows(12), Path("questions.jsonl")))
    code, out, _ = small.command(
        capsys, "build", table, "--name", "mine", "--to", "made", "--examples", "4"
    )
    assert code == 0 and "8 questions, 4 examples, 6 images" in out
    small.command(
        capsys, "run", "snellen:oracle", "made", "--few-shot", "3", "--few-shot-same", "--name", "r"
    )
    small.command(capsys, "report", "runs/r", "-o", "r.html")
    assert "3 before each question, the same ones, seed 0" in Path("r.html").read_text("utf-8")
    [results] = sn.load_run("runs/r").export("lm-eval", "out")
    assert json.loads(results.read_text())["n-shot"] == {"mine": 3}
