"""Text in a tokenizer's tokens, images as their placeholders, and the border where a continuation begins.

A continuation is never tokenised alone: "(A" may be one token after "is " and two after "is (". Prompt and continuation
are tokenised together, and separated by their character offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from snellen.models.base import NO_CONTINUATIONS
from snellen.models.hf.conversation import ChatPrompt


@dataclass(frozen=True)
class TokenizedText:
    """Token ids with their character ends; `closing` is the number of special tokens at the end."""

    ids: tuple[int, ...]
    ends: tuple[int, ...]
    closing: int = 0

    @property
    def without_closing(self) -> tuple[int, ...]:
        """The token ids without the special tokens at the end."""
        return self.ids[: len(self.ids) - self.closing]


def continuation_boundary(texts: Sequence[TokenizedText], characters: int) -> int:
    """Return the number of leading context tokens: those that all texts share and that end within `characters`.

    Each text is a prompt with one of its continuations. A token that straddles the boundary belongs to the
    continuation. If it straddles for one continuation and not for another, both are scored from the earlier token, so
    that all scores are of the same text given the same context.
    """
    first = texts[0]
    count = len(first.ids)
    for text in texts:
        length = 0
        for token, end, first_token in zip(text.ids, text.ends, first.ids, strict=False):
            if length == count or end > characters or token != first_token:
                break
            length += 1
        count = length
    return count


@dataclass(frozen=True)
class SplitText:
    """The tokens of a prompt and of its continuations. An image is a placeholder."""

    prompt: tuple[int, ...]
    """The prompt that a reply follows."""
    context: tuple[int, ...]
    """The prompt before continuations, whose last tokens may differ."""
    tails: tuple[tuple[int, ...], ...]
    """The scored tokens of each continuation, after `context`."""


class TextTokens:
    """Tokenises prompts and continuations.

    Args:
        tokenizer: The tokenizer.
        complete: Whether prompts have all special tokens already, so that the tokenizer must add none.
    """

    def __init__(self, tokenizer: Any, complete: bool = False) -> None:
        self._tokenizer = tokenizer
        self._complete = complete
        self.aligned = bool(getattr(tokenizer, "is_fast", False))
        """Whether the tokenizer tells where in the text a token ends."""

    def adds_specials(self, text: str) -> bool:
        """Return whether the tokenizer should add special tokens: not if the template already wrote the opening token."""
        if self._complete:
            return False
        opening = getattr(self._tokenizer, "bos_token", None)
        return not (opening and text.startswith(opening))

    def spell(self, text: str) -> TokenizedText:
        """Return the tokens of a text by the tokenizer alone, without the processor."""
        spelled = self._tokenizer(
            text,
            add_special_tokens=self.adds_specials(text),
            return_special_tokens_mask=True,
            return_offsets_mapping=self.aligned,
        )
        ids = spelled["input_ids"]
        closing = 0
        for is_special in reversed(spelled["special_tokens_mask"]):
            if not is_special:
                break
            closing += 1
        else:
            closing = 0  # only special tokens
        if self.aligned:
            ends = [end for _, end in spelled["offset_mapping"]]
        else:
            # Without offsets every token may be context; the boundary is then where the texts diverge.
            ends = [0] * len(ids)
        return TokenizedText(tuple(ids), tuple(ends), closing)

    def of_prompt(self, prompt: ChatPrompt) -> tuple[int, ...]:
        """Return the tokens of a prompt that a reply follows."""
        return self.spell(prompt.text + prompt.added).without_closing

    def split(self, prompt: ChatPrompt, continuations: Sequence[str]) -> SplitText:
        """Return the tokens of a prompt, and of each continuation after it. Raises ValueError if one has none."""
        _require_some(continuations)
        texts = []
        for continuation in continuations:
            spelled = self.spell(prompt.with_reply(continuation))
            texts.append(replace(spelled, ids=spelled.without_closing))

        context_characters = len(prompt.text + prompt.added)
        # The template's separator is not part of the reply, except for a token that extends into the reply.
        if not any(continuation[:1].isspace() for continuation in continuations):
            context_characters += len(prompt.join)
        context_length = continuation_boundary(texts, context_characters)
        return SplitText(
            prompt=self.of_prompt(prompt),
            context=texts[0].ids[:context_length],
            tails=_nonempty([text.ids[context_length:] for text in texts]),
        )

    def alone(
        self, prompt: ChatPrompt, continuations: Sequence[str]
    ) -> tuple[tuple[int, ...], ...]:
        """Return the tokens of what each continuation adds to a prompt, tokenised without the prompt."""
        tails = []
        for continuation in continuations:
            joined = prompt.joined(continuation)
            tails.append(tuple(self._tokenizer(joined, add_special_tokens=False)["input_ids"]))
        return _nonempty(tails)

    def of_texts(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Return the tokens of texts that begin with nothing before them."""
        _require_some(texts)
        return _nonempty([self.spell(text).without_closing for text in texts])

    def require_beginning(self, text: str, whole: str) -> None:
        """Raise ValueError unless the tokens of `text` are the first tokens of `whole`, which begins with that text."""
        tokens = self.spell(text).without_closing
        whole_tokens = self.spell(whole).ids
        if whole_tokens[: len(tokens)] != tokens:
            appended = whole[len(text) :]
            raise ValueError(
                f"the reply that ends in {text[-30:]!r} cannot be scored: its end and the text that the chat "
                f"template appends ({appended[:30]!r}) form a single token"
            )

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        text: str = self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text


def _require_some(continuations: Sequence[str]) -> None:
    if not continuations:
        raise ValueError(NO_CONTINUATIONS)


def _nonempty(tails: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Return the tokens of continuations. Raises ValueError if one has none."""
    for i, tail in enumerate(tails):
        if not tail:
            raise ValueError(f"continuation {i} has no tokens; there is nothing to score")
    return tuple(tails)
