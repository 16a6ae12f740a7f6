"""Preference and reward-model losses, for tests/objective/piece/preference and .../reward_model.

    pip install -r requirements.txt && pip install --no-deps -r systems.txt && python preference.py

Three kinds of numbers in float64:
* "links": value and slopes of each link for single pairs or rows, by mpmath with 60 digits and its own differentiation,
  far into both tails. The formulas are written here from the papers.
* "trl": loss and gradient by tokens of TRL 1.16.0's own methods: DPOTrainer._compute_loss, KTOTrainer._compute_loss,
  CPOTrainer.cpo_loss, ORPOTrainer.odds_ratio_loss, TPOTrainer._compute_loss, RewardTrainer.compute_loss, called with a
  stand-in for the trainer and a model that answers given log-probs. ORPO and the alpha-divergence are float32 there.
* "openrlhf" (0.11.2: DPOLoss, PairWiseLoss, LogExpLoss) and "liger" (0.8.5: the preference_loss_fn of its chunked
  losses) on sums over the same tokens.
"""

import contextlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections import defaultdict
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import mpmath as mp
import torch

mp.mp.dps = 60
torch.manual_seed(11)
f64 = torch.float64


# ---- single pairs and rows, by mpmath -------------------------------------------------------------------------------

def sigmoid(x):
    return 1 / (1 + mp.e ** -x)


def minus_log_sigmoid(x):
    return mp.log1p(mp.e ** -x)


def logistic(z, smoothing=0):
    return (1 - smoothing) * minus_log_sigmoid(z) + smoothing * minus_log_sigmoid(-z)


def discopop(z, temperature):
    m = sigmoid(z / temperature)
    return (1 - m) * minus_log_sigmoid(z) + m * mp.e ** -z


def exo(z, e):
    s = sigmoid(z)
    return s * mp.log(s / (1 - e)) + (1 - s) * mp.log((1 - s) / e)


def bent(x, alpha):
    return (1 - mp.e ** (-alpha * x)) / alpha


def log_odds(a):
    return a - mp.log(1 - mp.e ** a)


def divergence(alpha):
    return lambda u: (mp.e ** ((alpha - 1) * u) - 1) / (alpha - 1)


b = mp.mpf("0.1")
tenth = mp.mpf("0.1")
half = mp.mpf("0.5")
pair_links = {  # name: (loss of chosen and rejected score)
    "sigmoid": lambda c, r: logistic(b * (c - r)),
    "cdpo": lambda c, r: logistic(b * (c - r), tenth),
    "margin": lambda c, r: logistic(2 * (c - r) - half),
    "robust": lambda c, r: ((1 - tenth) * minus_log_sigmoid(b * (c - r)) - tenth * minus_log_sigmoid(-b * (c - r))) / (1 - 2 * tenth),
    "hinge": lambda c, r: max(mp.mpf(0), 1 - b * (c - r)),
    "ipo": lambda c, r: (c - r - 1 / (2 * b)) ** 2,
    "exo_pair": lambda c, r: exo(b * (c - r), mp.mpf("0.001")),
    "discopop": lambda c, r: discopop(b * (c - r), mp.mpf("0.05")),
    "nca_pair": lambda c, r: minus_log_sigmoid(b * c) + half * minus_log_sigmoid(-b * c) + half * minus_log_sigmoid(-b * r),
    "bco_pair": lambda c, r: minus_log_sigmoid(b * c) + minus_log_sigmoid(-b * r),
    "sppo_hard": lambda c, r: (c - 1 / (2 * b)) ** 2 + (r + 1 / (2 * b)) ** 2,
    "apo_zero": lambda c, r: 1 - sigmoid(b * c) + sigmoid(b * r),
    "apo_down": lambda c, r: sigmoid(b * c) + 1 - sigmoid(b * (c - r)),
    "centering": lambda c, r: (c + r) ** 2,
}
moderate_links = {  # exponentials of the score itself: moderate scores only
    "forward_kl": lambda c, r: logistic(b * ((1 - mp.e ** -c) - (1 - mp.e ** -r))),
    "jensen_shannon": lambda c, r: logistic(b * (-minus_log_sigmoid(c) + minus_log_sigmoid(r))),
    "alpha_divergence": lambda c, r: logistic(b * (divergence(mp.mpf("0.3"))(c) - divergence(mp.mpf("0.3"))(r))),
    "forward_kl_bco_pair": lambda c, r: minus_log_sigmoid(b * (1 - mp.e ** -c)) + minus_log_sigmoid(-b * (1 - mp.e ** -r)),
}
likelihood_links = {  # of mean log-probs, below 0
    "alpha_po": lambda c, r: logistic(2 * (bent(c, mp.mpf("0.25")) - bent(r, mp.mpf("0.25"))) - half),
    "alpha_po_negative": lambda c, r: logistic(2 * (bent(c, mp.mpf("-0.5")) - bent(r, mp.mpf("-0.5"))) - half, tenth),
    "alpha_po_zero": lambda c, r: logistic(2 * (c - r) - half),
    "orpo": lambda c, r: b * minus_log_sigmoid(log_odds(c) - log_odds(r)),
}
row_links = {  # of the score of a row with label 1 or 0
    "kto": lambda u, y: (mp.mpf("1.25") if y else mp.mpf("0.75")) * (1 - sigmoid((1 if y else -1) * b * (u - mp.mpf("0.2")))),
    "apo_zero_unpaired": lambda u, y: 1 - sigmoid(b * u) if y else sigmoid(b * u),
    "bco": lambda u, y: minus_log_sigmoid((1 if y else -1) * (b * u - mp.mpf("0.3"))),
}
thresholds = [mp.mpf(-2), mp.mpf("-0.5"), mp.mpf(1), mp.mpf(4)]


