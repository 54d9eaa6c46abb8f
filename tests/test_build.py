"""Building: the same bytes from the same input, whole or not at all, answers in a file of their own."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import small
from snellen import registry
from snellen.building.benchmark import FORMAT, Benchmark, Selection, own_benchmarks
from snellen.building.builder import ANSWERS, build_benchmark
from snellen.catalogue import BenchmarkSpec, ExpectedCounts, SourceSpec, select
from snellen.common.drafts import Draft, QuestionDraft
from snellen.errors import DataError, UnknownNameError
from snellen.records import Answer, Turn
from snellen.scoring.answers import open_answers


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a list of drafts a source: `build(source(drafts))`."""
    given: list[Draft] = []

    def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
        yield from given

    monkeypatch.setitem(registry._NAMES, "readers", {"given": f"{__name__}:_given"})
    monkeypatch.setattr(sys.modules[__name__], "_given", read, raising=False)

    def spec(drafts: list[Draft], **facts: Any) -> BenchmarkSpec:
        given[:] = drafts
        return BenchmarkSpec(
            name="given", title="given", formulation="choice", source=SourceSpec("given"), **facts
        )

    return spec


def draft(name: str, *rounds: QuestionDraft, **fields: Any) -> Draft:
    return Draft(
        name,
        rounds or (QuestionDraft("Which?", ("cat", "dog"), (0,)),),
        where=f"row {name}",
        **fields,
    )


# --- the same input, the same bytes ------------------------------------------------------------------------------


def test_two_builds_of_the_same_input_are_the_same_bytes(tmp_path: Path) -> None:
    first, second = (
        small.built(small.rows(30, pictures=7), tmp_path / name) for name in ("one", "two")
    )
    assert bytes_of(first.folder) == bytes_of(second.folder)
    assert first.manifest.version == second.manifest.version


def test_two_processes_build_the_same_bytes(
    tmp_path: Path, eyechart: Mapping[str, Benchmark]
) -> None:
    code = "import snellen; snellen.build('eyechart/dialogue')"
    environment = {**os.environ, "SNELLEN_HOME": str(tmp_path), "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert bytes_of(tmp_path / "benchmarks/eyechart/dialogue") == bytes_of(
        eyechart["dialogue"].folder
    )


@pytest.mark.parametrize(
    "change",
    [
        {"question": "Else?"},
        {"answer": 1},
        {"image": small.cell(99)},
        {"tag_level": "new"},
        {"id": "new"},
    ],
)
def test_any_change_of_the_input_changes_the_version(
    change: dict[str, Any], tmp_path: Path
) -> None:
    rows = small.rows(4)
    before = small.built(rows, tmp_path / "before")
    after = small.built([{**rows[0], **change}, *rows[1:]], tmp_path / "after")
    assert before.manifest.version != after.manifest.version


def test_every_picture_is_stored_once(tmp_path: Path) -> None:
    made = small.built(small.rows(12, pictures=3), tmp_path / "made")
    assert made.manifest.counts.images == 3
    assert len([path for path in (made.folder / "images").rglob("*") if path.is_file()]) == 3


def test_samples_of_a_picture_come_together_in_order_of_appearance(tmp_path: Path) -> None:
    made = small.built(small.rows(7, pictures=3), tmp_path / "made")
    assert [sample.id for sample in made.samples()] == [
        "q000",
        "q003",
        "q006",
        "q001",
        "q004",
        "q002",
        "q005",
    ]
    assert len({sample.group for sample in made.samples()}) == 3


def test_more_rows_than_fit_in_memory_at_once_come_back_in_order(
    tmp_path: Path, source: Any
) -> None:
    drafts = [draft(f"{i:04d}", group=str(i % 2)) for i in range(2500)]
    made = build_benchmark(source(drafts), to=tmp_path / "made")
    ids = [sample.id for sample in made.samples()]
    assert ids == sorted(ids, key=lambda name: (int(name) % 2, name))


