"""Losses on vectors of logits: values and gradients by PyTorch autograd in float64 and by the systems' own functions.

    pip install -r requirements.txt && pip install --no-deps -r systems.txt && python vocabulary.py

Formulas are written here from their definitions. Where a system has the loss, its own function is called on the same
inputs and its numbers are stored; the comment behind a case names the function. Versions: systems.txt. Inputs are
rounded to float32, so the same numbers serve float and double.
"""

import json
import math
import os
from types import SimpleNamespace

import torch
import torch.nn.functional as F

torch.manual_seed(11)
N, V, K, R = 6, 13, 4, 3  # positions, vocabulary, support, reward tokens
f64 = torch.float64


def rounded(x):
    return x.to(torch.float32).to(f64)


logits = rounded(torch.randn(N, V) * 2)
teacher = rounded(logits + torch.randn(N, V))
logits[1] = rounded(torch.randn(V) * 30)  # nearly certain
teacher[2] = logits[2]
teacher[2, 0] += 1  # nearly equal
other_teacher = rounded(torch.randn(N, V + 6) * 2)  # another vocabulary
labels = torch.tensor([3, 0, 12, 7, 7, 1])
reward_tokens = [2, 9, 5]
reward_labels = torch.tensor([0, 2, 1, 1, 0, 2])
targets = rounded(torch.rand(N, R))
targets = rounded(targets / targets.sum(-1, keepdim=True))
class_weight = rounded(torch.rand(V) * 2)
weight = rounded(torch.rand(N) * 2)
student_ids = torch.topk(logits, K, -1).indices
teacher_ids = torch.topk(teacher, K, -1).indices
teacher_logp_at_student_ids = rounded(torch.log_softmax(teacher, -1).gather(-1, student_ids))
teacher_logp_at_teacher_ids = rounded(torch.log_softmax(teacher, -1).gather(-1, teacher_ids))

cases = {}


def finite(x):
    if isinstance(x, list):
        return [finite(y) for y in x]
    return x if math.isfinite(x) else repr(x)


def case(name, loss, z=logits, tolerance=1e-12):
    """loss: [N, V] logits -> [N] values."""
    z = z.clone().requires_grad_(True)
    value = loss(z)
    assert value.shape == (N,), (name, value.shape)
    (g,) = torch.autograd.grad(value.sum(), z)
    cases[name] = {"value": finite(value.detach().to(f64).tolist()), "gradient": finite(g.to(f64).tolist())}
    if tolerance != 1e-12:
        cases[name]["tolerance"] = tolerance


def kl(a, b):
    """KL(a || b) of log-probs."""
    return (a.exp() * (a - b)).sum(-1)


def jsd(s, t, beta):
    m = torch.logaddexp(s + math.log(1 - beta), t + math.log(beta))
    return beta * kl(t, m) + (1 - beta) * kl(s, m)


log_softmax = lambda x: torch.log_softmax(x, -1)
P = log_softmax(teacher)

# Primitives. verl: verl.utils.torch_functional; TRL: trl.trainer.utils.
import verl.utils.torch_functional as verl_tf
from trl.trainer.utils import entropy_from_logits, selective_log_softmax

case("logp", lambda z: verl_tf.logprobs_from_logits_naive(z, labels))
case("logp_tempered", lambda z: selective_log_softmax(z / 0.7, labels))
case("entropy", lambda z: verl_tf.entropy_from_logits(z / 0.7))
case("entropy_trl", lambda z: entropy_from_logits(z / 0.7), tolerance=1e-6)
case("sum_of_squares", lambda z: verl_tf.calculate_sum_pi_squared_from_logits(z / 0.7))
case("softcapped_logp", lambda z: log_softmax(5 * torch.tanh(z / 5) / 0.7).gather(-1, labels[:, None])[:, 0])
hole = logits.clone()
hole[:, [4, 11]] = -math.inf  # entries that do not exist
kept = [j for j in range(V) if j not in (4, 11)]


def without_hole(loss):
    return lambda z: loss(z[:, kept])


case("entropy_with_holes", without_hole(verl_tf.entropy_from_logits), hole)
case("nll_with_holes", lambda z: F.cross_entropy(z, labels, reduction="none"), hole)
case("smoothed_with_holes", without_hole(lambda z: F.cross_entropy(z, torch.tensor([kept.index(int(y)) for y in labels]), reduction="none", label_smoothing=0.1)), hole)
truncated = lambda z: z.gather(-1, student_ids)
on_student = torch.tensor([int(student_ids[i, i % K]) for i in range(N)])  # sampled from the support
case("truncated_logp", lambda z: log_softmax(truncated(z) / 0.7)[torch.arange(N), [i % K for i in range(N)]])
case("truncated_entropy", lambda z: verl_tf.entropy_from_logits(truncated(z) / 0.7))

