"""Models in the judge's seat: what they were asked before is found again, the rest is asked now.

A judge's exchanges lie in a folder of its own inside the run, `judge-<name>-<digest of its fingerprint>`, in the
journal of a run: verdicts are found by what was asked (question, options, reply, wording, decoding), so another
reply, wording or judge is asked anew, a stopped scoring goes on, and replies without a verdict are counted and asked
again.

Judged metrics of open questions: replies and golds go to a panel of judges, rows of scores come back.

A reply without a valid mark is unmarked: its question is unscored, never guessed.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.foreign import read_file
from snellen.common.paths import slug
from snellen.errors import DataError, ErrorBudgetError, ModelError, StoreError
from snellen.formats.json_files import JSON_FAULTS
from snellen.formats.whole_files import write_atomically
from snellen.metrics.declaration import Metric, MetricInput, MetricRow, metric_row, share
from snellen.models.base import AsyncModel, Model
from snellen.models.identity import (
    ADDRESS,
    ModelIdentity,
    address_of,
    earlier_fingerprints,
    identity_of,
)
from snellen.protocols.prompts.role_prompts import prompt_versions
from snellen.protocols.verdict import (
    MARKS,
    NO_PICTURES,
    RIGHT_OR_WRONG,
    Deliberation,
    JudgedMarking,
    JudgeMatching,
    JudgeTask,
    Verdict,
    majority_verdict,
    matching_prompt,
    replay_verdict,
)
from snellen.records import Exchange, Request, Response, Variant
from snellen.runs.drivers import ProgressCallback, ProgressUpdate, drive
from snellen.runs.forecast import likely_tokens, most_tokens
from snellen.runs.journal import read_exchanges
from snellen.runs.run_store import RunStore
from snellen.runs.server_checks import ask_servers, changed_server_fact
from snellen.runs.spec import JudgeSpec, TokenPrice
from snellen.runs.unchanged_models import check_identity
from snellen.scoring.questions import AskedQuestion, Unscored, Value
from snellen.scoring.request_costs import sum_usage, usage_text

JUDGE = "judge.json"
"""Who gave the verdicts in a folder: a `JudgeIdentity`."""
DEFAULT_JUDGE = JudgeSpec()


class JudgeUse(Struct, frozen=True):
    """What a judge was used for while scoring."""

    judge: str
    version: str
    replies: int
    calls: int
    """Requests put to the judge now; all others were found in its journal."""
    failed: int
    """Replies without a verdict."""
    unsure: int = 0
    """Of the replies, those in which the extractor had found an option, but was unsure."""


class JudgeIdentity(Struct, frozen=True):
    """A judge as in `ModelIdentity`, and what its server stated when it gave its verdicts."""

    name: str
    fingerprint: dict[str, str]
    servers: dict[str, tuple[str, ...]] = {}
    """By fact, the values that were stated; several where a user went on with a judge that had changed."""


class JudgeEnsemble:
    """The judges of one run, asked the same and counted alone.

    `spec` says how they are asked, whatever models it names; `announce` is called with one line before and after
    calls are made.
    """

    def __init__(
        self,
        judges: Sequence[Model | AsyncModel],
        run: Path,
        spec: JudgeSpec = DEFAULT_JUDGE,
        announce: Callable[[str], object] = lambda line: None,
    ) -> None:
        self.spec = spec
        self.uses: list[JudgeUse] = []
        self._judges = [
            Judge(judge, run, spec.price, announce, moved=spec.moved) for judge in judges
        ]
        folders = Counter(judge.folder for judge in self._judges)
        for judge in self._judges:
            if folders[judge.folder] > 1:
                raise DataError(
                    f"the judge {judge.name} is named twice; its votes would be one and count as two"
                )

    @property
    def name(self) -> str:
        """All judges, as they were named."""
        return ", ".join(judge.name for judge in self._judges)

    def verdicts(self, tasks: Sequence[JudgeTask], unsure: int = 0) -> list[list[Verdict]]:
        """Return the verdict of each judge for each task, in order.

        `unsure` of the tasks are about replies in which the extractor had found an option, but was unsure.

        Raises ModelError for a judge that cannot answer, ErrorBudgetError for one that failed too often.
        """
        if not tasks:
            return []
        columns = [self._column(judge, tasks, unsure) for judge in self._judges]
        return [list(row) for row in zip(*columns, strict=True)]

    def _column(self, judge: Judge, tasks: Sequence[JudgeTask], unsure: int) -> list[Verdict]:
        verdicts, calls = judge.ask(tasks, unsure)
        failed = sum(verdict.failed for verdict in verdicts)
        versions = dict.fromkeys(task.label for task in tasks)
        self.uses.append(
            JudgeUse(judge.name, ", ".join(versions), len(tasks), calls, failed, unsure)
        )
        allowed = self.spec.failures
        if failed > allowed * len(verdicts):
            first = next(verdict for verdict in verdicts if verdict.failed)
            remedy = "score again to ask what failed"
            if first.outcome == "malformed":
                remedy += ", raise --judge-max-tokens"
            raise ErrorBudgetError(
                f"judge {judge.name} gave no verdict on {failed} of {len(verdicts)} replies ({first.outcome}: "
                f"{first.detail!r}), more than --judge-failures {allowed:g}; what it said is in {judge.folder}; "
                f"{remedy}, take another judge, or raise --judge-failures"
            )
        return verdicts


class Judge:
    """One judge with its folder."""

    def __init__(
        self,
        model: Model | AsyncModel,
        run: Path,
        price: TokenPrice | None,
        announce: Callable[[str], object],
        *,
        moved: bool = False,
    ) -> None:
        self.name, self._model, self._price, self._announce = model.name, model, price, announce
        self._moved = moved
        self._servers: dict[str, tuple[str, ...]] | None = None
        self._file = identity_of(model)
        self.folder = _verdict_folder(run, self._file)
        if not self.folder.exists():
            self.folder = _earlier_folder(run, self._file, model.name) or self.folder
        check_identity(self.folder, model.name, self._file.fingerprint)

    def ask(self, tasks: Sequence[JudgeTask], unsure: int = 0) -> tuple[list[Verdict], int]:
        """Its verdicts, and how many calls were made for them. Raises StoreError where its server now states something
        else than when it gave the verdicts that are stored."""
        if self._servers is None:
            self._servers = self._check_servers()
        responses = stored_verdicts(self.folder)
        waiting: list[JudgeTask] = []
        rejected: set[str] = set()  # requests whose replies led to no verdict
        for task in tasks:
            verdict = _verdict(task, responses)
            if verdict is None or verdict.failed:
                waiting.append(task)
            if verdict is not None and verdict.failed:
                rejected.update(_requests_of(task, responses))
        responses = {key: reply for key, reply in responses.items() if key not in rejected}
        calls, tokens = 0, ""
        if waiting:
            of_them = f" ({unsure:,} of them with an unsure reading)" if unsure else ""
            may_be_asked = [pending_requests(task.start(), responses) for task in waiting]
            first_check = next(_start_up_check().start())[0]
            check = [] if first_check.key in responses else [first_check]
            self._announce(
                f"judge {self.name}: {len(tasks):,} replies{of_them}, {len(tasks) - len(waiting):,} judged before; "
                f"{estimate_cost(may_be_asked, self._price, besides=check)}"
            )
            calls = self._ask(waiting, rejected)
            after = stored_verdicts(self.folder, failures=True)
            tokens = _used(response for key, response in after.items() if key not in responses)
            responses = after
        verdicts = [
            _verdict(task, responses) or Verdict("error", detail="never asked") for task in tasks
        ]
        if waiting:
            failed = sum(verdict.failed for verdict in verdicts)
            self._announce(
                f"judge {self.name}: {calls:,} calls made{tokens}, {failed:,} replies without a verdict"
            )
        return verdicts, calls

    def _check_servers(self) -> dict[str, tuple[str, ...]]:
        """Return what the judge's server states now or stated before, by fact. Raises StoreError for a change."""
        earlier = _stated_before(self.folder)
        now = ask_servers({self.name: self._model}).get(self.name, {})
        changed = changed_server_fact(earlier, now)
        if changed and not self._moved:
            raise StoreError(
                f"{self.folder} holds verdicts of {self.name} from when its server stated something else ({changed}); "
                "if it is the same judge, go on with --judge-moved, else serve it under another name, or remove that "
                "folder to ask all again"
            )
        stated = dict(earlier)
        for fact, value in now.items():
            stated[fact] = tuple(dict.fromkeys((*stated.get(fact, ()), value)))
        return stated

    def _ask(self, tasks: Sequence[JudgeTask], rejected: Collection[str]) -> int:
        calls = 0

        def count(tick: ProgressUpdate) -> None:
            nonlocal calls
            calls += tick.requests

        judge = JudgeIdentity(self._file.name, self._file.fingerprint, self._servers or {})
        write_atomically(self.folder / JUDGE, msgspec.json.encode(judge))
        with RunStore(self.folder, asked_again=rejected) as store:
            if isinstance(self._model, AsyncModel):
                from snellen.runs.async_driver import run_async

                run_async(_ask_async(self._model, tasks, store, count))
            else:
                if (request := _unchecked(store)) is not None:
                    _check(
                        store, request, self.name, self._model.generate([request], NO_PICTURES)[0]
                    )
                drive(self._model, iter(tasks), store, progress=count)
        return calls


