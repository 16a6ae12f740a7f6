"""Losses and gradients of sequence regressions, for tests/objective/piece/regression.

    pip install -r requirements.txt && pip install --no-deps -r systems.txt && python regression.py

Written from the papers; A2PO has to agree with TRL's trainer. The others are in no package: the functions of verl-recipe
48ea0a79 (compute_policy_loss_gvpo, compute_sppo_loss, compute_flowrl) and TRL f2cd5771 (NashMDTrainer._compute_losses) were
called once on these inputs and agreed to 1e-12, or to the 1e-8 that verl's masked mean adds to its denominators.
"""

import json
import os
from collections import defaultdict
from types import SimpleNamespace

import torch
from trl.experimental.a2po.a2po_trainer import A2POTrainer

from surrogate import agree, clamp, derivative, exp, numbers

torch.manual_seed(12)


def regression_cases(rows=6, tokens=5, group=3):
    logp = -torch.rand(rows, tokens) * 3
    data = SimpleNamespace(
        logp=logp, old_logp=logp + 0.3 * torch.randn(rows, tokens), ref_logp=logp + 0.5 * torch.randn(rows, tokens),
        reward=torch.randn(rows), best=torch.randn(rows), log_z=torch.randn(rows), group=group)
    data.old_logp[4, 0] -= 3.0  # a ratio beyond FlowRL's bound
    data.advantage = data.reward.reshape(-1, group)
    data.advantage = (data.advantage - data.advantage.mean(1, keepdim=True)).reshape(-1)
    cases = {}

    def add(name, loss):
        leaf = data.logp.clone().requires_grad_()
        per_row = loss(leaf)
        cases[name] = {"value": numbers(per_row), "gradient": numbers(derivative(per_row, leaf))}
        return per_row

    to_old = lambda l: (l - data.old_logp).sum(1)
    to_ref = lambda l: (l - data.ref_logp).sum(1)
    add("sppo", lambda l: (to_old(l) - 0.8 * data.reward) ** 2)
    add("a2po", lambda l: (0.3 * to_ref(l) - (data.reward - data.best)) ** 2)
    leaf = data.logp.clone().requires_grad_()
    loss = A2POTrainer.compute_loss(
        SimpleNamespace(model=SimpleNamespace(training=True), args=SimpleNamespace(beta2=0.3),
                        _get_sequence_logps=lambda *a: leaf.sum(1), _metrics=defaultdict(lambda: defaultdict(list))),
        None, dict(input_ids=None, attention_mask=None, logits_to_keep=None, ref_logps=data.ref_logp.sum(1),
                   rewards=data.reward, v_star=data.best))
    agree(loss.detach(), torch.tensor(cases["a2po"]["value"]).mean(), "a2po")
    agree(derivative(loss, leaf).reshape(-1) * rows, torch.tensor(cases["a2po"]["gradient"]), "a2po gradient")

    def gvpo(l):
        r = 0.7 * to_old(l)
        centred = r - r.reshape(-1, group).mean(1, keepdim=True).expand(-1, group).reshape(-1).detach()
        return 0.5 * (centred - data.advantage) ** 2 / (group - 1)

    add("gvpo", gvpo)
    weight = clamp(exp(to_old(data.logp)), max=10)
    data.log_z.requires_grad_()
    flow = add("flowrl", lambda l: weight * (data.log_z + to_ref(l) / tokens - 15 * data.reward) ** 2)
    cases["flowrl"]["log_z_gradient"] = numbers(derivative(flow, data.log_z))
    add("nash_md", lambda l: 0.2 * ((data.logp - data.ref_logp) * l).sum(1) - (data.best - 0.5) * l.sum(1))
    fields = {name: numbers(getattr(data, name)) for name in
              ["logp", "old_logp", "ref_logp", "reward", "best", "log_z", "advantage"]}
    return {"rows": rows, "tokens": tokens, "group": group, "fields": fields, "cases": cases}


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "regression.json")
    with open(path, "w") as f:
        json.dump(regression_cases(), f)
        f.write("\n")


if __name__ == "__main__":
    main()
