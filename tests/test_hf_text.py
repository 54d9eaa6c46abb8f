"""Prompts and the border before a continuation, on the three kinds of tokenizer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

from snellen.models.hf.conversation import ChatPrompt, Conversation, formats
from snellen.models.hf.encode import EncodedPrompt, Encoder
from snellen.models.hf.model_layout import input_names
from snellen.models.hf.tokens import TextTokens, TokenizedText, continuation_boundary
from snellen.records import ImagePart, ImageRef, Message, TextPart
from tiny_archs import CHAT, Pictures, ask, byte_level, sentence_piece, word_piece
from tiny_registered import make_registered

TOKENIZERS = {
    "byte-level BPE": byte_level(),
    "SentencePiece-like": sentence_piece(),
    "WordPiece": word_piece(),
}
WORDS = st.lists(
    st.sampled_from("a red dark green square ( (A) . no the answer is 3 é".split()),
    min_size=1,
    max_size=4,
)
PICTURE = ImageRef("0" * 64, "image/png", 4, 4)


class Processor:
    """A processor of text alone: a tokenizer, and nothing to do with images."""

    image_processor = None
    chat_template: str | None = None
    image_token = "<image>"

    def __init__(self, tokenizer: Any, chat_template: str | None = None) -> None:
        self.tokenizer = tokenizer
        self.chat_template = chat_template

    def apply_chat_template(self, messages: Any, **settings: Any) -> str:
        return self.tokenizer.apply_chat_template(messages, **settings)


def encoded(encoder: Encoder, text: str) -> EncodedPrompt:
    spelled = encoder.tokens.spell(text)
    return EncodedPrompt(spelled.ids[: len(spelled.ids) - spelled.closing], {})


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(
    prompt=WORDS,
    replies=st.lists(WORDS, min_size=1, max_size=4),
    join=st.sampled_from(["", " ", "\n"]),
)
def test_context_and_tail_spell_what_tokenising_all_together_gives(
    kind: str, prompt: list[str], replies: list[list[str]], join: str
) -> None:
    encoder = Encoder(Processor(TOKENIZERS[kind]))
    asked = ChatPrompt(" ".join(prompt), (), join)
    texts = [" ".join(reply) for reply in replies]
    found = encoder.continue_with(asked, encoded(encoder, asked.text), texts)
    for text, tail in zip(texts, found.tails, strict=True):
        whole = encoded(encoder, asked.text + join + text).ids
        assert (*found.context.ids, *tail) == whole
        assert tail
    # No scored token could have been context: the first one reaches into the reply for some option.
    spelled = [encoder.tokens.spell(asked.with_reply(text)) for text in texts]
    start = len(found.context.ids)
    assert (
        any(s.ends[start] > len(asked.text) for s in spelled)
        or len({s.ids[start] for s in spelled}) > 1
    )


def test_a_token_that_straddles_the_border_is_scored_for_every_option() -> None:
    # "is (" + "A" is one token "(A" for the first option and two tokens for the second.
    one = TokenizedText((1, 2, 9), (2, 3, 5))
    two = TokenizedText((1, 2, 3, 4), (2, 3, 4, 5))
    assert continuation_boundary([one], 4) == 2
    assert continuation_boundary([two], 4) == 3
    assert continuation_boundary([one, two], 4) == 2


def test_a_blank_joins_reply_and_prompt_into_one_token_where_the_tokenizer_wants_it() -> None:
    encoder = Encoder(Processor(TOKENIZERS["byte-level BPE"]))
    asked = ChatPrompt("The answer is", (), " ")
    found = encoder.continue_with(asked, encoded(encoder, asked.text), ["red"])
    assert encoder.tokens.decode(found.tails[0]) == " red"
    # The blank at the end of this prompt is scored with the word, never left alone before it.
    ended = ChatPrompt("The answer is ", (), "")
    same = encoder.continue_with(ended, encoded(encoder, ended.text), ["red"])
    assert same == found


def test_an_empty_continuation_is_refused() -> None:
    encoder = Encoder(Processor(TOKENIZERS["byte-level BPE"]))
    asked = ChatPrompt("The answer is", (), "")
    with pytest.raises(ValueError, match="continuation 1 has no tokens"):
        encoder.continue_with(asked, encoded(encoder, asked.text), ["red", ""])


def test_what_a_processor_adds_unasked_is_noticed() -> None:
    encoder = Encoder(Processor(TOKENIZERS["byte-level BPE"]))
    with pytest.raises(ValueError, match="end the prompt with different tokens"):
        encoder.continue_with(
            ChatPrompt("The answer is", (), " "), encoded(encoder, "The answer is\n"), ["red"]
        )


VICUNA = (
    "{% for m in messages %}{{ m['role'].upper() + ': ' }}{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<image>\n{% else %}{{ c['text'] }}{% endif %}{% endfor %}{{ ' ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
STRINGS = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] + '<eos>' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "join", "opened", "continued"),
    [
        (CHAT, "", "<|user|><image>Which?<|end|><|assistant|>", "<|assistant|>It is"),
        (VICUNA, " ", "USER: <image>\nWhich? ASSISTANT:", "ASSISTANT: It is"),
        (STRINGS, "", "<|user|>\n<image>\nWhich?<eos><|assistant|>\n", "<|assistant|>\nIt is"),
    ],
)
def test_what_joins_header_and_reply_is_read_off_the_template(
    template: str, join: str, opened: str, continued: str
) -> None:
    conversation = Conversation(Processor(TOKENIZERS["byte-level BPE"], template))
    asked = Message("user", (ImagePart(PICTURE), TextPart("Which?")))
    prompt = conversation.write([asked])
    assert (prompt.text, prompt.join, prompt.images) == (opened, join, (PICTURE,))
    begun = conversation.write([asked, Message("assistant", (TextPart("It is"),))])
    assert begun.text.endswith(continued)
    assert begun.with_reply("red").endswith("It is red")
    bracket = conversation.write([asked, Message("assistant", (TextPart("It is ("),))])
    assert bracket.with_reply("A").endswith("It is (A")


def test_formats_of_models_without_a_template_are_written_as_published() -> None:
    asked = [
        Message("user", (ImagePart(PICTURE), TextPart("Which {text}?"))),
        Message("assistant", (TextPart("red"),)),
        Message("user", (TextPart("Sure?"),)),
    ]
    expected = {
        "blip-2": "Question: Which {text}? Answer: red Question: Sure? Answer:",
        "instructblip": "Which {text}? red\nSure?",
        "kosmos-2": "Question: Which {text}? Answer: red Question: Sure? Answer:",
        "git": "Which {text}? red Sure?",
        "paligemma": "<image>answer en Which {text}?red\nanswer en Sure?",
        "florence2": "Which {text}?red\nSure?",
        "fuyu": "Which {text}?\nred\nSure?\n",
        "idefics": "User: Which {text}?<end_of_utterance>\nAssistant: red<end_of_utterance>\n"
        "User: Sure?<end_of_utterance>\nAssistant:",
        "llava": "USER: <image>\nWhich {text}? ASSISTANT: red</s>USER: Sure? ASSISTANT:",
        "plain": "User: <image>\nWhich {text}?\nAssistant: red\nUser: Sure?\nAssistant:",
    }
    processor = Processor(TOKENIZERS["byte-level BPE"])
    assert {name: Conversation(processor, name).write(asked).text for name in formats()} == expected
    unknown = Conversation(processor, "never heard of")
    assert unknown.write(asked).text == expected["plain"]
    assert unknown.notes


def test_control_tokens_in_a_question_are_broken_up() -> None:
    conversation = Conversation(Processor(TOKENIZERS["byte-level BPE"]))
    prompt = conversation.write([Message("user", (TextPart("Is <eos> the end of <image>?"),))])
    assert prompt.text == "User: Is < eos> the end of < image>?\nAssistant:"


def test_settings_of_the_chat_template_reach_it_and_say_whether_a_thought_is_opened() -> None:
    thinking = CHAT + "{% if enable_thinking %}{{ '<think>\\n' }}{% endif %}"
    asked = (Message("user", (TextPart("Which?"),)),)
    for settings, opened, closing in (
        ({}, "", ""),
        ({"enable_thinking": True}, "<think>\n", "</think>"),
    ):
        conversation = Conversation(Processor(TOKENIZERS["byte-level BPE"], thinking), "", settings)
        assert conversation.write(asked).text.endswith("<|assistant|>" + opened)
        assert conversation.opened_thought == closing


def test_idefics_keeps_the_blanks_of_a_text_without_a_picture() -> None:
    """Its processor takes a text alone for a list of characters, each of which it strips; the tokenizer is the
    witness."""
    small = make_registered("idefics")
    conversation = Conversation(small.processor, "idefics")
    words = small.processor.tokenizer
    encoder = Encoder(
        small.processor,
        input_names(small.model),
        tokens=TextTokens(small.processor.tokenizer, conversation.complete),
    )
    prompt = conversation.write(ask("What colour is it?  Two blanks.").messages)
    expected = words(prompt.text)["input_ids"]
    encoded = encoder.encode(prompt, Pictures())
    assert list(encoded.ids) == expected
    assert words.decode(expected[1:]) == prompt.text


def test_a_processor_that_drops_words_is_refused() -> None:
    small = make_registered("llava")
    encoder = Encoder(small.processor, input_names(small.model))
    conversation = Conversation(small.processor, "llava")
    process = small.processor.__call__

    class Dropping(type(small.processor)):  # type: ignore[misc]
        def __call__(self, *args: Any, text: Any, **settings: Any) -> Any:
            [words] = text if isinstance(text, list) else [text]
            return process(*args, text=words.replace("colour ", ""), **settings)

    small.processor.__class__ = Dropping
    pictures = Pictures()
    red = pictures.add("red")
    for shown in ((), (red,)):
        prompt = conversation.write(ask("What colour is it?", *shown).messages)
        with pytest.raises(ValueError, match="encode the prompt with different tokens"):
            encoder.encode(prompt, pictures)
