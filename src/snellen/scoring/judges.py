"""Ask judge models for verdicts, and keep the verdicts with the run.

The exchanges of a judge are stored inside the run, in the journal of a folder of its own, `judge-<name>-<digest of its
fingerprint>`. A verdict is found by what was asked (question, options, reply, prompt, decoding). So another reply,
prompt or judge is asked again, a stopped scoring resumes, and replies without a verdict are counted and asked again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.callers import for_caller, setting
from snellen.common.foreign import read_file
from snellen.common.paths import slug
from snellen.errors import DataError, ErrorBudgetError, ModelError, StoreError
from snellen.formats.json_files import JSON_FAULTS
from snellen.formats.whole_files import write_atomically
from snellen.models.base import AsyncModel, Model, sends_batches
from snellen.models.identity import (
    ADDRESS,
    ModelIdentity,
    address_of,
    earlier_fingerprints,
    identity_of,
)
from snellen.protocols.verdict import (
    NO_IMAGES,
    JudgeMatching,
    JudgeTask,
    Verdict,
    matching_prompt,
    replay_verdict,
)
from snellen.records import Exchange, Request, Response, Variant
from snellen.runs.drivers import ProgressCallback, ProgressUpdate, drive
from snellen.runs.journal import read_exchanges
from snellen.runs.run_store import RunStore
from snellen.runs.server_checks import changed_server_fact, query_servers
from snellen.runs.spec import JudgeSpec, TokenPrice
from snellen.runs.unchanged_models import check_identity
from snellen.scoring.request_costs import sum_usage, usage_text

JUDGE = "judge.json"
"""File with the judge of a folder of verdicts: a `JudgeIdentity`."""
DEFAULT_JUDGE = JudgeSpec()
"""How a judge is asked unless a run says otherwise."""


class JudgeUse(Struct, frozen=True):
    """How much a judge model was used in a scoring: the replies that it judged and the requests sent to it."""

    judge: str
    version: str
    """Versions of the prompts."""
    replies: int
    """Replies that it judged."""
    calls: int
    """Requests sent to the judge in this scoring; all other verdicts were in its journal."""
    failed: int
    """Replies without a verdict."""
    unsure: int = 0
    """Replies in which the extractor had found an option, but was unsure."""


class JudgeIdentity(Struct, frozen=True):
    """A judge as in `ModelIdentity`, and what its server stated when it gave its verdicts."""

    name: str
    fingerprint: dict[str, str]
    servers: dict[str, tuple[str, ...]] = {}
    """What its server stated about itself, by the name of the fact, such as a version. A fact has several values if a
    user kept the verdicts of a judge that had changed."""


class JudgeEnsemble:
    """The judges of a run, which get the same tasks and vote separately.

    Args:
        judges: The models.
        run: Folder of the run.
        spec: How the judges are prompted. The models that it names are ignored.
        announce: Receives a line before and after requests to a judge.

    Raises:
        DataError: A judge is named twice.

    Examples:
        >>> judge = sn.load_model("snellen:oracle").model
        >>> JudgeEnsemble([judge], Path("run")).name
        'snellen:oracle'
    """

    def __init__(
        self,
        judges: Sequence[Model | AsyncModel],
        run: Path,
        spec: JudgeSpec = DEFAULT_JUDGE,
        announce: Callable[[str], object] = lambda line: None,
    ) -> None:
        """Combine judge models, which vote on each reply.

        Args:
            judges: The models.
            run: The folder of the run, in which their verdicts are stored.
            spec: The judge settings.
            announce: Receives lines for the user.

        Raises:
            DataError: A judge is given twice.
        """
        self.spec = spec
        self.uses: list[JudgeUse] = []
        """The work of the judges until now."""
        self._judges = [
            Judge(judge, run, spec.price, announce, moved=spec.moved) for judge in judges
        ]
        folders = Counter(judge.folder for judge in self._judges)
        for judge in self._judges:
            if folders[judge.folder] > 1:
                raise DataError(
                    f"the judge {judge.name} is given twice, so one vote would count as two; remove one"
                )

    @property
    def name(self) -> str:
        """Names of all judges."""
        return ", ".join(judge.name for judge in self._judges)

    @property
    def prompt_version(self) -> str:
        """Version of the prompt with which the judges match replies to options."""
        return matching_prompt(self.spec.prompt)

    def verdicts(self, tasks: Sequence[JudgeTask], unsure: int = 0) -> list[list[Verdict]]:
        """Return the verdicts of all judge models on some replies.

        Args:
            tasks: For each reply, what the judges are asked.
            unsure: How many of the replies name an option that could not be read with certainty. Only for the message
                to the user.

        Returns:
            For each task, a list with one verdict per judge.

        Raises:
            ModelError: A judge cannot be used.
            ErrorBudgetError: A judge gave too few verdicts.
            StoreError: The server of a judge describes itself differently than when it gave the stored verdicts.
        """
        if not tasks:
            return []
        verdicts_by_task: list[list[Verdict]] = [[] for _ in tasks]
        for judge in self._judges:
            verdicts = self._verdicts_of(judge, tasks, unsure)
            for verdicts_on_task, verdict in zip(verdicts_by_task, verdicts, strict=True):
                verdicts_on_task.append(verdict)
        return verdicts_by_task

    def _verdicts_of(self, judge: Judge, tasks: Sequence[JudgeTask], unsure: int) -> list[Verdict]:
        """Return the verdicts of one judge on some tasks, and record how much work it had.

        Raises:
            ErrorBudgetError: Too many of its replies contain no verdict.
        """
        verdicts, calls = judge.ask(tasks, unsure)
        failures = [verdict for verdict in verdicts if verdict.failed]
        versions = dict.fromkeys(task.label for task in tasks)
        use = JudgeUse(
            judge=judge.name,
            version=", ".join(versions),
            replies=len(tasks),
            calls=calls,
            failed=len(failures),
            unsure=unsure,
        )
        self.uses.append(use)
        allowed = self.spec.failures
        if len(failures) > allowed * len(verdicts):
            first = failures[0]
            remedy = "score again to retry what failed"
            if first.outcome == "malformed":
                form = f": {' '.join(first.expected.split())!r}" if first.expected else ""
                remedy = (
                    f"make the judge reply in the form that its prompt (in that folder) asks for{form}, raise "
                    f"{for_caller('--judge-max-tokens', 'max_tokens')}, {remedy}"
                )
            limit = for_caller(f"--judge-failures {allowed:g}", f"failures={allowed:g}")
            raised = for_caller("--judge-failures", "failures: judge=sn.JudgeSpec(failures=...)")
            raise ErrorBudgetError(
                f"judge {judge.name} gave no verdict on {len(failures)} of {len(verdicts)} {_noun_for_tasks(tasks)} "
                f"({first.outcome}: {first.detail!r}), more than {limit}; its replies are in "
                f"{judge.folder}; {remedy}, use another judge, or raise {raised}"
            )
        return verdicts


def _count_replies(tasks: Sequence[JudgeTask]) -> int:
    """Return how many replies are judged. A judge may see each of them in several versions of its prompt."""
    replies = {(task.benchmark, task.sample_id, task.variant) for task in tasks}
    return len(replies)


def _noun_for_tasks(tasks: Sequence[JudgeTask]) -> str:
    """Return what a number of tasks counts, as a word of a message: replies, or prompts if there are several for a reply."""
    has_one_per_reply = _count_replies(tasks) == len(tasks)
    return "replies" if has_one_per_reply else "prompts"


def _describe_tasks(tasks: Sequence[JudgeTask]) -> str:
    """Return how much is judged, for people: `8 replies`, or `50 prompts (10 replies in 5 versions of the prompt)`."""
    text = f"{len(tasks):,} {_noun_for_tasks(tasks)}"
    n_replies = _count_replies(tasks)
    n_versions = len({task.label for task in tasks})
    if n_replies * n_versions == len(tasks) and n_versions > 1:
        text += f" ({n_replies:,} replies in {n_versions:,} versions of the prompt)"
    return text


class Judge:
    """A judge with the folder of its verdicts.

    Args:
        model: The model.
        run: Folder of the run.
        price: Price of a million tokens read and written, for the estimate of the cost.
        announce: Receives a line before and after requests.
        moved: Whether the user says that the judge is the same although its server states something else.
    """

    def __init__(
        self,
        model: Model | AsyncModel,
        run: Path,
        price: TokenPrice | None,
        announce: Callable[[str], object],
        *,
        moved: bool = False,
    ) -> None:
        """Prepare a judge model, and open the folder with its earlier verdicts on a run.

        Args:
            model: The model.
            run: The folder of the run.
            price: The price of its tokens, if the user gave one.
            announce: Receives lines for the user.
            moved: Whether the user says that it is the same model although its server describes itself differently.

        Raises:
            ModelError: The model only accepts batches.
            StoreError: The folder has verdicts of another model.
        """
        if sends_batches(model):
            raise ModelError(
                f"{model.name}: a judge is asked directly; remove batch=true from its model string"
            )
        self.name = model.name
        self._model = model
        self._price = price
        self._announce = announce
        self._moved = moved
        self._server_facts: dict[str, tuple[str, ...]] | None = None
        self._identity = identity_of(model)
        self.folder = _verdict_folder(run, self._identity)
        if not self.folder.exists():
            self.folder = _earlier_folder(run, self._identity, model.name) or self.folder
        check_identity(self.folder, model.name, self._identity.fingerprint)

    def ask(self, tasks: Sequence[JudgeTask], unsure: int = 0) -> tuple[list[Verdict], int]:
        """Return the judge's verdict on each task. Only tasks without a stored verdict are sent to the model.

        Args:
            tasks: For each reply, what the judge is asked.
            unsure: How many of the replies name an option that could not be read with certainty. Only for the message
                to the user.

        Returns:
            The verdicts, and the number of requests that were sent now.

        Raises:
            StoreError: The judge's server describes itself differently than when it gave the stored verdicts.
        """
        if self._server_facts is None:
            self._server_facts = self._check_servers()
        responses = stored_verdicts(self.folder)
        waiting: list[JudgeTask] = []
        rejected: set[str] = set()  # keys of requests whose replies led to no verdict
        for task in tasks:
            verdict = _verdict(task, responses)
            if verdict is None:
                waiting.append(task)
            elif verdict.failed:
                waiting.append(task)
                rejected.update(_requests_of(task, responses))
        if not waiting:
            return self._verdicts(tasks, responses), 0

        earlier = {key: reply for key, reply in responses.items() if key not in rejected}
        self._announce_estimate(tasks, waiting, earlier, unsure)
        calls = self._send(waiting, rejected)
        responses = stored_verdicts(self.folder, failures=True)
        verdicts = self._verdicts(tasks, responses)
        failed = sum(verdict.failed for verdict in verdicts)
        new_replies = [reply for key, reply in responses.items() if key not in earlier]
        tokens = _describe_usage(new_replies)
        start_up_key = _start_up_request().key
        was_tried = start_up_key in responses and start_up_key not in earlier
        trial = " after a trial call" if was_tried else ""
        self._announce(
            f"judge {self.name}: {calls:,} calls made{trial}{tokens}, {failed:,} {_noun_for_tasks(tasks)} without a verdict"
        )
        return verdicts, calls

    def _verdicts(
        self, tasks: Sequence[JudgeTask], responses: Mapping[str, Response]
    ) -> list[Verdict]:
        """Return the verdict on each task, from the responses to its requests."""
        never_asked = Verdict("error", detail="never asked")
        return [_verdict(task, responses) or never_asked for task in tasks]

    def _announce_estimate(
        self,
        tasks: Sequence[JudgeTask],
        waiting: Sequence[JudgeTask],
        responses: Mapping[str, Response],
        unsure: int,
    ) -> None:
        """Tell the user how many requests the judge will receive, and what they may cost.

        Args:
            tasks: All tasks.
            waiting: The tasks without a stored verdict.
            responses: The stored responses of the judge.
            unsure: How many of the replies name an option that could not be read with certainty.
        """
        # Imported here because most scorings have no judge, and forecasts take a while to import.
        from snellen.scoring.judge_costs import estimate_cost, pending_requests

        pending = [pending_requests(task.start(), responses) for task in waiting]
        start_up_request = _start_up_request()
        besides = [] if start_up_request.key in responses else [start_up_request]
        unsure_note = f" ({unsure:,} of them with an uncertain reading)" if unsure else ""
        self._announce(
            f"judge {self.name}: {_describe_tasks(tasks)}{unsure_note}, {len(tasks) - len(waiting):,} judged "
            f"earlier; {estimate_cost(pending, self._price, besides=besides)}"
        )

    def _check_servers(self) -> dict[str, tuple[str, ...]]:
        """Check that the judge's server describes itself as before.

        Returns:
            By the name of a fact, such as a version, all values that the server has stated.

        Raises:
            StoreError: It now states something else.
        """
        earlier = _stated_before(self.folder)
        now = query_servers({self.name: self._model}).get(self.name, {})
        changed = changed_server_fact(earlier, now)
        if changed and not self._moved:
            moved = for_caller("--judge-moved", "judge=sn.JudgeSpec(moved=True)")
            raise StoreError(
                f"{self.folder} contains verdicts of {self.name} from before its server changed what it reports "
                f"({changed}); if it is the same judge, add {moved}; otherwise serve it under another name, "
                "or remove that folder to judge everything again"
            )
        stated = dict(earlier)
        for fact, value in now.items():
            values = (*stated.get(fact, ()), value)
            stated[fact] = tuple(dict.fromkeys(values))
        return stated

    def _send(self, tasks: Sequence[JudgeTask], rejected: Collection[str]) -> int:
        """Send requests to the judge model until each task has a verdict or has failed.

        Args:
            tasks: For each reply, what the judge is asked.
            rejected: Keys of stored requests whose replies contain no verdict. They are sent again.

        Returns:
            The number of requests that were sent.
        """
        calls = 0

        def count(update: ProgressUpdate) -> None:
            nonlocal calls
            calls += update.requests

        judge = JudgeIdentity(
            self._identity.name, self._identity.fingerprint, self._server_facts or {}
        )
        write_atomically(self.folder / JUDGE, msgspec.json.encode(judge))
        with RunStore(self.folder, asked_again=rejected) as store:
            if isinstance(self._model, AsyncModel):
                from snellen.runs.async_driver import run_async

                run_async(_send_async(self._model, tasks, store, count))
                return calls
            request = _pending_start_up_request(store)
            if request is not None:
                response = self._model.generate([request], NO_IMAGES)[0]
                _check_start_up(store, request, self.name, response)
            drive(self._model, iter(tasks), store, progress=count)
        return calls


async def _send_async(
    model: AsyncModel, tasks: Sequence[JudgeTask], store: RunStore, count: ProgressCallback
) -> None:
    """Send requests to a judge. The first one checks that it answers at all."""
    from snellen.runs.async_driver import drive_async

    request = _pending_start_up_request(store)
    if request is not None:
        try:
            response = await model.ask(request, NO_IMAGES)
            _check_start_up(store, request, model.name, response)
        finally:
            await model.close()
    await drive_async(model, iter(tasks), store, progress=count)


# --- folders of verdicts ---------------------------------------------------------------------------------------------


def _verdict_folder(run: Path, judge: ModelIdentity) -> Path:
    """Return the folder in a run for the verdicts of a judge, `judge-<name>-<digest of the judge>`."""
    identity = msgspec.json.encode(judge, order="sorted")
    digest = hashlib.blake2b(identity, digest_size=4).hexdigest()
    return run / f"judge-{slug(judge.name)[:60]}-{digest}"


def read_judge(folder: Path) -> JudgeIdentity:
    """Return the judge of a folder of verdicts. Raises StoreError if its file cannot be read."""
    path = folder / JUDGE
    try:
        return msgspec.json.decode(read_file(path), type=JudgeIdentity)
    except OSError as error:
        fault = str(error.strerror)
    except JSON_FAULTS as error:
        fault = str(error)
    raise StoreError(f"cannot read {path} ({fault}); move {folder} away to ignore this judge")


def _stated_before(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return what the judge's server stated about itself when it gave the verdicts in a folder; empty if not known."""
    with suppress(OSError, *JSON_FAULTS):
        return msgspec.json.decode(read_file(folder / JUDGE), type=JudgeIdentity).servers
    return {}