def _verdict_folder(run: Path, judge: ModelIdentity) -> Path:
    identity = msgspec.json.encode(judge, order="sorted")
    digest = hashlib.blake2b(identity, digest_size=4).hexdigest()
    return run / f"judge-{slug(judge.name)[:60]}-{digest}"


def _stated_before(folder: Path) -> dict[str, tuple[str, ...]]:
    with suppress(OSError, *JSON_FAULTS):
        return msgspec.json.decode(read_file(folder / JUDGE), type=JudgeIdentity).servers
    return {}


def _earlier_folder(run: Path, judge: ModelIdentity, model: str) -> Path | None:
    """Return the folder of verdicts that an earlier version of Snellen made for this judge, if there is one.

    `model` is the judge's model string with its address.
    """
    fingerprints = earlier_fingerprints(judge.fingerprint)
    if _judged_before(run, model):
        for facts in (judge.fingerprint, *fingerprints.copy()):
            fingerprints.append({name: text for name, text in facts.items() if name != ADDRESS})
    for fingerprint in fingerprints:
        folder = _verdict_folder(run, replace(judge, fingerprint=fingerprint))
        if folder.exists():
            return folder
    return None


class _KeptJudge(Struct, frozen=True):
    """The judges that a kept scoring names; a part of `KeptScoring`."""

    judge: JudgeSpec


