"""A module that remembers what it made of each row: an encoder runs once a picture, or once a prompt."""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any


class RowMemo:
    """Wraps the forward of a module. Outside `rows` the module runs as it always did.

    Where the module's batch is not the rows asked about (patches of several pictures in one long
    row), whole calls are remembered by all keys together.
    """

    def __init__(self, module: Any, keep: int) -> None:
        """`keep` bytes are remembered from one batch to the next, those used last."""
        self._forward = module.forward
        self._known: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._keep = keep
        self._size = 0
        self._keys: tuple[str, ...] = ()
        self._calls = 0
        self.runs = 0
        """Rows (or whole calls) that the module has worked through."""
        # transformers reads the signature of a forward to see which inputs, masks among them, it may pass on.
        module.forward = functools.wraps(module.forward)(lambda *args, **settings: self._run(*args, **settings))

    @contextlib.contextmanager
    def rows(self, keys: Sequence[str]) -> Iterator[None]:
        """Within, row i of a batch is what `keys[i]` names."""
        self._keys, self._calls = tuple(keys), 0
        try:
            yield
        finally:
            self._keys = ()
            while self._size > self._keep:
                self._size -= _bytes(self._known.popitem(last=False)[1])

    def _run(self, *args: Any, **settings: Any) -> Any:
        if not self._keys:
            return self._forward(*args, **settings)
        self._calls += 1
        shapes = tuple(tuple(tensor.shape[1:]) for tensor in _tensors((args, settings)))
        batch = {tensor.shape[0] for tensor in _tensors((args, settings)) if tensor.ndim}
        if batch == {len(self._keys)}:
            return self._by_row(args, settings, shapes)
        key = (self._calls, self._keys, shapes, tuple(sorted(batch)))
        if key not in self._known:
            self.runs += 1
            self._learn(key, self._forward(*args, **settings))
        self._known.move_to_end(key)
        return _mapped(self._known[key], lambda tensor: tensor)

    def _by_row(self, args: Any, settings: Any, shapes: tuple[Any, ...]) -> Any:
        import torch

        keys = [(self._calls, key, shapes) for key in self._keys]
        missing = [i for i, key in enumerate(keys) if key not in self._known and keys.index(key) == i]
        if missing:
            taken = torch.tensor(missing)
            made = self._forward(
                *_mapped(args, lambda tensor: tensor[taken.to(tensor.device)]),
                **_mapped(settings, lambda tensor: tensor[taken.to(tensor.device)]),
            )
            self.runs += len(missing)
            if any(tensor.shape[0] != len(missing) for tensor in _tensors(made)):
                return self._forward(*args, **settings)
            for place, i in enumerate(missing):
                self._learn(keys[i], _mapped(made, _row(place)))
        for key in keys:
            self._known.move_to_end(key)
        return _merged([self._known[key] for key in keys])

    def _learn(self, key: tuple[Any, ...], made: Any) -> None:
        self._known[key] = made
        self._size += _bytes(made)


@contextlib.contextmanager
def remembering(memos: Sequence[tuple[RowMemo, Sequence[str]]]) -> Iterator[None]:
    """Several memos at once."""
    with contextlib.ExitStack() as stack:
        for memo, keys in memos:
            stack.enter_context(memo.rows(keys))
        yield


def _bytes(value: Any) -> int:
    return sum(tensor.nbytes for tensor in _tensors(value))


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with every tensor in it changed; model outputs, mappings and tuples keep their type."""
    import torch

    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return type(value)(**{name: _mapped(part, change) for name, part in value.items()})
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(part, change) for part in value)
    return value


def _row(place: int) -> Callable[[Any], Any]:
    return lambda tensor: tensor[place : place + 1].clone()


def _merged(values: Sequence[Any]) -> Any:
    """One batch of what was remembered row by row."""
    import torch

    rows = [list(_tensors(value)) for value in values]
    columns = iter([torch.cat(column) for column in zip(*rows, strict=True)])
    return _mapped(values[0], lambda _: next(columns))
