"""Requests at the edge of what a local model can be asked: each is answered as meant, or fails alone."""

from __future__ import annotations

import dataclasses
import io
import os
import pickle
import re
import shutil
import threading
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import torch
from safetensors.torch import load_file

import tiny_archs
from snellen.common.decoding import FIRST_FRAME, inspect_image
from snellen.errors import ModelError
from snellen.models.base import Model
from snellen.models.hf import encode
from snellen.models.hf.conversation import THOUGHTLESS
from snellen.models.hf.decoding import token_picker
from snellen.models.hf.load import HfOptions, LoadedModel, load_pretrained, unless_out_of_memory
from snellen.models.hf.lookahead import Lookahead
from snellen.models.hf.model import open_hf
from snellen.models.hf.spot_checks import SpotChecks
from snellen.models.loading import load_model
from snellen.models.model_strings import ModelSpec, parse_spec
from snellen.records import Decoding, ImageRef, Message, TextPart
from tiny_archs import CHAT, Pictures, ask

PICTURES = Pictures()
RED = PICTURES.add("red")
TRIMS = CHAT.replace("{{ c['text'] }}", "{{ c['text'] | trim }}")
THINKS = CHAT.replace("{{ '<|assistant|>' }}", "{{ '<|assistant|><think>\\n' }}")
THINKS_AND_TRIMS = THINKS.replace("{{ c['text'] }}", "{{ c['text'] | trim }}")
# The user's turn takes parts; the assistant's is printed, or added to a string as in vLLM's template of Pixtral.
PRINTS = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' }}{% if m['role'] == 'user' %}"
    "{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>{% else %}{{ c['text'] }}{% endif %}{% endfor %}"
    "{% else %}{{ m['content'] }}{% endif %}{{ '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
