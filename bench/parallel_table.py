#!/usr/bin/env python3
"""GRPO under every engine and strategy: hashes of the final weights, which have to be one; and what a second core gives.

    make parallel_table [ARGS="--steps 30 --markdown FILE"]
    bench/parallel_table.py [--build build/bin] [--output runs/parallel_table] [--steps N] [--only tree,exact,scaling]

The task is that of quickstart: word problems, a Qwen2 of two layers. The mpirun of Open MPI and, for the two network
namespaces, root and ip are needed; without them those lines say so. This file needs the standard library alone.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
STRATEGIES = (("ddp", 0), ("zero1", 1), ("zero2", 2), ("zero3", 3))


class Table:
    def __init__(self, asked):
        self.asked = asked
        self.bin = os.path.abspath(asked.build)
        self.root = os.path.abspath(asked.output)
        self.here = os.path.dirname(os.path.abspath(__file__))
        self.task = os.path.join(self.root, "runs", "quickstart")
        os.makedirs(self.root, exist_ok=True)
        if not os.path.exists(os.path.join(self.task, "model", "model.safetensors")):
            print("the task is made (quickstart --task_only) ...", flush=True)
            with open(os.path.join(self.root, "task.log"), "w") as out:
                subprocess.run([os.path.join(self.bin, "quickstart"), "--task_only"], cwd=self.root, stdout=out, check=True)

    def settings(self, name, steps, prompts, samples):
        task = self.task
        return [
            "data.train_files=" + os.path.join(task, "data", "train.jsonl"),
            "data.val_files=" + os.path.join(task, "data", "test.jsonl"),
            "data.train_batch_size=%d" % prompts, "data.max_prompt_length=128", "data.max_response_length=20",
            "actor_rollout_ref.model.path=" + os.path.join(task, "model"),
            "actor_rollout_ref.model.enable_gradient_checkpointing=False",
            "actor_rollout_ref.actor.optim.lr=3e-4", "actor_rollout_ref.actor.ppo_mini_batch_size=%d" % max(1, prompts // 2),
            "actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.kl_loss_coef=0.001",
            "actor_rollout_ref.rollout.n=%d" % samples, "rlcore.threads=1", "rlcore.report=False",
            "trainer.val_before_train=False", "trainer.test_freq=-1", "trainer.save_freq=%d" % steps,
            "trainer.total_training_steps=%d" % steps, "trainer.resume_mode=disable", "trainer.logger=file",
            "trainer.default_local_dir=" + os.path.join(self.root, "cells", name)]

    def launcher(self, engine, ranks):
        """Words in front of the program, settings behind it; a text if this machine has no such engine."""
        if engine == "serial":
            return [], []
        if engine == "threads":
            return [], ["trainer.n_gpus_per_node=%d" % ranks]
        if shutil.which("mpirun") is None:
            return "no mpirun"
        if engine == "mpi":
            return ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)], []
        return [os.path.join(self.here, "..", "examples", "cluster", "two_hosts.sh"), "-n", str(ranks // 2)], []

    def run(self, name, engine, ranks, more, steps, prompts, samples):
        """(hash of the weights, rows of metrics), or a text that says why not."""
        way = self.launcher(engine, ranks)
        if isinstance(way, str):
            return way
        before, behind = way
        folder = os.path.join(self.root, "cells", name)
        shutil.rmtree(folder, ignore_errors=True)
        command = before + [os.path.join(self.bin, "grpo_trainer")]
        command += self.settings(name, steps, prompts, samples) + behind + more
        done = subprocess.run(command, cwd=self.root, env=dict(os.environ, **MPI), capture_output=True, text=True)
        if done.returncode == 77:
            return "skipped"
        if done.returncode != 0:
            lines = [l for l in done.stderr.splitlines() if "rainer:" in l] or done.stderr.splitlines() or ["?"]
            sys.exit("%s failed: %s" % (name, lines[0]))
        weights = os.path.join(folder, "global_step_%d" % steps, "actor", "huggingface", "model.safetensors")
        with open(weights, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()[:12]
        with open(os.path.join(folder, "metrics.jsonl")) as file:
            rows = [json.loads(line) for line in file]
        shutil.rmtree(folder, ignore_errors=True)
        return digest, rows

    def hashes(self, title, engines, more):
        asked = self.asked
        print("\n%s: sha256 of the weights after %d GRPO steps (%d prompts x %d samples, 2 updates each)" %
              (title, asked.steps, asked.prompts, asked.samples))
        print("%-28s" % "" + "".join("%-14s" % name for name, _ in STRATEGIES))
        seen, markdown = set(), []
        for engine, ranks in engines:
            label = {"serial": "serial", "threads": "threads %d" % ranks, "mpi": "MPI %d" % ranks,
                     "hosts": "MPI %d+%d, two namespaces" % (ranks // 2, ranks // 2)}[engine]
            cells = []
            for strategy, zero in STRATEGIES:
                name = "%s_%d_%s_%s" % (engine, ranks, strategy, title.split()[0])
                result = self.run(name, engine, ranks, more + ["rlcore.zero_stage=%d" % zero], asked.steps,
                                  asked.prompts, asked.samples)
                cells.append(result if isinstance(result, str) else result[0])
                if not isinstance(result, str):
                    seen.add(result[0])
                print(("%-28s" % label if len(cells) == 1 else "") + "%-14s" % cells[-1], end="", flush=True)
            print()
            markdown.append("| %s | %s |" % (label, " | ".join(cells)))
        print("one hash: %s" % ("yes" if len(seen) == 1 else "NO, %d of them" % len(seen)))
        self.write("| %s | %s |\n|---|%s\n%s\n\n" %
                   (title, " | ".join(n for n, _ in STRATEGIES), "---|" * len(STRATEGIES), "\n".join(markdown)))
        return len(seen) <= 1

    def scaling(self):
        """Seconds of a step on one rank and on two, each of one thread, taken in turns."""
        steps, prompts, samples = 6, 64, 8
        names = (("serial", 1), ("threads", 2), ("mpi", 2))
        seconds = {name: [] for name in names}
        stages = {name: {} for name in names}
        for _ in range(self.asked.repeats):
            for engine, ranks in names:
                result = self.run("scaling", engine, ranks, ["actor_rollout_ref.actor.strategy=fsdp2"], steps, prompts, samples)
                if isinstance(result, str):
                    continue
                rows = result[1][1:]
                seconds[engine, ranks] += [row["timing_s/step"] - row.get("timing_s/save_checkpoint", 0) for row in rows]
                for stage in ("gen", "ref", "update_actor"):
                    stages[engine, ranks].setdefault(stage, []).extend(row["timing_s/" + stage] for row in rows)
        print("\nscaling: %d prompts x %d samples, FSDP (zero3), one thread per rank; median seconds of a step" %
              (prompts, samples))
        one, lines = None, []
        for (engine, ranks), all_seconds in seconds.items():
            if not all_seconds:
                continue
            median = statistics.median(all_seconds)
            one = one or (median, {k: statistics.median(v) for k, v in stages[engine, ranks].items()})
            parts = ", ".join("%s %.2fx" % (k, one[1][k] / statistics.median(v)) for k, v in stages[engine, ranks].items())
            line = "%-8s %d rank%s  %6.3f s  %.2fx of %dx  (%s)" % (engine, ranks, " " if ranks == 1 else "s", median,
                                                                    one[0] / median, ranks, parts)
            print(line)
            lines.append(line)
        self.write("```\n%s\n```\n" % "\n".join(lines))

    def write(self, text):
        if self.asked.markdown:
            with open(self.asked.markdown, "a") as file:
                file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/bin")
    parser.add_argument("--output", default="runs/parallel_table")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="tree,exact,scaling")
    parser.add_argument("--markdown", help="a file to append the tables to")
    asked = parser.parse_args()
    parts = asked.only.split(",")
    table = Table(asked)
    started, good = time.time(), True
    if "tree" in parts:
        good &= table.hashes("tree sums", [("serial", 1), ("threads", 2), ("threads", 4), ("threads", 8), ("mpi", 1),
                                           ("mpi", 2), ("mpi", 4), ("hosts", 4)], [])
    if "exact" in parts:
        good &= table.hashes("exact sums", [("serial", 1)] + [("threads", n) for n in range(2, 9)],
                             ["rlcore.reduction=exact"])
    if "scaling" in parts:
        table.scaling()
    print("\n%.0f s" % (time.time() - started))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
