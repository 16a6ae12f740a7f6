"""Numbers as Python prints them, verl's console line and validation statistics by enumeration, majority votes by verl's own
function (0.9.1): writes trainer_metrics.json."""
import itertools
import json
import math
import pathlib
import random
import struct

from verl.trainer.ppo.metric_utils import calc_maj_val

NUMBERS = [0.0, -0.0, 1.0, 1e-6, 5e-7, 1e-5, 1e-4, 0.1, 0.17391938503519522, 1e15, 1e16, 1e22, 123456789.125, 5e-324, 2.0**1023, -1e-9, 100.0, 0.00012345,
           9007199254740993.0, 99999999999999990.0, 1738.027497, math.inf, -math.inf, math.nan]


def statistics(groups):
    """Per group over every draw with replacement, then the mean over groups."""
    out = {}

    def put(name, x):
        out.setdefault(name, []).append(x)

    for scores in groups:
        n = len(scores)
        mean = sum(scores) / n
        put(f"mean@{n}", mean)
        if n == 1:
            continue
        put(f"std@{n}", math.sqrt(sum((x - mean) ** 2 for x in scores) / n))
        sizes, k = [], 2
        while k < n:
            sizes.append(k)
            k *= 2
        for k in sizes + [n]:
            for word, reduce in (("best", max), ("worst", min)):
                draws = [reduce(d) for d in itertools.product(scores, repeat=k)]
                m = sum(draws) / len(draws)
                put(f"{word}@{k}/mean", m)
                put(f"{word}@{k}/std", math.sqrt(sum((x - m) ** 2 for x in draws) / len(draws)))
    return {name: sum(xs) / len(xs) for name, xs in out.items()}


def votes(preds, values):
    """maj@k over every draw with replacement."""
    samples = [{"pred": p, "val": v} for p, v in zip(preds, values)]
    out = {}
    for k in range(1, len(samples) + 1):
        draws = [calc_maj_val(list(d), "pred", "val") for d in itertools.product(samples, repeat=k)]
        mean = sum(draws) / len(draws)
        out[k] = [mean, math.sqrt(sum((x - mean) ** 2 for x in draws) / len(draws))]
    return out


def main():
    rng = random.Random(1)
    numbers = NUMBERS + [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(500)] + [rng.uniform(0, 100) for _ in range(200)]
    groups = [[[1.0], [0.0], [1.0]], [[1.0, 0.0], [0.0, 0.0]], [[0.5, 1.0, -1.0], [0.0, 0.25, 0.25]], [[rng.random() for _ in range(5)] for _ in range(3)]]
    metrics = {"actor/lr": 1e-06, "training/global_step": 3, "critic/rewards/mean": 0.5, "perf/throughput": 69.39390000000001, "actor/grad_norm": math.nan}
    ballots = [("aab", [1.0, 1.0, 0.0]), ("abc", [0.0, 1.0, 0.0]), ("aabbc", [1.0, 1.0, -1.0, -1.0, 0.5]), ("a", [1.0]), ("aaaa", [0.5] * 4),
               ("abcde", [1.0, 0.0, 0.0, 0.0, 0.0]), ("aaabbc", [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), ("ab", [0.25, -0.5])]
    data = {
        "numbers": [[struct.pack(">d", x).hex(), repr(x)] for x in numbers],
        "validation": [{"groups": g, "expected": statistics(g)} for g in groups],
        "votes": [{"preds": p, "values": v, "expected": votes(p, v)} for p, v in ballots],
        "line": "step:3 - " + " - ".join(f"{k}:{v}" for k, v in metrics.items()),
    }
    pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(data, indent=0) + "\n")


if __name__ == "__main__":
    main()
