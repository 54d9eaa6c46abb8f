"""The same questions several times at a temperature: what a model gets right sometimes, by majority, and always."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from msgspec.structs import replace

from snellen.errors import UnknownNameError
from snellen.protocols.base import OfAnother, RequestGenerator
from snellen.protocols.declaration import Declaration, declaration_of
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.records import Request, Response, Sample


class Repeat(OfAnother, frozen=True):
    """Another protocol's requests `n` times, each time with another seed: the run's seed, and the numbers after it.

    The other protocol asks every question once, for a reply. pass@k is the chance that of `k` replies one is right
    (Chen et al. 2021, arXiv 2107.03374, 2.1, equation 1), estimated from all `n`.
    """

    k: int = 5
    n: int = 0
    """How often every question is asked; 0: `k` times."""
    greedy: bool = False
    """Whether it may be asked at temperature 0, to see what changes even then."""

    def __post_init__(self) -> None:
        if self.k < 1 or 0 < self.n < self.k or self.times < 2:
            raise UnknownNameError(
                f"repeat needs k >= 1, and n >= k and >= 2 replies to each question, not k={self.k}, n={self.n}"
            )
        inner = declaration_of(self.inner)
        if inner.repeated_for or inner.presentations != 1 or inner.conclude or self.inner.method != "generation":
            raise UnknownNameError(
                f"repeat is of a protocol that asks once for a reply, as vanilla does, not {self.of}"
            )

    @property
    def times(self) -> int:
        """How often every question is asked."""
        return self.n or self.k

    @cached_property
    def label(self) -> str:
        settings = {"k": self.k, "n": self.n, "greedy": "true" if self.greedy else ""}
        terms = [f"{name}={value}" for name, value in settings.items() if value]
        return f"repeat?{'&'.join(terms if self.of == 'vanilla' else (*terms, self.quoted))}"

    @property
    def declaration(self) -> Declaration:
        return replace(
            declaration_of(self.inner),
            presentations=self.times,
            repeated_for=self.k,
            needs_temperature=not self.greedy,
        )

    def ask(self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()) -> RequestGenerator:
        """All repetitions side by side; those of a dialogue go on by their own replies."""
        talks = [self.inner.ask(sample, prompt, history) for _ in range(self.times)]
        waves: list[list[Request]] = [[_repeated(request, i) for request in next(talk)] for i, talk in enumerate(talks)]
        while any(waves):
            responses = yield [request for wave in waves for request in wave]
            ends = [0]
            for wave in waves:
                ends.append(ends[-1] + len(wave))
            own_responses = [responses[start:end] for start, end in pairwise(ends)]
            waves = [_gone_on(talk, came, i) for i, (talk, came) in enumerate(zip(talks, own_responses, strict=True))]


def _repeated(request: Request, i: int) -> Request:
    """The same request as presentation `i`, with a seed of its own."""
    seed = request.decoding.seed + i
    return replace(
        request,
        variant=replace(request.variant, test=i, seed=seed),
        decoding=replace(request.decoding, seed=seed),
    )


def _gone_on(talk: RequestGenerator, responses: Sequence[Response], i: int) -> list[Request]:
    """What one repetition asks next; nothing when it has ended."""
    try:
        return [_repeated(request, i) for request in talk.send(list(responses))] if responses else []
    except StopIteration:
        return []
