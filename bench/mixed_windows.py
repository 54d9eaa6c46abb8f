"""Prints, architecture by architecture, how far answers in mixed windows are from transformers alone.

    python bench/mixed_windows.py [--shapes extreme] [model_type ...]
    python bench/mixed_windows.py --corpus [--shapes thin]
    python bench/mixed_windows.py --templates FOLDER

Each image-text architecture that transformers registers, small and with random weights, is asked through `hf:` itself:
one window of options and one of replies, each with requests of 0 to 3 images of different shapes, two turns, a system
turn and opened replies. The witness is a second copy of model and processor: the processor reads the text of the prompt
and the images, and the model runs one row, an option at a time. It shares the text of the prompt with Snellen, and no
code after that. With `--shapes extreme` the images are one pixel high, one pixel wide, a single pixel and very large;
with `--shapes thin`, as narrow as the processors of most families take. Options are compared in nats, summed over their tokens; replies of six tokens by their text.

With `--corpus`, models of tests/model_corpus.toml are asked by templates that are written from these facts, with tiny weights of
their architecture. With `--templates`, models of tests/model_corpus.toml are asked whose own chat template is in the folder, as NAME.jinja or
in the `chat_template` of NAME.json, and the prompt about an image is compared with that of the model's documentation.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from PIL import Image

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from model_corpus import CORPUS, template_of  # noqa: E402
from snellen.common.decoding import inspect_image  # noqa: E402
from snellen.models.hf.conversation import ChatPrompt, Conversation  # noqa: E402
from snellen.models.hf.load import HfOptions, LoadedModel, without_warnings  # noqa: E402
from snellen.models.hf.model import HFModel  # noqa: E402
from snellen.models.hf.model_layout import input_names  # noqa: E402
from snellen.models.hf.probe import REFUSALS  # noqa: E402
from snellen.records import (  # noqa: E402
    Decoding,
    ImagePart,
    ImageRef,
    Message,
    Part,
    Request,
    Response,
    TextPart,
    Variant,
)
from tiny_registered import REGISTERED, CannotBuildError, make_registered  # noqa: E402

OPTIONS = ("no", "a green triangle", "two blue squares and a dog")
SHAPES = {
    "ordinary": ((90, 60), (60, 80), (40, 120)),
    "extreme": ((2000, 1), (1, 2000), (1, 1), (4000, 3000)),
    "thin": ((300, 2), (2, 300), (3, 3), (1500, 1000)),
}
"""Widths and heights of the images, in pixels."""
REPLY_TOKENS = 6
T = TypeVar("T")
WITHIN = 1e-4
"""Nats by which a sum may differ."""


class Drawn(dict[str, bytes]):
    """Images of noise, by digest."""

    def add(self, seed: int, size: tuple[int, int]) -> ImageRef:
        generator = torch.Generator().manual_seed(seed)
        pixels = torch.randint(0, 256, (size[1], size[0], 3), generator=generator)
        buffer = io.BytesIO()
        Image.fromarray(pixels.to(torch.uint8).numpy()).save(buffer, "PNG")
        image = inspect_image(buffer.getvalue(), "drawn")
        self[image.digest] = buffer.getvalue()
        return image

    def read(self, image: ImageRef) -> bytes:
        return self[image.digest]


def conversations(images: Sequence[ImageRef]) -> dict[str, tuple[Message, ...]]:
    """Return the conversations of a window, by what they are. A fourth image is shown by itself."""

    def user(text: str, *shown: ImageRef) -> Message:
        parts: list[Part] = [ImagePart(image) for image in shown]
        return Message("user", (*parts, TextPart(text)))

    def assistant(text: str) -> Message:
        return Message("assistant", (TextPart(text),))

    first, second, third, *more = images
    system = Message("system", (TextPart("Be short."),))
    talks = {
        "no image": (user("Name an animal."),),
        "one image": (user("Is there a circle?", first),),
        "the same image": (user("Which colour has the larger of the two squares?", first),),
        "another image": (user("Is there a circle?", second),),
        "two images": (user("Are they alike?", first, second),),
        "three images": (user("Which is the odd one?", first, second, third),),
        "two turns": (user("What is it?", first), assistant("a dog"), user("Which colour?")),
        "an image each turn": (
            user("What is it?", first),
            assistant("a dog"),
            user("And this?", third),
        ),
        "a system turn": (system, user("Is there a circle?", third)),
        "an opened reply": (user("Is there a circle?", first), assistant("The answer is")),
        "an opened reply, no image": (user("Name an animal."), assistant("It is")),
    }
    for image in more:
        talks[f"an image of {image.width} x {image.height}"] = (user("What is it?", image),)
    return talks


class Witness:
    """A model and a processor of transformers, asked one row at a time."""

    def __init__(self, model: Any, processor: Any) -> None:
        self._model, self._processor = model, processor
        self._model_type = model.config.model_type
        self._names = input_names(model)
        self._tokenizer = getattr(processor, "tokenizer", processor)
        self._has_encoder = bool(getattr(model.config, "is_encoder_decoder", False))

    def _inputs(self, text: str, images: Sequence[Any]) -> dict[str, Any]:
        for name in self._names or ():
            # What a processor makes on demand alone, such as the kinds of tokens (Cosmos 3).
            if getattr(self._processor, f"return_{name}", None) is False:
                setattr(self._processor, f"return_{name}", True)
        opening = getattr(self._tokenizer, "bos_token", None)
        settings: dict[str, Any] = {}
        if opening and text.startswith(opening):
            settings["add_special_tokens"] = False
        given: Any = text if images else [text]
        shown = [image.copy() for image in images] or None
        inputs = dict(self._processor(images=shown, text=given, return_tensors="pt", **settings))
        inputs.pop("labels", None)
        return {
            name: value
            for name, value in inputs.items()
            if self._names is None or name in self._names
        }

    def _context(self, before: str, images: Sequence[Any]) -> tuple[dict[str, Any], int]:
        """Return the inputs for a prompt, and how many tokens at its end stand at the end of every text.

        What a tokenizer puts at the end of any text ("</s>") is left out. What a processor puts there by itself, such as
        PaliGemma's line break and Chameleon's token, stays, since replies follow it.
        """
        inputs = self._inputs(before, images)
        ids = inputs["input_ids"][0].tolist()
        longer = self._inputs(f"{before} one", images)["input_ids"][0].tolist()
        closing = 0
        while closing < len(ids) and ids[-1 - closing] == longer[-1 - closing]:
            closing += 1
        spelled = self._tokenizer(before)["input_ids"]
        if closing and spelled[-closing:] == ids[-closing:]:
            for name, value in list(inputs.items()):
                if self._is_per_token(name, value, len(ids)):
                    inputs[name] = value[:, :-closing]
            return inputs, 0
        return inputs, closing

    def _is_per_token(self, name: str, value: Any, length: int) -> bool:
        if name.startswith("qformer"):
            return False
        return getattr(value, "ndim", 0) >= 2 and tuple(value.shape[:2]) == (1, length)

    def _extended(self, inputs: dict[str, Any], tokens: Sequence[int]) -> dict[str, Any]:
        """Return the inputs for a prompt and a reply of these tokens."""
        length = inputs["input_ids"].shape[1]
        extended = dict(inputs)
        for name, value in inputs.items():
            if not self._is_per_token(name, value, length) or not tokens:
                continue
            added = value[:, -1:].repeat(1, len(tokens), *[1] * (value.ndim - 2))
            if name == "input_ids":
                added = torch.tensor([list(tokens)])
            elif value.ndim == 2 and name != "attention_mask":
                # PaliGemma reads what is labelled 0 in both directions, and a reply is not among that.
                label = int(name == "token_type_ids" and self._model_type == "paligemma")
                added = torch.full_like(added, label)
            extended[name] = torch.cat([value, added], dim=1)
        return extended

    @torch.no_grad()
    def score(self, before: str, after: str, images: Sequence[Any]) -> float:
        """Log-probability, in nats, of the text `after` in the tokens that it has behind `before`."""
        if self._has_encoder:
            # Its decoder begins with the reply, so no separator from the prompt stands before it.
            return self._score_decoded(before, after.lstrip(), images)
        inputs, marks = self._context(before, images)
        context = inputs["input_ids"][0].tolist()
        spelled = context[: len(context) - marks]
        whole_inputs, _ = self._context(before + after, images)
        whole = whole_inputs["input_ids"][0].tolist()
        whole = whole[: len(whole) - marks]
        if whole[: len(spelled)] != spelled:
            raise ValueError("the prompt has other tokens before an option")
        tail = whole[len(spelled) :]
        logits = self._model(**self._extended(inputs, tail), use_cache=False).logits[0]
        values = logits[-len(tail) - 1 : -1].double().log_softmax(-1)
        return sum(float(value[token]) for value, token in zip(values, tail, strict=True))

    def _score_decoded(self, before: str, after: str, images: Sequence[Any]) -> float:
        """Return the score of a text by the decoder of an encoder-decoder, whose encoder reads `before`.

        The model is given the tokens as labels, as in training, and shifts them by itself.
        """
        spelled = self._tokenizer(after, return_special_tokens_mask=True)
        labels = list(spelled["input_ids"])
        for is_special in reversed(spelled["special_tokens_mask"]):
            if not is_special:
                break
            labels.pop()
        values = self._decoded(self._inputs(before, images), labels).double().log_softmax(-1)
        return sum(float(value[token]) for value, token in zip(values, labels, strict=True))

    def _decoded(self, inputs: dict[str, Any], labels: Sequence[int]) -> Any:
        """Return the logits [tokens, vocabulary] that predict each of the labels of a decoder."""
        output = self._model(**inputs, labels=torch.tensor([list(labels)]), use_cache=False)
        return output.logits[0]

    def _next_token(self, inputs: dict[str, Any], reply: Sequence[int]) -> int:
        """Return the likeliest token after a reply."""
        if self._has_encoder:
            # The last label is predicted and not read: any token will do.
            return int(self._decoded(inputs, [*reply, 0])[-1].argmax())
        extended = self._extended(inputs, reply)
        return int(self._model(**extended, use_cache=False).logits[0, -1].argmax())

    @torch.no_grad()
    def reply(self, before: str, images: Sequence[Any]) -> str:
        """The greedy reply, written by a forward pass over everything for each token."""
        if self._has_encoder:
            inputs = self._inputs(before, images)
        else:
            inputs, _ = self._context(before, images)
        reply: list[int] = []
        for _ in range(REPLY_TOKENS):
            token = self._next_token(inputs, reply)
            reply.append(token)
            if token in self._ends:
                break
        text: str = self._tokenizer.decode(
            reply, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text.strip()

    @property
    def _ends(self) -> set[int]:
        """The tokens that end a reply."""
        ends = self._model.generation_config.eos_token_id
        if ends is None:
            ends = self._tokenizer.eos_token_id
        if ends is None:
            return set()
        return set(ends) if isinstance(ends, (list, tuple)) else {ends}


@dataclass
class Findings:
    """How the answers of one architecture compare."""

    strategy: str
    compared: int = 0
    """Requests with options that both have scored."""
    largest: float = 0.0
    """The largest difference of an option's sum, in nats."""
    replies: int = 0
    equal_replies: int = 0
    refused: int = 0
    """Requests that Snellen refuses with a reason, such as a second image for a model of one."""
    no_witness: int = 0
    """Requests for which the witness fails."""
    notes: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        return self.compared > 0 and self.largest <= WITHIN and self.replies == self.equal_replies

    def line(self, name: str) -> str:
        largest = f"{self.largest:.0e}" if self.largest <= WITHIN else f"**{self.largest:.2g}**"
        replies = f"{self.equal_replies} of {self.replies}"
        if self.equal_replies < self.replies:
            replies = f"**{replies}**"
        cells = [name, self.strategy, str(self.compared), largest, replies]
        return " | ".join([*cells, str(self.refused), str(self.no_witness)])


