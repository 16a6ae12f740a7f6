"""Per-token values and slopes of policy surrogates, for tests/objective/piece/surrogate.

    pip install -r requirements.txt && pip install --no-deps -r systems.txt && python surrogate.py

Where a system has the loss, the numbers in the file are what its own function returned; a formula written here from the
paper has to agree with it to 1e-11 (`agree`). Per-token values: verl's and OpenRLHF's aggregation is replaced by a
recorder of its input, TRL's and Liger's losses are called with one token or one row at a time. Slopes are gradients
divided by the weight that the system's aggregation gives the token. Clip and clamp bounds themselves are left out of the
inputs, since versions of torch disagree about the gradient there.

GSPO-token is in no package: the gspo_token GRPOTrainer of TRL f2cd5771 was called once on these inputs and agreed to 1e-12.
"""

import json
import math
import os
import sys
import types
from collections import defaultdict
from types import SimpleNamespace

import torch

from liger_kernel.chunked_loss.grpo_loss import LigerFusedLinearGRPOFunction
from trl.experimental.gmpo.gmpo_trainer import GMPOTrainer
from trl.trainer.grpo_trainer import GRPOTrainer
from verl.trainer.ppo import core_algos
from verl.workers.config import ActorConfig

# openrlhf imports packages that its losses do not use
for name in ["flash_attn", "flash_attn.bert_padding", "flash_attn.utils", "flash_attn.utils.distributed", "deepspeed"]:
    stub = types.ModuleType(name)
    stub.__getattr__ = lambda attribute: None
    stub.__path__ = []
    sys.modules.setdefault(name, stub)

from openrlhf.models import loss as openrlhf_loss  # noqa: E402

torch.set_default_dtype(torch.float64)
torch.manual_seed(11)
exp, clamp, where = torch.exp, torch.clamp, torch.where


def agree(a, b, what, tolerance=1e-11):
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    assert a.shape == b.shape, (what, a.shape, b.shape)
    worst = ((a - b).abs() / b.abs().clamp(min=1)).max().item()
    assert worst <= tolerance, (what, worst)


def numbers(x):
    return [float(v) for v in x.detach().reshape(-1)]


def derivative(value, logp):
    (g,) = torch.autograd.grad(value.sum(), logp, retain_graph=True)
    return g


# ---------------------------------------------------------------- the systems' functions, one loss matrix or row at a time

class recorder:
    """Replaces an aggregation: keeps the loss matrix, returns its masked sum."""

    def __call__(self, loss_mat, loss_mask, *positional, **named):
        self.matrix = loss_mat
        return (loss_mat * loss_mask).sum()


def actor(**settings):
    policy = SimpleNamespace(**settings.pop("policy_loss", {}))
    config = ActorConfig(strategy="fsdp", ppo_micro_batch_size_per_gpu=1, rollout_n=1, **settings)
    object.__setattr__(config, "policy_loss", policy)
    return config


def verl(function, logp, old_logp, advantage, mask=None, weights=None, **settings):
    """Value and slope of every token."""
    leaf = logp.clone().requires_grad_()
    record = core_algos.agg_loss = recorder()
    mask = torch.ones_like(logp) if mask is None else mask
    loss, _ = function(old_logp, leaf, advantage, mask, config=actor(**settings), rollout_is_weights=weights)
    loss.backward()
    return record.matrix.detach().expand_as(logp), leaf.grad


def openrlhf(logp, old_logp, advantage, mask=None, rollout=None, **settings):
    leaf = logp.clone().requires_grad_()
    record = openrlhf_loss.aggregate_loss = recorder()
    loss = openrlhf_loss.PolicyLoss(**settings)(leaf, old_logp, advantage, torch.ones_like(logp) if mask is None else mask,
                                                rollout_log_probs=rollout)[0]
    loss.backward()
    return record.matrix.detach(), leaf.grad


class one_process:
    num_processes, sync_gradients = 1, False
    gather = gather_for_metrics = staticmethod(lambda x: x)
    reduce = staticmethod(lambda x, reduction=None: x)
    pad_across_processes = staticmethod(lambda x, dim=0, pad_index=0: x)


