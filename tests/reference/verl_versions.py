"""What versions of verl compute where they differ: writes verl_versions.json.

Usage: verl_versions.py 2025-08=FOLDER 0.6.1=FOLDER 0.8.0=FOLDER 0.9.1=FOLDER [batches=300 out=FILE]. Each folder holds
verl/: the wheel unpacked, for 2025-08 a checkout of commit 28f6e4af7. The functions are cut out of
trainer/ppo/core_algos.py and utils/torch_functional.py, so that no version has to be installed; torch is all that they
need.

"losses": every loss_mode x loss_agg_mode with KL and entropy beside it on random batches with masked tokens between
others, rows without tokens, log-ratios of +-20 and log-probs of -infinity. Where two versions agree, the older one names
the newer. NaN is null.
"""

import ast
import json
import math
import os
import sys
from types import SimpleNamespace

import torch

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


SOURCES = ["openai/gsm8k", "lighteval/MATH", "DigitalLearningGmbH/MATH-lighteval", "HuggingFaceH4/MATH-500", "math_dapo", "math",
           "math_dapo_reasoning", "aime", "aime2024", "numina_aops_forum", "numina_synthetic_math", "numina_amc_aime",
           "numina_synthetic_amc", "numina_cn_k12", "numina_olympiads", "hiyouga/geometry3k", "searchR1_nq", "math500", "gsm8k"]


def sources_of(folder):
    """Which data sources default_compute_score knows: the others raise before any rule is imported."""
    tree = ast.parse(open(os.path.join(folder, "verl/utils/reward_score/__init__.py")).read())
    (f,) = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "default_compute_score"]
    space = {"__name__": "verl_is_not_installed", "__package__": "verl_is_not_installed"}
    exec(compile(ast.Module([f], []), "reward_score", "exec"), space)

    def known(source):
        try:
            space[f.name](source, "", "")
        except NotImplementedError:
            return False
        except ImportError:
            return True

    return {source: known(source) for source in SOURCES}


def functions_of(folder):
    """The functions of a version, as its files have them."""
    space = {"torch": torch, "VF": None}
    for path in ("utils/torch_functional.py", "trainer/ppo/core_algos.py"):
        tree = ast.parse(open(os.path.join(folder, "verl", path)).read())
        wanted = {"masked_sum", "masked_mean", "masked_var", "masked_whiten", "agg_loss", "kl_penalty",
                  "kl_penalty_forward", "compute_reinforce_plus_plus_outcome_advantage"}
        found = [n for n in tree.body
                 if isinstance(n, ast.FunctionDef) and (n.name in wanted or n.name.startswith("compute_policy_loss_"))]
        for f in found:
            f.decorator_list, f.returns = [], None
            for a in f.args.args + f.args.kwonlyargs:
                a.annotation = None
            f.body = [n for n in f.body if not isinstance(n, ast.ImportFrom)]
        exec(compile(ast.Module(found, []), path, "exec"), space)
        space["verl_F"] = SimpleNamespace(**{k: v for k, v in space.items() if k.startswith("masked")})
    space["ActorConfig"], space["AlgoConfig"] = settings, int
    return space


class settings(SimpleNamespace):
    def get(self, name, default=None):
        return getattr(self, name, default)


LENGTHS = [3, 1, 0, 7, 5]
B, T = len(LENGTHS), max(LENGTHS)
WIDTH = 9  # of the padded responses: what seq-mean-token-sum-norm divides by
generator = torch.Generator().manual_seed(5)
draw = lambda *shape: torch.rand(*shape, generator=generator)
mask = (torch.arange(WIDTH)[None] < torch.tensor(LENGTHS)[:, None]).double()
logp = (-2 * draw(B, WIDTH) - 0.1).float().double()
old_logp = (logp + 0.6 * draw(B, WIDTH) - 0.3).float().double()
advantage = (2 * draw(B) - 1).float().double()
# Two turns each, with other tokens between them.
turns = torch.tensor([[1, 1, 0, 0, 1, 1], [1, 0, 1, 1, 1, 0], [0, 1, 1, 0, 0, 1]]).double()
reward = (turns * (2 * draw(3, 6) - 1)).float().double()
MODES = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]


