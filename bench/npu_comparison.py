#!/usr/bin/env python3
"""Every method on the emulated NPU (bfloat16) and on a reference, the CPU (float32) or a GPU (bfloat16): Mean Error of
loss or reward, by compare_runs.

    make npu_comparison [ARGS="--methods sft,grpo --steps 5"]      ("--methods precision": only the second table)
    bench/npu_comparison.py [--build build/bin] [--output runs/npu_comparison] [--methods NAME,...] [--steps N]
                            [--reference cpu|cuda|cuda_emulator] [--soc NAME] [--cann 8.3] [--markdown FILE]

The task is that of quickstart: word problems, a Qwen2 of two layers. Runs that ended are taken over. The numbers are
modelled, no hardware. With an NPU, --device npu runs on it instead; with an NVIDIA GPU, --reference cuda compares with
it, as published comparisons do. This file needs the standard library alone.
"""

import argparse
import json
import os
import subprocess
import sys
import time

MARK = "<|endoftext|>"  # one token of the model, which no answer of the task contains

REWARD, LOSS = "critic/rewards/mean", "train/loss"
POLICY = ("grpo", "dapo", "ppo", "reinforce_plus_plus")
#        method, title, program, compared metric, threshold in percent
METHODS = (
    ("sft", "SFT", "sft_trainer", LOSS, 2),
    ("dpo", "DPO", "dpo_trainer", LOSS, 2),
    ("kto", "KTO", "kto_trainer", "train/kto_loss", 2),
    ("rm", "RM", "rm_trainer", LOSS, 2),
    ("prm", "PRM", "prm_trainer", "train/prm_loss", 2),
    ("ppo", "PPO", "ppo_trainer", REWARD, 4),
    ("reinforce_plus_plus", "REINFORCE++", "reinforce_plus_plus_trainer", REWARD, 4),
    ("grpo", "GRPO", "grpo_trainer", REWARD, 4),
    ("dapo", "DAPO", "dapo_trainer", REWARD, 4),
)