def trl_loss(trainer, loss_type, leaf, old_logp, advantage, mask, level="token", epsilon=(0.2, 0.2), delta=None,
             entropy=None, quantile=1.0, off_policy=None, sampling=None, ratio=None):
    inputs = dict(prompt_ids=torch.zeros(leaf.shape[0], 1), prompt_mask=torch.ones(leaf.shape[0], 1),
                  completion_ids=torch.zeros_like(leaf), completion_mask=mask, advantages=advantage,
                  old_per_token_logps=old_logp, num_items_in_batch=torch.tensor(1.0))
    if sampling is not None:
        inputs["sampling_per_token_logps"] = sampling
    if ratio is not None:
        inputs["importance_sampling_ratio"] = ratio
    entropy = torch.zeros_like(leaf) if entropy is None else entropy
    self = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *a, **k: (leaf, entropy, None), aux_loss_enabled=False,
        top_entropy_quantile=quantile, off_policy_mask_threshold=off_policy, importance_sampling_level=level, beta=0.0,
        loss_type=loss_type, epsilon_low=epsilon[0], epsilon_high=epsilon[1], model=SimpleNamespace(training=False),
        args=SimpleNamespace(delta=delta, sapo_temperature_pos=1.0, sapo_temperature_neg=1.05, vespo_k_pos=2.0,
                             vespo_lambda_pos=3.0, vespo_k_neg=3.0, vespo_lambda_neg=2.0, use_bias_correction_kl=False),
        use_vllm=ratio is not None, vllm_importance_sampling_correction=True, accelerator=one_process(),
        max_completion_length=1, _entropy_bonus_enabled=False, _metrics=defaultdict(lambda: defaultdict(list)),
        current_gradient_accumulation_steps=1)
    self.get_off_policy_mask = GRPOTrainer.get_off_policy_mask
    self.get_gamma_weights = GRPOTrainer.get_gamma_weights
    self.get_high_entropy_mask = types.MethodType(GRPOTrainer.get_high_entropy_mask, self)
    return trainer._compute_loss(self, None, inputs)


def trl_tokens(loss_type, logp, old_logp, advantage, **settings):
    """Value and slope of every token, each a batch of its own."""
    values, slopes = [], []
    for l, o, a in zip(logp.reshape(-1), old_logp.reshape(-1), advantage.reshape(-1)):
        leaf = l.reshape(1, 1).clone().requires_grad_()
        loss = trl_loss(GRPOTrainer, loss_type, leaf, o.reshape(1, 1), a.reshape(1), torch.ones(1, 1), **settings)
        loss.backward()
        values.append(loss.item()), slopes.append(leaf.grad.item())
    return torch.tensor(values).reshape(logp.shape), torch.tensor(slopes).reshape(logp.shape)


def trl_rows(loss_type, rows, trainer=GRPOTrainer, **settings):
    """Loss and gradient of every row, each a batch of its own."""
    out = []
    for k, row in enumerate(rows):
        leaf = row.logp[None].clone().requires_grad_()
        extra = {name: value[k] for name, value in settings.items() if isinstance(value, list)}
        fixed = {name: value for name, value in settings.items() if not isinstance(value, list)}
        loss = trl_loss(trainer, loss_type, leaf, row.old_logp[None], row.advantage.reshape(1),
                        torch.ones_like(leaf), **fixed, **extra)
        loss.backward()
        out.append((loss.item(), leaf.grad[0]))
    return out


def liger(loss_type, logp, old_logp, advantage, **settings):
    leaf = logp.clone().requires_grad_()
    ones = torch.ones_like(logp)
    loss, _ = LigerFusedLinearGRPOFunction.ppo_loss_fn(
        leaf, ones, advantage, ones, old_per_token_logps=old_logp, beta=0.0, loss_type=loss_type,
        num_items_in_batch=torch.tensor(1.0), max_completion_length=1, **settings)
    loss.backward()
    return loss.item(), leaf.grad


def liger_tokens(loss_type, logp, old_logp, advantage, **settings):
    pairs = [liger(loss_type, l.reshape(1, 1), o.reshape(1, 1), a.reshape(1), **settings)
             for l, o, a in zip(logp.reshape(-1), old_logp.reshape(-1), advantage.reshape(-1))]
    return (torch.tensor([p[0] for p in pairs]).reshape(logp.shape),
            torch.tensor([p[1].item() for p in pairs]).reshape(logp.shape))


# ---------------------------------------------------------------- formulas from the papers, for one token

def clipped(l, o, a, low=0.2, high=0.2, bound=math.inf):
    r = exp(l - o)
    return torch.maximum(-a * clamp(r, max=bound), -a * clamp(r, 1 - low, 1 + high))


def sapo(l, o, a, positive=1.0, negative=1.05):
    tau = where(a > 0, positive, negative)
    return -a * torch.sigmoid(tau * (exp(l - o) - 1)) * 4 / tau


