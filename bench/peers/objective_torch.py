"""The loss of bench/objective_bench.cpp in PyTorch, one thread, forward and backward: eager and torch.compile.

    build/bin/objective_bench --json objective.json
    pip install -r bench/peers/requirements.txt && python bench/peers/objective_torch.py objective.json
"""

import json
import sys
import time

import torch

torch.set_num_threads(1)


def grpo(logp, old_logp, ref_logp, advantage, mask):
    ratio = torch.exp(logp - old_logp)
    a = advantage[:, None]
    policy = torch.maximum(-a * ratio, -a * torch.clamp(ratio, 0.8, 1.28))
    e = ref_logp - logp
    loss = policy + 0.04 * (torch.exp(e) - e - 1)
    if mask is None:
        return loss.mean(1).mean()
    return ((loss * mask).sum(1) / mask.sum(1)).mean()


def seconds(loss_of, arguments, repetitions):
    logp = arguments[0]
    best = float("inf")
    for k in range(repetitions + 2):
        logp.grad = None
        start = time.perf_counter()
        loss_of(*arguments).backward()
        if k >= 2:
            best = min(best, time.perf_counter() - start)
    return best


def main():
    with open(sys.argv[1]) as f:
        runs = json.load(f)["runs"]
    print(f"{'size':14} {'mask':6} {'rlcore':>12} {'eager':>12} {'ratio':>7} {'compiled':>12} {'ratio':>7}")
    compiled = torch.compile(grpo) if "--compile" in sys.argv else None
    for run in runs:
        rows, tokens = run["rows"], run["tokens"]
        g = torch.Generator().manual_seed(1)
        logp = -torch.randn(rows, tokens, generator=g).abs()
        old_logp = logp + 0.2 * torch.randn(rows, tokens, generator=g)
        ref_logp = logp + 0.2 * torch.randn(rows, tokens, generator=g)
        advantage = torch.randn(rows, generator=g)
        mask = None
        if run["masked"]:
            mask = torch.ones(rows, tokens)
            for i in range(rows):
                mask[i, tokens - (i * 37) % (tokens // 2):] = 0
        arguments = (logp.requires_grad_(), old_logp, ref_logp, advantage, mask)
        repetitions = 5 if rows * tokens > 1e6 else 30
        eager = seconds(grpo, arguments, repetitions)
        ours = run["composed_s"]
        line = f"{rows:5} x {tokens:<6} {'float' if run['masked'] else 'none':6} {ours * 1e6:9.1f} us {eager * 1e6:9.1f} us {eager / ours:7.1f}"
        if compiled:
            c = seconds(compiled, arguments, repetitions)
            line += f" {c * 1e6:9.1f} us {c / ours:7.1f}"
        print(line)


main()