def templates_in(folder: Path) -> dict[str, str]:
    """Return the chat templates in a folder, by the names of models in the corpus."""
    templates = {}
    for path in sorted(folder.iterdir()):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            text = json.loads(text)["chat_template"]
        if path.stem in CORPUS:
            templates[path.stem] = text
    return templates


def templates_of_corpus() -> dict[str, str]:
    """Return templates from the facts of the corpus, by the name of the model.

    Models whose architecture transformers does not have ("-style") are left out.
    """
    templates = {}
    for name, facts in CORPUS.items():
        if "user" in facts and not name.endswith("-style"):
            templates[name] = template_of(facts)
    return templates


def compare_prompt(name: str, conversation: Conversation, image: ImageRef) -> None:
    """Print how the prompt for "What is it?" about an image differs from that of the model's documentation."""
    question = Message("user", (ImagePart(image), TextPart("What is it?")))
    written = conversation.write((question,)).text
    expected = CORPUS[name]["prompt"]
    equal = "the documented prompt" if written == expected else f"{written!r}, not {expected!r}"
    print(f"    {name}: {equal}", file=sys.stderr)


def ask_mixed(name: str, shapes: str = "ordinary", template: str | None = None) -> Findings:
    """Ask one architecture two mixed windows, and compare with the witness.

    Args:
        name: A model type or, with a template, a model of the corpus.
        shapes: A key of SHAPES.
        template: The chat template; None for that of the tests.
    """
    if template is None:
        small = make_registered(name)
    else:
        small = make_registered(CORPUS[name]["model_type"], CORPUS[name].get("tokens", {}))
        small.processor.chat_template = template
    other = deepcopy(small)
    witness = Witness(other.model.eval(), other.processor)
    model = HFModel(name, LoadedModel(small.model.eval(), small.processor, {}), HfOptions())
    conversation = Conversation(other.processor, small.model.config.model_type)
    drawn = Drawn()
    images = [drawn.add(seed, size) for seed, size in enumerate(SHAPES[shapes])]
    if template is not None:
        compare_prompt(name, conversation, images[0])
    scored, written = [], []
    for label, messages in conversations(images).items():
        scored.append(
            Request(
                "mixed", label, Variant(), messages, kind="loglikelihood", continuations=OPTIONS
            )
        )
        decoding = Decoding(max_new_tokens=REPLY_TOKENS)
        written.append(Request("mixed", label, Variant(), messages, decoding=decoding))

    findings = Findings(model.fingerprint()["scoring"])
    for request, response in zip(scored, model.loglikelihood(scored, drawn), strict=True):
        if _is_refused(findings, request, response):
            continue
        prompt = conversation.write_scored(request.messages)
        images = _opened(prompt, drawn)

        def witnessed_scores(
            prompt: ChatPrompt = prompt, images: list[Any] = images
        ) -> list[float]:
            return [witness.score(prompt.text, prompt.joined(option), images) for option in OPTIONS]

        sums = _witnessed(findings, request, witnessed_scores)
        if sums is not None:
            _compare_scores(findings, request, response, sums)
    for request, response in zip(written, model.generate(written, drawn), strict=True):
        if _is_refused(findings, request, response):
            continue
        prompt = conversation.write(request.messages)
        images = _opened(prompt, drawn)

        def witnessed_reply(prompt: ChatPrompt = prompt, images: list[Any] = images) -> str:
            return witness.reply(prompt.text, images)

        reply = _witnessed(findings, request, witnessed_reply)
        if reply is not None:
            findings.replies += 1
            # A template that opens a thought leaves the whole of a short reply inside it.
            said = response.text or response.reasoning or ""
            findings.equal_replies += reply == said
            if reply != said:
                print(f"    {request.sample_id}: {reply!r} / {said!r}", file=sys.stderr)
    findings.notes = model.findings()
    return findings


