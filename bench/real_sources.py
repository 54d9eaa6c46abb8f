"""What real models replied, as public repositories hold it: a function of each makes cases of its files.

`real_replies.py` draws of them and says how the replies are read.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

Case = dict[str, Any]


class Clone:
    """The files of OWNER/NAME at the commit that its clone is at, of OWNER/NAME@COMMIT at that one.

    Raises:
        SystemExit: There is no clone, or it has no such commit.
    """

    def __init__(self, clones: Path, source: str) -> None:
        self.clones = clones
        name, _, commit = source.partition("@")
        self.commit = commit or "HEAD"
        self.command = [
            "git",
            "-C",
            str(clones / name.replace("/", "+") / "repo"),
            "-c",
            "core.quotepath=off",
        ]
        self._git("cat-file", "-e", self.commit)

    def files(self, pattern: str) -> list[str]:
        names = self._git("ls-tree", "-r", "--name-only", self.commit).splitlines()
        return [name for name in names if re.fullmatch(pattern, name)]

    def read(self, name: str) -> str:
        """The text of a file; empty where the clone lacks it, as it may lack large ones."""
        return self.read_bytes(name).decode("utf-8")

    def read_bytes(self, name: str) -> bytes:
        """Like `read`, of a file that is no text."""
        shown = subprocess.run(
            [*self.command, "show", f"{self.commit}:{name}"], capture_output=True, check=False
        )
        return shown.stdout if shown.returncode == 0 else b""

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self.command, *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            asked = " ".join(arguments)
            raise SystemExit(
                f"{self.command[2]}: git {asked} fails; clone it whole. {done.stderr}".strip()
            )
        return done.stdout


def case(
    model: str,
    row_id: str,
    question: str,
    options: Sequence[str],
    labels: Sequence[str],
    reply: Any,
) -> Case:
    return {
        "model": model,
        "row": row_id,
        "question": question,
        "options": [str(option) for option in options],
        "labels": list(labels),
        "reply": str(reply or ""),
        "finish": "stop",
        "lang": "en",
        "kind": "choice",
    }


def letters(options: Sequence[Any]) -> list[str]:
    return list("ABCDEFGHIJKLMNOP"[: len(options)])


def yes_no(model: str, row_id: str, question: str, reply: Any) -> Case:
    return {**case(model, row_id, question, ("Yes", "No"), (), reply), "kind": "yes-no"}


def lines(text: str) -> Iterator[Any]:
    return (json.loads(line) for line in text.splitlines() if line.strip())


def mathvista(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"results/(?!random|test_random|leader)\w+/output_(?!.*code).*\.json"):
        for number, entry in json.loads(clone.read(name) or "{}").items():
            if entry["question_type"] == "multi_choice":
                asked = entry["query"].rpartition("Question: ")[2].partition("\nChoices")[0]
                model = name.split("/")[1]
                row_id = f"{Path(name).stem}:{number}"
                yield case(
                    model,
                    row_id,
                    asked,
                    entry["choices"],
                    letters(entry["choices"]),
                    entry["response"],
                )


def math_vision(clone: Clone) -> Iterator[Case]:
    questions = {entry["id"]: entry for entry in lines(clone.read("data/test.jsonl"))}
    for name in clone.files(r"outputs/.+\.jsonl"):
        model = Path(name).stem
        for entry in lines(clone.read(name)) if model != "Random-Chance" else ():
            asked = questions[entry["id"]]
            if asked["options"]:
                options = asked["options"]
                yield case(
                    model,
                    entry["id"],
                    asked["question"],
                    options,
                    letters(options),
                    entry["response"],
                )


def mmmu(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"mmmu/example_outputs/(llava1.5_13b|qwen_vl)/[A-Z]\w+/output\.json"):
        for entry in json.loads(clone.read(name)):
            if entry["question_type"] == "multiple-choice":
                options = entry["index2ans"].values()
                yield case(
                    name.split("/")[2],
                    entry["id"],
                    "",
                    list(options),
                    entry["all_choices"],
                    entry["response"],
                )


def mmmu_pro(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"mmmu-pro/output/.*\.jsonl"):
        model = Path(name).stem
        for entry in lines(clone.read(name)):
            options = ast.literal_eval(entry["options"])
            yield case(
                model, entry["id"], entry["question"], options, letters(options), entry["response"]
            )


def hallusion(clone: Clone) -> Iterator[Case]:
    for number, entry in enumerate(json.loads(clone.read("HallusionBench_result_sample.json"))):
        yield yes_no("GPT-4V", str(number), entry["question"], entry["model_prediction"])


BLINK = {
    "Art Style": (
        "Which image has the style of the reference image?",
        ("the second image", "the third image"),
    ),
    "Visual Similarity": (
        "Which image is most like the reference image?",
        ("the second image", "the third image"),
    ),
    "Jigsaw": (
        "Which image is the missing part of the first image?",
        ("the second image", "the third image"),
    ),
    "Multi-view Reasoning": ("Does the camera move left or right?", ("left", "right")),
    "Relative Depth": ("Which point is closer to the camera?", ("A is closer", "B is closer")),
    "Relative Reflectance": (
        "Which point is darker?",
        ("A is darker", "B is darker", "About the same"),
    ),
    "Visual Correspondence": (
        "Which point corresponds?",
        ("Point A", "Point B", "Point C", "Point D"),
    ),
    "Functional Correspondence": (
        "Which point corresponds?",
        ("Point A", "Point B", "Point C", "Point D"),
    ),
    "Semantic Correspondence": (
        "Which point corresponds?",
        ("Point A", "Point B", "Point C", "Point D"),
    ),
    "Forensic Detection": (
        "Which image is a photograph?",
        ("the first image", "the second image", "the third image", "the fourth image"),
    ),
    "Spatial Relation": ("Is the relation as stated?", ("yes", "no")),
    "Object Localization": ("Which box encloses the object more accurately?", ("Box A", "Box B")),
}
"""Tasks with the same options in each question; the files have none. The questions are ours, in few words."""


def blink(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"eval/saved_outputs/[^/]+/[^._][^/]*\.json"):
        task = Path(name).stem.replace("_", " ").removesuffix(" concat")
        if task not in BLINK:
            continue
        question, options = BLINK[task]
        for entry in chain.from_iterable(json.loads(clone.read(name)).values()):
            model = name.split("/")[2].partition("*")[0]
            yield case(
                model, entry["idx"], question, options, letters(options), entry["full_prediction"]
            )


LINE = re.compile(
    r"^(?:(?:Option|Sentence|Caption|Description|Statement|Choice)\s+)?([A-D1-4])[.:)]\s*(.+)$",
    re.M,
)


def tempcompass(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"predictions/[^/]+/(multi-choice|yes_no|caption_matching)\.json"):
        model, task = name.split("/")[1], Path(name).stem
        for video, aspects in json.loads(clone.read(name) or "{}").items():
            for aspect, entries in aspects.items():
                for number, entry in enumerate(entries):
                    row_id = f"{task}:{video}:{aspect}:{number}"
                    if task == "yes_no":
                        yield yes_no(model, row_id, entry["question"], entry["prediction"])
                    elif len(listed := LINE.findall(entry["question"])) > 1:
                        shown, options = zip(*listed, strict=True)
                        asked = entry["question"].split("\n")[0]
                        yield case(model, row_id, asked, options, shown, entry["prediction"])


def m3cot(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"experiment/zero-shot/[^/]+/\w+\.jsonl"):
        model = name.split("/")[2]
        for entry in lines(clone.read(name)):
            asked, _, listed = entry["messages"][0].partition("[Choices]")
            options = re.findall(r"^\(([A-J])\) (.*)$", listed, re.M)
            if options and len(entry["messages"]) % 2 == 0:
                shown, texts = zip(*options, strict=True)
                row_id = f"{Path(name).stem}:{entry['id']}"
                asked = asked.removeprefix("[Question]").strip()
                yield case(model, row_id, asked, texts, shown, entry["messages"][-1])


def event_hallusion(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"predictions/\w+\.json"):
        model = Path(name).stem.removesuffix("_predictions")
        for entry in chain.from_iterable(
            part.values() for part in json.loads(clone.read(name)).values()
        ):
            for number, pair in enumerate(entry.get("qa", ())):
                yield yes_no(model, f"{entry['id']}:{number}", pair["question"], pair["prediction"])


def emma(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"results/EMMA-mini/[^/]+/.*_(CoT|Direct)\.json"):
        for entry in json.loads(clone.read(name) or "{}").values():
            if entry["type"] == "Multiple Choice":
                written = entry["options"]
                options = ast.literal_eval(written) if isinstance(written, str) else written
                yield case(
                    Path(name).stem,
                    entry["pid"],
                    entry["question"],
                    options,
                    letters(options),
                    entry["response"],
                )


# --- sources of the third draw ----------------------------------------------------------------------------------------


def inline(text: str, form: str) -> tuple[str, list[str], list[str]] | None:
    """Question, options and labels of a text that holds its options; none unless labels run from the first letter on.

    `form` has the groups label and text.
    """
    listed = list(re.finditer(form, text, re.DOTALL | re.MULTILINE))
    labels = [option["label"] for option in listed]
    if len(listed) < 2 or labels not in (
        letters(labels),
        [letter.lower() for letter in letters(labels)],
    ):
        return None
    question = re.sub(
        r"[ \t]+", " ", f"{text[: listed[0].start()]} {text[listed[-1].end() :]}"
    ).strip()
    options = [option["text"].strip(" \t\r\n\u200b").rstrip(",;") for option in listed]
    return re.sub(r"\s*\b(?:Choices|Options):?$", "", question).strip(), options, labels


def visonlyqa(clone: Clone) -> Iterator[Case]:
    """Without the models that the authors trained, runs said again, and a task with several right options."""
    form = r"\((?P<label>[a-e])\)\s*(?P<text>[^\n]+?)(?=\s*\([a-e]\)|\s*\n|\s*$)"
    for name in clone.files(
        r"results/model_responses/\w+/(?!chemistry__shape_multi).+/(?!.*(finetuned|_2024)).+\.jsonl"
    ):
        *folders, file = name.split("/")[2:]
        for number, entry in enumerate(lines(clone.read(name))):
            model, row_id = file.removesuffix(".jsonl"), "/".join((*folders, str(number)))
            asked = re.sub(r"<image>|<\|image_1\|>", "", entry["prompt"]).strip()
            head, _, tail = asked.rpartition("\n\n")
            if not isinstance(entry["response"], str):
                continue
            if str(entry["y_true"]) in ("True", "False"):
                yield case(model, row_id, asked, ("True", "False"), (), entry["response"])
            elif split := inline(head, form):
                yield case(model, row_id, f"{split[0]}\n\n{tail}", *split[1:], entry["response"])


LOGICVISTA = """
    BLIP2 GPT4 LLAVA13B LLAVA7B LLAVANEXT-7B-mistral instructBLIP-flan-t5-xl instructBLIP-flan-t5-xxl
    instructBLIP-vicuna-13B instructBLIP-vicuna-7B miniGPTvicuna13B miniGPTvicuna7B otter9B
