#!/usr/bin/env python3
"""Seconds of a GRPO step whose policy calls a slow tool: synchronous, and with rlcore.async_depth=1.

    bench/tool_latency.py [--build build/bin] [--output runs/tool_latency] [--latency 1] [--steps 8]

The task is that of quickstart --tools: a small model calls a calculator, which here is a Python class that sleeps before
it answers. Needs the standard library alone.
"""

import argparse
import json
import os
import statistics
import subprocess

TOOL = """import asyncio
from verl.tools.base_tool import BaseTool
from verl.tools.schemas import ToolResponse


class Product(BaseTool):
    async def execute(self, instance_id, parameters, **kwargs):
        await asyncio.sleep(%g)
        a, b = parameters["expression"].split(" * ")
        return ToolResponse(text=str(int(a) * int(b))), 0.0, {}
"""


def make_task(program, root, latency):
    task = os.path.join(root, "runs", "tools")
    if not os.path.exists(os.path.join(task, "model", "model.safetensors")):
        print("the task is made (quickstart --tools --task_only) ...", flush=True)
        with open(os.path.join(root, "task.log"), "w") as out:
            subprocess.run([os.path.join(program, "quickstart"), "--tools", "--task_only"], cwd=root, stdout=out, check=True)
    with open(os.path.join(root, "slow_tools.py"), "w") as out:
        out.write(TOOL % latency)
    with open(os.path.join(task, "data", "tools.json")) as known:
        tools = json.load(known)
    tools["tools"][0]["class_name"] = "slow_tools.Product"
    with open(os.path.join(root, "slow_tools.json"), "w") as out:
        json.dump(tools, out)
    return task


def run(program, root, task, name, steps, more):
    folder = os.path.join(root, name)
    rollout = "actor_rollout_ref.rollout."
    settings = [
        "algorithm.adv_estimator=grpo", "data.train_files=" + os.path.join(task, "data", "train.jsonl"), "data.val_files=[]",
        "data.train_batch_size=64", "data.max_prompt_length=160", "data.max_response_length=64",
        "actor_rollout_ref.model.path=" + os.path.join(task, "model"), "actor_rollout_ref.actor.optim.lr=1e-4",
        "actor_rollout_ref.actor.ppo_mini_batch_size=32", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64",
        rollout + "n=8", rollout + "agent.num_workers=1024", rollout + "multi_turn.enable=True",
        rollout + "multi_turn.tool_config_path=" + os.path.join(root, "slow_tools.json"), "trainer.logger=[file]",
        "trainer.total_training_steps=%d" % steps, "trainer.save_freq=-1", "trainer.resume_mode=disable",
        "trainer.default_local_dir=" + folder, "rlcore.report=False"]
    with open(folder + ".log", "w") as out:
        subprocess.run([os.path.join(program, "grpo_trainer")] + settings + more, stdout=out, check=True)
    with open(os.path.join(folder, "metrics.jsonl")) as lines:
        rows = [row for row in map(json.loads, lines) if "timing_s/step" in row]
    # The first step of a run draws its own responses, and the last one draws none ahead.
    return {key: statistics.median(row.get("timing_s/" + key, 0) for row in rows[1:-1])
            for key in ("step", "gen", "wait_prev_gen", "update_actor")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/bin")
    parser.add_argument("--output", default="runs/tool_latency")
    parser.add_argument("--latency", type=float, default=1, help="seconds of a call")
    parser.add_argument("--steps", type=int, default=8, help="at least 3; the table has medians without the first and last")
    asked = parser.parse_args()
    if asked.steps < 3 or asked.latency < 0:
        parser.error("expected --steps of at least 3 and --latency of at least 0")
    program, root = os.path.abspath(asked.build), os.path.abspath(asked.output)
    for name in ("quickstart", "grpo_trainer"):
        if not os.path.exists(os.path.join(program, name)):
            parser.error("no %s in %s: make programs, or name another folder with --build" % (name, asked.build))
    os.makedirs(root, exist_ok=True)
    task = make_task(program, root, asked.latency)
    print("%-22s %8s %8s %14s %13s" % ("seconds", "step", "gen", "wait_prev_gen", "update_actor"))
    step = {}
    for name, more in (("synchronous", []), ("rlcore.async_depth=1", ["rlcore.async_depth=1"])):
        seconds = run(program, root, task, name.replace("rlcore.", "").replace("=", "_"), asked.steps, more)
        step[name] = seconds["step"]
        print("%-22s %8.3f %8.3f %14.3f %13.3f" % ((name,) + tuple(seconds.values())), flush=True)
    print("one step ahead is %.2f times as fast" % (step["synchronous"] / step["rlcore.async_depth=1"]))


if __name__ == "__main__":
    main()
