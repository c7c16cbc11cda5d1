"""glassformer beside transformers' Marian and its Seq2SeqTrainer in one run: training and beam
search, on the CPU.

    make setup                              # transformers and accelerate are in it
    python bench/seq2seq_vs_transformers.py --data MULTI30K [--run runs/de] [--minutes 6]

MULTI30K is the folder of the recipe multi30k. Both sides have the same dimensions, the same
vocabulary and token ids, float32, label smoothing 0.1 and the same number of pairs in a batch on
average; Marian is used as it is by default: random batches padded to their longest pair, AdamW.
Prints one JSON object; progress goes to stderr.

training    target tokens (without padding) per second of whole steps, A B A B ...
decoding    beam 5 over test_2016 in batches of 32, after each model was trained (ours: --run,
            else for --minutes as well): sentences per second, the mean output length, BLEU; and
            greedy beside beam 5 for ours
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from glassformer.core.cpu import keep_freed_memory
from glassformer.metrics.writing import translation_scores
from glassformer.recipe.reading import read_recipe
from glassformer.recipe.recipe import Recipe
from glassformer.run import Run, load
from glassformer.tasks.task import Task
from glassformer.training.loop.prepare import prepare
from glassformer.training.loop.schedule import rate_at
from side_by_side import OurTraining, say

RECIPE = "multi30k"
SPLIT = "test"


class Ours(OurTraining):
    """The recipe's model, trained by its schedule for so many steps."""

    def __init__(self, task: Task, steps: int):
        super().__init__(task, lambda batch: len(batch.elements))
        self.schedule = self.config.model_copy(update={"steps": steps})

    def advance(self) -> int:
        """One step; its target tokens."""
        _, result = self.next_step(rate_at(self.step, self.schedule))
        return result.elements


