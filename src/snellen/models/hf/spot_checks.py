"""Spot checks during a run: some of the real requests are answered again by the reference, one row at a time.

The self-check at the start sees only a few texts, and the model may behave differently on the
requests of a run. Three kinds of requests are checked: the first ones of a run, as far as that
takes little time; the first one in each range of lengths for each group of requests; and a random
share of the others, from which the run can state how many of its answers may differ.

If an answer differs from the reference, the model answers all requests of that group in the plain
way from then on, and withdraws its earlier answers to them, so that these requests are sent again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from snellen.models.base import AnswerGroup, answer_group
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.reference import Scores, reference_reply, reference_scores
from snellen.models.hf.tolerance import Tolerance, largest_difference
from snellen.records import Request, RequestKind

CHECKED_SHARE = 0.05
"""Tokens that the reference reads in random checks, as a share of the tokens that the run reads."""
STATED_BOUND = 0.01
"""Random checks end when it is certain enough that at most this share of the requests differ (`largest_share`)."""
CONFIDENCE = 0.95
FIRST_REQUESTS = 16
"""Maximum number of requests of each kind that are checked because they are the first ones of a run."""
FIRST_SHARE = 0.5
"""Tokens that the reference may read in these checks, as a share of those that the run has read so far.

This keeps short runs fast.
"""
RANGES_PER_DOUBLING = 4
"""Number of ranges of lengths between, for example, 100 tokens and 200 tokens."""
KEY_RANGE = 16.0**32
"""Number of different keys of requests."""
CheckedRow = EncodedPrompt | ContinuedPrompt
"""A prompt for a reply, or for scores, as tensors."""
CheckReason = Literal["random", "stratum", "first"]
"""Why a request is checked: chosen at random, the first of its stratum, or one of the first of the run."""


def largest_share(checks: int) -> float:
    """Return the largest share of requests that may differ, after none of `checks` random checks found a difference.

    This is the upper end of the exact one-sided 95% confidence interval (Clopper and Pearson 1934)
    for no event in `checks` trials: 1 - 0.05 ** (1 / checks). Without checks it is 1.

    Examples:
        >>> round(largest_share(59), 3)
        0.05
    """
    if checks == 0:
        return 1.0
    return float(1 - (1 - CONFIDENCE) ** (1 / checks))


@dataclass
class SpotChecks:
    """Chooses which requests of a run to check, checks their answers, and remembers the results."""

    layout: ModelLayout
    tolerance: Tolerance
    checked: dict[str, int] = field(default_factory=dict)
    """Requests checked, by kind."""
    random_checks: dict[str, int] = field(default_factory=dict)
    """Those of them that were chosen at random, by kind."""
    score_difference: float = 0.0
    """The largest difference of a token's log-probability, in nats."""
    reply_deficit: float = 0.0
    """By how much, at most, another token was likelier than the one in a greedy reply, in nats."""
    unrepeatable: int = 0
    """Checked requests for which the processor made different inputs a second time."""
    disproved: set[AnswerGroup] = field(default_factory=set)
    """Groups in which a check found a difference."""
    asked_plainly: set[str] = field(default_factory=set)
    """Keys of the requests of these groups that were answered in the plain way, which is right."""
    _seen: set[tuple[AnswerGroup, int]] = field(default_factory=set)
    _read_tokens: Counter[RequestKind] = field(default_factory=Counter)
    """Tokens that the run has read."""
    _first_checks: Counter[RequestKind] = field(default_factory=Counter)
    _first_tokens: Counter[RequestKind] = field(default_factory=Counter)
    """Tokens that the reference has read for the first requests."""

    def note_answered(self, requests: Sequence[Request], rows: Sequence[CheckedRow]) -> None:
        """Count the tokens of requests that were just answered. Call this before some of them are checked."""
        for request, row in zip(requests, rows, strict=True):
            self._read_tokens[request.kind] += _fast_tokens(row)

    def reason_to_check(self, request: Request, row: CheckedRow) -> CheckReason | None:
        """Return why a request should be checked; None if it should not.

        The random choice follows from the request's key, so it is the same when a run is repeated.
        A stratum is a group of requests and a range of lengths. Sampled replies are never checked,
        because they cannot be compared.

        Args:
            request: The request, which was answered.
            row: Its prompt as tensors.
        """
        kind = request.kind
        if kind == "generate" and request.decoding.temperature > 0:
            return None
        length = _fast_tokens(row)
        stratum = answer_group(request), int(RANGES_PER_DOUBLING * math.log2(length))
        is_new_stratum = stratum not in self._seen
        self._seen.add(stratum)
        if largest_share(self.random_checks.get(kind, 0)) > STATED_BOUND:
            chance = CHECKED_SHARE * length / _reference_tokens(row)
            if int(request.key, 16) < chance * KEY_RANGE:
                return "random"
        if is_new_stratum:
            return "stratum"
        first_tokens = self._first_tokens[kind] + _first_check_tokens(row)
        if first_tokens > FIRST_SHARE * self._read_tokens[kind]:
            return None
        if self._first_checks[kind] >= FIRST_REQUESTS:
            return None
        self._first_checks[kind] += 1
        self._first_tokens[kind] = first_tokens
        return "first"

    def check_scores(self, prompt: ContinuedPrompt, scores: Scores, reason: CheckReason) -> bool:
        """Score a request again by the reference, and return whether its scores agree within the tolerance.

        Args:
            prompt: The prompt and its continuations.
            scores: For each continuation, the log-probabilities of its tokens, in nats.
            reason: Why this request is checked. For "first", only one of its continuations is
                scored again, a different one each time, to save time; otherwise all are.
        """
        if reason == "first":
            checked = self._first_checks["loglikelihood"] % len(prompt.tails)
            prompt = replace(prompt, tails=(prompt.tails[checked],))
            scores = [scores[checked]]
        difference = largest_difference(reference_scores(self.layout, [prompt]), [scores])
        self._count("loglikelihood", reason)
        self.score_difference = max(self.score_difference, difference)
        return difference <= self.tolerance.token

    def check_reply(self, row: EncodedPrompt, tokens: Sequence[int], reason: CheckReason) -> bool:
        """Return whether a reply consists of the tokens that the reference finds likeliest, within the tolerance.

        Args:
            row: The prompt as tensors.
            tokens: Token ids of the reply.
            reason: Why this request is checked.
        """
        # Check up to the end of the reply, or to a token that stands for an image, which cannot be read back without one.
        checked: list[int] = []
        for token in tokens:
            if token in self.layout.seen_tokens:
                break
            checked.append(token)
            if token in self.layout.end_tokens:
                break
        if not checked:
            self._count("generate", reason)
            return True
        reference = reference_reply(self.layout, row, checked)
        self._count("generate", reason)
        deficit = max(reference.deficits)
        self.reply_deficit = max(self.reply_deficit, deficit)
        if deficit > self.tolerance.token:
            return False
        if len(checked) == 1:
            return True
        # In some models, a text changes the scores of the tokens before it from a certain length on.
        alone = reference_reply(self.layout, row, checked[:1])
        difference = abs(alone.scores[0] - reference.scores[0])
        return difference <= self.tolerance.token

    def doubts(self, request: Request) -> bool:
        """Return whether an earlier answer to a request may be wrong.

        It may if a check found a wrong answer in the request's group, and this request was not
        answered in the plain way.
        """
        return answer_group(request) in self.disproved and request.key not in self.asked_plainly

    @property
    def findings(self) -> tuple[str, ...]:
        """Sentences on what was checked and found, for the manifest of the run; () if nothing was checked."""
        lines = []
        if self.unrepeatable:
            lines.append(
                "spot checks: requests of which the processor made other inputs a second time: "
                f"{self.unrepeatable}"
            )
        if self.asked_plainly:
            lines.append(
                "spot checks: a fast path was off, so that requests were answered one row at a time: "
                f"{len(self.asked_plainly)}"
            )
        return (*lines, *(self._finding(kind) for kind in sorted(self.checked)))

    def _finding(self, kind: str) -> str:
        """Return a sentence on the checks of a kind of request."""
        count = self.checked[kind]
        requests = "request" if count == 1 else "requests"
        if kind == "loglikelihood":
            result = (
                f"largest difference of a token's log-probability {self.score_difference:.2g} nats"
            )
        else:
            result = (
                f"largest lead of another token than the one written {self.reply_deficit:.2g} nats"
            )
        sentence = (
            f"spot checks ({kind}): {count} {requests} answered one row at a time too, {result} "
            f"(noise allows {self.tolerance.token:.2g})"
        )
        chosen = self.random_checks.get(kind, 0)
        is_disproved = any(group.kind == kind for group in self.disproved)
        if chosen and not is_disproved:
            percent = math.ceil(1000 * largest_share(chosen)) / 10
            sentence += (
                f"; {chosen} of them chosen at random, so at most {percent:.1f} % of the requests differ by more "
                f"({CONFIDENCE:.0%} confidence)"
            )
        return sentence

    def _count(self, kind: str, reason: CheckReason) -> None:
        """Count a check.

        This is called after the reference has answered, so that a check that ran out of memory does
        not count.
        """
        self.checked[kind] = self.checked.get(kind, 0) + 1
        if reason == "random":
            self.random_checks[kind] = self.random_checks.get(kind, 0) + 1


def _first_check_tokens(row: CheckedRow) -> int:
    """Return an upper bound on the tokens that the reference reads if a request is checked as one of the first."""
    if isinstance(row, EncodedPrompt):
        return _reference_tokens(row)
    return len(row.context.ids) + max(len(tail) for tail in row.tails)


def _fast_tokens(row: CheckedRow) -> int:
    """Return a lower bound on the tokens that the fast paths read: the prompt once, and all continuations."""
    if isinstance(row, EncodedPrompt):
        return max(len(row.ids), 1)
    return max(len(row.context.ids) + sum(len(tail) for tail in row.tails), 1)


def _reference_tokens(row: CheckedRow) -> int:
    """Return a lower bound on the tokens that the reference reads: the prompt again for each continuation.

    For a reply, the prompt is read at least twice.
    """
    if isinstance(row, EncodedPrompt):
        return max(2 * len(row.ids), 1)
    tokens = 0
    for tail in row.tails:
        tokens += len(row.context.ids) + len(tail)
    return max(tokens, 1)
