"""MMBench's files: every cell a text, circular copies one question, wrong rows refused or counted by name."""

from __future__ import annotations

import base64
import itertools
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mini_hub
import small
import snellen as sn
from mmbench_rows import (
    LETTERS,
    MILLION,
    Cells,
    built,
    options_of,
    rotated,
    rotation,
    row,
    spec_of,
    write,
)
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries, select, suites
from snellen.cli import main
from snellen.common.paths import benchmark_folder
from snellen.errors import DataError
from snellen.records import RowRef, Sample
from snellen.runs.finding import find_benchmarks
from snellen.scoring.answers import open_answers
from snellen.suites.mmbench import taxonomy
from snellen.suites.mmbench.reader import read, recognises
from snellen.suites.mmbench.writer import write_file, write_mmbench

FOUR = ("cat", "dog", "cow", "hen")


def golds(benchmark: Benchmark) -> dict[str, int]:
    return {name: answer.options[0] for (name, _), answer in open_answers(benchmark.folder).items()}


def samples(benchmark: Benchmark) -> dict[str, Sample]:
    return {sample.id: sample for sample in benchmark.samples()}


def refusal(rows: list[Cells], folder: Path, **params: Any) -> list[str]:
    """What a build of these rows says, a fault each, without the folder."""
    path = write(rows, folder / "t.tsv")
    with pytest.raises(DataError) as caught:
        built(path, **params)
    assert sorted(folder.iterdir()) == [path]
    return str(caught.value).replace(f"{folder}/", "").splitlines()


# --- what is read ------------------------------------------------------------------------------------------------


@pytest.fixture
def twelve(tmp_path: Path) -> Path:
    """Twelve questions of 2 to 4 options with all that a cell may hold."""
    bases = [
        row(1),
        row(2, ("None", "NA", "5.0", "null"), 1),
        row(3, ("yes", "no"), 1),
        row(4, ("甲", "乙", "丙"), 2, question="图里有什么？", hint="看\n左边"),
        row(5, ('a "quoted" one', "two\nlines", "a\ttab"), hint='say "cheese"'),
        row(6, ("1", "2", "3", "4"), 3),
        row(7, ("nan", "N/A"), 0, comment="a comment", source="elsewhere"),
        row(8, (" padded ", "padded not")),
        row(9, image=json.dumps([small.cell(1), small.cell(2)])),
        row(10, image=str([small.cell(2), small.cell(1)])),
        row(11, image="1"),
        row(12, category="", **{"l2-category": "", "split": "test"}),
    ]
    return write(rotated(*bases), tmp_path / "twelve.tsv")


def test_copies_are_one_question_with_the_options_of_its_base_row(twelve: Path) -> None:
    made = built(twelve)
    by_id = samples(made)
    assert made.manifest.counts.samples == 12 and set(by_id) == {str(i) for i in range(1, 13)}
    assert by_id["2"].options == ("None", "NA", "5.0", "null")
    assert by_id["5"].options == ('a "quoted" one', "two\nlines", "a\ttab")
    assert (by_id["4"].question, by_id["4"].context) == ("图里有什么？", "看\n左边")
    assert by_id["8"].options == (" padded ", "padded not")
    assert golds(made) == {
        "1": 0,
        "2": 1,
        "3": 1,
        "4": 2,
        "5": 0,
        "6": 3,
        "7": 0,
        "8": 0,
        "9": 0,
        "10": 0,
        "11": 0,
        "12": 0,
    }
    assert made.manifest.warnings[0].endswith("40 rows are 12 questions")
    assert (
        made.manifest.warnings[1] == "abilities: function_reasoning 4, image_scene 4, image_style 3"
    )


def test_pictures_are_stored_once_in_order_and_untouched(twelve: Path) -> None:
    made = built(twelve)
    by_id = samples(made)
    stored = {
        name: [made.images.read(image) for image in sample.images] for name, sample in by_id.items()
    }
    assert stored["9"] == [small.picture(1), small.picture(2)] == stored["10"][::-1]
    assert stored["11"] == stored["1"] == [small.picture(sum(b"1"))]
    assert by_id["11"].group == by_id["1"].group != by_id["2"].group


def test_tags_name_the_three_levels_and_a_leaf_is_counted(twelve: Path) -> None:
    made = built(twelve)
    assert samples(made)["1"].tags == {
        "l1": "perception",
        "l2": "coarse_perception",
        "l3": "image_scene",
        "split": "dev",
        "source": "made",
    }
    assert samples(made)["12"].tags == {"split": "test", "source": "made"}
    assert sum(made.manifest.tags["l3"].values()) == 11
    assert made.manifest.tags["split"] == {"dev": 11, "test": 1}


def test_what_is_read_is_written_and_read_again(twelve: Path, tmp_path: Path) -> None:
    made = built(twelve)
    (tmp_path / "again").mkdir()
    rows = write_file(made, tmp_path / "again" / "twelve.tsv", golds(made))
    again = built(tmp_path / "again" / "twelve.tsv")
    assert rows == 40
    assert again.manifest.version == made.manifest.version
    assert again.origins() == made.origins()
    bases = write_file(made, tmp_path / "again" / "twelve.tsv", golds(made), rotated=False)
    plain = built(tmp_path / "again" / "twelve.tsv")
    assert bases == 12
    assert plain.manifest.version == made.manifest.version
    hidden = write_file(made, tmp_path / "again" / "twelve.tsv", {})
    assert hidden == 40
    assert "answer" not in (tmp_path / "again" / "twelve.tsv").read_text().splitlines()[0]
    assert built(tmp_path / "again" / "twelve.tsv").manifest.counts.answers == 0


