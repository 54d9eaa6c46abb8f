"""The public names: this is their one list, which the module reads, as type checkers and editors do."""

from snellen.api import build as build
from snellen.api import decide as decide
from snellen.api import evaluate as evaluate
from snellen.api import export_benchmark as export_benchmark
from snellen.api import load_run as load_run
from snellen.api import reform as reform
from snellen.api import score as score
from snellen.catalogue import add_suites as add_suites
from snellen.errors import AbsentBenchmarkError as AbsentBenchmarkError
from snellen.errors import DataError as DataError
from snellen.errors import ErrorBudgetError as ErrorBudgetError
from snellen.errors import ModelError as ModelError
from snellen.errors import SnellenError as SnellenError
from snellen.errors import StoreError as StoreError
from snellen.errors import UnknownNameError as UnknownNameError
from snellen.experiments.results import Results as Results
from snellen.interchange.predictions.taking import import_run as import_run
from snellen.models.embedded import Scripted as Scripted
from snellen.models.loading import load_model as load_model
from snellen.protocols.base import parse_protocol as parse_protocol
from snellen.records import ContinuationScore as ContinuationScore
from snellen.records import Decoding as Decoding
from snellen.records import Request as Request
from snellen.records import Response as Response
from snellen.records import Sample as Sample
from snellen.report.terminal import shown_progress as shown_progress
from snellen.runs.run_progress import RunProgress as RunProgress
from snellen.runs.spec import JudgeSpec as JudgeSpec
from snellen.runs.spec import ScoringSpec as ScoringSpec

__version__: str
__all__: list[str]