class Comparison:
    def __init__(self, asked):
        self.asked = asked
        self.bin = os.path.abspath(asked.build)
        self.root = os.path.abspath(asked.output)
        self.task = os.path.join(self.root, "runs", "quickstart")
        self.data = os.path.join(self.root, "data")
        os.makedirs(self.data, exist_ok=True)
        npu = ["trainer.device=" + asked.device]
        if asked.device == "npu_emulator":
            npu += ["rlcore.npu_emulator.soc=" + asked.soc, "rlcore.npu_emulator.cann_version=" + asked.cann]
        self.npu = npu
        self.reference = ["rlcore.compute=float32"]
        if asked.reference != "cpu":
            self.reference = ["trainer.device=" + asked.reference, "rlcore.compute=bfloat16"]
        if asked.reference == "cuda":
            self.reference += ["rlcore.cuda.required=True"]

    def run(self, program, arguments, log):
        with open(os.path.join(self.root, log + ".log"), "w") as out:
            started = time.time()
            code = subprocess.run([os.path.join(self.bin, program)] + arguments, cwd=self.root, stdout=out,
                                  stderr=subprocess.STDOUT).returncode
        if code != 0:
            with open(os.path.join(self.root, log + ".log")) as out:
                sys.exit("%s failed: %s" % (program, out.read().strip().splitlines()[-1]))
        return time.time() - started

    def make_task(self):
        if not os.path.exists(os.path.join(self.task, "model", "model.safetensors")):
            self.run("quickstart", ["--task_only"], "task")
        for split in ("train", "test"):
            if os.path.exists(os.path.join(self.data, "steps_%s.jsonl" % split)):
                continue
            with open(os.path.join(self.task, "data", split + ".jsonl")) as rows:
                self.write_preferences([json.loads(line)["extra_info"] for line in rows], split)

    def write_preferences(self, problems, split):
        """A right answer against one that is one too large."""
        files = {name: open(os.path.join(self.data, "%s_%s.jsonl" % (name, split)), "w")
                 for name in ("pairs", "unpaired", "steps")}
        for n, p in enumerate(problems):
            work, result = p["answer"].split(" = ")[0], int(p["answer"].split("#### ")[1])
            right = "%s = %d\n#### %d" % (work, result, result)
            wrong = "%s = %d\n#### %d" % (work, result + 1, result + 1)
            rows = {"pairs": {"prompt": p["question"], "chosen": right, "rejected": wrong},
                    "unpaired": {"input": p["question"], "output": right if n % 2 else wrong, "label": n % 2},
                    "steps": {"input": "%s\n%s%s" % (p["question"], right if n % 2 else wrong, MARK),
                              "value": ["+" if n % 2 else "-"]}}
            for name, row in rows.items():
                files[name].write(json.dumps(row) + "\n")
        for f in files.values():
            f.close()

    def settings(self, method, out):
        a, task, model = self.asked, self.task, os.path.join(self.task, "model")
        train, test = (os.path.join(task, "data", s + ".jsonl") for s in ("train", "test"))
        if method == "sft":
            return ["data.train_files=" + train, "data.val_files=[]", "data.prompt_key=extra_info",
                    "data.response_key=extra_info", "+data.prompt_dict_keys=['question']",
                    "+data.response_dict_keys=['answer']", "data.max_length=128", "data.train_batch_size=32",
                    "data.micro_batch_size_per_gpu=32", "model.partial_pretrain=" + model, "optim.lr=1e-3",
                    "trainer.total_training_steps=%d" % a.steps, "trainer.default_local_dir=" + out,
                    "trainer.logger=file", "trainer.resume_mode=disable", "trainer.save_freq=-1"]
        if method in POLICY:
            return ["data.train_files=" + train, "data.val_files=" + test, "actor_rollout_ref.model.path=" + model,
                    "data.train_batch_size=%d" % a.prompts, "data.max_prompt_length=128",
                    "data.max_response_length=20", "actor_rollout_ref.rollout.n=8",
                    "actor_rollout_ref.actor.ppo_mini_batch_size=%d" % (a.prompts // 2),
                    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=128",
                    "actor_rollout_ref.actor.optim.lr=3e-4",
                    "actor_rollout_ref.model.enable_gradient_checkpointing=False",
                    "trainer.total_training_steps=%d" % a.steps, "trainer.val_before_train=False",
                    "trainer.logger=file", "trainer.resume_mode=disable", "trainer.default_local_dir=" + out,
                    "trainer.rollout_data_dir=" + os.path.join(out, "rollouts")] + {
                        "ppo": ["algorithm.lam=0.95", "critic.optim.lr=1e-3",
                                "critic.ppo_micro_batch_size_per_gpu=128",
                                "critic.model.enable_gradient_checkpointing=False"],
                        "dapo": ["algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=acc"],
                    }.get(method, [])
        name = {"dpo": "pairs", "rm": "pairs", "kto": "unpaired", "prm": "steps"}[method]
        own = {"dpo": ["--prompt_key", "prompt", "--learning_rate", "1e-4"],
               "rm": ["--prompt_key", "prompt", "--learning_rate", "1e-3"],
               "kto": ["--output_key", "output", "--learning_rate", "1e-4", "--beta", "0.1"],
               "prm": ["--label_key", "value", "--placeholder_token", MARK, "--reward_tokens", "+", "-",
                       "--learning_rate", "1e-3"]}[method]
        return ["--pretrain", model, "--dataset", os.path.join(self.data, name + "_train.jsonl"),
                "--max_samples", str(32 * a.steps), "--train_batch_size", "32", "--micro_train_batch_size", "32",
                "--max_len", "128", "--ckpt_path", out, "--save_path", os.path.join(out, "model")] + own

    def train(self, method, program, name, more):
        """Runs it unless it ended before; seconds, or None if it was taken over."""
        out = os.path.join(self.root, name)
        done = os.path.join(out, "done.txt")
        command = self.settings(method, out) + more
        if os.path.exists(done):
            with open(done) as f:
                if f.read() == json.dumps(command):
                    return None
        seconds = self.run(program, command, name.replace("/", "_"))
        with open(done, "w") as f:
            f.write(json.dumps(command))
        return seconds

    def compare(self, a, b, key):
        """steps, mean error and largest difference in percent, by compare_runs."""
        out = subprocess.run([os.path.join(self.bin, "compare_runs"), os.path.join(self.root, a),
                              os.path.join(self.root, b), "--key", key], capture_output=True, text=True)
        if out.returncode not in (0, 2):
            sys.exit(out.stderr.strip())
        line = [x for x in out.stdout.splitlines() if x.startswith(key)][0][len(key):]
        words = line.replace(" %", "").split()
        return int(words[0]), float(words[1]), words[2], words[3]


PRECISIONS = (  # title, settings; on the emulator
    ("CPU, bfloat16 products", None),
    ("float32", ["rlcore.compute=float32"]),
    ("HF32", ["rlcore.compute=hf32"]),
    ("bfloat16, CANN 8.3", ["rlcore.compute=bfloat16", "rlcore.npu_emulator.cann_version=8.3"]),
    ("bfloat16, CANN 8.5", ["rlcore.compute=bfloat16", "rlcore.npu_emulator.cann_version=8.5"]),
    ("bfloat16, each operator rounded once", ["rlcore.compute=bfloat16", "rlcore.npu_emulator.reference=True"]),
)
DISTANCE = "training/rollout_probs_diff_"


def first_step(path):
    with open(os.path.join(path, "metrics.jsonl")) as rows:
        return json.loads(rows.readline())


def precision_table(all_of):
    """The first GRPO step on stored responses, in every arithmetic, against float32 on the CPU."""
    all_of.train("grpo", "grpo_trainer", "grpo/cpu", ["rlcore.compute=float32"])
    right = first_step(os.path.join(all_of.root, "grpo/cpu"))
    stored = ["rlcore.replay=" + os.path.join(all_of.root, "grpo/cpu", "rollouts"), "trainer.total_training_steps=1"]
    lines = ["| arithmetic | probability of a token, mean and largest difference | entropy | loss | gradient norm |",
             "|---|---|---|---|---|"]
    for n, (title, settings) in enumerate(PRECISIONS):
        name = "precision/%d" % n
        device = ["rlcore.compute=bfloat16"] if settings is None else ["trainer.device=npu_emulator"] + settings
        all_of.train("grpo", "grpo_trainer", name, stored + device)
        x = first_step(os.path.join(all_of.root, name))
        relative = ["%.2g" % (abs(x[k] - right[k]) / abs(right[k])) for k in ("actor/entropy", "actor/grad_norm")]
        lines.append("| %s | %.2g, %.2g | %s | %.2g (absolute) | %s |" % (
            title, x[DISTANCE + "mean"], x[DISTANCE + "max"], relative[0], abs(x["actor/pg_loss"] - right["actor/pg_loss"]),
            relative[1]))
    return lines + ["| NPU | | | | |"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/bin")
    p.add_argument("--output", default="runs/npu_comparison")
    p.add_argument("--methods", help="by default all, and on the emulator against the CPU precision")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--prompts", type=int, default=32, help="prompts per step of a policy trainer, 8 responses each")
    p.add_argument("--device", default="npu_emulator", choices=("npu_emulator", "npu"))
    p.add_argument("--reference", default="cpu", choices=("cpu", "cuda", "cuda_emulator"))
    p.add_argument("--soc", default="Ascend910B3")
    p.add_argument("--cann", default="8.3")
    p.add_argument("--markdown", help="file for the tables")
    asked = p.parse_args()
    precision = asked.device == "npu_emulator" and asked.reference == "cpu"
    wanted = asked.methods.split(",") if asked.methods else [m[0] for m in METHODS] + ["precision"] * precision
    if "precision" in wanted and not precision:
        sys.exit("precision compares the emulated NPU with the CPU: without --device and --reference")
    for name in wanted:
        if name not in [m[0] for m in METHODS] + ["precision"]:
            sys.exit("no method '%s'; there are %s, precision" % (name, ", ".join(m[0] for m in METHODS)))
    all_of = Comparison(asked)
    all_of.make_task()
    free, same, failed = [], [], False
    for method, title, program, key, threshold in METHODS:
        if method not in wanted:
            continue
        reference, npu = method + "/" + asked.reference, method + "/npu"
        seconds = [all_of.train(method, program, reference, all_of.reference),
                   all_of.train(method, program, npu, all_of.npu)]
        steps, error, relative, largest = all_of.compare(npu, reference, key)
        within = error <= threshold
        failed = failed or not within
        free.append((title, key, steps, "%.3g %%" % error, "%d %%" % threshold, "yes" if within else "**no**",
                     relative + " %", largest + " %", ""))
        print("%-12s %-20s mean error %.3g %% of %d %%  (%s s)" % (
            title, key, error, threshold, ", ".join("-" if s is None else "%.0f" % s for s in seconds)), flush=True)
        if method not in POLICY:
            continue
        stored = method + ("/replay" if asked.reference == "cpu" else "/replay_of_" + asked.reference)
        all_of.train(method, program, stored,
                     all_of.npu + ["rlcore.replay=" + os.path.join(all_of.root, reference, "rollouts")])
        for name in ("actor/pg_loss", "actor/entropy", "actor/grad_norm"):
            steps, error, relative, largest = all_of.compare(stored, reference, name)
            same.append((title, name, steps, "%.3g %%" % error, relative + " %", largest + " %"))
    tables = ["| method | metric | steps | mean error, modelled | threshold | within | relative | largest | hardware |",
              "|---|---|---|---|---|---|---|---|---|"] + ["| " + " | ".join(map(str, r)) + " |" for r in free]
    if same:
        tables += ["", "| method, on the responses of " + asked.reference + " | metric | steps | mean error, modelled | relative | largest |",
                   "|---|---|---|---|---|---|"] + ["| " + " | ".join(map(str, r)) + " |" for r in same]
    if "precision" in wanted:
        tables += [""] + precision_table(all_of)
    text = "\n".join(tables) + "\n"
    print("\n" + text)
    if asked.markdown:
        with open(asked.markdown, "w") as out:
            out.write(text)
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
