"""One whole GRPO step by TRL's GRPOTrainer on the CPU, from the model folder and prompts that grpo_trainer gets.

    build/bin/speed_bench folder tiny build/speed/tiny
    python bench/peers/trl_grpo.py grpo --folder build/speed/tiny --threads 2 [--way fp32|bf16|compiled]
        [--prompts 64 --n 8 --response 20 --mini 16 --micro 128 --steps 4]

A step is what grpo_trainer calls one: `prompts` prompts with `n` responses each, rewarded by a rule, then prompts / mini
optimizer updates, in micro-batches of `micro` responses. No reference model, as beta is 0 in both. --way default: fp32 and
TRL's other defaults; the other ways count as tuned and bench/speed.py keeps the fastest. One way a process, so that memory
is its own.
"""

import os
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import json  # noqa: E402
import tempfile  # noqa: E402

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

from common import arguments  # noqa: E402

number = {"type": int}
options = arguments(["grpo"], folder={"required": True}, prompts={**number, "default": 64}, n={**number, "default": 8},
                    response={**number, "default": 20}, mini={**number, "default": 16}, micro={**number, "default": 128},
                    steps={**number, "default": 3},
                    way={"choices": ["default", "fp32", "bf16", "compiled"], "default": "default"})
torch.set_num_threads(options.threads)


def right(completions, answer, **_):
    """1 if the text after #### is the answer."""
    texts = [c if isinstance(c, str) else c[0]["content"] for c in completions]
    return [float(t.rpartition("####")[2].strip() == a) for t, a in zip(texts, answer)]


class Clock(TrainerCallback):
    """Time from the beginning of an update to its end; a GRPO step is `updates` of them."""

    def __init__(self, updates):
        self.updates, self.spent, self.count, self.steps = updates, 0.0, 0, []

    def on_step_begin(self, *_, **__):
        self.start = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.spent += time.perf_counter() - self.start
        self.count += 1
        if self.count % self.updates == 0:
            self.steps.append(self.spent)
            self.spent = 0.0


def tokenizer_of(folder):
    with open(os.path.join(folder, "model", "tokenizer_config.json")) as f:
        config = json.load(f)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "model", "tokenizer.json"),
                                        eos_token=config.get("eos_token", "<|im_end|>"),
                                        pad_token=config.get("pad_token", "<|endoftext|>"), padding_side="left")
    tokenizer.chat_template = config.get("chat_template")
    return tokenizer


def prompts():
    rows = []
    with open(os.path.join(options.folder, "data", "train.jsonl")) as f:
        for text in f:
            row = json.loads(text)
            rows.append({"prompt": row["prompt"], "answer": row["reward_model"]["ground_truth"]})
    return Dataset.from_list(rows)


def run(how, settings):
    updates = options.prompts // options.mini
    per_update = options.mini * options.n
    micro = min(options.micro, per_update)
    clock = Clock(updates)
    model = AutoModelForCausalLM.from_pretrained(os.path.join(options.folder, "model"), dtype=torch.float32)
    tokenizer = tokenizer_of(options.folder)
    with tempfile.TemporaryDirectory() as out:
        config = GRPOConfig(
            output_dir=out, use_cpu=True, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
            per_device_train_batch_size=micro, gradient_accumulation_steps=per_update // micro,
            steps_per_generation=updates * (per_update // micro), num_generations=options.n,
            max_completion_length=options.response, learning_rate=1e-5, beta=0.0, loss_type="grpo", temperature=1.0,
            max_steps=options.steps * updates, gradient_checkpointing=False, lr_scheduler_type="constant",
            **{"bf16": False, **settings})
        trainer = GRPOTrainer(model=model, reward_funcs=right, args=config, train_dataset=prompts(),
                              processing_class=tokenizer, callbacks=[clock])
        trainer.train()
    print(json.dumps({"item": "grpo", "case": "", "who": "TRL default" if options.way == "default" else "TRL tuned",
                      "threads": options.threads, "seconds": min(clock.steps), "work": 1, "unit": "step",
                      "memory": None, "how": how, "all_steps": sum(clock.steps)}), flush=True)


FUSED = {"optim": "adamw_torch_fused"}
WAYS = {"default": ("", {}), "fp32": ("fp32, fused AdamW", FUSED),
        "bf16": ("bf16 autocast, fused AdamW", {**FUSED, "bf16": True}),
        "compiled": ("fp32, fused AdamW, torch.compile", {**FUSED, "torch_compile": True})}
run(*WAYS[options.way])