def _judged_before(run: Path, judge: str) -> bool:
    """Return whether a kept scoring names this judge at its address. Folders of verdicts did not say the address."""
    for path in run.glob("scores/*/scoring.json"):
        with suppress(OSError, *JSON_FAULTS):
            kept = msgspec.json.decode(read_file(path), type=_KeptJudge)
            if address_of(judge) in map(address_of, kept.judge.models):
                return True
    return False


def _used(responses: Iterable[Response]) -> str:
    """Tokens of responses, where the judge counts them."""
    usage = sum_usage(responses)
    return f" ({usage_text(usage)}, as it counts them)" if usage else ""


async def _ask_async(
    model: AsyncModel, tasks: Sequence[JudgeTask], store: RunStore, count: ProgressCallback
) -> None:
    from snellen.runs.async_driver import drive_async

    if (request := _unchecked(store)) is not None:
        try:
            _check(store, request, model.name, await model.ask(request, NO_PICTURES))
        finally:
            await model.close()
    await drive_async(model, iter(tasks), store, progress=count)


def _start_up_check() -> JudgeMatching:
    """A reply that every judge can match."""
    return JudgeMatching(
        benchmark="start-up check",
        sample_id="check",
        variant=Variant(),
        question="What is the main object in image?",
        options=("teddy bear", "rabbit", "cat", "dog"),
        labels=("A", "B", "C", "D"),
        reply="a cute teddy bear",
        version=matching_prompt(),
    )


