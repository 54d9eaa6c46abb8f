"""Prompts and image tokens of vision-language models in wide use, against facts of their sources (model_corpus.toml).

Templates of others are not in this repository. Each is written here from what is known of it, so that prompts are made
of a template in its style; `bench/mixed_windows.py --templates` asks with the real ones, from a folder.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

from model_corpus import CORPUS, template_of
from snellen.models.hf.conversation import Conversation
from snellen.models.hf.encode import Encoder
from snellen.models.hf.load import without_warnings
from snellen.records import ImagePart, ImageRef, Message, TextPart
from tiny_archs import Pictures
from tiny_registered import CannotBuildError, make_processor

WITH_PROMPT = [name for name, facts in CORPUS.items() if "prompt" in facts]
WITH_TEMPLATE = [name for name in WITH_PROMPT if not CORPUS[name].get("formats")]
WITH_SYSTEM = [name for name in WITH_TEMPLATE if "system" in CORPUS[name]]
COUNTED = [(name, size) for name, facts in CORPUS.items() for size in facts.get("counts", {})]


def processor_of(name: str) -> Any:
    facts = CORPUS[name]
    try:
        return make_processor(
            facts["model_type"],
            facts.get("tokens", {}),
            facts.get("image_processor", {}),
            facts.get("processor", {}),
        )
    except (CannotBuildError, ImportError) as error:
        pytest.skip(f"its processor cannot be made here: {error}")


def conversation_of(name: str) -> Conversation:
    processor = processor_of(name)
    if not CORPUS[name].get("formats"):
        processor.chat_template = template_of(CORPUS[name])
    return Conversation(processor, CORPUS[name]["model_type"])


def test_each_checkpoint_has_one_template() -> None:
    checkpoints = []
    for facts in CORPUS.values():
        checkpoints += [facts["checkpoint"], *facts.get("also", ())]
    assert len(checkpoints) == len(set(checkpoints)) > 190


IMAGE = ImageRef("0" * 64, "image/png", 640, 480)
QUESTION = Message("user", (ImagePart(IMAGE), TextPart("What is it?")))
SYSTEM = Message("system", (TextPart("Be short."),))


@pytest.mark.parametrize("name", WITH_PROMPT)
def test_the_prompt_is_that_of_the_source(name: str) -> None:
    prompt = conversation_of(name).write((QUESTION,))
    assert prompt.text == CORPUS[name]["prompt"]
    assert prompt.images == (IMAGE,)


@pytest.mark.parametrize("name", WITH_TEMPLATE)
def test_options_follow_the_header_of_a_reply(name: str) -> None:
    facts = CORPUS[name]
    conversation = conversation_of(name)
    prompt = conversation.write_scored((QUESTION,))
    # By hand: the prompt up to the header, then the opening of a reply as finished turns have it.
    before_header = facts["prompt"].removesuffix(facts["generation"])
    opening, closing = facts["assistant"]
    if facts.get("empty_thought"):
        opening = facts["generation"]
    scored = prompt.with_reply("a dog")
    assert scored == f"{before_header}{opening}a dog"
    assert conversation.finish((QUESTION,), prompt, "a dog") == f"{scored}{closing}"
    assert conversation.opened_thought == facts.get("thought", "")


@pytest.mark.parametrize("name", WITH_SYSTEM)
def test_a_system_turn_is_written_or_refused(name: str) -> None:
    facts = CORPUS[name]
    conversation = conversation_of(name)
    if facts["system"] == "refused":
        with pytest.raises(ValueError, match="the chat template rejects the conversation"):
            conversation.write((SYSTEM, QUESTION))
        return
    opening, closing = facts["system"]
    begins = facts.get("begins", "")
    question = facts["prompt"].removeprefix(begins + facts.get("default_system", ""))
    assert conversation.write((SYSTEM, QUESTION)).text == (
        f"{begins}{opening}Be short.{closing}{question}"
    )


@pytest.mark.parametrize(("name", "size"), COUNTED)
def test_an_image_has_the_tokens_of_the_published_processor(name: str, size: str) -> None:
    facts = CORPUS[name]
    width, _, height = size.partition(" x ")
    pictures = Pictures()
    image = pictures.add("red", (int(width), int(height)))
    processor = processor_of(name)
    conversation = Conversation(processor, facts["model_type"])
    prompt = conversation.write((Message("user", (ImagePart(image), TextPart("What?"))),))
    encoder = Encoder(processor, None)
    expected = facts["counts"][size]
    if expected == "refused":
        with pytest.raises(
            ValueError, match=rf"(aspect ratio|3 pixels high).* \(images of {size} pixels\)"
        ):
            encoder.encode(prompt, pictures)
        return
    with without_warnings():
        encoded = encoder.encode(prompt, pictures)
    counted = facts.get("counted") or processor.image_token
    token = processor.tokenizer.convert_tokens_to_ids(str(counted))
    assert encoded.ids.count(token) == expected