def ordinal(s, y):
    above = sigmoid(thresholds[y] - s) if y < 4 else mp.mpf(1)
    below = sigmoid(thresholds[y - 1] - s) if y > 0 else mp.mpf(0)
    return -mp.log(above - below)


def huber(s, y, width=mp.mpf("1.5")):
    e = abs(s - y)
    return e * e / 2 if e <= width else width * (e - width / 2)


def number(x):
    return float(x)


def by_pair(loss, pairs):
    out = {"value": [], "chosen": [], "rejected": []}
    for c, r in pairs:
        c, r = mp.mpf(c), mp.mpf(r)
        out["value"].append(number(loss(c, r)))
        out["chosen"].append(number(mp.diff(lambda x: loss(x, r), c, h=mp.mpf(10) ** -20)))
        out["rejected"].append(number(mp.diff(lambda x: loss(c, x), r, h=mp.mpf(10) ** -20)))
    return out


def by_row(loss, rows):
    out = {"value": [], "slope": []}
    for u, y in rows:
        u = mp.mpf(u)
        out["value"].append(number(loss(u, y)))
        out["slope"].append(number(mp.diff(lambda x: loss(x, y), u, h=mp.mpf(10) ** -20)))
    return out


def dyadic(x):
    return round(x * 64) / 64


draws = [(dyadic(c), dyadic(r)) for c, r in (torch.randn(12, 2) * 12).tolist()]
pairs = draws + [(2.0, 0.0), (0.0, 0.0), (400.0, -300.0), (-400.0, 300.0), (-3.0, -3.0), (1.0, 9.5), (60.0, -60.0), (-60.0, 60.0)]
moderate = [(dyadic(c), dyadic(r)) for c, r in (torch.randn(12, 2) * 2).tolist()] + [(0.0, 0.0), (-6.0, 5.0), (7.0, -5.0)]
likelihoods = [(-dyadic(abs(c)) - 1 / 64, -dyadic(abs(r)) - 1 / 64) for c, r in (torch.randn(12, 2) * 1.5).tolist()]
likelihoods += [(-0.5, -1.0), (-2.0 ** -30, -1.0), (-1.0, -2.0 ** -30), (-50.0, -0.25), (-0.25, -50.0), (-0.75, -0.6875)]
rows = [(dyadic(u), i % 2) for i, u in enumerate((torch.randn(12) * 10).tolist())] + [(1.0, 1), (1.0, 0), (300.0, 1), (300.0, 0), (-300.0, 1), (-300.0, 0)]
ratings = [(dyadic(u), i % 5) for i, u in enumerate((torch.randn(15) * 3).tolist())] + [(-40.0, 4), (40.0, 0)]

