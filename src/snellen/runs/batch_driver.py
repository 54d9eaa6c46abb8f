"""The driver of models whose requests are submitted in batches.

All items wait together: what they ask next is one wave, which is submitted as a batch, or as several where the service
limits their size. When its replies have come, the items go on, and what they ask then is the next wave. A dialogue of
three turns therefore takes three batches.

A session ends without its replies if it may not wait, is interrupted or is killed. The next one finds the batches in
the folder of the run (`batch_ledger`), and submits only what is in none of them.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import cast

from msgspec import Struct

from snellen.callers import setting
from snellen.common.foreign import without_secrets
from snellen.common.images import Images
from snellen.common.paths import shell_word
from snellen.errors import DataError, ModelError, PendingBatchesError, StoreError
from snellen.fetching.attendance import attendance
from snellen.formats.json_files import JSON_FAULTS
from snellen.models.base import AsyncModel, Model, failed, sends_batches
from snellen.models.batches import (
    MEGABYTE,
    BatchEndpoint,
    BatchError,
    BatchingModel,
    BatchState,
    batched_response,
    unfinished,
)
from snellen.models.connections import HttpReply
from snellen.models.server_faults import ServerFault
from snellen.records import (
    BATCH_HOURS,
    EVALUATED,
    Exchange,
    Request,
    Response,
    Usage,
    in_batch,
)
from snellen.runs.async_driver import EventLoop, in_batches
from snellen.runs.batch_ledger import (
    MOST_NAMED,
    Acceptance,
    BatchLedger,
    Count,
    Loss,
    RunBatch,
    Submission,
)
from snellen.runs.drivers import (
    NO_BUDGET,
    ActiveItem,
    ProgressCallback,
    RunBudget,
    WorkItem,
    ask_together,
    check_response,
    cost_of,
    finished_questions,
    played_role,
    sent_since,
)
from snellen.runs.forecast import Amount
from snellen.runs.run_store import RunStore

FIRST_PAUSE = 1.0
"""Seconds between the first two queries of a batch's state."""
LONGEST_PAUSE = 60.0
MOST_ATTEMPTS = 3
"""How often a session submits a request that fails for a temporary reason."""


class WaitingRequest(Struct, frozen=True):
    """A request without a response yet."""

    active: ActiveItem
    index: int
    """Index of the request in the item's wave."""

    @property
    def request(self) -> Request:
        return self.active.requests[self.index]

    @property
    def images(self) -> Images:
        return self.active.item.images


class SentBatch(Struct):
    """An open batch and its last known state."""

    batch: RunBatch
    state: BatchState | None = None

    @property
    def sentence(self) -> str:
        """The state of the batch in words: `batch_1: in_progress, 20 of 400 requests finished`."""
        n_requests = len(self.batch.keys)
        if self.state is None:
            return f"{self.batch.id}: submitted with {n_requests:,} requests"
        finished = f"{self.state.finished:,} of {n_requests:,} requests finished"
        return f"{self.batch.id}: {self.state.word}, {finished}"


