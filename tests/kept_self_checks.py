"""Results of self-checks, kept over the tests of a session: the tiny models take 2 to 4 seconds each time.

What the self-check itself does is tested by `selfcheck.choose_fast_paths`, which keeps nothing. Here, only a model whose
modules are all of installed libraries is checked once: the same architecture, weights, settings, engine and probe have
the same result. A test that replaces a method of the engine or of a module has its own self-check.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from snellen.models.hf.adapters import adapter_facts
from snellen.models.hf.encode import ContinuedPrompt
from snellen.models.hf.engine import Engine
from snellen.models.hf.selfcheck import SelfCheckResult, choose_fast_paths

LIBRARIES = ("torch", "transformers", "peft")
ENGINE_METHODS = dict(vars(Engine))
HOOKS = ("_forward_hooks", "_forward_pre_hooks")

Chooser = Callable[..., SelfCheckResult]


def keeping_self_checks(folder: Path) -> Chooser:
    """Return a `choose_fast_paths` that keeps its results in `folder`, where other processes find them."""
    folder.mkdir(parents=True, exist_ok=True)

    def choose(
        engine: Engine, probe: Sequence[ContinuedPrompt], *, exact: bool = False
    ) -> SelfCheckResult:
        if not _is_of_libraries(engine):
            return choose_fast_paths(engine, probe, exact=exact)
        kept = folder / f"{_digest(engine, probe)}{' exact' if exact else ''}"
        if kept.exists():
            result: SelfCheckResult = pickle.loads(kept.read_bytes())
            return result
        result = choose_fast_paths(engine, probe, exact=exact)
        begun = kept.with_suffix(f".{os.getpid()}")
        begun.write_bytes(pickle.dumps(result))
        begun.replace(kept)
        return result

    return choose


def _is_of_libraries(engine: Engine) -> bool:
    """Return whether no code of a test has a part in what the engine computes."""
    if type(engine) is not Engine or dict(vars(Engine)) != ENGINE_METHODS:
        return False
    layout = engine.layout
    for module in layout.model.modules():
        kind = type(module)
        own_forward = vars(module).get("forward")
        if module is layout.tower:
            # The engine puts a cache around it.
            wrapped = getattr(own_forward, "__wrapped__", None)
            if getattr(wrapped, "__func__", None) is kind.forward:
                own_forward = None
        # transformers hooks itself into layers whose output it records.
        hooks = [hook for name in HOOKS for hook in getattr(module, name).values()]
        origins = [str(code.__module__) for code in (kind, kind.forward, *hooks)]
        is_library = all(origin.partition(".")[0] in LIBRARIES for origin in origins)
        if own_forward is not None or not is_library:
            return False
    return True


def _digest(engine: Engine, probe: Sequence[ContinuedPrompt]) -> str:
    """Return a digest of all that the result depends on."""
    import torch

    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            stored = value.detach().cpu().contiguous()
            add((str(value.device), str(value.dtype), tuple(value.shape)))
            digest.update(stored.reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(value, Mapping):
            for name, part in value.items():
                add(name)
                add(part)
        else:
            digest.update(f"{value!r};".encode())

    layout = engine.layout
    model = layout.model
    add(repr(model))
    for name, module in model.named_modules():
        add((name, type(module).__module__, type(module).__qualname__))
    add(dict(model.named_parameters()))
    add(dict(model.named_buffers()))
    add(model.config.to_json_string())
    add(adapter_facts(model))
    add((engine.budget, engine.fast_paths, engine.prefix_cache.room > 0, torch.get_num_threads()))
    for name, value in vars(layout).items():
        if isinstance(value, (bool, int, frozenset)):
            add((name, sorted(value) if isinstance(value, frozenset) else value))
    for prompt in probe:
        add((prompt.context.ids, prompt.tails, prompt.context.digests, prompt.context.clips))
        add(sorted(prompt.context.per_token))
        add(prompt.context.extras)
    return digest.hexdigest()