""".split()
"""The chat models whose files do not repeat the prompt."""


def logicvista(clone: Clone) -> Iterator[Case]:
    form = r"(?<!\w)\(?(?P<label>[A-H])\)\s*(?P<text>\S.*?)(?=\s*(?<!\w)\(?[A-H]\)|\s*$)"
    questions = json.loads(clone.read("data/dataset.json"))
    for model in LOGICVISTA:
        for number, entry in json.loads(clone.read(f"eval/answers/{model}-answers.json")).items():
            asked = questions[number]
            split = inline(asked["question"].strip(), form)
            if split and re.fullmatch(r"\s*[A-H]\s*", asked["answer"]):
                yield case(model, number, *split, entry["answer"])


IQBENCH = {
    "claude-3-5-sonnet-20240620": "results_claude-3-5-sonnet-20240620_done",
    "claude-3-7-sonnet-20250219": "results_claude-3-7-sonnet-20250219_done",
    "gemini-2.0-flash": "results_gemini-2.0-flash",
    "gemini-2.5-flash-preview-04-17": "results_gemini-2.5-flash-preview-04-17",
    "gpt-4o": "results_gpt4o_done",
    "o4-mini": "results_o4mini_done",
    "o3": "o3_answer",
}
"""Model -> its file."""


def iqbench(clone: Clone) -> Iterator[Case]:
    by_line = r"^\s*(?P<label>[A-H])[.)]\s*(?P<text>\S[^\n]*)$"
    running = (
        r"(?<![\w.])(?P<label>[A-H])[.):]\s+(?P<text>\S.*?)(?=,?\s*(?<![\w.])[A-H][.):]\s|\s*$)"
    )
    for model, name in IQBENCH.items():
        for entry in json.loads(clone.read(f"experiments/results_zip/{name}.json")):
            if split := inline(entry["question"], by_line) or inline(entry["question"], running):
                yield case(model, entry["id"], *split, entry.get("full_answer"))


ASKS_YES_NO = re.compile(
    r"(?:Is|Are|Was|Were|Does|Do|Did|Has|Have|Can|Could|Will|Would)\b|.*\byes or no\b",
    re.IGNORECASE,
)
HALP = {
    "Misc/mixed_hallucination_examples.md": r"- \*\*Question ID:\*\* `([^`]*)`\n- \*\*Question:\*\* (.*?)\n"
    r"- \*\*Ground Truth:\*\* (.*?)\n- \*\*Model Answer:\*\* (.*?)\n- \*\*Basic Hallucination Type",
    "Misc/HALLUCINATION_ANALYSIS_REPORT.md": r"\*\*Question ID:\*\* `([^`]*)`\s*\n"
    r"\*\*Image:\*\* `(?!hallusionbench)[^`]*`\s*\n\*\*Question:\*\* (.*?)\s*\n\n\*\*Ground Truth:\*\*\s*\n> (.*?)\n\n"
    r"\*\*Model Answer:\*\*\s*\n> (.*?)\n\n\*\*Status:\*\*",
}
"""Reports with whole replies -> the form of an entry."""
HALP_MODELS = {"Gemma 3 12B": "Gemma3-12B", "Molmo-7B": "Molmo-V1", "LLaVA-NeXT": "LLaVA-Next-8B"}
"""Models that the second report names otherwise than the first."""


def halp(clone: Clone) -> Iterator[Case]:
    """Without HallusionBench's images, which the first draws have, and a model whose replies repeat the prompt."""
    for name, form in HALP.items():
        for part in re.split(r"^## ", clone.read(name), flags=re.MULTILINE)[1:]:
            model, _, text = part.partition("\n")
            model = HALP_MODELS.get(model.strip(), model.strip())
            text = re.sub(r"(?ms)^### Image: `hallusionbench.*?(?=^### Image: |\Z)", "", text)
            for row_id, asked, truth, reply in re.findall(form, text, re.DOTALL):
                closed = re.sub(r"[^a-z]", "", truth.lower()) in (
                    "yes",
                    "no",
                ) and ASKS_YES_NO.match(asked)
                if closed and not model.startswith("SmolVLM2"):
                    yield yes_no(model, row_id, asked, reply)