ADDS = PRINTS.replace("{{ m['content'] }}", "{{ m['content'] + eos_token }}").replace(
    "{{ '<|end|>' }}{% endfor %}", "{% endfor %}"
)
HEADS = CHAT.replace("{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}", "")
REFUSES = (
    "{% if messages[-1]['role'] == 'assistant' %}{{ raise_exception('no opened replies') }}{% endif %}"
    + CHAT
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_archs.save("LLaVA", tmp_path_factory.mktemp("llava"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return load_model(f"hf:{folder}")


def kept(picture: Image.Image, form: str = "PNG", **settings: Any) -> ImageRef:
    file = io.BytesIO()
    picture.save(file, form, **settings)
    image = inspect_image(file.getvalue(), "test")
    PICTURES[image.digest] = file.getvalue()
    return image


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """The model of an architecture by its name, opened once."""
    return cache(
        lambda name: load_model(f"hf:{tiny_archs.save(name, tmp_path_factory.mktemp('model'))}")
    )


SELF_CHECKS: dict[tuple[Any, ...], Any] = {}


def opened(folder: Path, options: str = "") -> Any:
    """A model of the very weights of `folder` above, whose self-check was made when the first was opened. What else is
    tried of each is tried of this one: that a prompt can be written and repeated, and the spot checks."""

    def load(spec: ModelSpec, options: HfOptions) -> LoadedModel:
        return dataclasses.replace(load_pretrained(spec, options), self_checks=SELF_CHECKS)

    return open_hf(parse_spec(f"hf:{folder}{options}"), load)


def with_template(folder: Path, to: Path, template: str) -> Any:
    shutil.copytree(folder, to)
    (to / "chat_template.jinja").write_text(template)
    return opened(to)


def sums(model: Model, *requests: Any) -> list[list[float]]:
    responses = model.loglikelihood(requests, PICTURES)
    assert [response.error for response in responses] == [None] * len(requests)
    return [[score.sum for score in response.scores] for response in responses]


def test_a_picture_of_sixteen_bits_is_seen_as_its_eight_bit_twin(model: Model) -> None:
    grey = np.arange(0, 240, 8, dtype=np.uint16).reshape(5, 6)
    deep, plain = kept(Image.fromarray(grey * 257)), kept(Image.fromarray(grey.astype(np.uint8)))
    asked = [ask("Which?", image, continuations=("red", "no")) for image in (deep, plain)]
    assert sums(model, *asked)[0] == pytest.approx(sums(model, *asked)[1], abs=1e-5)


@pytest.mark.parametrize("size", [(1, 1), (3, 1), (10_000, 10)])
def test_a_picture_of_any_shape_is_answered(model: Model, size: tuple[int, int]) -> None:
    [reply] = model.generate([ask("Which?", kept(Image.new("RGB", size, "red")))], PICTURES)
    assert reply.error is None


def test_a_response_notes_that_the_first_frame_was_shown(model: Model) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    moving = kept(frames[0], "GIF", save_all=True, append_images=frames[1:])
    [reply] = model.generate([ask("Which?", moving)], PICTURES)
    [scored] = model.loglikelihood([ask("Which?", moving, continuations=("red",))], PICTURES)
    assert reply.notes == scored.notes == (FIRST_FRAME,)


def test_a_template_that_trims_keeps_the_blank_before_the_reply(
    folder: Path, model: Any, tmp_path: Path
) -> None:
    trims = with_template(folder, tmp_path / "trims", TRIMS)
    asked = [
        ask("Which?", RED, reply=opening, continuations=("A", "red"))
        for opening in ("It is ", "It is", "It is (")
    ]
    assert trims._conversation.write(asked[0].messages).with_reply("A").endswith("It is A")
    for one, other in zip(sums(trims, *asked), sums(model, *asked), strict=True):
        assert one == pytest.approx(other, abs=1e-5)


def test_options_are_scored_after_a_thought_that_the_template_opens(
    folder: Path, tmp_path: Path
) -> None:
    thinks = with_template(folder, tmp_path / "thinks", THINKS)
    asked = ask("Which?", RED, continuations=("red",))
    assert thinks._conversation.write(asked.messages).text.endswith("<|assistant|><think>\n")
    prompt = thinks._conversation.write_scored(asked.messages)
    assert prompt.with_reply("red").endswith("<|assistant|>red")
    [scored] = thinks.loglikelihood([asked], PICTURES)
    assert scored.notes == (THOUGHTLESS,)
    begun = thinks._conversation.write_scored(ask("Which?", RED, reply="It is").messages)
    assert begun.with_reply("red").endswith("<|assistant|>It is red")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (CHAT, ""),
        (
            THINKS,
            "opens a thought before replies, which is empty or missing where options are scored",
        ),
        (TRIMS, "trims opened replies, to which their blank is given back"),
        (REFUSES, "refuses opened replies, so that requests with one fail"),
        (PRINTS, ""),
        (ADDS, ""),
        (
            PRINTS.replace("{{ m['content'] }}", ""),
            "writes replies otherwise .*, so that options cannot be scored",
        ),
        (THINKS_AND_TRIMS, "opens a thought .*; it trims opened replies"),
    ],
    ids=["plain", "thinks", "trims", "refuses", "prints", "adds", "drops", "both"],
)
def test_what_a_template_does_to_replies_is_said_once_when_it_is_loaded(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, template: str, words: str
) -> None:
    model = with_template(folder, tmp_path / "odd", template)
    model.loglikelihood([ask("Which?", RED, continuations=("red",)) for _ in range(2)], PICTURES)
    said = [
        record.getMessage()
        for record in caplog.records
        if "the chat template" in record.getMessage()
    ]
    assert len(said) == bool(words)
    assert all(re.search(words, line) and "\n" not in line for line in said)


def test_a_conversation_that_the_template_refuses_fails_alone(folder: Path, tmp_path: Path) -> None:
    model = with_template(folder, tmp_path / "refuses", REFUSES)
    good, bad = model.generate([ask("Which?", RED), ask("Which?", RED, reply="It is")], PICTURES)
    assert good.error is None
    assert (bad.error.kind, bad.error.detail) == (
        "bad_request",
        "the chat template rejects the conversation: no opened replies",
    )


def finished_scores(model: Any, words: str, picture: ImageRef, reply: str) -> list[float]:
    """Log-probabilities of the tokens of `reply` in the talk that the template writes, by the bare model."""
    processor, net = model._encoder._processor, model._layout.model
    content = [{"type": "image"}, {"type": "text", "text": words}]
    for spoken in ([{"type": "text", "text": reply}], reply):
        talk = [{"role": "user", "content": content}, {"role": "assistant", "content": spoken}]
        try:
            text = processor.apply_chat_template(talk)
        except TypeError:
            continue
        if "'type'" not in text:
            break
    shown = Image.open(io.BytesIO(PICTURES.read(picture))).convert("RGB")
    inputs = processor(images=[shown], text=text, return_tensors="pt")
    ids = inputs["input_ids"][0].tolist()
    own = model._encoder.tokenizer(reply, add_special_tokens=False)["input_ids"]
    start = next(i for i in range(len(ids), 0, -1) if ids[i : i + len(own)] == own)
    with torch.no_grad():
        values = net(**inputs).logits[0].double().log_softmax(-1)
    return [float(values[start + i - 1, token]) for i, token in enumerate(own)]


@pytest.mark.parametrize(
    "template", [CHAT, PRINTS, ADDS, HEADS], ids=["parts", "prints", "adds", "heads"]
)
def test_options_score_as_their_tokens_do_in_the_finished_talk(
    folder: Path, tmp_path: Path, template: str
) -> None:
    model = with_template(folder, tmp_path / "odd", template)
    options = ("red", "dark green square")
    [found] = sums(model, ask("Which?", RED, continuations=options))
    assert found == pytest.approx(
        [sum(finished_scores(model, "Which?", RED, option)) for option in options], abs=1e-4
    )


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ("{{ m['content'] | upper }}", "the chat template changes or drops replies"),
        ("{{ m['content'] | lower }}", ""),
        ("{{ m['content'][:3] }}", "the chat template changes or drops replies"),
        ("{{ m['content'] | e if 'x' not in m['content'] else m['content'] }}", ""),
        ("{{ m['content'][:9] }}", ""),
        ("", "the chat template changes or drops replies"),
        ("{{ raise_exception('no replies') }}", "rejects the conversation: no replies"),
        ("{{ '<think></think>' + m['content'] }}", ""),
        ("{% if loop.length > 2 %}{{ 'And: ' }}{% endif %}{{ m['content'] }}", ""),
    ],
)
def test_a_reply_that_the_template_does_not_write_as_it_is_is_refused_in_one_line(
    folder: Path, tmp_path: Path, change: str, refused: str
) -> None:
    model = with_template(folder, tmp_path / "odd", PRINTS.replace("{{ m['content'] }}", change))
    [response] = model.loglikelihood([ask("Which?", RED, continuations=("green",))], PICTURES)
    if not refused:
        assert response.error is None
        [other] = model.loglikelihood([ask("Which?", RED, continuations=("Green",))], PICTURES)
        assert (other.error is not None) == ("lower" in change)
        changed = [
            ask("Which?", RED, continuations=("no", text))
            for text in ("Green & blue", "dark green square")
        ]
        if "| e" in change or ":9" in change:
            bad = model.loglikelihood(changed[":9" in change :], PICTURES)[0]
            assert (
                "cannot be scored: in a complete conversation, the chat template changes the reply"
                in bad.error.detail
            )
        return
    assert response.error.kind == "bad_request"
    assert refused in response.error.detail
    assert "\n" not in response.error.detail
    [reply] = model.generate([ask("Which?", RED)], PICTURES)
    assert reply.error is None