links = {
    "pairs": pairs, "moderate": moderate, "likelihoods": likelihoods, "rows": rows, "ratings": ratings,
    "cases": {
        **{n: {"inputs": "pairs", **by_pair(l, pairs)} for n, l in pair_links.items()},
        **{n: {"inputs": "moderate", **by_pair(l, moderate)} for n, l in moderate_links.items()},
        **{n: {"inputs": "likelihoods", **by_pair(l, likelihoods)} for n, l in likelihood_links.items()},
        **{n: {"inputs": "rows", **by_row(l, rows)} for n, l in row_links.items()},
        "ordinal": {"inputs": "ratings", **by_row(ordinal, ratings)},
        "huber": {"inputs": "ratings", **by_row(huber, ratings)},
        "squared_error": {"inputs": "ratings", **by_row(lambda s, y: (s - y) ** 2, ratings)},
    },
}

# rankings: slopes by every score
rankings = {"scores": [[1.5, 0.25, -0.5, 0.75], [-3.0, 2.0, 40.0, 1.0], [0.5, 0.5, 0.5, 0.5], [900.0, 2.0, -5.0, -800.0]], "cases": {}}
for places in (0, 1, 2):
    one = {"value": [], "slope": []}
    for s in rankings["scores"]:
        def ranking(*x):
            return sum(mp.log(sum(mp.e ** y for y in x[k:])) - x[k] for k in range(places or 3))
        one["value"].append(number(ranking(*map(mp.mpf, s))))
        slopes = []
        for j in range(4):
            slopes.append(number(mp.diff(lambda y: ranking(*[mp.mpf(v) if i != j else y for i, v in enumerate(s)]), s[j], h=mp.mpf(10) ** -20)))
        one["slope"].append(slopes)
    rankings["cases"][str(places)] = one


# ---- tokens, for the systems ------------------------------------------------------------------------------------------

P, T = 4, 6
mask = torch.zeros(2 * P, T, dtype=torch.long)  # rows 2k chosen, 2k + 1 rejected, as in rlcore
for i, n in enumerate([6, 4, 3, 5, 1, 6, 2, 2]):
    mask[i, :n] = 1
logp = (-torch.rand(2 * P, T, dtype=f64) * 3 - 0.05).to(torch.float32).to(f64)
ref_logp = (logp + torch.randn(2 * P, T, dtype=f64) * 0.6).to(torch.float32).to(f64)
log_square_sum = (-torch.rand(2 * P, T, dtype=f64) * 2).to(torch.float32).to(f64)
label = [1, 0, 0, 1, 1, 1, 0, 1]
mismatched = {"logp": (-torch.rand(2 * P, dtype=f64) * 9), "ref_logp": (-torch.rand(2 * P, dtype=f64) * 9 - 2)}
halves = list(range(0, 2 * P, 2)) + list(range(1, 2 * P, 2))  # TRL's order: all chosen rows, then all rejected ones


def flat(x):
    return [float(v) for v in x.detach().to(f64).flatten().tolist()]


def graded(loss_of, at, dtype=f64):
    x = at.to(dtype).clone().requires_grad_()
    loss = loss_of(x)
    (g,) = torch.autograd.grad(loss, [x])
    return {"loss": loss.item(), "gradient": flat(g)}


class answers(torch.nn.Module):
    """A model whose fused head returns given per-token numbers, 0 where a label is missing, as TRL's does."""

    is_gradient_checkpointing = False

    def __init__(self, x, order):
        super().__init__()
        live = mask[order].to(x.dtype)
        self.out = SimpleNamespace(
            log_probs=x[order] * live, log_sum_sq_probs=log_square_sum[order].to(x.dtype) * live, entropy=torch.zeros_like(live),
            mean_logits=torch.zeros_like(live), is_top1=torch.zeros_like(live, dtype=torch.bool), aux_loss=None)

    def forward(self, **kwargs):
        return self.out


