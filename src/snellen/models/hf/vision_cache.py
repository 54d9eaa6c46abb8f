"""Cache the outputs of an image encoder, so that it runs once per image, or once per prompt."""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any


class VisionCache:
    """Cache of the outputs of one module, such as an image encoder. It replaces the module's `forward`.

    It is used only inside `rows`, which says what the rows of a batch are; outside, the module runs
    as usual. Some modules do not keep rows apart: they put the patches of several images into one
    long row. Then the output of the whole batch is cached under the keys of all its rows.
    """

    def __init__(self, module: Any, keep: int) -> None:
        """Wrap the `forward` of a module. At the end of `rows`, only the last used `keep` bytes stay cached."""
        self._forward = module.forward
        self._cached: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._keep = keep
        self._size = 0
        self._keys: tuple[str, ...] = ()
        self._calls = 0
        self._keeps_rows: dict[tuple[Any, ...], bool] = {}
        """By the shapes of the inputs, whether the module's output for several rows had one row for each of them."""
        self.runs = 0
        """Number of rows (or whole calls) that the module has run."""
        # transformers reads the signature of `forward` to see which inputs, such as masks, it can pass to the module.
        # So the replacement must have the same signature.
        module.forward = functools.wraps(module.forward)(
            lambda *args, **settings: self._run(*args, **settings)
        )

    @contextlib.contextmanager
    def rows(self, keys: Sequence[str]) -> Iterator[None]:
        """Use the cache inside the block. `keys[i]` is a digest of everything that row i of a batch depends on."""
        self._keys, self._calls = tuple(keys), 0
        try:
            yield
        finally:
            self._keys = ()
            while self._size > self._keep:
                self._size -= _bytes(self._cached.popitem(last=False)[1])

    def _run(self, *args: Any, **settings: Any) -> Any:
        """Run the module, or return its cached output. This replaces the module's `forward`."""
        if not self._keys:
            return self._forward(*args, **settings)
        self._calls += 1
        inputs = list(_tensors((args, settings)))
        shapes = tuple(tuple(tensor.shape[1:]) for tensor in inputs)
        batch_sizes = {tensor.shape[0] for tensor in inputs if tensor.ndim}
        one_entry_per_row = batch_sizes == {len(self._keys)}
        if one_entry_per_row and self._keeps_rows.get(shapes, True):
            features = self._by_row(args, settings, shapes)
            if features is not None:
                return features
        key = (self._calls, self._keys, shapes, tuple(sorted(batch_sizes)))
        if key not in self._cached:
            self.runs += 1
            self._store(key, self._forward(*args, **settings))
        self._cached.move_to_end(key)
        return _mapped(self._cached[key], lambda tensor: tensor)

    def _by_row(self, args: Any, settings: Any, shapes: tuple[Any, ...]) -> Any:
        """Return the outputs for the rows of a batch, running the module only for rows that are not cached.

        Returns None if the module's output does not have one row per input row. The caller then
        caches the whole batch.
        """
        import torch

        keys = [(self._calls, key, shapes) for key in self._keys]
        missing = []
        for index, key in enumerate(keys):
            if key not in self._cached and keys.index(key) == index:
                missing.append(index)
        if len(keys) > 1 and len(missing) < 2 and shapes not in self._keeps_rows:
            # Run at least two rows once, to see whether the output has two rows. A single row would not show it:
            # Pixtral's encoder puts all images into one row.
            others = [index for index in range(len(keys)) if index not in missing]
            missing = (missing + others)[:2]
        if missing:
            row_index = torch.tensor(missing)

            def select(tensor: Any) -> Any:
                return tensor[row_index.to(tensor.device)]

            features = self._forward(*_mapped(args, select), **_mapped(settings, select))
            self.runs += len(missing)
            has_rows = all(tensor.shape[0] == len(missing) for tensor in _tensors(features))
            if len(missing) > 1 or not has_rows:
                self._keeps_rows[shapes] = has_rows
            if not has_rows:
                return None
            for place, index in enumerate(missing):
                self._store(keys[index], _mapped(features, _row(place)))
        for key in keys:
            self._cached.move_to_end(key)
        return _concatenated([self._cached[key] for key in keys])

    def _store(self, key: tuple[Any, ...], features: Any) -> None:
        self._size -= _bytes(self._cached.get(key))
        self._cached[key] = features
        self._size += _bytes(features)


def _bytes(value: Any) -> int:
    """Return the size of all tensors inside `value`."""
    return sum(tensor.nbytes for tensor in _tensors(value))


def _tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors inside `value`, which may be nested mappings, lists and tuples."""
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
    """Return a value in which `change` was applied to every tensor, at any depth.

    Model outputs, dictionaries, lists and tuples keep their types.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        changed = {name: _mapped(item, change) for name, item in value.items()}
        return type(value)(**changed)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, change) for item in value)
    return value


def _row(index: int) -> Callable[[Any], Any]:
    """Return a function that copies row `index` of a tensor, as a batch of one."""
    return lambda tensor: tensor[index : index + 1].clone()


def _concatenated(values: Sequence[Any]) -> Any:
    """Join the outputs of a module for single rows into its output for a batch.

    Args:
        values: The output for each row: a tensor, or the same structure of tensors in dictionaries, lists or tuples.

    Returns:
        The same structure, in which each tensor is the concatenation of those of all rows.
    """
    import torch

    tensors_by_row = [list(_tensors(value)) for value in values]
    batches = [torch.cat(tensors) for tensors in zip(*tensors_by_row, strict=True)]
    remaining = iter(batches)
    return _mapped(values[0], lambda _: next(remaining))
