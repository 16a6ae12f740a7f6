"""Advantages and returns in float64, for tests/objective/advantage.

    pip install -r requirements.txt && pip install --no-deps -r systems.txt && python advantage.py

What verl 0.9.1, OpenRLHF 0.11.2 and TRL 1.16.0 compute is computed by their own functions, named below; where TRL has
the arithmetic in the middle of a method, those statements of the installed package are run. The other entries ("own") are
written here from the published definition. JSON has no NaN: null.
"""

import importlib.abc
import importlib.machinery
import inspect
import json
import math
import os
import sys
import textwrap
import types
import unittest.mock

import numpy as np
import torch
import trl.trainer.grpo_trainer as grpo_module
import trl.trainer.rloo_trainer as rloo_module
from trl.experimental.a2po.a2po_trainer import A2POTrainer
from trl.experimental.iw_opd.iw_opd_trainer import IWOPDTrainer
from trl.trainer.utils import nanstd

class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Packages that are imported next to the functions wanted here, and not needed by them."""

    names = ("aiohttp", "deepspeed", "flash_attn", "torchdata", "vllm")

    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        module = unittest.mock.MagicMock(name=spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(Absent())  # only for what is not installed

from verl.trainer.ppo import core_algos as verl  # noqa: E402
from verl.utils import torch_functional as verl_functional  # noqa: E402

torch.manual_seed(20)
f64 = torch.float64
nan = float("nan")


def listed(x):
    if isinstance(x, torch.Tensor):
        x = x.detach().tolist()
    if isinstance(x, list):
        return [listed(v) for v in x]
    if isinstance(x, float):
        return None if math.isnan(x) else float(f"{x:.13g}")
    return x


def drawn(*shape):
    return (torch.randn(*shape, dtype=f64) * 1024).round() / 1024  # exact in float, short in decimal


out = {}

# ---------------------------------------------------------------- tokens: [5, 134], with tool turns and empty rows
B, T = 5, 134
mask = torch.zeros(B, T, dtype=f64)
mask[0, :] = 1
mask[1, :131] = 1
mask[1, 20:29] = 0  # a tool turn
mask[1, 100:128] = 0
mask[2, :70] = 1
mask[2, [0, 63, 64]] = 0
mask[4, 128:129] = 1
rewards, values = drawn(B, T), drawn(B, T)
tokens = {"rows": B, "tokens": T, "rewards": listed(rewards), "values": listed(values),
          "mask": [[int(v) for v in row] for row in mask.tolist()]}

gamma, lam = 0.96875, 0.9375


def verl_raw_gae(g, l):
    """compute_gae_advantage_return with its whitening set aside."""
    keep = verl.verl_F.masked_whiten
    verl.verl_F.masked_whiten = lambda values, mask: values
    try:
        return verl.compute_gae_advantage_return(rewards, values, mask, g, l)
    finally:
        verl.verl_F.masked_whiten = keep


a, r = verl_raw_gae(gamma, lam)
white, _ = verl.compute_gae_advantage_return(rewards, values, mask, gamma, lam)
tokens["verl_gae"] = {"gamma": gamma, "lambda": lam, "advantages": listed(a * mask), "returns": listed(r * mask),
                      "whitened": listed(white * mask)}
tokens["critic"] = {"lambda": 1.0, "returns": listed(verl_raw_gae(gamma, 1.0)[1] * mask)}

a, r = verl.compute_reinforce_plus_plus_outcome_advantage(rewards, mask, types.SimpleNamespace(gamma=gamma))
tokens["verl_reinforce_plus_plus"] = {"advantages": listed(a), "returns": listed(r)}
baseline = drawn(B)
a, r = verl.compute_remax_outcome_advantage(rewards, baseline, mask)
tokens["verl_remax"] = {"baselines": listed(baseline), "advantages": listed(a * mask)}
tokens["verl_whiten"] = listed(verl_functional.masked_whiten(rewards, mask) * mask)
tokens["verl_whiten_keep_mean"] = listed(verl_functional.masked_whiten(rewards, mask, shift_mean=False) * mask)

# own: the running return starts again after every masked token (verl before 0.7)
running, reset = torch.zeros(B, dtype=f64), torch.zeros(B, T, dtype=f64)
for t in reversed(range(T)):
    running = (rewards[:, t] + gamma * running) * mask[:, t]
    reset[:, t] = running
tokens["reset_returns"] = listed(reset)

# own, by autograd: the adjoint of all three turn policies
def gae_of(r, v, turns):
    rows = []
    for i in range(B):
        nv, na = torch.zeros((), dtype=f64), torch.zeros((), dtype=f64)
        row = [None] * T
        for t in reversed(range(T)):
            if mask[i, t]:
                na = r[i, t] + gamma * nv - v[i, t] + gamma * lam * na
                nv = v[i, t]
                row[t] = na
            else:
                row[t] = torch.zeros((), dtype=f64)
                if turns == "reset":
                    nv, na = torch.zeros((), dtype=f64), torch.zeros((), dtype=f64)
                elif turns == "discount":
                    nv, na = torch.zeros((), dtype=f64), gamma * nv + gamma * lam * na
        rows.append(torch.stack(row))
    return torch.stack(rows)


upstream = drawn(B, T)
tokens["upstream"] = listed(upstream)
tokens["turns"] = {}
for turns in ("skip", "discount", "reset"):
    r, v = rewards.clone().requires_grad_(), values.clone().requires_grad_()
    a = gae_of(r, v, turns)
    gr, gv = torch.autograd.grad((a * upstream).sum(), [r, v])
    tokens["turns"][turns] = {"advantages": listed(a), "by_reward": listed(gr), "by_value": listed(gv)}

# ---------------------------------------------------------------- OpenRLHF's experience maker
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker as Maker  # noqa: E402

a, r = Maker.get_advantages_and_returns(None, values, rewards, mask, gamma, lam)
tokens["openrlhf_gae"] = {"advantages": listed(a * mask), "returns": listed(r * mask)}
tokens["openrlhf_returns"] = listed(Maker.get_cumulative_returns(None, rewards, mask, gamma) * mask)

R, L, n = 8, 6, 4
lengths = torch.tensor([6, 4, 5, 2, 3, 6, 1, 4])
prefix = (torch.arange(L) < lengths[:, None]).to(f64)
scores = torch.tensor([1, 0, 0.5, 1, -0.25, 0.75, 0.75, 2], dtype=f64)
old, ref, value = -drawn(R, L).abs(), -drawn(R, L).abs(), drawn(R, L)
openrlhf = {"group": n, "lengths": listed(lengths), "scores": listed(scores), "old_logp": listed(old),
            "ref_logp": listed(ref), "values": listed(value), "coefficient": 0.125, "clip": [-0.625, 0.625], "cases": {}}


def openrlhf_case(estimator, gamma, lambd, no_std_norm=False, clip=(-0.625, 0.625)):
    args = types.SimpleNamespace(
        algo=types.SimpleNamespace(advantage=types.SimpleNamespace(estimator=estimator, gamma=gamma, lambd=lambd,
                                                                   no_std_norm=no_std_norm)),
        rollout=types.SimpleNamespace(n_samples_per_prompt=n), reward=types.SimpleNamespace(clip_range=clip))
    maker = types.SimpleNamespace(strategy=types.SimpleNamespace(args=args), advantage_estimator=estimator,
                                  kl_ctl=types.SimpleNamespace(value=openrlhf["coefficient"]))
    maker.get_advantages_and_returns = lambda *a: Maker.get_advantages_and_returns(maker, *a)
    maker.get_cumulative_returns = lambda *a: Maker.get_cumulative_returns(maker, *a)
    experience = types.SimpleNamespace(index=list(range(R)), rewards=scores.clone(), kl=(old - ref) * prefix,
                                       action_mask=prefix, values=value.clone(), info={})
    import openrlhf.trainer.ppo_utils.experience_maker as module
    module.apply_length_penalties = lambda experiences, args: None
    Maker.compute_advantages_and_returns(maker, [experience])
    return {"gamma": gamma, "lambda": lambd, "advantages": listed(experience.advantages * prefix),
            "returns": listed(experience.returns * prefix)}


for estimator in ("gae", "reinforce", "reinforce_baseline", "rloo", "group_norm", "dr_grpo", "flash_reinforce"):
    g = 0.875 if estimator in ("gae", "reinforce") else 1.0
    openrlhf["cases"][estimator] = openrlhf_case(estimator, g, 0.75)
openrlhf["cases"]["reinforce_centred"] = openrlhf_case("reinforce", 0.875, 1.0, no_std_norm=True)
out["openrlhf"] = openrlhf

# ---------------------------------------------------------------- one reward per row: verl
index = np.array(["a", "b", "a", "c", "b", "a", "d", "b", "a", "d", "e", "e"])
groups = [int("abcde".index(x)) for x in index]
R = len(index)
lengths = torch.tensor([4, 2, 6, 3, 1, 5, 6, 2, 3, 4, 6, 5])
prefix = (torch.arange(6) < lengths[:, None]).to(f64)
reward = torch.tensor([1, 0, 0.25, 0.75, -1, 0.25, 0.1, 2, 0, 0.1, 3, -0.5], dtype=f64)
at_end = torch.zeros(R, 6, dtype=f64)
at_end[torch.arange(R), lengths - 1] = reward
rows = {"groups": groups, "lengths": listed(lengths), "rewards": listed(reward), "cases": {}}


def per_row(result):
    return listed(result[0][:, 0])  # the first token of every row is live


config = types.SimpleNamespace(norm_adv_by_std_in_grpo=True)
rows["cases"]["grpo"] = per_row(verl.compute_grpo_outcome_advantage(at_end.clone(), prefix, index))
rows["cases"]["dr_grpo"] = per_row(
    verl.compute_grpo_outcome_advantage(at_end.clone(), prefix, index, norm_adv_by_std_in_grpo=False))
rows["cases"]["grpo_vectorized"] = per_row(verl.compute_grpo_vectorized_outcome_advantage(at_end.float(), prefix, index))
rows["cases"]["rloo"] = per_row(verl.compute_rloo_outcome_advantage(at_end.clone(), prefix, index))
rows["cases"]["rloo_vectorized"] = per_row(verl.compute_rloo_vectorized_outcome_advantage(at_end.clone(), prefix, index))
rows["cases"]["opo"] = per_row(verl.compute_opo_outcome_advantage(at_end.clone(), prefix, index))
rows["cases"]["gpg"] = per_row(verl.compute_gpg_outcome_advantage(at_end.clone(), prefix, index))
rows["cases"]["reinforce_plus_plus_baseline"] = per_row(
    verl.compute_reinforce_plus_plus_baseline_outcome_advantage(at_end.clone(), prefix, index))
pairs = np.array([{"c": "a"}.get(x, x) for x in index])  # without a group of one, which verl refuses
rows["pairs"] = [int("abcde".index(x)) for x in pairs]
for flag in (True, False):
    rows["cases"]["pass_at_k" if flag else "pass_at_k_plain"] = per_row(
        verl.compute_grpo_passk_outcome_advantage(at_end.clone(), prefix, pairs, config={"norm_adv_by_std_in_grpo": flag}))
second = drawn(R)
weights = [1.0, 0.5]
rows["second"], rows["weights"] = listed(second), weights
rows["cases"]["gdpo"] = per_row(verl.compute_gdpo_outcome_advantage(
    at_end.clone(), prefix, index, config={"gdpo_reward_keys": ["x", "y"], "gdpo_reward_weights": weights},
    non_tensor_batch={"x": reward.numpy(), "y": second.numpy()},
    batch={"prompts": torch.zeros(R, 2), "attention_mask": torch.cat([torch.ones(R, 2), prefix], 1).long()}))

# PF-PPO: the weights that verl hands to the draw
from tensordict import TensorDict  # noqa: E402

pf = {}
for method in ("pow", "max_min", "max_random"):
    seen = {}
    keep = torch.multinomial
    torch.multinomial = lambda w, size, replacement: (seen.update(w=w.clone()), torch.arange(size))[1]
    data = types.SimpleNamespace(batch=TensorDict({"token_level_scores": at_end}, batch_size=[R]), non_tensor_batch={},
                                 meta_info={})
    try:
        verl.compute_pf_ppo_reweight_data(data, method, 2.0)
    finally:
        torch.multinomial = keep
    pf[method] = listed(seen["w"])
rows["pf_ppo"] = pf
out["rows"] = rows

# ---------------------------------------------------------------- optimal token baseline: verl
index = np.array(["a", "b", "a", "a", "c", "b"])
Tb = 9
lengths = torch.tensor([5, 4, 9, 7, 6, 4])
prefix = (torch.arange(Tb) < lengths[:, None]).to(f64)
holes = prefix.clone()
holes[0, 1] = holes[2, 3] = holes[2, 4] = holes[3, 0] = holes[5, 2] = 0
r, lp = drawn(6, Tb), -drawn(6, Tb).abs() - 0.125
sq = torch.exp(2 * lp) + (1 - torch.exp(lp)) ** 2 * 0.25
sq = (sq * 4096).round() / 4096
w = drawn(6, Tb).abs()
otb = {"groups": [int("abc".index(x)) for x in index], "rewards": listed(r), "old_logp": listed(lp),
       "sum_squared_probs": listed(sq), "weight": listed(w), "prefix": listed(prefix), "holes": listed(holes), "cases": {}}
for tail in (True, False):
    for name, weight in (("", None), ("_weighted", w)):
        key = ("zero_tail" if tail else "keep_tail") + name
        otb["cases"]["position_" + key] = listed(verl.compute_optimal_token_baseline_advantage(
            r, prefix, index, lp, sq, weight, handle_zero_tail=tail)[0])
        otb["cases"]["position_holes_" + key] = listed(verl.compute_optimal_token_baseline_advantage(
            r, holes, index, lp, sq, weight, handle_zero_tail=tail)[0])
        otb["cases"]["action_" + key] = listed(verl.compute_multi_turn_optimal_token_baseline_advantage(
            r, holes, index, lp, sq, weight, handle_zero_tail=tail)[0])
out["optimal_token_baseline"] = otb

# ---------------------------------------------------------------- TRL


def statements(function, first, last):
    """The statements of an installed function from the line that begins with `first` to the one with `last`."""
    lines = inspect.getsource(function).splitlines()
    begin = next(k for k, line in enumerate(lines) if line.strip().startswith(first))
    end = next(k for k, line in enumerate(lines) if k >= begin and line.strip().startswith(last))
    return compile(textwrap.dedent("\n".join(lines[begin:end + 1])), "trl", "exec")


per_function = torch.tensor([[1, 0.5], [0, nan], [nan, nan], [0.25, -1], [nan, 2], [1, 0.5], [1, 0.5], [0.5, 0.25],
                             [2, 2], [2, 2], [2, 2], [2, 2]], dtype=f64)
trl_out = {"group": 4, "rewards": listed(per_function), "weights": [1.0, 0.5], "cases": {}}
grpo_code = statements(grpo_module.GRPOTrainer._generate_and_score_completions, "unscorable_mask =",
                       "advantages = torch.nan_to_num")
for scale, how in (("group", "sum_then_normalize"), ("batch", "sum_then_normalize"), ("none", "sum_then_normalize"),
                   ("group", "normalize_then_sum")):
    own = types.SimpleNamespace(multi_objective_aggregation=how, scale_rewards=scale, reward_funcs=[0, 1],
                                reward_weights=torch.tensor(trl_out["weights"], dtype=f64))
    names = {"self": own, "torch": torch, "nanstd": nanstd, "rewards_per_func": per_function.clone(), "device": "cpu",
             "num_generations": 4}
    exec(grpo_code, names)
    trl_out["cases"]["gdpo" if how == "normalize_then_sum" else "scale_" + scale] = listed(names["advantages"])
rloo_code = statements(rloo_module.RLOOTrainer._generate_and_score_completions, "unscorable_mask =",
                       "advantages = torch.nan_to_num")
for name, normalize, clip in (("rloo", False, None), ("rloo_normalized", True, None), ("rloo_clipped", False, [-0.25, 0.875])):
    own = types.SimpleNamespace(reward_clip_range=clip, beta=0.0, normalize_advantages=normalize,
                                reward_weights=torch.tensor(trl_out["weights"], dtype=f64))
    names = {"self": own, "torch": torch, "nanstd": nanstd, "rewards_per_func": per_function.clone(), "device": "cpu",
             "num_generations": 4}
    exec(rloo_code, names)
    trl_out["cases"][name] = listed(names["advantages"])
summed = (per_function * torch.tensor(trl_out["weights"], dtype=f64)).nansum(1)
summed[torch.isnan(per_function).all(1)] = nan
trl_out["summed"] = listed(summed)


a2po = [f for f in vars(A2POTrainer).values() if inspect.isfunction(f) and "v_star = beta1" in inspect.getsource(f)][0]
samples = drawn(3, 4)
names = {"torch": torch, "math": math, "rewards": samples, "beta1": 0.5, "n": 4}
exec(statements(a2po, "v_star = beta1", "v_star = beta1"), names)
trl_out["a2po"] = {"rewards": listed(samples.flatten()), "values": listed(names["v_star"])}


teacher, student = -drawn(4, 9).abs(), -drawn(4, 9).abs()
live = torch.ones(4, 9, dtype=f64)
live[0, 6:] = live[1, 2:4] = live[3, :] = 0
labels = torch.where(live > 0, 1, -100)
own = types.SimpleNamespace(iw_opd_gamma=0.5, iw_opd_epsilon=1e-8)
names = {"self": own, "torch": torch, "teacher_actual_logprobs": teacher, "rollout_logprobs": student, "valid_mask": live > 0}
exec(statements(IWOPDTrainer._compute_iw_opd_loss, "safe_teacher_logprobs =", "advantages = weights"), names)
distilled = {"teacher": listed(teacher), "student": listed(student), "mask": listed(live), "limit": 1.0,
             "iw_opd": listed(names["advantages"])}


# own: MiniLLM's length-normalised reward to go, as published (gamma^(s-t), live tokens only) and as in TRL before 1.16
def minillm(g, normalise, masked_weight, absolute):
    r = torch.where(live > 0, teacher - student, 0.0)
    weight = torch.where(live > 0, 1.0, masked_weight).to(f64)
    a = torch.zeros_like(r)
    for t in range(r.shape[1]):
        p = g ** torch.arange(r.shape[1] - t, dtype=f64)
        a[:, t] = (p * r[:, t:]).sum(1) * (g ** t if absolute else 1)
        if normalise:
            a[:, t] /= (p * weight[:, t:]).sum(1) * (g ** t if absolute else 1)
    return listed(torch.where(live > 0, a, 0.0))


distilled["minillm"] = minillm(0.875, True, 0.0, False)
distilled["minillm_sum"] = minillm(0.875, False, 0.0, False)
distilled["trl_minillm"] = minillm(0.875, True, 1e-4, True)
distilled["trl_minillm_sum"] = minillm(0.875, False, 1e-4, True)
distilled["limited"] = listed(torch.clamp(teacher - student, -1, 1) * live)
out["distilled"] = distilled


# own: TRL's PPO (before 1.16): the value after the last token takes part, rewards are scaled, advantages are not of the
# same slots as the recursion
B2, T2 = 3, 7
last = torch.tensor([4, 6, 1])
position = torch.arange(T2)
pad, pad1 = position > last[:, None], position > last[:, None] + 1
score, v2, kl = drawn(B2), drawn(B2, T2) * ~pad1, drawn(B2, T2) * ~pad
reward2 = -0.0625 * kl
where = torch.where(last + 1 < T2, last + 1, last)
reward2[torch.arange(B2), where] += score


def whitened(x, m, keep_mean):
    chosen = x[m]
    y = (x - chosen.mean()) / torch.sqrt(chosen.var() + 1e-8)
    return torch.where(m, y + (chosen.mean() if keep_mean else 0), 0.0)


scaled = whitened(reward2, ~pad1, True)
a2, nv, na = torch.zeros(B2, T2, dtype=f64), 0.0, 0.0
for t in reversed(range(T2)):
    na = scaled[:, t] + nv - v2[:, t] + 0.95 * na
    nv = v2[:, t]
    a2[:, t] = na
trl_out["ppo"] = {"rewards": listed(reward2), "values": listed(v2), "with_next": listed((~pad1).to(f64)),
                  "mask": listed((~pad).to(f64)), "whitened_rewards": listed(scaled),
                  "returns": listed(torch.where(~pad1, a2 + v2, 0.0)), "advantages": listed(whitened(a2, ~pad, False))}
out["trl"] = trl_out

# ---------------------------------------------------------------- recipes: SPO and PRIME, from their papers
r, before = torch.tensor([1, 0, 1, 1, 0], dtype=f64), torch.tensor([0.25, 0.5, 0.875, 0.5, 0.125], dtype=f64)
x = r - before
out["spo"] = {"rewards": listed(r), "baselines": listed(before), "advantages": listed((x - x.mean()) / (x.std() + 1e-8))}

R, L, n = 6, 7, 3
lengths = torch.tensor([7, 3, 5, 1, 6, 4])
m = torch.arange(L) < lengths[:, None]
process, acc = drawn(R, L), torch.tensor([1, 0, 0, 1, 1, 1], dtype=f64)
total = torch.zeros(R, L, dtype=f64)
for g in range(0, R, n):
    means = [process[i][m[i]].mean() for i in range(g, g + n)]
    for i in range(g, g + n):
        total[i] += 5 * torch.where(m[i], process[i] * n / (n - 1) - sum(means) / (n - 1), 0.0)
        total[i, lengths[i] - 1] += 3 * (acc[i] - (acc[g:g + n].sum() - acc[i]) / (n - 1))
returns = total.flip(1).cumsum(1).flip(1) * m
chosen = returns[m]
out["prime"] = {"group": n, "process": listed(process), "outcomes": listed(acc), "mask": listed(m.to(f64)),
                "returns": listed(returns),
                "advantages": listed(torch.where(m, (returns - chosen.mean()) / torch.sqrt(chosen.var() + 1e-8), 0.0))}
q = (drawn(R) * 4).requires_grad_()
beta = 0.25
loss = {}


def keep_loss(name, value):
    (slope,) = torch.autograd.grad(value, [q])
    loss[name] = {"value": value.item(), "slope": listed(slope)}


keep_loss("cross_entropy", torch.nn.functional.binary_cross_entropy_with_logits(beta * q, acc))
for mode in ("none", "score", "outcome"):
    terms = []
    for i in range(R):
        g = slice(i // n * n, i // n * n + n)
        other = q[g][acc[g] < acc[i]] if acc[i] > 0 else q[g][acc[g] > acc[i]]
        middle = beta * other.mean().detach() if len(other) else 0.0
        term = -torch.nn.functional.logsigmoid((beta * q[i] - middle) * (1 if acc[i] > 0 else -1))
        if mode != "none":
            x = q.detach() if mode == "score" else acc
            term = term * n * (x[g] <= x[i]).to(f64).mean() ** (n - 1)
        terms.append(term)
    keep_loss("comparison_" + mode, torch.stack(terms).mean() if mode == "none" else torch.stack(terms).sum())
out["prime"]["losses"] = {"beta": beta, "scores": listed(q.detach()), **loss}

out["tokens"] = tokens
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "advantage.json")
with open(path, "w") as f:
    json.dump(out, f, separators=(",", ":"))
print(os.path.getsize(path))