# Supervised. torch.nn.functional.cross_entropy; z-loss, Megatron's smoothing and soft cap from their definitions.
case("cross_entropy", lambda z: F.cross_entropy(z, labels, reduction="none"))
case("label_smoothing", lambda z: F.cross_entropy(z, labels, reduction="none", label_smoothing=0.1))


def megatron(z, a=0.1):
    a = a * V / (V - 1)
    s = log_softmax(z)
    return -(1 - a) * s[torch.arange(N), labels] - a * s.mean(-1)


case("label_smoothing_others", megatron)
case("cross_entropy_full", lambda z: F.cross_entropy(5 * torch.tanh(z / 5), labels, reduction="none", label_smoothing=0.1) + 1e-2 * torch.logsumexp(5 * torch.tanh(z / 5), -1) ** 2)
case("cross_entropy_tempered", lambda z: F.cross_entropy(z / 1.7, labels, reduction="none"))
case("z_loss", lambda z: torch.logsumexp(z, -1) ** 2)
case("class_weights", lambda z: F.cross_entropy(z, labels, weight=class_weight, reduction="none"))
case("class_weights_smoothed", lambda z: F.cross_entropy(z, labels, weight=class_weight, reduction="none", label_smoothing=0.2))
case("position_weighted", lambda z: weight * F.cross_entropy(z, labels, reduction="none"))

# Divergences. trl.experimental.gkd.GKDTrainer.generalized_jsd_loss, trl.experimental.sdpo.loss_utils,
# liger_kernel.chunked_loss: distillation_loss_fn of jsd_loss and cosine_similarity_loss.
from liger_kernel.chunked_loss.cosine_similarity_loss import LigerFusedLinearCosineSimilarityFunction
from liger_kernel.chunked_loss.jsd_loss import LigerFusedLinearJSDFunction
from trl.experimental.gkd.gkd_trainer import GKDTrainer
from trl.experimental.gold.gold_trainer import ULDLoss
from trl.experimental.sdpo import loss_utils as sdpo


def gkd(beta, tau=1.0):
    return lambda z: GKDTrainer.generalized_jsd_loss(z[None], teacher[None], beta=beta, temperature=tau, reduction="none")[0].sum(-1)


case("forward_kl", gkd(0))
case("reverse_kl", gkd(1))
case("jsd_half", gkd(0.5))
case("jsd_tempered", gkd(0.3, 2.0))
case("forward_kl_tempered", gkd(0, 2.0))
case("jsd_sdpo", lambda z: sdpo.compute_full_logit_self_distillation_loss(z, teacher, distillation_alpha=0.3))
each = lambda loss: (lambda z: torch.stack([loss(z[i : i + 1], i) for i in range(N)]))
case("jsd_liger", each(lambda z, i: LigerFusedLinearJSDFunction.distillation_loss_fn(z, teacher[i : i + 1], beta=0.5)))
case("cosine", each(lambda z, i: LigerFusedLinearCosineSimilarityFunction.distillation_loss_fn(z, teacher[i : i + 1])))
case("total_variation", lambda z: 0.5 * (torch.softmax(z, -1) - P.exp()).abs().sum(-1))
case("skew_forward_kl", lambda z: kl(P, torch.logaddexp(P + math.log(0.1), log_softmax(z) + math.log(0.9))))
case("skew_reverse_kl", lambda z: kl(log_softmax(z), torch.logaddexp(log_softmax(z) + math.log(0.1), P + math.log(0.9))))
case("soft_cross_entropy", lambda z: F.cross_entropy(z, torch.softmax(teacher, -1), reduction="none"))
case("mixture", lambda z: 0.6 * F.cross_entropy(z, labels, reduction="none") + 0.4 * 4 * gkd(0, 2.0)(z))
case("common", lambda z: kl(log_softmax(other_teacher[:, : V - 3]), log_softmax(z[:, : V - 3])))


