#!/usr/bin/env python3
"""All that a GPU has to confirm, as one command: bits of the kernels, of the quickstart and of sampling, memory errors, and
speed beside PyTorch in turns. Below eight minutes; what has run is written when the time is over.

    make cuda_check [PYTHON=...] [ARGS="--device cuda_emulator"]
    bench/cuda_check.py [--build build/bin] [--device cuda|cuda_emulator] [--python PYTHON] [--output FOLDER] [--only TEXT]
                        [--seconds N]

FOLDER/cuda_check.md has the tables of docs/cuda_proof.md, FOLDER/*.log what each part printed. PYTHON is an interpreter
with PyTorch, and transformers if there is one; on the emulator nothing is compared with them. The exit code is 1 if
something is wrong. This file needs the standard library alone.
"""

import argparse
import glob
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Check:
    def __init__(self, asked):
        self.asked = asked
        self.bin = os.path.abspath(asked.build)
        self.output = os.path.abspath(asked.output)
        self.emulated = asked.device == "cuda_emulator"
        self.rows, self.speed, self.good = [], [], True
        self.end = time.time() + asked.seconds
        os.makedirs(self.output, exist_ok=True)

    def run(self, name, command, seconds, folder=None):
        """(exit code, output); code None: stopped at its deadline, with the processes that it started."""
        started, path = time.time(), os.path.join(self.output, name + ".log")
        with open(path, "w") as log:
            try:
                process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT,
                                           start_new_session=True)
                code = process.wait(max(1, min(seconds, self.end - started)))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = None
            except OSError as e:
                code = 127
                log.write(str(e) + "\n")
        with open(path, errors="replace") as log:
            out = log.read()
        print("%-28s %5.0f s  %s" % (name, time.time() - started,
                                     "late" if code is None else "ok" if code == 0 else "exit code %d" % code), flush=True)
        return code, out

    def result(self, what, answer, right):
        """A line of the first table; right None: nothing was shown."""
        self.rows.append((what, answer, "" if right is None else "yes" if right else "**no**"))
        self.good = self.good and right is not False
        self.write()

    def doctor(self):
        code, out = self.run("doctor", [os.path.join(self.bin, "cuda_doctor")] + (["--emulator"] if self.emulated else []),
                             120)
        for label in ("device", "float32", "bfloat16", "losses", "WRONG"):
            for row in [x for x in out.splitlines() if x.startswith(label + " ")]:
                self.result(label, row[len(label):].strip(), None if label == "device" else label != "WRONG")
        if code != 0:
            last = (out.strip().splitlines() or ["exit code %s" % code])[-1]
            self.result("cuda_doctor", "late" if code is None else last, False)
        return "\ndevice " in out

    def trained(self, name, more, steps):
        """Digest of a quickstart's weights and its metrics without times, or None."""
        folder = os.path.join(self.output, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        warm = "20" if self.emulated else "480"
        code, _ = self.run(name, [os.path.join(self.bin, "quickstart"), "trainer.total_training_steps=%d" % steps,
                                  "trainer.save_freq=%d" % steps, "trainer.test_freq=-1", "trainer.val_before_train=False",
                                  "trainer.logger=file", "quickstart.warm_start_steps=" + warm] +
                           (["data.train_batch_size=4", "actor_rollout_ref.actor.ppo_mini_batch_size=4"]
                            if self.emulated else []) + more, 600 if self.emulated else 120, folder)
        files = glob.glob(folder + "/runs/quickstart/global_step_*/**/model*.safetensors", recursive=True)
        if code != 0 or not files:
            return None
        with open(sorted(files)[0], "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()[:12]
        with open(folder + "/runs/quickstart/metrics.jsonl") as f:
            rows = [json.loads(row) for row in f]
        return digest, [{k: v for k, v in row.items() if not k.startswith(("timing", "perf"))} for row in rows]

    def runs(self):
        device, steps = ["trainer.device=" + self.asked.device], 1 if self.emulated else 5
        if not self.emulated:
            device.append("rlcore.cuda.required=True")
        found = {"cpu": self.trained("quickstart on the cpu", [], steps),
                 "gpu": self.trained("quickstart on the gpu", device, steps)}
        same = None not in found.values() and found["cpu"] == found["gpu"]
        self.result("quickstart, float32, %s" % ("%d steps" % steps if steps > 1 else "one step"), "weights " + ", ".join(
            "%s %s" % (k, v[0] if v else "failed") for k, v in found.items()) + (
                "; all metrics equal" if same else ""), same)
        bf16 = self.trained("bf16, log-probs again", device + ["rlcore.compute=bfloat16",
                                                               "rlcore.recompute_old_log_prob=True"], steps)
        largest = max(row.get("training/rollout_probs_diff_max", 1) for row in bf16[1]) if bf16 else None
        self.result("bfloat16: log-probs of sampling and of training", "largest difference %s" % largest, largest == 0)

    def sanitizer(self):
        tool = shutil.which("compute-sanitizer")
        if self.emulated or not tool:
            return self.result("compute-sanitizer", "not run", None)
        for kind in ("memcheck", "racecheck"):
            code, out = self.run(kind, [tool, "--tool", kind, "--error-exitcode", "9",
                                        os.path.join(self.bin, "cuda_doctor")], 60)
            text = "late" if code is None else ([x for x in out.splitlines() if "SUMMARY" in x] or ["exit code %s" % code])[-1]
            self.result(kind, text.strip("= "), None if code is None else code == 0)

    def speeds(self):
        ours = [os.path.join(self.bin, "speed_bench"), "cuda", "--device", self.asked.device, "--quick"]
        peer = [self.asked.python, os.path.join(HERE, "peers", "torch_cuda.py"), "cuda", "--quick"]
        if self.asked.only:
            ours, peer = ours + ["--only", self.asked.only], peer + ["--only", self.asked.only]
        turns = [("ours", ours)] if self.emulated else [("ours", ours), ("torch", peer), ("torch again", peer),
                                                       ("ours again", ours)]
        best = {}
        for name, command in turns:
            code, out = self.run("speed, " + name, command, 75)
            if code != 0:
                self.result("speed, " + name, "late" if code is None else (out.strip().splitlines() or [""])[-1],
                            False if code is not None and name.startswith("ours") else None)
            for row in out.splitlines():
                if row.startswith("{"):
                    x = json.loads(row)
                    key = (x["case"], x["who"])
                    if key not in best or x["seconds"] < best[key]["seconds"]:
                        best[key] = x
            self.speed = list(best.values())
            self.write()

    def write(self):
        lines = ["| what | result | right |", "|---|---|---|"] + ["| %s | %s | %s |" % row for row in self.rows]
        if self.speed:
            peers = sorted({x["who"] for x in self.speed} - {"rlcore"})
            lines += ["", "| case | rlcore | of the best copy or product |" + "".join(" %s |" % p for p in peers),
                      "|---|---|---|" + "---|" * len(peers)]
            rate = {(x["case"], x["who"]): x["work"] / x["seconds"] for x in self.speed}
            unit = {x["case"]: x["unit"] for x in self.speed}
            # the best copy, and the best product in the same arithmetic: attention is float32
            limit = {arithmetic: max([r for (c, _), r in rate.items() if c.startswith(arithmetic)], default=0)
                     for arithmetic in ("copy", "fp32", "bf16")}
            for case in unit:
                def text(who):
                    r = rate.get((case, who))
                    scale, name = {"flop": (1e12, "TFLOP/s"), "byte": (1e9, "GB/s"), "token": (1, "tokens/s")}[unit[case]]
                    return "" if r is None else "%.3g %s" % (r / scale, name)
                own = rate.get((case, "rlcore"))
                most = limit[{"byte": "copy", "flop": "bf16" if case.startswith("bf16") else "fp32"}.get(unit[case], "copy")]
                share = "%.2g" % (own / most) if own and most and unit[case] != "token" else ""
                lines.append("| %s | %s | %s |" % (case, text("rlcore"), share) + "".join(" %s |" % text(p) for p in peers))
        draft = os.path.join(self.output, "cuda_check.md.draft")
        with open(draft, "w") as out:
            out.write("\n".join(lines) + "\n")
        os.replace(draft, draft[:-len(".draft")])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/bin")
    p.add_argument("--device", default="cuda", choices=("cuda", "cuda_emulator"))
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--output", default="runs/cuda_check")
    p.add_argument("--seconds", type=float, help="for all parts; by default 480, on the emulator an hour")
    p.add_argument("--only", default="", help="cases of speed whose name contains it")
    asked = p.parse_args()
    asked.seconds = asked.seconds or (3600 if asked.device == "cuda_emulator" else 480)
    for program in ("cuda_doctor", "quickstart", "speed_bench"):
        if not os.path.exists(os.path.join(asked.build, program)):
            sys.exit("cuda_check.py: no %s/%s; make cuda_check builds it" % (asked.build, program))
    check = Check(asked)
    if check.doctor():  # else there is no GPU to ask more
        check.runs()
        check.sanitizer()
        check.speeds()
    with open(os.path.join(check.output, "cuda_check.md")) as table:
        print("\n" + table.read())
    return 0 if check.good else 1


if __name__ == "__main__":
    sys.exit(main())
