#!/usr/bin/env python3
"""Ours, the peers and the machine's limits, item by item, in one run: docs/performance.md says what each item is.

    make speed [PYTHON=...] [ARGS="--item gemm --quick"]
    bench/speed.py [--item NAME ...] [--quick] [--long] [--threads 1,2] [--json FILE]
    bench/speed.py --markdown FILE.json ... [--into docs/performance.md]      tables of finished runs, one each

Before and after every item the limits are measured; the programs of an item take turns and the best of all turns counts.
PYTHON is the interpreter that has the peers (bench/peers/requirements.txt); without it, or without some of them, ours is
compared with what is there. This file needs the standard library alone.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PEERS = os.path.join(HERE, "peers")
ITEMS = ("gemm", "head", "losses", "optimizer", "attention", "train", "tower", "images", "generate", "grpo")

# What "tuned" changes around a program; inside, the peers try several ways of writing the same (see each program). The
# turns alternate between these settings and the best counts.
HEAP = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776"
TUNED = ({"GLIBC_TUNABLES": HEAP, "OMP_WAIT_POLICY": "passive"},
         {"GLIBC_TUNABLES": HEAP, "OMP_WAIT_POLICY": "active", "OMP_PROC_BIND": "true"})

# Targets: item, pattern of the case, what is compared, factor. "limit": at least that share of the limit; otherwise at
# least so many times as fast (memory: so many times less) as that peer. `threads`: where it is asked for.
TARGETS = (
    ("gemm", r"(gate_up|down|qkv|o) t=64 (fp32|bf16) (forward|dX|dW)", "limit", 0.86, (1, 2)),
    ("gemm", r"(gate_up|down|qkv|o) t=512 (fp32|bf16) (forward|dX|dW)", "limit", 0.92, (1, 2)),
    ("gemm", r"t=(64|512) fp32 forward", "oneDNN tuned", 1.0, (1, 2)),
    ("gemm", r"(gate_up|down|qkv|o) t=1 \S+ forward", "limit", 0.95, (1, 2)),
    ("gemm", r"(gate_up|down|qkv|o) t=8 \S+ forward", "limit", 0.85, (1, 2)),
    ("head", r"^logp V=151936 forward$", "torch tuned", 3, (1, 2)),
    ("head", r"^logp\+entropy V=151936 forward$", "torch tuned", 10, (1, 2)),
    ("head", r"^logp\+entropy V=151936 forward\+backward", "torch tuned", 20, (1, 2)),
    ("head", r"^linear\S* \S+ \S+ forward\+backward$", "limit", 0.85, (1, 2)),
    ("head", r"^linear\S* \S+ bf16 forward\+backward$", "torch tuned", 1.6, (1, 2)),
    ("head", r"^linear\S* \S+ \S+ forward\+backward$", "torch tuned memory", 4, (2,)),
    ("head", r"^linear\S* \S+ \S+ forward\+backward, tiles", "torch tuned memory", 100, (2,)),
    ("losses", r"^grpo", "torch tuned", 50, (1,)),
    ("losses", r"^gae", "torch tuned", 100, (1,)),
    ("losses", r"^dpo", "torch tuned", 3, (1,)),
    ("optimizer", r"^adamw", "limit", 0.95, (1, 2)),
    ("train", r"bf16 tokens=256", "limit", 0.67, (2,)),
    ("train", r"bf16 tokens=1024", "limit", 0.75, (2,)),
    ("train", r"fp32 tokens=1024", "limit", 0.80, (2,)),
    ("tower", r"patches=", "limit", 0.60, (1, 2)),
    ("images", r"", "torch tuned", 1.5, (1,)),
    ("train", r"bf16", "torch tuned", 1.6, (2,)),
    ("train", r"fp32", "torch tuned", 1.5, (2,)),
    ("generate", r"0.5B bf16 B=1 ", "llama.cpp tuned", 1.4, (2,)),
    ("generate", r"0.5B bf16 B=(8|16|64) ", "llama.cpp tuned", 2.5, (2,)),
    ("generate", r"0.5B bf16 B=64 ", "limit", 0.80, (2,)),
    ("generate", r"0.5B bf16 B=", "torch tuned", 3, (2,)),
    ("generate", r"0.5B bf16 B=1 ", "limit", 0.95, (2,)),
    ("generate", r"1M fp32 B=", "torch tuned", 10, (2,)),
    ("generate", r"1M fp32 B=", "llama.cpp tuned", 3, (2,)),
    ("grpo", r"0.5B bf16", "TRL tuned", 2.3, (2,)),
    ("grpo", r"0.5B", "TRL default", 8, (2,)),
    ("grpo", r"tiny", "TRL tuned", 20, (2,)),
)


def say(text):
    print(text, file=sys.stderr, flush=True)


class Runner:
    def __init__(self, options):
        self.options = options
        self.bin = os.path.abspath(options.build)
        self.versions = self.find_peers()

    def find_peers(self):
        """Names and versions of the peers that the interpreter has."""
        code = ("import importlib.metadata as m, json\nv = {}\n"
                "for n in ('torch', 'torchvision', 'pillow', 'transformers', 'trl', 'llama-cpp-python', 'gguf', "
                "'onednn-cpu-gomp'):\n"
                "  try: v[n] = m.version(n)\n  except m.PackageNotFoundError: pass\nprint(json.dumps(v))")
        if self.options.no_peers:
            return {}
        try:
            return json.loads(subprocess.run([self.options.python, "-c", code], capture_output=True, text=True).stdout)
        except (OSError, json.JSONDecodeError):
            return {}

    def run(self, command, threads, environment=None, timeout=None):
        """(lines, seconds, peak bytes) of a program; one that fails leaves a word and no lines."""
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads), **(environment or {}))
        env.setdefault("TOKENIZERS_PARALLELISM", "false")
        if threads == 1 and shutil.which("taskset"):
            command = ["taskset", "-c", "0", *command]
        started = time.perf_counter()
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(command, stdout=out, stderr=err, env=env, cwd=ROOT)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.perf_counter() - started
            out.seek(0), err.seek(0)
            text, errors = out.read(), err.read()
        lines = []
        for line in text.splitlines():
            if line.startswith('{"item"'):
                lines.append(json.loads(line))
            elif line.startswith("#"):
                say("    " + line)
        if process.returncode != 0:
            say(f"  {' '.join(command)}: exit status {process.returncode}\n    " +
                "\n    ".join((errors or text).strip().splitlines()[-3:]))
        return lines, seconds, 1024 * usage.ru_maxrss

    def calibrate(self, threads):
        command = [os.path.join(self.bin, "speed_bench"), "limits", "--threads", str(threads)]
        lines, _, _ = self.run(command + (["--quick"] if self.options.quick else []), threads)
        if not lines:
            sys.exit("speed.py: no limits were measured; is " + self.bin + " built?")
        return {line["case"]: line["work"] for line in lines}

    # Programs of an item: (label, function(turn, threads) -> lines).
    def programs(self, item):
        options, bench = self.options, os.path.join(self.bin, "speed_bench")
        flags = (["--quick"] if options.quick else []) + (["--only", options.only] if options.only else [])

        def program(command, environments=({},)):
            def turn(k, threads):
                return self.run([*command, "--threads", str(threads), *flags], threads,
                                environments[k % len(environments)])[0]
            return turn

        def peer(script, *words, environments=({},)):
            return program([options.python, os.path.join(PEERS, script), item, *words], environments)

        have = self.versions
        if item == "losses":
            yield "rlcore", self.losses
            return
        if item == "grpo":
            yield from self.grpo()
            return
        yield "rlcore", program([bench, item])
        if item == "images" and {"torchvision", "pillow", "transformers"} <= set(have):
            folder = os.path.join(os.path.dirname(self.bin), "speed", "images")
            self.run([bench, "folder", "images", folder], 1)
            yield "torch default", peer("torch_images.py", "--folder", folder)
            yield "torch tuned", peer("torch_images.py", "--tuned", "--folder", folder, environments=TUNED)
        if item in ("gemm", "head", "optimizer", "attention") and "torch" in have:
            yield "torch default", peer("torch_speed.py")
            yield "torch tuned", peer("torch_speed.py", "--tuned", environments=TUNED)
        if item == "gemm" and "onednn-cpu-gomp" in have:
            yield "oneDNN", peer("onednn_gemm.py", environments=TUNED)
        if item in ("train", "generate") and "transformers" in have:
            yield "torch default", peer("transformers_speed.py")
            yield "torch tuned", peer("transformers_speed.py", "--tuned", environments=TUNED)
        if item == "generate" and {"llama-cpp-python", "gguf"} <= set(have):
            folder = os.path.join(os.path.dirname(self.bin), "speed")
            yield "llama.cpp default", peer("llama_generate.py", "--folder", folder)
            yield "llama.cpp tuned", peer("llama_generate.py", "--tuned", "--folder", folder)

    def losses(self, turn, threads):
        """catalogue_bench beside catalogue_torch.py; both report one thread and all of them."""
        if turn > 0:
            return []
        names, lines = ("grpo", "gae", "dpo"), []
        for name in names:
            with tempfile.NamedTemporaryFile(suffix=".json") as file:
                self.run([os.path.join(self.bin, "catalogue_bench"), "--only", name, "--json", file.name], threads)
                try:
                    measured = json.load(file)
                except json.JSONDecodeError:
                    continue
                runs = {r["name"]: r for r in measured["runs"] if r["name"] == name}
                if name not in runs:
                    continue
                r = runs[name]
                line = {"item": "losses", "case": f"{name} [512, 1024]", "work": 512 * 1024, "unit": "token",
                        "memory": None, "threads": threads}
                lines.append({**line, "who": "rlcore", "seconds": r["ours_s" if threads == 1 else "pool_s"],
                              "limit_seconds": r["of_read"] * r["ours_s"] if threads == 1 else None})
                lines.append({**line, "who": "by hand", "seconds": r["raw_s"]} if threads == 1 else {})
                if "torch" not in self.versions:
                    continue
                for environment in ({}, TUNED[0]):
                    table = subprocess.run(
                        [self.options.python, os.path.join(PEERS, "catalogue_torch.py"), file.name, "--only", name],
                        capture_output=True, text=True, env={**os.environ, **environment}).stdout
                    for how, seconds in self.torch_table(table, name, threads):
                        if how == "eager" and not environment:
                            lines.append({**line, "who": "torch default", "seconds": seconds})
                        lines.append({**line, "who": "torch tuned", "seconds": seconds, "how": how})
        return [line for line in lines if line]

    @staticmethod
    def torch_table(table, name, threads):
        section = None
        for text in table.splitlines():
            if text.strip().startswith(("1 thread", "2 thread")) or re.match(r"\d+ threads?$", text.strip()):
                section = int(text.split()[0])
            words = text.split()
            if not words or words[0] != name or section != threads:
                continue
            numbers = words[1:]
            at = 3 if threads == 1 else 1
            yield "eager", float(numbers[at]) * 1e-6
            if numbers[at + 2] != "-":
                yield "torch.compile", float(numbers[at + 2]) * 1e-6

    def grpo(self):
        """One whole step of grpo_trainer and of TRL's GRPOTrainer from the same model folder and prompts."""
        options = self.options
        sizes = ["tiny"] + ([] if options.quick and not options.long else ["0.5B"])
        sizes = [s for s in sizes if options.only in s]
        made = {}

        def folder(kind):
            path = os.path.join(os.path.dirname(self.bin), "speed", kind)
            if kind not in made and not os.path.exists(os.path.join(path, "model", "model.safetensors")):
                os.makedirs(path, exist_ok=True)
                say(f"  making {path}")
                self.run([os.path.join(self.bin, "speed_bench"), "folder", kind, path], os.cpu_count())
            made[kind] = path
            return path

        def shape(kind):
            if kind == "tiny":
                return {"prompts": 64, "n": 8, "response": 20, "mini": 16, "micro": 128, "steps": 4}
            if options.long:
                return {"prompts": 8, "n": 8, "response": 256, "mini": 8, "micro": 8, "steps": 1}
            return {"prompts": 2, "n": 8, "response": 64, "mini": 2, "micro": 8, "steps": 1}

        def name(kind, compute):
            s = shape(kind)
            return f"{kind} {compute} {s['prompts'] * s['n']} x {s['response']} tokens"

        def ours(k, threads):
            lines = []
            for kind in sizes:
                for compute, key in (("fp32", "float32"), ("bf16", "bfloat16")):
                    s, path = shape(kind), folder(kind)
                    run = os.path.join(path, "run")
                    shutil.rmtree(run, ignore_errors=True)
                    settings = {
                        "data.train_files": f"{path}/data/train.jsonl", "data.val_files": f"{path}/data/test.jsonl",
                        "data.train_batch_size": s["prompts"], "data.max_prompt_length": 128,
                        "data.max_response_length": s["response"], "actor_rollout_ref.model.path": f"{path}/model",
                        "actor_rollout_ref.model.enable_gradient_checkpointing": False,
                        "actor_rollout_ref.actor.optim.lr": 1e-5,
                        "actor_rollout_ref.actor.ppo_mini_batch_size": s["mini"],
                        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": s["micro"],
                        "actor_rollout_ref.rollout.n": s["n"], "algorithm.adv_estimator": "grpo",
                        "actor_rollout_ref.actor.use_kl_loss": False, "trainer.val_before_train": False,
                        "trainer.test_freq": -1, "trainer.save_freq": -1, "trainer.total_training_steps": s["steps"],
                        "trainer.resume_mode": "disable", "trainer.logger": "console", "trainer.default_local_dir": run,
                        "rlcore.threads": threads, "rlcore.compute": key,
                    }
                    if kind != "tiny":  # rewards of random weights are all 0: no row may be skipped for that
                        settings["actor_rollout_ref.actor.entropy_coeff"] = 1e-3
                    command = [os.path.join(self.bin, "grpo_trainer"), *(f"{k}={v}" for k, v in settings.items())]
                    _, seconds, memory = self.run(command, threads)
                    lines += self.step_line(name(kind, compute), threads, seconds, memory, run)
            return lines

        yield "rlcore", ours
        if "trl" in self.versions:
            ways = ["default", "fp32", "bf16"] + ([] if options.quick else ["compiled"])
            for way in ways:
                def turn(k, threads, way=way):
                    lines = []
                    for kind in sizes:
                        if way == "compiled" and kind != "tiny":  # many lengths, many minutes of compiling
                            continue
                        s, path = shape(kind), folder(kind)
                        command = [options.python, os.path.join(PEERS, "trl_grpo.py"), "grpo", "--folder", path,
                                   "--threads", str(threads), "--way", way]
                        for key in ("prompts", "n", "response", "mini", "micro", "steps"):
                            command += ["--" + key, str(s[key])]
                        environment = {} if way == "default" else TUNED[k % len(TUNED)]
                        got, seconds, memory = self.run(command, threads, environment)
                        for line in got:
                            line.update(memory=memory, startup=seconds - line.pop("all_steps"))
                            for compute in ["bf16"] if way == "bf16" else ["fp32", "bf16"]:
                                lines.append({**line, "case": name(kind, compute)})
                    return lines
                yield f"TRL {way}", turn

    @staticmethod
    def step_line(case, threads, seconds, memory, run):
        steps, parts = [], []
        try:
            with open(os.path.join(run, "metrics.jsonl")) as f:
                for text in f:
                    row = json.loads(text)
                    row = row.get("metrics", row.get("data", row))
                    if "timing_s/step" in row:
                        steps.append(row["timing_s/step"])
                        parts.append({k[9:]: v for k, v in row.items() if k.startswith("timing_s/")})
        except OSError:
            return []
        if not steps:
            return []
        best = min(range(len(steps)), key=steps.__getitem__)
        return [{"item": "grpo", "case": case, "who": "rlcore", "threads": threads, "seconds": steps[best], "work": 1,
                 "unit": "step", "memory": memory, "startup": seconds - sum(steps), "parts": parts[best]}]