def test_what_stands_before_a_reply_is_proved_for_each_shape_of_a_talk(
    folder: Path, tmp_path: Path
) -> None:
    later = PRINTS.replace(
        "{{ m['content'] }}", "{% if loop.length > 2 %}{{ 'And: ' }}{% endif %}{{ m['content'] }}"
    )
    model = with_template(folder, tmp_path / "odd", later)
    first = ask("Which?", RED, continuations=("green",))
    history = (
        *first.messages,
        Message("assistant", (TextPart("red"),)),
        Message("user", (TextPart("Sure?"),)),
    )
    scored = [
        model._conversation.write_scored(messages).with_reply("green")
        for messages in (first.messages, history)
    ]
    assert [text.endswith("<|assistant|>And: green") for text in scored] == [False, True]
    titled = PRINTS.replace(
        "{% for m",
        "{% if messages|length > 3 %}{{ messages[-1]['content'] }}{% endif %}{% for m",
        1,
    )
    model = with_template(folder, tmp_path / "titled", titled)
    short, long = model.loglikelihood([first, replace(first, messages=history)], PICTURES)
    assert short.error is None
    assert "or the text before it" in long.error.detail


def test_a_closing_that_makes_one_token_with_a_reply_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    glued = with_template(
        folder,
        tmp_path / "odd",
        PRINTS.replace("{{ '<|end|>' }}", "{{ '<|end|>' if m['role'] == 'user' else 'en.' }}"),
    )
    good, bad = glued.loglikelihood(
        [ask("Which?", RED, continuations=(o,)) for o in ("no (", "dark gre")], PICTURES
    )
    assert good.error is None
    assert "form a single token" in bad.error.detail


