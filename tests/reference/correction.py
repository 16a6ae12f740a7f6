"""Rollout corrections and selections, by the systems' own functions in float64, for tests/objective/{correction,selection}.

    pip install -r requirements.txt && pip install --no-deps -r systems.txt && python correction.py

verl 0.9.1: trainer.ppo.rollout_corr_helper (weights, rejection masks, metrics) and trainer.ppo.core_algos (bypass_mode,
clip_cov, kl_cov). trl 1.16: GRPOTrainer.get_off_policy_mask, get_high_entropy_mask, and the part of
_generate_and_score_completions that makes the importance ratio, run from the installed source. openrlhf 0.11.2:
models.loss.PolicyLoss. What no installed function gives (geometric and turn weights, replay scores) is written here
from its definition.
"""

import importlib.machinery
import inspect
import json
import math
import os
import sys
import textwrap
import types
from unittest import mock

import torch

from trl import GRPOTrainer  # before flash_attn seems to be there

for name in ("flash_attn", "flash_attn.bert_padding", "flash_attn.utils", "flash_attn.utils.distributed", "deepspeed",
             "deepspeed.utils"):
    sys.modules.setdefault(name, mock.MagicMock(__spec__=importlib.machinery.ModuleSpec(name, None)))

from openrlhf.models.loss import PolicyLoss  # noqa: E402
from verl.trainer.config.algorithm import RolloutCorrectionConfig  # noqa: E402
from verl.trainer.ppo import core_algos, rollout_corr_helper  # noqa: E402
from verl.workers.config import FSDPActorConfig  # noqa: E402

torch.manual_seed(23)
torch.set_default_dtype(torch.float64)
B, T = 6, 12


def rounded(x):
    return x.to(torch.float32).to(torch.float64)


old = rounded(-torch.rand(B, T) * 2.5 - 0.05)
rollout = rounded(old - torch.randn(B, T) * torch.tensor([0.02, 0.1, 0.4, 0.8, 1.5, 0.05])[:, None])
logp = rounded(old + torch.randn(B, T) * 0.25)
rollout = rollout.clamp(max=-0.01)
advantage = rounded(torch.tensor([1.5, -0.75, 0.5, 2.25, -1.25, -0.5]))
entropy = rounded(torch.rand(B, T) * 3)
mask = torch.zeros(B, T)
for i, n in enumerate([12, 7, 5, 12, 9, 1]):
    mask[i, :n] = 1
mask[0, [3, 4, 8]] = 0  # answers of tools
mask[4, 0] = 0
rollout[3, 2] = -30.0  # beyond the limit of 20
rollout[4, 5] = -24.5

N = mask.sum()


def numbers(x):
    return [[v.item() for v in row] for row in x]


def config(correction=None, **policy):
    c = FSDPActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1)
    loss = types.SimpleNamespace(**policy)
    loss.get = lambda key, default=None: correction if key == "rollout_correction" else default
    return types.SimpleNamespace(clip_ratio=c.clip_ratio, clip_ratio_low=0.2, clip_ratio_high=0.2, clip_ratio_c=3.0,
                                 policy_loss=loss, global_batch_info={}, get=lambda key, default=None: default)


cases = {}

# ---- verl: weights -----------------------------------------------------------------------------------------------
verl_weights = {}
for name, level, threshold, normalize in [
    ("token_tis", "token", 2.0, False),
    ("token_tis_normalized", "token", 2.0, True),
    ("token_icepop", "token", "0.5_5.0", False),
    ("sequence_tis", "sequence", 2.0, False),
    ("sequence_tis_normalized", "sequence", 2.0, True),
    ("sequence_icepop", "sequence", "0.5_5.0", False),
]:
    w, metrics = rollout_corr_helper.compute_rollout_correction_weights(
        old - rollout, mask, rollout_is=level, rollout_is_threshold=threshold, rollout_is_batch_normalize=normalize)
    verl_weights[name] = {"weight": numbers(w), "metrics": metrics}
cases["verl_weights"] = verl_weights