def _opened(prompt: ChatPrompt, drawn: Drawn) -> list[Any]:
    return [Image.open(io.BytesIO(drawn.read(image))) for image in prompt.images]


def _is_refused(findings: Findings, request: Request, response: Response) -> bool:
    """Return whether Snellen refuses a request; if so, count and print it."""
    if response.error is None:
        return False
    findings.refused += 1
    print(f"    {request.sample_id}: refused: {response.error.detail:.150}", file=sys.stderr)
    return True


def _witnessed(findings: Findings, request: Request, ask: Callable[[], T]) -> T | None:
    """Return what the witness says of a request; None, counted, if the witness fails."""
    try:
        return ask()
    except REFUSALS as error:
        findings.no_witness += 1
        print(f"    {request.sample_id}: no witness: {error!r:.150}", file=sys.stderr)
        return None


def _compare_scores(
    findings: Findings, request: Request, response: Response, sums: Sequence[float]
) -> None:
    findings.compared += 1
    for value, score in zip(sums, response.scores, strict=True):
        difference = abs(value - score.sum)
        findings.largest = max(findings.largest, difference)
        if difference > WITHIN:
            print(f"    {request.sample_id}: {value} / {score.sum}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="model_type")
    parser.add_argument("--shapes", choices=SHAPES, default="ordinary")
    parser.add_argument("--corpus", action="store_true")
    parser.add_argument("--templates", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    templates = templates_in(given.templates) if given.templates else {}
    if given.corpus:
        templates = templates_of_corpus()
    names = given.names or list(templates) or REGISTERED
    torch.set_num_threads(1)
    logging.getLogger("snellen").setLevel(logging.ERROR)
    heads = "model_type | strategy | requests scored | largest difference | replies equal | refused | no witness"
    lines = [heads, " | ".join("---" for _ in heads.split(" | "))]
    right = asked = 0
    with without_warnings():
        for name in names:
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    findings = ask_mixed(name, given.shapes, templates.get(name))
            except CannotBuildError:
                continue
            except (
                ImportError,
                MemoryError,
                Exception,
            ) as error:  # a table of all that can be asked
                print(f"{name}: not asked: {error!r:.160}", file=sys.stderr, flush=True)
                continue
            asked += 1
            right += findings.is_right
            lines.append(findings.line(name))
            print(lines[-1], file=sys.stderr, flush=True)
    print(f"{right} of {asked}: sums within {WITHIN} nats and replies equal.\n")
    print("\n".join(f"| {line} |" for line in lines))


if __name__ == "__main__":
    main()
