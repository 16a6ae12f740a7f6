"""Losses and gradients by PyTorch autograd in float64, for tests/objective.

    pip install -r requirements.txt && python objective_losses.py

Every formula is written here from its definition in plain tensor operations. Inputs are rounded to float32 first, so the
same numbers serve float and double. Settings are decimal.
"""

import json
import os

import torch

torch.manual_seed(7)
B, T = 6, 37
f64 = torch.float64


def rounded(x):
    return x.to(torch.float32).to(f64)


logp = rounded(-torch.rand(B, T) * 3 - 0.05)
old_logp = rounded(logp + torch.randn(B, T) * 0.3)
ref_logp = rounded(logp + torch.randn(B, T) * 0.5)
advantage = rounded(torch.tensor([1.5, -0.75, 0.0, 2.25, -1.25, 0.5]))
weight = rounded(torch.rand(B, T) * 2)
entropy = rounded(torch.rand(B, T) * 4)
mask = torch.zeros(B, T)
for i, n in enumerate([37, 17, 5, 0, 33, 1]):  # a full row, one slot over a pack, a short one, an empty one, ...
    mask[i, :n] = 1
mask[0, [3, 4, 20]] = 0  # holes: tool tokens
mask[4, 0] = 0
# Edges, with differences that are exact in float: equal policies, both sides of every clamp. The bounds themselves are
# left out: torch.clamp passes the gradient there in some versions and stops it in others (2.15).
for i in (0, 1, 4):
    for t, (x, d) in enumerate([(0, 0), (25, 3), (-25, -12), (2, 2.5), (-2, -2.75), (19.5, 0.25), (-19.5, -11.5), (1.25, -0.001953125)]):
        logp[i, t + 6] = -1.0
        old_logp[i, t + 6] = -1.0 - x
        ref_logp[i, t + 6] = -1.0 - d


def ppo(low, high):
    def token_loss(l, h):
        r = torch.exp(l - old_logp)
        a = advantage[:, None]
        return torch.maximum(-a * r, -a * torch.clamp(r, 1 - low, 1 + high))
    return token_loss


def dual(low, high, c, limit=20.0):
    def token_loss(l, h):
        r = torch.exp(torch.clamp(l - old_logp, -limit, limit))
        a = advantage[:, None]
        upper = torch.maximum(-a * r, -a * torch.clamp(r, 1 - low, 1 + high))
        return torch.where(a < 0, torch.minimum(upper, -a * c), upper)
    return token_loss


def k3(l, h):
    e = ref_logp - l
    # expm1 keeps the digits near 0; the value there is the integral of the slope, as a series
    series = sum(e ** k / torch.tensor(float(torch.prod(torch.arange(1, k + 1, dtype=f64)))) for k in range(2, 20))
    return torch.where(e.abs() < 0.5, series, torch.exp(e) - 1 - e)


def low_var_kl(l, h):
    e = torch.clamp(ref_logp - l, -20, 20)
    series = sum(e ** k / torch.tensor(float(torch.prod(torch.arange(1, k + 1, dtype=f64)))) for k in range(2, 20))
    value = torch.where(e.abs() < 0.5, series, torch.exp(torch.where(e.abs() < 0.5, torch.zeros_like(e), e)) - 1 - e)
    return torch.clamp(value, -10, 10)


def straight(l, h):
    half = 0.5 * (l - ref_logp) ** 2
    return half - half.detach() + low_var_kl(l, h).detach()


pieces = {
    "clipped_ratio": ppo(0.2, 0.28),
    "dual_clipped_ratio": dual(0.2, 0.28, 3.0),
    "policy_gradient": lambda l, h: -advantage[:, None] * l,
    "weighted_clipped_ratio": lambda l, h: ppo(0.2, 0.28)(l, h) * weight,
    "k1": lambda l, h: l - ref_logp,
    "absolute": lambda l, h: (l - ref_logp).abs(),
    "k2": lambda l, h: 0.5 * (l - ref_logp) ** 2,
    "k3": k3,
    "clamped_k3": low_var_kl,
    "straight_through_k3": straight,
    "entropy": lambda l, h: h,
    "grpo": lambda l, h: ppo(0.2, 0.2)(l, h) + 0.04 * k3(l, h),
    "verl": lambda l, h: dual(0.2, 0.28, 3.0)(l, h) + 0.05 * low_var_kl(l, h) - 0.01 * h,
}

