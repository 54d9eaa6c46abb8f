"""OCRBench v2: each type of question by its rule, its rows as questions, and the mean of its abilities."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import modern_metric_tables
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.errors import DataError
from snellen.suites.modern.ocrbench_v2.boxes import read_spotted_texts
from snellen.suites.modern.ocrbench_v2.fields import field_score
from snellen.suites.modern.ocrbench_v2.reading import ABILITIES, ability, accepted_answers
from snellen.suites.modern.ocrbench_v2.scoring import PACKAGES, ocrbench_v2_right

ROW = "<tr><td>a</td><td>{}</td></tr>"
TABLE = f"<table>{ROW.format(12)}{ROW.format(3)}</table>"
EMPTY_CELL = f"<table>{ROW.format('')}{ROW.format(3)}</table>"
MARKDOWN = "| a | b |\n| --- | --- |\n| 1 | 22 |"
CHART = '{"2020": {"wrens": 4}, "2021": {"wrens": 5}}'
PAGE = "A title\n# Birds\nA wren.\nA robin.\n# Trees\nAn oak."
BIRDS = "A wren sang in the old tree"
CHINESE_BIRDS = "一只鹪鹩在老树上唱歌"
SIGN = '[[100, 100, 200, 150, "OPEN!"], [300, 100, 400, 150, "sale"], [500, 100, 600, 150, "###"]]'
EXIT = '{"answer": "Exit", "bbox": [100, 100, 200, 200]}'


def wait_for_packages() -> None:
    for module, package in PACKAGES.items():
        pytest.importorskip(module, reason=f"waits for {package} (extra `documents`)")


def score(kind: str, reply: str, *golds: str, form: str = "", question: str = "") -> float:
    asked: Any = SimpleNamespace(
        sample=SimpleNamespace(tags={"category": kind, "form": form}),
        turn=SimpleNamespace(question=question),
        reference_answers=golds,
    )
    said: Any = SimpleNamespace(text=reply, reason=None)
    return ocrbench_v2_right(asked, said)


# --- the rules: each value is what process_predictions of the makers' eval.py gives ---------------------------------


@pytest.mark.parametrize(
    ("kind", "form", "gold", "reply", "value"),
    [
        ("text recognition en", "", "Word", "it says a word", 1),
        ("text recognition en", "case sensitive", "Word", "it says a word", 0),
        ("math QA en", "multiple choice", "B", "(B).", 1),
        ("math QA en", "multiple choice", "B", "It is B", 0),
        ("reasoning VQA en", "", "one two three four five", "one two three four five!", 1 - 1 / 24),
        (
            "reasoning VQA en",
            "",
            "one two three four five",
            "We see one two three four five there, as I said",
            0,
        ),
        ("cognition VQA cn", "", "三 月", "在三月里", 1),
        ("cognition VQA cn", "", "a, b, c, d", "a,b,c,e", 1 - 1 / 7),
        ("cognition VQA en", "", "three", "", 0),
        ("cognition VQA cn", "case sensitive", "a,b,c,d", "(a,b,c,d)", 1),
        ("handwritten answer extraction cn", "", "AC", "A、C", 1),
        ("handwritten answer extraction cn", "", "AC", "C, A", 0),
        ("handwritten answer extraction cn", "", "B", "选B", 1),
        # Blanks do not count in formulas; in Chinese, neither does \\text{} around words.
        ("formula recognition en", "", "x ^ { 2 }", "$x^{2}$", 1),
        ("formula recognition en", "", "x ^ { 2 }", "$x^2$", 0),
        ("formula recognition en", "", r"\text{A} + b", "A+b", 0),
        ("formula recognition cn", "", r"\text{甲} + b", "甲+b", 1),
        ("text counting en", "exact match", "4", "There are 14", 1),  # the answer occurs in it
        ("text counting en", "exact match", "4", "There are three", 0),
        ("text counting en", "regression", "4", "5 or 6", 0.75),
        ("text counting en", "regression", "4", "2", 0),  # exactly a half
        ("text counting en", "regression", "4", "none", 0),
        ("text counting en", "regression", "4", "9" * 400, 0),  # no float is as large
        ("text counting en", "regression", "4", "9" * 5000, 0),  # more digits than int() reads
        ("key information mapping en", "", "{'a': '1', 'b': '2'}", '{"a": "1"}', 0.5),
        ("key information extraction cn", "", "{'合计': ['12', '12元']}", "合计: 12 元", 1),
        # The last box counts; four numbers above 1000 are none.
        ("text grounding en", "", "[0, 0, 10, 20]", "(0, 0, 10, 10)", 0.5),
        ("text grounding en", "", "[0, 0, 10, 20]", "[1, 2, 3, 4] no, [0,0,10,20]", 1),
        ("text grounding en", "", "[0, 0, 10, 20]", "[0, 0, 10, 20] of [0, 0, 2000, 2000]", 1),
        ("text grounding en", "", "[0, 0, 10, 20]", "(0, 0), (10, 20)", 0),
        ("text grounding en", "", "[0, 0, 10, 20]", "[10, 20, 0, 0]", 0),
        ("text grounding en", "", "[0, 0, 10, 20]", "nowhere", 0),
        # Half for the answer, half for the overlap of the box.
        ("VQA with position en", "", EXIT, '{"answer": "EXIT", "bbox": [100, 100, 200, 150]}', 0.75),
        ("VQA with position en", "", EXIT, "{'answer': 'an exit', 'bbox': (100, 100, 200, 200)}", 1),
        ("VQA with position en", "", EXIT, '{"answer": "in", "bbox": "[100, 100, 200, 200]"}', 0.5),
        ("VQA with position en", "", EXIT, '{"answer": "exit", "bbox": [100, 100, 200]}', 0.5),
        # Without braces, a box ends at its first comma.
        ("VQA with position en", "", EXIT, "answer:exit, bbox:(100,100,200,200)", 0.5),
        ("VQA with position en", "", EXIT, "exit", 0),
    ],
)  # fmt: skip
def test_a_question_is_scored_by_the_rule_of_its_type(
    kind: str, form: str, gold: str, reply: str, value: float
) -> None:
    assert score(kind, reply, gold, form=form) == pytest.approx(value)


def test_a_count_of_nothing_is_right_or_wrong() -> None:
    # The makers' script divides by the correct number.
    assert score("text counting en", "There are 0", "0", form="regression") == 1
    assert score("text counting en", "1", "0", form="regression") == 0


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('[(100, 100, 200, 150, "OPEN!"), (300, 100, 400, 150, "SALE")]', 1),
        ('[(100, 100, 200, 150, "open"), (300, 100, 400, 150, "sale!")]', 0.5),  # marks of golds
        ("(100, 100, 200, 150, open), (300, 100, 400, 150, sale)", 1),
        ('```json\n[[100, 100, 200, 150, "OPEN"]]\n```', 2 / 3),
        ('[[100, 100, 200, 150, "OPEN"], [700, 100, 800, 150, "bus"]]', 0.5),
        ('[[100, 100, 200, 150, "OPEN"], [500, 100, 650, 150, "bus"]]', 2 / 3),  # on what is unread
        ('[[100, 100, 200, 150, "OPEN"], [100, 100, 200, 150, "OPEN"]]', 2 / 3),
        # The first box takes the text, whatever it reads.
        ('[[100, 100, 200, 150, "OPE"], [100, 100, 200, 150, "OPEN"]]', 0),
        ('[[100, 100, 150, 150, "OPEN"], [300, 100, 400, 150, "sale"]]', 0.5),  # an IoU of a half
        # Boxes beyond the image and without an area do not count.
        ('[[100, 100, 200, 150, "OPEN"], [0, 0, 9, 1001, "a"], [400, 100, 300, 150, "b"]]', 2 / 3),
        ("[]", 0),
    ],
)  # fmt: skip
def test_texts_are_spotted_as_icdar_counts_them(reply: str, value: float) -> None:
    assert score("text spotting en", reply, SIGN) == pytest.approx(value)


def test_a_spotted_text_counts_once() -> None:
    twice = '[[0, 0, 10, 10, "bus"], [0, 0, 10, 10, "bus"]]'
    assert score("text spotting en", '[[0, 0, 10, 10, "bus"]]', twice) == pytest.approx(2 / 3)


@pytest.mark.parametrize("kind", ["text grounding", "VQA with position", "text spotting"])
def test_a_gold_without_a_box_is_an_error(kind: str) -> None:
    with pytest.raises(DataError, match="gold 'Exit' is not JSON"):
        score(f"{kind} en", "[1, 2, 3, 4]", "Exit")


def test_spotted_texts_are_read_in_lists_and_in_words() -> None:
    assert [spotted.text for spotted in read_spotted_texts("(1, 2, 3, 4, a, b) (5, 6, 7, 8)")] == [
        "a, b"
    ]
    assert read_spotted_texts("{'a': 1}") == []


@pytest.mark.parametrize(
    ("kind", "question", "gold", "reply", "value"),
    [
        ("table parsing en", "As HTML.", TABLE, f"```html\n{TABLE}\n```", 1),
        ("table parsing en", "As HTML.", TABLE, TABLE.replace("12", "13"), 1 - 0.5 / 6),
        ("table parsing cn", "", TABLE, TABLE.replace(ROW.format(3), ""), 1 - 3 / 6),
        ("table parsing cn", "", TABLE, TABLE.replace("<td>3", "<td colspan='2'>3"), 1 - 1 / 6),
        ("table parsing cn", "", TABLE, TABLE.replace("<td>3</td>", "<th>3</th>"), 1 - 1 / 6),
        ("table parsing cn", "", EMPTY_CELL, EMPTY_CELL.replace("<td></td>", "<th></th>"), 1 - 1 / 6),
        ("table parsing cn", "", TABLE, TABLE.replace("12", "<b>12</b>"), 1 - 0.5 / 7),
        ("table parsing cn", "", TABLE, TABLE.replace("<td>3", "<td colspan='two'>3"), 0),
        ("table parsing cn", "", TABLE, "a 12, a 3", 0),
        ("table parsing en", "As markdown.", MARKDOWN, f"```markdown\n{MARKDOWN}\n```", 1),
        ("table parsing en", "As markdown.", MARKDOWN, MARKDOWN.replace("22", "2"), 1 - 0.5 / 6),
        ("table parsing en", "As markdown.", MARKDOWN, f"Here:\n{MARKDOWN}", 1 - 3 / 7),  # all lines are rows
        ("chart parsing en", "", CHART, CHART, 1),
        ("chart parsing en", "", CHART, "```python\nd = {'2020': {'wrens': 4}}  # read\n```", 0.5),
        ("chart parsing en", "", CHART, "{'2020': {'wrens': 4}, '2021': 5}", 0.8405797101449275),
        ("chart parsing en", "", CHART, "2020: 4, 2021: 5", 0),
        ("chart parsing en", "", '{"#1": 4}', "{'#1': 4}", 0),  # what follows # is a comment
        ("document parsing en", "", PAGE, PAGE.replace("robin", "bird"), 1),  # words do not count
        ("document parsing en", "", PAGE, PAGE.replace("# ", ""), 0.25),
        ("document parsing cn", "", PAGE, PAGE.replace("\nA robin.", ""), 1 - 1 / 8),
        ("document parsing cn", "", PAGE, PAGE.replace("An oak.", "***"), 1 - 1 / 8),
        ("document parsing cn", "", PAGE.replace("An oak.", ""), PAGE, 1 - 1 / 8),
        ("document parsing cn", "", PAGE, "", 0.25),
        ("fine-grained text recognition en", "", BIRDS, "A wren sings in the old tree", 0.7789767873547571),
        ("full-page OCR en", "", BIRDS, BIRDS, 1 - 0.5 / 7**3 / 4),
        ("full-page OCR en", "", BIRDS, BIRDS.upper(), 0.35016466904222004),
        ("full-page OCR cn", "", CHINESE_BIRDS, "一只鹪鹩在古树上歌唱", 0.42268518518518516),
        ("full-page OCR cn", "", CHINESE_BIRDS, "", 0),
        ("text translation cn", "", CHINESE_BIRDS, BIRDS, 0.0),
        ("handwritten answer extraction cn", "请输出简答题", CHINESE_BIRDS, CHINESE_BIRDS, 1 - 0.5 / 6**3 / 4),
    ],
)  # fmt: skip
def test_tables_documents_and_long_texts_are_scored_as_the_makers_do(
    kind: str, question: str, gold: str, reply: str, value: float
) -> None:
    wait_for_packages()
    assert score(kind, reply, gold, question=question) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        # Each is what compute_f1_score of the makers' TEDS_metric.py gives for the reply as they read it.
        ('{"Total": "12.00", "date": "1 May"}', 1),
        ("{'Total': '$12.00', 'date': '1MAY'}", 1),
        ('```json\n{"Total": "12.00", "date": "1 May"}\n```', 1),
        ('So: ```python\n{"Total": "12.00"}\n``` as asked', 1 / 2),
        ("Total: 12.00\ndate = 1 May", 1),
        ('{"Total": "12.00", "date": "1 May", "tax": "0"}', 2 / 3),
        ('{"total": "12.00", "date": "1 May"}', 1 / 3),  # another name is another field
        ('{"Total": 12, "date": null}', 0),
        ('["12.00", "1 May"]', 0),
        (r'{"Total": "12.00", "date": "\d"}', 1 / 2),
        ("none", 0),
    ],
)
def test_fields_are_read_as_the_makers_do(reply: str, value: float) -> None:
    gold = "{'Total': ['12.00', '$12.00'], 'date': '1 May'}"
    assert field_score(reply, gold) == pytest.approx(value)


def test_each_accepted_value_of_a_field_is_right() -> None:
    golds = accepted_answers("key information mapping en", ["{'a': ['1', 'one']}"], {}, "")
    assert score("key information mapping en", '{"a": "one"}', *golds) == 1
    assert score("key information mapping en", golds[0], *golds) == 1  # the oracle's reply


# --- rows of the dataset ----------------------------------------------------------------------------------------------


def test_boxes_are_among_the_accepted_answers() -> None:
    box = {"bbox": ["1", "2", "30", "40"]}
    polygons = {"bbox_list": ["[5, 6, 20, 5, 21, 30, 4, 31]"], "content": ["Exit", "no box"]}
    assert accepted_answers("text grounding en", ["1", "2", "1", "4"], {}, "") == ["[1, 2, 1, 4]"]
    assert accepted_answers("VQA with position en", ["Exit", "出口"], box, "") == [
        '{"answer": "Exit", "bbox": [1, 2, 30, 40]}',
        '{"answer": "出口", "bbox": [1, 2, 30, 40]}',
    ]
    assert accepted_answers("text spotting en", [], polygons, "") == ['[[4, 5, 21, 31, "Exit"]]']
    assert accepted_answers("key information mapping en", ["{'a': ['1', 'one']}"], {}, "") == [
        '{"a": "1"}',
        "{'a': ['1', 'one']}",
    ]


@pytest.mark.parametrize(
    ("kind", "answers", "boxes", "message"),
    [
        ("text grounding en", ["1", "2", "3"], {}, r"row 7: \['1', '2', '3'\] is not a box of four"),
        ("VQA with position en", ["Exit"], {"bbox": []}, r"row 7: \[\] is not a box of four"),
        ("text spotting en", [], {"bbox_list": [], "content": []}, "row 7: bbox_list or content is"),
    ],
)  # fmt: skip
def test_a_row_without_its_boxes_is_an_error(
    kind: str, answers: list[str], boxes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        accepted_answers(kind, answers, boxes, "row 7")


def built(name: str, folder: Path) -> Benchmark:
    source = modern_metric_tables.write(name, folder / "hub")
    spec = entries()[f"modern/{name}"].from_hub()
    return build_benchmark(spec, source=source, to=folder / "built")


def test_every_type_of_question_is_asked_and_has_an_ability(tmp_path: Path) -> None:
    kinds = set()
    for name in modern_metric_tables.OCR_V2_KEPT:
        for sample in built(name, tmp_path / name).samples():
            kinds.add(sample.tags["category"])
            assert sample.tags["ability"] in ABILITIES.values()
    assert len(kinds) == 30  # the makers' task_type_list
    # Of a type with several questions each has its share of its ability.
    assert ability(["cognition VQA en", "text translation cn", "new en"]) == [
        "visual text understanding",
        "knowledge reasoning",
        "new en",
    ]


# --- the mean ---------------------------------------------------------------------------------------------------------


class Replies:
    """A model that gives a reply to each question by its number, and an empty one to the others."""

    def __init__(self, by_number: dict[str, str]) -> None:
        self.name = self.fingerprint = "replies"
        self._by_number = by_number

    def generate(self, requests: Any, images: Any) -> list[str]:
        return [self._by_number.get(request.sample_id, "") for request in requests]


def results_of(benchmark: Benchmark, model: Any, folder: Path) -> Any:
    return sn.evaluate(model, str(benchmark.folder), "vanilla", runs=folder / "runs", name="run")


def test_abilities_have_equal_weight(tmp_path: Path) -> None:
    wait_for_packages()
    benchmark = built("ocrbench-v2-zh", tmp_path)
    replies = {}
    for sample in benchmark.samples():
        if sample.tags["category"] in ("key information extraction cn", "cognition VQA cn"):
            replies[sample.id] = "{'合计': '12'} 三月"
    results = results_of(benchmark, Replies(replies), tmp_path)
    value = results.value("published_mean", benchmark="modern/ocrbench-v2-zh")

    # get_score.py: each ability's mean over its questions, and the mean of these. The empty page has 3 of 4 nodes right.
    understanding = 1
    relationships = 1 / 3
    parsing = 0.5 / 3
    expected = (0 + relationships + parsing + understanding + 0) / 5
    assert value == pytest.approx(expected)


@pytest.mark.parametrize("module", PACKAGES)
def test_without_a_package_no_question_has_a_value(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as Python says that a module is not there
    results = results_of(built("ocrbench-v2", tmp_path), "snellen:oracle", tmp_path)
    values = {row.metric: row.estimate.value for row in results.rows if not row.slice}
    assert values["ocrbench_v2"] is None and values.get("published_mean") is None


def test_a_failed_request_scores_nothing_and_an_empty_reply_has_a_structure() -> None:
    wait_for_packages()
    asked: Any = SimpleNamespace(
        sample=SimpleNamespace(tags={"category": "document parsing en"}),
        turn=SimpleNamespace(question=""),
        reference_answers=[PAGE],
    )
    failed: Any = SimpleNamespace(text="", reason="request failed")
    assert score("document parsing en", "", PAGE) == 0.25
    assert ocrbench_v2_right(asked, failed) == 0


def test_a_handwritten_text_alone_needs_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    benchmark = built("ocrbench-v2-zh", tmp_path)
    results = sn.evaluate(
        "snellen:oracle",
        str(benchmark.folder),
        "vanilla",
        where="category == 'handwritten answer extraction cn'",
        runs=tmp_path / "runs",
    )
    # Its letters of options alone would score 1.
    assert results.value("ocrbench_v2", benchmark="modern/ocrbench-v2-zh") is None
