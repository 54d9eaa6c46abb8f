"""Several rounds about one picture: the history is the model's own answers, or the published ones."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from snellen.prompts.marks import MarkStyle, alphabet_of, marks_for
from snellen.prompts.render import Prompt, Reply, write_reply
from snellen.protocols.base import Settings, Wave, check_tests
from snellen.protocols.reading import check_extractor, predict
from snellen.records import Method, Request, Response, Sample, Turn, Variant
from snellen.seeds import rng_for


class Dialogue(Settings, frozen=True):
    """Rounds one after the other, M presentations of each that share one history.

    Online history (ReForm-Eval A.8): the option that most presentations of the round chose, ties to
    the earliest; when none was readable, the first reply as it came. Gold history: the published reply.
    Options stand in their stored order.
    """

    by: Method = "generation"
    history: Literal["online", "gold"] = "online"
    m: int = 1
    marks: MarkStyle = "upper"
    in_context: bool = True
    extractor: str = "standard"
    seed: int = 0

    def __post_init__(self) -> None:
        check_tests("dialogue", self.m)
        check_extractor(self.extractor)

    @property
    def method(self) -> Method:
        return self.by

    @property
    def gold_history(self) -> bool:
        return self.history == "gold"

    def applies(self, sample: Sample) -> bool:
        return bool(sample.turns)

    def ask(self, sample: Sample, prompt: Prompt, history: tuple[str, ...] = ()) -> Wave:
        yield from self.rounds(sample, prompt, history, self.label)

    def rounds(self, sample: Sample, prompt: Prompt, published: tuple[str, ...], protocol: str) -> Wave:
        said: tuple[Reply, ...] = ()
        for number, turn in enumerate(sample.turns):
            requests = [self._request(sample, prompt, number, test, said) for test in range(self.m)]
            responses = yield requests
            if any(response.error is not None for response in responses):
                return  # later rounds would speak of an answer that never came
            if published:
                said = (*said, self._as_reply(prompt, requests[0].variant, turn, published[number]))
            else:
                said = (*said, self._own_reply(prompt, turn, requests, responses, protocol))

    def _request(self, sample: Sample, prompt: Prompt, number: int, test: int, said: tuple[Reply, ...]) -> Request:
        templates = prompt.template_ids(self.by)
        count = len(sample.turns[number].options)
        variant = Variant(
            test=test,
            turn=number,
            template=templates[test % len(templates)],
            order=tuple(range(count)),
            marks=marks_for(self.marks, count, rng_for(sample.benchmark, sample.id, f"marks {test}", self.seed)),
            in_context=self.in_context and count > 0,
            seed=self.seed + test,
        )
        if self.by == "generation":
            return prompt.generate(sample, variant, said)
        return prompt.loglikelihood(sample, variant, said)

    def _own_reply(
        self, prompt: Prompt, turn: Turn, requests: list[Request], responses: list[Response], protocol: str
    ) -> Reply:
        if not turn.options:
            return Reply(responses[0].text or "")
        choices = [
            predict(protocol, turn, request, response, self.extractor).choice
            for request, response in zip(requests, responses, strict=True)
        ]
        votes = Counter(choice for choice in choices if choice is not None)
        if not votes:
            prefixed = prompt.prefix and self.by == "generation"
            prefix = prompt.templates.layout.response_prefix if prefixed else ""
            return Reply(f"{prefix}{responses[0].text or ''}".strip())
        winner, _ = votes.most_common(1)[0]
        return self._as_reply(prompt, requests[0].variant, turn, turn.options[winner])

    def _as_reply(self, prompt: Prompt, variant: Variant, turn: Turn, text: str) -> Reply:
        """The reply in the form that was asked for: mark and text, or the bare text under likelihood."""
        if self.by == "likelihood" or text not in turn.options:
            return Reply(text)
        marks = alphabet_of(variant.marks, turn.options)
        return Reply(write_reply(prompt.templates.layout, marks[turn.options.index(text)], text))