live = mask.to(f64)
n = live.sum(1)
N, S = n.sum(), (n > 0).sum()


def row_sums(x):
    return torch.where(mask > 0, x, torch.zeros_like(x)).sum(1)


aggregations = {
    "token_mean": lambda x: row_sums(x).sum() / N,
    "token_sum": lambda x: row_sums(x).sum(),
    "sequence_mean_token_mean": lambda x: (row_sums(x) / n.clamp(min=1)).sum() / S,
    "sequence_mean_token_sum": lambda x: row_sums(x).sum() / S,
    "fixed_length": lambda x: row_sums(x).sum() / (S * 48),
    "fixed_length_unaveraged": lambda x: row_sums(x).sum() / 48,
}


def flat(x):
    return [float(repr(v)) for v in x.detach().flatten().tolist()]


def gradients(token_loss, aggregate):
    l, h = logp.clone().requires_grad_(), entropy.clone().requires_grad_()
    loss = aggregate(token_loss(l, h))
    gl, gh = torch.autograd.grad(loss, [l, h], allow_unused=True)
    zero = torch.zeros_like(l)
    return loss.item(), gl if gl is not None else zero, gh if gh is not None else zero


out = {
    "rows": B, "tokens": T, "fixed_length": 48,
    "logp": flat(logp), "old_logp": flat(old_logp), "ref_logp": flat(ref_logp), "advantage": flat(advantage),
    "weight": flat(weight), "entropy": flat(entropy), "mask": [int(v) for v in mask.flatten().tolist()], "pieces": {},
}
for name, token_loss in pieces.items():
    entry = {"loss": {}}
    for agg, aggregate in aggregations.items():
        loss, gl, gh = gradients(token_loss, aggregate)
        entry["loss"][agg] = loss
        if agg == "token_mean" or (name == "verl" and agg in ("sequence_mean_token_mean", "fixed_length")):
            entry.setdefault("logp_gradient", {})[agg] = flat(gl)
            if gh.abs().sum() > 0:
                entry.setdefault("entropy_gradient", {})[agg] = flat(gh)
    out["pieces"][name] = entry

# verl's metrics of the policy term
r = torch.exp(torch.clamp(logp - old_logp, -20, 20))
a = advantage[:, None].expand(B, T)
l1, l2 = -a * r, -a * torch.clamp(r, 0.8, 1.28)
upper = torch.maximum(l1, l2)
out["metrics"] = {
    "clipfrac": (row_sums((l2 > l1).to(f64)).sum() / N).item(),
    "clipfrac_lower": (row_sums(((upper > -a * 3.0) & (a < 0)).to(f64)).sum() / N).item(),
    "ppo_kl": (row_sums(-torch.clamp(logp - old_logp, -20, 20)).sum() / N).item(),
}

# One term per sequence or pair of sequences.
lm = torch.where(mask > 0, logp, torch.zeros_like(logp))


def sequence(name, loss_of):
    # milder ratios than the edges above, or every sequence would be clipped
    l = rounded(old_logp + 0.02 * torch.sin(torch.arange(B * T, dtype=f64).reshape(B, T) * 0.7) + 0.01).requires_grad_()
    loss = loss_of(l)
    (g,) = torch.autograd.grad(loss, [l])
    out[name] = {"logp": flat(l), "loss": loss.item(), "logp_gradient": flat(g)}


def gspo(low, high):
    def loss_of(l):
        s = torch.exp(row_sums(l - old_logp) / n.clamp(min=1))
        each = torch.maximum(-advantage * s, -advantage * torch.clamp(s, 1 - low, 1 + high))
        return each[n > 0].mean()
    return loss_of


def dpo(beta, smoothing):
    def loss_of(l):
        score = row_sums(l - ref_logp)
        z = beta * (score[0::2] - score[1::2])
        ls = torch.nn.functional.logsigmoid
        return (-(1 - smoothing) * ls(z) - smoothing * ls(-z)).mean()
    return loss_of


sequence("gspo", gspo(0.01, 0.012))
sequence("dpo", dpo(0.1, 0.0))
sequence("cdpo", dpo(0.3, 0.1))

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "objective_losses.json")
with open(path, "w") as f:
    json.dump(out, f, separators=(",", ":"))
print(os.path.getsize(path))