def case(version, f):
    config = settings(clip_ratio=0.2, clip_ratio_low=0.1, clip_ratio_high=0.15, global_batch_info={})
    if version in ("0.8.0", "0.9.1"):  # as their engines do
        config.global_batch_info = dict(dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=B)
    live = lambda t: [float(f"{x:.9g}") for x in t[mask.bool()].tolist()]
    out = {"gspo": {}, "aggregation": {}}
    for mode in MODES:
        if mode == "token-sum" and version != "0.9.1":
            continue
        leaf = logp.clone().requires_grad_()
        loss = f["compute_policy_loss_gspo"](old_logp, leaf, advantage[:, None].expand(B, WIDTH), mask,
                                             loss_agg_mode=mode, config=config)[0]
        # at 2025-08 the mean of a row without tokens is 0/0: its rows are compared without that one
        if torch.isfinite(loss):
            out["gspo"][mode] = {"loss": loss.item(), "gradient": live(torch.autograd.grad(loss, leaf)[0])}
        value = f["agg_loss"](-logp, mask, mode, **config.global_batch_info)
        if torch.isfinite(value):
            out["aggregation"][mode] = value.item()
    whitened, returns = f["compute_reinforce_plus_plus_outcome_advantage"](
        token_level_rewards=reward, response_mask=turns, config=SimpleNamespace(gamma=0.9))
    numbers = lambda t: [float(f"{x:.9g}") for x in t[turns.bool()].tolist()]
    out["reinforce_plus_plus"] = {"advantages": numbers(whitened), "returns": numbers(returns)}
    return out


LOSSES = ["vanilla", "gspo", "gpg", "clip_cov", "kl_cov", "geo_mean", "sapo", "cispo", "dppo_tv", "dppo_kl", "dro"]
KL = ["k1", "abs", "k2", "k3", "k1+", "abs+", "k3+"]
INPUTS = ["logp", "old_logp", "ref_logp", "entropy", "advantage"]


def number(x, digits=8):
    return None if math.isnan(x) else float(f"{x:.{digits}g}") if math.isfinite(x) else "inf" if x > 0 else "-inf"


def batch(k):
    """Batch k: multiples of 1/256, so that float32 holds them. Odd ones have holes, k % 4 > 1 a row without tokens."""
    g = torch.Generator().manual_seed(100 + k)
    rows, width = 3 + k % 3, 7
    whole = lambda low, high: torch.randint(low, high, (rows, width), generator=g).double()
    lengths = torch.randint(1, width + 1, (rows,), generator=g)
    lengths[0] = width
    mask = (torch.arange(width)[None] < lengths[:, None]).double()
    if k % 2:
        mask *= (whole(0, 4) > 0).double()
    mask[1] *= k % 4 < 2
    mask[0, 0] = 1
    logp = -(torch.randperm(768, generator=g)[:rows * width].view(rows, width) + 1.0) / 256  # without ties for kl_cov
    old = logp + whole(-200, 201) / 256
    ref = logp + whole(-300, 301) / 256
    if k % 3 == 1:  # beyond every clamp
        old = torch.where(whole(0, 3) == 0, logp + whole(-24, 25) + 1 / 256, old)
        ref = torch.where(whole(0, 3) == 0, logp + whole(-24, 25) + 1 / 256, ref)
    if k % 6 == 5:
        logp = torch.where((whole(0, 8) == 0) & (mask > 0), -torch.inf, logp)
        old = torch.where((whole(0, 12) == 0) & (mask > 0) & torch.isfinite(logp), -torch.inf, old)
    advantage = whole(-512, 513) / 256
    if k % 5 < 3:  # one per response
        advantage = advantage[:, :1].expand(rows, width).clone()
    b = dict(mask=mask, logp=logp, old_logp=old, ref_logp=ref, entropy=whole(0, 700) / 256, advantage=advantage * mask,
             width=width, kl=KL[k % 7], by_token=k % 5 >= 3, clip=[0.1 + k % 4 / 16, 0.15 + k % 5 / 16, 1.5 + k % 3])
    return b