# ------------------------------------------------------------------------------------------------------------ the table
def limit_seconds(line, limits):
    """The shortest time that the machine allows for our line, from the better of the calibrations around the item."""
    if line.get("limit_seconds") is not None:
        return line["limit_seconds"]
    least = line.get("limit")
    if not least:
        return None
    fma = limits["fma"]
    if "bf16" in line["case"]:
        fma = max(fma, limits.get("dot_bf16", 0))
    parts = [least["fma"] / fma, least["read"] / limits["read"], least["in_place"] / limits["in_place"]]
    return (max(parts) if least["overlap"] else sum(parts)) or None


def best_lines(lines):
    """(case, who) -> the fastest line, with the least memory of all."""
    best = {}
    for line in lines:
        key = line["case"], line["who"]
        if key not in best or line["seconds"] < best[key]["seconds"]:
            memory = best.get(key, line).get("memory")
            best[key] = dict(line)
            if memory is not None and line.get("memory") is not None:
                best[key]["memory"] = min(memory, line["memory"])
        elif line.get("memory") is not None and best[key].get("memory") is not None:
            best[key]["memory"] = min(best[key]["memory"], line["memory"])
    # A tuned user may compute in either type: whatever is faster stands beside our bf16.
    for (case, who), line in list(best.items()):
        if "tuned" in who and "fp32" in case:
            other = case.replace("fp32", "bf16")
            if (other, "rlcore") in best and (
                    (other, who) not in best or line["seconds"] < best[other, who]["seconds"]):
                best[other, who] = {**line, "case": other, "how": ("fp32, " + line.get("how", "")).rstrip(", ")}
    return best


