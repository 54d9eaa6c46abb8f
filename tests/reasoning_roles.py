"""Three models that talk by script, and a process in which they do.

    python reasoning_roles.py BENCHMARK RUNS CALLS

Each request that was answered is appended to the file CALLS; the evaluated model answers one request of the second
round, and then no more.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from snellen.api import evaluate
from snellen.common.images import Images
from snellen.records import Request, RequestKind, Response, Usage

ROUNDS = 3
PROTOCOL = f"reasoning?rounds={ROUNDS}"
ROLES = ("questioner", "reasoner")
ANSWERED_IN = {"q000": 1, "q001": 2}
"""The round in which the Reasoner is sure; of any other question it never is."""
QUESTIONS = (
    "Sub-question 1: Is it a cat? Sub-question 2: Does it have horns?",
    "1. What colour is it?\n2. Is it a cat?\n3. Is it standing?",
    '["Is it asleep?"]',
)
REPLIES = {
    "Is it a cat?": "No.",
    "Does it have horns?": "Yes, two.\nQuestion: Is it big?\nAnswer: yes",
    "What colour is it?": "brown",
    "Is it standing?": "Yes",
    "Is it asleep?": "I think so",
}


def reply_to(request: Request) -> str:
    """What the model of a role replies."""
    step = request.variant.step
    if step is None:
        return "(A)"
    if request.role == "questioner":
        return QUESTIONS[step.round - 1]
    if request.role == "reasoner":
        sure = ANSWERED_IN.get(request.sample_id, ROUNDS + 1) <= step.round
        return f"Analysis: round {step.round} of {request.sample_id}.\nAnswer: {'2' if sure else 'We are not sure.'}"
    return REPLIES.get(request.messages[-1].text.rpartition("\n")[2], "An animal in a field.")


class Actor:
    """Replies by script in batches, and notes what it is asked."""

    batch_size = 4

    def __init__(self, role: str = "") -> None:
        self.name = self.fingerprint = f"scripted {role or 'answerer'}"
        # The script looks at the sample; the evaluated model at what it is shown alone.
        self.answers_by_sample = bool(role)
        self.asked: list[str] = []

    def respond(self, request: Request) -> Response:
        self.asked.append(request.key)
        return Response(text=reply_to(request), finish="stop", usage=Usage(10, 1))

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        return [self.respond(request) for request in requests]


class AsyncActor:
    """The same behind a network of its own."""

    kinds: frozenset[RequestKind] = frozenset({"generate"})
    concurrency = 2

    def __init__(self, role: str = "", calls: Path | None = None, *, held: bool = False) -> None:
        self._actor, self._calls, self._held = Actor(role), calls, held
        self.name, self.answers_by_sample = self._actor.name, self._actor.answers_by_sample
        self.closed = 0
        self._in_second_round = 0

    @property
    def asked(self) -> list[str]:
        return self._actor.asked

    def fingerprint(self) -> dict[str, str]:
        return {"declared": self.name}

    async def ask(self, request: Request, images: Images) -> Response:
        step = request.variant.step
        if self._held and step and step.round > 1:
            self._in_second_round += 1
            if self._in_second_round > 1:
                await asyncio.Event().wait()
        await asyncio.sleep(0)
        if self._calls:
            with self._calls.open("a") as file:
                file.write(f"{request.key}\n")
        return self._actor.respond(request)

    async def close(self) -> None:
        self.closed += 1


def main(benchmark: str, runs: str, calls: str) -> None:
    roles = {role: AsyncActor(role, Path(calls)) for role in ROLES}
    evaluate(
        AsyncActor("", Path(calls), held=True),
        benchmark,
        PROTOCOL,
        roles=roles,
        runs=runs,
        name="run",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
