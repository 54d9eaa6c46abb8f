"""Compares the scores of benchmarks with those of two other harnesses, by their own functions.

    python bench/parity.py --lmms-eval CHECKOUT --vlmevalkit CHECKOUT [--cases 2000]

Their functions are taken out of their files (`ast`) and run as they are, without their packages; a judge model is never
asked. Replies are drawn at random in named forms, of which each says what it means; so a difference has a side that is
mistaken. Prints a table by rule, and one by form of reply.
"""

from __future__ import annotations

import argparse
import ast
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import parity_replies as replies  # noqa: E402
from parity_groups import group_rows  # noqa: E402
from snellen.extraction import read_choice  # noqa: E402
from snellen.metrics import boxes, numbers, vqa  # noqa: E402
from snellen.metrics.vqa import legacy_vqa_accuracy  # noqa: E402
from snellen.suites.modern.metrics import ocrbench_right  # noqa: E402
from snellen.suites.modern.ocrbench_v2.scoring import ocrbench_v2_right  # noqa: E402

Case = replies.Case
Rule = Callable[[Case], Any]


class Peer:
    """The functions of a checkout, each run in a namespace of what its file defines and imports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def commit(self) -> str:
        command = ["git", "-C", str(self.folder), "rev-parse", "--short=8", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def names(self, file: str, **given: Any) -> SimpleNamespace:
        """What a file defines at its top; what it imports and is not here is a stub, but for what is `given`."""
        found: dict[str, Any] = {"__file__": str(self.folder / file), "__name__": "peer"}
        for node in ast.parse((self.folder / file).read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                node.decorator_list = []
            code = compile(ast.Module([node], []), file, "exec")
            try:
                exec(code, found)  # that is what is compared
            except Exception:  # whatever a file does on import that needs its package
                found.update(dict.fromkeys(_bound(node), _STUB))
            found.update(given)
        return SimpleNamespace(**found)


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    return [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]


class _Stub:
    """Stands for what is not installed, also as the base of a class."""

    def __getattr__(self, name: str) -> Any:
        return _STUB

    def __call__(self, *args: Any, **named: Any) -> Any:
        return _STUB

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (object,)


_STUB = _Stub()


@dataclass
class Row:
    """One rule of theirs against one of ours."""

    benchmark: str
    peer: str
    rule: str
    ours: str
    cases: int = 0
    equal: int = 0
    ours_meant: int = 0
    theirs_meant: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def line(self) -> str:
        return (
            f"| {self.benchmark} | {self.peer} `{self.rule}` | `{self.ours}` | {self.cases:,} | {self.equal:,} | "
            f"{self.ours_meant:,} | {self.theirs_meant:,} |"
        )


def differences(rows: Sequence[Row]) -> Iterator[str]:
    """Each form in which rules differ, with the first such reply; rules that differ alike share a line."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for form, count in row.forms.most_common():
            rule = f"{row.peer} `{row.rule}` ({row.benchmark}, `{row.ours}`): {count:,}"
            found.setdefault((form, row.examples[form]), []).append(rule)
    for (form, example), rules in found.items():
        yield f"| {form} | {example} | {'; '.join(rules)} |"


def compare(
    benchmark: str, peer: str, rule: str, ours: str, cases: Sequence[Case], theirs: Rule, own: Rule
) -> Row:
    """How often both say the same; of the rest, how often each says what the reply meant."""
    row = Row(benchmark, peer, rule, ours)
    for case in cases:
        here = round(float(own(case)), 9)
        try:
            there: float | None = round(float(theirs(case)), 9)
        except Exception as error:  # they may raise anything
            there = None
            case = replies.marked(case, f"raises {type(error).__name__}")
        row.cases += 1
        if here == there:
            row.equal += 1
            continue
        row.ours_meant += here == case.meant
        row.theirs_meant += there == case.meant
        row.forms[case.form] += 1
        row.examples.setdefault(case.form, replies.shown(case, here, there))
    return row


def choice(case: Case) -> bool:
    """By the standard extractor, with the options that were shown."""
    labels = "ABCDEFGH"[: len(case.options)]
    found = read_choice(case.reply, case.options, labels).choice
    return found is not None and labels[found] == case.gold


def rate(metric: Any) -> Rule:
    """Whether a metric that reads something out of a reply finds it right."""

    def right(case: Case) -> bool:
        marks = metric(case.reply, [case.gold])
        return bool(marks and marks[0] >= 1)

    return right