def trainer(**settings):
    same = SimpleNamespace(device=torch.device("cpu"), gather_for_metrics=lambda x: x, gather=lambda x: x,
                           unwrap_model=lambda m: m)
    common = dict(
        accelerator=same, aux_loss_enabled=False, precompute_ref_logps=False, _metrics={"train": defaultdict(list)},
        _total_train_tokens=0, _tp_size=1, label_smoothing=0.0, ld_alpha=None, f_divergence_type="reverse_kl",
        f_alpha_divergence_coef=0.5, loss_weights=[1.0], use_weighting=False, beta=0.1,
        args=SimpleNamespace(discopop_tau=0.05, gradient_checkpointing_kwargs=None, center_rewards_coefficient=None))
    common.update(settings)
    return SimpleNamespace(**common)


def inputs(order):
    prompt = torch.zeros(2 * P, 1, dtype=torch.long)
    seen = torch.cat([prompt, mask[order]], 1)
    return {"input_ids": torch.ones_like(seen), "attention_mask": torch.ones_like(seen), "completion_mask": seen}


def trl_dpo(loss_types, dtype=f64, **settings):
    from trl import DPOTrainer

    def loss_of(x):
        self = trainer(loss_types=loss_types, **settings)
        self.model, self.ref_model = answers(x, halves), answers(ref_logp.to(dtype), halves)
        return DPOTrainer._compute_loss(self, self.model, inputs(halves), False)

    return graded(loss_of, logp, dtype)


def trl_kto(**settings):
    from trl import KTOTrainer

    out = {}

    def loss_of(x):
        self = trainer(desirable_weight=1.25, undesirable_weight=0.75, **settings)
        self.model, self.ref_model = answers(x, list(range(2 * P))), answers(ref_logp, list(range(2 * P)))
        self.calculate_KL = settings["loss_type"] == "kto"
        sums = {id(self.model): mismatched["logp"], id(self.ref_model): mismatched["ref_logp"]}
        self._compute_kl_logps = lambda model, batch: sums[id(model)]
        batch = {**inputs(list(range(2 * P))), "label": torch.tensor(label, dtype=torch.bool)}
        loss = KTOTrainer._compute_loss(self, self.model, batch, False)
        out["kl"] = self._metrics["train"]["kl"][0]
        return loss

    return {**graded(loss_of, logp), **out}


def without_tokens(rows, case):
    """What `case` returns where these rows have no token."""
    kept = mask.clone()
    mask[rows] = 0
    try:
        return case()
    finally:
        mask.copy_(kept)


def sums(x, averaged=False):
    s = (x * mask).sum(1)
    return s / mask.sum(1) if averaged else s


def trl_cpo(loss_type, averaged, dtype=f64, **settings):
    from trl.experimental.cpo.cpo_trainer import CPOTrainer

    def loss_of(x):
        s = sums(x, averaged)
        self = trainer(**{"loss_type": loss_type, "alpha": 0.0, "simpo_gamma": 0.5, **settings})
        return CPOTrainer.cpo_loss(self, s[0::2], s[1::2])[0].mean()

    return graded(loss_of, logp, dtype)


def trl_orpo():
    from trl.experimental.orpo.orpo_trainer import ORPOTrainer

    def loss_of(x):
        s = sums(x, True)
        return -ORPOTrainer.odds_ratio_loss(trainer(), s[0::2], s[1::2])[0].mean()

    return graded(loss_of, logp, torch.float32)


def trl_tpo(loss_type, **settings):
    import trl.experimental.tpo.tpo_trainer as module

    def loss_of(x):
        self = trainer(loss_type=loss_type, tpo_alpha=0.0, tpo_l_gamma=0.5, **settings)
        log_softmax = module.selective_log_softmax_and_entropy
        module.selective_log_softmax_and_entropy = lambda *a, **k: (x[halves] * mask[halves], torch.zeros(2 * P, T))
        model = answers(x, halves)
        model.out.logits = torch.zeros(2 * P, T + 1, 3)
        self.model = model
        try:
            return module.TPOTrainer._compute_loss(self, model, inputs(halves), False)
        finally:
            module.selective_log_softmax_and_entropy = log_softmax

    return graded(loss_of, logp)


