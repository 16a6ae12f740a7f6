"""Policy optimisation on stored responses, from the formulas of verl's documentation and the papers named below.

GRPO: Shao et al. 2024; RLOO: Ahmadian et al. 2024; REINFORCE++: Hu 2025; GAE: Schulman et al. 2016; dual clip: Ye et
al. 2020; DAPO: Yu et al. 2025; k1, k3: Schulman 2020. Every mean is over the whole mini-batch of an update.
"""

import re
from dataclasses import dataclass, field

import torch

from first_steps_common import (UNDECAYED, Trainee, chosen_log_probs, constant, cosine, cosine_with_min_lr, load,
                                log_probs, rows, tokenizer, values)

PROMPTS = rows("prompts.jsonl")
LIMIT = 16  # of the responses


@dataclass
class Setting:
    estimator: str
    mini: int = 4  # prompts
    epochs: int = 1
    lr: float = 1e-3
    warmup: int = 0
    cosine: bool = False
    temperature: float = 1.0
    low: float = 0.2
    high: float = 0.2
    dual: float = 3.0
    agg: str = "token-mean"
    entropy: float = 0.0
    kl_loss: float = 0.0
    kl_reward: float = 0.0
    kl_horizon: float = 0.0  # trajectories; 0: the coefficient stays
    gspo: bool = False
    model: str = "qwen2"
    gamma: float = 1.0
    lam: float = 1.0
    overlong: int = 0  # tokens of the buffer
    by_std: bool = True
    critic_lr: float = 0.0
    critic_warmup: int = 0
    value_clip: float = 0.5
    weight_decay: float = 0.01
    openrlhf: bool = False  # its normalisation, optimizer and schedule


@dataclass
class Trajectory:
    prompt: list
    response: list
    group: int
    score: float
    old: torch.Tensor = None
    ref: torch.Tensor = None
    reward: torch.Tensor = None  # of each token
    value: torch.Tensor = None
    advantage: torch.Tensor = None
    returns: torch.Tensor = None
    notes: dict = field(default_factory=dict)

    @property
    def ids(self):
        return self.prompt + self.response


def gsm8k_score(text, truth):
    found = re.findall(r"#### (-?[0-9.,]+)", text[-300:])
    return float(bool(found) and found[-1].replace(",", "") == truth)