def test_a_question_that_the_template_leaves_out_is_refused(folder: Path, tmp_path: Path) -> None:
    first_part = CHAT.replace("{% for c in m['content'] %}", "{% for c in m['content'][:2] %}")
    model = with_template(folder, tmp_path / "odd", first_part)
    [cut] = model.generate([ask("Which?", RED, RED)], PICTURES)
    assert cut.error.detail == "the chat template drops or changes the user message 'Which?'"


@pytest.mark.parametrize("option", ["<image>", "<|end|>", "<eos>"])
def test_an_option_that_spells_a_control_token_is_text(model: Any, option: str) -> None:
    conversation, encoder = model._conversation, model._encoder
    asked = ask("Which?", RED, continuations=(option, "red"))
    continued = model._continued(asked, PICTURES)
    control = encoder.tokenizer.convert_tokens_to_ids(option)
    assert control not in continued.tails[0]
    assert (
        encoder.tokens.decode(continued.tails[0])
        == conversation.as_text(option)
        == f"< {option[1:]}"
    )
    assert len(sums(model, asked)[0]) == 2


@pytest.mark.parametrize("exact", ["", "?scoring=exact"])
def test_a_reply_ends_at_the_tokenizers_end_token_where_no_other_is_named(
    folder: Path, tmp_path: Path, exact: str
) -> None:
    endless, asked = tmp_path / "endless", ask("Which?", RED)
    shutil.copytree(folder, endless)
    for file in (endless / "config.json", endless / "generation_config.json"):
        file.write_text(re.sub(r'"eos_token_id": \d+', '"eos_token_id": null', file.read_text()))
    model = opened(endless, exact)
    pick = token_picker(model._layout, model._prompter.tokens, [asked])
    [[first]] = model._engine.generate([model._encoded(asked, PICTURES)], pick, 1)
    tokenizer = model._encoder.tokenizer
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(first)
    tokenizer.save_pretrained(endless)
    [reply] = opened(endless, exact).generate([asked], PICTURES)
    assert (reply.text, reply.finish, reply.usage.completion_tokens) == ("", "stop", 1)


@pytest.mark.parametrize("name", ["LLaVA", "Florence-2"])
def test_a_request_without_continuations_fails_alone(
    name: str, model_of: Callable[[str], Any]
) -> None:
    model = model_of(name)
    good = ask("Which?", RED, continuations=("red", "no"))
    first, bad, last = model.loglikelihood([good, replace(good, continuations=()), good], PICTURES)
    assert first.error is last.error is None
    assert (bad.error.kind, bad.error.detail) == (
        "bad_request",
        "the request has no continuations; there is nothing to score",
    )


@pytest.mark.parametrize("name", ["LLaVA", "Florence-2", "BLIP-2 OPT"])
def test_a_prompt_that_is_too_long_fails_alone(name: str, model_of: Callable[[str], Any]) -> None:
    model = model_of(name)
    long = "word " * 2000
    for ways in ({}, {"continuations": ("red",)}):
        run = model.loglikelihood if ways else model.generate
        good, bad = run([ask("Which?", RED, **ways), ask(long, RED, **ways)], PICTURES)
        assert good.error is None
        assert bad.error.kind == "bad_request"
        assert "tokens and the reply up to" in bad.error.detail