score = torch.randn(2 * P, dtype=f64) * 1.5
margin = torch.rand(P, dtype=f64)


def trl_reward(margins, centering):
    from trl import RewardTrainer

    def loss_of(x):
        self = trainer()
        self.args.center_rewards_coefficient = centering
        model = MagicMock(return_value=SimpleNamespace(logits=x[halves].unsqueeze(1)), training=True)
        batch = {"attention_mask": torch.ones(2 * P, 1), **({"margin": margin} if margins else {})}
        self.model = SimpleNamespace(training=True)
        return RewardTrainer.compute_loss(self, model, batch)

    return graded(loss_of, score)


trl = {
    **{n: trl_dpo([n]) for n in ("sigmoid", "hinge", "ipo", "nca_pair", "bco_pair", "sppo_hard", "apo_zero", "apo_down",
                                 "discopop", "sft", "sigmoid_norm", "aot", "aot_unpaired")},
    "exo_pair": trl_dpo(["exo_pair"], label_smoothing=1e-3),
    "robust": trl_dpo(["robust"], label_smoothing=0.1),
    "aot_smoothed": trl_dpo(["aot"], label_smoothing=0.1),
    "aot_unpaired_smoothed": trl_dpo(["aot_unpaired"], label_smoothing=0.1),
    "forward_kl": trl_dpo(["sigmoid"], f_divergence_type="forward_kl"),
    "jensen_shannon": trl_dpo(["sigmoid"], f_divergence_type="js_divergence"),
    "alpha_divergence": trl_dpo(["sigmoid"], torch.float32, f_divergence_type="alpha_divergence", f_alpha_divergence_coef=0.3),
    "ld_dpo": trl_dpo(["sigmoid"], ld_alpha=0.25),
    "wpo": trl_dpo(["sigmoid"], use_weighting=True),
    "mixed": trl_dpo(["sigmoid", "bco_pair", "sft"], loss_weights=[0.8, 0.2, 0.5]),
    "mixed_f_divergence": trl_dpo(["sigmoid", "apo_zero"], loss_weights=[1.0, 0.5], f_divergence_type="js_divergence"),
    "mixed_lengths": trl_dpo(["sigmoid", "ipo", "sigmoid_norm"], loss_weights=[1.0, 0.25, 2.0]),
    "f_divergence_ipo": trl_dpo(["ipo"], f_divergence_type="forward_kl"),
    "kto": trl_kto(loss_type="kto"),
    "apo_zero_unpaired": trl_kto(loss_type="apo_zero_unpaired"),
    **{name + "_empty": without_tokens([1, 2], lambda: trl_kto(loss_type=name)) for name in ("kto", "apo_zero_unpaired")},
    "cpo": trl_cpo("sigmoid", False, label_smoothing=0.1),
    "cpo_hinge": trl_cpo("hinge", False),
    "cpo_ipo": trl_cpo("ipo", True),
    "simpo": trl_cpo("simpo", True, beta=2.0, label_smoothing=0.1),
    "alpha_po": trl_cpo("simpo", True, alpha=0.25, beta=2.0),
    "orpo": trl_orpo(),
    "tpo": trl_tpo("sigmoid", label_smoothing=0.1),
    "tpo_l": trl_tpo("tpo-l", beta=2.0, label_smoothing=0.1),
    "reward": trl_reward(False, None),
    "reward_margin": trl_reward(True, None),
    "reward_centered": trl_reward(True, 0.01),
}