# ---- verl: rejection ---------------------------------------------------------------------------------------------
verl_rejections = {}
for name, option, threshold in [
    ("token_k1", "token_k1", "0.6_1.5"),
    ("token_k2", "token_k2", 0.1),
    ("token_k3", "token_k3", 0.1),
    ("sequence_sum_k1", "seq_sum_k1", "0.5_3.0"),
    ("sequence_sum_k2", "seq_sum_k2", 1.0),
    ("sequence_sum_k3", "seq_sum_k3", 1.0),
    ("sequence_mean_k1", "seq_mean_k1", "0.5_1.04"),
    ("sequence_mean_k2", "seq_mean_k2", 0.05),
    ("sequence_mean_k3", "seq_mean_k3", 0.05),
    ("sequence_max_k2", "seq_max_k2", 0.5),
    ("sequence_max_k3", "seq_max_k3", 0.5),
    ("two", "token_k3,seq_mean_k1", "0.1,0.5_1.1"),
]:
    kept, metrics = rollout_corr_helper.compute_rollout_rejection_mask(old - rollout, mask, option, threshold)
    verl_rejections[name] = {"mask": numbers(kept), "metrics": metrics}
cases["verl_rejections"] = verl_rejections
cases["verl_off_policy"] = rollout_corr_helper.compute_offpolicy_metrics(old, rollout, mask)


# ---- verl: the presets, weight and mask ---------------------------------------------------------------------------
def preset(name, *arguments):
    c = getattr(RolloutCorrectionConfig, name)(*arguments)
    policy = logp if c.bypass_mode else old
    proto, kept, _ = rollout_corr_helper.compute_rollout_correction_and_rejection_mask(
        policy, rollout, mask, rollout_is=c.rollout_is, rollout_is_threshold=c.rollout_is_threshold,
        rollout_is_batch_normalize=c.rollout_is_batch_normalize, rollout_rs=c.rollout_rs,
        rollout_rs_threshold=c.rollout_rs_threshold)
    result = {"mask": numbers(kept)}
    if proto is not None:
        result["weight"] = numbers(proto.batch["rollout_is_weights"] * kept)
    return result


band = "0.6_1.5"
cases["verl_presets"] = {
    "decoupled_token_is": preset("decoupled_token_is"),
    "decoupled_seq_is": preset("decoupled_seq_is"),
    "decoupled_token_icepop": preset("decoupled_token_icepop"),
    "decoupled_seq_is_rs": preset("decoupled_seq_is_rs"),
    "decoupled_geo_rs": preset("decoupled_geo_rs"),
    "decoupled_geo_rs_wide": preset("decoupled_geo_rs", band),
    "decoupled_geo_rs_seq_tis": preset("decoupled_geo_rs_seq_tis", 2.0, band),
    "decoupled_geo_rs_token_tis": preset("decoupled_geo_rs_token_tis", 2.0, band),
    "decoupled_k3_rs": preset("decoupled_k3_rs"),
    "decoupled_k3_rs_seq_tis": preset("decoupled_k3_rs_seq_tis", 2.0, 0.1),
    "decoupled_k3_rs_token_tis": preset("decoupled_k3_rs_token_tis", 2.0, 0.1),
    "bypass_ppo_clip": preset("bypass_ppo_clip"),
    "bypass_ppo_clip_geo_rs": preset("bypass_ppo_clip_geo_rs", band),
    "bypass_ppo_clip_k3_rs": preset("bypass_ppo_clip_k3_rs", 0.1),
    "bypass_pg_is": preset("bypass_pg_is"),
    "bypass_pg_token_icepop": preset("bypass_pg_token_icepop"),
    "bypass_pg_geo_rs": preset("bypass_pg_geo_rs", band),
    "bypass_pg_geo_rs_seq_tis": preset("bypass_pg_geo_rs_seq_tis", 2.0, band),
    "bypass_pg_geo_rs_token_tis": preset("bypass_pg_geo_rs_token_tis", 2.0, band),
    "disabled": preset("disabled"),
}


# ---- verl: whole losses with a correction -------------------------------------------------------------------------
def loss_and_gradient(function, **arguments):
    l = logp.clone().requires_grad_(True)
    loss, _ = function(log_prob=l, advantages=advantage[:, None].expand(B, T), **arguments)
    loss.backward()
    return {"loss": loss.item(), "gradient": numbers(l.grad * 1.0)}


