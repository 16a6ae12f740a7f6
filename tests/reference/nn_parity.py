"""Logits, log-probs, entropies and all parameter gradients of tiny Qwen2, Qwen2.5 and Qwen3 models by `transformers`.

Writes nn_parity.json. Weights are not stored: value i of the parameter with number k in sorted order of names is a
formula that tests/nn/model/parity_test.cpp repeats, exact in float32. Gradients are stored as their
float64 values rounded to 6 digits (the test allows 1e-5).

    pip install -r requirements.txt && python nn_parity.py
"""

import json
import os

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

MODELS = {
    # family, sizes; every case has grouped queries, odd lengths and a head size that is no multiple of a vector;
    # rotary tables are float32 in `transformers` whatever the model's type, and so here
    "qwen2": dict(family="qwen2", vocab_size=43, hidden_size=16, intermediate_size=18, num_hidden_layers=2,
                  num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=True),
    "qwen2_5_tied": dict(family="qwen2", vocab_size=40, hidden_size=16, intermediate_size=28, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen2_5_untied": dict(family="qwen2", vocab_size=40, hidden_size=12, intermediate_size=17, num_hidden_layers=2,
                           num_attention_heads=3, num_key_value_heads=1, tie_word_embeddings=False),
    "qwen3": dict(family="qwen3", vocab_size=40, hidden_size=16, intermediate_size=28, num_hidden_layers=2,
                  num_attention_heads=4, num_key_value_heads=2, head_dim=10, tie_word_embeddings=False),
    "qwen3_tied_bias": dict(family="qwen3", vocab_size=40, hidden_size=16, intermediate_size=20, num_hidden_layers=1,
                            num_attention_heads=2, num_key_value_heads=1, head_dim=12, tie_word_embeddings=True,
                            attention_bias=True),
}
TEMPERATURE = 0.75
LENGTHS = [7, 1, 19]


def value(k: int, i: int) -> float:
    """In [-1/2, 1/2), a multiple of 2^-16: exact in float32 on both sides."""
    x = (i * 2654435761 + k * 40503 * 65537 + 12345) & 0xFFFFFFFF
    x ^= x >> 15
    x = (x * 2246822519) & 0xFFFFFFFF
    x ^= x >> 13
    return ((x >> 16) - 32768) / 65536


def norm(self, x):
    """RMSNorm in the type of its input: the original drops to float32 whatever the model's type."""
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def fill(model):
    for k, (name, p) in enumerate(sorted(model.named_parameters())):
        v = torch.tensor([value(k, i) for i in range(p.numel())], dtype=torch.float64).reshape(p.shape)
        p.data.copy_(1 + v * 0.5 if "norm" in name else v)


def tokens(vocabulary):
    return [[(11 * s + 7 * t + t * t) % vocabulary for t in range(n)] for s, n in enumerate(LENGTHS)]


def model_of(spec):
    spec = dict(spec)
    family = spec.pop("family")
    common = dict(rms_norm_eps=1e-6, rope_theta=10000.0, max_position_embeddings=64, use_cache=False,
                  attn_implementation="sdpa", pad_token_id=None, bos_token_id=None, eos_token_id=None)
    config = (Qwen2Config if family == "qwen2" else Qwen3Config)(**spec, **common)
    assert config.rope_parameters["rope_theta"] == 10000.0
    return (Qwen2ForCausalLM if family == "qwen2" else Qwen3ForCausalLM)(config)


def run(model, dtype):
    """Logits, log-probs, entropies and gradients of the model in that type."""
    model = model.to(dtype)
    vocabulary = model.config.vocab_size
    fill(model)
    if dtype == torch.float64:
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):
                module.forward = norm.__get__(module)
    model.train()
    logits, logp, entropy, loss, n = [], [], [], 0, 0
    for ids in tokens(vocabulary):
        z = model(torch.tensor([ids])).logits[0]
        logits.append(z.detach())
        # every row but the first of each sequence predicts (3 * id + 1) mod V; a sequence of one token keeps its row
        rows = range(1, len(ids)) if len(ids) > 1 else range(1)
        target = torch.tensor([(3 * ids[r] + 1) % vocabulary for r in rows])
        lp = torch.log_softmax(z[list(rows)] / TEMPERATURE, -1)
        h = -(lp.exp() * lp).sum(-1)
        chosen = lp.gather(1, target[:, None])[:, 0]
        weight = torch.tensor([((n + j) * 5 % 7 - 3) / 4 for j in range(len(rows))], dtype=dtype)
        bonus = torch.tensor([((n + j) * 3 % 5 - 1) / 8 for j in range(len(rows))], dtype=dtype)
        loss = loss + (weight * chosen).sum() + (bonus * h).sum()
        n += len(rows)
        logp.append(chosen.detach())
        entropy.append(h.detach())
    loss.backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    return torch.cat(logits), torch.cat(logp), torch.cat(entropy), grads


def flat(t, digits):
    return [float(f"{x:.{digits}g}") for x in t.flatten().tolist()]


def golden(make_model, spec):
    exact, single = (run(make_model(spec), dtype) for dtype in (torch.float64, torch.float32))
    worst = max(float((single[3][k].double() - g).norm() / g.norm()) for k, g in exact[3].items() if g.norm() > 1e-9)
    return {
        "config": spec,
        "logits": flat(exact[0], 7),
        "logp": flat(exact[1], 8),
        "entropy": flat(exact[2], 8),
        "gradients": {k: flat(g, 6) for k, g in sorted(exact[3].items())},
        # how far float32 `transformers` itself is from float64: max over parameters of ||difference|| / ||gradient||
        "float32_gradient_error": worst,
        "float32_logit_error": float((single[0].double() - exact[0]).norm() / exact[0].norm()),
    }


def write(name, make_model, models, **more):
    torch.set_num_threads(1)
    out = {"temperature": TEMPERATURE, "lengths": LENGTHS, **more,
           "models": {key: golden(make_model, spec) for key, spec in models.items()}}
    for key, model in out["models"].items():
        print(key, model["float32_gradient_error"], model["float32_logit_error"])
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")
    print(os.path.getsize(path), "bytes")


if __name__ == "__main__":
    write("nn_parity.json", model_of, MODELS)