texts = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12
).filter(str.strip)


@given(
    st.lists(
        st.tuples(
            texts,
            st.lists(texts, min_size=2, max_size=6, unique_by=str.strip),
            st.integers(0, 5),
            texts,
        ),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_any_texts_come_through_reading_and_writing(
    tmp_path_factory: pytest.TempPathFactory,
    made_up: list[tuple[str, list[str], int, str]],
    left: bool,
) -> None:
    bases = [
        row(number, tuple(options), gold % len(options), question=question, hint=hint)
        for number, (question, options, gold, hint) in enumerate(made_up)
    ]
    folder = tmp_path_factory.mktemp("any")
    made = built(write(rotated(*bases, left=left), folder / "any.tsv"))
    for base in bases:
        sample = samples(made)[base["index"]]
        assert (sample.question, sample.context) == (base["question"], base["hint"])
        assert list(sample.options) == options_of(base)
        assert LETTERS[golds(made)[sample.id]] == base["answer"]
    write_file(made, folder / "again.tsv", golds(made))
    again = built(folder / "again.tsv", to=folder / "again")
    assert (again.manifest.version, again.origins()) == (made.manifest.version, made.origins())


@pytest.mark.parametrize("count", [2, 3, 5, 6, 26])
@pytest.mark.parametrize("left", [False, True])
def test_options_up_to_z_and_either_direction_are_matched_by_text(
    count: int, left: bool, tmp_path: Path
) -> None:
    base = row(7, tuple(f"option {number}" for number in range(count)), count - 1)
    made = built(write(rotated(base, left=left), tmp_path / "t.tsv"))
    assert golds(made) == {"7": count - 1}
    rows = made.origins()["7"].rows
    assert [placed.index for placed in rows] == [str(7 + turn * MILLION) for turn in range(count)]
    turn = 1 if left else -1
    assert rows[1].order == tuple((place + turn) % count for place in range(count))


def test_g_index_groups_whatever_the_indexes_are(tmp_path: Path) -> None:
    bases = [row(5, g_index="5"), row(1_500_000, ("a", "b"), 1, g_index="1500000")]
    rows = rotated(*bases, step=10_000_000, left=True)
    assert rows[2]["index"] == "10000005"
    named = [
        {**cells, "index": f"{cells['g_index']}__group_{number}"}
        for number, cells in enumerate(rows[2:], 1)
    ]
    for form in (rows, [*bases, *named]):
        made = built(write(form, tmp_path / "t.tsv"))
        assert golds(made) == {"5": 0, "1500000": 1}
        assert made.origins()["1500000"].rows[1] == RowRef(form[-1]["index"], (1, 0))
        (tmp_path / "o").mkdir(exist_ok=True)
        write_file(made, tmp_path / "o" / "t.tsv", golds(made))
        assert built(tmp_path / "o" / "t.tsv").origins() == made.origins()


def test_references_may_point_forwards_and_legacy_files_repeat_the_picture(tmp_path: Path) -> None:
    bases = [row(1), row(2, ("a", "b"))]
    legacy = [
        {**cells, "image": bases[int(cells["index"]) % MILLION - 1]["image"]}
        for cells in rotated(*bases)
    ]
    versions = {
        built(write(rows, tmp_path / "t.tsv")).manifest.version
        for rows in (rotated(*bases), [*bases, *rotated(*bases)[:1:-1]], legacy)
    }
    assert len(versions) == 1
    # The image in a rotation, the base row referring forwards.
    turned = rotated(row(1))
    turned[0]["image"], turned[2]["image"] = "2000001", turned[0]["image"]
    turned[1]["image"] = turned[3]["image"] = "2000001"
    assert built(write(turned[::-1], tmp_path / "t.tsv")).manifest.counts.images == 1


def test_a_group_is_gathered_from_any_order_of_rows(tmp_path: Path) -> None:
    rows = rotated(row(1), row(2, ("a", "b", "c"), 2))
    plain = built(write(rows, tmp_path / "t.tsv"))
    expected = golds(plain), samples(plain)
    turned = built(write(rows[::-1], tmp_path / "t.tsv"))
    assert (golds(turned), samples(turned)) == expected


def test_base_rows_alone_are_questions_like_others(tmp_path: Path) -> None:
    made = built(write([row(1), row(2, ("a", "b"))], tmp_path / "t.tsv"))
    assert made.manifest.counts.samples == 2
    assert "rotations" not in made.manifest.tags


def test_answers_are_hidden_when_the_column_is_absent_or_empty(tmp_path: Path) -> None:
    rows = rotated(row(1), row(2))
    absent = built(write(rows, tmp_path / "MMBench_DEV_EN.tsv", without=("answer",)))
    empty = built(
        write([{**cells, "answer": ""} for cells in rows], tmp_path / "MMBench_DEV_EN.tsv")
    )
    assert absent.manifest.counts.answers == empty.manifest.counts.answers == 0
    assert absent.manifest.version == empty.manifest.version


def test_answers_kept_apart_are_joined_by_index(tmp_path: Path) -> None:
    rows = rotated(row(1, gold=2), row(2, ("a", "b"), 1))
    path = write(rows, tmp_path / "t.tsv", without=("answer",))
    apart = write(
        [{"index": cells["index"], "answer": cells["answer"]} for cells in rows], tmp_path / "a.tsv"
    )
    assert golds(built(path, answers=str(apart))) == {"1": 2, "2": 1}
    for wrong, fault in {
        "9\tA": "a.tsv:2: index 9 is not among the questions",
        "2\tC": "a.tsv:2: the answer 'C' is not one of the letters A-B",
    }.items():
        apart.write_text(f"index\tanswer\n{wrong}\n")
        with pytest.raises(DataError, match=fault):
            built(path, answers=str(apart))
    apart.write_text("index\tanswer\n1\tB\n")
    with pytest.raises(DataError, match=r"a.tsv:2: another answer than in the questions' own file"):
        built(write(rows, tmp_path / "t.tsv"), answers=str(apart))
    apart.write_text("index\tgold\n1\tB\n")
    with pytest.raises(DataError, match=r"a.tsv:1: the column 'answer' is missing"):
        built(path, answers=str(apart))


def test_ccbench_has_leaves_and_no_second_level(tmp_path: Path) -> None:
    rows = rotated(row(1, category="food_clothes"), row(2, category="sketch_reasoning"))
    made = built(
        write(rows, tmp_path / "CCBench.tsv", without=("hint", "l2-category", "split", "comment"))
    )
    assert made.manifest.tags == {
        "l3": {"food_clothes": 1, "sketch_reasoning": 1},
        "source": {"made": 2},
    }


@pytest.mark.parametrize("name", ["L2-category", "l2_category", "l2-category"])
def test_the_second_level_is_found_under_the_spellings_that_go_about(
    name: str, tmp_path: Path
) -> None:
    rows = [{**row(1), name: "logic_reasoning"}]
    made = built(
        write(rows, tmp_path / "t.tsv", without=("l2-category",) if name != "l2-category" else ())
    )
    assert made.manifest.tags["l1"] == {"reasoning": 1}


def test_an_image_path_is_relative_to_the_file_and_may_be_a_list(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        (tmp_path / "in" / f"{number}.png").write_bytes(small.picture(number))
    rows = [
        {**row(1), "image": "", "image_path": "in/0.png"},
        {**row(2), "image": "", "image_path": "['in/0.png', 'in/1.png']"},
    ]
    made = built(write(rotated(*rows, image=""), tmp_path / "t.tsv"))
    assert [len(sample.images) for sample in samples(made).values()] == [1, 2]
    elsewhere = [{**cells, "image_path": cells["image_path"].replace("in/", "")} for cells in rows]
    path = write(elsewhere, tmp_path / "t.tsv")
    assert built(path, images=str(tmp_path / "in")).manifest.counts.images == 2


def test_a_very_small_picture_is_not_taken_for_a_reference(tmp_path: Path) -> None:
    gif = base64.b64decode("R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs=")
    [cell] = [base64.b64encode(gif).decode()]
    assert len(cell) <= 64
    made = built(write([row(1, image=json.dumps([cell]))], tmp_path / "t.tsv"))
    (tmp_path / "o").mkdir()
    write_file(made, tmp_path / "o" / "t.tsv", golds(made))
    assert built(tmp_path / "o" / "t.tsv").manifest.version == made.manifest.version


# --- what is refused ---------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[list[Cells], str]] = {
    "half a group": (
        rotated(row(1))[:3] + rotated(row(2)),
        "t.tsv:2: index 1 has 4 options, but 3 of its 4 rotations (1, 1000001, 2000001); "
        "add the missing rows, or build with lenient=True",
    ),
    "no base row": (
        rotated(row(1), row(2))[1:],
        "t.tsv:3: index 1000001 is a rotation of 1, which is not a base row of this file; where it is a question of "
        "its own, add a column g_index that repeats the index",
    ),
    "no base row by g_index": (
        [row(1, g_index="1"), row(2, g_index="3")],
        "t.tsv:3: index 2 is a rotation of 3, which is not a base row of this file",
    ),
    "only rotations": (
        [rotation(row(1), 1)],
        "t.tsv: every index is 1000000 or more, so that all rows are rotations and none is a base row; where they "
        "are questions of their own, add a column g_index that repeats the index",
    ),
    "index twice": ([row(1), row(1)], "t.tsv:3: the index 1 is taken by t.tsv:2"),
    "index twice, spelled otherwise": (
        [row(1), row("01")],
        "t.tsv:3: the index 1 is taken by t.tsv:2",
    ),
    "no index": ([row(1), row(" ")], "t.tsv:3: the index is empty"),
    "no question": ([row(1, question=" ")], "t.tsv:2: the question is empty"),
    "answer without option": (
        [row(1, answer="E")],
        "t.tsv:2: the answer 'E' is not one of the letters A-D",
    ),
    "answer of three": (
        [row(1, ("a", "b", "c"), answer="D")],
        "t.tsv:2: the answer 'D' is not one of the letters A-C",
    ),
    "answer as text": (
        [row(1, answer="cat")],
        "t.tsv:2: the answer 'cat' is not one of the letters A-D",
    ),
    "answers that differ": (
        [*rotated(row(1))[:3], rotation(row(1, gold=1), 3)],
        "t.tsv:5: the answer of index 3000001 is another option than that of index 1 (t.tsv:2)",
    ),
    "answer in one row only": (
        rotated(row(1))[:1] + [{**cells, "answer": ""} for cells in rotated(row(1))[1:]],
        "t.tsv:3: the answer of index 1000001 is another option than that of index 1 (t.tsv:2)",
    ),
    "hole": ([row(1, B="")], "t.tsv:2: option D is given, but an option before it is empty"),
    "one option": ([row(1, ("a",), B="")], "t.tsv:2: two options are needed, there is 1"),
    "no options": ([row(1, ("", ""))], "t.tsv:2: two options are needed, there are none"),
    "blank option": ([row(1, ("a", " "))], "t.tsv:2: option B is blank"),
    "option twice": (
        [row(1, ("a", "a "))],
        "t.tsv:2: the option 'a' appears twice; options must differ",
    ),
    "other options": (
        [*rotated(row(1))[:3], rotation(row(1, ("cat", "dog", "cow", "ox")), 3)],
        "t.tsv:5: the set of options of index 3000001 differs from that of its base row 1 (t.tsv:2)",
    ),
    "same order": (
        [row(1), rotation(row(1), 1), rotation(row(1), 2), rotation(row(1), 1, index="3000001")],
        "t.tsv:5: index 3000001 shows the options in the same order as index 1000001 (t.tsv:3)",
    ),
    "other picture": (
        [*rotated(row(1))[:3], rotation(row(1), 3, image=small.cell(77))],
        "t.tsv:5: the image of index 3000001 differs from that of its base row 1 (t.tsv:2)",
    ),
    "no image": ([row(1, image="")], "t.tsv:2: index 1 has no image"),
    "dangling": (
        [row(1, image="77")],
        "t.tsv:2: the image of index 1 refers to index 77, which is not there",
    ),
    "file that is not there": (
        [row(1, image="cat.png")],
        "t.tsv:2: cannot read the image cat.png (No such file or directory)",
    ),
    "second hop": (
        [row(1), row(2, image="1"), row(3, image="2")],
        "t.tsv:4: the image of index 3 refers to index 2 (t.tsv:3), which itself refers to 1",
    ),
    "itself": (
        [row(1, image="1")],
        "t.tsv:2: the image of index 1 refers to index 1 (t.tsv:2), which itself refers to 1",
    ),
    "reference to none": (
        [row(1, image="2"), row(2, image="")],
        "t.tsv:2: the image of index 1 refers to index 2 (t.tsv:3), which has none",
    ),
    "empty list": (
        [row(1, image="[]")],
        't.tsv:2: image \'[]\' is not a list of images; write ["...", "..."]',
    ),
    "list of calls": (
        [row(1, image="[__import__('os').getcwd()]")],
        't.tsv:2: image "[__import__(\'os\').getcwd()]" is not a list of images; write ["...", "..."]',
    ),
    "deep list": (
        [row(1, image="[" * 100_000)],
        f't.tsv:2: image \'{"[" * 60}...\' is not a list of images; write ["...", "..."]',
    ),
    "bad base64": (
        [row(1, image="?" * 80)],
        f"t.tsv:2: image '{'?' * 60}...' is neither the index of a row nor base64",
    ),
}
for name in ("question", "hint", "category", "split"):
    WRONG[f"other {name}"] = (
        [*rotated(row(1))[:3], rotation(row(1), 3, **{name: "else"})],
        f"t.tsv:5: the {name} of index 3000001 differs from that of its base row 1 (t.tsv:2)",
    )


@pytest.mark.parametrize("rows, fault", WRONG.values(), ids=WRONG)
def test_a_wrong_row_is_refused_with_file_and_line(
    rows: list[Cells], fault: str, tmp_path: Path
) -> None:
    assert refusal(rows, tmp_path)[0] == fault


def test_base64_that_is_no_picture_is_refused_with_file_and_line(tmp_path: Path) -> None:
    cell = base64.b64encode(
        b"no picture at all, though long enough to be one, or so it may seem"
    ).decode()
    [fault] = refusal([row(1), row(2, image=cell)], tmp_path)
    assert fault.startswith("t.tsv:3: not a readable image")
    [fault] = refusal([{**row(1), "image": "", "image_path": "no.png"}], tmp_path)
    assert fault == "t.tsv:2: cannot read the image no.png (No such file or directory)"


def test_up_to_ten_faults_are_named_at_once(tmp_path: Path) -> None:
    found = refusal([row(number, answer="Z") for number in range(30)], tmp_path)
    assert [line.split(": ")[0] for line in found] == [f"t.tsv:{line}" for line in range(2, 12)]
    found = refusal([row(number, image="?" * 99) for number in range(30)], tmp_path)
    assert [line.split(": ")[0] for line in found] == [f"t.tsv:{line}" for line in range(2, 12)]


@pytest.mark.parametrize(
    ("without", "fault"),
    [
        (("index",), "t.tsv:1: the column 'index' is missing; there are question, hint, A"),
        (("A",), "t.tsv:1: the column 'A' is missing"),
        (("B", "C", "D"), "t.tsv:1: the column 'B' is missing"),
        (("image",), "t.tsv:1: there is neither a column 'image' nor 'image_path'"),
    ],
)
def test_a_missing_column_is_named(without: tuple[str, ...], fault: str, tmp_path: Path) -> None:
    path = write([row(1)], tmp_path / "t.tsv", without=without)
    with pytest.raises(DataError) as caught:
        built(path)
    assert str(caught.value).replace(f"{tmp_path}/", "").startswith(fault)


def test_a_column_nearly_named_is_refused_and_a_strange_one_told(tmp_path: Path) -> None:
    slip = [{name if name != "answer" else "anwser": cell for name, cell in row(1).items()}]
    assert refusal(slip, tmp_path) == [
        "t.tsv:1: unknown column 'anwser'; did you mean 'answer'? Rename it"
    ]
    made = built(write([row(1, x="1", context="2")], tmp_path / "t.tsv"))
    assert "'x', 'context' left out: such columns mean nothing here" in made.manifest.warnings


# --- what is kept leniently --------------------------------------------------------------------------------------


def test_leniently_wrong_questions_are_left_out_and_counted_by_kind(tmp_path: Path) -> None:
    rows = [
        *rotated(
            row(1),
            row(2, image=""),
            row(3, answer="Z"),
            row(4, image=small.cell(1)[:40] + "A" * 40),
        ),
        *rotated(row(5))[:2],
        row(6, image="66"),
        row(7, image=""),
    ]
    made = built(write(rows, tmp_path / "t.tsv"), lenient=True)
    assert set(samples(made)) == {"1", "5"}
    assert samples(made)["5"].tags["rotations"] == "incomplete"
    assert "rotations" not in samples(made)["1"].tags
    told = [warning.replace(f"{tmp_path}/", "") for warning in made.manifest.warnings[2:]]
    assert told[:-1] == [
        "1 question without all rotations, tagged rotations=incomplete",
        "1 question left out, an answer without its option: t.tsv:4: the answer 'Z' is not one of the letters A-D",
        "2 questions left out, without an image: t.tsv:3: index 2 has no image",
        "1 question left out, a dangling reference: t.tsv:20: the image of index 6 refers to index 66, which is not "
        "there",
    ]
    assert told[-1].startswith(
        "1 question left out, an image that cannot be read: t.tsv:5: not a readable image"
    )


def test_leniently_a_file_without_any_sound_question_is_refused_all_the_same(
    tmp_path: Path,
) -> None:
    assert refusal([row(1, image="")], tmp_path, lenient=True) == ["t.tsv:2: index 1 has no image"]


def test_a_question_left_unrotated_by_intent_is_tagged_and_told(tmp_path: Path) -> None:
    rows = [*rotated(row(1, g_index="1")), row(2, ("A", "B"), g_index="2")]
    made = built(write(rows, tmp_path / "t.tsv"))
    assert samples(made)["2"].tags["rotations"] == "single-pass"
    assert (
        "1 question without rotations by intent, tagged rotations=single-pass"
        in made.manifest.warnings
    )
    [use] = find_benchmarks([str(made.folder)], where="rotations != 'single-pass'")
    assert [sample.id for sample in made.samples(use.selection)] == ["1"]
    (tmp_path / "o").mkdir()
    write_file(made, tmp_path / "o" / "t.tsv", golds(made))
    assert built(tmp_path / "o" / "t.tsv").manifest.version == made.manifest.version


def test_copies_that_nothing_marks_as_such_are_told(tmp_path: Path) -> None:
    rows = [{**cells, "index": f"q{number}"} for number, cells in enumerate(rotated(row(1)))]
    rows = [{**cells, "image": small.cell(1)} for cells in rows]
    made = built(write(rows, tmp_path / "t.tsv"))
    assert made.manifest.warnings[2] == (
        "3 questions with the image and options of another; where these are circular copies, say so by the "
        "column g_index"
    )


# --- abilities ---------------------------------------------------------------------------------------------------

PAPER = {"CP": (298, 470, 296), "FP-S": (297, 400, 293), "FP-C": (145, 250, 143), "AR": (201, 289, 199),
         "RR": (115, 213, 115), "LR": (120, 176, 118)}  # fmt: skip


def test_the_counts_of_leaves_add_up_to_those_of_the_paper() -> None:
    shipped = taxonomy.packaged_taxonomy()
    leaves = {
        second.short: [leaf for leaf in shipped.leaf if leaf.l2 == second.name]
        for second in shipped.l2
    }
    sums = {
        short: tuple(
            sum(getattr(leaf, name) for leaf in found)
            for name in ("paper_dev", "paper_test", "dev")
        )
        for short, found in leaves.items()
    }
    assert sums == PAPER
    assert [sum(column) for column in zip(*sums.values(), strict=True)] == [1176, 1798, 1164]
    assert sum(map(len, leaves.values())) == 20
    assert [second.l1 for second in shipped.l2] == ["perception"] * 3 + ["reasoning"] * 3


def test_titles_fall_back_to_the_raw_string() -> None:
    shipped = taxonomy.packaged_taxonomy()
    assert shipped.title("ocr", "finegrained_perception (instance-level)") == "OCR"
    assert shipped.title("attribute_reasoning") == "Attribute reasoning"
    assert shipped.title("perception") == "Perception"
    assert shipped.title("food_clothes") == "Food and clothes"
    assert shipped.title("new_ability", "new") == "new_ability"


def test_counts_that_differ_from_the_published_ones_are_told(tmp_path: Path) -> None:
    path = write([row(1)], tmp_path / "t.tsv")
    [_, _, dev] = built(path, published="dev").manifest.warnings
    assert dev.startswith("published counts differ: image_style 0 (53), image_scene 1 (104)")
    assert len(built(path, published="test").manifest.warnings) == 2
    more = write(
        [
            row(i, category="image_scene", **{"l2-category": "coarse_perception"})
            for i in range(131)
        ],
        path,
    )
    assert (
        "published counts differ: image_scene 131 (130)"
        in built(more, published="test").manifest.warnings
    )


def test_an_unknown_second_level_has_no_first_one_and_is_counted(tmp_path: Path) -> None:
    path = write([row(1, **{"l2-category": "charts"}), row(2)], tmp_path / "t.tsv")
    made = built(path)
    assert samples(made)["1"].tags["l2"] == "charts" and "l1" not in samples(made)["1"].tags
    assert "1 question with the unknown l2-category 'charts': no l1" in made.manifest.warnings
    (tmp_path / "taxonomy.toml").write_text('[[l2]]\nname = "charts"\nl1 = "reading"\n')
    assert samples(built(path))["1"].tags["l1"] == "reading"
    (tmp_path / "taxonomy.toml").write_text('[[l2]]\nnmae = "charts"\n')
    with pytest.raises(
        DataError, match=r"taxonomy.toml: l2\[0\]: unknown field 'nmae'; did you mean name\?"
    ):
        built(path)


# --- the catalogue -----------------------------------------------------------------------------------------------


def test_the_catalogue_has_the_splits_languages_and_versions() -> None:
    names = {spec.name.partition("/")[2] for spec in suites()["mmbench"]}
    whole = {
        f"{split}-{language}"
        for split, language in itertools.product(("dev", "test"), ("en", "cn"))
    }
    assert names == {*whole, *(f"{name}-v11" for name in whole), "ccbench"}
    assert select("mmbench/test-*")[0].split == "test"


@pytest.mark.parametrize(
    "name", ["MMBench_DEV_EN.tsv", "mmbench_dev_en_20231003.tsv", "MMBench_DEV_EN_legacy.tsv"]
)
def test_an_entry_is_built_from_a_folder_or_the_file_itself(name: str, tmp_path: Path) -> None:
    [spec] = select("mmbench/dev-en")
    path = write(rotated(row(1)), tmp_path / name)
    other = write(rotated(row(1)), tmp_path / "renamed.tsv")
    for source in (tmp_path, path, other):
        made = build_benchmark(spec, source=source, to=tmp_path / "made")
        assert made.manifest.warnings[0] == "samples: built 1, expected 1164"
    path.unlink()
    with pytest.raises(DataError, match=r"MMBench_DEV_EN.tsv or .* is missing"):
        build_benchmark(spec, source=tmp_path, to=tmp_path / "made2")
    with pytest.raises(DataError, match=r"name it with sn\.build\(NAME, source=FOLDER\)"):
        build_benchmark(spec, to=tmp_path / "made2")


# --- writing -----------------------------------------------------------------------------------------------------


def test_any_benchmark_of_choices_can_be_written_with_all_rotations(tmp_path: Path) -> None:
    made = small.built(small.rows(5, options=3), tmp_path / "made")
    write_file(made, tmp_path / "t.tsv", golds(made))
    again = built(tmp_path / "t.tsv", to=tmp_path / "again")
    assert golds(again) == golds(made)
    assert {s.id: (s.question, s.options, s.images) for s in again.samples()} == {
        s.id: (s.question, s.options, s.images) for s in made.samples()
    }
    assert again.manifest.warnings[0].endswith("15 rows are 5 questions")
    # Images that questions share stand once.
    assert (tmp_path / "t.tsv").read_text().count(small.cell(0)) == 1


def test_numbers_over_a_million_get_a_larger_step_and_say_so(tmp_path: Path) -> None:
    rows = [
        {**cells, "id": str(number)}
        for cells, number in zip(small.rows(2, options=2), (5, 1_000_005), strict=True)
    ]
    made = small.built(rows, tmp_path / "made")
    write_file(made, tmp_path / "t.tsv", golds(made))
    again = built(tmp_path / "t.tsv", to=tmp_path / "again")
    assert [row.index for row in again.origins()["5"].rows] == ["5", "10000005"]
    assert golds(again) == golds(made)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"options": None, "answer": "x"}, "is not multiple choice"),
        ({"image": None}, "has no image"),
        ({"id": "007"}, "would be read again as '7'"),
        ({"options": [str(i) for i in range(27)]}, "has 27 options, over the 26 that have letters"),
    ],
)
def test_what_the_form_cannot_hold_is_refused(
    row: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    made = small.built([{**small.rows(1)[0], **row}], tmp_path / "made")
    with pytest.raises(DataError, match=fault):
        write_file(made, tmp_path / "t.tsv", {})
    assert not (tmp_path / "t.tsv").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made"]


# --- size --------------------------------------------------------------------------------------------------------


def test_a_large_file_is_read_in_little_memory(tmp_path: Path) -> None:
    large = "x" * 4_000_000
    path = tmp_path / "t.tsv"
    with path.open("w") as file:
        file.write("index\tquestion\tA\tB\tanswer\timage\n")
        for number in range(8):
            file.write(
                f"{number}\tWhich?\tcat\tdog\tA\t{large}\n{number + MILLION}\tWhich?\tdog\tcat\tB\t{large}\n"
            )
    tracemalloc.start()
    drafts = sum(1 for _ in read({"files": [path.name]}, tmp_path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert drafts == 8
    assert path.stat().st_size > 60_000_000
    assert peak < 40_000_000


def test_a_spec_with_an_unknown_parameter_is_refused(tmp_path: Path) -> None:
    path = write([row(1)], tmp_path / "t.tsv")
    with pytest.raises(DataError, match="unknown field 'strict'"):
        build_benchmark(spec_of(path, strict=True), source=tmp_path, to=tmp_path / "made")


# --- through the front door --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "is_so"),
    [
        ("index question A B image", False),
        ("index question A B image category", True),
        ("index question A B image answer split", True),
        ("index question hint A B C D answer category image l2-category split", True),
        ("index question A B image_path answer", False),
        ("question A B image g_index", True),
        ("question A B L2-category", False),
        ("index question A B answer L2-category", True),
        ("index question A B answer", False),
        ("question A B image answer", False),
        ("id index question A B image", False),
        ("index question A B image tag_level", False),
        ("index question A B image group", False),
    ],
)
def test_the_form_is_recognised_by_its_columns(columns: str, is_so: bool, tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("\t".join(columns.split()) + "\n")
    assert recognises(path) is is_so
    assert not recognises(tmp_path / "no.tsv")
    assert not recognises(path.rename(tmp_path / "t.jsonl"))


def test_an_index_alone_is_an_id_unless_rows_are_rotations(tmp_path: Path) -> None:
    rows = "index\tquestion\tA\tB\timage\tanswer\n7\tWhich?\tcat\tdog\tx.png\tA\n{}\tWhich?\tdog\tcat\tx.png\tB\n"
    for second, is_so in (("8", False), ("1000008", False), ("1000007", True)):
        path = tmp_path / f"{second}.tsv"
        path.write_text(rows.format(second))
        assert recognises(path) is is_so


def test_indexes_and_empty_cells_may_be_as_pandas_writes_them(tmp_path: Path) -> None:
    head, cell = "index\tquestion\thint\tA\tB\timage\tanswer\n", small.cell()
    path = tmp_path / "t.tsv"
    path.write_text(
        f"{head}7.0\tWhich?\tnan\tcat\tdog\t{cell}\tA\n1000007.0\tWhich?\tnan\tdog\tcat\t7\tB\n"
    )
    [draft] = read({"files": [path.name]}, tmp_path)
    assert (draft.id, len(draft.rows)) == ("7", 2)
    assert (
        "1 question with the text 'nan', which is shown; leave a cell empty where it is none"
        in draft.notes
    )


def test_a_picture_named_by_the_index_of_its_row_makes_the_form(tmp_path: Path) -> None:
    rows = "index\tquestion\tA\tB\timage\tanswer\n7\tWhich?\tcat\tdog\t{}\tA\n8\tWho?\tdog\tcat\t{}\tB\n"
    path = tmp_path / "t.tsv"
    for first, second, is_so in (
        (small.cell(), "7", True),
        (small.cell(), "9", False),
        ("7.png", "7", False),
    ):
        path.write_text(rows.format(first, second))
        assert recognises(path) is is_so


def test_a_file_of_ones_own_is_built_written_and_run(tmp_path: Path) -> None:
    path = write(
        rotated(row(1, gold=2), row(2, ("yes", "no"), 1)), tmp_path / "own.tsv", without=("answer",)
    )
    apart = write(
        [{"index": "1", "answer": "C"}, {"index": "2", "answer": "B"}], tmp_path / "answers.tsv"
    )
    made = sn.build(path, to=tmp_path / "own", answers=apart)
    assert golds(made) == {"1": 2, "2": 1}
    assert write_mmbench(made, tmp_path / "again.tsv") == 6
    assert (
        sn.build(tmp_path / "again.tsv", to=tmp_path / "again", name="own").manifest.version
        == made.manifest.version
    )
    results = sn.evaluate("snellen:oracle", str(made.folder), "circular", runs=tmp_path / "runs")
    assert results.value("circular_accuracy", benchmark="own") == 1.0
    table = small.write(small.rows(2), tmp_path / "plain.jsonl")
    with pytest.raises(DataError, match="a separate file of answers works only with"):
        sn.build(table, answers=table)


def test_the_command_says_how_a_file_is_read_and_what_was_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write([*rotated(row(1))[:3], row(2, image="")], tmp_path / "own.tsv")
    with pytest.raises(SystemExit):
        main(["build", str(path), "--to", str(tmp_path / "own")])
    said = " ".join(capsys.readouterr().err.split())
    assert "is read as MMBench's form, circular copies as one question" in said
    assert "3 of its 4 rotations" in said and "index 2 has no image" in said
    with pytest.raises(SystemExit):
        main(["build", str(path), "--lenient", "--to", str(tmp_path / "own")])
    said = " ".join(capsys.readouterr().err.split())
    assert "note: 1 question left out, without an image" in said
    with pytest.raises(SystemExit, match="2"):
        main(["build", "eyechart/shape", "--lenient"])
    assert "--lenient: for `snellen build FILE` and MMBench's form" in " ".join(
        capsys.readouterr().err.split()
    )
    with pytest.raises(SystemExit):
        main(
            [
                "build",
                "mmbench/dev-en",
                "--source",
                str(path),
                "--lenient",
                "--to",
                str(tmp_path / "dev"),
            ]
        )
    assert "built mmbench/dev-en" in " ".join(capsys.readouterr().out.split())


def test_a_build_writes_an_entry_that_the_next_one_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tables [1]"
    folder.mkdir()
    monkeypatch.chdir(folder)
    photos = tmp_path / "photos"
    photos.mkdir()
    cells = [{**row(1), "image_path": "1.png"}, {**row(2), "image_path": "2.png"}]
    for one in cells:
        one.pop("image")
        (photos / one["image_path"]).write_bytes(base64.b64decode(small.cell(int(one["index"]))))
    write(cells, Path("own.tsv"))

    with pytest.raises(SystemExit, match="0"):
        main(["build", "own.tsv", "--images", str(photos)])
    said = " ".join(capsys.readouterr().err.split())
    assert "saved to own.toml; if a column was read wrongly" in said
    assert 'images = "../photos"' in Path("own.toml").read_text("utf-8")
    built_first = Benchmark(benchmark_folder("own")).manifest.version

    monkeypatch.chdir(tmp_path)
    for target in (folder / "own.tsv", folder / "own.toml"):
        assert sn.build(target).manifest.version == built_first


def test_a_table_is_told_to_have_changed_since_it_was_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write([row(1), row(2)], tmp_path / "own.tsv")
    sn.build(path)
    write([row(1), row(3)], path)
    with pytest.raises(SystemExit, match="0"):
        main(["run", "snellen:oracle", "own", "--runs", str(tmp_path / "runs")])
    said = " ".join(capsys.readouterr().err.split())
    assert "own.tsv has changed since own was built from it" in said


def test_a_samples_own_split_wins_over_that_of_its_benchmark(tmp_path: Path) -> None:
    path = write([row(1), row(2, split="test"), row(3)], tmp_path / "own.tsv")
    made = sn.build(path, to=tmp_path / "own")
    [use] = find_benchmarks([str(made.folder)], where="split == 'dev'")
    assert [sample.id for sample in made.samples(use.selection)] == ["1", "3"]


# --- from the hub ------------------------------------------------------------------------------------------------


def as_parquet(cells: list[Cells], to: Path) -> Path:
    """The dataset on the hub that holds a table: cells without a text are "nan" there, images are not base64."""
    own = {one["index"]: one["image"] for one in cells if len(one["image"]) > 64}
    texts = [name for name in cells[0] if name not in ("index", "image")]
    rows: mini_hub.Rows = []
    for one in cells:
        told = {
            "L2-category" if name == "l2-category" else name: one.get(name) or "nan"
            for name in texts
        }
        picture = base64.b64decode(own.get(one["image"], one["image"]))
        rows.append({"index": int(one["index"]), **told, "image": {"bytes": picture, "path": None}})
    types = {name: pa.string() for name in rows[0]} | {
        "index": pa.int64(),
        "image": mini_hub.PICTURE,
    }
    return mini_hub.write(to, rows, types)


def test_the_hubs_dataset_is_the_same_benchmark_as_the_toolkits_table(tmp_path: Path) -> None:
    bases = [row(number, gold=number % 4) for number in range(5)]
    bases[4] = row(4, options=("a bee", "a wasp"), hint="It flies.")
    (tmp_path / "table").mkdir()
    table = write(rotated(*bases), tmp_path / "table" / "MMBench_DEV_EN.tsv")
    as_parquet(rotated(*bases), tmp_path / "hub" / "en" / "dev-00000-of-00001.parquet")
    spec = entries()["mmbench/dev-en"]
    ours = build_benchmark(spec, source=table.parent, to=tmp_path / "ours")
    theirs = build_benchmark(
        spec.from_hub("c0ffee"), source=tmp_path / "hub", to=tmp_path / "theirs"
    )
    assert theirs.manifest.version == ours.manifest.version and ours.manifest.counts.samples == 5


@pytest.mark.parametrize("folder", ["", "pictures"])
def test_a_table_in_the_columns_of_the_form_may_name_files(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir(exist_ok=True)
    lines = ["index\timage\tquestion\tA\tB\tC\tD\tanswer\tcategory"]
    for number in range(4):
        (tmp_path / folder / f"p{number:02d}.png").write_bytes(small.picture(number))
        lines.append(f"{number}\tp{number:02d}.png\tWhat is it?\tcat\tdog\tcow\tgoat\tB\tanimals")
    (tmp_path / "questions.tsv").write_text("\n".join(lines) + "\n")
    images = ["--images", f"{folder}/"] if folder else []

    code, _, err = small.command(capsys, "build", "questions.tsv", *images, "--to", "made")

    assert code == 0, err
    made = Benchmark(tmp_path / "made")
    assert made.manifest.counts.samples == 4
    shown = {picture for sample in made.samples() for picture in sample.images}
    assert len(shown) == 4


def test_circular_copies_may_name_files(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.png").write_bytes(small.picture(3))
    path = write(rotated(row(1, image="cat.png")), tmp_path / "t.tsv")
    assert recognises(path)
    [draft] = read({"files": [path.name], "images": str(tmp_path / "pictures")}, tmp_path)
    assert len(draft.rows) == 4
    assert draft.images == (tmp_path / "pictures" / "cat.png",)


def test_the_usual_name_of_a_column_suggests_its_role(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write([row(1)], tmp_path / "t.tsv")
    code, _, err = small.command(capsys, "build", str(path), "--column", "image_path=image")
    assert code != 0
    assert "unknown role of a column 'image_path'; write --column image=image" in err
