"""Callback of a transformers `Trainer` that evaluates the model every so many steps."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import transformers

from snellen.errors import DataError, ModelError
from snellen.experiments.results import Results
from snellen.models.hf.in_memory import InMemoryModel, hf
from snellen.training import evaluate_step

STEPS_BETWEEN = 500
"""Steps between evaluations if neither the user nor the trainer says when to evaluate."""


class EvaluationCallback(transformers.TrainerCallback):
    """Callback of a transformers `Trainer` that evaluates the model every so many steps.

    The model answers in evaluation mode. Scores are logged under `eval_BENCHMARK`: to the trackers of the trainer if
    `trainer` is set, and otherwise to the log history of its state.

    Args:
        benchmarks: Benchmarks as in `evaluate`.
        protocols: Protocols as in `evaluate`.
        processor: Processor of the model. By default the `processing_class` of the trainer.
        every: Steps between evaluations. The first and the last step are always evaluated. By default, the model is
            evaluated whenever the trainer evaluates (`eval_strategy`), or every 500 steps if it never does.
        name: Name of the training; the runs are stored under `RUNS/NAME`.
        runs: Folder of all trainings.
        fields: Further keywords of `evaluate`, such as `limit`, which bounds the questions of each benchmark.

    Raises:
        DataError: At the start of a training: the folder has runs of an earlier training.
        ModelError: The weights are spread over processes (FSDP, DeepSpeed stage 3), or there is no processor.

    Examples:
        >>> callback = sn.EvaluationCallback("eyechart/shape", every=100, name="lora", limit=50)
        >>> callback.results
        {}
    """

    def __init__(
        self,
        benchmarks: Any,
        protocols: str | Iterable[str] = (),
        *,
        processor: Any = None,
        every: int | None = None,
        name: str = "training",
        runs: str | Path = "runs",
        **fields: Any,
    ) -> None:
        if every is not None and every < 1:
            raise DataError(f"every: the steps between evaluations are 1 or more, not {every}")
        self.trainer: transformers.Trainer | None = None
        """Set it after the trainer is made, so that scores reach its trackers (TensorBoard, W&B, ...)."""
        self.results: dict[int, Results] = {}
        """Results by step."""
        self._benchmarks = benchmarks
        self._protocols = protocols
        self._processor = processor
        self._every = every
        self._name = name
        self._runs = Path(runs)
        self._fields = fields
        self._model: InMemoryModel | None = None
        self._last_step: int | None = None
        self._is_training = False
        self._timeout: int | None = None
        """Seconds that other processes wait for the first one; None if there are no others."""

    @property
    def folder(self) -> Path:
        """Folder with a run for each step."""
        return self._runs / self._name

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate the model before its first step or, if a training is resumed, before its next step.

        Raises:
            DataError: A new training has the name of an earlier one.
            ModelError: The weights are spread over processes.
        """
        _check_whole_weights(args)
        if args.world_size > 1:
            self._timeout = args.ddp_timeout
        is_first = state.is_world_process_zero and state.global_step == 0
        if is_first and any(self.folder.glob("step-*")):
            raise DataError(
                f"{self.folder} has runs of an earlier training; give another name to EvaluationCallback(..., "
                f'name="{self._name}-2"), or remove the folder'
            )
        self._is_training = True
        self._evaluate(state, **kwargs)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate the model if enough steps have passed."""
        every = self._every
        if every is None:
            if _trainer_evaluates(args):
                return
            every = STEPS_BETWEEN
        if state.global_step % every == 0:
            self._evaluate(state, **kwargs)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate the model when the trainer does, unless the steps between evaluations were given."""
        if self._every is None and self._is_training:
            self._evaluate(state, **kwargs)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate the trained model."""
        self._evaluate(state, **kwargs)
        self._is_training = False

    def _evaluate(
        self, state: Any, model: Any = None, processing_class: Any = None, **others: Any
    ) -> None:
        """Evaluate the model at the present step, unless it was evaluated there, and log the scores.

        Args:
            state: The state of the trainer.
            model: The model, as the trainer passes it to callbacks.
            processing_class: Its processor, if the trainer has one.
            **others: What else the trainer passes; not used.
        """
        step = state.global_step
        # Only the first process has results, and all processes have to decide alike whether to wait for each other.
        if step == self._last_step:
            return
        self._last_step = step
        if state.is_world_process_zero:
            if self._model is None:
                processor = self._processor or processing_class
                if processor is None:
                    raise ModelError(
                        "the model has no processor; give processing_class=processor to the Trainer, or "
                        "processor=processor to EvaluationCallback"
                    )
                self._model = hf(model, processor, name=self._name)
            started = time.monotonic()
            results = evaluate_step(
                self._model,
                step,
                self._benchmarks,
                self._protocols,
                name=self._name,
                runs=self._runs,
                **self._fields,
            )
            self.results[step] = results
            self._log(results, state)
            _warn_of_timeout(time.monotonic() - started, self._timeout)
        _wait_for_other_processes()

    def _log(self, results: Results, state: Any) -> None:
        """Log the value of each benchmark, as the trainer logs its own evaluations."""
        scores: dict[str, float] = {}
        for row in results:
            if row.estimate.value is not None:
                scores[f"eval_{row.benchmark}"] = row.estimate.value
        if self.trainer is not None:
            self.trainer.log(scores)
        else:
            state.log_history.append({**scores, "step": state.global_step})

    def all_results(self) -> Results:
        """Return the results of all steps together, as a report of the training shows them."""
        runs_by_step = [self.results[step].runs for step in sorted(self.results)]
        return Results(list(chain.from_iterable(runs_by_step)))


def _trainer_evaluates(args: Any) -> bool:
    """Return whether a trainer evaluates during its training."""
    strategy = args.eval_strategy
    return str(getattr(strategy, "value", strategy)) != "no"


def _warn_of_timeout(seconds: float, timeout: int | None) -> None:
    """Warn if other processes waited for more than half of the time after which they give up."""
    if timeout is not None and seconds > timeout / 2:
        warnings.warn(
            f"this evaluation took {seconds:.0f} s, and the other processes stop waiting after {timeout} s; use a "
            "smaller limit, or raise ddp_timeout of TrainingArguments",
            stacklevel=2,
        )


def _check_whole_weights(args: Any) -> None:
    """Raise ModelError if no process has all weights of the model, because FSDP or DeepSpeed spreads them."""
    from transformers.integrations import is_deepspeed_zero3_enabled

    if args.fsdp or is_deepspeed_zero3_enabled():
        raise ModelError(
            "the weights are spread over processes (FSDP or DeepSpeed stage 3); evaluate saved checkpoints instead: "
            "snellen run hf:./checkpoint-500"
        )


def _wait_for_other_processes() -> None:
    """Wait until all processes of a distributed training have come here."""
    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
