"""What nn_parity.py says of Qwen2 and Qwen3, of tiny Llama models and of scaled rotary positions: writes nn_families.json.

Beside the models: the frequencies of published models' config.json ("ropes"), and the scores of two Llama score models.

    pip install -r requirements.txt && python nn_families.py
"""

import copy

import torch
from transformers import (LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, LlamaForTokenClassification,
                          Qwen2Config, Qwen2ForCausalLM)
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

import nn_parity

FAMILIES = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
SIZES = dict(vocab_size=24, hidden_size=8, intermediate_size=13, num_hidden_layers=1, num_attention_heads=2,
             num_key_value_heads=1, head_dim=16)
# Every model has frequencies that stay, that are divided and that are in between.
MODELS = {
    "llama3": dict(family="llama", **SIZES, tie_word_embeddings=False, rope_theta=10000.0,
                   rope_scaling=dict(**LLAMA3, original_max_position_embeddings=64)),
    "llama_plain_tied": dict(family="llama", **(SIZES | dict(num_hidden_layers=2, head_dim=None)),
                             tie_word_embeddings=True, rope_theta=500000.0),
    "qwen2_5_yarn": dict(family="qwen2", **SIZES, tie_word_embeddings=True, rope_theta=10000.0,
                         rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=64)),
}
# As published, and Qwen2.5's with what its page says to add for long texts.
ROPES = {
    "Llama-3.1-8B": dict(head_dim=128, rope_theta=500000.0, max_position_embeddings=131072,
                         rope_scaling=dict(**LLAMA3, original_max_position_embeddings=8192)),
    "Llama-3.2-1B": dict(head_dim=64, rope_theta=500000.0, max_position_embeddings=131072,
                         rope_scaling=dict(LLAMA3, factor=32.0, original_max_position_embeddings=8192)),
    "Qwen2.5-7B": dict(head_dim=128, rope_theta=1000000.0, max_position_embeddings=32768,
                       rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=32768)),
    "Qwen2.5-0.5B, its own attention_factor": dict(
        head_dim=64, rope_theta=1000000.0, max_position_embeddings=131072,
        rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768, attention_factor=1.25,
                          beta_fast=24.0, beta_slow=2.0)),
    "yarn with mscale": dict(
        head_dim=64, rope_theta=10000.0, max_position_embeddings=163840,
        rope_scaling=dict(rope_type="yarn", factor=40.0, original_max_position_embeddings=4096, mscale=1.0,
                          mscale_all_dim=0.707, beta_fast=32, beta_slow=1, truncate=False)),
    "linear": dict(head_dim=64, rope_theta=10000.0, max_position_embeddings=16384,
                   rope_scaling=dict(rope_type="linear", factor=4.0)),
    "Llama-2-7B": dict(head_dim=128, rope_theta=10000.0, max_position_embeddings=4096),
}
COMMON = dict(rms_norm_eps=1e-6, max_position_embeddings=64, use_cache=False, attn_implementation="sdpa",
              pad_token_id=None, bos_token_id=None, eos_token_id=None)


def model_of(spec):
    spec = {key: value for key, value in copy.deepcopy(spec).items() if value is not None}  # configs change theirs
    config, model = FAMILIES[spec.pop("family")]
    made = model(config(**spec, **COMMON))
    assert made.config.rope_parameters["rope_theta"] == spec["rope_theta"]
    return made


def rope(spec):
    rotary = LlamaRotaryEmbedding(LlamaConfig(hidden_size=8, num_attention_heads=2, **copy.deepcopy(spec)))
    return {"config": spec, "frequencies": nn_parity.flat(rotary.inv_freq, 9),
            "attention_factor": rotary.attention_scaling}


def scores(kind):
    """One number a token; of the whole sequence's classification the head is applied to every hidden state."""
    spec = copy.deepcopy(MODELS["llama3"])
    spec.pop("family")
    model = kind(LlamaConfig(**spec, **COMMON, num_labels=1)).double()
    nn_parity.fill(model)
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = nn_parity.norm.__get__(module)
    model.eval()
    values = []
    for ids in nn_parity.tokens(spec["vocab_size"]):
        hidden = model.model(torch.tensor([ids])).last_hidden_state[0]
        values += nn_parity.flat(model.score(hidden), 8)
    return values


if __name__ == "__main__":
    nn_parity.write("nn_families.json", model_of, MODELS, ropes={name: rope(spec) for name, spec in ROPES.items()},
                    scores={"sequence": scores(LlamaForSequenceClassification),
                            "token": scores(LlamaForTokenClassification)})