def test_answers_lie_in_a_file_of_their_own(questions: Benchmark) -> None:
    assert len(open_answers(questions.folder)) == 12
    assert open_answers(questions.folder)["q005", 0] == Answer("q005", options=(1,))
    assert all(not hasattr(sample, "answer") for sample in questions.samples())


def test_a_benchmark_without_its_answers_can_be_asked_but_not_scored(
    questions: Benchmark, tmp_path: Path
) -> None:
    folder = shutil.copytree(questions.folder, tmp_path / "copy")
    (folder / ANSWERS).unlink()
    assert len(list(Benchmark(folder).samples())) == 12
    with pytest.raises(DataError, match=r"answers.jsonl.gz cannot be read \(No such file"):
        open_answers(folder)


# --- counts and warnings -----------------------------------------------------------------------------------------


def test_counts_that_differ_from_the_expected_are_said_and_the_build_goes_on(
    tmp_path: Path,
) -> None:
    made = small.built(
        small.rows(5), tmp_path / "made", expected=ExpectedCounts(samples=6, images=3)
    )
    assert made.manifest.warnings == ("samples: built 5, expected 6",)
    right = small.built(
        small.rows(5), tmp_path / "right", expected=ExpectedCounts(samples=5, images=3)
    )
    assert right.manifest.warnings == ()


def test_hidden_answers_are_counted(tmp_path: Path) -> None:
    rows = small.rows(4)
    hidden = small.built([{**row, "answer": None} for row in rows], tmp_path / "hidden")
    assert (hidden.manifest.counts.answers, hidden.manifest.warnings) == (0, ())
    some = small.built([{**rows[0], "answer": None}, *rows[1:]], tmp_path / "some")
    assert some.manifest.counts.answers == 3
    assert some.manifest.warnings == ("1 of 4 questions have no answer",)


def test_tags_are_counted_and_one_with_very_many_values_is_named(
    tmp_path: Path, source: Any
) -> None:
    drafts = [draft(str(i), tags={"level": "ab"[i % 2], "number": str(i)}) for i in range(102)]
    made = build_benchmark(source(drafts), to=tmp_path / "made")
    assert made.manifest.tags == {"level": {"a": 51, "b": 51}, "number": {}}


def test_a_mixed_table_has_the_form_that_most_rows_have(tmp_path: Path) -> None:
    rows = [*small.rows(2), {"question": "What?", "answer": "a cat", "id": "open"}]
    assert small.built(rows, tmp_path / "made").spec.formulation == "choice"


# --- dialogues ---------------------------------------------------------------------------------------------------

ROUNDS = (
    QuestionDraft("Which?", ("cat", "dog"), (1,)),
    QuestionDraft("What?", (), (), ("a cat",)),
    QuestionDraft("And?", ("a", "b")),
)


def test_a_dialogue_keeps_its_rounds_its_golds_and_its_history(tmp_path: Path, source: Any) -> None:
    told, silent = (
        draft("told", *ROUNDS, dialogue=True, replies=("dog", "a cat", "b")),
        draft("silent", *ROUNDS, dialogue=True),
    )
    made = build_benchmark(source([told, silent]), to=tmp_path / "made")
    [first, _] = made.samples()
    assert first.turns == (Turn("Which?", ("cat", "dog")), Turn("What?"), Turn("And?", ("a", "b")))
    assert (first.question, first.options) == ("", ())
    golds = {
        key: (a.options, a.texts)
        for key, a in open_answers(made.folder).items()
        if key[0] == "told"
    }
    assert golds == {("told", 0): ((1,), ()), ("told", 1): ((), ("a cat",))}
    assert made.histories() == {"told": ("dog", "a cat", "b")}
    assert made.manifest.counts.questions == 6


