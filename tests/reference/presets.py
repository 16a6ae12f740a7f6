"""Losses and gradients of whole batches by verl's, OpenRLHF's and TRL's own functions with their default settings and
aggregations, for tests/objective/algorithm/presets_test.cpp.

    pip install -r requirements.txt && pip install --no-deps -r systems.txt && python presets.py

One optimizer step is one batch. verl gets the global batch size and token count, as its engines pass them; TRL divides
"dapo" losses by num_items_in_batch, which is the number of live tokens. The last row is masked out entirely. Where TRL
has one term per sequence (GMPO, RLOO) such a row has the ratio 1, so its -A is a constant in the loss: there its
advantage is set to 0.

TRL's PPO is not in the package; its value loss is the formula of ppo_trainer.py at f2cd5771.
"""

import json
import os
from collections import defaultdict
from types import SimpleNamespace

import torch

from surrogate import GRPOTrainer, actor, core_algos, numbers, one_process, openrlhf_loss, trl_loss
from trl import RLOOTrainer
import trl.experimental.gmpo.gmpo_trainer as gmpo

B, T = 7, 9
generator = torch.Generator().manual_seed(23)
random = lambda *shape: torch.randn(*shape, generator=generator)
mask = torch.zeros(B, T)
for i, n in enumerate([9, 4, 1, 7, 9, 3, 0]):
    mask[i, :n] = 1
mask[0, 3] = mask[4, [0, 5]] = 0
logp = -random(B, T).abs() - 0.05
old_logp = (logp + 0.3 * random(B, T)).clamp(max=-0.01)
advantage = torch.tensor([1.5, -0.75, 0.5, -2.0, 0.25, -0.1, 0.9])
live_advantage = advantage * mask.any(1)
value, old_value, returns = random(B, T), random(B, T), random(B, T)
score = random(6)
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
    config = actor(**settings)
    config.global_batch_info.update(dp_size=1, batch_num_tokens=tokens, global_batch_size=B)
    return case(lambda l: function(old_logp, l, rows, mask, config=config, **keywords)[0])


def openrlhf(**settings):
    rows = advantage[:, None].expand(B, T)
    return case(lambda l: openrlhf_loss.PolicyLoss(**settings)(l, old_logp, rows, mask)[0])


def trl(loss_type, trainer=GRPOTrainer, scale=1.0, advantage=advantage, **settings):
    return case(lambda l: trl_loss(trainer, loss_type, l, old_logp, advantage, mask, **settings), scale=scale)


def rloo(l):
    inputs = dict(prompt_ids=torch.zeros(B, 1), prompt_mask=torch.ones(B, 1), completion_ids=torch.zeros(B, T),
                  completion_mask=mask, advantages=advantage, old_logps=(old_logp * mask).sum(1))
    self = SimpleNamespace(_get_per_token_logps_and_entropies=lambda *a, **k: (l, torch.zeros(B, T), None),
                           aux_loss_enabled=False, epsilon_low=0.2, epsilon_high=0.2, accelerator=one_process(),
                           model=SimpleNamespace(training=False), _metrics=defaultdict(lambda: defaultdict(list)))
    return RLOOTrainer._compute_loss(self, None, inputs)


def trl_value_loss(v):
    held = torch.clamp(v, old_value - 0.2, old_value + 0.2)
    worse = torch.max((v - returns) ** 2, (held - returns) ** 2)
    return 0.1 * 0.5 * (worse * mask).sum() / tokens


cases = {
    "verl::grpo": verl("vanilla", "token-mean"),
    "verl::dr_grpo": verl("vanilla", "seq-mean-token-sum-norm"),
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
    "openrlhf::grpo dual_clip": openrlhf(dual_clip=1.1),
    "openrlhf::gspo": openrlhf(policy_loss_type="gspo"),
    "openrlhf::gspo dual_clip": openrlhf(policy_loss_type="gspo", dual_clip=1.1),
    "openrlhf::ppo_critic": case(lambda v: openrlhf_loss.ValueLoss(clip_eps=0.5)(v, old_value, returns, mask), value),
    "openrlhf::ipo": case(lambda s: openrlhf_loss.DPOLoss(0.1, ipo=True)(
        s[0::2], s[1::2], torch.zeros(3), torch.zeros(3))[0], score),
    "trl::grpo": trl("grpo"),
    "trl::dapo": trl("dapo", scale=1 / tokens),
    "trl::bnpo": trl("bnpo"),
    "trl::dr_grpo": trl("dr_grpo"),
    "trl::gspo": trl("grpo", level="sequence"),
    "trl::luspo": trl("luspo", level="sequence"),
    "trl::cispo": trl("cispo", scale=1 / tokens, epsilon=(0.2, 1.1)),
    "trl::sapo": trl("sapo"),
    "trl::vespo": trl("vespo", scale=1 / tokens),
    "trl::gmpo": trl("grpo", trainer=gmpo.GMPOTrainer, epsilon=(0.4, 0.4), advantage=live_advantage),
    "trl::rloo": case(rloo),
    "trl::ppo_critic": case(trl_value_loss, value),
    "trl::two_sided_dapo": trl("dapo", scale=1 / tokens, delta=4.0),
}

out = {"rows": B, "tokens": T, "mask": [int(m) for m in mask.reshape(-1)], "logp": numbers(logp),
       "old_logp": numbers(old_logp), "advantage": numbers(advantage), "value": numbers(value),
       "old_value": numbers(old_value), "target": numbers(returns), "score": numbers(score), "cases": cases}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "presets.json")
with open(path, "w") as f:
    json.dump(out, f, separators=(",", ":"))
print(os.path.getsize(path))
