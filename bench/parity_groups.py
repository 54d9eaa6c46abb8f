"""Scores over groups of questions against theirs: random models asked through the front door, on miniature tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

import modern_metric_tables as tables
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.scoring.answers import open_answers

MODELS = 8
Outcome = dict[str, bool]
"""Whether each sample was right."""


class RightNowAndThen:
    """A model that is right on samples that were drawn."""

    def __init__(self, benchmark: Benchmark, share: float, seed: int) -> None:
        self.name = self.fingerprint = f"now-and-then-{seed}"
        rng = random.Random(seed)
        self.answers = open_answers(benchmark.folder)
        self.right = {sample.id: rng.random() < share for sample in benchmark.samples()}

    def generate(self, requests: Any, images: Any) -> list[str]:
        return [self._reply(request) for request in requests]

    def _reply(self, request: Any) -> str:
        answer, right = self.answers[request.sample_id, 0], self.right[request.sample_id]
        if not answer.options:
            return (
                answer.texts[0]
                if right
                else {"yes": "no", "no": "yes"}.get(answer.texts[0].lower(), "nothing")
            )
        place = request.variant.order.index(answer.options[0])
        return f"({request.variant.labels[place if right else place - 1]})"


Theirs = Callable[[dict[int, bool]], dict[str, float]]
"""Whether each row was right -> their numbers by the name of our row."""


def group_rows(lmms: Any, kit: Any, folder: Path) -> Iterator[str]:
    for name, peer, rule, theirs in _all(lmms, kit):
        benchmark = _built(name, folder)
        worst: dict[str, float] = {}
        for seed in range(MODELS):
            model = RightNowAndThen(benchmark, 0.5 + 0.05 * seed, seed)
            results = sn.evaluate(
                model,
                str(benchmark.folder),
                "vanilla",
                runs=folder / f"runs-{name}",
                name=str(seed),
            )
            ours = {row.metric: row.estimate.value for row in results.rows if not row.slice}
            right = dict(enumerate(model.right[sample.id] for sample in benchmark.samples()))
            for row, value in theirs(right).items():
                worst[row] = max(worst.get(row, 0.0), abs((ours[row] or 0.0) - value))
        shown = ", ".join(f"`{row}`" for row in worst)
        title = entries()[f"modern/{name}"].title
        yield f"| {title} | {peer} `{rule}` | {shown} | {MODELS} | {max(worst.values()):.0e} |"


def _built(name: str, folder: Path) -> Benchmark:
    to = folder / name
    if (to / "built").exists():
        return Benchmark(to / "built")
    return build_benchmark(
        entries()[f"modern/{name}"].from_hub(),
        source=tables.write(name, to / "hub"),
        to=to / "built",
    )


def _all(lmms: Any, kit: Any) -> Iterator[tuple[str, str, str, Theirs]]:
    mme = lmms.names("lmms_eval/tasks/mme/utils.py")
    hallusion = lmms.names("lmms_eval/tasks/hallusion_bench/utils.py")
    mmvp = lmms.names("lmms_eval/tasks/mmvp/utils.py")
    natural = lmms.names("lmms_eval/tasks/naturalbench/utils.py")
    dynamath = lmms.names("lmms_eval/tasks/dynamath/reasoning/utils.py")
    hr = lmms.names("lmms_eval/tasks/hrbench/utils.py")
    frame: dict[str, pd.DataFrame] = {}
    yorn = kit.names(
        "vlmeval/dataset/utils/yorn.py", load=lambda _: frame["now"], d2df=lambda found: found
    )
    problems = kit.names("vlmeval/dataset/utils/wemath.py")
    several = kit.names("vlmeval/dataset/utils/multiple_choice.py", d2df=lambda found: found)

    def by_mme(right: dict[int, bool]) -> dict[str, float]:
        rows = [{**tables.mme(number), "score": float(hit)} for number, hit in right.items()]
        kinds = mme.eval_type_dict
        return {
            f"mme_{kind.lower()}": mme.mme_aggregate_results(
                [row for row in rows if row["category"] in kinds[kind]]
            )
            for kind in kinds
        }

    def by_kit_mme(right: dict[int, bool]) -> dict[str, float]:
        rows = [tables.mme(number) | {"score": float(hit)} for number, hit in right.items()]
        frame["now"] = pd.DataFrame([{**row, "image_path": row["question_id"]} for row in rows])
        found = yorn.MME_rating("")
        return {"mme_perception": found["perception"], "mme_cognition": found["reasoning"]}

    def by_hallusion(right: dict[int, bool]) -> dict[str, float]:
        rows = [
            {**tables.hallusionbench(number), "correct": int(hit), "check": "1"}
            for number, hit in right.items()
        ]
        whole, figures = hallusion.get_eval_all(rows, "check"), hallusion.get_eval_fig(rows)
        pairs = hallusion.get_eval_pair_all(rows, "check")
        return {
            "typed_match": whole["correct"] / whole["total"],
            "same_image_accuracy": figures["correct"] / figures["total"],
            "same_question_accuracy": pairs["correct"] / pairs["total"],
        }

    def by_kit_hallusion(right: dict[int, bool]) -> dict[str, float]:
        rows = [tables.hallusionbench(number) | {"score": hit} for number, hit in right.items()]
        frame["now"] = pd.DataFrame(
            [
                {
                    "index": f"VS_chart_x_{row['set_id']}_{row['figure_id']}_{row['question_id']}",
                    "score": row["score"],
                    "l2-category": row["subcategory"],
                }
                for row in rows
            ]
        )
        first = yorn.Hallusion_rating("").iloc[0]
        return {
            "typed_match": first["aAcc"] / 100,
            "same_image_accuracy": first["fAcc"] / 100,
            "same_question_accuracy": first["qAcc"] / 100,
        }

    def by_wemath(right: dict[int, bool]) -> dict[str, float]:
        rows = [tables.wemath(number) | {"joker": hit} for number, hit in right.items()]
        steps = [
            problems.evaluate_process_steps_data(
                pd.DataFrame([row for row in rows if row["key"][0] == count]), int(count)
            )
            for count in "23"
        ]
        found = problems.evaluate_calculate_metrics(*steps)
        counts, _ = problems.evaluate_compute_final_scores(found, len(rows) * 2 // 7)
        total = len(rows) * 2 / 7
        scored = {
            f"wemath_{standard}": 1
            - (
                0.5 * counts["InadequateGeneralization"]
                + counts["InsufficientKnowledge"]
                + counts[f"RoteMemorization_{standard}"]
            )
            / total
            for standard in ("strict", "loose")
        }
        return scored | {
            "insufficient_knowledge": counts["InsufficientKnowledge"] / total,
            "inadequate_generalization": counts["InadequateGeneralization"] / total,
            "complete_mastery": counts["CompleteMastery_strict"] / total,
            "rote_memorization": counts["RoteMemorization_strict"]
            / (counts["RoteMemorization_strict"] + counts["CompleteMastery_strict"]),
        }

    def by_dynamath(right: dict[int, bool]) -> dict[str, float]:
        # Their groups are the same variant of all problems; a worst case is of the variants of a problem, as here.
        rows = [{"acc": float(hit), "variant_id": number // 4} for number, hit in right.items()]
        return {
            "group_accuracy": dynamath.dynamath_aggregate_results_worst(rows),
            "dynamath": dynamath.dynamath_aggregate_results_average(rows),
        }

    def by_mmvp(right: dict[int, bool]) -> dict[str, float]:
        rows = [{"is_correct": hit, "pair_index": number // 2} for number, hit in right.items()]
        return {
            "accuracy": mmvp.mmvp_aggregate_results(rows),
            "group_accuracy": mmvp.mmvp_aggregate_pair_results(rows),
        }

    def by_kit_mmvp(right: dict[int, bool]) -> dict[str, float]:
        found = several.report_acc_MMVP(
            pd.DataFrame(
                [{"question": str(number // 2), "hit": hit} for number, hit in right.items()]
            )
        )
        return {"accuracy": float(found["Average"]), "group_accuracy": float(found["Overall"])}

    def by_natural(right: dict[int, bool]) -> dict[str, float]:
        # 1 is yes: right for the first question about the first image and the second about the second.
        said = [int(hit == (number % 4 in (0, 3))) for number, hit in right.items()]
        found = natural.get_scores([said[start : start + 4] for start in range(0, len(said), 4)])
        return {
            "overall_accuracy": found["Acc"],
            "group_accuracy": found["G_Acc"],
            "same_question_accuracy": found["Q_Acc"],
            "same_image_accuracy": found["I_Acc"],
        }

    def by_hr(right: dict[int, bool]) -> dict[str, float]:
        rows = [
            {"gpt_score": int(hit), "cycle_category": str(number % 4)}
            for number, hit in right.items()
        ]
        return {"accuracy": hr.hrbench_aggregate_results(rows, None)}

    yield "mme", "lmms-eval", "mme_aggregate_results", by_mme
    yield "mme", "VLMEvalKit", "MME_rating", by_kit_mme
    yield (
        "hallusionbench",
        "lmms-eval",
        "get_eval_all, get_eval_fig, get_eval_pair_all",
        by_hallusion,
    )
    yield "hallusionbench", "VLMEvalKit", "Hallusion_rating", by_kit_hallusion
    yield "mmvp", "lmms-eval", "mmvp_aggregate_pair_results", by_mmvp
    yield "mmvp", "VLMEvalKit", "report_acc_MMVP", by_kit_mmvp
    yield "dynamath", "lmms-eval", "dynamath_aggregate_results_worst, ..._average", by_dynamath
    yield (
        "wemath",
        "VLMEvalKit",
        "evaluate_calculate_metrics, evaluate_compute_final_scores",
        by_wemath,
    )
    yield "naturalbench", "lmms-eval", "get_scores", by_natural
    yield "hr-bench-4k", "lmms-eval", "hrbench_aggregate_results", by_hr