def choices(lmms: Peer, kit: Peer, cases: Sequence[Case]) -> Iterator[Row]:
    mmmu = lmms.names("lmms_eval/tasks/_task_utils/mmmu_mcq_utils.py")
    mcq = lmms.names("lmms_eval/tasks/_task_utils/mcq_extract.py")
    mmvp = lmms.names("lmms_eval/tasks/mmvp/utils.py")
    natural = lmms.names("lmms_eval/tasks/naturalbench/utils.py", print=lambda *_: None)
    hr = lmms.names("lmms_eval/tasks/hrbench/hrbench_evals.py").HRBenchEval("")
    infer = kit.names("vlmeval/utils/matching_util.py")

    def by_mmmu(case: Case) -> bool:
        letters = list("ABCDEFGH"[: len(case.options)])
        shown = dict(zip(letters, case.options, strict=True))
        return bool(mmmu.parse_mmmu_multi_choice_response(case.reply, letters, shown) == case.gold)

    def by_letters(case: Case) -> bool:
        return bool(mcq.extract_mcq_answer(case.reply, choices=["A", "B", "C", "D"]) == case.gold)

    def inferred(infer: Callable[..., Any]) -> Rule:
        def right(case: Case) -> bool:
            shown = dict(zip("ABCDEFGH", case.options, strict=False))
            return bool(infer(case.reply, shown) == case.gold)

        return right

    two = [case for case in cases if case.gold in "AB" and len(case.options) == 2]
    four = [case for case in cases if len(case.options) == 4]
    yield compare(
        "MMMU", "lmms-eval", "parse_mmmu_multi_choice_response", "standard", four, by_mmmu, choice
    )
    yield compare(
        "MMStar, RealWorldQA",
        "lmms-eval",
        "extract_mcq_answer",
        "standard",
        four,
        by_letters,
        choice,
    )
    yield compare(
        "HR-Bench", "lmms-eval", "can_infer", "standard", four, inferred(hr.can_infer), choice
    )
    yield compare(
        "MMMU, MMStar, RealWorldQA, HR-Bench, MMVP",
        "VLMEvalKit",
        "can_infer",
        "standard",
        four,
        inferred(infer.can_infer),
        choice,
    )
    yield compare(
        "MMVP",
        "lmms-eval",
        "_extract_answer_letter",
        "standard",
        two,
        lambda case: mmvp._extract_answer_letter(case.reply) == case.gold,
        choice,
    )
    for peer, rules in (("lmms-eval", natural), ("VLMEvalKit", None)):
        rules = rules or kit.names("vlmeval/dataset/utils/naturalbench.py", print=lambda *_: None)
        yield compare(
            "NaturalBench",
            peer,
            "extract_answer",
            "standard",
            two,
            lambda case, rules=rules: (
                "BA"[rules.extract_answer(case.reply, "multiple_choice")] == case.gold
                if rules.extract_answer(case.reply, "multiple_choice") >= 0
                else False
            ),
            choice,
        )


def yes_no(lmms: Peer, kit: Peer, cases: Sequence[Case]) -> Iterator[Row]:
    mme = lmms.names("lmms_eval/tasks/mme/utils.py")
    natural = lmms.names("lmms_eval/tasks/naturalbench/utils.py", print=lambda *_: None)
    smp = kit.names("vlmeval/smp/misc.py")
    yorn = kit.names("vlmeval/dataset/utils/yorn.py", process_punctuation=smp.process_punctuation)

    def own(case: Case) -> bool:
        return vqa.typed_match(case.reply, [case.gold]) == 1

    yield compare(
        "MME",
        "lmms-eval",
        "parse_pred_ans",
        "typed_match",
        cases,
        lambda case: mme.parse_pred_ans(case.reply) == case.gold,
        own,
    )
    yield compare(
        "MME, HallusionBench",
        "VLMEvalKit",
        "YOrN_Extraction",
        "typed_match",
        cases,
        lambda case: yorn.YOrN_Extraction(case.reply).lower() == case.gold,
        own,
    )
    yield compare(
        "HallusionBench",
        "lmms-eval",
        "hb_aggregation_result_intern",
        "typed_match",
        cases,
        lambda case: ("yes" if "yes" in case.reply.lower() else "no") == case.gold,
        own,
    )
    yield compare(
        "NaturalBench",
        "lmms-eval",
        "extract_answer",
        "typed_match",
        cases,
        lambda case: (
            natural.extract_answer(case.reply, "yes_no") == (1 if case.gold == "yes" else 0)
        ),
        own,
    )