def columns_of(best):
    order = ("torch default", "torch tuned", "by hand", "oneDNN default", "oneDNN tuned",
             "llama.cpp default", "llama.cpp tuned", "TRL default", "TRL tuned")
    found = {who for _, who in best if who != "rlcore"}
    return [w for w in order if w in found] + sorted(found - set(order))


def time_text(s):
    return f"{s:.2f} s" if s >= 1 else f"{s * 1e3:.3g} ms" if s >= 1e-3 else f"{s * 1e6:.3g} us"


def rate_text(line):
    rate = line["work"] / line["seconds"]
    return {"flop": f"{rate / 1e9:.0f} GF/s", "byte": f"{rate / 1e9:.1f} GB/s",
            "token": f"{rate:.0f} tok/s" if rate < 1e6 else f"{rate / 1e6:.0f} Mtok/s",
            "image": f"{rate:.0f} /s"}.get(line["unit"], "")


def memory_text(x):
    return "-" if x is None else f"{x / 2**20:.0f}"


def judge(item, case, threads, ours, best, share):
    """What is asked of this row: [(text, reached, met)]."""
    verdicts = []
    for of, pattern, what, factor, where in TARGETS:
        if of != item or threads not in where or not re.search(pattern, case):
            continue
        if what == "limit":
            if share is not None:
                verdicts.append((f"{100 * factor:.0f} % of limit", share, share >= factor))
            continue
        who, memory = what.removesuffix(" memory"), what.endswith(" memory")
        peer = best.get((case, who)) or best.get((case.split(",")[0], who))
        if not peer:
            continue
        key = "memory" if memory else "seconds"
        if ours.get(key) is None or peer.get(key) is None:
            continue
        ratio = peer[key] / max(ours[key], 1e-9)
        verdicts.append((f"{factor:g} x {what}", ratio, ratio >= factor))
    return verdicts