def test_broken_pictures_fail_alone(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PICTURES[RED.digest]
    for i, content in enumerate((b"", b"no image", whole[:60], whole[:40] + b"\0" * 60)):
        PICTURES[f"{i}" * 64] = content
    huge = kept(Image.new("1", (3000, 10)))
    monkeypatch.setenv("SNELLEN_MAX_PIXELS", "20000")
    refs = [ImageRef(f"{i}" * 64, "image/png", 4, 4) for i in range(4)]
    asked = [ask("Which?", image) for image in (RED, *refs, huge, RED)]
    first, *bad, last = model.generate(asked, PICTURES)
    assert first.error is last.error is None
    assert {reply.error.kind for reply in bad} == {"bad_request"}
    assert all(reply.error.detail.startswith("image ") for reply in bad)


@pytest.mark.parametrize("kind", ["generate", "loglikelihood"])
def test_a_request_that_does_not_fit_in_memory_fails_alone(folder: Path, kind: str) -> None:
    model = opened(folder)
    first_block, limit = model._layout.model.model.language_model.layers[0], 60

    def short(module: Any, given: Any, named: dict[str, Any]) -> None:
        if (given[0] if given else named["hidden_states"]).shape[1] > limit:
            raise torch.OutOfMemoryError("out of memory")

    ways: dict[str, Any] = (
        {"continuations": ("red", "no")} if kind == "loglikelihood" else {"decoding": Decoding(2)}
    )
    asked = [ask(text, RED, **ways) for text in ("Which?", "Which is it " * 12, "Sure?")]
    with first_block.register_forward_pre_hook(short, with_kwargs=True):
        first, bad, last = getattr(model, kind)(asked, PICTURES)
    assert first.error is last.error is None
    assert bad.error.kind == "model"
    assert bad.error.detail.startswith("a single question does not fit into memory")


@pytest.mark.parametrize("exact", ["", "&scoring=exact"])
@pytest.mark.parametrize("kind", ["generate", "loglikelihood"])
def test_a_request_that_does_not_fit_leaves_the_batches_of_the_others_as_large_as_they_were(
    folder: Path, kind: str, exact: str
) -> None:
    model = opened(folder, f"?batch_size=8{exact}")
    engine, first_block = model._engine, model._layout.model.model.language_model.layers[0]
    budget, room = engine.budget, engine.prefix_cache.room

    def short(module: Any, given: Any, named: dict[str, Any]) -> None:
        if (given[0] if given else named["hidden_states"]).shape[1] > 60:
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"
            )

    ways: dict[str, Any] = (
        {"continuations": ("red", "no")} if kind == "loglikelihood" else {"decoding": Decoding(2)}
    )
    asked = [
        ask(text, RED, **ways) for text in ("Which?", "Which is it " * 12, "Sure?", "And now?")
    ]
    with first_block.register_forward_pre_hook(short, with_kwargs=True):
        for _ in range(3):
            replies = getattr(model, kind)(asked, PICTURES)
            assert [reply.error is None for reply in replies] == [True, False, True, True]
            assert (engine.budget, engine.prefix_cache.room) == (budget, room)


def test_a_pass_that_ran_out_of_memory_holds_no_tensor_when_the_next_begins() -> None:
    made = []

    def fails() -> None:
        tensor = torch.ones(3)
        made.append(weakref.ref(tensor))
        raise torch.OutOfMemoryError("out of memory")

    assert unless_out_of_memory(fails) is None
    assert made[0]() is None


class Hostile:
    def __init__(self, to: Path) -> None:
        self._to = to

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._to),)


def _pickled(folder: Path, to: Path, write: Callable[[Path, dict[str, Any]], object]) -> Path:
    """The folder with its weights in a pickle."""
    shutil.copytree(folder, to)
    tensors = load_file(to / "model.safetensors")
    (to / "model.safetensors").unlink()
    write(to / "pytorch_model.bin", tensors)
    return to


def test_weights_in_a_pickle_are_read_when_asked_for(
    folder: Path, model: Model, tmp_path: Path
) -> None:
    place = _pickled(folder, tmp_path / "pickled", lambda path, tensors: torch.save(tensors, path))
    with pytest.raises(ModelError, match=r"only pickled weights \(.bin\).*\?pickle=true"):
        load_model(f"hf:{place}")
    asked = ask("Which?", RED, continuations=("red", "no"))
    [pickled] = sums(load_model(f"hf:{place}?pickle=true"), asked)
    assert pickled == pytest.approx(sums(model, asked)[0], abs=1e-5)


def test_a_hostile_or_broken_pickle_is_one_line_and_runs_nothing(
    folder: Path, tmp_path: Path
) -> None:
    harm = tmp_path / "harm"
    kinds: dict[str, Callable[[Path, dict[str, Any]], object]] = {
        "would call": lambda path, tensors: torch.save({**tensors, "more": Hostile(harm)}, path),
        "cannot be read": lambda path, tensors: path.write_bytes(pickle.dumps(Hostile(harm))),
        "EOFError": lambda path, tensors: path.write_bytes(b""),
        "broken or of another": lambda path, tensors: path.write_bytes(b"hello world" * 100),
    }
    for i, (words, write) in enumerate(kinds.items()):
        place = _pickled(folder, tmp_path / str(i), write)
        with pytest.raises(ModelError, match=words) as caught:
            load_model(f"hf:{place}?pickle=true")
        assert "\n" not in str(caught.value)
    assert not harm.exists()


