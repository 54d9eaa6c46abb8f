"""The public names: this is their one list, which the module reads, as type checkers and editors do."""

from snellen.analysis.paired.gate import GateRule as GateRule
from snellen.analysis.paired.gate import check_gate as check_gate
from snellen.api import build as build
from snellen.api import compare as compare
from snellen.api import decide as decide
from snellen.api import evaluate as evaluate
from snellen.api import export_benchmark as export_benchmark
from snellen.api import load_benchmark as load_benchmark
from snellen.api import load_model as load_model
from snellen.api import load_run as load_run
from snellen.api import reform as reform
from snellen.api import reproduce as reproduce
from snellen.api import score as score
from snellen.catalogue import add_suites as add_suites
from snellen.errors import AbsentBenchmarkError as AbsentBenchmarkError
from snellen.errors import DataError as DataError
from snellen.errors import ErrorBudgetError as ErrorBudgetError
from snellen.errors import ModelError as ModelError
from snellen.errors import PendingBatchesError as PendingBatchesError
from snellen.errors import SnellenError as SnellenError
from snellen.errors import SpentBudgetError as SpentBudgetError
from snellen.errors import StoreError as StoreError
from snellen.errors import UnknownNameError as UnknownNameError
from snellen.experiments.results import Results as Results
from snellen.interchange.predictions.taking import import_run as import_run
from snellen.listing import list_benchmarks as list_benchmarks
from snellen.listing import list_metrics as list_metrics
from snellen.listing import list_models as list_models
from snellen.listing import list_protocols as list_protocols
from snellen.listing import list_runs as list_runs
from snellen.listing import list_suites as list_suites
from snellen.metrics.own import metric as metric
from snellen.models.embedded import Scripted as Scripted
from snellen.models.embedded import tiny_checkpoint as tiny_checkpoint
from snellen.models.hf.in_memory import hf as hf
from snellen.protocols.base import parse_protocol as parse_protocol
from snellen.records import ContinuationScore as ContinuationScore
from snellen.records import Decoding as Decoding
from snellen.records import Request as Request
from snellen.records import Response as Response
from snellen.records import Sample as Sample
from snellen.report.progress_text import shown_progress as shown_progress
from snellen.runs.run_progress import RunProgress as RunProgress
from snellen.runs.run_progress import ignore_progress as ignore_progress
from snellen.runs.spec import JudgeSpec as JudgeSpec
from snellen.runs.spec import ScoringSpec as ScoringSpec
from snellen.trainer_callback import EvaluationCallback as EvaluationCallback
from snellen.training import evaluate_step as evaluate_step

__version__: str
__all__: list[str]