def tables(report, markdown):
    """Lines of text: one table for each item and number of threads."""
    met = missed = 0
    for entry in report["items"]:
        best = best_lines(entry["lines"])
        columns = columns_of(best)
        limits = {k: max(c.get(k, 0) for c in entry["limits"]) for k in entry["limits"][0]} if entry["limits"] else {}
        cases = list(dict.fromkeys(case for case, who in best if who == "rlcore"))
        if not cases:
            continue
        memory = any((best[c, "rlcore"].get("memory") or 0) > 0 for c in cases)
        startup = any("startup" in best[c, "rlcore"] for c in cases)
        head = ["", "rlcore", "rate", "of limit", *columns, *(["MiB, ours / peers"] if memory else []),
                *(["start-up s, ours / peers"] if startup else []), "target"]
        rows = []
        for case in cases:
            ours = best[case, "rlcore"]
            least = limit_seconds(ours, limits)
            share = least / ours["seconds"] if least else None
            row = [case, time_text(ours["seconds"]), rate_text(ours), "-" if share is None else f"{100 * share:.0f} %"]
            peers = [best.get((case, who)) or best.get((case.split(",")[0], who)) for who in columns]
            for peer in peers:
                row.append("-" if peer is None else
                           f"{time_text(peer['seconds'])} ({peer['seconds'] / ours['seconds']:.3g}x)")
            if memory:
                row.append(" / ".join(memory_text(p and p.get("memory")) for p in (ours, *peers)))
            if startup:
                row.append(" / ".join(f"{p['startup']:.1f}" if p and "startup" in p else "-" for p in (ours, *peers)))
            verdicts = judge(entry["item"], case, entry["threads"], ours, best, share)
            met += sum(v[2] for v in verdicts)
            missed += sum(not v[2] for v in verdicts)
            row.append("; ".join(f"{text}: " + ("met" if good else f"{100 * value:.0f} %" if "limit" in text else
                                                f"{value:.3g}") for text, value, good in verdicts))
            rows.append(row)
        only = f", {entry['only']}" if entry.get("only") else ""
        title = f"{entry['item']}{only}, {entry['threads']} thread{'s' if entry['threads'] > 1 else ''}"
        calibration = " -> ".join(
            f"fma {c['fma'] / 1e9:.0f} GF/s, vdpbf16ps {c['dot_bf16'] / 1e9:.0f} GF/s, read {c['read'] / 1e9:.1f} GB/s, "
            f"in place {c['in_place'] / 1e9:.1f} GB/s" for c in entry["limits"])
        if markdown:
            yield f"\n### {title}\n\nLimits before and after: {calibration}.\n"
            yield "| " + " | ".join(head) + " |"
            yield "|" + "---|" * len(head)
            for row in rows:
                yield "| " + " | ".join(row) + " |"
        else:
            widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
            yield f"\n{title}; {calibration}"
            for row in [head, *rows]:
                yield "  ".join(text.ljust(w) if i in (0, len(head) - 1) else text.rjust(w)
                                for i, (text, w) in enumerate(zip(row, widths))).rstrip()
        how = sorted({f"{who}: {line['how']}" for (_, who), line in best.items() if line.get("how") and "tuned" in who})
        if how and markdown:
            yield "\nFastest settings of the tuned peers: " + "; ".join(how) + "."
    yield f"\n{met} targets met, {missed} not met (the number beside a target is what was reached)."


