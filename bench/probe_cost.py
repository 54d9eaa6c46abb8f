"""What goes through a language model, counted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from snellen.models.hf.model_layout import ModelLayout


@dataclass
class ProbeCost:
    """Forward passes of the language model, and the tokens in them, padding included."""

    passes: int = 0
    tokens: int = 0


@contextlib.contextmanager
def counting(layout: ModelLayout) -> Iterator[ProbeCost]:
    """Within this context, counts what goes through the token embedding."""
    cost = ProbeCost()

    def count(module: Any, inputs: Any, output: Any) -> None:
        cost.passes += 1
        cost.tokens += int(inputs[0].numel()) if inputs else 0

    hook = layout.model.get_input_embeddings().register_forward_hook(count)
    try:
        yield cost
    finally:
        hook.remove()