def charts(lmms: Peer, kit: Peer, cases: Sequence[Case]) -> Iterator[Row]:
    first = lmms.names("lmms_eval/tasks/chartqa/utils.py").relaxed_correctness
    second = kit.names("vlmeval/dataset/utils/vqa_eval.py").relaxed_correctness
    for name, own in (
        ("legacy_relaxed_accuracy", numbers.legacy_relaxed_accuracy),
        ("relaxed_accuracy", numbers.relaxed_accuracy),
    ):
        yield compare(
            "ChartQA",
            "lmms-eval",
            "relaxed_correctness",
            name,
            cases,
            lambda case: first(case.reply, case.gold),
            lambda case, own=own: own(case.reply, [case.gold]),
        )
        stripped = [replies.stripped(case) for case in cases]
        yield compare(
            "ChartQA",
            "VLMEvalKit",
            "relaxed_correctness",
            name,
            stripped,
            lambda case: second(case.gold, case.reply),
            lambda case, own=own: own(case.reply, [case.gold]),
        )


def counted(lmms: Peer, kit: Peer, cases: Sequence[Case], maths: Sequence[Case]) -> Iterator[Row]:
    counts = lmms.names("lmms_eval/tasks/countbenchqa/utils.py")
    vista = lmms.names("lmms_eval/tasks/mathvista/mathvista_evals.py").MathVistaEvaluator()
    kit_vista = kit.names("vlmeval/dataset/utils/mathvista.py", can_infer=lambda *_: False)
    mmmu = lmms.names("lmms_eval/tasks/mmmu/utils.py")
    own = rate(numbers.number_right)
    yield compare(
        "MMMU, open questions",
        "lmms-eval",
        "parse_open_response, eval_open",
        "typed_match",
        cases,
        lambda case: mmmu.eval_open(case.gold, mmmu.parse_open_response(case.reply)),
        lambda case: vqa.typed_match(case.reply, [case.gold]),
    )
    yield compare(
        "MMMU, open questions",
        "lmms-eval",
        "parse_open_response, eval_open",
        "number_accuracy",
        cases,
        lambda case: mmmu.eval_open(case.gold, mmmu.parse_open_response(case.reply)),
        own,
    )
    whole = [case for case in cases if "." not in case.gold]
    yield compare(
        "CountBenchQA",
        "lmms-eval",
        "countbenchqa_process_results",
        "number_accuracy",
        whole,
        lambda case: counts.countbenchqa_process_results({"number": case.gold}, [case.reply])[
            "acc"
        ],
        own,
    )
    yield compare(
        "CountBenchQA",
        "VLMEvalKit",
        "CountBenchQA.evaluate",
        "number_accuracy",
        whole,
        lambda case: case.gold in case.reply,
        own,  # its body, one line
    )

    def by_vista(case: Case) -> bool:
        form, precision = (
            ("float", len(case.gold.partition(".")[2])) if "." in case.gold else ("integer", 0)
        )
        said = vista.normalize_extracted_answer(case.reply, [], "free_form", form, precision)
        return bool(vista.safe_equal(said, case.gold))

    def by_kit(case: Case) -> bool:
        form = "float" if "." in case.gold else "integer"
        line = {
            "question_type": "free_form",
            "answer_type": form,
            "answer": case.gold,
            "res": case.reply,
            "prediction": case.reply,
        }
        return bool(kit_vista.post_check(line))

    yield compare(
        "MathVista",
        "lmms-eval",
        "normalize_extracted_answer",
        "number_accuracy",
        cases,
        by_vista,
        own,
    )
    yield compare("MathVista", "VLMEvalKit", "post_check", "number_accuracy", cases, by_kit, own)
    from latex2sympy2_extended import latex2sympy

    vision = lmms.names("lmms_eval/tasks/mathvision/eval_utils.py", latex2sympy=latex2sympy)
    process = lmms.names(
        "lmms_eval/tasks/mathvision/utils.py",
        find_math_answer=vision.find_math_answer,
        is_equal=vision.is_equal,
        is_number=vision.is_number,
    ).mathvision_process_results
    kit_vision = kit.names("vlmeval/dataset/utils/mathv.py", latex2sympy=latex2sympy)
    formula, scored = rate(numbers.math_right), "mathvision_standard_eval"
    yield compare(
        "MathVision",
        "lmms-eval",
        "mathvision_process_results",
        "math_accuracy",
        maths,
        lambda case: process({"answer": case.gold, "options": []}, [case.reply])[scored]["scores"][
            0
        ],
        formula,
    )
    yield compare(
        "MathVision",
        "VLMEvalKit",
        "is_equal",
        "math_accuracy",
        maths,
        lambda case: kit_vision.is_equal(case.reply, case.gold),
        formula,
    )


