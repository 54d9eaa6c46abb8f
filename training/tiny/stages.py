"""The stages of training: the vision tower alone, the decoder alone on text, the projector, all together."""

from __future__ import annotations

import math
import random
import string
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from data import CHOICES, HEADS, Mix, Pool, Talk, prompt, talk
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import DynamicCache, LlavaForConditionalGeneration, PreTrainedTokenizerFast

from build import MEAN, PATCHES, STD
from snellen.protocols.prompts.rendering import labels_for, lay_out
from snellen.suites.eyechart.reader import ask
from snellen.suites.eyechart.scenes import PLACES, SHAPE_COLOURS, SHAPE_KINDS

PREFIX = PATCHES + 1
"""Tokens of `<|user|>` and the image, which all conversations about a picture share."""


@dataclass(frozen=True)
class Plan:
    """Steps, peak learning rate and batch of a stage; processes that train together share the batch."""

    steps: int
    rate: float
    batch: int

    @property
    def share(self) -> int:
        return self.batch // workers()


def optimiser(parameters: Sequence[nn.Parameter], decay: float = 0.05) -> torch.optim.AdamW:
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)


class Meter:
    """Running means by name, printed every so often."""

    def __init__(self, stage: str, every: int = 50) -> None:
        self.stage, self.every, self.start = stage, every, time.monotonic()
        self.means: dict[str, float] = {}
        self.steps = 0

    def add(self, name: str, value: float, weight: float = 0.05) -> None:
        self.means[name] = (
            value if name not in self.means else (1 - weight) * self.means[name] + weight * value
        )

    def step(self) -> None:
        self.steps += 1
        if self.steps % self.every == 0 and not (dist.is_initialized() and dist.get_rank()):
            shown = " ".join(f"{name} {value:.2f}" for name, value in sorted(self.means.items()))
            print(
                f"[{self.stage}] step {self.steps} {time.monotonic() - self.start:.0f} s: {shown}",
                flush=True,
            )


def average(parameters: Sequence[nn.Parameter]) -> None:
    """The mean gradient of all processes that train together."""
    if (count := workers()) == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    for gradient, mean in zip(
        gradients, (flat / count).split([g.numel() for g in gradients]), strict=True
    ):
        gradient.copy_(mean.view_as(gradient))


def workers() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def descend(
    plan: Plan, parameters: Sequence[nn.Parameter], loss: Callable[[float], Tensor], meter: Meter
) -> None:
    """As many steps as the plan says; the rate warms up and then falls along a cosine.

    `loss` is told which part of the steps is done.
    """
    optimise = optimiser(parameters)
    for step in range(plan.steps):
        passed = step / plan.steps
        rate = (
            plan.rate * min(1, (step + 1) / 100) * (0.49 * (1 + math.cos(math.pi * passed)) + 0.02)
        )
        for group in optimise.param_groups:
            group["lr"] = rate
        value = loss(passed)
        value.backward()
        average(parameters)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimise.step()
        optimise.zero_grad(set_to_none=True)
        meter.add("loss", value.item())
        meter.step()


def pixels_of(pool: Pool, rows: Sequence[int]) -> Tensor:
    images = torch.from_numpy(pool.pixels[rows]).permute(0, 3, 1, 2)
    return (images.float() / 255 - MEAN) / STD


def heads_loss(logits: Tensor, labels: Tensor, meter: Meter | None = None) -> Tensor:
    """Mean cross entropy of the patch heads; labels of -1 are left out."""
    parts = logits.split(list(HEADS.values()), dim=-1)
    total = logits.new_zeros(())
    for number, (name, part) in enumerate(zip(HEADS, parts, strict=True)):
        gold = labels[..., number]
        asked = gold >= 0
        if not asked.any():
            continue
        if name in (
            "kind",
            "colour",
            "letter",
        ):  # half of the weight to patches that show something
            some = asked & (gold > 0)
            if some.any():
                total = total + cross_entropy(part[some], gold[some]) / 2
                if meter:
                    meter.add(name, (part[some].argmax(-1) == gold[some]).float().mean().item())
            total = total + cross_entropy(part[asked], gold[asked]) / 2
        else:
            total = total + cross_entropy(part[asked], gold[asked])
            if meter:
                meter.add(name, (part[asked].argmax(-1) == gold[asked]).float().mean().item())
    return total