def bypass(loss_type, **correction):
    correction["loss_type"] = loss_type
    return loss_and_gradient(core_algos.compute_policy_loss_bypass_mode, old_log_prob=rollout, response_mask=mask,
                             loss_agg_mode="token-mean", config=config(correction))


weight, kept, _ = rollout_corr_helper.compute_rollout_correction_and_rejection_mask(
    old, rollout, mask, rollout_is="token", rollout_rs="seq_mean_k1", rollout_rs_threshold=band)
cases["verl_losses"] = {
    "decoupled": loss_and_gradient(
        core_algos.compute_policy_loss_vanilla, old_log_prob=old, response_mask=kept, loss_agg_mode="token-mean",
        config=config(), rollout_is_weights=weight.batch["rollout_is_weights"]),
    "bypass_ppo_clip": bypass("ppo_clip", rollout_rs="seq_mean_k3", rollout_rs_threshold=0.1),
    "bypass_reinforce": bypass("reinforce", rollout_is="sequence", rollout_rs="seq_mean_k1", rollout_rs_threshold=band),
}

# ---- OpenRLHF: the coefficient that its loss is multiplied by -------------------------------------------------------
def openrlhf(**settings):
    l = old.clone().requires_grad_(True)  # ratio 1, advantage 1: the gradient is -weight / N
    loss = PolicyLoss(**settings)(l, old, torch.ones(B, T), mask, rollout)[0]
    loss.backward()
    return {"weight": numbers(-l.grad * N)}


cases["openrlhf"] = {
    "tis": openrlhf(is_correction_level="token", is_correction_mode="clip"),
    "icepop": openrlhf(is_correction_level="token", is_correction_mode="mask"),
    "sequence_mask": openrlhf(is_correction_level="seq", is_correction_mode="mask"),
    "sequence_mask_narrow": openrlhf(is_correction_level="seq", is_correction_threshold=[0.97, 1.3]),
    "trust_region": openrlhf(is_correction_level="seq", is_correction_gating="binary_kl",
                             is_correction_threshold=[0, 0.02]),
    "token_binary_kl": openrlhf(is_correction_level="token", is_correction_gating="binary_kl",
                                is_correction_threshold=[-1, 0.02]),
    "sequence_tv": openrlhf(is_correction_level="seq", is_correction_gating="tv", is_correction_threshold=[0, 0.1]),
}

l = logp.clone().requires_grad_(True)
loss = PolicyLoss(policy_loss_type="gspo", clip_eps_low=0.3, clip_eps_high=0.4, is_correction_level="token")(
    l, old, advantage[:, None].expand(B, T), mask, rollout)[0]
loss.backward()
cases["openrlhf_gspo"] = {"loss": loss.item(), "gradient": numbers(l.grad)}


# ---- TRL: the importance ratio ------------------------------------------------------------------------------------
def part_of(function, first, last):
    lines = inspect.getsource(function).splitlines()
    begin = next(k for k, line in enumerate(lines) if line.strip().startswith(first))
    end = next(k for k in range(begin, len(lines)) if last in lines[k])
    return textwrap.dedent("\n".join(lines[begin:end]))


ratio_code = part_of(GRPOTrainer._generate_and_score_completions, "mask = completion_mask if tool_mask is None",
                     "# Compute the per-token log probabilities for the reference model")


def trl(mode, sampled, low=None, high=3.0):
    scope = {"completion_mask": mask, "tool_mask": None, "old_per_token_logps": old, "torch": torch, "math": math,
             "sampling_per_token_logps": sampled,
             "self": types.SimpleNamespace(vllm_importance_sampling_mode=mode, vllm_importance_sampling_clip_min=low,
                                           vllm_importance_sampling_clip_max=high)}
    exec(ratio_code, scope)
    return {"weight": numbers(scope["vllm_importance_sampling_ratio"].expand(B, T) * mask)}


