"""Which tokens a sampler keeps and with which probabilities, by NumPy, for tests/rollout and tests/device.

    python sampling.py        (NumPy and the standard library)

Writes sampling.json. The rules are those of vLLM's requests in the order in which its sampler applies them: allowed
ids, bad words, min_tokens, logit_bias, repetition, frequency and presence penalty on float32 logits; then temperature,
min_p, top_k, top_p. Equal logits go by id. Every case says its logits under the rules, the kept tokens by falling
probability, and their probabilities in double. Logits are multiples of 1/256, so the file has them exactly; cases where
a rounding could decide what is kept are refused.
"""

import json
import os

import numpy as np

NEUTRAL = dict(allowed_token_ids=[], bad_words=[], min_tokens=0, ending_ids=[], logit_bias=[], repetition_penalty=1.0,
               frequency_penalty=0.0, presence_penalty=0.0, temperature=1.0, top_k=-1, top_p=1.0, min_p=0.0)
PROMPT = [3, 17, 17, 40, 5, 8]
GENERATED = [21, 3, 9, 21, 21, 30]


def under_rules(logits, prompt, generated, r):
    """float32 logits after the rules."""
    x = logits.astype(np.float32).copy()
    if r["allowed_token_ids"]:
        others = np.ones(len(x), bool)
        others[r["allowed_token_ids"]] = False
        x[others] = -np.inf
    for word in r["bad_words"]:
        begin = word[:-1]
        if not begin or generated[-len(begin):] == begin:
            x[word[-1]] = -np.inf
    if len(generated) < r["min_tokens"]:
        x[r["ending_ids"]] = -np.inf
    for token, bias in r["logit_bias"]:
        x[token] += np.float32(bias)
    seen = sorted(set(prompt) | set(generated))
    rho = np.float32(r["repetition_penalty"])
    x[seen] = np.where(x[seen] > 0, x[seen] / rho, x[seen] * rho)
    counts = np.bincount(np.array(generated, np.int64), minlength=len(x)).astype(np.float32)
    x -= np.float32(r["frequency_penalty"]) * counts
    x -= np.float32(r["presence_penalty"]) * (counts > 0).astype(np.float32)
    return x


def kept_and_probabilities(x, r, margin=2e-5):
    """The kept ids by falling probability, equals by id, and their probabilities."""
    order = np.argsort(-x.astype(np.float64), kind="stable")
    order = order[np.isfinite(x[order])]
    if r["temperature"] == 0:
        return order[:1], np.ones(1)
    z = x[order].astype(np.float64) / r["temperature"]
    p = np.exp(z - z[0])
    p /= p.sum()
    if r["min_p"] > 0:
        ratio = p / p[0] / r["min_p"]
        assert np.all((abs(ratio - 1) > margin) | (z == z[0])), "min_p is decided by a rounding"
        order, p = order[ratio >= 1], p[ratio >= 1]
    if r["top_k"] > 0:
        order, p = order[:r["top_k"]], p[:r["top_k"]]
    p = p / p.sum()
    if r["top_p"] < 1:
        before = np.cumsum(p) - p
        assert np.all(abs(before - r["top_p"]) > margin), "top_p is decided by a rounding"
        order, p = order[before < r["top_p"]], p[before < r["top_p"]]
    return order, p / p.sum()