def cispo(l, o, a, low, high):
    return -clamp(exp(l - o), low, high).detach() * a * l


def dppo_ratio(l, o, bound):
    return clamp(exp(clamp(l - o, -20, 20)), max=bound)


def dppo_tv(l, o, a, low, high, bound):
    moved = exp(l) - exp(o)
    keep = where(a > 0, moved <= high, moved >= -low)
    return -(dppo_ratio(l, o, bound) * keep).detach() * a * l


def dppo_kl(l, o, a, low, high, bound):
    p, q = exp(l), exp(o)
    kl = q * (o - l) + (1 - q) * torch.log((1 - q + 1e-8) / (1 - p + 1e-8))
    keep = where(a > 0, (kl <= high) | (p <= q), (kl <= low) | (p >= q))
    return -(dppo_ratio(l, o, bound) * keep).detach() * a * l


def limited(f, limit=20.0):
    return lambda l, o, a: f(o + clamp(l - o, -limit, limit), o, a)


class token_set:
    def __init__(self, logp, old_logp, advantage):
        self.logp, self.old_logp, self.advantage = logp, old_logp, advantage
        self.fields = {"logp": numbers(logp), "old_logp": numbers(old_logp), "advantage": numbers(advantage)}
        self.cases = {}

    def add(self, case, formula, *systems, tolerance=1e-11):
        """`systems`: pairs of value and slope; the first is written."""
        leaf = self.logp.clone().requires_grad_()
        own = formula(leaf, self.old_logp, self.advantage)
        own = (own.detach(), derivative(own, leaf))
        for value, slope in systems:
            agree(value, own[0], case + " value", tolerance)
            agree(slope, own[1], case + " slope", tolerance)
        value, slope = systems[0] if systems else own
        self.cases[case] = {"value": numbers(value), "slope": numbers(slope)}

    def json(self):
        return {"fields": self.fields, "cases": self.cases}


def token_cases(s):
    l, o, a = s.logp, s.old_logp, s.advantage
    for name, bound in [("two_sided_4", 4.0), ("two_sided_1_1", 1.1)]:
        s.add(name, lambda l, o, a: clipped(l, o, a, 0.2, 0.28, bound),
              trl_tokens("grpo", l, o, a, epsilon=(0.2, 0.28), delta=bound),
              liger_tokens("grpo", l, o, a, epsilon_low=0.2, epsilon_high=0.28, delta=bound))
    s.add("clipped_limited", limited(clipped), openrlhf(l, o, a))
    s.add("clipped", clipped, trl_tokens("grpo", l, o, a), liger_tokens("grpo", l, o, a))
    s.add("importance_ratio", lambda l, o, a: -a * exp(l - o))
    s.add("policy_gradient", lambda l, o, a: -a * l, verl(core_algos.compute_policy_loss_gpg, l, o, a))
    s.add("sapo", sapo, trl_tokens("sapo", l, o, a), liger_tokens("sapo", l, o, a))
    s.add("sapo_limited", limited(sapo), verl(core_algos.compute_policy_loss_sapo, l, o, a, tau_pos=1.0, tau_neg=1.05))
    s.add("cispo_bound_5", lambda l, o, a: cispo(l, o, a, 0, 5), trl_tokens("cispo", l, o, a, epsilon=(0.2, 5.0)),
          liger_tokens("cispo", l, o, a, epsilon_high=5.0))
    s.add("cispo_bound_0_28", lambda l, o, a: cispo(l, o, a, 0, 0.28),  # what TRL makes of DAPO's number
          trl_tokens("cispo", l, o, a, epsilon=(0.2, 0.28)), liger_tokens("cispo", l, o, a, epsilon_high=0.28))
    s.add("cispo_epsilon_0_28", lambda l, o, a: cispo(l, o, a, 0.8, 1.28),  # what verl makes of the same number
          verl(core_algos.compute_policy_loss_cispo, l, o, a, clip_ratio_low=0.2, clip_ratio_high=0.28))
    s.add("dro_0_3", lambda l, o, a: -(a * l - 0.15 * (l - o) ** 2),
          verl(core_algos.compute_policy_loss_dro, l, o, a, policy_loss=dict(dro_beta=0.3)))
    for name, formula, function in [("dppo_tv", dppo_tv, core_algos.compute_policy_loss_dppo_tv),
                                    ("dppo_kl", dppo_kl, core_algos.compute_policy_loss_dppo_kl)]:
        s.add(name, lambda l, o, a: formula(l, o, a, 0.05, 0.1, 3.0),
              verl(function, l, o, a, clip_ratio_low=0.05, clip_ratio_high=0.1, clip_ratio_c=3.0))


