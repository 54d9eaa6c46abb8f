"""Several rounds about one picture: the history is the model's own answers, or the published ones."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from snellen.prompts.option_labels import LabelStyle, alphabet_of, labels_for
from snellen.prompts.rendering import EarlierReply, PromptRenderer, write_reply
from snellen.protocols.base import ProtocolSettings, RequestGenerator, check_presentation_count
from snellen.protocols.declaration import Declaration
from snellen.protocols.prediction import check_extractor, predict
from snellen.records import Method, Request, Response, Sample, Turn, Variant


class Dialogue(ProtocolSettings, frozen=True):
    """Rounds one after the other, M presentations of each that share one history.

    Online history (ReForm-Eval A.8): the option that most presentations of the round chose, ties to
    the earliest, in the form that was asked for; when none was readable, the first reply as it came. Verbatim: the
    first reply that chose that option, in the model's own words. Gold history: the published reply. Options stand in
    their stored order.
    """

    by: Method = "generation"
    history: Literal["online", "verbatim", "gold"] = "online"
    m: int = 1
    labels: LabelStyle = "upper"
    in_context: bool = True
    extractor: str = "standard"
    seed: int = 0

    def __post_init__(self) -> None:
        check_presentation_count("dialogue", self.m)
        check_extractor(self.extractor)

    @property
    def method(self) -> Method:
        return self.by

    @property
    def declaration(self) -> Declaration:
        return Declaration(presentations=self.m, instability=self.m > 1)

    @property
    def gold_history(self) -> bool:
        return self.history == "gold"

    def applies(self, sample: Sample) -> bool:
        return bool(sample.turns)

    def ask(self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()) -> RequestGenerator:
        yield from self.rounds(sample, prompt, history, self.label)

    def rounds(
        self, sample: Sample, prompt: PromptRenderer, published: tuple[str, ...], protocol: str
    ) -> RequestGenerator:
        replies: tuple[EarlierReply, ...] = ()
        for number, turn in enumerate(sample.turns):
            requests = [self._request(sample, prompt, number, test, replies) for test in range(self.m)]
            responses = yield requests
            if any(response.error is not None for response in responses):
                return  # later rounds would speak of an answer that never came
            if published:
                replies = (*replies, self._as_reply(prompt, requests[0].variant, turn, published[number]))
            else:
                replies = (*replies, self._own_reply(prompt, turn, requests, responses, protocol))

    def _request(
        self, sample: Sample, prompt: PromptRenderer, number: int, test: int, replies: tuple[EarlierReply, ...]
    ) -> Request:
        templates = prompt.template_ids(self.by)
        count = len(sample.turns[number].options)
        variant = Variant(
            test=test,
            turn=number,
            template=templates[test % len(templates)],
            order=tuple(range(count)),
            labels=labels_for(self.labels, count, sample.benchmark, sample.id, f"labels {test}", self.seed),
            in_context=self.in_context and count > 0,
            seed=self.seed + test,
        )
        if self.by == "generation":
            return prompt.generate(sample, variant, replies)
        return prompt.loglikelihood(sample, variant, replies)

    def _own_reply(
        self, prompt: PromptRenderer, turn: Turn, requests: list[Request], responses: list[Response], protocol: str
    ) -> EarlierReply:
        if not turn.options:
            return EarlierReply(responses[0].text or "")
        choices = [
            predict(protocol, turn, request, response, self.extractor).choice
            for request, response in zip(requests, responses, strict=True)
        ]
        votes = Counter(choice for choice in choices if choice is not None)
        winner = votes.most_common(1)[0][0] if votes else None
        if winner is not None and (self.by == "likelihood" or self.history != "verbatim"):
            return self._as_reply(prompt, requests[0].variant, turn, turn.options[winner])
        prefix = prompt.response_prefix if self.by == "generation" else ""
        return EarlierReply(_continued(prefix, responses[choices.index(winner)].text or ""))

    def _as_reply(self, prompt: PromptRenderer, variant: Variant, turn: Turn, text: str) -> EarlierReply:
        """The reply in the form that was asked for: label and text, or the bare text under likelihood."""
        if self.by == "likelihood" or text not in turn.options:
            return EarlierReply(text)
        labels = dict(zip(turn.options, alphabet_of(variant.labels, turn.options), strict=False))
        return EarlierReply(write_reply(prompt.templates.layout, labels.get(text, ""), text))


def _continued(prefix: str, text: str) -> str:
    """The reply as the model's turn shows it: the prefix that it went on from, a blank, and its own words.

    A model that repeated the prefix has it once.
    """
    text = text.strip()
    return text if text.startswith(prefix) else f"{prefix} {text}".strip()
