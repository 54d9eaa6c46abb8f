"""LoRA and other adapters of PEFT, loaded from a folder or in a model of the user."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

from snellen.common.paths import expanded
from snellen.errors import ModelError
from snellen.models.model_strings import ADAPTER_CONFIG, check_state_files
from snellen.models.object_digest import content_facts


def base_model_of(model: Any) -> Any:
    """Return the transformers model inside wrappers of torch and PEFT.

    PEFT puts LoRA and similar layers into the modules of the base model, so the base model answers with its adapters.

    Raises:
        ModelError: There is no transformers model, or its adapter is not inside its modules (prompt tuning).
    """
    import torch

    parallel = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    inner = getattr(model, "_orig_mod", model)  # of torch.compile
    while isinstance(inner, parallel):
        inner = inner.module
    peft = sys.modules.get("peft")
    if peft is not None and isinstance(inner, peft.PeftModel):
        inner = _with_adapters(inner)
    transformers = sys.modules.get("transformers")
    if transformers is None or not isinstance(inner, transformers.PreTrainedModel):
        raise ModelError(
            f"hf: {type(model).__name__} is not a transformers model; an object with generate(requests, images) "
            "can be evaluated as it is"
        )
    return inner


def _with_adapters(peft_model: Any) -> Any:
    if peft_model.active_peft_config.is_prompt_learning:
        kind = peft_model.active_peft_config.peft_type.value
        raise ModelError(
            f"hf: adapters of the kind {kind} add tokens to each prompt, which Snellen does not support; "
            "LoRA and other adapters inside the model's layers work"
        )
    if getattr(peft_model.active_peft_config, "alora_invocation_tokens", None):
        raise ModelError(
            "hf: activated LoRA begins in the middle of a prompt, which Snellen does not support; LoRA and other adapters "
            "inside the model's layers work"
        )
    return peft_model.get_base_model()


def adapter_facts(model: Any) -> dict[str, str]:
    """Return a digest of which adapters the layers of a model apply and with which strength; empty without adapters."""
    if "peft" not in sys.modules:
        return {}
    from peft.tuners.tuners_utils import BaseTunerLayer

    applied = []
    for name, module in model.named_modules():
        if not isinstance(module, BaseTunerLayer):
            continue
        scaling = sorted(getattr(module, "scaling", {}).items())
        active = list(module.active_adapters)
        merged = list(module.merged_adapters)
        applied.append((name, active, module.disable_adapters, merged, scaling))
    return content_facts("active adapters", applied) if applied else {}


def add_adapter(model: Any, adapter: str, what: str) -> tuple[Any, dict[str, str]]:
    """Add a PEFT adapter to a loaded model.

    Args:
        model: A transformers model.
        adapter: Folder or repository of the adapter.
        what: The model string, for errors.

    Returns:
        The model with its adapter, and facts about the adapter for the fingerprint.

    Raises:
        ModelError: PEFT is not installed, or the adapter cannot be loaded.
    """
    if find_spec("peft") is None:
        raise ModelError(f"{what}: peft needs the package peft: pip install peft")
    import peft

    folder = expanded(adapter)
    is_folder = folder.is_dir()
    if is_folder and not (folder / ADAPTER_CONFIG).is_file():
        raise ModelError(f"{what}: {folder} has no {ADAPTER_CONFIG}; give a folder that PEFT wrote")
    if is_folder:
        check_state_files(folder, what)
    try:
        adapted = peft.PeftModel.from_pretrained(model, str(folder) if is_folder else adapter)
    except (OSError, ValueError, RuntimeError, TypeError, KeyError, AttributeError) as error:
        first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
        raise ModelError(f"{what}: cannot load the adapter {adapter}: {first_line}") from error
    state = peft.get_peft_model_state_dict(adapted)
    kind = adapted.active_peft_config.peft_type
    adapted.eval()
    inner = _with_adapters(adapted)
    facts = {
        "peft": f"{getattr(kind, 'value', kind)} {peft.__version__}",
        **content_facts("adapter weights", dict(state)),
        **adapter_facts(inner),
    }
    return inner, facts
