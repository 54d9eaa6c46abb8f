"""Loads weights and processor for a model string, with a clear one-line error when that fails.

Where a model runs and how much memory is there, for CPUs and the accelerators of torch (CUDA, ROCm, XPU, MPS).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import logging
import os
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal, TypeVar

from snellen.common.foreign import open_file
from snellen.common.late import import_tqdm
from snellen.errors import MissingExtraError, ModelError
from snellen.fetching.user_callbacks import is_offline, user_callbacks
from snellen.models.hf.adapters import add_adapter
from snellen.models.hf.processor_settings import TOKENIZER, absent_of_processor, load_processor
from snellen.models.model_strings import STATE_FILES, ModelSpec, locate_checkpoint
from snellen.models.request_options import DTYPES, Dtype, ProcessorOptions

Kind = Literal["cpu", "accelerator"]
OUT_OF_MEMORY = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
"""Messages of libraries without an error type of their own for it: MPS, a CPU's allocator, cuBLAS and cuDNN."""
PINNED = ("cuda", "xpu")
"""Kinds of devices that copy from pinned memory in the background; others share their memory with the processor."""
R = TypeVar("R")


def accelerator() -> str:
    """Return the kind of accelerator that torch sees ("cuda", "xpu", "mps"), or an empty text."""
    import torch

    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return "" if device is None else device.type


def input_device(model: Any) -> Any:
    """Return the device on which a model takes its inputs.

    If accelerate has spread the weights over several devices or the disk, this is the device on
    which its hooks run the model.
    """
    import torch

    if not hasattr(model, "hf_device_map"):
        return model.device
    hooks = (getattr(module, "_hf_hook", None) for module in model.modules())
    places = (getattr(hook, "execution_device", None) for hook in hooks)
    place = next((place for place in places if place is not None), None)
    return model.device if place is None else torch.device(place)


def kind_of(model: Any) -> Kind:
    """Return whether a model runs on a CPU or on an accelerator."""
    return "cpu" if input_device(model).type == "cpu" else "accelerator"


def free_memory(device: Any) -> int:
    """Return the free bytes of the memory in which `device` keeps its tensors."""
    return _memory(device)[0]


def total_memory(device: Any) -> int:
    """Return the size in bytes of the memory in which `device` keeps its tensors."""
    _, total = _memory(device)
    return total


def _memory(device: Any) -> tuple[int, int]:
    """Return the free and the total bytes of a device's memory.

    For a CPU, and for a device that cannot report it (MPS), this is the memory of the machine.
    """
    import torch

    read_memory = getattr(torch.get_device_module(device), "mem_get_info", None)
    if read_memory is not None:
        free, total = read_memory(device)
        return int(free), int(total)
    page_size = os.sysconf("SC_PAGE_SIZE")
    free_pages = os.sysconf("SC_AVPHYS_PAGES")
    pages = os.sysconf("SC_PHYS_PAGES")
    return free_pages * page_size, pages * page_size


def copy_to_device(values: Any, device: Any) -> Any:
    """Return a tensor on `device`, copied from the CPU in the background where that is possible."""
    if device.type in PINNED and values.device.type == "cpu":
        # torch keeps the pinned pages until the copy is done.
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


@contextlib.contextmanager
def inference() -> Iterator[None]:
    """Run a model inside the block without gradients, and without two features of cuDNN.

    The first one is rounding of float32 to TF32 in convolutions, which cuDNN does for some shapes
    and not for others: on an H100, a row in a batch differed by 9e-4 nats from the same row by
    itself, and an image by 8e-4 from what a CPU computes. The second one is cuDNN's attention. It
    is compiled again for each length of a text, which means for each generated token; this took two
    thirds of the time.
    """
    import torch

    attention = torch.backends.cuda
    cudnn = torch.backends.cudnn
    used_cudnn_attention = attention.cudnn_sdp_enabled()
    try:
        rounded = cudnn.allow_tf32
    except RuntimeError:  # the user has set it by operation, and so knows of it
        rounded = False
    try:
        attention.enable_cudnn_sdp(False)
        if rounded:
            cudnn.allow_tf32 = False
        with torch.inference_mode():
            yield
    finally:
        attention.enable_cudnn_sdp(used_cudnn_attention)
        if rounded:
            cudnn.allow_tf32 = True