def _unchecked(store: RunStore) -> Request | None:
    """What every judge must be able to answer, unless this one has."""
    check = _start_up_check()
    request = next(check.start())[0]
    return request if store.find(check.label, request) is None else None


def _check(store: RunStore, request: Request, judge: str, response: Response) -> None:
    store.append([Exchange(_start_up_check().label, request, response)])
    if response.error is not None:
        raise ModelError(
            f"judge {judge} cannot answer ({response.error.kind}: {response.error.detail}); nothing was scored; "
            "mend it, or score without --judge"
        )


def stored_verdicts(folder: Path, *, failures: bool = False) -> dict[str, Response]:
    """Return a judge's latest responses by what was asked; with `failures` also those that failed and never came later."""
    responses: dict[str, Response] = {}
    for exchange in read_exchanges(folder):
        key, response = exchange.request.key, exchange.response
        if response.error is None or (failures and key not in responses):
            responses[key] = response
    return responses


def _verdict(task: JudgeTask, responses: dict[str, Response]) -> Verdict | None:
    return replay_verdict(task.start(), lambda request: responses.get(request.key))


def _requests_of(task: JudgeTask, responses: Mapping[str, Response]) -> list[str]:
    """Return the keys of the requests whose stored responses were the talk with a judge."""
    keys: list[str] = []

    def find(request: Request) -> Response | None:
        keys.append(request.key)
        return responses.get(request.key)

    replay_verdict(task.start(), find)
    return keys


_NO_VERDICT = Response(text="")


def pending_requests(talk: Deliberation, responses: Mapping[str, Response]) -> list[Request]:
    """What a judge has to be asked yet for one verdict, were none of its replies a verdict; empty when it is known."""
    pending: list[Request] = []
    try:
        requests = next(talk)
        while True:
            pending += [request for request in requests if request.key not in responses]
            requests = talk.send([responses.get(request.key, _NO_VERDICT) for request in requests])
    except StopIteration:
        return pending


def estimate_cost(
    talks: Iterable[Sequence[Request]],
    price: TokenPrice | None = None,
    *,
    besides: Sequence[Request] = (),
) -> str:
    """Calls, tokens and, for a price, cost in words, each as it is likely and at most.

    `talks` has for each verdict the requests that it may take: it is likely to come at the first, and at most all are
    put, and what is asked `besides`. What is asked in the same words is asked once.
    """
    first: dict[str, Request] = {}
    every = {request.key: request for request in besides}
    for requests in talks:
        first.update({request.key: request for request in requests[:1]})
        every.update({request.key: request for request in requests})
    likely, most = likely_tokens(list(first.values())), most_tokens(list(every.values()))
    line = (
        f"{likely.calls:,} calls to make, some {likely.read:,} tokens to read and {likely.written:,} to write; "
        f"at most {most.calls:,} calls, {most.read:,} and {most.written:,} tokens"
    )
    if price is None:
        return line
    return f"{line}; likely {likely.cost(price):,.3g}, at most {_rounded_up(most.cost(price))} at the price given"


def _rounded_up(value: float) -> str:
    """Three digits that are never less than the value."""
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return (
        f"{math.ceil(value / unit - 1e-9) * unit:,.3g}" if value < 1000 else f"{math.ceil(value):,}"
    )


Versions = Callable[[tuple[str, ...]], Sequence[str]]
"""From golds to the wordings that are asked."""
Reduce = Callable[[list[list[Verdict]]], "dict[str, float] | Unscored"]
"""From a question's verdicts, one list per presentation, to its rows, or why there are none."""