def losses(version, f, b):
    """{loss_mode: {loss_agg_mode: numbers}} of one batch."""
    mask, old, leaf = b["mask"], b["old_logp"], b["logp"].clone().requires_grad_()
    low, high, c = b["clip"]
    config = settings(clip_ratio=low, clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=c, tau_pos=1.0, tau_neg=1.05,
                      policy_loss=settings(clip_cov_ratio=1.0, clip_cov_lb=0.25, clip_cov_ub=5.0, kl_cov_ratio=0.25,
                                           ppo_kl_coef=0.5, dro_beta=0.75), global_batch_info={})
    if version in ("0.8.0", "0.9.1"):
        config.global_batch_info = dict(dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=len(mask))
    out = {"penalties": {}}
    modes = [m for m in MODES if m != "token-sum" or version == "0.9.1"]
    live = lambda t: [number(x) for x in t[mask.bool()].tolist()]
    for mode in modes:
        if b["kl"].endswith("+") and version in ("2025-08", "0.6.1"):
            continue
        kl = f["agg_loss"](f["kl_penalty"](leaf, b["ref_logp"], b["kl"]), mask, mode, **config.global_batch_info)
        entropy = f["agg_loss"](b["entropy"], mask, mode, **config.global_batch_info)
        out["penalties"][mode] = {"kl": number(kl.item()), "entropy": number(entropy.item()),
                                  "gradient": live(torch.autograd.grad(kl, leaf)[0])}
    for name in LOSSES:
        function = f.get("compute_policy_loss_" + name)
        if function is None or name == "geo_mean" and b["by_token"]:
            continue
        if name in ("clip_cov", "kl_cov") and not torch.isfinite(b["logp"] + old).all():
            continue  # a mean over an infinite log-prob: covariances are NaN
        if name == "kl_cov" and b["advantage"][mask.bool()].unique().numel() == 1:
            continue  # covariances are nothing but rounding
        if name == "dppo_kl" and not torch.isfinite(old).all():
            continue  # a divergence of NaN; rlcore takes the limit of 0 log 0
        out[name] = {}
        for mode in modes[:1] if name in ("geo_mean", "sapo") else modes:
            loss, *others = function(old_log_prob=old, log_prob=leaf, advantages=b["advantage"], response_mask=mask,
                                     loss_agg_mode=mode, config=config)
            entry = {"loss": number(loss.item()), "gradient": live(torch.autograd.grad(loss, leaf)[0]), "pg_clipfrac": 0.0,
                     "pg_clipfrac_lower": 0.0}
            if isinstance(others[0], dict):
                for key, value in others[0].items():
                    entry[key.removeprefix("actor/")] = number(value)
            elif name != "gpg":  # which returns zeros
                for key, value in zip(("pg_clipfrac", "ppo_kl", "pg_clipfrac_lower"), others):
                    entry[key] = number(value.item())
            out[name][mode] = entry
    return out


def all_losses(folders, count):
    versions = {v: functions_of(folder) for v, folder in folders.items()}
    result = []
    for k in range(count):
        b = batch(k)
        one = {"mask": b["mask"].int().tolist(), "kl": b["kl"], "clip": b["clip"], "by_token": b["by_token"]}
        for key in INPUTS:
            one[key] = [[number(x, 17) for x in row] for row in b[key].tolist()]
        one["versions"] = {v: losses(v, f, b) for v, f in versions.items()}
        names = list(versions)
        for older, newer in zip(names, names[1:]):
            for name, by_mode in one["versions"][older].items():
                for mode, entry in by_mode.items():
                    if one["versions"][newer].get(name, {}).get(mode) == entry:
                        by_mode[mode] = newer
        result.append(one)
    return result


if __name__ == "__main__":
    folders = dict(a.split("=", 1) for a in sys.argv[1:])
    batches = int(folders.pop("batches", 6))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "verl_versions.json")
    path = folders.pop("out", path)
    flat = lambda t: [float(f"{x:.9g}") for x in t.flatten().tolist()]
    result = {"lengths": LENGTHS, "width": WIDTH, "logp": flat(logp[mask.bool()]), "old_logp": flat(old_logp[mask.bool()]),
              "advantage": flat(advantage), "clip": [0.1, 0.15],
              "turns": {"rows": 3, "tokens": 6, "mask": [int(x) for x in turns.flatten()], "reward": flat(reward),
                        "gamma": 0.9},
              "versions": {v: case(v, functions_of(folder)) for v, folder in folders.items()},
              "sources": {v: sources_of(folder) for v, folder in folders.items()},
              "losses": all_losses(folders, batches)}
    with open(path, "w") as f:
        json.dump(result, f, separators=(",", ":"))
        f.write("\n")
    for v, c in result["versions"].items():
        print(v, {k: x["loss"] for k, x in c["gspo"].items()}, c["aggregation"], c["reinforce_plus_plus"]["returns"][:4])
