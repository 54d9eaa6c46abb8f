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
from snellen.fetching.user_callbacks import user_callbacks
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
    RequestKind,
    Response,
    Usage,
    in_batch,
)
from snellen.runs.async_driver import EventLoop, synchronous_models
from snellen.runs.batch_ledger import (
    MAX_NAMED_BATCHES,
    BatchAcceptance,
    BatchLedger,
    CountedFailures,
    LostBatch,
    RunBatch,
    Submission,
)
from snellen.runs.drivers import (
    NO_BUDGET,
    ActiveItem,
    ProgressCallback,
    RunBudget,
    WorkItem,
    check_response,
    checked_role,
    cost_of,
    progress_of_finished,
    progress_since,
    send_together,
)
from snellen.runs.forecast import Amount
from snellen.runs.run_store import RunStore

FIRST_PAUSE_SECONDS = 1.0
"""Seconds between the first two queries of a batch's state."""
LONGEST_PAUSE_SECONDS = 60.0
MAX_ATTEMPTS = 3
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
    """A batch whose results have not been fetched, and its last known state."""

    batch: RunBatch
    state: BatchState | None = None

    @property
    def description(self) -> str:
        """The state of the batch for the user, such as `batch_1: in_progress, 20 of 400 requests finished`."""
        n_requests = len(self.batch.keys)
        if self.state is None:
            return f"{self.batch.id}: submitted with {n_requests:,} requests"
        status = self.state.service_status
        n_finished = self.state.finished
        return f"{self.batch.id}: {status}, {n_finished:,} of {n_requests:,} requests finished"


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
    """Run all items with models, at least one of which submits its requests in batches.

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
        direct_models: dict[str, Model | AsyncModel] = {}
        batching_models: dict[str, BatchingModel] = {}
        for role, each in models.items():
            if sends_batches(each):
                batching_models[role] = cast(BatchingModel, each)
            else:
                direct_models[role] = each
        synchronous = stack.enter_context(synchronous_models(direct_models))
        ledger = BatchLedger(store.folder)
        senders: dict[str, BatchSender] = {}
        for role, batching_model in batching_models.items():
            stack.callback(_close, batching_model, loop)
            senders[role] = BatchSender(
                role=role,
                model=batching_model,
                store=store,
                ledger=ledger,
                budget=budget,
                progress=progress,
                loop=loop,
            )

        unfinished_items: list[ActiveItem] = []
        for item in items:
            active = ActiveItem(item)
            if active.advance(store):
                unfinished_items.append(active)
            else:
                progress(progress_of_finished(item, is_stored=True))

        while unfinished_items and not budget.exhausted_by:
            waiting = _waiting_by_role(unfinished_items, models)
            for role, direct_model in synchronous.items():
                _send_directly(direct_model, waiting[role], store, budget, progress)
            pending_senders = []
            for role, sender in senders.items():
                if waiting[role]:
                    sender.begin_wave(waiting[role])
                    pending_senders.append(sender)
            try:
                _wait_for_replies(pending_senders, store, waits=waits)
            except KeyboardInterrupt as interruption:
                message = _describe_pending(pending_senders, store)
                user_callbacks().say(message)
                interruption.add_note(message)
                raise
            unfinished_items = _advance_all(unfinished_items, store, progress)


def _close(model: BatchingModel, loop: EventLoop) -> None:
    loop.run(model.close())


def _advance_all(
    active_items: Iterable[ActiveItem], store: RunStore, progress: ProgressCallback
) -> list[ActiveItem]:
    """Pass the responses that have arrived to the units of work that wait for them.

    A unit of work is, for example, a sample under a protocol.

    Args:
        active_items: The units of work.
        store: Has the responses.
        progress: Is called for each unit of work that is finished now.

    Returns:
        The units of work that are not finished, because they need further responses.
    """
    unfinished_items = []
    for active in active_items:
        if active.advance(store):
            unfinished_items.append(active)
        else:
            progress(progress_of_finished(active.item, is_stored=False))
    return unfinished_items


def _waiting_by_role(
    active_items: Iterable[ActiveItem], models: Mapping[str, object]
) -> dict[str, list[WaitingRequest]]:
    """Return the requests that have no response yet, by the role of the model that is to answer them.

    Args:
        active_items: The samples that are being evaluated.
        models: The model in each role, such as the evaluated model and a judge.
    """
    waiting: dict[str, list[WaitingRequest]] = {role: [] for role in models}
    for active in active_items:
        for index in active.missing_indices():
            role = checked_role(active.requests[index].role, models)
            waiting[role].append(WaitingRequest(active, index))
    return waiting


def _send_directly(
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
        budget: Stops sending when one of its limits is reached.
        progress: Is called with the number of finished questions.
    """

    def kind_and_images(pending: WaitingRequest) -> tuple[RequestKind, int]:
        return pending.request.kind, id(pending.images)

    size = max(model.batch_size, 1)
    for (kind, _), group in itertools.groupby(waiting, key=kind_and_images):
        items_and_indices = [(pending.active, pending.index) for pending in group]
        for start in range(0, len(items_and_indices), size):
            part = items_and_indices[start : start + size]
            send_together(model, kind, part, store, budget, progress)


