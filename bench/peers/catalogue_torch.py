"""The losses of bench/catalogue_bench.cpp in PyTorch, forward and backward: eager and torch.compile.

    build/bin/catalogue_bench --json catalogue.json
    pip install -r bench/peers/requirements.txt && python bench/peers/catalogue_torch.py catalogue.json

Each loss is written as its paper writes it, with masked means, and returns the diagnostics that ours reports too. Twice:
with one thread beside ours with one, then with PyTorch's default number of threads beside ours with a pool of as many.
Options: --only NAME, --no-compile.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F


def total(x, mask):
    return torch.where(mask, x, 0).sum()


def token_mean(x, mask):
    return total(x, mask) / mask.sum()


def row_mean(x, mask):
    return torch.where(mask, x, 0).sum(1) / mask.sum(1)


def share(condition, mask):
    return token_mean(condition.float(), mask).detach()


def clipped(s, low, high):
    ratio = torch.exp(s.logp - s.old_logp)
    a = s.advantage[:, None]
    free, held = -a * ratio, -a * ratio.clamp(1 - low, 1 + high)
    return torch.maximum(free, held), share(held > free, s.mask)


def ppo(s):
    loss, fraction = clipped(s, 0.2, 0.2)
    return token_mean(loss, s.mask), fraction


def ppo_dual_clip(s):
    x = (s.logp - s.old_logp).clamp(-20, 20)
    ratio = torch.exp(x)
    a = s.advantage[:, None]
    free, held = -a * ratio, -a * ratio.clamp(0.8, 1.2)
    upper, ceiling = torch.maximum(free, held), -a * 3.0
    loss = torch.where(a < 0, torch.minimum(upper, ceiling), upper)
    metrics = share(held > free, s.mask), share((a < 0) & (upper > ceiling), s.mask), token_mean(-x, s.mask).detach()
    return token_mean(loss, s.mask), metrics


def grpo(s):
    loss, fraction = clipped(s, 0.2, 0.2)
    e = s.ref_logp - s.logp
    k3 = torch.exp(e) - e - 1
    return row_mean(loss + 0.04 * k3, s.mask).mean(), (fraction, token_mean(k3, s.mask).detach())


def dapo(s):
    loss, fraction = clipped(s, 0.2, 0.28)
    return token_mean(loss, s.mask), fraction


def dr_grpo(s):
    loss, fraction = clipped(s, 0.2, 0.2)
    return total(loss, s.mask) / (len(loss) * 3000), fraction


def gspo(s):
    ratio = torch.exp(row_mean(s.logp - s.old_logp, s.mask))
    free, held = -s.advantage * ratio, -s.advantage * ratio.clamp(1 - 3e-4, 1 + 4e-4)
    return torch.maximum(free, held).mean(), (held > free).float().mean().detach()


def gmpo(s):
    x = s.logp - s.old_logp
    a = s.advantage[:, None]
    kept = torch.where(a > 0, torch.minimum(x, x.clamp(-0.4, 0.4)), torch.maximum(x, x.clamp(-0.4, 0.4)))
    return (-s.advantage * torch.exp(row_mean(kept, s.mask))).mean(), share(kept != x, s.mask)


def cispo(s):
    ratio = torch.exp(s.logp - s.old_logp).detach()
    return token_mean(-ratio.clamp(max=5) * s.advantage[:, None] * s.logp, s.mask), share(ratio > 5, s.mask)


def sapo(s):
    ratio = torch.exp(s.logp - s.old_logp)
    a = s.advantage[:, None]
    tau = torch.where(a > 0, 1.0, 1.05)
    return row_mean(-a * torch.sigmoid(tau * (ratio - 1)) * 4 / tau, s.mask).mean(), ()


def gpg(s):
    return token_mean(-s.advantage[:, None] * s.logp, s.mask), ()


def rloo(s):
    return total(-s.advantage[:, None] * s.logp, s.mask) / len(s.logp), ()


def within(s, kept):
    ratio = torch.exp(s.logp - s.old_logp).detach()
    loss = token_mean(-s.advantage[:, None] * ratio.clamp(max=20.0) * s.logp * kept, s.mask)
    return loss, (share(~kept, s.mask), share(kept & (ratio > 20.0), s.mask))


def dppo_tv(s):
    with torch.no_grad():
        moved = torch.exp(s.logp) - torch.exp(s.old_logp)
        kept = torch.where(s.advantage[:, None] > 0, moved <= 0.15, moved >= -0.15)
    return within(s, kept)


def dppo_kl(s):
    with torch.no_grad():
        x = s.logp - s.old_logp
        rest_old, rest = -torch.expm1(s.old_logp), -torch.expm1(s.logp)
        kl = rest_old * torch.log((rest_old + 1e-8) / (rest + 1e-8)) - torch.exp(s.old_logp) * x
        kept = (kl <= 0.05) | torch.where(s.advantage[:, None] > 0, x <= 0, x >= 0)
    return within(s, kept)


def dro(s):
    x = s.logp - s.old_logp
    policy, square = token_mean(-s.advantage[:, None] * s.logp, s.mask), 0.5 * token_mean(x * x, s.mask)
    return policy + square, (policy.detach(), square.detach())


def ppo_critic(s):
    held = torch.maximum(torch.minimum(s.value, s.old_value + 0.2), s.old_value - 0.2)
    free, bounded = (s.value - s.target) ** 2, (held - s.target) ** 2
    return 0.5 * token_mean(torch.maximum(free, bounded), s.mask), share(bounded > free, s.mask)


def pairs(score):
    return score[0::2], score[1::2]


def ranked(chosen, rejected, beta):
    return (chosen > rejected).float().mean(), beta * chosen.detach().mean(), beta * rejected.detach().mean()


def dpo(s):
    chosen, rejected = pairs(torch.where(s.mask, s.logp - s.ref_logp, 0).sum(1))
    return -F.logsigmoid(0.1 * (chosen - rejected)).mean(), ranked(chosen, rejected, 0.1)


def simpo(s):
    chosen, rejected = pairs(row_mean(s.logp, s.mask))
    return -F.logsigmoid(2 * (chosen - rejected) - 1).mean(), ranked(chosen, rejected, 2)


def kto(s):
    u = torch.where(s.mask, s.logp - s.ref_logp, 0).sum(1)
    good = s.desirable > 0
    rewards = (0.1 * u).detach()
    metrics = good.float().mean(), (rewards * good).mean(), (rewards * ~good).mean()
    return (1 - torch.sigmoid(0.1 * torch.where(good, u - 0.1, 0.1 - u))).mean(), metrics


def orpo(s):
    chosen, rejected = pairs(row_mean(s.logp, s.mask))
    odds = (chosen - rejected) - (torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected)))
    nll = -token_mean(s.logp[0::2], s.mask[0::2])
    ratio = F.logsigmoid(odds).mean()
    return nll - 0.1 * ratio, (ranked(chosen, rejected, 0.1), ratio.detach(), odds.mean().detach())


@torch.no_grad()
def gae(s):
    next_value, last, advantages = 0, 0, []
    mask = s.mask.float()
    for t in reversed(range(s.reward.shape[1])):
        delta = s.reward[:, t] + 0.99 * next_value - s.value[:, t]
        live = mask[:, t]
        next_value = s.value[:, t] * live + (1 - live) * next_value
        last = (delta + 0.99 * 0.95 * last) * live + (1 - live) * last
        advantages.append(last)
    advantages = torch.stack(advantages[::-1], 1)
    return advantages, advantages + s.value


@torch.no_grad()
def whitening(s):
    n = s.mask.sum()
    mean = total(s.reward, s.mask) / n
    variance = total((s.reward - mean) ** 2, s.mask) / (n - 1)
    return torch.where(s.mask, (s.reward - mean) * torch.rsqrt(variance + 1e-8), 0), ()


def log_prob(s):
    largest = torch.logsumexp(s.logits, -1)
    chosen = s.logits.gather(-1, s.labels[:, None]).squeeze(-1)
    p = torch.softmax(s.logits, -1)
    return chosen - largest, largest - (p * s.logits).sum(-1)


def log_prob_forward(s):
    with torch.no_grad():
        return log_prob(s)


def log_prob_gradient(s):
    logp, entropy = log_prob(s)
    return (0.01 * logp - 1e-4 * entropy).sum(), ()


BY_LOGP = (ppo, ppo_dual_clip, grpo, dapo, dr_grpo, gspo, gmpo, cispo, sapo, gpg, rloo, dppo_tv, dppo_kl, dro, dpo, kto,
           simpo, orpo)
LOSSES = {function.__name__: (function, "logp") for function in BY_LOGP}
LOSSES |= {"ppo_critic": (ppo_critic, "value"), "gae": (gae, None), "whitening": (whitening, None),
           "log_prob+entropy": (log_prob_forward, None), "log_prob+gradient": (log_prob_gradient, "logits")}


class Step:
    """The inputs of one optimizer step."""

    def __init__(self, rows, tokens):
        g = torch.Generator().manual_seed(1)
        normal = lambda *shape: torch.randn(*shape, generator=g)  # noqa: E731
        self.logp = -normal(rows, tokens).abs()
        self.old_logp = self.logp + 0.2 * normal(rows, tokens)
        self.ref_logp = self.logp + 0.2 * normal(rows, tokens)
        self.value, self.target = normal(rows, tokens), normal(rows, tokens)
        self.old_value = self.value + 0.4 * normal(rows, tokens)
        self.reward = 0.1 * normal(rows, tokens)
        self.advantage = normal(rows)
        self.desirable = (torch.arange(rows) % 3 > 0).float()
        length = tokens - (torch.arange(rows) * 37) % (tokens // 2)
        self.mask = torch.arange(tokens) < length[:, None]
        self.logits = self.labels = None


def seconds(function, s, leaf, budget=1.0, least=5):
    """The best of as many calls as fit into the budget, after two that do not count."""
    best, spent, k = float("inf"), 0.0, 0
    while k < least + 2 or spent < budget:
        if leaf is not None:
            leaf.grad = None
        start = time.perf_counter()
        loss, _ = function(s)
        if leaf is not None:
            loss.backward()
        t = time.perf_counter() - start
        if k >= 2:
            best = min(best, t)
        spent += t
        k += 1
        if spent > 30 * budget:
            break
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--only", default="")
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    with open(options.file) as f:
        measured = json.load(f)
    step = Step(measured["rows"], measured["tokens"])
    default = torch.get_num_threads()
    print(f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}; [{measured['rows']}, {measured['tokens']}]")
    for threads, ours in ((1, "ours_s"), (default, "pool_s")):
        torch.set_num_threads(threads)
        torch.compiler.reset()
        print(f"\n{threads} thread{'s' if threads > 1 else ''}\n{'':20} {'rlcore us':>10} {'of read':>8} {'by hand':>8} "
              f"{'eager us':>10} {'times':>7} {'compiled us':>12} {'times':>7}")
        for run in measured["runs"]:
            name = run["name"]
            if options.only not in name or name not in LOSSES:
                continue
            function, wrt = LOSSES[name]
            if name.startswith("log_prob") and step.logits is None:
                step.logits = 12 * torch.rand(128, 151936) - 6
                step.labels = torch.arange(128) * 997 % 151936
            leaf = getattr(step, wrt).requires_grad_() if wrt else None
            eager = seconds(function, step, leaf)
            line = f"{name:20} {run[ours] * 1e6:10.1f} "
            line += f"{100 * run['of_read']:7.0f}% {run['ours_s'] / run['raw_s']:8.3f} " if threads == 1 else f"{'':17} "
            line += f"{eager * 1e6:10.1f} {eager / run[ours]:7.1f} "
            if options.no_compile or "gae" in name:  # a loop over time is unrolled: minutes of compiling
                line += f"{'-':>12} {'-':>7}"
            else:
                c = seconds(torch.compile(function), step, leaf)
                line += f"{c * 1e6:12.1f} {c / run[ours]:7.1f}"
            if leaf is not None:
                leaf.requires_grad_(False)
                leaf.grad = None
            print(line, flush=True)


main()