def train_vision(
    model: LlavaForConditionalGeneration,
    pool: Pool,
    plan: Plan,
    rng: random.Random,
    heads: nn.Linear,
    nearest: bool,
) -> None:
    """Teach the tower to tell of each patch what `HEADS` asks, through linear heads that are not shipped."""
    tower = model.model.vision_tower
    labels = torch.from_numpy(pool.nearest if nearest else pool.labels).long()
    meter = Meter("vision", 100)

    def loss(passed: float) -> Tensor:
        rows = rng.sample(range(len(pool.sources)), plan.share)
        with torch.autocast("cpu", torch.bfloat16):
            features = tower(
                pixel_values=pixels_of(pool, rows), output_hidden_states=True
            ).hidden_states[-1][:, 1:]
        return heads_loss(heads(features.float()), labels[rows], meter)

    unused = ("post_layernorm",)
    parameters = [
        p for name, p in tower.named_parameters() if not any(word in name for word in unused)
    ]
    descend(plan, [*parameters, *heads.parameters()], loss, meter)


Tokens = tuple[list[int], list[int], str]
"""Token ids, the ids to predict (-100 where nothing is learned), and a name for the meter."""


def tokens_of(talks: Sequence[Talk], words: PreTrainedTokenizerFast) -> list[Tokens]:
    ids = iter(
        words([piece.text for one in talks for piece in one.pieces], add_special_tokens=False)[
            "input_ids"
        ]
    )
    made = []
    for one in talks:
        tokens: list[int] = []
        gold: list[int] = []
        for piece in one.pieces:
            own = next(ids)
            tokens += own
            gold += own if piece.learned else [-100] * len(own)
        made.append((tokens, gold, one.name))
    return made


def padded(rows: Sequence[list[int]], filler: int) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [filler] * (longest - len(row)) for row in rows])


def reply_loss(head: nn.Module, hidden: Tensor, rows: Sequence[Tokens], meter: Meter) -> Tensor:
    """Sum of cross entropies over all learned tokens; the meter hears which replies were right throughout."""
    gold = padded([row[1] for row in rows], -100)[:, 1:]
    row, place = (gold != -100).nonzero(as_tuple=True)
    flat = hidden.flatten(0, 1).index_select(0, row * hidden.shape[1] + place)
    logits, wanted = head(flat), gold[row, place]
    wrong = torch.zeros(len(rows)).index_add(0, row, (logits.argmax(-1) != wanted).float())
    for (_, _, name, *_), errors in zip(rows, wrong.tolist(), strict=True):
        meter.add(name, float(errors == 0), 0.02)
    return cross_entropy(logits, wanted, reduction="sum")


def lookups(pool: Pool, words: PreTrainedTokenizerFast, rng: random.Random) -> Tokens:
    """Options as a prompt shows them, then many look-ups "text -> mark" and "mark -> text" among them."""
    layout = prompt("choice").templates.layout
    while True:
        source = rng.choice(pool.sources)
        task = rng.choice(source.tasks)
        if task in CHOICES:
            break
    item = ask(task, source.scene, source.level, rng)[0]
    options = tuple(rng.sample(item.options, len(item.options)))
    marks = labels_for("random", len(options), rng)
    question = f"{item.question} {lay_out(layout, options, marks)}<|end|><|assistant|>"
    pieces = [(question, False)]
    for _ in range(len(options) + 2):
        number = rng.randrange(len(options))
        if rng.random() < 0.8:
            pieces += [(f" {options[number]} (", False), (marks[number], True), (")", False)]
        else:
            pieces += [(f" ({marks[number]})", False), (f" {options[number]}", True)]
    ids = words([text for text, _ in pieces], add_special_tokens=False)["input_ids"]
    opening = words.convert_tokens_to_ids("<|user|>")
    tokens = [opening, *(token for own in ids for token in own)]
    gold = [-100]
    for own, (_, learned) in zip(ids, pieces, strict=True):
        gold += own if learned else [-100] * len(own)
    return tokens, gold, "look-up"