def double(values: Any) -> Any:
    """Return `values` in float64, on the CPU if their device has no such format (MPS)."""
    if values.device.type == "mps":
        values = values.cpu()
    return values.double()


def unless_out_of_memory(run: Callable[[], R]) -> R | None:
    """Return the result of `run`; None if it ran out of memory. The memory is then free again.

    Other errors are raised.
    """
    import torch

    try:
        return run()
    except (torch.OutOfMemoryError, MemoryError):
        pass
    except RuntimeError as error:
        if not any(message in str(error) for message in OUT_OF_MEMORY):
            raise
    # Only now: the error held the frames of the failed pass, and these all its tensors.
    if accelerator():
        torch.get_device_module(accelerator()).empty_cache()
    return None


SOFT_DEPENDENCY = re.compile("torchvision|num2words|sentencepiece|timm|tiktoken|protobuf")
"""Packages that transformers names where a processor needs them and they are not installed."""
NAMED_PACKAGES = (
    re.compile(r"pip install (?:-U )?([\w.-]+(?: (?!to\b|or\b|and\b)\w[\w.-]*)*)"),
    re.compile(r"requires the ([\w.-]+) library"),
)
"""How transformers names packages that are not installed: by a command or by a name, as in `requires the Torchvision library`."""

SMALL = 20_000_000
"""Parameters below which a model runs on one CPU thread."""


class HfOptions(ProcessorOptions, frozen=True):
    """Options after `?` in an hf: model string."""

    dtype: Dtype = "auto"
    """Number format of the weights. `auto` is the stored one on an accelerator, and float32 on a CPU.

    On a CPU, half precision is slow and inaccurate.
    """
    device: str = "auto"
    device_map: str = ""
    attn_implementation: str = "auto"
    """As transformers spells it. auto: the best that the architecture supports; GIT supports only eager."""
    batch_size: str = "auto"
    trust_remote_code: bool = False
    pickle: bool = False
    """Weights may be read from a pickle (`.bin`); of objects in it only tensors are made."""
    load_in_4bit: bool = False
    load_in_8bit: bool = False
    peft: str = ""
    """Folder or repository of a PEFT adapter (LoRA and the like) that is put into the model."""
    scoring: Literal["fast", "exact"] = "fast"
    """With `exact`, there is a full forward pass for each option or token, and nothing is shared or cached."""
    clips: Literal["auto", "video", "images"] = "auto"
    """How the model is given the frames of a clip: as one video, or as images. auto: as video where it takes one."""

    def rows(self, automatic: int) -> int:
        """Return the number of rows in a batch: the user's number or, if there is none, `automatic`.

        Raises ValueError if the user's number is not a positive integer.
        """
        size = automatic if self.batch_size == "auto" else int(self.batch_size)
        if size < 1:
            raise ValueError(self.batch_size)
        return size


@dataclass(frozen=True)
class LoadedModel:
    """A model with its processor, and the facts that its replies depend on."""

    model: Any
    processor: Any
    facts: dict[str, str]
    sees_images: bool = True
    self_checks: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    """What self-checks of these weights have found, shared by all copies of them in this process."""


ClassChooser = Callable[[Any, str, dict[str, Any]], Any]
"""Function that returns the class to load.

It is given the module `transformers`, the folder or repository, and the arguments of `from_pretrained`.
"""