def _wait_for_replies(senders: list[BatchSender], store: RunStore, *, waits: bool) -> None:
    """Submit and fetch batches until each request of the present wave has a reply or a failure.

    The service is queried again and again, with pauses that become longer as long as no batch changes its state.

    Args:
        senders: Submit and fetch the batches of one role each.
        store: The store of the run, whose folder the message of the error names.
        waits: Whether to wait until the service has finished. If not, an unfinished batch is an error.

    Raises:
        PendingBatchesError: A batch is not finished, and `waits` is False.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        has_changed = False
        for sender in senders:
            if sender.fetch_and_submit():
                has_changed = True
        pending = [sender for sender in senders if sender.is_waiting]
        if not pending:
            return
        if not waits:
            raise _pending_error(pending, store)
        if has_changed:
            pause = FIRST_PAUSE_SECONDS
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _pending_error(pending: list[BatchSender], store: RunStore) -> PendingBatchesError:
    """Return the error that a run raises if it stops while the service still works on some of its batches."""
    ids = []
    for sender in pending:
        ids.extend(sent_batch.batch.id for sent_batch in sender.open.values())
    return PendingBatchesError(_describe_pending(pending, store), ids)


def _describe_pending(pending: list[BatchSender], store: RunStore) -> str:
    """Return a message that says which batches have not ended, and how to resume or cancel them."""
    sent: list[SentBatch] = []
    for sender in pending:
        sent.extend(sender.open.values())
    if not sent:
        return "no batch is open; repeat the command to continue"
    named = "; ".join(sent_batch.description for sent_batch in sent[:MAX_NAMED_BATCHES])
    n_unnamed = len(sent) - MAX_NAMED_BATCHES
    if n_unnamed > 0:
        named += f"; and {n_unnamed} more"
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
            budget: Stops sending when one of its limits is reached.
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
        """Requests of the present wave that have no reply, by key. Equal requests of several samples have one key."""
        self._max_requests_per_batch = self._endpoint.limits.requests
        self._one_at_a_time = False
        """Whether only one batch may be open at a time, because the account's queue was full."""
        self._charged_keys: set[str] = set()
        """Keys of requests that are already charged to the budget but not submitted."""
        self._foreign_batch_ids: list[str] = []
        """Ids of batches that were mistaken for a batch of this run."""
        self._was_one_sent_directly = False
        """Whether a request of this session was sent directly."""
        self.open: dict[str, SentBatch] = {}
        """Batches whose results have not been fetched, by the id of their submission."""
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
        """Register an open batch of an earlier session. If its id is unknown, look for it at the service.

        The id is unknown if the earlier session was killed before the service confirmed the submission.

        Raises:
            ModelError: The service cannot say whether it has the batch.
        """
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
                self._ledger.add(
                    LostBatch(submission.submission_id, "it never reached the service")
                )
                return
            self._ledger.add(BatchAcceptance(submission.submission_id, found_batch))
        self.open[submission.submission_id] = SentBatch(batch)
        self._announce(
            f"found batch {batch.id}, submitted earlier with {len(batch.keys):,} requests"
        )

    def _find_batch_id(self, submission: Submission) -> str:
        """Ask the service for the id of a batch whose submission it did not confirm.

        Batches with a known id are other batches, so they are left out.

        Returns:
            The id; empty if the service has no such batch.
        """
        known_ids = [*self._ledger.ids(), *submission.earlier, *self._foreign_batch_ids]
        n_requests = len(submission.keys)
        search = self._endpoint.find(
            submission.submission_id, submission.since, n_requests, known_ids
        )
        return self._loop.run(search)

    # --- one wave ---

    def begin_wave(self, waiting: Iterable[WaitingRequest]) -> None:
        """Take on the requests that the protocols need next, and answer those that are in finished batches already."""
        self._waiting = {}
        for pending in waiting:
            self._waiting.setdefault(pending.request.key, []).append(pending)
        for batch in self._ledger.of_role(self._role):
            if batch.service_status:
                self._deliver_results(batch)

    @property
    def is_waiting(self) -> bool:
        """Whether requests of the wave are in open batches."""
        return bool(self._waiting) and bool(self.open)

    def fetch_and_submit(self) -> bool:
        """Fetch the results of finished batches, and submit the requests that are in no batch.

        Returns:
            Whether anything has changed: the state of a batch, or a batch was submitted.
        """
        has_changed = False
        for submission_id, sent in list(self.open.items()):
            earlier_state = sent.state
            state = self._query_state(sent)
            sent.state = state
            if state is None:
                continue
            if earlier_state is None or state.service_status != earlier_state.service_status:
                has_changed = True
                self._announce(sent.description)
            if state.status == "running":
                continue
            if state.status == "failed":
                del self.open[submission_id]
                self._halve_later_batches(sent.batch, state)
                continue
            try:
                results = self._loop.run(self._endpoint.results(sent.batch.id))
            except BatchError as error:
                if not error.fault.retry:
                    raise
                self._announce(f"{error}; trying again")
                continue
            del self.open[submission_id]
            self._store_results(sent.batch, state, results)
        if self._submit_remaining():
            has_changed = True
        return has_changed

    def _query_state(self, sent: SentBatch) -> BatchState | None:
        """Return the state of a batch, or the last known state if the service cannot be reached at the moment."""
        try:
            return self._loop.run(self._endpoint.state(sent.batch.id))
        except BatchError as error:
            if not error.fault.retry:
                raise
            self._announce(f"{error}; trying again")
            return sent.state

    def _halve_later_batches(self, batch: RunBatch, state: BatchState) -> None:
        """After a batch that the service refused because its queue was full, allow half as many requests in a batch.

        From then on, one batch is open at a time. Nothing is submitted here: the requests of the refused batch wait
        again, and `_submit_remaining` submits them with the others.

        Args:
            batch: The refused batch.
            state: Its state, which says why it was refused.

        Raises:
            ModelError: The batch was refused for another reason, or has only one request.
        """
        self._ledger.add(LostBatch(batch.submission.submission_id, state.detail))
        reason = without_secrets(state.detail)
        n_requests = len(batch.keys)
        can_be_smaller = n_requests > 1
        if not (state.is_overfull and can_be_smaller):
            raise ModelError(f"{self._model.name}: batch {batch.id} was refused: {reason}")
        # These requests have been charged to the budget and are not charged again.
        self._charged_keys |= batch.keys & self._waiting.keys()
        self._one_at_a_time = True
        self._max_requests_per_batch = n_requests // 2
        self._announce(
            f"batch {batch.id} was refused ({reason}); submitting at most "
            f"{self._max_requests_per_batch:,} requests at once"
        )

    def _store_results(self, batch: RunBatch, state: BatchState, results: bytes) -> None:
        """Store the results of a finished batch, and pass its replies to the requests that wait for them.

        If none of the results is for a request of this batch, the batch with this id is one of another program, which
        the service found by time and size. Then the service is asked for the right one. If there is none, the requests
        are submitted again.

        Args:
            batch: The batch.
            state: Its final state.
            results: Its results as the service sent them, one line of JSON per request.
        """
        content = without_secrets(results.decode("utf-8", "replace")).encode()
        keys_with_result = set()
        for line in content.split(b"\n"):
            if line.strip():
                key, _ = self._decode_result(batch, line)
                keys_with_result.add(key)
        is_foreign = bool(keys_with_result) and not keys_with_result & batch.keys
        if not is_foreign:
            self._ledger.store_results(batch, content, state.service_status)
            self._deliver_results(batch)
            return

        submission_id = batch.submission.submission_id
        self._foreign_batch_ids.append(batch.id)
        right_id = self._find_batch_id(batch.submission)
        if right_id:
            self._ledger.add(BatchAcceptance(submission_id, right_id))
            self.open[submission_id] = SentBatch(batch)
        else:
            self._ledger.add(LostBatch(submission_id, f"{batch.id} is another batch"))
            self._charged_keys |= batch.keys & self._waiting.keys()

    def _decode_result(self, batch: RunBatch, line: bytes) -> tuple[str, HttpReply | ServerFault]:
        """Return the key of a request and its outcome, from one line of a batch's results.

        Raises:
            ModelError: The line does not have the format of the service's results.
        """
        try:
            result = self._endpoint.read(line)
        except (*JSON_FAULTS, ValueError) as error:
            raise ModelError(
                f"{self._model.name}: a result of batch {batch.id} cannot be read: {error}"
            ) from None
        return result.key, result.outcome

    def _deliver_results(self, batch: RunBatch) -> None:
        """Pass the results of a finished batch to the requests that wait for them.

        A request of the batch for which there is no result counts as unfinished, as if the service had said so.
        """
        waiting_keys = batch.keys & self._waiting.keys()
        outcomes: dict[str, HttpReply | ServerFault] = {}
        if waiting_keys:
            without_result = unfinished(batch.service_status)
            outcomes = dict.fromkeys(waiting_keys, without_result)
            for line in self._ledger.results(batch):
                key, outcome = self._decode_result(batch, line)
                if key in waiting_keys:
                    outcomes[key] = outcome
        for key, outcome in outcomes.items():
            self._handle_outcome(batch, key, outcome)
        if not batch.are_failures_counted:
            self._ledger.add(CountedFailures(batch.submission.submission_id))

    def _handle_outcome(self, batch: RunBatch, key: str, outcome: HttpReply | ServerFault) -> None:
        """Store the reply to a request, or its final failure.

        After a temporary failure nothing is stored, so that the request is submitted again. The same holds if the service
        rejected a parameter that can be left out.

        Args:
            batch: The batch that contained the request.
            key: The key of the request.
            outcome: The reply of the service, or the reason why there is none.

        Raises:
            ModelError: The failure shows that the model cannot be used at all.
        """
        request = self._waiting[key][0].request
        form = batch.submission.form
        result: Response | ServerFault
        if isinstance(outcome, HttpReply):
            result = self._model.read_batched(request, outcome, form)
        else:
            result = outcome
        if isinstance(result, Response):
            self._store_response(key, batched_response(result, batch.id))
            return
        if batch.are_failures_counted:
            return  # it failed in an earlier session; this session sends it again

        self._attempts[key] += 1
        if result.rejected_parameter:
            # The form is the variant of the service's format. Another request of the batch may have changed it already.
            was_form_changed = form != self._model.batch_form or self._model.adapt_batches(result)
            if was_form_changed:
                return
        elif result.retry and self._attempts[key] < MAX_ATTEMPTS:
            return
        self._store_response(key, failed(result.kind, result.detail, self._attempts[key]))
        if result.fatal:
            raise ModelError(f"{self._model.name}: {result.detail}")

    def _store_response(self, key: str, response: Response) -> None:
        """Store the response to a request, and pass it to every question that waits for the same request.

        Args:
            key: The key of the request.
            response: The response or failure.
        """
        first, *others = self._waiting.pop(key)
        self._charged_keys.discard(key)
        counts_before = self._store.counts

        response = check_response(first.request, response)
        exchange = Exchange(first.active.label, first.request, response)
        self._store.append([exchange])
        self._budget.record_response(response)
        first.active.responses[first.index] = response
        for other in others:
            shared = self._store.share(other.active.label, other.request, response)
            other.active.responses[other.index] = shared
        self._progress(progress_since(self._store, counts_before))

    # --- submitting ---

    def _submit_remaining(self) -> bool:
        """Submit the requests that are in no open batch, in batches of the size that the service accepts.

        The first request of the session is sent directly. If only one batch may be open at a time, only one is
        submitted.

        Returns:
            Whether any request was sent.
        """
        if self._one_at_a_time and self.open:
            return False
        allowed_keys = self._charge_remaining()
        if not allowed_keys:
            return False
        if not self._was_one_sent_directly:
            self._was_one_sent_directly = True
            first_key = allowed_keys.pop(0)
            self._send_one_directly(first_key, is_announced=bool(allowed_keys))

        keys: list[str] = []
        lines: list[bytes] = []
        n_bytes = self._endpoint.overhead
        for key in allowed_keys:
            line = self._encode_request(key)
            if line is None:
                continue
            has_too_many_bytes = n_bytes + len(line) > self._endpoint.limits.size
            has_most_requests = len(keys) == self._max_requests_per_batch
            if keys and (has_too_many_bytes or has_most_requests):
                self._submit(keys, lines)
                if self._one_at_a_time:
                    return True
                keys = []
                lines = []
                n_bytes = self._endpoint.overhead
            keys.append(key)
            lines.append(line)
            n_bytes += len(line)
        if keys:
            self._submit(keys, lines)
        return True

    def _charge_remaining(self) -> list[str]:
        """Charge the requests that are in no open batch to the budget, and return the keys of those that it allows.

        The others no longer wait. A request that was charged before, but not submitted, is not charged again.
        """
        keys_in_batches: set[str] = set()
        for sent in self.open.values():
            keys_in_batches |= sent.batch.keys
        remaining = [key for key in self._waiting if key not in keys_in_batches]
        allowed = []
        for key in remaining:
            if key in self._charged_keys or self._budget.allow_request():
                self._charged_keys.add(key)
                allowed.append(key)
            else:
                del self._waiting[key]
        return allowed

    def _send_one_directly(self, key: str, *, is_announced: bool) -> None:
        """Send one request without a batch, to find out whether the model accepts it.

        In a batch, a wrong key, name or setting would show only after hours.

        Args:
            key: The key of the request.
            is_announced: Whether to tell the user, because further requests follow in batches.
        """
        waiting = self._waiting[key][0]
        if is_announced:
            self._announce(
                "sending one request directly, at the full price, to check that the model accepts it"
            )
        response = self._loop.run(self._model.ask(waiting.request, waiting.images))
        self._store_response(key, response)

    def _encode_request(self, key: str) -> bytes | None:
        """Encode a request as a line of a batch file.

        Args:
            key: The key of the request.

        Returns:
            The line; None if the request cannot be sent in a batch, for example because it is too large. Then a
            failure is stored as its response.
        """
        waiting = self._waiting[key][0]
        try:
            body = self._loop.run(self._model.batch_body(waiting.request, waiting.images))
        except DataError as error:
            self._store_response(key, failed("bad_request", str(error)))
            return None
        line = self._endpoint.line(key, body)
        max_bytes = self._endpoint.limits.size - self._endpoint.overhead
        if len(line) > max_bytes:
            detail = f"the request has {len(line):,} bytes, and a batch may have {max_bytes:,}"
            self._store_response(key, failed("bad_request", detail))
            return None
        return line

    def _submit(self, keys: list[str], lines: list[bytes]) -> None:
        """Submit a batch of requests to the service.

        The ledger records it before, so that a batch is not lost if this process is killed, and again with its id.

        Args:
            keys: The keys of the requests.
            lines: The encoded requests, in the same order.

        Raises:
            BatchError: The service refused the batch, or could not be reached.
        """
        submission_id = uuid.uuid4().hex
        since = time.time()
        submission = Submission(
            submission_id=submission_id,
            role=self._role,
            author=self._author,
            form=self._model.batch_form,
            keys=tuple(keys),
            since=since,
            earlier=self._existing_batch_ids(since),
        )
        known_ids = [*self._ledger.ids(), *submission.earlier]
        self._ledger.add(submission)
        try:
            batch_id = self._loop.run(self._endpoint.submit(lines, submission_id, since, known_ids))
        except BatchError as error:
            was_refused = not error.fault.retry  # otherwise the service may have received it
            if was_refused:
                self._ledger.add(LostBatch(submission_id, "the service refused it"))
            raise
        self._ledger.add(BatchAcceptance(submission_id, batch_id))
        self._charged_keys.difference_update(keys)
        self.open[submission_id] = SentBatch(self._ledger.batch(submission_id))
        megabytes = sum(len(line) for line in lines) / MEGABYTE
        self._announce(
            f"submitted batch {batch_id} with {len(keys):,} requests ({megabytes:,.1f} MB){self._describe_cost(keys)}; "
            f"replies take up to {BATCH_HOURS} hours; stopping this command does not stop the batch, and the same command "
            "fetches its replies"
        )

    def _existing_batch_ids(self, since: float) -> tuple[str, ...]:
        """Return the ids of batches of the account that could later be mistaken for a batch submitted now.

        Args:
            since: The present time, in seconds since 1970.

        Returns:
            The ids; empty if the service does not list its batches.
        """
        try:
            return tuple(self._loop.run(self._endpoint.earlier(since)))
        except BatchError:
            return ()

    def _describe_cost(self, keys: list[str]) -> str:
        """Return the estimated cost of requests in a batch, as a part of a message that begins with a comma.

        Args:
            keys: The keys of the requests.

        Returns:
            The text; empty if the user gave no price.
        """
        price = self._budget.price
        if price is None:
            return ""
        amount = Amount()
        for key in keys:
            amount = amount.plus(self._waiting[key][0].request)
        usage = in_batch(Usage(amount.input_tokens, amount.output_tokens))
        return f", about {cost_of(usage, price):,.3g} at half the price given"

    def _announce(self, line: str) -> None:
        user_callbacks().say(f"{self._model.name}: {line}")


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