def _earlier_folder(run: Path, judge: ModelIdentity, model: str) -> Path | None:
    """Return the folder of verdicts that an earlier version of Snellen made for this judge, or None.

    Args:
        run: Folder of the run.
        judge: The judge.
        model: Its model string with its address.
    """
    earlier = earlier_fingerprints(judge.fingerprint)
    without_address = []
    if _was_used_in_run(run, model):
        for fingerprint in (judge.fingerprint, *earlier):
            facts = {name: fact for name, fact in fingerprint.items() if name != ADDRESS}
            without_address.append(facts)
    for fingerprint in (*earlier, *without_address):
        folder = _verdict_folder(run, replace(judge, fingerprint=fingerprint))
        if folder.exists():
            return folder
    return None


class _StoredJudge(Struct, frozen=True):
    """The judges of a stored scoring; a part of `StoredScoring`."""

    judge: JudgeSpec


def _was_used_in_run(run: Path, judge: str) -> bool:
    """Return whether an earlier scoring of a run used a judge model at this address.

    Earlier versions of Snellen did not store the address with the verdicts, but with the scoring.
    """
    for path in run.glob("scores/*/scoring.json"):
        with suppress(OSError, *JSON_FAULTS):
            scoring = msgspec.json.decode(read_file(path), type=_StoredJudge)
            addresses = [address_of(model) for model in scoring.judge.models]
            if address_of(judge) in addresses:
                return True
    return False