def load_pretrained(
    spec: ModelSpec, options: HfOptions, choose: ClassChooser | None = None
) -> LoadedModel:
    """Load the weights and the processor of a model.

    Args:
        spec: The model string.
        options: Its options.
        choose: Selects a class other than that of image-text-to-text models.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ModelError: The model cannot be loaded; the message is one line.
    """
    try:
        import torch  # noqa: F401  # the error names what is missing

        transformers = import_transformers()
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "hf", spec.text) from None
    target, revision = locate_checkpoint(spec)
    common: dict[str, Any] = {"trust_remote_code": options.trust_remote_code}
    if revision:
        common["revision"] = revision
    device = _device(spec, options)
    is_on_hub = not Path(target).is_dir()
    if is_on_hub and not is_offline():
        fault = _hub_fault()
        if fault:
            _check_cached(spec, target, revision, fault)
            common["local_files_only"] = True
    with without_warnings(), _explained(spec, target):
        reads_only_text = choose is None and reads_text_alone(transformers, target, common)
        if reads_only_text:
            processor = load_text_processor(spec, options, target, common)
            model_class = transformers.AutoModelForCausalLM
        else:
            processor = load_processor(spec, target, options.processor_settings(), common)
            if choose:
                model_class = choose(transformers, target, common)
            else:
                model_class = transformers.AutoModelForImageTextToText
        placing = _placing(spec, options, device)
        if "local_files_only" in common:
            # Else transformers looks on the hub for an adapter of these weights, for 23 s.
            placing["adapter_kwargs"] = {"local_files_only": True}
        with _broken_weights_named(spec, target):
            model, report = model_class.from_pretrained(
                target,
                output_loading_info=True,
                use_safetensors=None if options.pickle else True,
                **common,
                **placing,
            )
        adapter_facts: dict[str, str] = {}
        if options.peft and not report["missing_keys"]:
            with _broken_weights_named(spec, options.peft):
                model, adapter_facts = add_adapter(model, options.peft, spec.text)
        if not hasattr(model, "hf_device_map"):
            model = model.to(device)
    if report["missing_keys"]:
        names = sorted(report["missing_keys"])
        raise ModelError(
            f"{spec.text}: the weights lack {len(names)} tensors of {type(model).__name__} (first: {names[0]}); "
            "they are truncated or belong to another architecture"
        )
    model.eval()
    facts = {
        "weights": weights_fact(target, model.config),
        **model_facts(model, processor),
        **adapter_facts,
    }
    if options.load_in_4bit or options.load_in_8bit:
        facts["quantised"] = "4bit" if options.load_in_4bit else "8bit"
    facts.update(options.processor_facts())
    return LoadedModel(model, processor, facts, sees_images=not reads_only_text)


def load_prompt_parts(spec: ModelSpec, options: ProcessorOptions) -> tuple[Any, Any]:
    """Load what prompts are written with, for a model whose weights another engine runs.

    Returns:
        The processor, or a `TextProcessor` for a model that reads text alone; and the settings of the model
        (`AutoConfig`).

    Raises:
        ModelError: It cannot be loaded; the message is one line.
    """
    transformers = import_transformers()
    target, revision = locate_checkpoint(spec)
    common: dict[str, Any] = {"trust_remote_code": getattr(options, "trust_remote_code", False)}
    if revision:
        common["revision"] = revision
    with without_warnings(), _explained(spec, target):
        config = transformers.AutoConfig.from_pretrained(target, **common)
        if reads_text_alone(transformers, target, common):
            return load_text_processor(spec, options, target, common), config
        processor = load_processor(spec, target, options.processor_settings(), common)
        return processor, config


def load_text_processor(
    spec: ModelSpec, options: ProcessorOptions, target: str, common: dict[str, Any]
) -> TextProcessor:
    """Load the tokenizer of a model that reads text alone.

    Raises:
        ModelError: The user gave settings of images, or the folder has no tokenizer.
    """
    settings = options.processor_settings()
    if settings:
        raise ModelError(
            f"{spec.text}: the model reads text alone and shows no image to a processor; leave out "
            f"{', '.join(settings)}"
        )
    if TOKENIZER in absent_of_processor(target):
        raise ModelError(
            f"{spec.text}: {target} has no tokenizer; save it with tokenizer.save_pretrained({target!r}), or copy it "
            "from the base model"
        )
    return TextProcessor(import_transformers().AutoTokenizer.from_pretrained(target, **common))