def selection_cases(s, entropy, sampling):
    """Which tokens the systems chose is read off their losses; only what follows from the choice is tested."""
    l, o, a = s.logp, s.old_logp, s.advantage
    out = {}

    def with_selected(case, selected, formula, system):
        one = token_set(l, o, a)
        one.fields["selected"] = numbers(selected)
        one.add(case, lambda l, o, a: formula(l, o, a, selected), system)
        out[case] = one.json()

    cov = dict(policy_loss=dict(clip_cov_ratio=0.1, clip_cov_lb=0.05, clip_cov_ub=5.0))
    value, slope = verl(core_algos.compute_policy_loss_clip_cov, l, o, a, **cov)
    chosen = ((value == 0) & (a != 0)).double()
    assert 3 <= chosen.sum() <= int(0.1 * l.numel())
    with_selected("clip_cov", chosen, lambda l, o, a, s: clipped(l, o, a) * (1 - s), (value, slope))

    value, slope = verl(core_algos.compute_policy_loss_kl_cov, l, o, a,
                        policy_loss=dict(kl_cov_ratio=0.1, ppo_kl_coef=0.7))
    chosen = ((value + a * exp(l - o)).abs() > 1e-9).double()
    assert 3 <= chosen.sum() <= int(0.1 * l.numel())
    with_selected("kl_cov", chosen, lambda l, o, a, s: -a * exp(l - o) + 0.7 * s * (l - o).abs(), (value, slope))

    leaf = l.clone().requires_grad_()
    rows, tokens = l.shape
    row_advantage = a[:, :1].expand_as(a)
    loss = trl_loss(GRPOTrainer, "grpo", leaf, o, row_advantage, torch.ones_like(l), entropy=entropy, quantile=0.4,
                    off_policy=0.1, sampling=sampling)
    loss.backward()
    entropic = entropy >= torch.quantile(entropy.float(), 1 - 0.4)
    on_policy = (row_advantage >= 0) | ((sampling - l).mean(1, keepdim=True) <= 0.1)
    assert not on_policy.all() and on_policy.any()
    one = token_set(l, o, row_advantage)
    one.fields["selected"] = numbers((entropic & on_policy).double())
    value = clipped(l, o, row_advantage) * (entropic & on_policy)
    agree(value.mean(1).mean(), loss.detach(), "trl masks")
    one.cases["masked"] = {"value": numbers(value), "slope": numbers(leaf.grad * rows * tokens)}
    out["masked"] = one.json()
    return out


# ---------------------------------------------------------------- sequences

