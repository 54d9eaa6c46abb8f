"""Reasons why something has no value.

A record that may lack its value has two fields for it: `reason`, one of these, which code counts and decides by; and
`detail`, free text for people, such as the kind of a failure. No code reads anything out of the detail.
"""

from __future__ import annotations

from typing import Literal

NoChoiceReason = Literal[
    "empty",
    "tool call",
    "refused",
    "ambiguous",
    "negated",
    "cut off",
    "reasoning cut off",
    "loop",
    "no match",
    "undecided",
]
"""Why the rules find no option in a reply.

- `empty`: the reply says nothing.
- `tool call`: the model calls a tool, and says nothing.
- `refused`: the model says that it cannot or will not answer.
- `ambiguous`: several options are named, or a label beside another option's text.
- `negated`: options are named only to be denied.
- `cut off`: the length limit ended the reply before it had concluded.
- `reasoning cut off`: the length limit ended the reply while the model reasoned, before anything of an answer.
- `loop`: the reply repeats the same words until it ends.
- `no match`: the reply says something that is none of the options.
- `undecided`: a protocol of several steps came to its end without an answer.
"""

NoMostLikelyReason = Literal["no baseline", "not a number", "all alike"]
"""Why likelihoods choose no option.

- `no baseline`: the rule takes off what the options score without the image, and that never came: a request failed.
- `not a number`: an option has no finite log-likelihood.
- `all alike`: all options are exactly equally likely.
"""

UnscoredReason = Literal[
    "unparsed",
    "hidden answer",
    "not asked",
    "request failed",
    "not rotated",
    "metric undefined",
    "no judge",
    "no verdict",
    "not rated",
]
"""Why a question has no value in a metric.

- `unparsed`: replies came, and none of them names an option.
- `hidden answer`: the benchmark keeps its answers to itself.
- `not asked`: a request that is needed was never put to the model; the same command asks it.
- `request failed`: no answer came; `detail` is the kind of failure (`ErrorKind`). The same command asks again.
- `not rotated`: the options must keep their places, so there is no circular verdict.
- `metric undefined`: the metric has no value for this reply, gold or single question; `detail` says why.
- `no judge`: the metric is given by a judge, and no judge was named.
- `no verdict`: judges were asked and gave none that counts; `detail` is the outcome.
- `not rated`: the metric is what people give replies, and nobody rated this one.
"""

NoMeanReason = Literal[
    "too few asked to the end", "scales differ", "no scale", "not measured alike"
]
"""Why questions or numbers of several benchmarks have no mean, or models no rank; `detail` names the metrics.

- `too few asked to the end`: how many answers a question takes depends on what is answered, and too few have come as
  far as others have still to go, as in a run that was stopped.
- `scales differ`: they are on different scales, as accuracies and CIDErs are.
- `no scale`: the metric declares none, so that a mean over benchmarks makes no sense.
- `not measured alike`: in no dimension do the models to be ranked have values of the same questions.
"""

Reason = NoChoiceReason | NoMostLikelyReason | UnscoredReason | NoMeanReason

NEVER_ANSWERED: frozenset[Reason] = frozenset({"not asked", "request failed", "no baseline"})
"""Reasons that count as an error and not as unscored, because there is no answer that could be scored."""


def word_reason(reason: Reason | None, detail: str = "") -> str:
    """Return a reason with its detail for people, such as `request failed: server`; empty without a reason."""
    if not reason:
        return ""
    return f"{reason}: {detail}" if detail else reason
