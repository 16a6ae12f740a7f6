"""Gradients of LoRA adapters by `peft`, and an adapter folder that it saved.

Writes lora.json and lora_adapter/. Base weights are the formula of nn_parity.py, number k in sorted order of names; the
adapters' parameters are the same formula with numbers from 100 on, in sorted order of "<module>.lora_A.weight" and
"<module>.lora_B.weight". The loss of the causal model is that of nn_parity.py without entropies, of the score model that
of score.py.

    pip install -r requirements.txt && python lora.py
"""

import json
import os
import shutil
import tempfile

import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForSequenceClassification

from nn_parity import fill, flat, norm, value

HERE = os.path.dirname(os.path.abspath(__file__))
LENGTHS = [7, 5, 13]
SIZES = dict(vocab_size=40, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, rms_norm_eps=1e-6, rope_theta=10000.0, max_position_embeddings=64, use_cache=False,
             pad_token_id=None, bos_token_id=None, eos_token_id=None)
CASES = {
    "causal": dict(r=3, lora_alpha=5, target_modules="all-linear", task_type=TaskType.CAUSAL_LM),
    "score": dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "up_proj", "down_proj"],
                  task_type=TaskType.SEQ_CLS, modules_to_save=["score"]),
}


def base(name):
    if name == "causal":
        model = Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True))
    else:
        model = Qwen3ForSequenceClassification(
            Qwen3Config(**SIZES, head_dim=6, tie_word_embeddings=False, num_labels=1))
    model = model.to(torch.float64)
    fill(model)
    return model


def tokens(s):
    return [(11 * s + 7 * t + t * t) % SIZES["vocab_size"] for t in range(LENGTHS[s])]


def short(name):
    """base_model.model.model.layers.0.mlp.up_proj.lora_A.default.weight -> model.layers.0.mlp.up_proj.lora_A.weight"""
    return name.removeprefix("base_model.model.").replace(".default", "").replace(".modules_to_save", "")


def run(name):
    model = get_peft_model(base(name), LoraConfig(lora_dropout=0.0, bias="none", **CASES[name]))
    model.base_model.model.config._name_or_path = "org/tiny"
    model.peft_config["default"].base_model_name_or_path = "org/tiny"
    trained = {short(n): p for n, p in model.named_parameters() if p.requires_grad}
    adapters = sorted(n for n in trained if ".lora_" in n)
    for k, n in enumerate(adapters):
        p = trained[n]
        v = torch.tensor([value(100 + k, i) for i in range(p.numel())], dtype=torch.float64)
        p.data.copy_(v.reshape(p.shape))
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = norm.__get__(module)
    inner, out, loss, r = model.base_model.model, [], 0, 0
    for s, n in enumerate(LENGTHS):
        ids = tokens(s)
        if name == "causal":
            lp = torch.log_softmax(inner(torch.tensor([ids])).logits[0], -1)
            v = torch.stack([lp[t, (3 * ids[t] + 1) % SIZES["vocab_size"]] for t in range(n)])
        else:
            v = inner.score(inner.model(torch.tensor([ids])).last_hidden_state)[0, :, 0]
        weight = torch.tensor([((5 * (r + t)) % 7 - 3) / 4 for t in range(n)], dtype=torch.float64)
        loss = loss + (weight * v).sum()
        r += n
        out.append(v.detach())
    loss.backward()
    if name == "causal":
        with tempfile.TemporaryDirectory() as place:
            model.to(torch.float32).save_pretrained(place)
            os.makedirs(os.path.join(HERE, "lora_adapter"), exist_ok=True)
            for file in "adapter_config.json", "adapter_model.safetensors":
                shutil.copy(os.path.join(place, file), os.path.join(HERE, "lora_adapter", file))
            # what the folder means: the same outputs as before
            again = PeftModel.from_pretrained(base(name).to(torch.float32), place)
            ids = torch.tensor([tokens(0)])
            assert torch.allclose(again(ids).logits, model(ids).logits, atol=1e-6)
    return {
        "rank": CASES[name]["r"],
        "alpha": CASES[name]["lora_alpha"],
        "out": flat(torch.cat(out), 8),
        "gradients": {n: flat(p.grad, 6) for n, p in sorted(trained.items())},
    }


def main():
    torch.set_num_threads(1)
    out = {"lengths": LENGTHS, "cases": {name: run(name) for name in CASES}}
    path = os.path.join(HERE, "lora.json")
    with open(path, "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")
    print(os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
