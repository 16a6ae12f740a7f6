"""Random pairs of console logs as verl prints them, and NumPy's figures for them: tests/reference/run_comparison.json."""

import json
import math
import pathlib

import numpy as np

rng = np.random.default_rng(5)


def text(x):
    return f"np.float64({x})" if rng.random() < 0.2 else repr(float(x))


def log(steps, curve, prefix):
    lines = ["dataset len: 7473", "step:none - this is no step"]
    for s in steps:
        lines.append(
            f"{prefix}step:{s} - actor/grad_norm:{text(rng.random())} - critic/rewards/mean:{text(curve[s])}"
            f" - note:abc - val-core/a:b/mean@1:{text(curve[s] / 2)} - perf/throughput:{text(50 + curve[s])}"
            f" - timing_s/step:{text(2 + curve[s] ** 2)}"
        )
        if rng.random() < 0.3:
            lines.append("Training Progress:  12%|#2        | 1/8 - eta: 3")
    return "\n".join(lines) + "\n"


cases = []
for number, (na, nb, scale, zeros, nans) in enumerate(
    [(30, 30, 0.01, 0, 0), (50, 40, 0.1, 0, 0), (20, 20, 1.0, 4, 0), (25, 25, 0.05, 0, 3), (1, 1, 0.2, 0, 0), (12, 300, 1e-6, 0, 0)]
):
    b = {s: float(x) for s, x in enumerate(rng.normal(0.3, 0.4, nb), 1)}
    a = {s: b.get(s, 0.5) + float(x) for s, x in enumerate(rng.normal(0, scale, na), 1)}
    steps_a = [s for s in a if s == 1 or rng.random() < 0.9]
    steps_b = [s for s in b if s == 1 or rng.random() < 0.9]
    for s in rng.choice(sorted(b), zeros, replace=False) if zeros else []:
        b[int(s)] = 0.0
    for s in rng.choice([s for s in a if s in b and s > 1], nans, replace=False) if nans else []:
        a[int(s)] = b[int(s)] = math.nan
    first, second = log(steps_a, a, ""), log(steps_b, b, "\x1b[36m(TaskRunner pid=7)\x1b[0m ")
    limit = 0 if number % 2 else 10
    common = sorted(set(steps_a) & set(steps_b))[: limit or None]
    x, y = np.array([a[s] for s in common]), np.array([b[s] for s in common])
    good = np.isfinite(x) & np.isfinite(y)
    d = np.abs(x - y)[good]
    nonzero = good & (y != 0)
    threshold = 0.04
    above = [s for s, v in zip(np.array(common)[good], d) if v > threshold]
    means = [np.mean([50 + c[s] for s in steps if not math.isnan(c[s])][:4]) for steps, c in ((steps_a, a), (steps_b, b))]
    shared = [s for s in sorted(set(steps_a) & set(steps_b)) if not math.isnan(a[s])]
    seconds = [sum(2 + c[s] ** 2 for s in shared) for c in (a, b)]
    cases.append(
        {
            "a": first,
            "b": second,
            "limit": limit,
            "steps": int(good.sum()),
            "mean_error": float(d.mean()),
            "relative": float((np.abs(x - y)[nonzero] / np.abs(y[nonzero])).mean()),
            "largest": float(d.max()),
            "largest_step": int(np.array(common)[good][d.argmax()]),
            "first_above": int(above[0]) if above else None,
            "zero_reference": int(((y == 0) & (x != 0)).sum()),
            "not_finite": int((~good).sum()),
            "throughput": float(means[0] / means[1]),
            "time": float(seconds[1] / seconds[0]),
        }
    )

path = pathlib.Path(__file__).with_suffix(".json")
path.write_text(json.dumps({"numpy": np.__version__, "cases": cases}, indent=0) + "\n")
