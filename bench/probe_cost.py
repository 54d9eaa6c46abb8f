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
    """Within this context, counts what goes through the token embedding.

    Not by a hook, which would be code of unknown origin to the self-check that is counted.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    cost, weight = ProbeCost(), layout.model.get_input_embeddings().weight

    class Count(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, given: Any = (), named: Any = None
        ) -> Any:
            if function is torch.nn.functional.embedding and given[1] is weight:
                cost.passes += 1
                cost.tokens += int(given[0].numel())
            return function(*given, **(named or {}))

    with Count():
        yield cost
