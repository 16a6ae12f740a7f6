"""Values of every token and all parameter gradients of tiny score models by `transformers`.

Writes score.json: Qwen2ForSequenceClassification and Qwen3ForTokenClassification (its head has a bias) with one label.
Weights are the formula of nn_parity.py; row r of all tokens has the weight ((5 r) % 7 - 3) / 4, and none of the second
sequence has one.

    pip install -r requirements.txt && python score.py
"""

import json
import os

import torch
from transformers import Qwen2Config, Qwen2ForSequenceClassification, Qwen3Config, Qwen3ForTokenClassification

from nn_parity import fill, flat, norm

LENGTHS = [7, 5, 13]
SIZES = dict(vocab_size=40, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2)
MODELS = {
    "sequence": (Qwen2Config, Qwen2ForSequenceClassification, dict(tie_word_embeddings=True)),
    "token": (Qwen3Config, Qwen3ForTokenClassification, dict(head_dim=6, tie_word_embeddings=False)),
}


def run(name):
    Config, Model, further = MODELS[name]
    config = Config(**SIZES, **further, num_labels=1, classifier_dropout=0.0, rms_norm_eps=1e-6, rope_theta=10000.0,
                    max_position_embeddings=64, use_cache=False, pad_token_id=None, bos_token_id=None, eos_token_id=None)
    model = Model(config).to(torch.float64)
    fill(model)
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = norm.__get__(module)
    values, loss, r = [], 0, 0
    for s, n in enumerate(LENGTHS):
        ids = torch.tensor([[(11 * s + 7 * t + t * t) % SIZES["vocab_size"] for t in range(n)]])
        v = model.score(model.model(ids).last_hidden_state)[0, :, 0]
        if name == "sequence":  # what the class itself returns is the value of the last token
            assert torch.allclose(model(ids).logits[0, 0], v[-1], atol=1e-12)
        else:
            assert torch.allclose(model(ids).logits[0, :, 0], v, atol=1e-12)
        weight = torch.tensor([((5 * (r + t)) % 7 - 3) / 4 if s != 1 else 0.0 for t in range(n)], dtype=torch.float64)
        loss = loss + (weight * v).sum()
        r += n
        values.append(v.detach())
    loss.backward()
    return {
        "values": flat(torch.cat(values), 8),
        "gradients": {k: flat(p.grad, 6) for k, p in sorted(model.named_parameters())},
    }


def main():
    torch.set_num_threads(1)
    out = {"lengths": LENGTHS, "models": {name: run(name) for name in MODELS}}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "score.json")
    with open(path, "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")
    print(os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
