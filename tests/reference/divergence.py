"""KL estimators, value losses, controllers, shaped rewards and group filters as verl, OpenRLHF and TRL compute them, for
tests/objective/{piece/divergence,piece/value,controller,reward,filter} and tests/verify.

    pip install -r requirements.txt && pip install --no-deps -r systems.txt && python divergence.py

Where a system has a function, that function is called (the list at the end of the file says which); everything else is an
independent formula under autograd. All in float64: where a function asks for float32 it is given float64 instead. The
bounds of clamps are left out of the inputs, since torch.clamp has changed its mind about the gradient there.
"""

import importlib.abc
import importlib.machinery
import json
import os
import re
import sys
import types
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn

f64 = torch.float64
torch.manual_seed(11)


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Packages for GPUs and clusters that the imports ask for and the functions below do not use."""

    def __init__(self, *roots):
        self.roots = roots

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in self.roots:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        class Module(types.ModuleType):
            __path__ = []
            __version__ = "0"

            def __getattr__(self, attribute):
                if attribute.startswith("__"):
                    raise AttributeError(attribute)
                return type(attribute, (), {})

        return Module(spec.name)

    def exec_module(self, module):
        pass


import trl.rewards.accuracy_rewards as trl_accuracy  # noqa: E402
from trl.rewards import get_cosine_scaled_reward, get_repetition_penalty_reward, get_soft_overlong_punishment  # noqa: E402
from trl.rewards import think_format_reward  # noqa: E402
from trl.trainer.callbacks import BEMACallback, SyncRefModelCallback  # noqa: E402
from trl.trainer.grpo_trainer import GRPOTrainer  # noqa: E402
from verl import DataProto  # noqa: E402
from verl.trainer.ppo import core_algos as verl_algos  # noqa: E402
from verl.workers.reward_manager.dapo import DAPORewardManager  # noqa: E402

sys.meta_path.append(Absent("bitsandbytes", "cachetools", "deepspeed", "fastapi", "flash_attn", "ring_flash_attn",
                            "torchdata", "transfer_queue", "uvicorn", "vllm"))
from openrlhf.models import utils as openrlhf_utils  # noqa: E402
from openrlhf.models.loss import ValueLoss  # noqa: E402
from openrlhf.trainer.ppo_utils import kl_controller as openrlhf_control  # noqa: E402
from openrlhf.trainer.ppo_utils import length_penalty as openrlhf_length  # noqa: E402
from verl.trainer.ppo.ray_trainer import apply_kl_penalty  # noqa: E402

v1 = types.ModuleType("verl.trainer.ppo.v1")  # the package itself would import its agents
v1.__path__ = [os.path.join(os.path.dirname(verl_algos.__file__), "v1")]
sys.modules[v1.__name__] = v1
from verl.trainer.ppo.v1 import replay_buffer as verl_replay  # noqa: E402

torch.Tensor.float = lambda self: self.double()


def rounded(x):
    return x.to(torch.float32).to(f64)


def numbers(x):
    return [float(v) for v in x.detach().flatten().tolist()]


def case(f, x):
    x = x.clone().requires_grad_()
    value = f(x)
    (slope,) = torch.autograd.grad(value.sum(), [x])
    return {"value": numbers(value), "slope": numbers(slope)}


# Divergences. wide: every clamp is exceeded on both sides. narrow: where sums of e^-d keep their digits.
def tokens(n, spread, edges):
    logp = rounded(-torch.rand(n, dtype=f64) * 3 - 0.05)
    ref_logp = rounded(logp + torch.randn(n, dtype=f64) * spread)
    old_logp = rounded(logp + torch.randn(n, dtype=f64) * 0.7)
    for k, (x, d) in enumerate(edges):
        logp[k] = -1.0
        old_logp[k], ref_logp[k] = -1.0 - x, -1.0 - d
    return logp, old_logp, ref_logp


def verl_kl(name, ref):
    return lambda l: verl_algos.kl_penalty(l, ref, name)


def openrlhf_kl(name, ref, old=None, unbiased=False):
    return lambda l: openrlhf_utils.compute_approx_kl(l, ref, old, name, unbiased)


def k(name, l, ref):
    d = l - ref
    return {"k1": d, "abs": d.abs(), "k2": d * d / 2, "k3": torch.exp(-d) - 1 + d}[name]


out = {}
edges = [(0, 0), (25, 3), (-25, -12), (2, 2.5), (-2, -2.75), (3, 0.25), (-4, -11.5), (1.25, -0.001953125), (0.5, 60),
         (-0.5, -60), (1, 19.5), (1, -19.5), (2.25, 4.5), (2.375, -4.5), (0, 10.5), (0, -10.5), (4, -2.25)]
logp, old_logp, ref_logp = tokens(48, 2.0, edges)
cases = {"k3_formula": case(lambda l: k("k3", l, ref_logp), logp)}
for name in ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3"):
    for plus in ("", "+"):
        cases["verl_" + name + plus] = case(verl_kl(name + plus, ref_logp), logp)
for name in ("k1", "k2", "k3"):
    cases["openrlhf_" + name] = case(openrlhf_kl(name, ref_logp), logp)
    cases["openrlhf_unbiased_" + name] = case(openrlhf_kl(name, ref_logp, old_logp, True), logp)
    cases["openrlhf_unbiased_on_policy_" + name] = case(openrlhf_kl(name, ref_logp, None, True), logp)
out["wide"] = {"fields": {"logp": numbers(logp), "old_logp": numbers(old_logp), "ref_logp": numbers(ref_logp)},
               "cases": cases}

logp, old_logp, ref_logp = tokens(48, 0.8, [(0, 0), (1.5, 2.5), (-1.5, -2.5), (0, 1e-3), (0.25, -1e-3), (3, 0), (-3, 1)])
cases = {}
for name in ("k1", "abs", "k2", "k3"):
    cases["corrected_" + name] = case(lambda l: torch.exp(l - old_logp) * k(name, l, ref_logp), logp)
out["narrow"] = {"fields": {"logp": numbers(logp), "old_logp": numbers(old_logp), "ref_logp": numbers(ref_logp)},
                 "cases": cases}


# TRL's loss with all advantages 0: what is left is beta times the KL, aggregated, and the entropy bonus.
class Accelerator:
    sync_gradients, num_processes = True, 1

    def gather(self, x):
        return x.reshape(-1)

    gather_for_metrics = gather

    def reduce(self, x, reduction):
        return x


def trl_self(per_token, entropies, beta, level, corrected, **entropy):
    args = dict(use_bias_correction_kl=corrected, delta=None, entropy_target=0.2, entropy_coef_delta=0.005,
                entropy_coef_min=0.0, entropy_coef_max=1.0)
    args.update(entropy)
    return SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *a, **kw: (per_token, entropies(), None),
        aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None, beta=beta, loss_type="grpo",
        importance_sampling_level=level, epsilon_low=0.2, epsilon_high=0.2, use_vllm=False, args=SimpleNamespace(**args),
        vllm_importance_sampling_correction=False, model=SimpleNamespace(training=True), accelerator=Accelerator(),
        current_gradient_accumulation_steps=1, _metrics={"train": defaultdict(list)},
        _entropy_bonus_enabled=bool(entropy), use_adaptive_entropy=bool(entropy), entropy_coef=0.0,
        _last_world_entropy=float("inf"), _entropy_window_stats=None)


# The KL in the reward, all tokens live: verl's apply_kl_penalty, OpenRLHF's compute_reward.
old = rounded(-torch.rand(2, 6, dtype=f64) * 3 - 0.05)
ref = rounded(old + torch.randn(2, 6, dtype=f64))
old[0, 2], ref[0, 2] = -14.0, -0.5
scores = torch.tensor([1.25, -0.5], dtype=f64)
at_end = torch.zeros(2, 6, dtype=f64)
at_end[:, -1] = scores
out["in_reward"] = {"old_logp": numbers(old), "ref_logp": numbers(ref), "score": numbers(scores)}
for name in ("kl", "abs", "mse", "low_var_kl"):
    data = DataProto.from_dict(tensors={"response_mask": torch.ones(2, 6, dtype=f64), "token_level_scores": at_end,
                                        "old_log_probs": old, "ref_log_prob": ref})
    shaped, metrics = apply_kl_penalty(data, verl_algos.FixedKLController(0.125), kl_penalty=name)
    out["in_reward"]["verl_" + name] = {"reward": numbers(shaped.batch["token_level_rewards"]),
                                        "kl": float(metrics["actor/reward_kl_penalty"])}
for name in ("k1", "k2", "k3"):
    kl = openrlhf_utils.compute_approx_kl(old, ref, kl_estimator=name)
    shaped = openrlhf_utils.compute_reward(scores, 0.125, kl, torch.ones(2, 6), (-1.0, 1.0))
    out["in_reward"]["openrlhf_" + name] = {"reward": numbers(shaped)}

B, T = 4, 7
mask = torch.ones(B, T, dtype=f64)
for i, n in enumerate([7, 4, 1, 6]):
    mask[i, n:] = 0
logp, old_logp, ref_logp = (x.reshape(B, T) for x in tokens(B * T, 0.8, []))
inputs = {"prompt_ids": torch.zeros(B, 1), "prompt_mask": torch.ones(B, 1), "completion_ids": torch.zeros(B, T),
          "completion_mask": mask, "advantages": torch.zeros(B, dtype=f64), "old_per_token_logps": old_logp,
          "ref_per_token_logps": ref_logp}
trl = {"logp": numbers(logp), "old_logp": numbers(old_logp), "ref_logp": numbers(ref_logp),
       "lengths": [7, 4, 1, 6], "rows": B, "tokens": T}
for name, level, corrected in (("k3", "token", False), ("token", "token", True), ("sequence", "sequence", True)):
    l = logp.clone().requires_grad_()
    loss = GRPOTrainer._compute_loss(trl_self(l, lambda: torch.zeros(B, T, dtype=f64), 1.0, level, corrected), None, inputs)
    (gradient,) = torch.autograd.grad(loss, [l])
    trl[name] = {"loss": loss.item(), "gradient": numbers(gradient)}
out["trl_kl"] = trl

# Its entropy controller over a few steps: the coefficient after each, and the one that was applied in it.
series = [0.1, 0.15, 0.2, 0.35, 0.19, 0.05, 0.5, 0.6, 0.7, 0.1, 0.1, 0.1, 0.1]
me = trl_self(logp, None, 0.0, "token", False, entropy_coef_delta=0.015625, entropy_coef_max=0.03125)
control = {"delta": 0.015625, "highest": 0.03125, "entropy": series, "coefficient": [], "applied": []}
for h in series:
    height = torch.full((B, T), h, dtype=f64).requires_grad_()
    me._get_per_token_logps_and_entropies = lambda *a, **kw: (logp, height, None)
    loss = GRPOTrainer._compute_loss(me, None, inputs)
    (gradient,) = torch.autograd.grad(loss, [height]) if loss.requires_grad else (torch.zeros(B, T),)
    control["coefficient"].append(me.entropy_coef)
    control["applied"].append(-gradient.sum().item())
out["trl_entropy"] = control

# Value losses.
value = rounded(torch.randn(40, dtype=f64))
old_value = rounded(value + torch.randn(40, dtype=f64) * 0.6)
target = rounded(value + torch.randn(40, dtype=f64))
for i, (v, o, r) in enumerate([(0, 0, 0), (1, 0, 0.75), (1, 0, 0.25), (1, 0, 2), (-1, 0, 1), (0.25, 0, 5), (2, 2, -1),
                               (1, 0, 0.5), (3, 1, 2.25)]):  # (1, 0, 0.75) is a tie at range 0.5, (3, 1, 2.25) too
    value[i], old_value[i], target[i] = v, o, r


def one_by_one(f):
    return lambda v: torch.stack([f(v[i].reshape(1, 1), i) for i in range(len(v))])


def verl_value(clip):
    return one_by_one(lambda v, i: verl_algos.compute_value_loss(
        v, target[i].reshape(1, 1), old_value[i].reshape(1, 1), torch.ones(1, 1, dtype=f64), clip)[0])


def openrlhf_value(clip):
    loss = ValueLoss(clip)
    return one_by_one(lambda v, i: loss(v, old_value[i].reshape(1, 1), target[i].reshape(1, 1),
                                        torch.ones(1, 1, dtype=f64)))


out["value"] = {
    "fields": {"value": numbers(value), "old_value": numbers(old_value), "target": numbers(target)},
    "cases": {"verl_0.5": case(verl_value(0.5), value), "verl_0.2": case(verl_value(0.2), value),
              "openrlhf_0.5": case(openrlhf_value(0.5), value), "openrlhf_plain": case(openrlhf_value(None), value),
              "huber_0.7": case(lambda v: torch.nn.functional.huber_loss(v, target, reduction="none", delta=0.7), value)},
    "clipfrac_0.5": verl_algos.compute_value_loss(value[None], target[None], old_value[None],
                                                  torch.ones(1, 40, dtype=f64), 0.5)[1].item(),
}

# KL controllers.
kls = [0.05, 0.09, 0.1, 0.105, 0.13, 1.0, 0.0, 0.11]
steps = [64, 1024, 256, 10000, 8192, 512, 4096, 1]
for name, controller in (("verl", verl_algos.AdaptiveKLController(0.001, 0.1, 10000)),
                         ("openrlhf", openrlhf_control.AdaptiveKLController(0.01, 0.1, 10000))):
    values = []
    for kl, n in zip(kls, steps, strict=True):
        controller.update(kl, n)
        values.append(float(controller.value))
    out[name + "_adaptive_kl"] = {"start": 0.001 if name == "verl" else 0.01, "kl": kls, "rows": steps, "coefficient": values}
runaway = verl_algos.AdaptiveKLController(0.001, 0.1, 1000)
runaway.update(0.0, 6000)
out["verl_adaptive_kl_negative"] = float(runaway.value)


# Reference movement.
class Tiny(nn.Module):
    def __init__(self, config=None):
        super().__init__()
        self.config = config
        self.w = nn.Parameter(torch.zeros(5, dtype=f64))


policy, reference = Tiny(), Tiny()
policy.w.data = rounded(torch.randn(5, dtype=f64))
reference.w.data = rounded(torch.randn(5, dtype=f64))
movement = {"policy": numbers(policy.w), "reference": numbers(reference.w), "ema": []}
for _ in range(3):
    SyncRefModelCallback._sync_target_model(policy, reference, 0.6)
    movement["ema"].append(numbers(reference.w))
bema = BEMACallback(update_freq=4, update_after=2)
student = Tiny()
student.w.data = rounded(torch.randn(5, dtype=f64))
bema.on_train_begin(None, None, None, student)
bema.running_model.double()
bema.theta0_params, bema.ema_params = [x.double() for x in bema.theta0_params], [x.double() for x in bema.ema_params]
movement["bema_steps"] = []
for step in range(1, 15):
    student.w.data = rounded(student.w.data + torch.randn(5, dtype=f64) * 0.1)
    bema.on_step_end(None, SimpleNamespace(global_step=step), None, student)
    movement["bema_steps"].append({"step": step, "policy": numbers(student.w), "average": numbers(bema.ema_params[0]),
                                   "reference": numbers(bema.running_model.w)})
out["movement"] = movement

# Rewards by length. verl: max 100, zone 20, factor 1.5, not capped; OpenRLHF the same, capped; TRL factor 1.
lengths = [1, 79, 80, 81, 90, 99, 100, 101, 110, 150]


def verl_overlong(length):
    data = DataProto.from_dict(
        tensors={"prompts": torch.zeros(1, 1, dtype=torch.long), "responses": torch.zeros(1, 160, dtype=torch.long),
                 "attention_mask": torch.tensor([[1] + [1] * length + [0] * (160 - length)])},
        non_tensors={"reward_model": np.array([{"ground_truth": ""}], dtype=object),
                     "data_source": np.array(["x"], dtype=object), "extra_info": np.array([{}], dtype=object)})
    manager = DAPORewardManager(
        SimpleNamespace(decode=lambda ids, skip_special_tokens=True: "", eos_token="</s>"), 0,
        compute_score=lambda **kw: 0.25, max_resp_len=100,
        overlong_buffer_cfg=SimpleNamespace(enable=True, len=20, penalty_factor=1.5, log=False))
    return manager(data).sum().item()


def openrlhf_batch(truncated=None):
    return [SimpleNamespace(rewards=torch.full((len(lengths),), 0.25, dtype=f64), response_length=torch.tensor(lengths),
                            truncated=truncated, info={})]


batch = openrlhf_batch()
openrlhf_length.apply_overlong_penalty(batch, 100, 20, 1.5)
out["overlong"] = {
    "length": lengths, "verl": [verl_overlong(n) for n in lengths], "openrlhf": numbers(batch[0].rewards),
    "trl": get_soft_overlong_punishment(100, 20)([[1] * n for n in lengths]),
    "trl_no_buffer": get_soft_overlong_punishment(100, 0)([[1] * n for n in lengths])}
flags = [0, 1, 0, 1, 1, 0, 1, 0, 0, 1]
out["stop_properly"] = {"reward": [0.5, 0.5, -1.0, -1.0, 2.0, 0.0, 0.0, 1.0, 3.0, 3.0], "truncated": flags}
for name, coefficient in (("scale", 0.3), ("replace", -0.5)):
    batch = openrlhf_batch(torch.tensor(flags))
    batch[0].rewards = torch.tensor(out["stop_properly"]["reward"], dtype=f64)
    openrlhf_length.apply_stop_properly_penalty(batch, coefficient)
    out["stop_properly"][name] = numbers(batch[0].rewards)
trl_accuracy.accuracy_reward = lambda completions, solution: solution  # the verdict is given
cosine = get_cosine_scaled_reward(max_len=100)
out["cosine"] = {"length": lengths, "right": cosine([], [1.0] * len(lengths), [[1] * n for n in lengths]),
                 "wrong": cosine([], [0.0] * len(lengths), [[1] * n for n in lengths])}
ids = [[], [1], [1, 2, 3], [1, 2, 3, 4], [5] * 5, [1, 2, 1, 2, 1, 2, 1], [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [7] * 40,
       [1, 2, 3] * 6]
out["repetition"] = {"ids": ids, "n1": get_repetition_penalty_reward(1, -1.0)(ids),
                     "n2": get_repetition_penalty_reward(2, -0.5)(ids), "n3": get_repetition_penalty_reward()(ids)}

# Formats.
texts = ["<think>a</think>b", "<think>\na\n</think>\nb", "<think>a", "a<think>b</think>", "<think></think>", "",
         "<think>a</think><think>b</think>", "<think>a<think>b</think>", "</think><think>a", "<think>a</think></think>",
         " <think>a</think>", "<think>a</think><answer>b</answer>", "<think>a</think>\n<answer>b</answer>\n",
         "<think>a</think> x <answer>b</answer>", "<answer>b</answer><think>a</think>",
         "<think>a</think><answer>b</answer> x", "<think>a<answer>b</answer></think>",
         "<think>a</think><answer>b", "<think>a</think><answer>b</answer><answer>c</answer>", "<think>a</think><answer></answer>"]
piece = r"((?!</?think>|</?answer>).)*"
tagged = re.compile(rf"\s*<think>{piece}</think>\s*<answer>{piece}</answer>\s*", re.DOTALL)
out["format"] = {"text": texts, "trl_think": think_format_reward([[{"content": t}] for t in texts]),
                 "tagged": [tagged.fullmatch(t) is not None for t in texts]}

# Group filters.
groups = [[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0], [0.1] * 3, [0.1] * 4, [0.1] * 7, [0.7] * 9, [0.3] * 12, [0.85] * 24,
          [0.1, 0.1, 0.1000000001], [0.5] * 4, [1.0], [-1, -1, 1], [0.9] * 17, [0.6] * 130, [0.2] * 300, [-0.5, -0.25]]


def verl_keeps(values):
    """ReplayBuffer._dapo_filtered_keys of one finished group."""
    keys = [f"u_{i}" for i in range(len(values))]
    me = SimpleNamespace(
        filter_groups_metric=verl_replay.FILTER_GROUPS_REWARD_METRIC, finished_keys={"train": {"u"}},
        _dapo_classification_cache={"train": {}}, partitions={"train": keys})
    verl_replay.tq = SimpleNamespace(kv_batch_get=lambda **kw: {"rm_scores": torch.tensor(values, dtype=f64).unsqueeze(1)})
    return not verl_replay.ReplayBuffer._dapo_filtered_keys(me, "train")[0]


out["filter"] = {"groups": groups, "verl": [verl_keeps(g) for g in groups],
                 "std64": [float(np.std(g)) for g in groups],
                 "std32": [float(np.std(np.array(g, dtype=np.float32))) for g in groups],
                 "openrlhf": [0 < sum(g) / len(g) < 1 for g in groups]}

# The priority of TRL's GRPO with replay buffer (its snapshot of July 2026; no longer in 1.16.0), by its formula.
rewards = torch.tensor([[1, 0, 0.5, 0], [0.25, 1, 1, 1]], dtype=f64)
advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
out["replay"] = {"reward": rewards.tolist(), "advantage": advantages.tolist(),
                 "priority": numbers((advantages.abs() * rewards.std(1, keepdim=True)).sum(1))}

# What was called: verl 0.9.1 core_algos.{kl_penalty, compute_value_loss, AdaptiveKLController}, DAPORewardManager,
# ray_trainer.apply_kl_penalty,
# trainer.ppo.v1 ReplayBuffer._dapo_filtered_keys; OpenRLHF 0.11.2 models.utils.{compute_approx_kl, compute_reward},
# models.loss.ValueLoss, ppo_utils.{kl_controller.AdaptiveKLController, length_penalty.apply_*}; TRL 1.16.0 GRPOTrainer._compute_loss,
# SyncRefModelCallback, BEMACallback, rewards.{soft overlong, repetition, cosine, think_format}.
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "divergence.json")
with open(path, "w") as f:
    json.dump(out, f, separators=(",", ":"))
print(os.path.getsize(path))
