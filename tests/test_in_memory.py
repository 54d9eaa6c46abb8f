"""Models as people hold them: transformers models in memory, with adapters, and functions."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from PIL import Image

import snellen as sn
import tiny_archs
from snellen.errors import HookError, ModelError

# PEFT calls what transformers is about to rename.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")
BENCHMARK = "eyechart/shape"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_archs.save("LLaVA", tmp_path_factory.mktemp("llava"))


@pytest.fixture
def model(folder: Path) -> Any:
    return transformers.AutoModelForImageTextToText.from_pretrained(folder)


@pytest.fixture(scope="module")
def processor(folder: Path) -> Any:
    return transformers.AutoProcessor.from_pretrained(folder)


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def replies(model: Any, **fields: Any) -> list[str]:
    return sn.evaluate(model, BENCHMARK, limit=6, **fields).samples()["reply"].to_list()


def with_lora(model: Any) -> Any:
    config = peft.LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    torch.manual_seed(0)
    return peft.get_peft_model(model, config)


def test_a_model_in_memory_replies_like_its_folder(
    model: Any, processor: Any, folder: Path
) -> None:
    assert replies(sn.hf(model, processor)) == replies(f"hf:{folder}")


def test_a_model_in_training_is_asked_without_dropout_and_goes_on_training(
    model: Any, processor: Any, folder: Path
) -> None:
    model.train()
    model.model.vision_tower.eval()  # frozen by its trainer
    modes = [module.training for module in model.modules()]

    assert replies(sn.hf(model, processor)) == replies(f"hf:{folder}")
    assert [module.training for module in model.modules()] == modes


def test_other_weights_are_asked_again(model: Any, processor: Any) -> None:
    wrapped = sn.hf(model, processor)
    before = replies(wrapped, name="before")
    with torch.no_grad():
        model.lm_head.weight.copy_(model.lm_head.weight.flip(0))

    assert replies(wrapped, name="after") != before
    with pytest.raises(sn.StoreError):
        replies(wrapped, name="before")


def test_lora_replies_alike_in_memory_and_from_its_folder(
    model: Any, processor: Any, folder: Path, tmp_path: Path
) -> None:
    base = replies(sn.hf(model, processor))
    adapted = with_lora(model)
    adapted.save_pretrained(tmp_path / "adapter")

    in_memory = replies(sn.hf(adapted, processor, name="lora"))
    loaded = sn.load_model(f"hf:{folder}?peft={tmp_path / 'adapter'}")

    assert in_memory != base
    assert replies(loaded) == in_memory
    assert loaded.fingerprint()["peft"].startswith("LORA ")


def test_lora_scores_by_shared_passes_as_alone(model: Any, processor: Any) -> None:
    adapted = with_lora(model)
    scores = []
    for scoring in ("fast", "exact"):
        wrapped = sn.hf(adapted, processor, name=scoring, scoring=scoring)
        results = sn.evaluate(wrapped, BENCHMARK, "likelihood", limit=6, name=scoring)
        [run] = results.runs
        assert ("tree" in run.manifest.fingerprint["scoring"]) == (scoring == "fast")
        scores.append(results.samples()["log_likelihoods"].to_list())
    for fast, exact in zip(*scores, strict=True):
        assert fast == pytest.approx(exact, abs=1e-3)


def test_two_adapters_of_one_base_have_different_fingerprints(
    model: Any, folder: Path, tmp_path: Path
) -> None:
    adapted = with_lora(model)
    adapted.save_pretrained(tmp_path / "first")
    with torch.no_grad():
        for name, weights in adapted.named_parameters():
            if "lora_B" in name:
                weights.mul_(2)
    adapted.save_pretrained(tmp_path / "second")

    first, second = (
        sn.load_model(f"hf:{folder}?peft={tmp_path / name}").fingerprint()
        for name in ("first", "second")
    )
    assert first["weights"] == second["weights"]
    assert first["adapter weights"] != second["adapter weights"]


def test_other_settings_are_asked_again(model: Any, folder: Path) -> None:
    processor = transformers.AutoProcessor.from_pretrained(folder)
    wrapped = sn.hf(model, processor)
    found = [wrapped.fingerprint()]
    processor.chat_template = "{{ 'Look closely. ' }}" + processor.chat_template
    found.append(wrapped.fingerprint())
    processor.image_processor.do_normalize = False
    found.append(wrapped.fingerprint())
    model.config.text_config.rms_norm_eps = 0.5
    found.append(wrapped.fingerprint())
    model.config.use_cache = False
    processor.tokenizer(["a", "b c"], padding=True)

    assert len({tuple(facts.items()) for facts in found}) == 4
    assert wrapped.fingerprint() == found[-1]


def test_another_adapter_or_scale_is_asked_again(
    model: Any, processor: Any, folder: Path, tmp_path: Path
) -> None:
    adapted = with_lora(model)
    adapted.save_pretrained(tmp_path / "adapter")
    config = peft.LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    adapted.add_adapter("other", config)
    wrapped = sn.hf(adapted, processor)
    first = wrapped.fingerprint()
    adapted.set_adapter("other")
    other = wrapped.fingerprint()
    with adapted.disable_adapter():
        base = wrapped.fingerprint()

    assert first["weights"] == other["weights"] == base["weights"]
    assert len({facts["active adapters"] for facts in (first, other, base)}) == 3

    string = f"hf:{folder}?peft={tmp_path / 'adapter'}"
    before = sn.load_model(string).fingerprint()
    file = tmp_path / "adapter" / "adapter_config.json"
    file.write_text(file.read_text().replace('"lora_alpha": 8', '"lora_alpha": 64'))
    assert sn.load_model(string).fingerprint() != before


def test_the_model_and_processor_are_left_as_they_were(model: Any, folder: Path) -> None:
    processor = transformers.AutoProcessor.from_pretrained(folder)
    kind = type(processor.image_processor)
    facts = sn.hf(model, processor).fingerprint()
    before = replies(sn.hf(model, processor), name="same")
    twin = copy.deepcopy(model)

    assert type(processor.image_processor) is kind
    assert not [name for name, module in model.named_modules() if "forward" in vars(module)]
    assert sn.hf(model, processor).fingerprint() == facts
    assert replies(sn.hf(model, processor), name="same") == before  # resumed
    assert replies(sn.hf(twin, processor), name="twin") == before


def test_a_pipeline_is_its_model(folder: Path) -> None:
    pipeline = transformers.pipeline("image-text-to-text", model=str(folder))
    assert replies(pipeline) == replies(f"hf:{folder}")


def test_what_cannot_be_asked_is_refused_in_a_line(model: Any, processor: Any) -> None:
    with pytest.raises(ModelError, match=r"^LlavaFor\w+ needs its processor: evaluate sn\.hf\("):
        replies(model)
    with pytest.raises(ModelError, match="there is no processor; give AutoProcessor"):
        sn.hf(model, None)
    with pytest.raises(ModelError, match=r"^hf: Linear is not a transformers model"):
        sn.hf(torch.nn.Linear(1, 1), processor)
    with pytest.raises(ModelError, match="dtype: this model is loaded already"):
        sn.hf(model, processor, dtype="bf16")
    prompt_tuning = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    small = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=64,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
        )
    )
    with pytest.raises(ModelError, match="adapters of the kind PROMPT_TUNING add tokens"):
        sn.hf(peft.get_peft_model(small, prompt_tuning), processor)


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        ({"checkpoint-20": "", "checkpoint-100": ""}, "hf:out/checkpoint-100?"),
        (
            {"checkpoint-5": '{"base_model_name_or_path": "org/base"}'},
            "write hf:org/base?peft=out/checkpoint-5",
        ),
        ({".": '{"base_model_name_or_path": "org/base"}'}, "write hf:org/base?peft=out"),
        ({".": "{"}, "write hf:BASE?peft=out"),
        ({"checkpoint-last": ""}, "point at the folder save_pretrained wrote"),
    ],
)
def test_a_trainers_folder_is_answered_with_its_last_checkpoint(
    files: dict[str, str], hint: str
) -> None:
    for name, adapter in files.items():
        checkpoint = Path("out", name)
        checkpoint.mkdir(parents=True)
        if adapter:
            (checkpoint / "adapter_config.json").write_text(adapter)
    with pytest.raises(ModelError) as raised:
        sn.load_model("hf:out")
    assert str(raised.value).endswith(hint)


def as_pickle(adapter: Path) -> None:
    (adapter / "adapter_model.safetensors").unlink()
    torch.save({"lora": slice(1)}, adapter / "adapter_model.bin")


def as_pipe(adapter: Path) -> None:
    (adapter / "adapter_model.safetensors").unlink()
    os.mkfifo(adapter / "adapter_model.safetensors")


def as_device(adapter: Path) -> None:
    (adapter / "adapter_model.safetensors").unlink()
    (adapter / "adapter_model.safetensors").symlink_to("/dev/zero")


def as_empty_weights(adapter: Path) -> None:
    (adapter / "adapter_model.safetensors").write_bytes(b"")


def as_unknown_kind(adapter: Path) -> None:
    (adapter / "adapter_config.json").write_text('{"peft_type": "NEWER"}')


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (as_pickle, "would call"),
        (as_pipe, "it is a pipe, not a file"),
        (as_device, "it is a device, not a file"),
        (as_empty_weights, "the weights of .* are broken"),
        (as_unknown_kind, "cannot load the adapter .*NEWER"),
    ],
)
def test_a_damaged_adapter_is_refused_in_a_line(
    model: Any, folder: Path, damage: Callable[[Path], None], fault: str
) -> None:
    with_lora(copy.deepcopy(model)).save_pretrained("adapter")
    damage(Path("adapter"))
    with pytest.raises(ModelError, match=fault) as raised:
        sn.load_model(f"hf:{folder}?peft=adapter")
    assert len(str(raised.value).splitlines()) == 1


def test_a_pipe_among_the_files_of_a_model_is_not_waited_for(folder: Path) -> None:
    shutil.copytree(folder, "copy")
    Path("copy", "model.safetensors").unlink()
    os.mkfifo("copy/model.safetensors")
    with pytest.raises(ModelError, match="it is a pipe, not a file"):
        sn.load_model("hf:./copy")


# --- functions and classes --------------------------------------------------------------------------------------------


def test_a_function_gets_the_prompt_and_pil_images() -> None:
    seen = []

    def describe(question: str, images: list[Image.Image]) -> str:
        seen.append((question, images))
        return "(A)"

    assert replies(describe) == ["(A)"] * 6
    question, [image] = seen[0]
    assert "What shape is in the picture? Options: (A)" in question
    assert (image.mode, image.size) == ("RGB", (256, 256))


def test_a_function_of_one_image_gets_it() -> None:
    sizes = []

    def describe(question: str, image: Image.Image) -> str:
        sizes.append(image.size)
        return "(A)"

    assert replies(describe) == ["(A)"] * 6
    assert sizes == [(256, 256)] * 6


def test_a_function_may_take_the_image_first() -> None:
    def describe(image: Image.Image, question: str) -> str:
        return "(A)" if image.size == (256, 256) and "What shape" in question else "(B)"

    assert replies(describe) == ["(A)"] * 6


def test_a_function_of_several_questions_is_called_with_lists() -> None:
    calls = []

    def describe(questions: list[str], images: list[list[Image.Image]]) -> list[str]:
        calls.append((len(questions), len(images)))
        return ["(B)"] * len(questions)

    assert replies(describe) == ["(B)"] * 6
    assert calls == [(6, 6)]


def test_a_class_and_a_list_of_kinds_are_evaluated() -> None:
    class Always:
        def generate(self, requests: Any, images: Any) -> list[str]:
            return ["(A)"] * len(requests)

    def first(question: str, images: Any) -> str:
        return "(A)"

    results = sn.evaluate([Always, first, "snellen:always-a"], BENCHMARK, limit=6)
    values = [results.value(model=run.manifest.model) for run in results.runs]
    assert len(values) == 3
    assert len(set(values)) == 1


def test_a_function_is_named_by_its_file_on_the_command_line() -> None:
    Path("my_model.py").write_text("def describe(question, images):\n    return '(A)'\n")
    assert replies("my_model.py:describe") == ["(A)"] * 6


def test_a_function_that_changes_is_asked_again() -> None:
    for reply in ("(A)", "(B)"):
        assert replies(lambda question, images, reply=reply: reply) == [reply] * 6


def fails(question: str, images: Any) -> str:
    raise ZeroDivisionError("by zero")


@pytest.mark.parametrize(
    ("function", "error", "line"),
    [
        (lambda question: "A", ModelError, r"f\(question, images\)"),
        (lambda question, images: 3, ModelError, "returned 3; return the reply as a str"),
        (lambda question, images: ["A"], ModelError, "calls its first parameter `questions`"),
        (lambda questions, images: "A", ModelError, "return a list with a reply for each"),
        (lambda questions, images: ["A"], ModelError, "returned 1 replies for 6 questions"),
        (fails, HookError, r"fails failed on question shape-test-\d+: ZeroDivisionError: by zero"),
    ],
)
def test_functions_that_are_no_models_are_refused(
    function: Any, error: type[Exception], line: str
) -> None:
    with pytest.raises(error, match=line):
        replies(function)