CASES = {
    "neutral": dict(),
    "temperature": dict(temperature=0.6),
    "greedy": dict(temperature=0),
    "min_p": dict(min_p=0.1),
    "min_p_warm": dict(min_p=0.05, temperature=1.7),
    "min_p_small": dict(min_p=1e-6, temperature=0.5),
    "min_p_one": dict(min_p=1.0),
    "min_p_top_k": dict(min_p=0.02, top_k=4),
    "top_k_min_p": dict(min_p=0.3, top_k=20),
    "min_p_top_p": dict(min_p=0.1, top_p=0.9, temperature=1.5),
    "all_three": dict(min_p=0.01, top_k=9, top_p=0.85, temperature=1.2),
    "repetition": dict(repetition_penalty=1.3),
    "aisbench": dict(repetition_penalty=1.03, temperature=0.5, top_k=10, top_p=0.95),
    "repetition_below_one": dict(repetition_penalty=0.8, top_k=7),
    "frequency": dict(frequency_penalty=0.7),
    "presence": dict(presence_penalty=1.5),
    "rewards": dict(frequency_penalty=-0.4, presence_penalty=-1.25, top_p=0.9),
    "penalties": dict(repetition_penalty=1.2, frequency_penalty=0.3, presence_penalty=0.6, min_p=0.03, temperature=0.9),
    "allowed": dict(allowed_token_ids=[2, 3, 21, 33, 40], top_p=0.99),
    "bad_words": dict(bad_words=[[12], [30, 14], [9, 30, 15], [21, 21, 30, 16], [5, 17], [40, 18]], top_k=30),
    "min_tokens": dict(min_tokens=7, ending_ids=[1, 22], min_p=0.01),
    "min_tokens_reached": dict(min_tokens=6, ending_ids=[1, 22], min_p=0.01),
    "bias": dict(logit_bias=[[7, 3.5], [21, -2.25], [40, -100.0]], temperature=0.8, top_p=0.8),
    "bias_before_penalty": dict(logit_bias=[[3, 4.0], [9, -6.0]], repetition_penalty=1.5),
    "everything": dict(allowed_token_ids=list(range(0, 48, 2)) + [3, 9, 21], bad_words=[[4], [30, 6]], min_tokens=9,
                       ending_ids=[2], logit_bias=[[8, 1.5], [21, 2.0]], repetition_penalty=1.1, frequency_penalty=0.2,
                       presence_penalty=0.1, temperature=0.75, min_p=0.004, top_k=15, top_p=0.93),
    "greedy_everything": dict(bad_words=[[12], [30, 14]], logit_bias=[[21, 6.0]], repetition_penalty=1.9,
                              frequency_penalty=0.9, presence_penalty=0.4, temperature=0),
}


def case(name, number):
    r = NEUTRAL | CASES[name]
    vocabulary = 1500 if name in ("all_three", "penalties") else 48
    rng = np.random.default_rng([11, number])
    logits = np.round(rng.normal(0, 2.5, vocabulary) * 256) / 256
    if name in ("min_p_one", "greedy"):  # equals go by id
        logits[[31, 6, 20]] = 8.5
    x = under_rules(logits, PROMPT, GENERATED, r)
    kept, p = kept_and_probabilities(x, r)
    return r | dict(
        name=name, logits=logits.tolist(), prompt=PROMPT, generated=GENERATED,
        ruled=[float(v) if np.isfinite(v) else None for v in x], kept=kept.tolist(), p=p.tolist())


if __name__ == "__main__":
    cases = [case(name, number) for number, name in enumerate(CASES)]
    for c in cases:  # each rule and each cut of a case must show
        x = np.array([-np.inf if v is None else v for v in c["ruled"]])
        alone = np.array(c["logits"])
        named = {k for k in CASES[c["name"]] if k not in ("temperature", "top_k", "top_p", "min_p", "ending_ids")}
        if c["name"] != "min_tokens_reached":
            assert bool(named) == (not np.array_equal(x, alone)), c["name"]
        for key in named - {"min_tokens"}:
            without = under_rules(alone, PROMPT, GENERATED, c | {key: NEUTRAL[key]})
            assert not np.array_equal(without, x), (c["name"], key)
        cuts = [k for k in ("top_k", "top_p", "min_p") if c[k] != NEUTRAL[k] and c["temperature"] > 0]
        more = [k for k in cuts if len(kept_and_probabilities(x, c | {k: NEUTRAL[k]}, margin=0)[0]) > len(c["kept"])]
        hidden = {"top_k", "min_p"} if {"top_k", "min_p"} <= set(cuts) else set()  # the shorter of two beginnings counts
        assert set(cuts) - set(more) <= hidden and (not cuts or more), (c["name"], cuts, more)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "sampling.json"), "w") as f:
        json.dump({"cases": cases}, f, separators=(",", ":"))
        f.write("\n")