def trajectories(step, s):
    out = []
    for line in rows("rollouts.jsonl"):
        if line["step"] == step:
            text = tokenizer.decode(line["response_ids"], skip_special_tokens=True)
            score = gsm8k_score(text, PROMPTS[line["row"]]["reward_model"]["ground_truth"])
            if s.overlong:
                score += min(0.0, -(len(line["response_ids"]) - (LIMIT - s.overlong)) / s.overlong)
            out.append(Trajectory(line["prompt_ids"], line["response_ids"], len(out) // 3, score))
    return out


def response_log_probs(model, t, s):
    return chosen_log_probs(model, t.ids, len(t.prompt), s.temperature)


def entropies(model, t, s):
    table = log_probs(model, t.ids, s.temperature)[len(t.prompt) - 1:-1]
    return -(table.exp() * table).sum(-1)


def response_values(model, t):
    return values(model, t.ids)[len(t.prompt) - 1:-1]


def aggregate(parts, how):
    if how == "token-mean":
        return torch.cat(parts).sum() / sum(len(p) for p in parts)
    per_row = {"seq-mean-token-mean": lambda p: p.mean(), "seq-mean-token-sum": lambda p: p.sum()}[how]
    return torch.stack([per_row(p) for p in parts]).mean()


def k3(d):
    """Of d = log p - log q, within verl's bounds."""
    d = (-d).clamp(-20, 20)
    return (d.exp() - d - 1).clamp(-10, 10)


def whiten(batch, name, population=False):
    every = torch.cat([getattr(t, name) for t in batch])
    mean, scale = every.mean(), torch.rsqrt(every.var(unbiased=True) + 1e-8)
    if population:
        scale = torch.rsqrt(every.var(unbiased=False).clamp(min=1e-8))
    for t in batch:
        t.advantage = (getattr(t, name) - mean) * scale


def estimate(batch, s):
    totals = torch.stack([t.reward.sum() for t in batch])
    for i, t in enumerate(batch):
        group = totals[[k for k, other in enumerate(batch) if other.group == t.group]]
        if s.estimator == "grpo":
            a = totals[i] - group.mean()
            a = a / (group.std(unbiased=True) + 1e-6) if s.by_std else a
        elif s.estimator == "rloo":
            a = totals[i] - (group.sum() - totals[i]) / (len(group) - 1)
        elif s.estimator == "reinforce_plus_plus_baseline":
            a = totals[i] - group.mean()
        else:
            break
        t.advantage = t.returns = a.expand(len(t.response))
    if s.estimator == "reinforce_plus_plus_baseline":
        whiten(batch, "advantage")
        for t in batch:
            t.returns = t.advantage
    if s.estimator == "reinforce_plus_plus":
        for t in batch:
            g, out = 0.0, []
            for r in reversed(t.reward):
                g = r + s.gamma * g
                out.insert(0, g)
            t.returns = torch.stack(out)
        whiten(batch, "returns", s.openrlhf)
    if s.estimator == "gae":
        for t in batch:
            next_value, a, out = 0.0, 0.0, []
            for r, v in zip(reversed(t.reward), reversed(t.value)):
                a = r + s.gamma * next_value - v + s.gamma * s.lam * a
                next_value = v
                out.insert(0, a)
            t.notes["raw"] = torch.stack(out)
            t.returns = t.notes["raw"] + t.value
            t.advantage = t.notes["raw"]
        whiten(batch, "advantage", s.openrlhf)


def actor_loss(model, batch, s):
    policy, entropy, kl, clipped, lower, ppo_kl = [], [], [], [], [], []
    for t in batch:
        logp = response_log_probs(model, t, s)
        x = (logp - t.old).clamp(-20, 20)
        if s.gspo:  # the ratio of the sequence, its gradient given to the tokens
            ratio = (logp - logp.detach() + x.detach().mean()).clamp(max=10).exp()
        else:
            ratio = x.exp()
        plain, bounded = -t.advantage * ratio, -t.advantage * ratio.clamp(1 - s.low, 1 + s.high)
        worse = torch.maximum(plain, bounded)
        lowest = worse if s.gspo else torch.minimum(worse, -t.advantage * s.dual)
        policy.append(torch.where(t.advantage < 0, lowest, worse))
        clipped.append((bounded > plain).to(x.dtype))
        lower.append(((t.advantage < 0) & (lowest < worse)).to(x.dtype))
        ppo_kl.append(-x.detach())
        if s.entropy:
            entropy.append(entropies(model, t, s))
        if s.kl_loss:
            kl.append(k3(logp - t.ref))
    loss = pg = aggregate(policy, s.agg)
    row = {"pg_loss": pg, "pg_clipfrac": torch.cat(clipped).mean(), "pg_clipfrac_lower": torch.cat(lower).mean(),
           "ppo_kl": torch.cat(ppo_kl).mean()}
    if s.entropy:
        loss = loss - s.entropy * aggregate(entropy, s.agg)
    if s.kl_loss:
        row["kl_loss"] = aggregate(kl, s.agg)
        loss = loss + s.kl_loss * row["kl_loss"]
    return loss, row


def critic_loss(model, batch, s):
    parts, clipped, now = [], [], []
    for t in batch:
        v = response_values(model, t)
        near = torch.maximum(torch.minimum(v, t.value + s.value_clip), t.value - s.value_clip)
        a, b = (v - t.returns) ** 2, (near - t.returns) ** 2
        parts.append(torch.maximum(a, b))
        clipped.append((b > a).to(v.dtype))
        now.append(v.detach())
    loss = 0.5 * aggregate(parts, "token-mean")
    return loss, {"vf_loss": loss, "vf_clipfrac": torch.cat(clipped).mean(), "vpred_mean": torch.cat(now).mean()}


def updates(trainee, batch, s, factor, objective):
    """Means over the updates of what an update logs; factor(u) is the schedule's at update u of the step."""
    size, logged = s.mini * 3, []
    for _ in range(s.epochs):
        for i in range(0, len(batch), size):
            loss, row = objective(trainee.model, batch[i:i + size], s)
            row["grad_norm"] = trainee.update(loss, factor(len(logged)))
            logged.append({k: v.item() if torch.is_tensor(v) else v for k, v in row.items()})
    return {k: sum(r[k] for r in logged) / len(logged) for k in logged[0]}


def run(dtype, steps=4, **settings):
    s = Setting(**settings)
    own = dict(betas=(0.9, 0.95), undecayed=UNDECAYED) if s.openrlhf else {}
    actor = Trainee(load(s.model, dtype), s.lr, weight_decay=s.weight_decay, **own)
    critic = Trainee(load("score", dtype), s.critic_lr, weight_decay=s.weight_decay, **own) if s.critic_lr else None
    reference = load(s.model, dtype)
    schedule = cosine(s.warmup, steps) if s.cosine else constant(s.warmup)
    each = 4 // s.mini * s.epochs  # updates of a step
    if s.openrlhf:  # its schedule advances with every update, and the critic has one too
        schedule = cosine_with_min_lr(s.warmup, steps * each)
    at = lambda step, u: schedule((step - 1) * each + u if s.openrlhf else step - 1)
    slow = at if s.openrlhf else lambda step, u: 1.0
    log = []
    for step in range(1, steps + 1):
        batch = trajectories(step, s)
        with torch.no_grad():
            for t in batch:
                t.old = response_log_probs(actor.model, t, s)
                t.ref = response_log_probs(reference, t, s)
                t.reward = torch.zeros(len(t.response), dtype=dtype)
                t.reward[-1] = t.score
                t.notes["kl"] = t.old - t.ref
                t.reward -= s.kl_reward * t.notes["kl"]
                if critic:
                    t.value = response_values(critic.model, t)
            entropy = aggregate([entropies(actor.model, t, s) for t in batch], s.agg)
            estimate(batch, s)
        row = {"actor/entropy": entropy}
        if s.kl_reward:
            kl = torch.stack([t.notes["kl"].mean() for t in batch]).mean()
            row.update({"actor/reward_kl_penalty": kl, "actor/reward_kl_penalty_coeff": s.kl_reward})
            if s.kl_horizon:
                s.kl_reward *= 1 + min(max(kl.item() / 0.1 - 1, -0.2), 0.2) * len(batch) / s.kl_horizon
        stat = lambda name, x: row.update({f"{name}/mean": x.mean(), f"{name}/max": x.max(), f"{name}/min": x.min()})
        stat("critic/score", torch.tensor([t.score for t in batch], dtype=dtype))
        stat("critic/rewards", torch.stack([t.reward.sum() for t in batch]))
        stat("critic/advantages", torch.cat([t.advantage for t in batch]))
        stat("critic/returns", torch.cat([t.returns for t in batch]))
        stat("response_length", torch.tensor([len(t.response) for t in batch], dtype=dtype))
        if critic:
            value, returns = torch.cat([t.value for t in batch]), torch.cat([t.returns for t in batch])
            stat("critic/values", value)
            row["critic/vf_explained_var"] = 1 - (returns - value).var() / (returns.var() + 1e-5)
            found = updates(critic, batch, s, lambda u: slow(step, u), critic_loss)
            row.update({f"critic/{k}": v for k, v in found.items()})
        if step >= s.critic_warmup:
            found = updates(actor, batch, s, lambda u: at(step, u), actor_loss)
            row.update({f"actor/{k}": v for k, v in found.items()})
            row["actor/lr"] = s.lr * at(step, each - 1)
        log.append({k: v.item() if torch.is_tensor(v) else v for k, v in row.items()})
    return log
