"""The columns of the table of replies, by the names that other libraries give them."""

from __future__ import annotations

from collections.abc import Iterable

from snellen.common.attribute_hints import same_hint

COLUMNS_OF_OTHERS = {
    **same_hint(
        "reply is the text, chosen_text the option that was read from it",
        "prediction",
        "predictions",
        "pred",
        "response",
        "output",
        "outputs",
        "resps",
        "filtered_resps",
        "generated_text",
        "completion",
        "model_output",
        "raw_output",
        "extracted",
        "parsed",
        "hit",
    ),
    **same_hint(
        "gold has the correct texts, gold_options the indices of the correct options",
        "answer",
        "answers",
        "label",
        "target",
        "targets",
        "reference",
        "references",
        "ground_truth",
        "gt",
        "y_true",
        "expected",
    ),
    **same_hint(
        "correct says whether the reply is right, score_NAME has each metric",
        "score",
        "scores",
        "is_correct",
        "acc",
        "accuracy",
        "exact_match",
        "result",
        "judge",
        "verdict",
    ),
    **same_hint(
        "sample_id names the question", "id", "index", "doc_id", "question_id", "idx", "uid"
    ),
    **same_hint(
        "images has digests; sn.load_benchmark(NAME)[sample_id].image is the image",
        "image",
        "picture",
        "image_path",
    ),
    **same_hint(
        "request has the prompt as sent, question its text", "prompt", "input", "messages", "doc"
    ),
    **same_hint("benchmark is the column", "task", "dataset"),
    **same_hint(
        "prompt_tokens and completion_tokens are the columns", "tokens", "n_tokens", "usage"
    ),
    **same_hint("seconds is the column", "latency", "time", "duration"),
}
"""What to write instead of columns that other tables have."""


def describe_missing_column(name: str, columns: Iterable[str]) -> str:
    """Return an error message for a column that the table of replies does not have, with the column that was probably meant.

    Examples:
        >>> describe_missing_column("level", ["sample_id", "tag_level"])
        "no column 'level'; it is tag_level"
        >>> describe_missing_column("prediction", [])
        "no column 'prediction'; reply is the text, chosen_text the option that was read from it"
    """
    available = list(columns)
    for prefix in ("tag_", "score_"):
        if f"{prefix}{name}" in available:
            return f"no column {name!r}; it is {prefix}{name}"
    if name in COLUMNS_OF_OTHERS:
        return f"no column {name!r}; {COLUMNS_OF_OTHERS[name]}"
    return f"no column {name!r}; there are {', '.join(available)}"