def uld(z):
    """ULDLoss of trl.experimental.gold, a sequence of one token at a time; its l1 is checked against the definition."""
    config = SimpleNamespace(uld_crossentropy_weight=0.0, uld_distillation_weight=1.0, uld_student_temperature=1.0,
                             uld_teacher_temperature=1.0, uld_skip_student_eos=False, uld_skip_teacher_eos=False,
                             use_extended_uld=False, uld_token_merge_strategy="observed")
    ids = torch.zeros(1, 1, dtype=torch.long)
    value = torch.stack([ULDLoss(config)(z[i][None, None], other_teacher[i][None, None], ids, ids, ids, ids) for i in range(N)])
    student = F.pad(torch.softmax(z, -1).sort(-1, descending=True).values, (0, 6))
    ours = (student - torch.softmax(other_teacher, -1).sort(-1, descending=True).values).abs().sum(-1)
    assert torch.allclose(value, ours, rtol=1e-13)
    return value


case("uld", uld)

matched = {7: 2, 0: 5, 12: 0, 3: 11, 18: 12}  # teacher's entry: student's


def gold_hybrid(z):
    """ULDLoss._compute_hybrid_uld_loss; it raises probabilities below 1e-8 to it, hence the tolerance."""
    one = SimpleNamespace(_teacher_matched_ids=set(matched), beta=0.5, hybrid_matched_weight=None,
                          mapping_tensor=torch.tensor([matched.get(j, -1) for j in range(V + 6)]))
    one._compute_jsd_loss_for_matched_tokens = lambda s, t: ULDLoss._compute_jsd_loss_for_matched_tokens(one, s, t)
    s, t = torch.softmax(z, -1), torch.softmax(other_teacher, -1)
    return torch.stack([ULDLoss._compute_hybrid_uld_loss(one, s[i : i + 1], t[i : i + 1]) for i in range(N)])


case("gold_hybrid", gold_hybrid, tolerance=1e-6)


def topk(alpha, tail):
    return lambda z: sdpo.compute_topk_self_distillation_loss(z, teacher, distillation_topk=K, distillation_alpha=alpha, distillation_add_tail=tail)


for alpha, label in ((0.0, "forward"), (1.0, "reverse"), (0.5, "jsd")):
    case("renormalised_" + label, topk(alpha, False), tolerance=1e-6)  # our support_logp are rounded to float32
    case("tail_" + label, topk(alpha, True), tolerance=1e-6)

# verl.trainer.distillation: what the "forward_kl_topk" mode computes (in float32), with its clamps.
import verl.trainer.distillation.fsdp.losses as verl_distillation
import verl.trainer.distillation.losses as verl_losses


def verl_topk(z, least, most):
    loss_config = SimpleNamespace(use_chunked_topk=False, log_prob_min_clamp=least)
    nested = lambda x: torch.nested.nested_tensor([x[:2], x[2:]], layout=torch.jagged)
    out = verl_distillation.compute_forward_kl_topk(
        z[None], nested(teacher_logp_at_teacher_ids), nested(teacher_ids), SimpleNamespace(distillation_loss=loss_config), "thd")
    value = out["distillation_losses"][0].clamp_min(0.0)  # the rest: compute_forward_kl_topk and distillation_loss of losses.py
    return value if most is None else value.clamp(-most, most)


case("top_k_forward_kl", lambda z: verl_topk(z, -10.0, 10.0), tolerance=1e-5)
case("top_k_forward_kl_free", lambda z: verl_topk(z, None, None), tolerance=1e-5)

# Process reward. Formulas of the OpenRLHF loss that was removed in 2026 and of token classification.
at_reward = lambda z: z[:, reward_tokens]
case("reward_hard", lambda z: F.cross_entropy(at_reward(z), reward_labels, reduction="none"))
case("reward_soft", lambda z: F.cross_entropy(at_reward(z), targets, reduction="none"))
two = rounded(torch.rand(N))
case("reward_soft_two", lambda z: -(two * log_softmax(z[:, [2, 9]])[:, 0] + (1 - two) * log_softmax(z[:, [2, 9]])[:, 1]))

# Token losses: value and slope by logp of every token.
B, T = 3, 10
logp, old, ref, rollout = (rounded(-3 * torch.rand(B, T) - 0.01) for _ in range(4))
ref[0, :4] = logp[0, :4] + rounded(torch.tensor([0.0, 12.0, -12.0, 2.5]))
old[0, 4:8] = logp[0, 4:8] + rounded(torch.tensor([-30.0, 30.0, 0.0, -0.5]))
token_cases = {}


def token_case(name, loss):
    l = logp.clone().requires_grad_(True)
    value = loss(l)
    (g,) = torch.autograd.grad(value.sum(), l)
    token_cases[name] = {"value": value.detach().flatten().tolist(), "slope": g.flatten().tolist()}