unscored = rollout.clone()
unscored[0, 1] = unscored[2, 2] = math.nan
cases["trl"] = {
    "token_truncate": trl("token_truncate", rollout),
    "token_mask": trl("token_mask", rollout),
    "sequence_truncate": trl("sequence_truncate", rollout),
    "sequence_mask": trl("sequence_mask", rollout),
    "token_truncate_two_sided": trl("token_truncate", rollout, 0.8, 1.5),
    "sequence_mask_two_sided": trl("sequence_mask", rollout, 0.5, 1.5),
    "sequence_mask_unscored": trl("sequence_mask", unscored),
    "token_mask_unscored": trl("token_mask", unscored),
}
difference = (old - rollout).abs()[mask.bool()]
cases["trl_difference"] = {"mean": difference.mean().item(), "max": difference.max().item()}

# ---- selections ---------------------------------------------------------------------------------------------------
accelerator = types.SimpleNamespace(pad_across_processes=lambda x, **_: x, gather=lambda x: x)
cases["trl_high_entropy"] = {
    str(share): numbers(GRPOTrainer.get_high_entropy_mask(types.SimpleNamespace(accelerator=accelerator), entropy, mask,
                                                          1 - share).double())
    for share in (0.1, 0.2, 0.5, 0.93)
}
cases["quantile"] = {str(q): torch.quantile(entropy[mask.bool()], q).item() for q in (0.0, 0.07, 0.5, 0.8, 1.0)}
cases["trl_off_policy"] = {
    str(threshold): numbers(GRPOTrainer.get_off_policy_mask(
        advantage[:, None], logp, rollout, mask, threshold).expand(B, T) * mask)
    for threshold in (-0.5, 0.02, 0.5)
}

wide = rounded(logp * 3)  # covariances on both sides of the bounds
wide_old = rounded(wide + torch.randn(B, T) * 0.2)


def gradient(function, settings):
    l = wide.clone().requires_grad_(True)
    function(old_log_prob=wide_old, log_prob=l, advantages=advantage[:, None].expand(B, T).clone(), response_mask=mask,
             config=config(**settings))[0].backward()
    return l.grad


plain = gradient(core_algos.compute_policy_loss_vanilla, {})
everything = gradient(core_algos.compute_policy_loss_clip_cov,
                      dict(clip_cov_ratio=1.0, clip_cov_lb=0.5, clip_cov_ub=2.5))
cases["verl_clip_cov_candidates"] = numbers(((everything == 0) & (plain != 0)).double())
free = gradient(core_algos.compute_policy_loss_kl_cov, dict(kl_cov_ratio=0.2, ppo_kl_coef=0.0))
held = gradient(core_algos.compute_policy_loss_kl_cov, dict(kl_cov_ratio=0.2, ppo_kl_coef=1.0))
cases["verl_kl_cov_selected"] = numbers((free != held).double())

rewards = rounded(torch.rand(6))
rewards[3:] = 0.1
scores = (advantage.view(2, 3).abs() * rewards.view(2, 3).std(dim=1, keepdim=True)).sum(dim=1)
cases["replay_scores"] = {"rewards": rewards.tolist(), "scores": [scores[0].item(), 0.0]}

# ---- by definition ------------------------------------------------------------------------------------------------
u = torch.where(mask.bool(), old - rollout, 0.0)
mean = u.sum(1) / mask.sum(1)
turns = torch.zeros(B, T)
for i in range(B):
    t = 0
    while t < T:
        last = t
        while last < T and mask[i, last]:
            last += 1
        turns[i, t:last] = u[i, t:last].sum()
        t = last + 1
cases["definition"] = {
    "geometric": numbers(torch.exp(mean)[:, None] * mask),
    "turn": numbers(torch.exp(turns.clamp(-20, 20)).clamp(max=2.0) * mask),
}

result = {"logp": numbers(logp), "old_logp": numbers(old), "rollout_logp": numbers(rollout),
          "advantage": advantage.tolist(), "entropy": numbers(entropy), "mask": numbers(mask),
          "unscored": [[0, 1], [2, 2]], "wide_logp": numbers(wide), "wide_old_logp": numbers(wide_old), "cases": cases}


def plain_json(x):
    if isinstance(x, dict):
        return {k: plain_json(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain_json(v) for v in x]
    if isinstance(x, float) and not math.isfinite(x):
        return "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"
    if isinstance(x, float) and x == int(x) and abs(x) < 1e9:
        return int(x)
    return x


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "correction.json"), "w") as f:
    json.dump(plain_json(result), f, separators=(",", ":"))
    f.write("\n")
