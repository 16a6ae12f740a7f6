"""One optimizer step of GRPO on a tiny Qwen2 by `transformers`, autograd and torch.optim.AdamW, in float64.

Writes policy_step.json. Advantages, losses and aggregations are written out from their published formulas (GRPO:
Shao et al. 2024, dual clip: Ye et al. 2020, k2 and k3: Schulman 2020, Dr. GRPO: Liu et al. 2025). Weights are not
stored: they are the formula of nn_parity.py.

    pip install -r requirements.txt && python policy_step.py
"""

import json
import os

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from nn_parity import fill, flat, norm

MODEL = dict(vocab_size=43, hidden_size=16, intermediate_size=18, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, tie_word_embeddings=True)
TEMPERATURE = 0.8
SAMPLES = 3
PROMPTS = [4, 4, 4, 7, 7, 7]
RESPONSES = [5, 1, 9, 3, 6, 2]
REWARDS = [1.0, 0.0, 0.0, 0.25, 1.0, 1.0]
CASES = {
    "token_mean_k3": dict(agg="token-mean", low=0.2, high=0.2, c=3.0, kl="k3", kl_coef=0.1, entropy=0.0),
    "sequence_mean_entropy": dict(agg="seq-mean-token-mean", low=0.2, high=0.28, c=3.0, kl=None, kl_coef=0.0,
                                  entropy=0.01),
    "fixed_length_k2": dict(agg="seq-mean-token-sum-norm", low=0.1, high=0.3, c=1.2, kl="k2", kl_coef=0.05,
                            entropy=0.003, length=12),
}


def tokens(i):
    return [(11 * i + 7 * t + t * t) % MODEL["vocab_size"] for t in range(PROMPTS[i] + RESPONSES[i])]


def model_of_formula():
    config = Qwen2Config(**MODEL, rms_norm_eps=1e-6, rope_theta=10000.0, max_position_embeddings=64, use_cache=False,
                         attn_implementation="sdpa", pad_token_id=None, bos_token_id=None, eos_token_id=None)
    model = Qwen2ForCausalLM(config).to(torch.float64)
    fill(model)
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = norm.__get__(module)
    return model


def score(model):
    """Log-probs and entropies of the response tokens of every trajectory."""
    out = []
    for i, prompt in enumerate(PROMPTS):
        ids = tokens(i)
        z = model(torch.tensor([ids])).logits[0, prompt - 1:-1]
        lp = torch.log_softmax(z / TEMPERATURE, -1)
        chosen = lp.gather(1, torch.tensor(ids[prompt:])[:, None])[:, 0]
        out.append((chosen, -(lp.exp() * lp).sum(-1)))
    return out


def advantages(rewards=REWARDS):
    r = torch.tensor(rewards, dtype=torch.float64).reshape(-1, SAMPLES)
    return ((r - r.mean(1, keepdim=True)) / (r.std(1, keepdim=True) + 1e-6)).flatten()


def aggregate(rows, how, length):
    if how == "token-mean":
        return torch.cat(rows).mean()
    if how == "seq-mean-token-mean":
        return torch.stack([row.mean() for row in rows]).mean()
    return torch.stack([row.sum() for row in rows]).mean() / length


def around(now):
    """Old and reference log-probs near those of the model; never near a bound of the clip: the branches are the same in
    float32."""
    old, ref, j = [], [], 0
    for logp in now:
        k = torch.arange(j, j + len(logp))
        old.append((logp + ((k * 5 % 7) - 3) * 0.14 + 0.06).float().double())
        ref.append((logp + ((k * 3 % 5) - 2) / 8).float().double())
        j += len(logp)
    return old, ref


def run(case, old, ref, adv, model, score=score):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    policy, kl, entropy, clipped, lower, ppo_kl = [], [], [], [], [], []
    for (logp, h), o, r, a in zip(score(model), old, ref, adv):
        ratio = (logp - o).exp()
        plain, clip = -a * ratio, -a * ratio.clamp(1 - case["low"], 1 + case["high"])
        worse = torch.maximum(plain, clip)
        bounded = torch.minimum(worse, -a * case["c"])
        policy.append(bounded if a < 0 else worse)
        clipped.append((clip > plain).double())
        lower.append(((-a * case["c"] < worse) & (a < 0)).double())
        ppo_kl.append(o - logp)
        d = logp - r
        kl.append((-d).exp() + d - 1 if case["kl"] == "k3" else d * d / 2)
        entropy.append(h)
    mean = lambda rows: aggregate(rows, case["agg"], case.get("length"))
    loss = mean(policy) - case["entropy"] * mean(entropy) + (case["kl_coef"] * mean(kl) if case["kl"] else 0)
    loss.backward()
    gradient = {n: p.grad.clone() for n, p in model.named_parameters()}
    length = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    optimizer.step()
    result = dict(case, pg_loss=mean(policy).item(), loss=loss.item(), entropy_loss=mean(entropy).item(),
                  pg_clipfrac=torch.cat(clipped).mean().item(), pg_clipfrac_lower=torch.cat(lower).mean().item(),
                  ppo_kl=torch.cat(ppo_kl).mean().item(), grad_norm=length)
    if case["kl"]:
        result["kl_loss"] = mean(kl).item()
    if case["agg"] == "token-mean":
        result["gradients"] = {n: flat(g, 6) for n, g in sorted(gradient.items())}
        result["updated"] = {n: flat(p, 6) for n, p in sorted(model.named_parameters())}
    return result


def main():
    torch.set_num_threads(1)
    with torch.no_grad():
        now = [logp for logp, _ in score(model_of_formula())]
    old, ref = around(now)
    adv = advantages()
    out = {"model": MODEL, "temperature": TEMPERATURE, "samples": SAMPLES, "prompts": PROMPTS,
           "rewards": REWARDS, "tokens": [tokens(i) for i in range(len(PROMPTS))],
           "logp": [flat(x, 9) for x in now], "old_logp": [flat(x, 9) for x in old], "ref_logp": [flat(x, 9) for x in ref],
           "advantages": flat(adv, 9), "lr": 1e-2, "weight_decay": 0.01, "grad_clip": 1.0,
           "cases": {name: run(case, old, ref, adv, model_of_formula()) for name, case in CASES.items()}}
    for name, case in out["cases"].items():
        print(name, {k: v for k, v in case.items() if isinstance(v, float)})
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "policy_step.json")
    with open(path, "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")
    print(os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