def test_safetensors_that_are_cut_short_are_one_line(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(ModelError, match=r"weights of .* are broken") as caught:
        load_model(f"hf:{tmp_path / 'cut'}")
    assert "\n" not in str(caught.value)


def test_pictures_that_are_expected_are_made_ready_by_another_thread_and_answered_alike(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, decode = [], encode.decode_image

    def noted(content: bytes, where: str) -> Any:
        threads.append(threading.current_thread().name)
        return decode(content, where)

    shown = [kept(Image.new("RGB", (50 + 9 * i, 40), (40 * i, 9, 200))) for i in range(4)]
    asked = [ask("Which?", image, continuations=("red", "no")) for image in shown]
    expected = sums(opened(folder), *asked)
    model = opened(folder)
    monkeypatch.setattr(encode, "decode_image", noted)
    model._encoder.expect(shown, PICTURES)
    for future in model._encoder._lookahead._expected.values():
        future.result()
    processor = model._encoder._pixels._processor
    monkeypatch.setattr(
        type(processor), "__call__", lambda *_, **__: pytest.fail("pixels were computed again")
    )
    # Spot checks compute them again.
    monkeypatch.setattr(SpotChecks, "reason_to_check", lambda *args: None)
    assert sums(model, *asked) == expected
    assert set(threads) == {"snellen-images"}
    assert len(threads) == len(shown)


def test_a_picture_that_fails_in_the_background_fails_its_own_request(model: Any) -> None:
    broken = ImageRef("9" * 64, "image/png", 4, 4)
    PICTURES[broken.digest] = b"no image"
    model._encoder.expect([broken, RED], PICTURES)
    bad, good = model.generate([ask("Which?", broken), ask("Which?", RED)], PICTURES)
    assert good.error is None
    assert bad.error.detail.startswith("image 999999999999: not a readable image")


def test_no_more_pictures_are_expected_than_are_kept() -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(image: ImageRef, images: Any) -> str:
        begun.set()
        go.wait()
        return image.digest

    lookahead = Lookahead(slow, 2)
    refs = [ImageRef(f"{i}" * 64, "image/png", 4, 4) for i in range(4)]
    for ref in refs:
        lookahead.expect(ref, PICTURES)
        begun.wait()
    assert lookahead.take(refs[3]) is None  # not begun: the caller is not kept waiting
    go.set()
    assert lookahead.take(refs[0]) is None  # given up
    assert lookahead.take(refs[1]) is None
    assert lookahead.take(refs[2]) in (None, refs[2].digest)


def test_several_pictures_are_made_ready_at_once_and_each_once() -> None:
    together, made = threading.Barrier(3), []

    def slow(image: ImageRef, images: Any) -> str:
        together.wait(30)  # broken unless three work at the same time
        made.append(image.digest)
        return image.digest

    lookahead = Lookahead(slow, 6, 3)
    refs = [ImageRef(f"{i}" * 64, "image/png", 4, 4) for i in range(6)]
    for ref in refs:
        lookahead.expect(ref, PICTURES)
    for coming in list(lookahead._expected.values()):
        coming.result()
    assert [lookahead.take(ref) for ref in refs] == [ref.digest for ref in refs]
    assert sorted(made) == sorted(ref.digest for ref in refs)


def test_a_batch_has_room_for_the_tokens_and_pictures_of_its_rows(folder: Path) -> None:
    usual, wide = opened(folder), opened(folder, "?batch_size=96&scoring=exact")
    assert (usual._engine.budget.rows, usual._engine.budget.tokens) == (16, 4096)
    assert wide._engine.budget.tokens == 6 * 4096
    assert wide._encoder._lookahead._most == 2 * 96  # those of a window and of the next


def test_a_system_prompt_and_room_to_reason_are_options_of_the_model_string(tmp_path: Path) -> None:
    folder = tiny_archs.save("LLaVA", tmp_path)
    pictures = Pictures()
    request = ask("Which?", pictures.add("red"))
    plain, told = (
        load_model(f"hf:{folder}"),
        load_model(f"hf:{folder}?system=Be+brief.&reasoning_tokens=5"),
    )
    [short], [longer] = plain.generate([request], pictures), told.generate([request], pictures)  # type: ignore
    assert longer.usage.prompt_tokens > short.usage.prompt_tokens
    assert longer.usage.completion_tokens == request.decoding.max_new_tokens + 5
    assert plain.fingerprint() != told.fingerprint()


def at_random(monkeypatch: pytest.MonkeyPatch, folder: Path, change: Callable[[Any], Any]) -> None:
    """Pixels of the folder's image processor are changed after they were computed."""
    kind = type(opened(folder)._encoder._pixels._processor)
    made = kind.__call__

    def changed(self: Any, images: Any, *args: Any, **settings: Any) -> Any:
        features = made(self, images, *args, **settings)
        features["pixel_values"] = change(features["pixel_values"])
        return features

    monkeypatch.setattr(kind, "__call__", changed)


@pytest.mark.parametrize(
    "change",
    [
        lambda pixels: pixels + 0.1 * torch.randn_like(pixels),
        lambda pixels: pixels.flip(-1) if torch.rand(()) < 0.5 else pixels,
    ],
    ids=["noise", "flip"],
)
def test_a_processor_that_makes_pixels_at_random_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any]
) -> None:
    at_random(monkeypatch, folder, change)
    torch.manual_seed(0)
    with pytest.raises(
        ModelError,
        match="its processor produces different inputs when it processes the same image and question again",
    ):
        load_model(f"hf:{folder}")


