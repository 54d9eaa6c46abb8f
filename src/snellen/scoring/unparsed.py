"""What happens to replies that no rule could read: steps 2 and 3 of MMBench 4.2, each a reading stage of its own.

A stage takes what is unparsed and gives, for each, the prediction it makes of it. What it leaves open stays
unparsed, and is counted as such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.seeds import rng_for
from snellen.extraction import semantic_matching
from snellen.protocols.prompts.rendering import labels_for
from snellen.protocols.prompts.role_prompts import shortened
from snellen.protocols.verdict import JudgeMatching, Verdict, majority_verdict, matching_prompt
from snellen.reasons import Reason
from snellen.records import Prediction, Turn
from snellen.runs.spec import JudgeSpec, ScoringSpec
from snellen.scoring.judges import DEFAULT_JUDGE, JudgeEnsemble

NO_PROMPTS: Mapping[str, str] = MappingProxyType({})
RANDOM_VERSION = "legacy-random-1"


class UnparsedReply(Struct, frozen=True, gc=False):
    """A reply that names no option so far, or, for a judge, one that the rules read but not for certain."""

    prediction: Prediction
    turn: Turn
    reply: str

    @property
    def places(self) -> tuple[int, ...]:
        """places[i] is the option that was shown in place i."""
        return self.prediction.variant.order or tuple(range(len(self.turn.options)))

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(self.turn.options[i] for i in self.places)

    @property
    def says_something(self) -> bool:
        return self.prediction.reason not in ("empty", "tool call") and bool(shortened(self.reply))


ReadingStage = Callable[[Sequence[UnparsedReply]], Sequence[Prediction]]


class NamedStage(Struct, frozen=True):
    """A stage, and what it is called with its version."""

    name: str
    read: ReadingStage
    likely: bool = False
    """It is also given what the rules read, but not for certain."""


def semantic_matching_stage(unparsed: Sequence[UnparsedReply]) -> list[Prediction]:
    """Step 2b: the option nearest in meaning, where one is near enough and no other is.

    Only replies that name no option are compared: the embedding does not see that an option is denied, and
    several named ones are all near. Raises MissingExtraError without the model.
    """
    comparable = [
        reply
        for reply in unparsed
        if reply.prediction.reason == "no match" and reply.says_something
    ]
    nearest = semantic_matching.nearest(
        [(shortened(reply.reply), reply.shown) for reply in comparable]
    )
    predictions = {
        id(reply): _near(reply, near) for reply, near in zip(comparable, nearest, strict=True)
    }
    return [predictions.get(id(reply), reply.prediction) for reply in unparsed]


def _near(unparsed: UnparsedReply, near: semantic_matching.NearestOption) -> Prediction:
    place = near.chosen()
    if place is None:
        return unparsed.prediction
    return replace(
        unparsed.prediction,
        choice=unparsed.places[place],
        extraction_method="semantic",
        reason=None,
        probabilities=(),
        extractor_version=f"{unparsed.prediction.extractor_version} + {semantic_matching.VERSION}",
        notes=(*unparsed.prediction.notes, f"cosine {near.cosine:.2f}, margin {near.margin:.2f}"),
    )


def judge_matching_stage(
    panel: JudgeEnsemble, prompts: Mapping[str, str] = NO_PROMPTS
) -> ReadingStage:
    """Step 2: judges name the option that is meant, or none; the majority of valid verdicts counts.

    `prompts` are names of wordings by benchmark, where it is not the panel's own. Empty replies are not sent. Raises
    UnknownNameError for a wording that nobody has.
    """
    specs = {name: replace(panel.spec, prompt=prompt) for name, prompt in prompts.items()}

    def stage(unparsed: Sequence[UnparsedReply]) -> list[Prediction]:
        to_judge = [reply for reply in unparsed if reply.says_something]
        likely = sum(reply.prediction.choice is not None for reply in to_judge)
        items = [
            matching_item(reply, specs.get(reply.prediction.benchmark, panel.spec))
            for reply in to_judge
        ]
        predictions = {
            id(reply): _judged(reply, panel.name, item.version, row)
            for reply, item, row in zip(to_judge, items, panel.verdicts(items, likely), strict=True)
        }
        return [predictions.get(id(reply), reply.prediction) for reply in unparsed]

    return stage


def matching_item(unparsed: UnparsedReply, spec: JudgeSpec = DEFAULT_JUDGE) -> JudgeMatching:
    """What a judge is asked about a reply."""
    prediction, options = unparsed.prediction, unparsed.shown
    return JudgeMatching(
        benchmark=prediction.benchmark,
        sample_id=prediction.sample_id,
        variant=prediction.variant,
        question=unparsed.turn.question,
        options=options,
        labels=prediction.variant.labels or labels_for("upper", len(options)),
        reply=unparsed.reply,
        version=matching_prompt(spec.prompt),
        max_new_tokens=spec.max_tokens,
        structured=spec.structured,
    )


def _judged(
    unparsed: UnparsedReply, judge: str, version: str, verdicts: Sequence[Verdict]
) -> Prediction:
    """What the judges made of it; where they name no option, the rules' reason stands.

    A likely reading of the rules stands where no verdict came, and is open where the judges find no option.
    """
    verdict, by_rules = majority_verdict(verdicts), unparsed.prediction
    has_option = verdict.value is not None
    if by_rules.choice is not None:
        note = f"rules: {by_rules.extraction_method}, likely, option {by_rules.choice + 1}"
        if not has_option and verdict.outcome != "none":
            return replace(by_rules, notes=(*by_rules.notes, f"judge: {verdict.outcome}"))
        reason: Reason | None = None if has_option else "ambiguous"
    else:
        note, reason = f"rules: {by_rules.reason}", None if has_option else by_rules.reason
    return replace(
        by_rules,
        choice=None if verdict.value is None else unparsed.places[verdict.value],
        extraction_method="judge" if has_option else None,
        reason=reason,
        confidence=None,
        probabilities=() if verdict.outcome in ("given", "none") else by_rules.probabilities,
        detail="" if has_option else f"judge: {verdict.outcome}",
        extractor_version=f"{by_rules.extractor_version} + {judge} ({version})",
        notes=(*by_rules.notes, note),
        unparsed_text=by_rules.unparsed_text
        if has_option or by_rules.choice is None
        else unparsed.reply,
    )


def random_guess(seed: int) -> ReadingStage:
    """Step 3 as published (`legacy`): one of the options or none, each equally likely, marked as drawn.

    The draw depends on the question, its whole presentation and `seed` alone. Where none is drawn, the rules' reason
    stands.
    """

    def stage(unparsed: Sequence[UnparsedReply]) -> list[Prediction]:
        return [_drawn(reply.prediction, sorted(reply.places), seed) for reply in unparsed]

    return stage


def _drawn(prediction: Prediction, options: Sequence[int], seed: int) -> Prediction:
    purpose = (
        f"random guess {prediction.protocol} {msgspec.json.encode(prediction.variant).decode()}"
    )
    guess = rng_for(prediction.benchmark, prediction.sample_id, purpose, seed).randrange(
        len(options) + 1
    )
    return replace(
        prediction,
        choice=options[guess] if guess < len(options) else None,
        extraction_method="random guess",
        probabilities=(),
        reason=prediction.reason if guess == len(options) else None,
        detail="",
        extractor_version=f"{prediction.extractor_version} + {RANDOM_VERSION} (seed {seed})",
        notes=(*prediction.notes, f"before the random guess: {prediction.reason}"),
    )


def reading_stages(
    spec: ScoringSpec, panel: JudgeEnsemble | None, prompts: Mapping[str, str] = NO_PROMPTS
) -> tuple[NamedStage, ...]:
    """What reads on after the extractor, in order; `prompts` as for judges."""
    stages: list[NamedStage] = []
    if spec.semantic:
        stages.append(NamedStage(semantic_matching.VERSION, semantic_matching_stage))
    if panel:
        names = dict.fromkeys(prompts.values()) or (panel.spec.prompt,)
        versions = ", ".join(map(matching_prompt, names))
        stages.append(
            NamedStage(
                f"{panel.name} ({versions})",
                judge_matching_stage(panel, prompts),
                panel.spec.likely,
            )
        )
    if spec.unparsed == "legacy-random":
        stages.append(
            NamedStage(f"{RANDOM_VERSION} (seed {spec.guess_seed})", random_guess(spec.guess_seed))
        )
    return tuple(stages)