class JudgedMetric(Metric, frozen=True, kw_only=True):
    """A metric that judges give."""

    computed_over: ClassVar[MetricInput] = "judge"
    versions: Versions
    reduce: Reduce
    scale: tuple[int, int] = MARKS

    def measure(
        self, questions: Sequence[AskedQuestion], panel: JudgeEnsemble
    ) -> dict[str, list[Value]]:
        """For each row a value for each question, or why there is none. Raises what the panel raises."""
        markings = list(self._tasks(questions, panel))
        verdicts = panel.verdicts([marking for _, _, marking in markings])
        by_question: list[list[list[Verdict]]] = [
            [[] for _ in question.came] for question in questions
        ]
        for (number, test, _), row in zip(markings, verdicts, strict=True):
            by_question[number][test].extend(row)
        values = [self.reduce(verdicts_of_question) for verdicts_of_question in by_question]
        return {
            row: [value if isinstance(value, Unscored) else value[row] for value in values]
            for row in self.names
        }

    def _tasks(
        self, questions: Sequence[AskedQuestion], panel: JudgeEnsemble
    ) -> Iterable[tuple[int, int, JudgedMarking]]:
        for number, question in enumerate(questions):
            golds = question.answer.texts if question.answer else ()
            for test, prediction in enumerate(question.came):
                for version in self.versions(golds):
                    task = JudgedMarking(
                        benchmark=prediction.benchmark,
                        sample_id=prediction.sample_id,
                        variant=prediction.variant,
                        question=question.turn.question,
                        golds=golds,
                        reply=prediction.text or "",
                        version=version,
                        scale=self.scale,
                        max_new_tokens=panel.spec.max_tokens,
                        structured=panel.spec.structured,
                    )
                    yield number, test, task


def valid_marks(verdicts: list[list[Verdict]]) -> list[int]:
    """All marks that a question was given, of every presentation."""
    return [verdict.value for test in verdicts for verdict in test if verdict.value is not None]


def unmarked_reason(verdicts: list[list[Verdict]]) -> Unscored:
    """Why a question without a valid mark has no value."""
    return Unscored("no verdict", verdicts[0][0].outcome)


def _caption_rows(verdicts: list[list[Verdict]]) -> dict[str, float] | Unscored:
    marks = valid_marks(verdicts)
    return {"judged_caption": sum(marks) / len(marks)} if marks else unmarked_reason(verdicts)


def grade_shares(grades: Mapping[str, int]) -> Reduce:
    """For each row the share of presentations with its grade, by the majority of valid votes; a tie abstains."""

    def shares(verdicts: list[list[Verdict]]) -> dict[str, float] | Unscored:
        votes = [majority_verdict(test) for test in verdicts]
        decided = [vote.value for vote in votes if vote.value is not None]
        if not decided:
            return Unscored("no verdict", votes[0].outcome)
        return {row: decided.count(grade) / len(decided) for row, grade in grades.items()}

    return shares


def mean_mark(name: str, title: str) -> MetricRow:
    """The row of a mean mark."""
    low, high = MARKS
    return metric_row(
        name,
        title=title,
        unit="points",
        low=float(low),
        high=float(high),
        scale=f"marks {low}-{high}",
    )


CORRECT = JudgedMetric(
    what="share of replies that mean a gold, by the majority of five wordings of one rubric (and of the judges)",
    rows=(share("judged_correct"),),
    versions=lambda golds: prompt_versions("snellen-correct"),
    reduce=grade_shares({"judged_correct": RIGHT_OR_WRONG[1]}),
    scale=RIGHT_OR_WRONG,
)
CAPTION = JudgedMetric(
    what="mean mark from 1 to 5 of a caption against its references, by a judge that does not see the picture",
    rows=(mean_mark("judged_caption", "judged caption"),),
    versions=lambda golds: ["snellen-caption-1"],
    reduce=_caption_rows,
)