def test_words_that_are_split_at_random_are_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "dropout")
    file = tmp_path / "dropout" / "tokenizer.json"
    file.write_text(re.sub(r'"dropout": null', '"dropout": 0.3', file.read_text()))
    with pytest.raises(
        ModelError,
        match="its processor produces different inputs when it processes the same image and question again",
    ):
        load_model(f"hf:{tmp_path / 'dropout'}")


def test_a_picture_that_alone_is_cropped_at_random_is_warned_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    at_random(
        monkeypatch,
        folder,
        lambda pixels: pixels + torch.rand(()) * bool((pixels == pixels[..., :1]).all()),
    )
    model: Any = load_model(f"hf:{folder}")
    sums(model, ask("Which?", RED, continuations=("red", "no")))
    assert "its processor makes other inputs of Which? a second time" in caplog.text
    assert (
        "spot checks: requests of which the processor made other inputs a second time: 1"
        in model.findings()
    )


GEMMA_LIKE = CHAT.replace(
    "{{ '<|assistant|>' }}", "{{ '<|assistant|><|channel>thought\\n<channel|>' }}"
)
"""As Gemma 4's: a prompt has an empty thought that a finished talk has not."""
MINICPM_LIKE = PRINTS.replace(
    "{{ m['content'] }}", "{{ '<think>\\n\\n</think>\\n\\n' + m['content'] }}"
)
"""As MiniCPM-V 4.5's: a finished talk has an empty thought that a prompt has not."""


@pytest.mark.parametrize(
    ("template", "header"),
    [
        (GEMMA_LIKE, "<|assistant|><|channel>thought\n<channel|>"),
        (MINICPM_LIKE, "<|assistant|>"),
    ],
    ids=["Gemma 4", "MiniCPM-V 4.5"],
)
def test_options_are_scored_after_the_header_that_replies_follow(
    folder: Path, tmp_path: Path, template: str, header: str
) -> None:
    """The witness writes the prompt by hand and runs the bare model over one row."""
    model = with_template(folder, tmp_path / "odd", template)
    options = ("red", "dark green square")
    request = ask("Which?", RED, continuations=options)
    before = f"<|user|><image>Which?<|end|>{header}"
    assert model._conversation.write(request.messages).text == before

    processor, net = model._encoder._processor, model._layout.model
    shown = Image.open(io.BytesIO(PICTURES.read(RED))).convert("RGB")
    expected = []
    for option in options:
        inputs = processor(images=[shown], text=before + option, return_tensors="pt")
        ids = inputs["input_ids"][0].tolist()
        count = len(model._encoder.tokenizer(option, add_special_tokens=False)["input_ids"])
        with torch.no_grad():
            values = net(**inputs).logits[0].double().log_softmax(-1)
        places = range(len(ids) - count, len(ids))
        expected.append(sum(float(values[place - 1, ids[place]]) for place in places))
    assert sums(model, request) == [pytest.approx(expected, abs=1e-4)]