def places(lmms: Peer, kit: Peer, cases: Sequence[Case], clicks: Sequence[Case]) -> Iterator[Row]:
    ref = lmms.names("lmms_eval/tasks/refcoco/utils_rec.py")
    spot = lmms.names("lmms_eval/tasks/screenspot/utils_rec.py")
    second = lmms.names("lmms_eval/tasks/screenspot_v2/utils.py")
    pro = lmms.names("lmms_eval/tasks/screenspot_pro/utils.py")
    kit_ref = kit.names("vlmeval/dataset/refcoco.py").RefCOCODataset
    gui = kit.names("vlmeval/dataset/GUI/screenspot.py")
    own, click = rate(boxes.box_marks), rate(boxes.point_marks)

    def iou(rules: Any) -> Rule:
        return lambda case: rules.compute_accuracy(
            _box(case.gold), rules.parse_float_sequence_within(case.reply), 0.5
        )

    def by_kit(case: Case) -> bool:
        found = kit_ref._parse_prediction(case.reply)
        gold = np.array(_box(case.gold))
        if found is None:
            return False
        return bool(kit_ref._compute_iou(kit_ref._to_absolute(found, 1, 1), gold) >= 0.5)

    yield compare(
        "RefCOCO",
        "lmms-eval",
        "parse_float_sequence_within, compute_iou",
        "boxes",
        cases,
        iou(ref),
        own,
    )
    yield compare(
        "ScreenSpot",
        "lmms-eval",
        "parse_float_sequence_within, compute_iou",
        "boxes",
        cases,
        iou(spot),
        own,
    )
    yield compare(
        "RefCOCO", "VLMEvalKit", "_parse_prediction, _compute_iou", "boxes", cases, by_kit, own
    )
    for name, rules in (("ScreenSpot-v2", second), ("ScreenSpot-Pro", pro)):
        yield compare(
            name,
            "lmms-eval",
            "_parse_point, _point_in_box",
            "points",
            clicks,
            lambda case, rules=rules: (
                (point := rules._parse_point(case.reply)) is not None
                and rules._point_in_box(point, _box(case.gold))
            ),
            click,
        )
    yield compare(
        "ScreenSpot, v2, Pro",
        "VLMEvalKit",
        "parse_bbox_aguvis",
        "points",
        clicks,
        lambda case: second._point_in_box(gui.parse_bbox_aguvis(case.reply), _box(case.gold)),
        click,
    )


def _box(text: str) -> list[float]:
    return [float(part) for part in text.strip("[]").split(",")]


def texts(lmms: Peer, kit: Peer, read: Sequence[Case], voted: Sequence[Case]) -> Iterator[Row]:
    ocr = lmms.names("lmms_eval/tasks/ocrbench/utils.py")

    def asked(case: Case) -> Any:
        return SimpleNamespace(
            sample=SimpleNamespace(tags={"dataset": case.form.partition(":")[0]}),
            reference_answers=[case.gold],
        )

    def own(case: Case) -> bool:
        return bool(ocrbench_right(asked(case), SimpleNamespace(text=case.reply)))  # type: ignore[arg-type]

    def by_lmms(case: Case) -> bool:
        kind = case.form.partition(":")[0]
        doc = {"dataset": kind, "answer": [case.gold], "question_type": ""}
        return bool(ocr.ocrbench_process_results(doc, [case.reply])["ocrbench_accuracy"]["score"])

    frame: dict[str, pd.DataFrame] = {}
    evaluate = kit.names(
        "vlmeval/dataset/image_vqa.py",
        load=lambda _: frame["now"],
        dump=lambda *_: None,
        tqdm=iter,
        get_intermediate_file_path=lambda *_: "",
    ).OCRBench.evaluate

    def by_kit(case: Case) -> bool:
        formula = case.form.startswith("HME100k")
        kind = "Handwritten Mathematical Expression Recognition" if formula else "Doc-oriented VQA"
        frame["now"] = pd.DataFrame(
            [{"prediction": case.reply, "answer": repr([case.gold]), "category": kind}]
        )
        return bool(evaluate("")["Final Score"])

    yield compare(
        "OCRBench", "lmms-eval", "ocrbench_process_results", "ocrbench", read, by_lmms, own
    )
    yield compare("OCRBench", "VLMEvalKit", "OCRBench.evaluate", "ocrbench", read, by_kit, own)

    second = lmms.names("lmms_eval/tasks/ocrbench_v2/vqa_metric.py")

    def own_second(case: Case) -> float:
        question = SimpleNamespace(sample=SimpleNamespace(tags={}), reference_answers=[case.gold])
        return round(ocrbench_v2_right(question, SimpleNamespace(text=case.reply, reason=None)), 9)  # type: ignore[arg-type]

    def by_second(case: Case) -> float:
        return round(float(second.vqa_evaluation(case.reply, [case.gold])), 9)

    yield compare(
        "OCRBench v2",
        "lmms-eval",
        "vqa_evaluation",
        "ocrbench_v2",
        read,
        by_second,
        own_second,
    )
    yield from _votes(lmms, kit, voted)


