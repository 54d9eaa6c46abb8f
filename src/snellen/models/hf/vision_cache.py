"""Caches the outputs of an encoder, so that it runs once per image, or once per prompt."""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any


class VisionCache:
    """Wraps the forward method of a module. Outside `rows` the module runs unchanged.

    Where the module's batch does not correspond to rows (patches of several images in one long row),
    whole calls are cached by all keys together.
    """

    def __init__(self, module: Any, keep: int) -> None:
        """Up to `keep` bytes stay cached from one batch to the next, the most recently used."""
        self._forward = module.forward
        self._cached: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._keep = keep
        self._size = 0
        self._keys: tuple[str, ...] = ()
        self._calls = 0
        self._keeps_rows: dict[tuple[Any, ...], bool] = {}
        """By shapes of inputs, whether several rows of a batch were several rows of what was returned."""
        self.runs = 0
        """Number of rows (or whole calls) that the module has run."""
        # transformers reads the signature of a forward to see which inputs, masks among them, it may pass on.
        module.forward = functools.wraps(module.forward)(
            lambda *args, **settings: self._run(*args, **settings)
        )

    @contextlib.contextmanager
    def rows(self, keys: Sequence[str]) -> Iterator[None]:
        """Within this context, `keys[i]` identifies row i of a batch."""
        self._keys, self._calls = tuple(keys), 0
        try:
            yield
        finally:
            self._keys = ()
            while self._size > self._keep:
                self._size -= _bytes(self._cached.popitem(last=False)[1])

    def _run(self, *args: Any, **settings: Any) -> Any:
        if not self._keys:
            return self._forward(*args, **settings)
        self._calls += 1
        shapes = tuple(tuple(tensor.shape[1:]) for tensor in _tensors((args, settings)))
        batch = {tensor.shape[0] for tensor in _tensors((args, settings)) if tensor.ndim}
        if batch == {len(self._keys)} and self._keeps_rows.get(shapes, True):
            features = self._by_row(args, settings, shapes)
            if features is not None:
                return features
        key = (self._calls, self._keys, shapes, tuple(sorted(batch)))
        if key not in self._cached:
            self.runs += 1
            self._learn(key, self._forward(*args, **settings))
        self._cached.move_to_end(key)
        return _mapped(self._cached[key], lambda tensor: tensor)

    def _by_row(self, args: Any, settings: Any, shapes: tuple[Any, ...]) -> Any:
        """The features of each row, or None if the module does not keep its rows apart."""
        import torch

        keys = [(self._calls, key, shapes) for key in self._keys]
        missing = [
            i for i, key in enumerate(keys) if key not in self._cached and keys.index(key) == i
        ]
        if len(keys) > 1 and shapes not in self._keeps_rows:
            # A single row does not tell: Pixtral's tower puts all images into one row.
            missing = (missing + [i for i in range(len(keys)) if i not in missing])[
                : max(2, len(missing))
            ]
        if missing:
            missing_rows = torch.tensor(missing)
            features = self._forward(
                *_mapped(args, lambda tensor: tensor[missing_rows.to(tensor.device)]),
                **_mapped(settings, lambda tensor: tensor[missing_rows.to(tensor.device)]),
            )
            self.runs += len(missing)
            has_rows = all(tensor.shape[0] == len(missing) for tensor in _tensors(features))
            if len(missing) > 1 or not has_rows:
                self._keeps_rows[shapes] = has_rows
            if not has_rows:
                return None
            for place, i in enumerate(missing):
                self._learn(keys[i], _mapped(features, _row(place)))
        for key in keys:
            self._cached.move_to_end(key)
        return _merged([self._cached[key] for key in keys])

    def _learn(self, key: tuple[Any, ...], features: Any) -> None:
        self._size -= _bytes(self._cached.get(key))
        self._cached[key] = features
        self._size += _bytes(features)


@contextlib.contextmanager
def caching_vision(caches: Sequence[tuple[VisionCache, Sequence[str]]]) -> Iterator[None]:
    """Several caches at once."""
    with contextlib.ExitStack() as stack:
        for cache, keys in caches:
            stack.enter_context(cache.rows(keys))
        yield


def _bytes(value: Any) -> int:
    return sum(tensor.nbytes for tensor in _tensors(value))


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with `change` applied to every tensor; model outputs, mappings and tuples keep their type."""
    import torch

    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return type(value)(**{name: _mapped(item, change) for name, item in value.items()})
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, change) for item in value)
    return value


def _row(place: int) -> Callable[[Any], Any]:
    return lambda tensor: tensor[place : place + 1].clone()


def _merged(values: Sequence[Any]) -> Any:
    """One batch from values cached row by row."""
    import torch

    rows = [list(_tensors(value)) for value in values]
    columns = iter([torch.cat(column) for column in zip(*rows, strict=True)])
    return _mapped(values[0], lambda _: next(columns))