def import_openrlhf_losses():
    """The package's __init__ imports the whole trainer stack; only the file of the losses and its neighbour are wanted."""
    for name in ("deepspeed", "flash_attn", "flash_attn.bert_padding", "flash_attn.utils", "flash_attn.utils.distributed", "flash_attn.ops",
                 "flash_attn.ops.triton", "flash_attn.ops.triton.cross_entropy"):
        stub = MagicMock()
        stub.__spec__ = importlib.machinery.ModuleSpec(name, None)
        sys.modules.setdefault(name, stub)
    root = os.path.dirname(importlib.util.find_spec("openrlhf").origin)
    package = ModuleType("openrlhf.models")
    package.__path__ = [os.path.join(root, "models")]
    sys.modules["openrlhf.models"] = package
    return importlib.import_module("openrlhf.models.loss")


def openrlhf_cases():
    m = import_openrlhf_losses()

    def dpo(**settings):
        loss = m.DPOLoss(beta=0.1, **settings)
        q = sums(ref_logp)
        return graded(lambda x: loss(sums(x)[0::2], sums(x)[1::2], q[0::2], q[1::2])[0], logp)

    return {
        # DPOTrainer.concatenated_forward: nll_loss = -(mean over tokens)[chosen].mean()
        "nll": graded(lambda x: -sums(x, True)[0::2].mean(), logp),
        "dpo": dpo(), "cdpo": dpo(label_smoothing=0.1), "ipo": dpo(ipo=True),
        "pairwise": graded(lambda x: m.PairWiseLoss()(x[0::2], x[1::2]), score),
        "pairwise_margin": graded(lambda x: m.PairWiseLoss()(x[0::2], x[1::2], margin), score),
        "log_exp": graded(lambda x: m.LogExpLoss()(x[0::2], x[1::2]), score),
    }


def liger_cases():
    from liger_kernel.chunked_loss.cpo_loss import LigerFusedLinearCPOFunction as cpo
    from liger_kernel.chunked_loss.dpo_loss import LigerFusedLinearDPOFunction as dpo
    from liger_kernel.chunked_loss.kto_loss import LigerFusedLinearKTOFunction as kto
    from liger_kernel.chunked_loss.orpo_loss import LigerFusedLinearORPOFunction as orpo
    from liger_kernel.chunked_loss.simpo_loss import LigerFusedLinearSimPOFunction as simpo

    q = sums(ref_logp)
    target = torch.zeros(2 * P, T)

    def of_dpo(loss_type, **settings):
        return graded(lambda x: dpo.preference_loss_fn(sums(x)[0::2], sums(x)[1::2], target, q[0::2], q[1::2],
                                                       loss_type=loss_type, **settings)[0], logp)

    def averaged(function, **settings):
        return graded(lambda x: function.preference_loss_fn(sums(x, True)[0::2], sums(x, True)[1::2], target, **settings)[0], logp)

    y = torch.tensor(label, dtype=torch.bool)
    with contextlib.redirect_stdout(sys.stderr):
        return {
            **{"dpo_" + n: of_dpo(n) for n in ("sigmoid", "hinge", "nca_pair", "bco_pair", "sppo_hard", "apo_zero", "apo_down", "discopop")},
            "dpo_exo_pair": of_dpo("exo_pair", label_smoothing=0.25),
            "dpo_robust": of_dpo("robust", label_smoothing=0.1),
            "kto": graded(lambda x: kto.preference_loss_fn(sums(x), y, target, q, beta=0.1, kl=torch.tensor(0.2, dtype=f64))[0], logp),
            "cpo": averaged(cpo, label_smoothing=0.1), "simpo": averaged(simpo, beta=2.0, gamma=0.5), "orpo": averaged(orpo),
        }


out = {
    "links": links, "rankings": rankings,
    "tokens": {"rows": 2 * P, "width": T, "logp": flat(logp), "ref_logp": flat(ref_logp), "log_square_sum": flat(log_square_sum),
               "mask": mask.flatten().tolist(), "label": label, "score": flat(score), "margin": flat(margin),
               "mismatched_logp": flat(mismatched["logp"]), "mismatched_ref_logp": flat(mismatched["ref_logp"])},
    "trl": trl, "openrlhf": openrlhf_cases(), "liger": liger_cases(),
}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "preference.json")
with open(path, "w") as f:
    json.dump(out, f, separators=(",", ":"))
print(os.path.getsize(path))