def test_dialogues_without_a_published_history_say_so(tmp_path: Path, source: Any) -> None:
    made = build_benchmark(source([draft("silent", *ROUNDS, dialogue=True)]), to=tmp_path / "made")
    with pytest.raises(
        DataError, match="given has no published dialogue history; use history=online"
    ):
        made.histories()


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (
            draft("x", *ROUNDS, dialogue=True, replies=("dog",)),
            "row x: 1 published replies for 3 rounds",
        ),
        (
            draft("x", QuestionDraft("a", ("b", "b")), dialogue=True),
            "row x, round 0: the option 'b' appears twice",
        ),
        (
            draft("x", QuestionDraft("a", ("café", "cafe\u0301"))),
            "'café' appears twice, in two Unicode spellings",
        ),
        (draft("x", QuestionDraft("a", ("b", "c"), (2,))), "row x: answer 2 but options are 0-1"),
        (draft("x", QuestionDraft("a", (), (), (" ",))), "row x: an answer text is empty"),
        (draft(" "), "row  : the id is empty"),
        (draft("good"), "row good: the id 'good' is already used by row good; ids must be unique"),
    ],
)
def test_a_draft_that_cannot_be_asked_is_refused(
    wrong: Draft, fault: str, tmp_path: Path, source: Any
) -> None:
    with pytest.raises(DataError, match=fault):
        build_benchmark(source([draft("good"), wrong]), to=tmp_path / "made")


# --- whole or not at all -----------------------------------------------------------------------------------------


def test_a_failed_build_leaves_nothing_and_keeps_the_earlier_one(tmp_path: Path) -> None:
    made = small.built(small.rows(4), tmp_path / "home" / "made")
    before = bytes_of(tmp_path)
    with pytest.raises(DataError):
        small.built([*small.rows(4), {"question": ""}], made.folder)
    assert bytes_of(tmp_path) == before
    small.built(small.rows(6), made.folder)
    assert len(list(Benchmark(made.folder).samples())) == 6
    assert sorted(path.name for path in made.folder.parent.iterdir()) == ["made"]


def test_an_interrupted_build_leaves_nothing_and_keeps_the_earlier_one(tmp_path: Path) -> None:
    made = small.built(small.rows(4), tmp_path / "home" / "made")
    before = bytes_of(tmp_path)

    def interrupt(count: int) -> None:
        if count == 3:
            raise KeyboardInterrupt

    path = small.write(small.rows(9), tmp_path / "t.jsonl")
    with pytest.raises(KeyboardInterrupt):
        build_benchmark(small.spec_of(path), source=tmp_path, to=made.folder, progress=interrupt)
    path.unlink()
    assert bytes_of(tmp_path) == before


def test_a_folder_that_is_no_benchmark_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(
        DataError, match="thesis exists and is not a benchmark; choose another folder"
    ):
        small.built(small.rows(2), tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    assert small.built(small.rows(2), tmp_path / "empty").manifest.counts.samples == 2


def test_a_file_in_the_way_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file is a file; choose another folder"):
        small.built(small.rows(2), tmp_path / "file")
    with pytest.raises(DataError, match=r"cannot build in .*; set SNELLEN_HOME or choose a folder"):
        small.built(small.rows(2), tmp_path / "file" / "made")
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"cannot build in .*; set SNELLEN_HOME or choose a folder"):
        build_benchmark(select("eyechart/word")[0])


@pytest.mark.parametrize("size", [200, 5000])
def test_a_disk_that_takes_no_more_is_one_line_and_leaves_nothing(
    size: int, tmp_path: Path
) -> None:
    made = small.built(small.rows(2), tmp_path / "home" / "made")
    before = bytes_of(tmp_path / "home")
    path = small.write(
        [
            {**row, "question": random.Random(row["id"]).randbytes(4000).hex()}
            for row in small.rows(9)
        ],
        tmp_path / "t.jsonl",
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        with pytest.raises(
            DataError, match=r"cannot write .*made: .*; free some space or choose another"
        ) as caught:
            build_benchmark(small.spec_of(path), source=tmp_path, to=made.folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(caught.value)
    assert bytes_of(tmp_path / "home") == before


def test_an_unknown_source_is_met_with_a_suggestion(tmp_path: Path) -> None:
    spec = msgspec.structs.replace(small.spec_of(tmp_path / "t.tsv"), source=SourceSpec("tabel"))
    with pytest.raises(
        UnknownNameError, match=r"'disc-lines'; .* install the package of that suite"
    ):
        registry.find_registered("readers", "disc-lines")
    with pytest.raises(UnknownNameError, match="unknown reader 'tabel'; did you mean table"):
        build_benchmark(spec, to=tmp_path / "made")


# --- a built folder that went bad --------------------------------------------------------------------------------


def test_a_folder_that_is_no_benchmark_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not a built benchmark \(benchmark.json is missing\)"):
        Benchmark(tmp_path)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "benchmark.json: .*; build the benchmark again"),
        (b"{}", "benchmark.json: .*; build the benchmark again"),
        (
            None,
            f"built in format 0, but this version of Snellen reads 2 to {FORMAT}; build it again",
        ),
    ],
)
def test_a_manifest_of_another_kind_is_one_line(
    content: bytes | None, fault: str, questions: Benchmark, tmp_path: Path
) -> None:
    folder = shutil.copytree(questions.folder, tmp_path / "copy")
    other = msgspec.json.encode(msgspec.structs.replace(questions.manifest, format=0))
    (folder / "benchmark.json").write_bytes(other if content is None else content)
    with pytest.raises(DataError, match=fault):
        Benchmark(folder)


