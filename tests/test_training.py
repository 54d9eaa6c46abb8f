"""Evaluation while a model is trained: a real Trainer, a tiny LLaVA and LoRA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers

import snellen as sn
from snellen.errors import DataError, ModelError
from snellen.report.axes import ChartAxis

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def processor() -> Any:
    return transformers.AutoProcessor.from_pretrained(sn.tiny_checkpoint("tiny-xs"))


def lora_model() -> Any:
    model = transformers.AutoModelForImageTextToText.from_pretrained(sn.tiny_checkpoint("tiny-xs"))
    torch.manual_seed(0)
    config = peft.LoraConfig(r=8, lora_dropout=0.1, target_modules=["q_proj", "v_proj"])
    return peft.get_peft_model(model, config)


def trainer_of(model: Any, processor: Any, callback: Any, steps: int, **settings: Any) -> Any:
    questions = sn.load_benchmark("eyechart/shape")[:16]

    def collate(batch: list[Any]) -> Any:
        texts = []
        for question in batch:
            content = [{"type": "image"}, {"type": "text", "text": question.question}]
            turns = [{"role": "user", "content": content}]
            prompt = processor.apply_chat_template(turns, add_generation_prompt=True)
            texts.append(f"{prompt}{question.answer}")
        images = [question.images for question in batch]
        inputs = processor(text=texts, images=images, padding=True, return_tensors="pt")
        return {**inputs, "labels": inputs["input_ids"].clone()}

    settings.setdefault("report_to", [])
    arguments = transformers.TrainingArguments(
        "out",
        max_steps=steps,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        remove_unused_columns=False,
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        **settings,
    )
    return transformers.Trainer(
        model,
        arguments,
        data_collator=collate,
        train_dataset=questions,
        eval_dataset=questions[:4],
        processing_class=processor,
        callbacks=[callback],
    )


def test_a_trainer_evaluates_lora_every_few_steps(processor: Any) -> None:
    callback = sn.EvaluationCallback("eyechart/shape", every=2, name="lora", limit=12)
    trainer = trainer_of(lora_model(), processor, callback, steps=5)
    callback.trainer = trainer
    trainer.train()

    assert list(callback.results) == [0, 2, 4, 5]
    folders = sorted(path.name for path in Path("runs/lora").glob("step-*"))
    assert folders == ["step-000000", "step-000002", "step-000004", "step-000005"]
    base = sn.evaluate("snellen:tiny-xs", "eyechart/shape", limit=12).value()
    assert callback.results[0].value() == base  # LoRA begins as the model without it

    logged = [entry for entry in trainer.state.log_history if "eval_eyechart/shape" in entry]
    assert [entry["step"] for entry in logged] == [0, 2, 4, 5]
    values = [callback.results[step].value() for step in callback.results]
    assert [entry["eval_eyechart/shape"] for entry in logged] == values


def test_without_steps_the_evaluations_of_the_trainer_count(processor: Any) -> None:
    callback = sn.EvaluationCallback("eyechart/shape", name="theirs", limit=4)
    settings = {"eval_strategy": "steps", "eval_steps": 3, "prediction_loss_only": True}
    trainer = trainer_of(lora_model(), processor, callback, steps=7, **settings)
    trainer.evaluate()
    assert not callback.results  # before the training

    trainer.train()
    assert list(callback.results) == [0, 3, 6, 7]


def test_a_trainer_without_a_processor_says_where_to_give_it(processor: Any) -> None:
    callback = sn.EvaluationCallback("eyechart/shape", name="bare", limit=4)
    trainer = trainer_of(lora_model(), processor, callback, steps=1)
    trainer.callback_handler.processing_class = None
    with pytest.raises(
        ModelError, match="processing_class=processor to the Trainer, or processor="
    ):
        trainer.train()


def test_the_report_of_a_training_has_its_curve_and_flips(processor: Any, tmp_path: Path) -> None:
    for step, model in ((0, "snellen:always-a"), (100, "snellen:uniform"), (200, "snellen:oracle")):
        sn.evaluate_step(model, step, ["eyechart/shape", "eyechart/count"], name="mine", limit=12)
    results = sn.load_run(sorted(Path("runs/mine").iterdir()))

    text = results.report("report.md").read_text()
    section = text.partition("## Training")[2].partition("\n## ")[0]
    assert "mine: scores by step" in section
    scores = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("|")]
    assert scores[2:5] == ["0", "100", "200"]
    assert "mine: questions that flipped" in section
    assert "mine@0, mine@100" in section

    page = results.report("report.html").read_text()
    assert "eyechart/shape: score by training step" in page


def test_steps_are_written_out_on_the_axis() -> None:
    axis = ChartAxis("step", "", top=1500.0)
    assert [axis.label(tick) for tick in axis.ticks] == ["0", "500", "1,000", "1,500"]


def test_a_second_training_under_the_same_name_is_refused(processor: Any) -> None:
    sn.evaluate_step("snellen:oracle", 0, "eyechart/shape", name="lora", limit=4)
    callback = sn.EvaluationCallback("eyechart/shape", name="lora", limit=4)
    with pytest.raises(
        DataError, match=r"runs/lora has runs .*EvaluationCallback\(\.\.\., name=\"lora-2\"\)"
    ):
        trainer_of(lora_model(), processor, callback, steps=1).train()


def test_sharded_weights_and_senseless_intervals_are_refused() -> None:
    callback = sn.EvaluationCallback("eyechart/shape")
    state = transformers.TrainerState()

    class Sharded:
        fsdp = "full_shard"
        world_size = 2

    with pytest.raises(ModelError, match="evaluate saved checkpoints instead"):
        callback.on_train_begin(Sharded(), state, None)
    with pytest.raises(DataError, match="1 or more, not 0"):
        sn.EvaluationCallback("eyechart/shape", every=0)


def test_scores_reach_tensorboard(processor: Any) -> None:
    reading = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="waits for tensorboard"
    )
    callback = sn.EvaluationCallback("eyechart/shape", every=2, name="logged", limit=6)
    trainer = trainer_of(
        lora_model(), processor, callback, steps=4, report_to=["tensorboard"], logging_dir="logs"
    )
    callback.trainer = trainer
    trainer.train()

    written = {}
    for folder in {path.parent for path in Path().rglob("events.out.tfevents.*")}:
        events = reading.EventAccumulator(str(folder))
        events.Reload()
        for tag in events.Tags()["scalars"]:
            written[tag] = {event.step: event.value for event in events.Scalars(tag)}
    values = {step: results.value() for step, results in callback.results.items()}
    assert written["eval/eyechart/shape"] == pytest.approx(values)


def test_an_evaluation_near_the_timeout_of_other_processes_is_reported(
    processor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snellen.trainer_callback._wait_for_other_processes", lambda: None)
    model = transformers.AutoModelForImageTextToText.from_pretrained(sn.tiny_checkpoint("tiny-xs"))
    callback = sn.EvaluationCallback("eyechart/shape", name="slow", limit=2)

    class TwoProcesses:
        fsdp = ""
        world_size = 2
        ddp_timeout = 0

    given = {"model": model, "processing_class": processor}
    with pytest.warns(UserWarning, match=r"stop waiting after 0 s; .* raise ddp_timeout"):
        callback.on_train_begin(TwoProcesses(), transformers.TrainerState(), None, **given)


def test_other_processes_wait_as_often_as_the_first(
    processor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []
    monkeypatch.setattr(
        "snellen.trainer_callback._wait_for_other_processes", lambda: waits.append(1)
    )
    model = transformers.AutoModelForImageTextToText.from_pretrained(sn.tiny_checkpoint("tiny-xs"))
    counts = []
    for is_first in (True, False):
        waits.clear()
        callback = sn.EvaluationCallback("eyechart/shape", every=2, name="shared", limit=2)
        arguments = transformers.TrainingArguments("out", use_cpu=True)
        # The folder of the first process does not stop another one that starts later.
        state = transformers.TrainerState(is_world_process_zero=is_first)
        given = {"model": model, "processing_class": processor}
        callback.on_train_begin(arguments, state, None, **given)
        state.global_step = 2
        callback.on_step_end(arguments, state, None, **given)
        callback.on_train_end(arguments, state, None, **given)
        counts.append(len(waits))

    assert counts == [2, 2]
