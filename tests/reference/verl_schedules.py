"""Learning-rate factors of verl's schedules: writes verl_schedules.json.

Usage: verl_schedules.py 0.5.0=FOLDER 0.6.1=FOLDER 0.8.0=FOLDER 0.9.1=FOLDER. Each folder holds verl/, the wheel unpacked.
The functions are cut out of utils/torch_functional.py: no version has to be installed, and nothing else is needed. Where a
version agrees with the one before, it names that one.
"""

import ast
import itertools
import json
import math
import os
import sys

STEPS = [(20, 0), (20, 1), (20, 5), (7, 7), (30, 4)]  # total and warm-up steps
RATIOS, CYCLES = [0.0, 0.1, 0.5], [0.5, 1.5]


def functions_of(folder):
    tree = ast.parse(open(os.path.join(folder, "verl/utils/torch_functional.py")).read())
    names = ["get_cosine_schedule_with_warmup", "get_constant_schedule_with_warmup", "get_wsd_schedule_with_warmup"]
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in names]
    for f in found:
        f.decorator_list, f.returns = [], None
        for a in f.args.args:
            a.annotation = None
    space = {"math": math, "LambdaLR": lambda optimizer, factor, last_epoch: factor}
    exec(compile(ast.Module(found, []), "verl", "exec"), space)
    return [space[n] for n in names]


def schedules(folder):
    cosine, constant, wsd = functions_of(folder)
    out = []
    for (total, warmup), ratio, cycles in itertools.product(STEPS, RATIOS, CYCLES):
        factors = {"cosine": cosine(None, warmup, total, min_lr_ratio=ratio, num_cycles=cycles),
                   "wsd": wsd(None, warmup, total, min_lr_ratio=ratio, num_cycles=cycles)}
        if ratio == 0 and cycles == 0.5:
            factors["constant"] = constant(None, warmup)
        for kind, f in factors.items():
            out.append({"kind": kind, "total": total, "warmup": warmup, "min": ratio, "cycles": cycles,
                        "factors": [float(f"{f(s):.15g}") for s in range(total + 3)]})
    return out


def main():
    out = {}
    for word in sys.argv[1:]:
        version, folder = word.split("=", 1)
        made = schedules(folder)
        out[version] = next((known for known, other in out.items() if other == made), made)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "verl_schedules.json")
    with open(path, "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


main()