AOKVQA = {
    "20251028_061042/eval_results.md": "3B",
    "20251028_165141/eval_results.md": "7B",
    "20251028_165141/rollout_results.md": "7B",
    "20251028_195736/eval_results.md": "7B",
    "20251029_052813/eval_results.md": "7B",
}
"""Log -> size of the model, as the script that ran it says at the commit of its time."""


def aokvqa(clone: Clone) -> Iterator[Case]:
    """A model while it is trained to write <think> and <answer>: many broken forms."""
    form = r"\*\*Prompt:\*\* (.*?)\n+\*\*Completion:\*\* (.*?)\n\n(?:\*\*Solution:\*\* \S+\n\n)?\*\*Rewards:\*\*"
    for name, size in AOKVQA.items():
        entries = re.findall(form, clone.read(f"training_logs/{name}"), re.DOTALL)
        for number, (prompt, reply) in enumerate(entries):
            asked = prompt.partition("<|vision_end|>")[2].partition("<|im_end|>")[0]
            if split := inline(asked, r"^(?P<label>[A-J]): (?P<text>[^\n]+)$"):
                yield case(
                    f"Qwen2.5-VL-{size}-Instruct in training", f"{name}/{number}", *split, reply
                )


def vqa_rad(clone: Clone) -> Iterator[Case]:
    for model in ("gemini-2.5-pro", "gpt-4o", "llama3.2-vision:11b", "llava:13b", "qwen2.5vl:7b"):
        for entry in json.loads(clone.read(f"results/{model}/answers.json")):
            asked = entry["question"].strip()
            if str(entry["answer"]).strip().lower() in ("yes", "no") and ASKS_YES_NO.match(asked):
                asked += "\nThis is a closed-ended question. Answer with only yes or no."
                yield yes_no(model, entry["qid"], asked, entry["model_answer"])