def sequence_cases(lengths, x_scale, advantages):
    rows = []
    for n, a in zip(lengths, advantages):
        logp = -torch.rand(n) * 3 - 0.05
        rows.append(SimpleNamespace(n=n, logp=logp, old_logp=logp + torch.randn(n) * x_scale, advantage=torch.tensor(a),
                                    weight=torch.rand(n) * 1.5))
    rows[0].old_logp[2] = rows[0].logp[2] - 2.5  # clipped tokens of both kinds, and one beyond 20
    rows[1].old_logp[1] = rows[1].logp[1] + 2.5
    rows[4].old_logp[3] = rows[4].logp[3] + 22.0
    rows[2].weight[1] = 0.0  # a token that was masked out by the correction
    width = max(lengths)

    def padded(name, fill=0.0):
        out = torch.full((len(rows), width), fill)
        for k, row in enumerate(rows):
            out[k, :row.n] = getattr(row, name)
        return out

    logp, old_logp, advantage = padded("logp", -1.0), padded("old_logp", -1.0), padded("advantage")
    mask = torch.zeros_like(logp)
    for k, row in enumerate(rows):
        mask[k, :row.n] = 1
    live = mask.bool()
    cases, gathered = {}, {}

    def gather(name, token, mean):
        g = [(token(row).mean() if mean else token(row).sum()).item() for row in rows]
        gathered[name] = g
        return g

    def add(case, statistic, own, *systems):
        """`own`: row -> loss of the row, differentiable; `systems`: per row (value per token, slope per token)."""
        for system in systems:
            for row, mine, (value, slope) in zip(rows, own, system):
                agree(value, mine[0], case + " value")
                agree(slope, mine[1], case + " slope")
        first = systems[0] if systems else own
        cases[case] = {"gathered": statistic, "value": numbers(torch.cat([v for v, _ in first])),
                       "slope": numbers(torch.cat([s for _, s in first]))}

    def own_rows(loss, repeats):
        """Loss of one row by autograd; the value of each token, the slope times what `repeats` says."""
        out = []
        for row in rows:
            leaf = row.logp.clone().requires_grad_()
            value = loss(leaf, row)
            slope = derivative(value, leaf) * (row.n if repeats else 1)
            out.append(((value.detach() if value.dim() else value.detach().expand(row.n)), slope))
        return out

    def repeated(pairs):  # a row's loss and its gradient -> value and slope of each token under 1 / n
        return [(torch.full((row.n,), loss), g * row.n) for row, (loss, g) in zip(rows, pairs)]

    def split(pair):
        return [(pair[0][k, :row.n], pair[1][k, :row.n]) for k, row in enumerate(rows)]

    def ratio_of(leaf, row):
        return (leaf - row.old_logp).mean()

    gather("mean_log_ratio", lambda r: r.logp - r.old_logp, True)
    own = own_rows(lambda leaf, r: clipped(ratio_of(leaf, r), torch.zeros(()), r.advantage, 0.1, 0.15), True)
    ppo_like = dict(level="sequence", epsilon=(0.1, 0.15))
    liger_rows = [liger("grpo", r.logp[None], r.old_logp[None], r.advantage.reshape(1), epsilon_low=0.1, epsilon_high=0.15,
                        importance_sampling_level="sequence") for r in rows]
    value, slope = openrlhf(logp, old_logp, advantage, mask, policy_loss_type="gspo", clip_eps_low=0.1,
                            clip_eps_high=0.15)
    add("gspo", "mean_log_ratio", own,
        split(verl(core_algos.compute_policy_loss_gspo, logp, old_logp, advantage, mask, clip_ratio_low=0.1,
                   clip_ratio_high=0.15)),
        repeated(trl_rows("grpo", rows, **ppo_like)), repeated([(v, g[0]) for v, g in liger_rows]),
        split((value, slope)))
    luspo = trl_rows("luspo", rows, **ppo_like)  # the row's term times its length: the token form under a token sum
    cases["luspo"] = {"gathered": "mean_log_ratio",
                      "value": numbers(torch.cat([torch.full((r.n,), v / r.n) for r, (v, _) in zip(rows, luspo)])),
                      "slope": numbers(torch.cat([g for _, g in luspo]))}
    own = own_rows(lambda leaf, r: sapo(ratio_of(leaf, r), torch.zeros(()), r.advantage), True)
    add("sapo_sequence", "mean_log_ratio", own, repeated(trl_rows("sapo", rows, level="sequence")))
    own = own_rows(lambda leaf, r: -clamp(exp(ratio_of(leaf, r)), max=1.02).detach() * r.advantage * leaf, False)
    add("cispo_sequence", "mean_log_ratio", own,
        [(o[0], g) for o, (_, g) in zip(own, trl_rows("cispo", rows, level="sequence", epsilon=(0.2, 1.02)))])
    # advantages that differ within the row: GSPO-token
    token_advantage = torch.randn_like(logp)
    own = []
    for k, r in enumerate(rows):
        leaf = r.logp.clone().requires_grad_()
        s = leaf - leaf.detach() + (r.logp - r.old_logp).mean()
        v = clipped(s, torch.zeros(()), token_advantage[k, :r.n], 0.1, 0.15)
        own.append((v.detach(), derivative(v, leaf)))
    add("gspo_token", "mean_log_ratio", own,
        split(verl(core_algos.compute_policy_loss_gspo, logp, old_logp, token_advantage, mask, clip_ratio_low=0.1,
                   clip_ratio_high=0.15)))
    cases["gspo_token"]["advantage"] = numbers(token_advantage[live])

    def log_clipped(leaf, r, low=0.4, high=0.4):
        x = leaf - r.old_logp
        return torch.minimum(x, clamp(x, -low, high)) if r.advantage > 0 else torch.maximum(x, clamp(x, -low, high))

    for case, low, high in [("gmpo", 0.4, 0.4), ("gmpo_narrow", 0.1, 0.3)]:
        gather(case, lambda r: log_clipped(r.logp, r, low, high), True)
        own = own_rows(lambda leaf, r: -r.advantage * exp(log_clipped(leaf, r, low, high).mean()), True)
        function, record = core_algos.compute_policy_loss_geo_mean, []
        for r in rows:  # verl adds 1e-8 to n, which is seen at 1e-8
            leaf = r.logp[None].clone().requires_grad_()
            loss, _ = function(r.old_logp[None], leaf, r.advantage.expand(1, r.n), torch.ones(1, r.n),
                               config=actor(clip_ratio_low=low, clip_ratio_high=high))
            loss.backward()
            record.append((loss.item(), leaf.grad[0]))
        for (v, g), mine in zip(repeated(record), own):
            agree(v, mine[0], "verl gmpo", 1e-7)
            agree(g, mine[1], "verl gmpo", 1e-7)
        add(case, case, own, repeated(trl_rows("grpo", rows, GMPOTrainer, epsilon=(low, high))))

    def phi(log_w, advantage):
        k, lam = (2.0, 3.0) if advantage >= 0 else (3.0, 2.0)
        log_w = min(max(log_w, math.log(1e-8)), 20.0)
        return math.exp(lam + k * log_w - lam * math.exp(log_w))

    def inner(r):
        return clamp(r.logp - r.old_logp, -20, 20)

    def outer(r):
        return clamp(torch.log(r.weight), math.log(1e-8), 20)

    for case, score, extra in [("vespo", inner, {}),
                               ("corrected_vespo", lambda r: inner(r) + outer(r), {"ratio": [r.weight[None] for r in rows]})]:
        sums = gather(case, score, False)
        own = own_rows(lambda leaf, r: -phi(score(r).sum().item(), r.advantage.item()) * r.advantage * leaf, False)
        trl = trl_rows("vespo", rows, **extra)
        for (v, _), (loss, _) in zip(own, trl):
            agree(v.sum(), torch.tensor(loss), case)
        lig = [liger("vespo", r.logp[None], r.old_logp[None], r.advantage.reshape(1),
                     **({"vllm_is_ratio": r.weight[None]} if extra else {})) for r in rows]
        add(case, case, own, [(o[0], g) for o, (_, g) in zip(own, trl)], [(o[0], g[0]) for o, (_, g) in zip(own, lig)])

    return {"lengths": lengths, "gathered": gathered, "cases": cases,
            "fields": {"logp": numbers(logp[live]), "old_logp": numbers(old_logp[live]),
                       "advantage": numbers(advantage[live]), "weight": numbers(padded("weight")[live])}}


