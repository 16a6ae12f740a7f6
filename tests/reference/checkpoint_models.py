"""Golden files of tests/checkpoint, made by torch, safetensors and transformers (requirements.txt beside this file).

Writes next to itself:
  checkpoint_tensors.safetensors   one tensor of each kind, made by the safetensors library
  checkpoint_tensors.json          what is in it, as numbers
  checkpoint_qwen2_sharded/        a tiny tied Qwen2 in several shards, saved by transformers 5
  checkpoint_qwen3_bf16/           a tiny untied Qwen3 in bfloat16, one file
  checkpoint_models.json           shape, exact sum and first values of each of their parameters
"""
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GenerationConfig, Qwen2Config, Qwen3Config

here = Path(__file__).resolve().parent
torch.manual_seed(20)

tensors = {
    "a.f32": torch.tensor([[1.5, -2.25, 3e38], [1e-45, 0.1, -0.0]], dtype=torch.float32),
    "b.f16": torch.tensor([65504.0, 6e-8, -1.0, 0.333251953125], dtype=torch.float16),
    "c.bf16": torch.tensor([[3.0], [-0.00390625], [1e38]], dtype=torch.bfloat16),
    "d.i64": torch.tensor([-1, 2**40], dtype=torch.int64),
    "e.bool": torch.tensor([True, False, True]),
    "f.scalar": torch.tensor(7.0),
    "g.empty": torch.zeros(0, 3),
}
save_file(tensors, here / "checkpoint_tensors.safetensors", metadata={"format": "pt", "made_by": "safetensors"})
names = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.bool: "BOOL"}
(here / "checkpoint_tensors.json").write_text(json.dumps(
    {name: {"dtype": names[t.dtype], "shape": list(t.shape), "values": t.flatten().double().tolist()}
     for name, t in tensors.items()}, indent=1) + "\n")


def save(model, folder, **arguments):
    shutil.rmtree(here / folder, ignore_errors=True)
    model.generation_config = GenerationConfig(eos_token_id=[62, 63], pad_token_id=60, do_sample=True, temperature=0.7)
    with torch.no_grad():
        for p in model.parameters():  # biases and norms start as zeros and ones
            p.add_(0.1 * torch.randn_like(p))
    model.save_pretrained(here / folder, **arguments)
    return {name: {"shape": list(p.shape), "sum": p.double().sum().item(),
                   "first": p.flatten()[:3].double().tolist()} for name, p in model.named_parameters()}


shape = dict(vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, eos_token_id=63, max_position_embeddings=128)
models = {
    "checkpoint_qwen2_sharded": save(
        AutoModelForCausalLM.from_config(Qwen2Config(**shape, tie_word_embeddings=True, rope_theta=1e6)),
        "checkpoint_qwen2_sharded", max_shard_size="10KB"),
    "checkpoint_qwen3_bf16": save(
        AutoModelForCausalLM.from_config(Qwen3Config(**shape, head_dim=8, tie_word_embeddings=False)).bfloat16(),
        "checkpoint_qwen3_bf16"),
}
(here / "checkpoint_models.json").write_text(json.dumps(models, indent=1) + "\n")
