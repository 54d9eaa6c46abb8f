"""Hints at what to write in place of modules and names that other libraries have and Snellen does not."""

from __future__ import annotations

import difflib
import sys
from collections.abc import MutableSequence
from typing import Any

_NAMES_ELSEWHERE = {
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
"""Public names by the names that other libraries have for the same thing."""

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
"""What to write in place of names that have no equal."""


def suggest_name(name: str) -> str:
    """Return a hint for a name that `snellen` does not have, such as `did you mean sn.evaluate?`."""
    if name in _HINTS:
        return _HINTS[name]
    meant = _NAMES_ELSEWHERE.get(name)
    if meant is None:
        import snellen

        similar_names = difflib.get_close_matches(name, snellen.__all__, n=1)
        if not similar_names:
            return "dir(snellen) lists all names"
        meant = similar_names[0]
    return f"did you mean sn.{meant}?"


class _AbsentModules:
    """An import finder that never finds a module. Instead it raises an error that suggests the right name.

    Python looks for `snellen.NAME` in the folders of the package's `__path__`, in order. A folder that does not
    exist is added at the end of that list, and this object is registered as its finder. So it is called only if the
    module was not found before, and only for this package. In `sys.meta_path` it would be called for all packages
    of the process.
    """

    @staticmethod
    def find_spec(name: str, target: Any = None) -> None:
        """Raise ModuleNotFoundError for `snellen.NAME` or `snellen.PACKAGE.NAME`, with a suggestion.

        The attribute `name` of the error is the package, not the module that was searched. Otherwise `from snellen
        import NAME` would catch the error and replace its message.
        """
        package, _, last = name.rpartition(".")
        raise ModuleNotFoundError(
            f"No module or name {name!r}; {suggest_name(last)} (all public names are in snellen itself: from snellen import "
            "NAME)",
            name=package,
        )


_ABSENT_FOLDER = f"{__file__}/absent modules"  # below a file, so that it cannot exist
sys.path_importer_cache[_ABSENT_FOLDER] = _AbsentModules


def hint_at_absent_names(package_path: MutableSequence[str]) -> None:
    """Make failed imports from a package raise an error that suggests the right name.

    Args:
        package_path: The `__path__` of the package, to which a folder is added (see `_AbsentModules`).
    """
    if _ABSENT_FOLDER not in package_path:
        package_path.append(_ABSENT_FOLDER)