class Marian:
    """transformers' Marian of the same dimensions, fed with the same ids, under its
    Seq2SeqTrainer."""

    def __init__(self, task: Task, folder: Path):
        import transformers
        from torch.utils.data import Dataset

        transformers.logging.set_verbosity_error()
        self.library, self.task, self.folder = transformers, task, folder
        tokenizer, model = task.processor.pair, task.recipe.model
        self.pad, self.eos = tokenizer.target.specials["pad"], tokenizer.eos
        torch.manual_seed(0)
        self.model = transformers.MarianMTModel(
            transformers.MarianConfig(
                vocab_size=model.vocab_size,
                d_model=model.d_model,
                encoder_layers=model.n_layers,
                decoder_layers=model.n_layers,
                encoder_attention_heads=model.n_heads,
                decoder_attention_heads=model.n_heads,
                encoder_ffn_dim=model.ff_width,
                decoder_ffn_dim=model.ff_width,
                activation_function="relu",
                dropout=model.dropout,
                max_position_embeddings=model.max_length,
                scale_embedding=True,
                pad_token_id=self.pad,
                bos_token_id=tokenizer.bos,
                eos_token_id=self.eos,
                decoder_start_token_id=tokenizer.bos,
                forced_eos_token_id=None,
            )
        )
        inputs, most = task.objective.split("train"), task.recipe.model.max_length
        split = inputs.split

        class Pairs(Dataset):  # pyright: ignore[reportMissingTypeArgument]
            def __len__(self) -> int:
                return len(split)

            def __getitem__(self, i: int) -> dict[str, list[int]]:
                return {
                    "input_ids": split.source.row(i).tolist(),
                    "labels": split.target.row(i).tolist(),
                }

        self.pairs = Pairs()
        self.targets = 0
        self.rows = round((len(split) - inputs.too_long(most)) / task.feed.order.batches)

    def collate(self, rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        """What DataCollatorForSeq2Seq does: pad to the longest, labels with -100, and the shifted
        input."""
        sides = {}
        for name, fill in (("input_ids", self.pad), ("labels", -100)):
            padded = np.full((len(rows), max(len(row[name]) for row in rows)), fill)
            for slots, row in zip(padded, rows, strict=True):
                slots[: len(row[name])] = row[name]
            sides[name] = torch.from_numpy(padded)
        sides["attention_mask"] = (sides["input_ids"] != self.pad).long()
        sides["decoder_input_ids"] = self.model.prepare_decoder_input_ids_from_labels(
            sides["labels"]
        )
        self.targets += int((sides["labels"] != -100).sum())
        return sides

    def train(self, steps: int, seconds: float | None = None) -> tuple[int, float]:
        """Train on for `steps` (or until `seconds` are over); target tokens and seconds of whole
        steps."""
        transformers = self.library
        begun = {"at": 0.0}

        class Clock(transformers.TrainerCallback):
            def on_step_begin(
                self, args: object, state: object, control: object, **more: object
            ) -> None:
                begun["at"] = begun["at"] or time.perf_counter()

            def on_step_end(
                self, args: object, state: object, control: object, **more: object
            ) -> object:
                if seconds is not None and time.perf_counter() - begun["at"] > seconds:
                    control.should_training_stop = True  # pyright: ignore[reportAttributeAccessIssue]
                return control

        arguments = transformers.Seq2SeqTrainingArguments(
            output_dir=str(self.folder / "marian"),
            per_device_train_batch_size=self.rows,
            max_steps=steps,
            learning_rate=1e-3,
            warmup_steps=100,
            label_smoothing_factor=0.1,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
        )
        trainer = transformers.Seq2SeqTrainer(
            model=self.model,
            args=arguments,
            train_dataset=self.pairs,
            data_collator=self.collate,
            callbacks=[Clock()],
        )
        self.targets = 0
        with redirect_stdout(sys.stderr):  # the trainer prints its own summary
            trainer.train()
        return self.targets, time.perf_counter() - begun["at"]

    def decode(self, sources: list[list[int]], batch_size: int) -> tuple[list[list[int]], float]:
        """Beam 5 in the given order, as Seq2SeqTrainer.predict does; ids and seconds."""
        self.model.eval()
        found: list[list[int]] = []
        begin = time.perf_counter()
        with torch.inference_mode():
            for at in range(0, len(sources), batch_size):
                rows = [
                    {"input_ids": ids, "labels": [self.eos]}
                    for ids in sources[at : at + batch_size]
                ]
                fed = self.collate(rows)
                out = self.model.generate(  # pyright: ignore[reportAttributeAccessIssue]
                    input_ids=fed["input_ids"],
                    attention_mask=fed["attention_mask"],
                    num_beams=5,
                    max_new_tokens=100,
                    length_penalty=1.0,
                )
                found += [ids[1:] for ids in out.tolist()]
        return found, time.perf_counter() - begin


def training(task: Task, folder: Path, rounds: int, steps: int) -> dict[str, object]:
    """Target tokens per second of both, in turn; medians of the rounds."""
    ours, marian = Ours(task, 10_000), Marian(task, folder)
    speeds: dict[str, list[float]] = {"transformers": [], "glassformer": []}
    for _ in range(3):
        ours.advance()
    for number in range(rounds):
        targets, seconds = marian.train(steps)
        speeds["transformers"].append(targets / seconds)
        begin = time.perf_counter()
        targets = sum(ours.advance() for _ in range(steps))
        speeds["glassformer"].append(targets / (time.perf_counter() - begin))
        say(
            f"round {number + 1}: "
            + ", ".join(f"{name} {rates[-1]:,.0f}" for name, rates in speeds.items())
        )
    medians = {name: round(statistics.median(rates)) for name, rates in speeds.items()}
    sizes = {
        "glassformer": ours.model.n_parameters,
        "transformers": sum(p.numel() for p in marian.model.parameters()),
    }
    return {
        "target_tokens_per_second": medians,
        "ratio": round(medians["glassformer"] / medians["transformers"], 3),
        "parameters": sizes,
        "pairs_a_batch": marian.rows,
    }


def trained(task: Task, minutes: float) -> Run:
    """Our model after some minutes of training, as a run."""
    probe = Ours(task, 10)
    begin = time.perf_counter()
    for _ in range(5):
        probe.advance()
    steps = int(60 * minutes / ((time.perf_counter() - begin) / 5))
    ours = Ours(task, steps)
    for _ in range(steps):
        ours.advance()
    return Run(Path("ours"), ours.model.eval(), task, task.recipe)


def decoding(task: Task, run: Run, folder: Path, minutes: float, rounds: int) -> dict[str, object]:
    """Sentences per second by beam 5 on the test split, in turn, and ours by greedy search."""
    marian = Marian(task, folder)
    say(f"training Marian for {minutes} minutes")
    marian.train(100_000, 60 * minutes)
    texts = task.objective.split(SPLIT).records
    sources, references = [text.source for text in texts], [text.target for text in texts]
    ids = [task.processor.pair.source_ids(source).tolist() for source in sources]
    seconds: dict[str, list[float]] = {"transformers": [], "glassformer": [], "greedy": []}
    outputs: dict[str, list[str]] = {}
    lengths: dict[str, float] = {}
    for _ in range(rounds):
        found, took = marian.decode(ids, 32)
        seconds["transformers"].append(took)
        outputs["transformers"] = [task.processor.pair.target.decode(row) for row in found]
        lengths["transformers"] = float(
            np.mean([sum(i != marian.pad for i in row) for row in found])
        )
        for name, beams in (("glassformer", 5), ("greedy", 1)):
            begin = time.perf_counter()
            results = run.predict(sources, beams=beams, max_new_tokens=100)
            seconds[name].append(time.perf_counter() - begin)
            outputs[name] = [best.text for best in results]
            lengths[name] = float(np.mean([len(best.ids) for best in results]))
        say(", ".join(f"{name} {times[-1]:.1f} s" for name, times in seconds.items()))
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    return {
        "sentences": len(sources),
        "sentences_per_second": {
            name: round(len(sources) / took, 2) for name, took in medians.items()
        },
        "ratio": round(medians["transformers"] / medians["glassformer"], 3),
        "beam_5_over_greedy": round(medians["glassformer"] / medians["greedy"], 3),
        "mean_output_tokens": {name: round(length, 2) for name, length in lengths.items()},
        "bleu": {
            name: round(translation_scores(out, references)["bleu"], 2)
            for name, out in outputs.items()
        },
    }


def task_in(recipe: Recipe, folder: Path, run: Path | None) -> Task:
    """The recipe's data and tokenizers, those of the run if there is one."""
    if run is None:
        task = prepare(recipe, folder, False, 1, say).open()
    else:
        opened = load(run)
        assert opened.recipe is not None
        made, records = replace(opened.recipe, data=recipe.data), opened.processor.read(recipe.data)
        task = opened.task.kind.open(made, opened.processor, records, folder)
    return task


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--data", type=Path, required=True, help="the folder of Multi30k")
    arguments.add_argument("--run", type=Path, help="a run of the recipe multi30k to decode with")
    arguments.add_argument(
        "--minutes", type=float, default=6.0, help="how long each model is trained for decoding"
    )
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--steps", type=int, default=40, help="steps of each side in a round")
    arguments.add_argument("--only", choices=("training", "decoding"))
    given = arguments.parse_args()
    sys.stderr.write("About half an hour on two cores; five minutes with --only training.\n")
    recipe = read_recipe(RECIPE, [f"data.root={given.data}"])
    keep_freed_memory()
    result: dict[str, object] = {
        "machine": {
            "cpu": platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "load_before": os.getloadavg()[0],
            "date": time.strftime("%Y-%m-%d"),
        }
    }
    with tempfile.TemporaryDirectory() as name:
        task = task_in(recipe, Path(name), given.run)
        if given.only != "decoding":
            result["training"] = training(task, Path(name), given.rounds, given.steps)
        if given.only != "training":
            run = load(given.run) if given.run else trained(task, given.minutes)
            result["decoding"] = decoding(task, run, Path(name), given.minutes, given.rounds)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