def train_text(
    model: LlavaForConditionalGeneration,
    words: PreTrainedTokenizerFast,
    pool: Pool,
    plan: Plan,
    rng: random.Random,
) -> None:
    """Teach the decoder alone to bind marks and options: half look-ups, half prompts that tell the answer."""
    meter = Meter("text", 50)
    opening = words.convert_tokens_to_ids("<|user|>")

    def loss(passed: float) -> Tensor:
        half = plan.share // 2
        talks = tokens_of(list(_hinted(pool, half, rng)), words)
        rows = [lookups(pool, words, rng) for _ in range(half)]
        rows += [([opening, *ids], [-100, *gold], "hinted") for ids, gold, _ in talks]
        total = torch.zeros(())
        for group in by_length(rows, 4):
            ids = padded([row[0] for row in group], words.pad_token_id)
            hidden = model.model.language_model(input_ids=ids).last_hidden_state
            total = total + reply_loss(model.lm_head, hidden, group, meter)
        return total / (2 * half)

    descend(plan, [*model.model.language_model.parameters()], loss, meter)


def _hinted(pool: Pool, count: int, rng: random.Random) -> Iterator[Talk]:
    while count:
        one = talk(rng.choice(pool.sources), rng, Mix(told=1.0, told_unshown=1.0))
        if one.name.endswith((".g", ".l")) and not one.name.startswith("dialogue"):
            yield one
            count -= 1


FACTS = {
    "kind": ("", *SHAPE_KINDS),
    "colour": ("", *SHAPE_COLOURS),
    "quadrant": ("top left", "top right", "bottom left", "bottom right"),
    "relation": ("left", "right", "above", "below"),
    "larger": ("smaller", "larger"),
    "alike": tuple("0123456789"),
    "odd": ("", "once"),
    "place": ("", *PLACES),
}
"""The words for what the heads tell; letters are their own words."""


def facts(
    model: LlavaForConditionalGeneration, words: PreTrainedTokenizerFast, strength: float = 4.0
) -> list[Tensor]:
    """For each head a table (classes, width): the embeddings of the words that name the class, summed."""
    table = model.get_input_embeddings().weight.detach()

    def named(text: str) -> Tensor:
        ids = words(text, add_special_tokens=False)["input_ids"] if text.strip() else []
        return strength * table[ids].sum(0)

    letters = ["", *string.ascii_uppercase]
    return [
        *(torch.stack([named(f" {word}") for word in group]) for group in FACTS.values()),
        torch.stack([named(letter) for letter in letters]),
        torch.stack([named(str(place + 1)) for place in range(HEADS["letter place"])]),
    ]


def train_projector(
    model: LlavaForConditionalGeneration,
    words: PreTrainedTokenizerFast,
    pool: Pool,
    plan: Plan,
    rng: random.Random,
) -> None:
    """Fit the projector alone: a patch becomes the sum of the words for what it shows.

    So the decoder, which can already look up and copy words, starts with an image it can nearly read.
    """
    meter = Meter("projector", 100)
    labels = torch.from_numpy(pool.nearest).long()
    tables = facts(model, words)
    column = {name: number for number, name in enumerate(HEADS)}
    tower, projector = model.model.vision_tower, model.model.multi_modal_projector

    def loss(passed: float) -> Tensor:
        rows = rng.sample(range(len(pool.sources)), plan.share)
        gold = labels[rows].clone()
        # Beside another shape "left" means left of it; corners are not asked there.
        gold[..., column["quadrant"]][gold[..., column["relation"]] >= 0] = -1
        wanted = sum(
            table[own.clamp(min=0)] * (own >= 0)[..., None]
            for table, own in zip(tables, gold.unbind(-1), strict=True)
        )
        with torch.no_grad():
            features = tower(
                pixel_values=pixels_of(pool, rows), output_hidden_states=True
            ).hidden_states[-1][:, 1:]
        off = (projector(features) - wanted).square().mean(-1)
        shown = (gold[..., [column["kind"], column["letter"]]] > 0).any(-1)
        meter.add("unexplained", (off[shown].mean() / wanted[shown].square().mean()).item())
        return off.mean() + off[shown].mean()

    descend(plan, [*projector.parameters()], loss, meter)


