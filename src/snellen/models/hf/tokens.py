"""Tokenise prompts with their continuations, and find the token at which a continuation begins.

An image is a placeholder in the text. A continuation is never tokenised by itself, because its
tokens depend on the text before it: "(A" may be one token after "is " and two tokens after "is (".
So prompt and continuation are tokenised together, and then separated by the position of each token
in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from snellen.models.base import NO_CONTINUATIONS
from snellen.models.hf.conversation import ChatPrompt


@dataclass(frozen=True)
class TokenizedText:
    """The tokens of a text: their ids, and for each the number of characters up to its end.

    `closing` is the number of special tokens at the end, which the tokenizer has added.
    """

    ids: tuple[int, ...]
    ends: tuple[int, ...]
    closing: int = 0

    @property
    def without_closing(self) -> tuple[int, ...]:
        """The token ids without the special tokens at the end."""
        return self.ids[: len(self.ids) - self.closing]


def continuation_boundary(texts: Sequence[TokenizedText], characters: int) -> int:
    """Return how many tokens at the beginning of some texts belong to the prompt.

    Each text is the same prompt with another continuation. The tokens counted are those that all
    texts have in common and that end within the prompt. A token that covers the end of the prompt
    and the beginning of a continuation belongs to the continuation. If this is so for one
    continuation, all others are scored from this place on as well, so that all scores are given the
    same prompt.

    Args:
        texts: The texts.
        characters: Number of characters of the prompt.
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
    """The tokens before the scored ones. Its last tokens may differ from those of `prompt`."""
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
        """Whether the tokenizer reports the position of each token in the text."""

    def adds_specials(self, text: str) -> bool:
        """Return whether the tokenizer should add special tokens to a text.

        It should not if the chat template has already written the opening token (BOS), which would
        then be there twice.
        """
        if self._complete:
            return False
        opening = getattr(self._tokenizer, "bos_token", None)
        return not (opening and text.startswith(opening))

    def spell(self, text: str) -> TokenizedText:
        """Return the tokens of a text, made by the tokenizer alone. Placeholders of images are not replaced."""
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
        """Return the token ids of the prompt before a reply."""
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
        """Return the token ids of each continuation with its separator, tokenised without the prompt before it.

        Raises ValueError if one has no tokens.
        """
        tails = []
        for continuation in continuations:
            joined = prompt.joined(continuation)
            tails.append(tuple(self._tokenizer(joined, add_special_tokens=False)["input_ids"]))
        return _nonempty(tails)

    def of_texts(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Return the token ids of texts that stand at the beginning, with no prompt before them.

        Raises ValueError if there are no texts, or if one has no tokens.
        """
        _require_some(texts)
        return _nonempty([self.spell(text).without_closing for text in texts])

    def require_beginning(self, text: str, whole: str) -> None:
        """Raise ValueError unless `whole` begins with the tokens of `text`.

        The text `whole` begins with `text`, but the tokenizer may join the last characters of
        `text` with those after it.
        """
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
    """Return the token ids of continuations unchanged. Raises ValueError if a continuation has no tokens."""
    for i, tail in enumerate(tails):
        if not tail:
            raise ValueError(f"continuation {i} has no tokens; there is nothing to score")
    return tuple(tails)