def header(report, markdown):
    versions = ", ".join(f"{k} {v}" for k, v in report["versions"].items()) or "no peers"
    yield ("" if markdown else "") + f"{report['date']}; {report['machine']}; {versions}"


def write_markdown(options):
    reports = []
    for name in options.markdown:
        with open(name) as f:
            reports.append(json.load(f))
    text = "\n\n".join("\n".join([*header(report, True), *tables(report, True)]) for report in reports) + "\n"
    if not options.into:
        print(text)
        return
    with open(options.into) as f:
        page = f.read()
    begin, end = "<!-- figures -->\n", "<!-- end of figures -->"
    if begin not in page or end not in page:
        sys.exit(f"{options.into} has no place for figures ({begin.strip()} ... {end})")
    before, rest = page.split(begin, 1)
    with open(options.into, "w") as f:
        f.write(before + begin + text + end + rest.split(end, 1)[1])


def machine():
    name, caches = platform.machine(), ""
    try:
        with open("/proc/cpuinfo") as f:
            for text in f:
                if text.startswith("model name"):
                    name = text.split(":", 1)[1].strip()
                    break
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} cores{caches}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--item", action="append", choices=ITEMS, help="repeatable; all without it")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}" if os.cpu_count() > 1 else "1")
    parser.add_argument("--quick", action="store_true", help="small sizes, one turn: does everything work?")
    parser.add_argument("--long", action="store_true", help="the GRPO step of 64 x 256 tokens at 0.5B (an hour)")
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "bin"), help="where the programs are")
    parser.add_argument("--python", default=os.environ.get("PYTHON") or sys.executable,
                        help="interpreter with the peers")
    parser.add_argument("--json", help="write everything measured to this file")
    parser.add_argument("--markdown", metavar="JSON", nargs="+",
                        help="print the tables of finished runs, measure nothing")
    parser.add_argument("--into", help="with --markdown: the page that takes the tables")
    options = parser.parse_args()
    if options.markdown:
        return write_markdown(options)
    runner = Runner(options)
    report = {"date": datetime.date.today().isoformat(), "machine": machine(), "versions": runner.versions,
              "quick": options.quick, "items": []}
    for text in header(report, False):
        print(text)
    turns = options.turns or (1 if options.quick else 2)
    for item in options.item or ITEMS:
        for threads in [int(t) for t in options.threads.split(",")]:
            if item == "grpo" and threads != max(int(t) for t in options.threads.split(",")):
                continue
            if item == "images" and threads > 1:
                continue
            say(f"{item}, {threads} thread(s)")
            entry = {"item": item, "only": options.only, "threads": threads, "limits": [runner.calibrate(threads)], "lines": []}
            programs = list(runner.programs(item))
            for turn in range(turns):
                for label, program in programs:
                    started = time.perf_counter()
                    got = program(turn, threads)
                    entry["lines"] += got
                    say(f"  {label}: {len(got)} lines, {time.perf_counter() - started:.0f} s")
            entry["limits"].append(runner.calibrate(threads))
            report["items"].append(entry)
            print("\n".join(list(tables({**report, "items": [entry]}, False))[:-1]), flush=True)
            if options.json:
                with open(options.json, "w") as f:
                    json.dump(report, f, indent=1)
    print(list(tables(report, False))[-1])


main()