def by_length(rows: Sequence[Any], groups: int) -> list[list[Any]]:
    """Rows in groups of like length, so that little is padding."""
    ordered = sorted(rows, key=lambda row: len(row[0]))
    size = -(-len(ordered) // groups)
    return [ordered[i : i + size] for i in range(0, len(ordered), size)]


def train_jointly(
    model: LlavaForConditionalGeneration,
    words: PreTrainedTokenizerFast,
    pool: Pool,
    plan: Plan,
    rng: random.Random,
    heads: nn.Linear,
    mix: Mix,
    turns: int = 8,
) -> None:
    """Teach both on `turns` conversations for each picture of a batch.

    The image is read once: its keys and values serve all conversations about it. Questions that tell
    their answer keep the binding of marks alive while the decoder learns to read the image.
    """
    meter = Meter("joint", 100)
    labels = torch.from_numpy(pool.nearest).long()

    def loss(passed: float) -> Tensor:
        rows = rng.sample(range(len(pool.sources)), plan.share)
        talks = [talk(pool.sources[row], rng, mix) for row in rows for _ in range(turns)]
        numbered = [(*tokens, i // turns) for i, tokens in enumerate(tokens_of(talks, words))]
        features, cache = read_images(model, words, pixels_of(pool, rows))
        total = torch.zeros(())
        for group in by_length(numbered, 3):
            hidden = continue_from(model, cache, group, words)
            total = total + reply_loss(model.lm_head, hidden, group, meter)
        return total / len(talks) + 0.05 * heads_loss(heads(features), labels[rows])

    skipped = ("post_layernorm",)
    parameters = [
        p for name, p in model.named_parameters() if not any(word in name for word in skipped)
    ]
    descend(plan, [*parameters, *heads.parameters()], loss, meter)


def read_images(
    model: LlavaForConditionalGeneration, words: PreTrainedTokenizerFast, pixels: Tensor
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Features of the tower, and the decoder's keys and values of `<|user|>` and the image, layer by layer."""
    inner = model.model
    features = inner.vision_tower(pixel_values=pixels, output_hidden_states=True).hidden_states[-1][
        :, 1:
    ]
    opening = torch.full((len(pixels), 1), words.convert_tokens_to_ids("<|user|>"))
    embedded = torch.cat(
        [inner.get_input_embeddings()(opening), inner.multi_modal_projector(features)], dim=1
    )
    cache = inner.language_model(inputs_embeds=embedded, use_cache=True).past_key_values
    return features, [(layer.keys, layer.values) for layer in cache.layers]


def continue_from(
    model: LlavaForConditionalGeneration,
    cache: list[tuple[Tensor, Tensor]],
    group: Sequence[Any],
    words: PreTrainedTokenizerFast,
) -> Tensor:
    """Hidden states of conversations that each go on from the image they name; padding stands on the right."""
    pictures = torch.tensor([row[3] for row in group])
    past = DynamicCache()
    for number, (keys, values) in enumerate(cache):
        past.update(keys.index_select(0, pictures), values.index_select(0, pictures), number)
    ids = padded([row[0] for row in group], words.pad_token_id)
    places = torch.arange(PREFIX, PREFIX + ids.shape[1])[None]
    return model.model.language_model(
        input_ids=ids, position_ids=places, past_key_values=past
    ).last_hidden_state