def main():
    shape = (4, 12)
    logp = -torch.rand(shape) * 3 - 0.02
    old_logp = -(logp + torch.randn(shape) * 0.5).abs() - 0.01
    advantage = torch.randn(shape)
    advantage[0, :3] = 0
    for t, x in enumerate([0.0, 1.5, -1.5, 2.5, -2.5, 12.0, -12.0, 0.11]):
        logp[1:3, t] = -0.5 + min(x, 0)
        old_logp[1:3, t] = logp[1, t] - x
        advantage[1, t], advantage[2, t] = 1.25, -0.75
    logp[3, 0], old_logp[3, 0] = 0.0, -0.5  # certain tokens
    logp[3, 1], old_logp[3, 1] = -0.5, 0.0
    tokens = token_set(logp, old_logp, advantage)
    token_cases(tokens)
    selected = selection_cases(tokens, torch.rand(shape) * 4, logp + 0.3 * torch.randn(shape) + 0.1)
    weights = torch.rand(shape)
    tokens.fields["weight"] = numbers(weights)
    leaf = logp.clone().requires_grad_()
    record = core_algos.agg_loss = recorder()
    core_algos.compute_policy_loss_reinforce(old_logp, leaf, advantage, torch.ones(shape), config=actor(),
                                             rollout_is_weights=weights)[0].backward()
    tokens.cases["reinforce_weighted"] = {"value": numbers(record.matrix), "slope": numbers(leaf.grad)}

    far_logp = torch.tensor([[-1.0, -30.0, -0.5, -45.0, -1.0, -21.5]])
    far_old = torch.tensor([[-26.0, -2.0, -60.0, -1.0, -20.5, -2.0]])
    beyond = token_set(far_logp, far_old, torch.tensor([[1.0, -1.0, -0.5, 2.0, 1.0, 1.0]]))
    token_cases(beyond)

    sequences = sequence_cases([12, 7, 5, 1, 9], 0.2, [1.5, -0.75, -0.4, 0.6, 0.8])
    out = {"tokens": tokens.json(), "beyond": beyond.json(), "selected": selected, "sequences": sequences}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "surrogate.json")
    with open(path, "w") as f:
        json.dump(out, f)
        f.write("\n")


if __name__ == "__main__":
    main()
