"""Snellen: an eye chart for large vision-language models.

import snellen as sn
results = sn.evaluate("snellen:oracle", "eyechart/colour", ["circular"], limit=20)
results.table()
"""

from __future__ import annotations

import difflib
import importlib
import sys
from typing import Any

__version__ = "0.1.0"

_IMPORTS = __spec__.loader.get_data(f"{__file__}i").decode().splitlines()
_WHERE = {line.split()[3]: line.split()[1] for line in _IMPORTS if line.startswith("from ")}
"""The module of each public name, as `__init__.pyi` lists them."""

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import snellen` costs nothing."""
    if name not in _WHERE:
        raise AttributeError(f"module 'snellen' has no attribute {name!r}; {_suggest(name)}")
    from snellen.errors import naming_missing_packages

    with naming_missing_packages(f"sn.{name}"):
        module = importlib.import_module(_WHERE[name])
    return getattr(module, name)


_OF_OTHERS = {
    "simple_evaluate": "evaluate",
    "eval": "evaluate",
    "run": "evaluate",
    "test": "evaluate",
    "benchmark": "evaluate",
    "Evaluator": "evaluate",
    "evaluator": "evaluate",
    "Task": "load_benchmark",
    "task": "load_benchmark",
    "get_task": "load_benchmark",
    "get_task_dict": "load_benchmark",
    "load_task": "load_benchmark",
    "load_dataset": "load_benchmark",
    "build_dataset": "load_benchmark",
    "Benchmark": "load_benchmark",
    "Dataset": "load_benchmark",
    "datasets": "load_benchmark",
    "data": "load_benchmark",
    "dataset": "load_benchmark",
    "tasks": "list_benchmarks",
    "benchmarks": "list_benchmarks",
    "list_tasks": "list_benchmarks",
    "list_datasets": "list_benchmarks",
    "supported_VLM": "list_models",
    "models": "list_models",
    "metrics": "list_metrics",
    "get_model": "load_model",
    "Model": "load_model",
    "HFModel": "hf",
    "from_pretrained": "hf",
    "wrap": "hf",
    "load_results": "load_run",
    "read_results": "load_run",
    "rescore": "score",
    "scorer": "metric",
    "register_metric": "metric",
    "reward": "metric",
    "read_predictions": "import_run",
    "load_predictions": "import_run",
    "compute": "score",
    "score_predictions": "score",
    "evaluate_predictions": "score",
    "runs": "list_runs",
    "experiments": "list_runs",
    "protocols": "list_protocols",
    "suites": "list_suites",
    "from_pandas": "build",
    "read_csv": "build",
    "create_benchmark": "build",
    "pipeline": "load_model",
    "AutoModel": "load_model",
    "mcnemar": "compare",
    "bootstrap": "compare",
    "significance": "compare",
    "paired_test": "compare",
    "Error": "SnellenError",
    "Callback": "EvaluationCallback",
    "SnellenCallback": "EvaluationCallback",
    "TrainerCallback": "EvaluationCallback",
}
"""What other libraries call something that is here under another name."""

_HINTS = {
    "leaderboard": "print(sn.evaluate([MODEL, MODEL], BENCHMARK)) has a column for each model; sn.load_run([FOLDER, "
    "FOLDER]) joins runs",
    "predict": "sn.evaluate(MODEL, BENCHMARK).samples() has the replies; sn.load_model(MODEL).generate(image, "
    "question) answers one question",
    "generate": "sn.load_model(MODEL).generate(image, question) answers one question",
    "plot": "results.plot() of what sn.evaluate returns",
    "report": "results.report('report.html') of what sn.evaluate returns",
    "export": "results.export('replies.csv') of what sn.evaluate or sn.load_run returns",
    "view": "run `snellen view` in a terminal, or results.report('report.html')",
    "accuracy": "results.value('accuracy') of what sn.evaluate returns; sn.score(rows) scores predictions",
    "accuracy_score": "sn.score(rows) scores rows with `prediction` and `answer`",
    "classification_report": "print(results) of what sn.evaluate or sn.score returns",
    "f1_score": "sn.evaluate(..., metrics=...) computes metrics; sn.list_metrics() shows them",
    "confusion_matrix": "results.samples.to_pandas() has the columns gold and chosen_text for pandas.crosstab",
    "cohen_kappa_score": "`snellen agree` of the package snellen-lab measures agreement",
    "bootstrap_ci": "results.ci of what sn.evaluate returns is the 95% interval",
    "confidence_interval": "results.ci of what sn.evaluate returns is the 95% interval",
    "seed": "sn.evaluate(MODEL, BENCHMARK, seed=...)",
    "set_seed": "sn.evaluate(MODEL, BENCHMARK, seed=...)",
    **dict.fromkeys(
        ("callbacks", "callback"),
        "sn.EvaluationCallback evaluates while a Trainer of transformers trains",
    ),
    "config": "settings are keywords of sn.evaluate",
    **dict.fromkeys(
        ("utils", "core", "types", "typing", "base", "plugins"),
        "what plugins build on is in snellen.plugin_api; dir(snellen) lists all other names",
    ),
    **dict.fromkeys(
        ("trainer", "trainers", "integrations"),
        "sn.EvaluationCallback evaluates while a Trainer of transformers trains",
    ),
    **dict.fromkeys(
        ("judge", "judges", "judging"), "sn.evaluate(..., judge=...) takes a judge or several"
    ),
    **dict.fromkeys(
        ("results",), "sn.evaluate returns results; sn.load_run(FOLDER) loads them again"
    ),
    "set_verbosity": "sn.evaluate(..., progress=False) shows no progress",
    "logging": "sn.evaluate(..., progress=False) shows no progress",
    "login": "keys are read from environment variables, such as OPENAI_API_KEY",
    "extract": "sn.evaluate(..., extractor=...) sets how replies are read; snellen.plugin_api has extractors",
    "extract_answer": "sn.evaluate(..., extractor=...) sets how replies are read; snellen.plugin_api has extractors",
    "load": "sn.load_run(FOLDER) loads a run, sn.load_benchmark(NAME) a benchmark, sn.load_model(NAME) a model",
    "save": "runs are stored as they are made; sn.list_runs() has their folders",
    "help": "help(sn.evaluate) shows the keywords",
}
"""What to write instead of names that have no equal."""


def _suggest(name: str) -> str:
    """Return a hint at what was most likely meant."""
    if name in _HINTS:
        return _HINTS[name]
    meant = _OF_OTHERS.get(name)
    if meant is None:
        near = difflib.get_close_matches(name, __all__, n=1)
        if not near:
            return "dir(snellen) lists all names"
        meant = near[0]
    return f"did you mean sn.{meant}?"


class _AbsentModules:
    """A finder that says what to write instead of a module or name that other libraries have.

    Python asks it last, and only for modules of packages that have it as a folder at the end of `__path__`: `snellen`,
    and its packages in which people look for names. In `sys.meta_path`, which belongs to the whole process, it would be
    asked for the modules of every package.
    """

    @staticmethod
    def find_spec(name: str, target: Any = None) -> None:
        """Raise ModuleNotFoundError for `snellen.NAME` or `snellen.PACKAGE.NAME`, with a hint.

        The `name` of the error is the package that was searched. If it were that of the module, Python would replace
        the message after `from snellen import NAME`.
        """
        package, _, last = name.rpartition(".")
        raise ModuleNotFoundError(
            f"No module or name {name!r}; {_suggest(last)} (all public names are in snellen itself: from snellen import "
            "NAME)",
            name=package,
        )


_ABSENT = f"{__path__[0]}/absent modules"  # no such folder: its finder is in the cache of finders
if _ABSENT not in __path__:
    __path__.append(_ABSENT)
sys.path_importer_cache[_ABSENT] = _AbsentModules


def __dir__() -> list[str]:
    return sorted(__all__)