def drive_batches(
    model: Model | AsyncModel,
    items: Iterator[WorkItem],
    store: RunStore,
    *,
    roles: Mapping[str, Model | AsyncModel],
    budget: RunBudget = NO_BUDGET,
    progress: ProgressCallback = lambda update: None,
    waits: bool = True,
) -> None:
    """Run all items with models of which at least one submits batches.

    Args:
        model: The evaluated model.
        items: The items to run.
        store: Stores replies, with the ledger of batches in the same folder.
        roles: The other models, by role.
        budget: Limits the requests to send.
        progress: Receives an update for each finished question.
        waits: Whether to wait for the replies. Otherwise only finished batches are fetched.

    Raises:
        PendingBatchesError: Batches have not ended, and `waits` is False.
        ModelError: A model is unusable.
        StoreError: The folder has batches of another model.
    """
    models = {EVALUATED: model, **roles}
    with ExitStack() as stack:
        loop = stack.enter_context(EventLoop())
        direct_models = {role: each for role, each in models.items() if not sends_batches(each)}
        direct = stack.enter_context(in_batches(direct_models))
        ledger = BatchLedger(store.folder)
        senders: dict[str, BatchSender] = {}
        for role, each in models.items():
            if role not in direct:
                batched = cast(BatchingModel, each)
                stack.callback(_close, batched, loop)
                senders[role] = BatchSender(role, batched, store, ledger, budget, progress, loop)

        live: list[ActiveItem] = []
        for item in items:
            active = ActiveItem(item)
            if active.advance(store):
                live.append(active)
            else:
                progress(finished_questions(item, is_stored=True))
        while live and not budget.spent:
            waiting = _waiting_by_role(live, models)
            for role, direct_model in direct.items():
                _ask_directly(direct_model, waiting[role], store, budget, progress)
            pending = {role: sender for role, sender in senders.items() if waiting[role]}
            for role, sender in pending.items():
                sender.begin(waiting[role])
            try:
                _collect(list(pending.values()), store, waits=waits)
            except KeyboardInterrupt as interruption:
                sentence = _pending_sentence(list(pending.values()), store)
                attendance().say(sentence)
                interruption.add_note(sentence)
                raise
            live = _advanced(live, store, progress)


def _close(model: BatchingModel, loop: EventLoop) -> None:
    loop.run(model.close())


def _advanced(
    live: Iterable[ActiveItem], store: RunStore, progress: ProgressCallback
) -> list[ActiveItem]:
    """Advance items with the responses that have arrived, and return those that are not finished."""
    unfinished_items = []
    for active in live:
        if active.advance(store):
            unfinished_items.append(active)
        else:
            progress(finished_questions(active.item, is_stored=False))
    return unfinished_items


def _waiting_by_role(
    live: Iterable[ActiveItem], models: Mapping[str, object]
) -> dict[str, list[WaitingRequest]]:
    """Return the requests that have no response yet, by the role of the model that is to answer them.

    Args:
        live: Samples that are being evaluated.
        models: The model in each role, such as the evaluated model and a judge.
    """
    waiting: dict[str, list[WaitingRequest]] = {role: [] for role in models}
    for active in live:
        for index in active.missing():
            role = played_role(active.requests[index].role, models)
            waiting[role].append(WaitingRequest(active, index))
    return waiting


def _ask_directly(
    model: Model,
    waiting: list[WaitingRequest],
    store: RunStore,
    budget: RunBudget,
    progress: ProgressCallback,
) -> None:
    """Send requests to a model that does not accept batches, some at a time.

    Requests of the same kind and with the same source of images are sent together.

    Args:
        model: The model.
        waiting: The requests.
        store: Stores the responses.
        budget: Stops sending when it is spent.
        progress: Is called with the number of finished questions.
    """

    def kind_and_images(pending: WaitingRequest) -> tuple[str, int]:
        return pending.request.kind, id(pending.images)

    for _, group in itertools.groupby(waiting, key=kind_and_images):
        requests = list(group)
        size = max(model.batch_size, 1)
        for start in range(0, len(requests), size):
            part = requests[start : start + size]
            pairs = [(pending.active, pending.index) for pending in part]
            ask_together(model, part[0].request.kind, pairs, store, budget, progress)


def _collect(senders: list[BatchSender], store: RunStore, *, waits: bool) -> None:
    """Fetch and submit batches until each request of the wave has a reply or a failure."""
    pause = FIRST_PAUSE
    while True:
        has_news = False
        for sender in senders:
            has_news |= sender.advance()
        pending = [sender for sender in senders if sender.is_waiting]
        if not pending:
            return
        if not waits:
            raise _pending_error(pending, store)
        if has_news:
            pause = FIRST_PAUSE
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _pending_error(pending: list[BatchSender], store: RunStore) -> PendingBatchesError:
    """Return the error that a run raises if it stops while the service still works on some of its batches."""
    ids = []
    for sender in pending:
        ids.extend(sent_batch.batch.id for sent_batch in sender.open.values())
    return PendingBatchesError(_pending_sentence(pending, store), ids)