# --- the check before the first task ---------------------------------------------------------------------------------


def _start_up_check() -> JudgeMatching:
    """Return an easy task that every working judge can do. It shows whether the judge answers at all."""
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


def _start_up_request() -> Request:
    """Return the request of the start-up check, the first one that a judge receives in a run."""
    [request, *_] = next(_start_up_check().start())
    return request


def _pending_start_up_request(store: RunStore) -> Request | None:
    """Return the request of the start-up check, or None if this judge has already answered it."""
    request = _start_up_request()
    if store.find(_start_up_check().label, request) is None:
        return request
    return None


def _check_start_up(store: RunStore, request: Request, judge: str, response: Response) -> None:
    """Store the response to the first request. Raises ModelError if it failed."""
    store.append([Exchange(_start_up_check().label, request, response)])
    if response.error is not None:
        raise ModelError(
            f"judge {judge} failed ({response.error.kind}: {response.error.detail}), and nothing was scored; "
            f"correct the problem, or score without {setting('judge')}"
        )


# --- stored verdicts -------------------------------------------------------------------------------------------------


def stored_verdicts(folder: Path, *, failures: bool = False) -> dict[str, Response]:
    """Return the latest responses of a judge by request key.

    Args:
        folder: Folder of its verdicts.
        failures: Whether to include failures of requests that were never answered.
    """
    responses: dict[str, Response] = {}
    for exchange in read_exchanges(folder):
        key = exchange.request.key
        response = exchange.response
        if response.error is None or (failures and key not in responses):
            responses[key] = response
    return responses


def _verdict(task: JudgeTask, responses: Mapping[str, Response]) -> Verdict | None:
    """Return the verdict to which responses (by request key) lead; None if one is missing."""
    return replay_verdict(task.start(), lambda request: responses.get(request.key))


def _requests_of(task: JudgeTask, responses: Mapping[str, Response]) -> list[str]:
    """Return the keys of the requests that led to the stored outcome of a task."""
    keys: list[str] = []

    def find(request: Request) -> Response | None:
        keys.append(request.key)
        return responses.get(request.key)

    replay_verdict(task.start(), find)
    return keys


def _describe_usage(responses: Iterable[Response]) -> str:
    """Return the tokens of responses as text, or an empty string if the judge does not count them."""
    usage = sum_usage(responses)
    if not usage:
        return ""
    return f" ({usage_text(usage)}, as counted by the judge)"