token_case("dft", lambda l: -l * l.exp().detach())  # trl SFT loss_type="dft"
from verl.trainer.ppo.core_algos import kl_penalty

for name in ("k1", "abs", "k2", "k3"):  # verl single-sample distillation with loss_max_clamp 10
    token_case("bounded_" + name, lambda l: kl_penalty(l, ref, name).clamp(-10.0, 10.0))
# A head's output 2 logp + 3 and the label e^ref; slopes are by the output, hence half of those by logp.
for name, loss in (("binary_cross_entropy", F.binary_cross_entropy_with_logits), ("squared_error", F.mse_loss)):
    token_case(name, lambda l: loss(2 * l + 3, ref.exp(), reduction="none"))
    token_cases[name]["slope"] = [x / 2 for x in token_cases[name]["slope"]]
# compute_sampled_token_self_distillation_loss: two entries whose log-probs are l and log(1 - e^l)
as_logits = lambda l: torch.stack([l, torch.log(-torch.expm1(l))], -1)
zeros = torch.zeros(B, T, dtype=torch.long)
low_ref = torch.minimum(ref, torch.tensor(-0.01, dtype=f64))
sampled = lambda l: (l - low_ref).detach() * l
own = lambda l: sdpo.compute_sampled_token_self_distillation_loss(as_logits(l), as_logits(low_ref), zeros, distillation_alpha=1.0)
assert torch.allclose(own(logp), sampled(logp), rtol=1e-12, atol=1e-12)
token_case("sampled_reverse_kl", own)
token_case("sampled_reverse_kl_weighted", lambda l: sdpo.apply_importance_sampling_clipping(own(l), l, old, 2.0))
# IWOPDTrainer._compute_iw_opd_loss
from trl.experimental.iw_opd.iw_opd_trainer import IWOPDTrainer

mask = torch.ones(B, T, dtype=torch.bool)
mask[1, 6:] = False
mask[2, 3] = False
recorded = {}
iw = SimpleNamespace(temperature=1.0, iw_opd_gamma=0.5, iw_opd_epsilon=1e-8, model=SimpleNamespace(training=True),
                     _metrics={"train": __import__("collections").defaultdict(list)})


def iw_opd(l):
    z = as_logits(l)
    one = IWOPDTrainer._compute_iw_opd_loss(iw, z, zeros, torch.where(mask, 0, -100), ref, rollout, num_items_in_batch=1)
    a = torch.where(mask, ref - rollout, torch.zeros_like(ref))
    before = a.abs().cumsum(1) - a.abs()
    w = torch.where(mask, 1 + 0.5 * (1 - before / a.abs().sum(1, keepdim=True).clamp_min(1e-8)), torch.zeros_like(a))
    recorded["weight"] = w
    value = -l * w * (ref - rollout)
    assert torch.allclose(value.sum(), one, rtol=1e-12), (value.sum(), one)
    (mine,) = torch.autograd.grad(value.sum(), l, retain_graph=True)
    (theirs,) = torch.autograd.grad(one, l, retain_graph=True)
    assert torch.allclose(mine, theirs, rtol=1e-12, atol=1e-12)
    return value


token_case("iw_opd", iw_opd)

flat = lambda x: finite(x.to(f64).flatten().tolist())
data = {
    "positions": N, "vocabulary": V, "support": K,
    "logits": flat(logits), "holes": flat(hole), "teacher": flat(teacher), "other_teacher": flat(other_teacher),
    "labels": labels.tolist(), "reward_tokens": reward_tokens, "reward_labels": reward_labels.tolist(),
    "matched_student": list(matched.values()), "matched_teacher": list(matched),
    "targets": flat(targets), "two": flat(two), "class_weight": flat(class_weight), "weight": flat(weight),
    "student_ids": student_ids.flatten().tolist(), "teacher_ids": teacher_ids.flatten().tolist(),
    "sampled": on_student.tolist(),
    "teacher_logp_at_student_ids": flat(teacher_logp_at_student_ids),
    "teacher_logp_at_teacher_ids": flat(teacher_logp_at_teacher_ids),
    "cases": cases,
    "rows": B, "tokens": T, "mask": mask.to(torch.int).flatten().tolist(),
    "fields": {"logp": flat(logp), "old_logp": flat(old), "ref_logp": flat(ref), "rollout_logp": flat(rollout), "weight": flat(recorded["weight"])},
    "low_ref": flat(low_ref),
    "token_cases": token_cases,
}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vocabulary.json")
with open(path, "w") as f:
    json.dump(data, f)
    f.write("\n")
