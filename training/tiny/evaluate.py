"""Measure a folder on the eyechart's test seeds: `python training/tiny/evaluate.py src/snellen/models/weights/tiny`.

The folder is loaded through the Auto classes, the prompts are Snellen's. Prints a Markdown table per level.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from data import CHOICES
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from snellen.common.seeds import rng_for
from snellen.protocols.prompts.rendering import EarlierReply, PromptRenderer, labels_for
from snellen.protocols.prompts.templates import default_templates
from snellen.records import ImageRef, Message, Part, Sample, TextPart, Turn, Variant
from snellen.suites.eyechart.reader import DrawnQuestion, make_question
from snellen.suites.eyechart.scenes import CANVAS, LEVELS, Level, paint

BATCH = 64


@dataclass(frozen=True)
class Question:
    """A test question with its picture; a dialogue has an item for each round."""

    name: str
    picture: Image.Image
    items: tuple[DrawnQuestion, ...]

    @property
    def sample(self) -> Sample:
        image = ImageRef("0" * 64, "image/png", CANVAS, CANVAS)
        if len(self.items) == 1:
            return Sample(
                self.name, "eyechart", self.items[0].question, (image,), self.items[0].options
            )
        turns = tuple(Turn(item.question, item.options) for item in self.items)
        return Sample(self.name, "eyechart", images=(image,), turns=turns)


def questions(task: str, level: Level, count: int) -> list[Question]:
    made = []
    for index in range(count):
        scene, items = make_question(task, level, rng_for("eyechart", task, "test", level, index))
        made.append(Question(f"{task}-{level}-{index}", paint(scene).convert("RGB"), items))
    return made


Asked = tuple[Question, tuple[Message, ...]]


def _part(part: Part) -> dict[str, str]:
    return {"type": "text", "text": part.text} if isinstance(part, TextPart) else {"type": "image"}


class Subject:
    """The model in the folder, asked in batches."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.processor: Any = AutoProcessor.from_pretrained(folder)
        self.model: Any = AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype).eval()
        self.tokens = self.replies = 0
        self.seconds = 0.0

    def spell(self, messages: tuple[Message, ...]) -> str:
        chat = [
            {"role": message.role, "content": [_part(part) for part in message.content]}
            for message in messages
        ]
        goes_on = messages[-1].role == "assistant"
        text = self.processor.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=not goes_on, continue_final_message=goes_on
        )
        return cast(str, text)

    @torch.no_grad()
    def generate(self, asked: Sequence[Asked]) -> list[str]:
        texts = [self.spell(messages) for _, messages in asked]
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        replies = [""] * len(texts)
        start = time.monotonic()
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            inputs = self._inputs([asked[i] for i in rows], [texts[i] for i in rows], "left")
            made = self.model.generate(**inputs, max_new_tokens=20, do_sample=False)[
                :, inputs["input_ids"].shape[1] :
            ]
            self.tokens += int((made != self.processor.tokenizer.pad_token_id).sum())
            for i, text in zip(
                rows, self.processor.batch_decode(made, skip_special_tokens=True), strict=True
            ):
                replies[i] = text
        self.replies += len(texts)
        self.seconds += time.monotonic() - start
        return replies

    @torch.no_grad()
    def likeliest(self, asked: Sequence[Asked], options: Sequence[tuple[str, ...]]) -> list[int]:
        """Index of the option whose text is the likeliest reply (sum over its tokens), for each question."""
        flat = [
            (one, option) for one, group in zip(asked, options, strict=True) for option in group
        ]
        scores: list[float] = []
        for first in range(0, len(flat), BATCH):
            rows = flat[first : first + BATCH]
            texts = [self.spell(one[1]) + option for one, option in rows]
            inputs = self._inputs([one for one, _ in rows], texts, "right")
            told = self.model(**inputs).logits.float().log_softmax(-1)
            sizes = [
                len(ids)
                for ids in self.processor.tokenizer([option for _, option in rows])["input_ids"]
            ]
            for row, (size, end) in enumerate(
                zip(sizes, inputs["attention_mask"].sum(1).tolist(), strict=True)
            ):
                ids = inputs["input_ids"][row, end - size : end]
                scores.append(
                    told[row, end - size - 1 : end - 1].gather(-1, ids[:, None]).sum().item()
                )
        best, at = [], 0
        for group in options:
            own = scores[at : at + len(group)]
            best.append(own.index(max(own)))
            at += len(group)
        return best

    def _inputs(self, asked: Sequence[Asked], texts: list[str], side: str) -> Any:
        self.processor.tokenizer.padding_side = side
        pictures = [question.picture for question, _ in asked]
        return self.processor(text=texts, images=pictures, return_tensors="pt", padding=True).to(
            self.model.dtype
        )


def variant(
    question: Question, method: str, family: str = "choice", turn: int = 0, **more: Any
) -> Variant:
    """A shuffled presentation in upper-case labels, drawn by the question's name."""
    rng = rng_for(question.name, method, turn)
    options = len(question.items[turn].options)
    templates = PromptRenderer(default_templates(), family).template_ids(cast(Any, method))
    order = tuple(rng.sample(range(options), options))
    settings = {"order": order, "labels": labels_for("upper", options, rng), **more}
    return Variant(template=rng.choice(templates), turn=turn, **settings)


def named(reply: str, shown: Variant) -> int | None:
    """The option that the reply names by its label."""
    found = re.search(r"\((\w)\)", reply)
    return shown.order[shown.labels.index(found[1])] if found and found[1] in shown.labels else None


