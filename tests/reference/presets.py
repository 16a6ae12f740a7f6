"""Losses and gradients of whole batches by verl's, OpenRLHF's and TRL's own functions with their default settings and
aggregations, for tests/objective/algorithm/presets_test.cpp.

    pip install -r requirements.txt && pip install --no-deps -r systems.txt && python presets.py

One optimizer step is one batch. TRL divides "dapo" losses by num_items_in_batch, which is the number of live tokens.
"""

import json
import os

import torch

from surrogate import GRPOTrainer, actor, core_algos, numbers, openrlhf_loss, trl_loss
import trl.experimental.gmpo.gmpo_trainer as gmpo

B, T = 6, 9
generator = torch.Generator().manual_seed(23)
random = lambda *shape: torch.randn(*shape, generator=generator)
mask = torch.zeros(B, T)
for i, n in enumerate([9, 4, 1, 7, 9, 3]):
    mask[i, :n] = 1
mask[0, 3] = mask[4, [0, 5]] = 0
logp = -random(B, T).abs() - 0.05
old_logp = (logp + 0.3 * random(B, T)).clamp(max=-0.01)
advantage = torch.tensor([1.5, -0.75, 0.5, -2.0, 0.25, -0.1])
value, old_value, returns = random(B, T), random(B, T), random(B, T)
score = random(B)
tokens = mask.sum()


def case(of, leaf_of=logp, scale=1.0):
    leaf = leaf_of.clone().requires_grad_()
    loss = of(leaf) * scale
    (gradient,) = torch.autograd.grad(loss, leaf)
    return {"loss": loss.item(), "gradient": numbers(gradient)}


def verl(name, aggregation=None, **settings):
    function = core_algos.get_policy_loss_fn(name)
    keywords = {} if aggregation is None else {"loss_agg_mode": aggregation}
    rows = advantage[:, None].expand(B, T)
    return case(lambda l: function(old_logp, l, rows, mask, config=actor(**settings), **keywords)[0])


def openrlhf(**settings):
    rows = advantage[:, None].expand(B, T)
    return case(lambda l: openrlhf_loss.PolicyLoss(**settings)(l, old_logp, rows, mask)[0])


def trl(loss_type, trainer=GRPOTrainer, scale=1.0, **settings):
    return case(lambda l: trl_loss(trainer, loss_type, l, old_logp, advantage, mask, **settings), scale=scale)


cases = {
    "verl::grpo": verl("vanilla", "token-mean"),
    "verl::dapo": verl("vanilla", "token-mean", clip_ratio_high=0.28, clip_ratio_c=10.0),
    "verl::gspo": verl("gspo"),
    "verl::gmpo": verl("geo_mean"),
    "verl::sapo": verl("sapo"),
    "verl::cispo": verl("cispo", "token-mean"),
    "verl::gpg": verl("gpg", "token-mean"),
    "verl::dppo_tv": verl("dppo_tv", "token-mean"),
    "verl::dppo_kl": verl("dppo_kl", "token-mean"),
    "verl::dro": verl("dro", "token-mean", policy_loss={"dro_beta": 0.5}),
    "verl::ppo_critic": case(lambda v: core_algos.compute_value_loss(
        v, returns, old_value, mask, 0.5, loss_agg_mode="token-mean")[0], value),
    "openrlhf::grpo": openrlhf(),
    "openrlhf::gspo": openrlhf(policy_loss_type="gspo"),
    "openrlhf::ppo_critic": case(lambda v: openrlhf_loss.ValueLoss(clip_eps=0.5)(v, old_value, returns, mask), value),
    "openrlhf::ipo": case(lambda s: openrlhf_loss.DPOLoss(0.1, ipo=True)(
        s[0::2], s[1::2], torch.zeros(B // 2), torch.zeros(B // 2))[0], score),
    "trl::grpo": trl("grpo"),
    "trl::dapo": trl("dapo", scale=1 / tokens),
    "trl::dr_grpo": trl("dr_grpo"),
    "trl::gspo": trl("grpo", level="sequence"),
    "trl::luspo": trl("luspo", level="sequence"),
    "trl::cispo": trl("cispo", scale=1 / tokens, epsilon=(0.2, 1.1)),
    "trl::sapo": trl("sapo"),
    "trl::vespo": trl("vespo", scale=1 / tokens),
    "trl::gmpo": trl("grpo", trainer=gmpo.GMPOTrainer, epsilon=(0.4, 0.4)),
    "trl::two_sided_dapo": trl("dapo", scale=1 / tokens, delta=4.0),
}

out = {"rows": B, "tokens": T, "mask": [int(m) for m in mask.reshape(-1)], "logp": numbers(logp),
       "old_logp": numbers(old_logp), "advantage": numbers(advantage), "value": numbers(value),
       "old_value": numbers(old_value), "target": numbers(returns), "score": numbers(score), "cases": cases}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "presets.json")
with open(path, "w") as f:
    json.dump(out, f, separators=(",", ":"))
print(os.path.getsize(path))
