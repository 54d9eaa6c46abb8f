"""Replies that benchmarks published with the answers that their authors extracted: a function of each repository.

Every case has the reply, what it was asked, the index of the correct option (`gold`), and what the authors read in it
(`authors`: the index of an option, None for none, or "?" where they do not say). Nothing of the replies is kept here.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from real_sources import BLINK, IQBENCH, LINE, LOGICVISTA, Clone, inline, letters

Case = dict[str, Any]
MMLU = "chujiezheng/LLM-MCQ-Bias"
"""It holds the questions of MMLU with their answers, which the repository of MCQ-Robustness lacks."""


def case(
    source: str,
    model: str,
    row: Any,
    question: str,
    options: Any,
    labels: Any,
    reply: Any,
    authors: Any,
    gold: Any,
) -> Case:
    return {
        "source": source,
        "model": model,
        "row": str(row),
        "question": question,
        "options": tuple(map(str, options)),
        "labels": tuple(labels),
        "reply": reply,
        "authors": authors,
        "gold": gold,
    }


def index_of(label: Any, labels: Any) -> int | None:
    shown = list(labels)
    return shown.index(label) if label in shown else None


def blink(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"eval/saved_outputs/[^/*]+/[^._][^/]*\.json"):
        task = Path(name).stem.replace("_", " ").removesuffix(" concat")
        if task not in BLINK:
            continue
        question, options = BLINK[task]
        labels = letters(options)
        for entry in json.loads(clone.read(name))["val"]:
            gold = index_of(entry["answer"].strip("()"), labels)
            if isinstance(entry.get("full_prediction"), str) and gold is not None:
                read = index_of((entry.get("prediction") or "").strip("() "), labels)
                model = name.split("/")[2]
                yield case(
                    "BLINK",
                    model,
                    f"{task}:{entry['idx']}",
                    question,
                    options,
                    labels,
                    entry["full_prediction"],
                    read,
                    gold,
                )


def mathvista(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"results/(?!random|leader)\w+/output_(?!.*code).*\.json"):
        for row, entry in json.loads(clone.read(name) or "{}").items():
            if entry["question_type"] != "multi_choice" or not isinstance(
                entry.get("response"), str
            ):
                continue
            question = entry["query"].rpartition("Question: ")[2].partition("\nChoices")[0]
            options = [str(choice) for choice in entry["choices"]]
            extraction = str(entry.get("extraction") or "").strip()
            letter = re.fullmatch(r"\(?([A-P])\)?\.?", extraction)
            read: Any = "?"
            if letter and letter[1] in letters(options):
                read = letters(options).index(letter[1])
            elif extraction in options:
                read = options.index(extraction)
            model = Path(name).stem.removeprefix("output_")
            gold = index_of(entry["answer"], options)
            yield case(
                "MathVista",
                model,
                row,
                question,
                options,
                letters(options),
                entry["response"],
                read,
                gold,
            )


def mmmu_pro(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"mmmu-pro/output/.*\.jsonl"):
        for line in clone.read(name).splitlines():
            entry = json.loads(line)
            options = ast.literal_eval(entry["options"])
            labels = letters(options)
            if isinstance(entry.get("response"), str):
                yield case(
                    "MMMU-Pro",
                    Path(name).stem,
                    entry["id"],
                    entry["question"],
                    options,
                    labels,
                    entry["response"],
                    index_of(entry.get("pred_indexs"), labels),
                    index_of(entry["answer"], labels),
                )


def emma(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"results/EMMA-mini/[^/]+/.*_(CoT|Direct)\.json"):
        for entry in json.loads(clone.read(name) or "{}").values():
            if entry["type"] != "Multiple Choice" or not isinstance(entry.get("response"), str):
                continue
            written = entry["options"]
            options = ast.literal_eval(written) if isinstance(written, str) else written
            labels = letters(options)
            read = index_of(str(entry.get("extraction") or "").strip("(). "), labels)
            yield case(
                "EMMA",
                Path(name).stem,
                entry["pid"],
                entry["question"],
                options,
                labels,
                entry["response"],
                read,
                index_of(entry["answer"], labels),
            )


def visonlyqa(clone: Clone) -> Iterator[Case]:
    form = r"\((?P<label>[a-e])\)\s*(?P<text>[^\n]+?)(?=\s*\([a-e]\)|\s*\n|\s*$)"
    for name in clone.files(
        r"results/model_responses/\w+/(?!chemistry__shape_multi).+/(?!.*(finetuned|_2024)).+\.jsonl"
    ):
        style = "cot" if "=reasoning" in name else "direct"
        model = f"{Path(name).stem}, {style}"
        for number, line in enumerate(clone.read(name).splitlines()):
            entry = json.loads(line)
            if not isinstance(entry["response"], str):
                continue
            asked = re.sub(r"<image>|<\|image_1\|>", "", entry["prompt"]).strip()
            row = f"{name.partition('model_responses/')[2]}#{number}"
            truth, read = str(entry["y_true"]), str(entry["y_pred"])
            head, _, tail = asked.rpartition("\n\n")
            split = inline(head, form)
            if truth in ("True", "False"):
                options: tuple[str, ...] = ("True", "False")
                yield case(
                    "VisOnlyQA",
                    model,
                    row,
                    asked,
                    options,
                    (),
                    entry["response"],
                    index_of(read, options),
                    index_of(truth, options),
                )
            elif split:
                question = f"{split[0]}\n\n{tail}"
                labels = split[2]
                yield case(
                    "VisOnlyQA",
                    model,
                    row,
                    question,
                    split[1],
                    labels,
                    entry["response"],
                    index_of(read, labels),
                    index_of(truth, labels),
                )


def logicvista(clone: Clone) -> Iterator[Case]:
    form = r"(?<!\w)\(?(?P<label>[A-H])\)\s*(?P<text>\S.*?)(?=\s*(?<!\w)\(?[A-H]\)|\s*$)"
    questions = json.loads(clone.read("data/dataset.json"))
    for model in LOGICVISTA:
        table = csv.DictReader(
            io.StringIO(clone.read(f"eval/results/{model}-accuracy-results.csv"))
        )
        extracted = {
            row["id"]: row[f"{model} answer extracted"]
            for row in table
            if f"{model} answer extracted" in row
        }
        for row, entry in json.loads(
            clone.read(f"eval/answers/{model}-answers.json") or "{}"
        ).items():
            asked = questions[row]
            split = inline(asked["question"].strip(), form)
            if not split or not isinstance(entry.get("answer"), str) or row not in extracted:
                continue
            labels = split[2]
            gold = index_of(asked["answer"].strip(), labels)
            named = re.findall(r"'(\w)'", extracted[row])
            read = index_of(named[0].upper(), labels) if len(named) == 1 else None
            if gold is not None:
                yield case("LogicVista", model, row, *split, entry["answer"], read, gold)


def tempcompass(clone: Clone) -> Iterator[Case]:
    """The authors say whether a reply is right, and not which option they read."""
    for name in clone.files(
        r"auto_eval_results/[^/]+/(multi-choice|yes_no|caption_matching)\.json"
    ):
        model, task = name.split("/")[1], Path(name).stem
        for video, aspects in json.loads(clone.read(name) or "{}").items():
            for aspect, entries in aspects.items():
                for number, entry in enumerate(entries):
                    asked = entry["question"]
                    truth = entry["gt-answer"].strip().casefold()
                    options: Any = ("yes", "no")
                    labels: Any = ()
                    if task != "yes_no":
                        listed = LINE.findall(asked)
                        if len(listed) < 2:
                            continue
                        labels, options = zip(*listed, strict=True)
                        asked = asked.split("\n")[0]
                    golds = [
                        place
                        for place, option in enumerate(options)
                        if option.strip().casefold() in truth
                    ]
                    if len(golds) == 1 and isinstance(entry["video-llm-prediction"], str):
                        row = f"{task}:{video}:{aspect}:{number}"
                        read = case(
                            "TempCompass",
                            model,
                            row,
                            asked,
                            options,
                            labels,
                            entry["video-llm-prediction"],
                            "?",
                            golds[0],
                        )
                        yield {**read, "authors_right": entry["rating"] == 1}


def iqbench(clone: Clone) -> Iterator[Case]:
    by_line = r"^\s*(?P<label>[A-H])[.)]\s*(?P<text>\S[^\n]*)$"
    running = (
        r"(?<![\w.])(?P<label>[A-H])[.):]\s+(?P<text>\S.*?)(?=,?\s*(?<![\w.])[A-H][.):]\s|\s*$)"
    )
    for model, name in IQBENCH.items():
        for entry in json.loads(clone.read(f"experiments/results_zip/{name}.json") or "[]"):
            split = inline(entry["question"], by_line) or inline(entry["question"], running)
            if split and isinstance(entry.get("full_answer"), str):
                letter = re.match(r"\W*([A-H])\b", str(entry.get("bot_answer") or ""))
                read = index_of(letter[1], split[2]) if letter else "?"
                gold = index_of(str(entry["answer"]).strip(), split[2])
                yield case("IQBench", model, entry["id"], *split, entry["full_answer"], read, gold)


def mmlu_pro(clone: Clone) -> Iterator[Case]:
    """Every 24th question: about 500 of each model."""
    for name in clone.files(r"eval_results/model_outputs_.+\.zip"):
        content = clone.read_bytes(name)
        if not content:
            continue
        archive = zipfile.ZipFile(io.BytesIO(content))
        model = re.sub(r"model_outputs_|_\dshots.*", "", Path(name).stem)
        [member] = [member for member in archive.namelist() if "__MACOSX" not in member]
        for entry in json.loads(archive.read(member)):
            if not isinstance(entry, dict) or entry["question_id"] % 24:
                continue
            reply = entry.get("generated_text") or entry.get("model_outputs")
            if not isinstance(reply, str):
                continue
            labels = letters(entry["options"])
            yield case(
                "MMLU-Pro",
                model,
                entry["question_id"],
                entry["question"],
                entry["options"],
                labels,
                reply,
                index_of(entry["pred"], labels),
                index_of(entry["answer"], labels),
            )


def mcq_robustness(clone: Clone) -> Iterator[Case]:
    """People labelled what each reply answers."""
    answers = {}
    mmlu = Clone(clone.clones, MMLU)
    for name in mmlu.files(r"code/data_mmlu/test/.+\.csv"):
        for question, *options, letter in csv.reader(io.StringIO(mmlu.read(name))):
            answers[question.strip(), options["ABCD".index(letter)].strip()] = True

    for name in clone.files(r"data/.+_labeled_resolved\.json"):
        model = name.split("/")[1]
        form = "added options" if "add_ref" in name else "four options"
        for number, line in enumerate(clone.read(name).splitlines()):
            entry = json.loads(line)["shuffle_0"]
            asked = entry["question"].partition("\nQuestion: ")[2].removesuffix("Answer:").strip()
            question, _, listed = asked.rpartition("\nOptions: \n")
            parts = re.split(r"(?:^|\n)([A-G])\. ", listed)
            labels = parts[1::2]
            options = [option.strip() for option in parts[2::2]]
            golds = [
                place
                for place, option in enumerate(options)
                if (question.strip(), option) in answers
            ]
            _, echo, reply = entry["response"].partition(entry["question"].strip())
            if len(golds) != 1 or not echo:
                continue
            label = re.match(r"([A-G])(\.|$)", str(entry["label"]))
            yield case(
                "MCQ-Robustness",
                f"{model}, {form}",
                f"{name}#{number}",
                question.strip(),
                options,
                labels,
                re.sub(r"^ ?\[/INST\]|^\nmodel\n", "", reply),
                index_of(label[1], labels) if label else None,
                golds[0],
            )


def aokvqa(clone: Clone) -> Iterator[Case]:
    """The correct option is the one that counted as right in the reply of any of the models."""
    task = "multiple choice (aokvqa)"
    echo = r"^.*?\nChoices: [^\n]*\nAnswer:(\s*/\S+\.jpg)?(\s*Assistant:)?"
    runs = {}
    right: dict[str, str] = {}
    for name in clone.files(r"experiments/[^/]+/aokvqa/run1/output\.json"):
        folder = name.removesuffix("output.json")
        replies = json.loads(clone.read(name))
        read = {}
        for entry in json.loads(clone.read(f"{folder}output_aux_soft.json")):
            read[entry["text_input_id"]] = entry[f"output_{task}"]
        for row, is_right in json.loads(clone.read(f"{folder}examples_soft.json"))[task].items():
            if is_right:
                right[row] = read[row]
        runs[name.split("/")[1]] = replies, read

    for model, (replies, read) in runs.items():
        for entry in replies:
            prompt = str(entry[f"prompt_{task}"])
            asked = re.search(
                r"Questions: (.*?)(?:\\n|\n)Choices: (.*?)\.(?:\\n|\n)Answer:", prompt
            )
            row = entry["text_input_id"]
            options = asked[2].split(", ") if asked else []
            if len(options) != 4:
                continue
            lowered = [option.casefold() for option in options]
            reply = re.sub(echo, "", entry[f"output_{task}"], count=1, flags=re.DOTALL)
            yield case(
                "A-OKVQA",
                model,
                row,
                asked[1],
                options,
                (),
                reply,
                index_of(read[row].casefold(), lowered),
                index_of(right.get(row, "").casefold(), lowered),
            )


def camera_motion(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"result/error-analysis-step3-c\d/[^/]+/inference\.jsonl"):
        kind, model = name.split("/")[1:3]
        for number, line in enumerate(clone.read(name).splitlines()):
            entry = json.loads(line)
            head, _, tail = entry["prompt"].partition("<answer-candidates>")
            labels, options = zip(*re.findall(r"^(\d)\. (.+)$", tail, re.MULTILINE), strict=True)
            question = re.sub(r"</?(input|task)>", "", head).strip()
            yield case(
                "CameraMotion",
                model,
                f"{kind}#{number}",
                question,
                options,
                labels,
                entry["answer"],
                index_of(str(entry["pred"]), labels),
                entry["cor_idx"],
            )


def zero_shot_cot(clone: Clone) -> Iterator[Case]:
    """What the authors read is what the model said when it was asked for its answer once more."""
    entry_form = re.compile(
        r"\nQ: (?P<question>.*?)\nA: (?P<reply>.*?)\npred_before :.*?"
        r"\npred_after : (?P<read>[^\n]*)\n.*?\nGT : (?P<gold>[^\n]+)\n",
        re.DOTALL,
    )
    form = r"\((?P<label>[A-G])\) (?P<text>.*?)(?= \([A-G]\) |\s*$)"
    for name in clone.files(r"log/(aqua|comm|date|shuffled|strategyqa|coin).+\.log"):
        style = "cot" if name.endswith("_cot.log") else "direct"
        for number, entry in enumerate(entry_form.finditer(clone.read(name))):
            asked, _, listed = entry["question"].partition(" Answer Choices: ")
            found = re.findall(form, listed)
            labels, options = zip(*found, strict=True) if found else ((), ("yes", "no"))
            names = labels or options
            yield case(
                "ZeroShotCoT",
                f"gpt3-xl, {style}",
                f"{Path(name).stem}#{number}",
                asked,
                options,
                labels,
                entry["reply"],
                index_of(entry["read"], names),
                index_of(entry["gold"], names),
            )


def m4u(clone: Clone) -> Iterator[Case]:
    """The authors' own function reads each reply."""
    functions: dict[str, Any] = {"np": np}
    for node in ast.parse(clone.read("utils.py")).body:
        if isinstance(node, ast.FunctionDef):
            exec(compile(ast.Module([node], []), "utils.py", "exec"), functions)
    for name in clone.files(r"result/M4U/gpt4o/\w+_(en|de|zh)\.json"):
        model = f"gpt-4o, {Path(name).stem[-2:]}"
        for number, entry in enumerate(json.loads(clone.read(name))["record"]):
            options = ast.literal_eval(entry["options"])
            labels = letters(options)
            read = functions["parse_multi_choice_response"](
                entry["predict"], *functions["get_choices_index2ans"](options)
            )
            yield case(
                "M4U",
                model,
                f"{Path(name).stem}#{number}",
                entry["question"],
                options,
                labels,
                entry["predict"],
                index_of(read, labels),
                index_of(entry["gt"], labels),
            )