def model_facts(model: Any, processor: Any) -> dict[str, str]:
    """Return the facts that the replies of a loaded model depend on, except its weights."""
    import torch

    facts = {
        "dtype": str(model.dtype).removeprefix("torch."),
        "class": type(model).__name__,
        "processor": _processor_names(processor),
        "attention": str(getattr(model.config, "_attn_implementation", "")),
        "device": input_device(model).type,
        "torch": torch.__version__,
        "transformers": import_transformers().__version__,
    }
    quantisation = getattr(model.config, "quantization_config", None)
    if quantisation is not None:
        method = getattr(quantisation, "quant_method", "")
        facts["quantised"] = str(getattr(method, "value", method))
    return facts


@contextlib.contextmanager
def quiet_and_single_threaded(model: Any) -> Iterator[None]:
    """Run quietly, and on one thread if the model is small and on a CPU.

    A forward pass of a small model takes less time than waking threads: on two busy cores, 128 passes of the
    1.8 M parameter `snellen:tiny` took 38 s on two threads and 0.8 s on one.
    """
    import torch

    threads = torch.get_num_threads()
    parameters = sum(values.numel() for values in model.parameters())
    on_one_thread = kind_of(model) == "cpu" and parameters < SMALL
    with without_warnings():
        if on_one_thread:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if on_one_thread:
                torch.set_num_threads(threads)