def share(hits: Sequence[bool]) -> float:
    return 100 * sum(hits) / len(hits)


def generation(
    subject: Subject, asked: PromptRenderer, group: list[Question], shown: list[Variant]
) -> list[bool]:
    pairs = list(zip(group, shown, strict=True))
    replies = subject.generate(
        [(question, asked.generate(question.sample, one).messages) for question, one in pairs]
    )
    return [
        named(reply, one) == question.items[0].gold
        for reply, (question, one) in zip(replies, pairs, strict=True)
    ]


def choice_row(subject: Subject, group: list[Question]) -> dict[str, float]:
    asked, bare = (
        PromptRenderer(default_templates()),
        PromptRenderer(default_templates(), prefix=False),
    )
    plain = [variant(question, "generation") for question in group]
    examples = [variant(question, "generation", in_context=True) for question in group]
    turned: list[list[bool]] = []
    for shift in range(max(len(question.items[0].options) for question in group)):
        rotated = [
            variant(question, "generation", order=tuple((i + shift) % n for i in range(n)))
            for question in group
            for n in [len(question.items[0].options)]
        ]
        turned.append(generation(subject, asked, group, rotated))
    likely = [asked.loglikelihood(q.sample, variant(q, "likelihood")).messages for q in group]
    best = subject.likeliest(
        list(zip(group, likely, strict=True)), [q.items[0].options for q in group]
    )
    return {
        "chance": statistics.mean(100 / len(question.items[0].options) for question in group),
        "generation": share(generation(subject, asked, group, plain)),
        "in-context": share(generation(subject, asked, group, examples)),
        "no prefix": share(generation(subject, bare, group, plain)),
        "circular": share([all(hits) for hits in zip(*turned, strict=True)]),
        "likelihood": share(
            [index == question.items[0].gold for index, question in zip(best, group, strict=True)]
        ),
    }


def dialogue_row(subject: Subject, group: list[Question]) -> dict[str, float]:
    """Four rounds, the model's own replies in the history; the share of all rounds."""
    asked = PromptRenderer(default_templates(), "dialogue")
    history: list[list[EarlierReply]] = [[] for _ in group]
    likely: list[list[EarlierReply]] = [[] for _ in group]
    hits: list[bool] = []
    likely_hits: list[bool] = []
    for turn in range(4):
        shown = [variant(question, "generation", "dialogue", turn) for question in group]
        requests = [
            (q, asked.generate(q.sample, one, tuple(past)).messages)
            for q, one, past in zip(group, shown, history, strict=True)
        ]
        for question, one, past, reply in zip(
            group, shown, history, subject.generate(requests), strict=True
        ):
            hits.append(named(reply, one) == question.items[turn].gold)
            past.append(EarlierReply(f"The answer is{reply}"))
        requests = [
            (
                q,
                asked.loglikelihood(
                    q.sample, variant(q, "likelihood", "dialogue", turn), tuple(past)
                ).messages,
            )
            for q, past in zip(group, likely, strict=True)
        ]
        best = subject.likeliest(requests, [q.items[turn].options for q in group])
        for question, past, index in zip(group, likely, best, strict=True):
            likely_hits.append(index == question.items[turn].gold)
            past.append(EarlierReply(question.items[turn].options[index]))
    return {"generation": share(hits), "likelihood": share(likely_hits)}


def text_row(subject: Subject, family: str, group: list[Question]) -> dict[str, float]:
    """Share of replies that are one of the references to the letter."""
    asked = PromptRenderer(default_templates(), family)
    requests = [
        (
            q,
            asked.generate(
                q.sample, variant(q, "generation", family, order=(), labels=())
            ).messages,
        )
        for q in group
    ]
    replies = subject.generate(requests)
    return {
        "generation": share(
            [reply.strip() in q.items[0].texts for reply, q in zip(replies, group, strict=True)]
        )
    }


COLUMNS = ("chance", "generation", "in-context", "no prefix", "circular", "likelihood")


def table(subject: Subject, level: Level, count: int) -> str:
    rows: dict[str, dict[str, float]] = {}
    for task in CHOICES:
        rows[task] = choice_row(subject, questions(task, level, count))
    rows["**mean**"] = {
        name: statistics.mean(row[name] for row in rows.values()) for name in COLUMNS
    }
    rows["dialogue"] = dialogue_row(subject, questions("dialogue", level, count))
    rows["word"] = text_row(subject, "text", questions("word", level, count))
    rows["caption"] = text_row(subject, "caption", questions("caption", level, count))
    lines = [f"| {level} | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, row in rows.items():
        cells = [f"{row[column]:.0f}" if column in row else "" for column in COLUMNS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--count", type=int, default=100, help="questions a task and level")
    options.add_argument("--levels", nargs="+", choices=LEVELS, default=LEVELS)
    options.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    options.add_argument("--threads", type=int, default=2)
    told = options.parse_args()
    torch.set_num_threads(told.threads)
    subject = Subject(told.folder, getattr(torch, told.dtype))
    size = sum(path.stat().st_size for path in told.folder.iterdir())
    count = sum(p.numel() for p in subject.model.parameters())
    print(f"{told.folder.name}: {count} parameters, {size} bytes\n")
    for level in told.levels:
        print(table(subject, level, told.count) + "\n", flush=True)
    print(
        f"{subject.replies} replies in {subject.seconds:.0f} s: {subject.replies / subject.seconds:.0f} replies/s, "
        f"{subject.tokens / subject.seconds:.0f} tokens/s (batch {BATCH}, {told.threads} threads, with preprocessing)"
    )


if __name__ == "__main__":
    main()