def _votes(lmms: Peer, kit: Peer, cases: Sequence[Case]) -> Iterator[Row]:
    import statistics

    answers = lmms.names("lmms_eval/tasks/_task_utils/vqa_eval_metric.py").EvalAIAnswerProcessor
    process = lmms.names(
        "lmms_eval/tasks/vqav2/utils.py", EvalAIAnswerProcessor=answers, statistics=statistics
    ).vqav2_process_results
    smp = kit.names("vlmeval/smp/misc.py")
    line = kit.names(
        "vlmeval/dataset/utils/vqa_eval.py",
        istype=lambda *_: True,
        process_punctuation=smp.process_punctuation,
    ).process_line

    def by_lmms(case: Case) -> float:
        voted = [
            {"answer": answer, "answer_id": number} for number, answer in enumerate(case.options)
        ]
        return float(process({"answers": voted, "question_id": 0}, [case.reply])["exact_match"])

    def by_kit(case: Case) -> float:
        return float(
            np.mean(line({"answer": repr(list(case.options)), "prediction": case.reply})["match"])
        )

    for peer, rule, theirs in (
        ("lmms-eval", "vqav2_process_results", by_lmms),
        ("VLMEvalKit", "process_line", by_kit),
    ):
        for name, own in (
            ("vqa_accuracy", vqa.vqa_accuracy),
            ("legacy_vqa_accuracy", legacy_vqa_accuracy),
        ):
            yield compare(
                "VQAv2",
                peer,
                rule,
                name,
                cases,
                theirs,
                lambda case, own=own: own(case.reply, case.options),
            )


def rows(lmms: Peer, kit: Peer, count: int) -> list[Row]:
    rng = random.Random(20261123)
    random.seed(0)  # theirs draws an option where it finds none

    def draw(make: Callable[[random.Random], Case]) -> list[Case]:
        return [make(rng) for _ in range(count)]

    return [
        *choices(lmms, kit, draw(replies.choice)),
        *yes_no(lmms, kit, draw(replies.yes_no)),
        *charts(lmms, kit, draw(replies.chart)),
        *counted(lmms, kit, draw(replies.number), draw(replies.formula)[: count // 4]),
        *places(lmms, kit, draw(replies.box), draw(replies.point)),
        *texts(lmms, kit, draw(replies.reading), draw(replies.votes)),
    ]


def page(lmms: Peer, kit: Peer, count: int) -> str:
    """The tables, in Markdown."""
    found = rows(lmms, kit, count)
    with tempfile.TemporaryDirectory() as folder:
        groups = group_rows(lmms, kit, Path(folder))
    return "\n".join(
        (
            f"lmms-eval at {lmms.commit}, VLMEvalKit at {kit.commit}; replies of seed 20261123.",
            "",
            "| benchmark | their rule | ours | replies | equal | else ours as meant | else theirs as meant |",
            "|---|---|---|---|---|---|---|",
            *(row.line() for row in found),
            "",
            "| benchmark | their numbers | ours | models | largest difference |",
            "|---|---|---|---|---|",
            *groups,
            "",
            "Every form of reply in which ours and theirs differ, with the first such reply:",
            "",
            "| form | reply / gold: ours, theirs | their rules, and how many replies of this form |",
            "|---|---|---|",
            *differences(found),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lmms-eval", type=Path, required=True)
    parser.add_argument("--vlmevalkit", type=Path, required=True)
    parser.add_argument("--cases", type=int, default=2000)
    options = parser.parse_args()
    print(page(Peer(options.lmms_eval), Peer(options.vlmevalkit), options.cases))


if __name__ == "__main__":
    main()