def _pending_sentence(pending: list[BatchSender], store: RunStore) -> str:
    """Return which batches have not ended, and how to resume or cancel them."""
    sent: list[SentBatch] = []
    for sender in pending:
        sent.extend(sender.open.values())
    if not sent:
        return "no batch is open; repeat the command to continue"
    named = "; ".join(sent_batch.sentence for sent_batch in sent[:MOST_NAMED])
    if len(sent) > MOST_NAMED:
        named += f"; and {len(sent) - MOST_NAMED} more"
    folder = shell_word(store.folder)
    return (
        f"not finished: {named}; repeat the command to fetch the replies (batches take up to {BATCH_HOURS} hours), or cancel "
        f"with `snellen batches {folder} --cancel`"
    )


class BatchSender:
    """Submits the requests of one role, and fetches their replies.

    Args:
        role: The role.
        model: Its model.
        store: Stores replies.
        ledger: Stores which batches were submitted.
        budget: Limits the requests to send.
        progress: Receives an update for each reply.
        loop: Event loop of the model's connections.
    """

    def __init__(
        self,
        role: str,
        model: BatchingModel,
        store: RunStore,
        ledger: BatchLedger,
        budget: RunBudget,
        progress: ProgressCallback,
        loop: EventLoop,
    ) -> None:
        """Prepare to send the requests of one role in batches, and continue the batches of an earlier session.

        Args:
            role: The role of the model in the run.
            model: The model.
            store: Stores the responses.
            ledger: The file that records which batches were submitted.
            budget: Stops sending when it is spent.
            progress: Is called with each response.
            loop: Runs the asynchronous calls of the model.

        Raises:
            ModelError: The model does not accept batches.
            StoreError: The earlier batches are those of another model.
        """
        if model.batch_endpoint is None:
            raise ModelError(f"{model.name} does not submit batches")
        self._role = role
        self._model = model
        self._endpoint: BatchEndpoint = model.batch_endpoint
        self._store = store
        self._ledger = ledger
        self._budget = budget
        self._progress = progress
        self._loop = loop
        self._author = store.authors.get(role, "")
        self._attempts = Counter[str]()
        self._waiting: dict[str, list[WaitingRequest]] = {}
        """Requests of the wave without a reply, by key."""
        self._most_requests = self._endpoint.limits.requests
        self._one_at_a_time = False
        """Whether only one batch may be open at a time, because the account's queue was full."""
        self._granted: set[str] = set()
        """Keys of requests that are already charged to the budget but not submitted."""
        self._strangers: list[str] = []
        """Ids of batches that were mistaken for a batch of this run."""
        self._was_tried = False
        """Whether a request of this session was sent directly."""
        self.open: dict[str, SentBatch] = {}
        """Open batches, by mark."""
        for batch in ledger.of_role(role):
            if batch.submission.author != self._author:
                raise StoreError(
                    f"{store.folder} has batches of another model in {self._ledger.path.name}; choose another "
                    f"{setting('name')}"
                )
            if batch.is_open:
                self._recover(batch)

    # --- batches of earlier sessions ---

    def _recover(self, batch: RunBatch) -> None:
        """Register an open batch of an earlier session. If its id is unknown, look for it at the service."""
        submission = batch.submission
        if not batch.id:
            try:
                found_batch = self._find_batch_id(submission)
            except BatchError as error:
                raise ModelError(
                    f"{error}; a batch may have been submitted when an earlier command was killed, and the service "
                    f"does not list its batches; if it has none, remove the last line of {self._ledger.path}"
                ) from None
            if not found_batch:
                self._ledger.add(Loss(submission.mark, "it never reached the service"))
                return
            self._ledger.add(Acceptance(submission.mark, found_batch))
        self.open[submission.mark] = SentBatch(batch)
        self._announce(
            f"found batch {batch.id}, submitted earlier with {len(batch.keys):,} requests"
        )

    def _find_batch_id(self, submission: Submission) -> str:
        """Ask the service for the identifier of a batch whose submission it did not confirm.

        Batches that are known already are excluded.

        Returns:
            The identifier; empty if the service has no such batch.
        """
        known_ids = [*self._ledger.ids(), *submission.earlier, *self._strangers]
        return self._loop.run(
            self._endpoint.find(submission.mark, submission.since, len(submission.keys), known_ids)
        )

    # --- one wave ---

    def begin(self, waiting: Iterable[WaitingRequest]) -> None:
        """Begin a wave of requests that have no reply in the store."""
        self._waiting = {}
        for pending in waiting:
            self._waiting.setdefault(pending.request.key, []).append(pending)
        for batch in self._ledger.of_role(self._role):
            if batch.word:
                self._take(batch)

    @property
    def is_waiting(self) -> bool:
        """Whether requests of the wave are in open batches."""
        return bool(self._waiting) and bool(self.open)

    def advance(self) -> bool:
        """Fetch finished batches, and submit requests that are in no batch. Returns whether a batch has changed."""
        has_news = False
        for mark, sent in list(self.open.items()):
            earlier = sent.state
            sent.state = self._ask_state(sent)
            if sent.state is None:
                continue
            if earlier is None or sent.state.word != earlier.word:
                has_news = True
                self._announce(sent.sentence)
            if sent.state.status == "running":
                continue
            if sent.state.status == "failed":
                del self.open[mark]
                self._submit_again_in_smaller_batches(sent)
                continue
            try:
                content = self._loop.run(self._endpoint.results(sent.batch.id))
            except BatchError as error:
                if not error.fault.retry:
                    raise
                self._announce(f"{error}; asking again")
                continue
            del self.open[mark]
            self._fetch(sent, content)
        if self._submit_rest():
            has_news = True
        return has_news

    def _ask_state(self, sent: SentBatch) -> BatchState | None:
        """Return the state of a batch, or the last known state if the service cannot be reached at the moment."""
        try:
            return self._loop.run(self._endpoint.state(sent.batch.id))
        except BatchError as error:
            if not error.fault.retry:
                raise
            self._announce(f"{error}; asking again")
            return sent.state

    def _submit_again_in_smaller_batches(self, sent: SentBatch) -> None:
        """Handle a batch that the service refused because its queue is full: later batches have half as many requests.

        The requests of the batch wait again.

        Raises:
            ModelError: The batch was refused for another reason, or cannot be made smaller.
        """
        state = sent.state
        if state is None:
            return
        self._ledger.add(Loss(sent.batch.submission.mark, state.detail))
        count = len(sent.batch.keys)
        if not state.is_overfull or count == 1:
            raise ModelError(
                f"{self._model.name}: batch {sent.batch.id} was refused: {without_secrets(state.detail)}"
            )
        self._granted |= sent.batch.keys & self._waiting.keys()
        self._one_at_a_time = True
        self._most_requests = max(1, count // 2)
        self._announce(
            f"batch {sent.batch.id} was refused ({without_secrets(state.detail)}); submitting at most "
            f"{self._most_requests:,} requests at once"
        )

    def _fetch(self, sent: SentBatch, content: bytes) -> None:
        """Store the results of a finished batch, and pass its replies to the requests that wait for them.

        If none of the results belongs to this batch, it was found by mistake and belongs to another program. Then the
        service is asked for the right one, and if there is none, the requests are sent again.
        """
        content = without_secrets(content.decode("utf-8", "replace")).encode()
        word = sent.state.word if sent.state else "ended"
        batch = sent.batch
        keys = set()
        for line in content.split(b"\n"):
            if line.strip():
                keys.add(self._read(batch, line)[0])
        if keys and not keys & batch.keys:
            # It was found by its time and size, but belongs to another program.
            self._strangers.append(batch.id)
            found_batch = self._find_batch_id(batch.submission)
            if found_batch:
                self._ledger.add(Acceptance(batch.submission.mark, found_batch))
                self.open[batch.submission.mark] = SentBatch(batch)
                return
            self._ledger.add(Loss(batch.submission.mark, f"{batch.id} is another batch"))
            self._granted |= batch.keys & self._waiting.keys()
            return
        self._ledger.keep_results(batch, content, word)
        self._take(batch)

    def _read(self, batch: RunBatch, line: bytes) -> tuple[str, HttpReply | ServerFault]:
        """Return the key and the outcome in one line of a batch's results. Raises ModelError."""
        try:
            result = self._endpoint.read(line)
        except (*JSON_FAULTS, ValueError) as error:
            raise ModelError(
                f"{self._model.name}: a result of batch {batch.id} cannot be read: {error}"
            ) from None
        return result.key, result.outcome

    def _take(self, batch: RunBatch) -> None:
        """Pass the results of a finished batch to the requests that wait for them.

        A request without a result counts as unfinished.
        """
        wanted = batch.keys & self._waiting.keys()
        if wanted:
            outcomes: dict[str, HttpReply | ServerFault] = dict.fromkeys(
                wanted, unfinished(batch.word)
            )
            for line in self._ledger.results(batch):
                key, outcome = self._read(batch, line)
                if key in wanted:
                    outcomes[key] = outcome
            for key, outcome in outcomes.items():
                self._settle(batch, key, outcome)
        if not batch.is_counted:
            self._ledger.add(Count(batch.submission.mark))

    def _settle(self, batch: RunBatch, key: str, outcome: HttpReply | ServerFault) -> None:
        """Store the reply to a request, or its failure. After a temporary failure the request remains to be submitted."""
        request = self._waiting[key][0].request
        form = batch.submission.form
        result: Response | ServerFault
        if isinstance(outcome, HttpReply):
            result = self._model.read_batched(request, outcome, form)
        else:
            result = outcome
        if isinstance(result, Response):
            self._keep(key, batched_response(result, batch.id))
            return
        if batch.is_counted:  # it failed in an earlier session; this session sends it again
            return
        self._attempts[key] += 1
        if result.rejected_parameter:
            if form != self._model.batch_form or self._model.adapt_batches(result):
                return
        elif result.retry and self._attempts[key] < MOST_ATTEMPTS:
            return
        self._keep(key, failed(result.kind, result.detail, self._attempts[key]))
        if result.fatal:
            raise ModelError(f"{self._model.name}: {result.detail}")

    def _keep(self, key: str, response: Response) -> None:
        """Store the response to a request, and pass it to every question that waits for the same request.

        Args:
            key: The key of the request.
            response: The response or failure.
        """
        first, *other_presentations = self._waiting.pop(key)
        self._granted.discard(key)
        before = self._store.counts
        response = check_response(first.request, response)
        self._store.append([Exchange(first.active.label, first.request, response)])
        self._budget.settle(response)
        first.active.responses[first.index] = response
        for other in other_presentations:
            shared = self._store.share(other.active.label, other.request, response)
            other.active.responses[other.index] = shared
        self._progress(sent_since(self._store, before))

    # --- submitting ---

    def _submit_rest(self) -> bool:
        """Submit the requests that are in no open batch. Returns whether any were sent."""
        in_batches_now: set[str] = set()
        for sent in self.open.values():
            in_batches_now |= sent.batch.keys
        rest = [key for key in self._waiting if key not in in_batches_now]
        if not rest or (self._one_at_a_time and self.open):
            return False
        allowed = []
        for key in rest:
            if key in self._granted or self._budget.take():
                self._granted.add(key)
                allowed.append(key)
            else:
                del self._waiting[key]
        if not allowed:
            return False
        if not self._was_tried:
            self._was_tried = True
            self._try_directly(allowed.pop(0), more=len(allowed))
        lines = list[bytes]()
        keys = list[str]()
        size = self._endpoint.overhead
        for key in allowed:
            line = self._line(key)
            if line is None:
                continue
            is_full = size + len(line) > self._endpoint.limits.size
            if keys and (is_full or len(keys) == self._most_requests):
                self._submit(keys, lines)
                lines = list[bytes]()
                keys = list[str]()
                size = self._endpoint.overhead
                if self._one_at_a_time:
                    return True
            lines.append(line)
            keys.append(key)
            size += len(line)
        if keys:
            self._submit(keys, lines)
        return True

    def _try_directly(self, key: str, more: int) -> None:
        """Send one request without a batch, to find out whether the model accepts it.

        In a batch, a wrong key, name or setting would show only after hours.

        Args:
            key: The key of the request.
            more: The number of requests that will follow in batches. If there are any, the user is told.
        """
        waiting = self._waiting[key][0]
        if more:
            self._announce(
                "sending one request directly, at the full price, to see that the model accepts it"
            )
        response = self._loop.run(self._model.ask(waiting.request, waiting.images))
        self._keep(key, response)

    def _line(self, key: str) -> bytes | None:
        """Encode a request as a line of a batch file.

        Returns:
            The line; None if the request cannot be sent in a batch, such as one that is too large. Its failure is then
            stored.
        """
        waiting = self._waiting[key][0]
        try:
            body = self._loop.run(self._model.batch_body(waiting.request, waiting.images))
        except DataError as error:
            self._keep(key, failed("bad_request", str(error)))
            return None
        line = self._endpoint.line(key, body)
        max_bytes = self._endpoint.limits.size - self._endpoint.overhead
        if len(line) > max_bytes:
            detail = f"the request has {len(line):,} bytes, and a batch may have {max_bytes:,}"
            self._keep(key, failed("bad_request", detail))
            return None
        return line

    def _submit(self, keys: list[str], lines: list[bytes]) -> None:
        """Submit a batch, recording it in the ledger before and after."""
        mark = uuid.uuid4().hex
        since = time.time()
        submission = Submission(
            mark,
            self._role,
            self._author,
            self._model.batch_form,
            tuple(keys),
            since,
            self._earlier_batch_ids(since),
        )
        known_ids = [*self._ledger.ids(), *submission.earlier]
        self._ledger.add(submission)
        try:
            batch_id = self._loop.run(
                self._endpoint.submit(lines, mark, submission.since, known_ids)
            )
        except BatchError as error:
            if not error.fault.retry:  # it was refused; otherwise it may have arrived
                self._ledger.add(Loss(mark, "the service refused it"))
            raise
        self._ledger.add(Acceptance(mark, batch_id))
        self._granted.difference_update(keys)
        batch = self._ledger.batch(mark)
        self.open[mark] = SentBatch(batch)
        megabytes = sum(map(len, lines)) / MEGABYTE
        self._announce(
            f"submitted batch {batch_id} with {len(keys):,} requests ({megabytes:,.1f} MB){self._likely_cost(keys)}; "
            f"replies take up to {BATCH_HOURS} hours; stopping this command does not stop the batch, and the same command "
            "fetches its replies"
        )

    def _earlier_batch_ids(self, since: float) -> tuple[str, ...]:
        """Return ids of the account's batches that could be mistaken for the next one; empty if the service lists none."""
        try:
            return tuple(self._loop.run(self._endpoint.earlier(since)))
        except BatchError:
            return ()

    def _likely_cost(self, keys: list[str]) -> str:
        """Return the estimated price of these requests as the end of a sentence; "" if no price is known."""
        price = self._budget.price
        if price is None:
            return ""
        amount = Amount()
        for key in keys:
            amount = amount.plus(self._waiting[key][0].request)
        usage = in_batch(Usage(amount.input_tokens, amount.output_tokens))
        return f", about {cost_of(usage, price):,.3g} at half the price given"

    def _announce(self, line: str) -> None:
        attendance().say(f"{self._model.name}: {line}")


def batch_states(
    model: BatchingModel, batches: Iterable[RunBatch], *, cancels: bool
) -> Iterator[tuple[RunBatch, BatchState]]:
    """Yield the state of each batch. Those that have not ended are cancelled before if `cancels` is True.

    Raises:
        ModelError: The service does not know a batch, or cannot be reached.
    """
    endpoint = model.batch_endpoint
    if endpoint is None:
        raise ModelError(f"{model.name} does not submit batches; add batch=true")
    with EventLoop() as loop:
        try:
            for batch in batches:
                state = loop.run(endpoint.state(batch.id))
                if cancels and state.status == "running":
                    loop.run(endpoint.cancel(batch.id))
                    state = loop.run(endpoint.state(batch.id))
                yield batch, state
        finally:
            loop.run(model.close())