SOURCES: dict[str, tuple[str, Callable[[Clone], Iterator[Case]]]] = {
    "BLINK": ("zeyofu/BLINK_Benchmark", blink),
    "MathVista": ("lupantech/MathVista", mathvista),
    "LogicVista": ("Yijia-Xiao/LogicVista", logicvista),
    "MMMU-Pro": ("MMMU-Benchmark/MMMU", mmmu_pro),
    "VisOnlyQA": ("psunlpgroup/VisOnlyQA", visonlyqa),
    "TempCompass": ("llyx97/TempCompass", tempcompass),
    "EMMA": ("EMMA-Bench/EMMA", emma),
    "IQBench": ("phuvinhnguyen/IQBench", iqbench),
    "A-OKVQA": ("ClaraLovesFunk/FLUFFY-MLLM-Benchmark", aokvqa),
    "CameraMotion": ("kdeng-gzcn/spatial-reasoning-of-LMs", camera_motion),
    "M4U": ("M4U-Benchmark/M4U", m4u),
    "MCQ-Robustness": ("mainlp/MCQ-Robustness", mcq_robustness),
    "MMLU-Pro": ("TIGER-AI-Lab/MMLU-Pro", mmlu_pro),
    "ZeroShotCoT": ("kojima-takeshi188/zero_shot_cot", zero_shot_cot),
}
"""By name, the repository and what makes cases of its files. The reader has learnt from all of them, and each is measured
with weights that were learnt without it (`training/reader/train.py --without-each`)."""
CAREFUL_LABELS = Path(__file__).parent / "careful_labels.csv"


def careful_labels() -> dict[tuple[str, str, str], int | str | None]:
    """Labels by source, model and row: the index of an option, None for no answer, or "either"."""
    meanings: dict[tuple[str, str, str], int | str | None] = {}
    with CAREFUL_LABELS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            label = row["label"]
            meaning = int(label) if label.isdigit() else None if label == "none" else label
            meanings[row["source"], row["model"], row["row"]] = meaning
    return meanings


def published_cases(clones: Path, names: Any = None, sources: Any = None) -> Iterator[Case]:
    """All cases of the sources with these names, or of all, that have a reply and a correct option."""
    sources = sources or SOURCES
    for name in names or sources:
        repository, read = sources[name]
        for item in read(Clone(clones, repository)):
            if item["gold"] is not None and len(set(item["options"])) == len(item["options"]) > 1:
                yield item