def import_transformers() -> Any:
    """Import transformers now. Its type annotations differ between versions, so they are not used."""
    import_tqdm()
    return importlib.import_module("transformers")


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Silence transformers' progress bars, advice and deprecation warnings, which do not concern the user."""
    output = import_transformers().utils.logging
    had_progress_bars = output.is_progress_bar_enabled()
    verbosity = output.get_verbosity()
    output.disable_progress_bar()
    output.set_verbosity(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        output.set_verbosity(verbosity)
        if had_progress_bars:
            output.enable_progress_bar()


def _device(spec: ModelSpec, options: HfOptions) -> str:
    """Return the device to load the model on. Raises ModelError for one that torch does not find."""
    import torch

    available = accelerator()
    if options.device == "auto":
        return available or "cpu"
    try:
        device_type = torch.device(options.device).type
    except RuntimeError:
        devices = "cpu, cuda, cuda:1, xpu or mps"
        raise ModelError(
            f"{spec.text}: {options.device!r} is not a device; write {devices}"
        ) from None
    if device_type in ("cpu", available):
        return options.device
    if available:
        fault = f"finds no GPU, only {available}; use device={available}"
    else:
        fault = "finds no GPU; use device=cpu"
    raise ModelError(f"{spec.text}: device {options.device} was requested, but torch {fault}")


def _placing(spec: ModelSpec, options: HfOptions, device: str) -> dict[str, Any]:
    """Return the arguments of from_pretrained that place weights: number format, devices, attention, quantisation."""
    import torch

    number_format = DTYPES.get(options.dtype)
    if not number_format and device == "cpu":
        number_format = "float32"
    placing: dict[str, Any] = {"dtype": getattr(torch, number_format) if number_format else "auto"}
    if options.attn_implementation != "auto":
        placing["attn_implementation"] = options.attn_implementation
    if options.device_map:
        _require("accelerate", spec, "device_map")
        placing["device_map"] = options.device_map
    if options.load_in_4bit or options.load_in_8bit:
        _require("bitsandbytes", spec, "load_in_4bit and load_in_8bit")
        placing["quantization_config"] = import_transformers().BitsAndBytesConfig(
            load_in_4bit=options.load_in_4bit, load_in_8bit=options.load_in_8bit
        )
        placing.setdefault("device_map", {"": device})
    return placing


def _require(package: str, spec: ModelSpec, purpose: str) -> None:
    """Raise ModelError unless a package is installed."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise ModelError(
            f"{spec.text}: {purpose} needs the package {package}: pip install {package}"
        )


HUB_SECONDS = 10.0
"""How long the hub may take to answer at all."""


def _hub_fault() -> str:
    """Return why the hub cannot be reached; empty if it answers.

    The hub's own library would try for half a minute, file by file, and print a line each time.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import HTTPError  # pyrefly: ignore[implicit-reexport]  # of either HTTP client
    from huggingface_hub.utils import get_session  # pyrefly: ignore[implicit-reexport]

    try:
        get_session().head(constants.ENDPOINT, timeout=HUB_SECONDS)
    except (HTTPError, OSError) as error:
        return f"{constants.ENDPOINT} cannot be reached ({_first_line(error)})"
    return ""


def _check_cached(spec: ModelSpec, target: str, revision: str, fault: str) -> None:
    """Say that the hub's cache is used. Raises ModelError where it does not hold the model."""
    from huggingface_hub import constants, try_to_load_from_cache

    cached = try_to_load_from_cache(
        target, "config.json", cache_dir=constants.HF_HUB_CACHE, revision=revision or None
    )
    if not isinstance(cached, str):
        raise ModelError(
            f"{spec.text}: {fault}, and {target} is not in the hub's cache; give a folder with the model "
            "(hf:./folder), or copy a cache that contains it to this machine and set HF_HUB_OFFLINE=1"
        )
    user_callbacks().say(
        f"{fault}; loading {target} from the hub's cache instead (HF_HUB_OFFLINE=1 always does so)"
    )


@contextlib.contextmanager
def _explained(spec: ModelSpec, target: str) -> Iterator[None]:
    """Turn the long errors of loading into ModelErrors of one line that say what to do."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise ModelError(
            f"{spec.text}: the weights do not fit in the GPU's memory; try ?dtype=bf16, ?load_in_4bit=true or "
            "?device_map=auto"
        ) from None
    except (ImportError, AttributeError) as error:
        raise _missing_package(spec, error) from error
    except (OSError, ValueError, KeyError) as error:
        if SOFT_DEPENDENCY.search(str(error)):
            raise _missing_package(spec, error) from error
        if isinstance(error, OSError) and not Path(target).is_dir():
            if is_offline():
                hint = (
                    "it is not in the local cache, and HF_HUB_OFFLINE is set; download it first, or unset "
                    "HF_HUB_OFFLINE"
                )
            else:
                hint = "check the name, the revision and your network; for a gated model, run `hf auth login`"
            raise ModelError(f"{spec.text}: cannot load {target}: {hint}") from error
        raise ModelError(f"{spec.text}: cannot load {target}: {_first_line(error)}") from error


@contextlib.contextmanager
def _broken_weights_named(spec: ModelSpec, target: str) -> Iterator[None]:
    """Turns what readers of weights raise into one line; other errors are left to `_explained`."""
    import torch
    from safetensors import SafetensorError

    broken = f"{spec.text}: the weights of {target} are broken or of another architecture"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Detected pickle protocol", UserWarning)
            yield
    except torch.OutOfMemoryError:
        raise
    except UnpicklingError as error:
        # torch makes tensors alone of a pickle, and says at length how to let it run anything.
        call = re.search(r"GLOBAL (\S+)", str(error))
        why = f"would call {call[1]}, which Snellen does not allow" if call else "cannot be read"
        raise ModelError(
            f"{spec.text}: the pickle of {target} {why}; request safetensors weights"
        ) from error
    except (SafetensorError, EOFError, RuntimeError, KeyError) as error:
        raise ModelError(
            f"{broken} ({type(error).__name__}: {_first_line(error)}); download them again"
        ) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # of a seek in a file that is cut short
            raise ModelError(f"{broken} (a file is truncated); download them again") from error
        if "safetensors" in str(error) and list(Path(target).glob("*.bin")):
            raise ModelError(
                f"{spec.text}: {target} has only pickled weights (.bin), which can contain code; request "
                "safetensors weights, or add ?pickle=true, which loads only tensors"
            ) from error
        raise


def _first_line(error: Exception) -> str:
    """Return the first line of an error's message, at most 200 characters of whole words, or the name of its type."""
    message = str(error).strip()
    if not message:
        return type(error).__name__
    return textwrap.shorten(message.splitlines()[0], 200, placeholder=" ...")


def _missing_package(spec: ModelSpec, error: Exception) -> Exception:
    """Return the error for a processor or model that needs another package, as far as the message says which."""
    package = package_named(error)
    if not package:
        return ModelError(f"{spec.text}: cannot load: {_first_line(error)}")
    return ModelError(f"{spec.text}: its processor or model needs {package}: pip install {package}")


def package_named(error: Exception) -> str:
    """Return the packages that an error of transformers asks for, separated by spaces; empty if it names none."""
    message = str(error)
    if "VIDEO_PROCESSOR" in message:
        # Without torchvision the video processors are dummies, and a Qwen2-VL processor fails on one of them.
        return "torchvision"
    for pattern in NAMED_PACKAGES:
        named = pattern.search(message)
        if named:
            return named[1].rstrip(".").lower()
    named = SOFT_DEPENDENCY.search(message)
    if named:
        return named[0]
    if isinstance(error, ModuleNotFoundError) and error.name:
        return error.name.partition(".")[0]
    return ""


def _processor_names(processor: Any) -> str:
    """Return the classes of processor, image processor and tokenizer: two back ends give different pixels."""
    names = []
    for component in (
        processor,
        getattr(processor, "image_processor", None),
        getattr(processor, "tokenizer", None),
    ):
        if component is not None:
            names.append(type(component).__name__)
    return " ".join(names)


def weights_fact(target: str, config: Any) -> str:
    """Return the commit of a repository whose `config` was loaded, or a digest of a folder's weights and settings."""
    folder = Path(target)
    if not folder.is_dir():
        return str(getattr(config, "_commit_hash", None) or "unknown revision")
    paths = []
    for path in sorted(folder.iterdir()):
        is_hidden = path.name.startswith(".")
        if path.is_file() and path.suffix in STATE_FILES and not is_hidden:
            paths.append(path)
    digest = hashlib.sha256()
    with ThreadPoolExecutor() as pool:  # digests are computed without Python's lock
        for path, file_digest in zip(paths, pool.map(_digest, paths), strict=True):
            digest.update(f"{path.name}:{file_digest}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file, cached while its size and modification time stay the same."""
    stat = path.stat()
    return _sha256(str(path), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=256)
def _sha256(path: str, size: int, modified: int) -> str:
    """Digest of a file's bytes, cached while its size and modification time stay the same."""
    with open_file(Path(path)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- language models without eyes: other roles of a run are theirs, a question about an image is not -----------------


class TextProcessor:
    """A tokenizer in the place of a processor."""

    image_processor: Any = None

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, *, text: str, images: Any = None, **settings: Any) -> Any:
        """The text as tensors. Raises ValueError for images."""
        if images:
            raise ValueError("this model reads only text, but the request contains an image")
        return self.tokenizer(text, **settings)


def reads_text_alone(transformers: Any, target: str, common: dict[str, Any]) -> bool:
    """Return whether a repository or folder holds a causal language model that is not an image-text-to-text model.

    `common` are arguments of from_pretrained.
    """
    config_class = type(transformers.AutoConfig.from_pretrained(target, **common))
    if config_class in transformers.AutoModelForImageTextToText._model_mapping:
        return False
    return config_class in transformers.AutoModelForCausalLM._model_mapping