def test_a_damaged_table_of_samples_is_one_line(questions: Benchmark, tmp_path: Path) -> None:
    folder = shutil.copytree(questions.folder, tmp_path / "copy")
    whole = (folder / "samples.jsonl.gz").read_bytes()
    for damaged in (
        b"",
        whole[:-1],
        whole[: len(whole) // 2],
        whole[:40] + bytes(200) + whole[240:],
        b"hello",
    ):
        (folder / "samples.jsonl.gz").write_bytes(damaged)
        with pytest.raises(
            DataError,
            match=r"the content of .*samples.jsonl.gz has changed since the build.*build .* again",
        ) as caught:
            list(Benchmark(folder).samples())
        assert "\n" not in str(caught.value)
    (folder / "samples.jsonl.gz").unlink()
    with pytest.raises(
        DataError, match=r"samples.jsonl.gz cannot be read \(No such file.*; build .* again"
    ):
        list(Benchmark(folder).samples())


# --- choosing samples --------------------------------------------------------------------------------------------


def test_a_larger_limit_keeps_the_samples_of_a_smaller(questions: Benchmark) -> None:
    chosen = [
        {sample.id for sample in questions.samples(Selection(limit=limit))} for limit in range(14)
    ]
    assert [len(ids) for ids in chosen] == [*range(13), 12]
    assert all(few <= many for few, many in itertools.pairwise(chosen))


def test_a_limit_does_not_depend_on_the_order_of_the_rows(tmp_path: Path) -> None:
    rows = small.rows(20)
    one, other = small.built(rows, tmp_path / "one"), small.built(rows[::-1], tmp_path / "other")
    assert {s.id for s in one.samples(Selection(limit=7))} == {
        s.id for s in other.samples(Selection(limit=7))
    }


def test_samples_are_chosen_by_tag_and_fact(questions: Benchmark) -> None:
    assert questions.count(Selection("level == 'easy'")) == 6
    assert questions.count(Selection("level == 'easy' and formulation == 'choice'", 4)) == 4
    assert questions.count(Selection("level == 'none'")) == 0
    assert questions.count() == 12


def test_half_built_folders_are_no_benchmarks_of_ones_own(
    tmp_path: Path, questions: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "SNELLEN_HOME", str(tmp_path)
    )  # of this test alone: others build into the session's
    shutil.copytree(questions.folder, tmp_path / "benchmarks" / "group" / "whole")
    shutil.copytree(questions.folder, tmp_path / "benchmarks" / "group" / ".half-built-x")
    assert own_benchmarks() == ["group/whole"]


def test_a_version_is_a_digest_of_questions_answers_and_pictures(questions: Benchmark) -> None:
    digest = hashlib.sha256()
    answers = open_answers(questions.folder)
    for sample in sorted(questions.samples(), key=lambda sample: sample.id):
        digest.update(
            msgspec.json.encode((sample, [answers[sample.id, 0]], ()), order="deterministic")
        )
    assert questions.manifest.version == digest.hexdigest()[:16]
