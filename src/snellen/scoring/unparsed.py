"""Reading stages after the extractor: a judge, and the random guess of published systems (MMBench 4.2, steps 2 and 3).

A stage takes the replies that it wants and returns a prediction for each. A reply that it leaves open stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.seeds import rng_for
from snellen.protocols.prompts.rendering import labels_for
from snellen.protocols.prompts.role_prompts import shortened
from snellen.protocols.verdict import (
    JudgeMatching,
    Verdict,
    matching_prompt,
    matching_prompts,
    replay_verdict,
)
from snellen.records import Message, Prediction, Response, Turn
from snellen.runs.journal import read_exchanges
from snellen.runs.spec import JudgeSpec, ScoringSpec
from snellen.scoring.judges import DEFAULT_JUDGE, JUDGE, JudgeEnsemble, read_judge

NO_PROMPTS: Mapping[str, str] = MappingProxyType({})
RANDOM_VERSION = "legacy-random-1"


class UnparsedReply(Struct, frozen=True, gc=False):
    """A reply in which the extractor found no option, or found one without being certain.

    Examples:
        >>> from snellen.plugin_api import Prediction, Turn, Variant
        >>> variant = Variant(order=(1, 0), labels=("A", "B"))
        >>> prediction = Prediction("animals", "generation", "vanilla", "q1", variant, "", reason="no match")
        >>> unparsed = UnparsedReply(prediction, Turn("What is it?", ("cat", "dog")), "Hard to say.")
        >>> unparsed.displayed_options
        ('dog', 'cat')
    """

    prediction: Prediction
    turn: Turn
    reply: str

    @property
    def displayed_order(self) -> tuple[int, ...]:
        """The indices of the options in the order shown: (1, 0) if the second option was shown first."""
        return self.prediction.variant.order or tuple(range(len(self.turn.options)))

    @property
    def displayed_options(self) -> tuple[str, ...]:
        """The texts of the options in the order shown."""
        return tuple(self.turn.options[index] for index in self.displayed_order)

    @property
    def says_something(self) -> bool:
        """Whether the reply has a text besides its reasoning, and does not only call a tool."""
        return self.prediction.reason not in ("empty", "tool call") and bool(shortened(self.reply))

    def judge_task(self, spec: JudgeSpec = DEFAULT_JUDGE) -> JudgeMatching:
        """Return the task for a judge: which of the options, as they were displayed, the reply means.

        Args:
            spec: How the judge is prompted.

        Raises:
            UnknownNameError: There is no such prompt.
        """
        prediction = self.prediction
        options = self.displayed_options
        return JudgeMatching(
            benchmark=prediction.benchmark,
            sample_id=prediction.sample_id,
            variant=prediction.variant,
            question=self.turn.question,
            options=options,
            labels=prediction.variant.labels or labels_for("upper", len(options)),
            reply=self.reply,
            version=matching_prompt(spec.prompt),
            max_new_tokens=spec.max_tokens,
            structured=spec.structured,
        )


ReadingStage = Callable[[Sequence[UnparsedReply]], Sequence[Prediction]]


class NamedStage(Struct, frozen=True):
    """A further stage of reading replies, such as a judge model, with its name and the replies that it takes."""

    name: str
    read: ReadingStage
    takes: Callable[[Prediction], bool]
    """Whether a reply goes to the stage, given what was read in it so far."""


def needs_judge(prediction: Prediction) -> bool:
    """Return whether a judge model should find out which option a reply chooses.

    If the extractor gives probabilities, a judge is asked whenever the reading is unsure. Published extractors give
    none; a judge is then asked about replies in which they could not read an option (MMBench 4.2). Empty replies and
    refusals are not sent to a judge, because they choose no option.
    """
    if prediction.probabilities:
        return prediction.is_unsure
    return prediction.choice is None and prediction.reason in ("no match", "ambiguous", "negated")


def has_no_choice(prediction: Prediction) -> bool:
    """Return whether a reply gives no answer so far."""
    return prediction.choice is None


def judge_matching_stage(
    panel: JudgeEnsemble, prompts: Mapping[str, str] = NO_PROMPTS
) -> ReadingStage:
    """Return a function in which judge models find out which option each of some replies chooses.

    The majority of valid verdicts decides. Empty replies are not sent to the judges.

    Args:
        panel: The judge models.
        prompts: The name of the prompt by benchmark, for benchmarks that do not use the panel's prompt.

    Raises:
        UnknownNameError: There is no such prompt. The returned function raises it when it is called.
    """
    specs = {name: replace(panel.spec, prompt=prompt) for name, prompt in prompts.items()}

    def stage(unparsed: Sequence[UnparsedReply]) -> list[Prediction]:
        """Return a prediction for each reply: with the option that the judges name, or unchanged if it is empty."""
        to_judge = [reply for reply in unparsed if reply.says_something]
        n_unsure = sum(reply.prediction.choice is not None for reply in to_judge)
        tasks = []
        for reply in to_judge:
            spec = specs.get(reply.prediction.benchmark, panel.spec)
            tasks.append(reply.judge_task(spec))

        verdicts_by_reply = panel.verdicts(tasks, n_unsure)
        judged: dict[int, Prediction] = {}
        for reply, task, verdicts in zip(to_judge, tasks, verdicts_by_reply, strict=True):
            judged[id(reply)] = _with_verdicts(reply, panel.name, task.version, verdicts)
        return [judged.get(id(reply), reply.prediction) for reply in unparsed]

    return stage


def stored_readings(
    run: Path, replies: Sequence[UnparsedReply]
) -> Iterator[tuple[str, list[Verdict | None]]]:
    """Yield the verdicts that judge models gave earlier on some replies of a run. No model is queried.

    A verdict is found by the messages that were sent to the judge. Other settings of the request, such as the limit on
    the length of the judge's reply, do not matter.

    Args:
        run: Folder of the run.
        replies: The replies.

    Yields:
        For each judge and each prompt, its name as `judge (prompt version)` and its verdict on each reply, None if it
        gave none.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> folder = results.runs[0].folder
        >>> list(stored_readings(folder, []))  # no judge was asked
        []
    """
    for path in sorted(run.glob(f"judge-*/{JUDGE}")):
        judge = read_judge(path.parent)
        responses: dict[tuple[Message, ...], Response] = {}
        for exchange in read_exchanges(path.parent):
            if exchange.response.error is None:
                responses[exchange.request.messages] = exchange.response
        for prompt, version in matching_prompts().items():
            spec = JudgeSpec(prompt=prompt)
            verdicts = [_stored_verdict(reply.judge_task(spec), responses) for reply in replies]
            yield f"{judge.name} ({version})", verdicts


def _stored_verdict(
    item: JudgeMatching, responses: Mapping[tuple[Message, ...], Response]
) -> Verdict | None:
    return replay_verdict(item.start(), lambda request: responses.get(request.messages))


def _with_verdicts(
    unparsed: UnparsedReply, judge: str, version: str, verdicts: Sequence[Verdict]
) -> Prediction:
    """Return the prediction after judges have read a reply: with the option that most of them name, or with none.

    If the judges give no valid verdict, or are tied, the extractor's prediction stays, with a note on that.
    """
    verdict = Verdict.majority(verdicts)
    by_rules = unparsed.prediction
    version = f"{by_rules.extractor_version} + {judge} ({version})"
    if verdict.outcome not in ("given", "none"):
        outcome = f"judge: {verdict.outcome}"
        detail = by_rules.detail if by_rules.choice is not None else outcome
        notes = (*by_rules.notes, outcome)
        return replace(by_rules, extractor_version=version, detail=detail, notes=notes)

    if by_rules.choice is None:
        note = f"rules: {by_rules.reason}"
    else:
        note = f"rules: option {by_rules.choice + 1} with {by_rules.probability:.0%}"
    judged = replace(
        by_rules,
        confidence=None,
        probabilities=(),
        extractor_version=version,
        notes=(*by_rules.notes, note),
    )
    if verdict.place is not None:
        choice = unparsed.displayed_order[verdict.place]
        return replace(judged, choice=choice, extraction_method="judge", reason=None, detail="")
    return replace(
        judged,
        choice=None,
        extraction_method=None,
        reason=by_rules.reason or "ambiguous",
        detail="judge: none",
        unparsed_text=by_rules.unparsed_text or unparsed.reply,
    )


def random_guess(seed: int) -> ReadingStage:
    """Return a function that replaces unread replies by a random choice, as published systems do (MMBench, step 3).

    Each option, and "none", is equally likely. The draw depends only on the question, its presentation and the seed, so
    it is the same each time. If "none" is drawn, the reply stays unread.
    """

    def stage(unparsed: Sequence[UnparsedReply]) -> list[Prediction]:
        return [_drawn(reply.prediction, sorted(reply.displayed_order), seed) for reply in unparsed]

    return stage


def _drawn(prediction: Prediction, options: Sequence[int], seed: int) -> Prediction:
    """Replace an unread reply by a random choice: one of the options or none, each equally likely.

    Args:
        prediction: The prediction from the reply, without a choice.
        options: The options that were shown.
        seed: The seed. The draw depends on it, on the question and on its presentation.
    """
    variant = msgspec.json.encode(prediction.variant).decode()
    purpose = f"random guess {prediction.protocol} {variant}"
    rng = rng_for(prediction.benchmark, prediction.sample_id, purpose, seed)
    guess = rng.randrange(len(options) + 1)
    gives_no_answer = guess == len(options)
    return replace(
        prediction,
        choice=None if gives_no_answer else options[guess],
        extraction_method="random guess",
        probabilities=(),
        reason=prediction.reason if gives_no_answer else None,
        detail="",
        extractor_version=f"{prediction.extractor_version} + {RANDOM_VERSION} (seed {seed})",
        notes=(*prediction.notes, f"before the random guess: {prediction.reason}"),
    )


def reading_stages(
    spec: ScoringSpec, panel: JudgeEnsemble | None, prompts: Mapping[str, str] = NO_PROMPTS
) -> tuple[NamedStage, ...]:
    """Return the stages that try to read the replies in which the extractor found no option, in their order.

    There can be two: a judge model, and the random guess of published systems.

    Args:
        spec: The scoring settings.
        panel: The judge models, if there are any.
        prompts: The name of the judge prompt by benchmark, for benchmarks that do not use the panel's prompt.
    """
    stages: list[NamedStage] = []
    if panel:
        names = dict.fromkeys(prompts.values()) or (panel.spec.prompt,)
        versions = ", ".join(map(matching_prompt, names))
        judge = judge_matching_stage(panel, prompts)
        stages.append(NamedStage(f"{panel.name} ({versions})", judge, needs_judge))
    if spec.unparsed == "legacy-random":
        guess = random_guess(spec.guess_seed)
        stages.append(
            NamedStage(f"{RANDOM_VERSION} (seed {spec.guess_seed})", guess, has_no_choice)
        )
    return tuple(stages)