def benchlmm(clone: Clone) -> Iterator[Case]:
    form = r"\((?P<label>[A-J])\)\s*(?P<text>.*?)(?=\s*\([A-J]\)|\s*Plea+s+e give the an[sw]+er)"
    for part in ("Robots", "game", "xray"):
        for entry in lines(clone.read(f"results/answers_Benchmark_{part}.jsonl")):
            model, row_id, asked = (
                entry["model_id"],
                f"{part}/{entry['question_id']}",
                entry["prompt"],
            )
            if "Yes or No" in asked:
                yield yes_no(model, row_id, asked.strip(), entry["model_output"])
            elif split := inline(asked, form):
                yield case(model, row_id, *split, entry["model_output"])


Sources = dict[str, tuple[str, Callable[[Clone], Iterator[Case]]]]
SOURCES: Sources = {
    "MathVista": ("lupantech/MathVista", mathvista),
    "MATH-Vision": ("mathllm/MATH-V", math_vision),
    "MMMU": ("MMMU-Benchmark/MMMU", mmmu),
    "MMMU-Pro": ("MMMU-Benchmark/MMMU", mmmu_pro),
    "HallusionBench": ("tianyi-lab/HallusionBench", hallusion),
    "BLINK": ("zeyofu/BLINK_Benchmark", blink),
    "TempCompass": ("llyx97/TempCompass", tempcompass),
    "M3CoT": ("LightChen233/M3CoT", m3cot),
    "EventHallusion": ("Stevetich/EventHallusion", event_hallusion),
    "EMMA": ("EMMA-Bench/EMMA", emma),
}
"""Name -> repository, and what makes cases of its files."""
LATER_SOURCES: Sources = {
    "visonlyqa": ("psunlpgroup/VisOnlyQA@33a1355dbe467352f6f82d3911636f7cc8de6ada", visonlyqa),
    "logicvista": ("Yijia-Xiao/LogicVista@e5795f17189ce1243231250af7d8c112ae2c5a57", logicvista),
    "iqbench": ("phuvinhnguyen/IQBench@e5ad3dff3f9ae2792cd58b99d66ebcf4f897473e", iqbench),
    "halp": ("alliedbrother/HALP_EACL@342e35ccd6b2524456433b2a73701fd5dd49afca", halp),
    "aokvqa-dapo": ("JuncyLu/trl_DAPO@b0d7b11eab7e740136f1dcc47e0d502f4d403cd6", aokvqa),
    "vqa-rad": ("lsi-ufcg/radiology-vqa-mllms@009b55cc17d240a0c4c042f254c75f442c860f79", vqa_rad),
    "benchlmm": ("AIFEG/BenchLMM@c482a7fe06725dba721df5e3398c87771ca5e491", benchlmm),
}
"""Those of the third draw. The logs of the fifth are no longer in its newest tree."""
