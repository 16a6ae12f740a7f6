"""Folders of tests/checkpoint/family_folders_test.cpp, made by transformers (requirements.txt beside this file).

Writes next to itself:
  checkpoint_llama/            a tiny tied Llama with the scaled positions of Llama 3.1, saved by transformers 5
  checkpoint_qwen2_yarn/       config.json alone of a Qwen2.5 with YaRN
  checkpoint_families.json     shape, exact sum and first values of each parameter; log-probs of a text of 40 tokens
"""
import json
import shutil
from pathlib import Path

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, Qwen2Config

here = Path(__file__).resolve().parent
torch.manual_seed(31)
torch.set_num_threads(1)

shape = dict(vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, bos_token_id=61, eos_token_id=63, max_position_embeddings=256)
model = LlamaForCausalLM(LlamaConfig(**shape, head_dim=12, tie_word_embeddings=True, rope_theta=5e5, rms_norm_eps=1e-5,
                                     rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                                       high_freq_factor=4.0, original_max_position_embeddings=32)))
model.generation_config = GenerationConfig(bos_token_id=61, eos_token_id=[62, 63], do_sample=True, temperature=0.6)
with torch.no_grad():
    for p in model.parameters():
        p.add_(0.1 * torch.randn_like(p))
shutil.rmtree(here / "checkpoint_llama", ignore_errors=True)
model.save_pretrained(here / "checkpoint_llama")

ids = [(7 * t + t * t) % 61 for t in range(40)]
with torch.no_grad():
    logp = torch.log_softmax(model.double()(torch.tensor([ids])).logits[0, :-1], -1)
logp = logp.gather(1, torch.tensor(ids)[1:, None])[:, 0]
(here / "checkpoint_families.json").write_text(json.dumps({
    "parameters": {name: {"shape": list(p.shape), "sum": p.double().sum().item(), "first": p.flatten()[:3].tolist()}
                   for name, p in model.named_parameters()},
    "ids": ids, "logp": [float(f"{x:.9g}") for x in logp.tolist()]}) + "\n")

(here / "checkpoint_qwen2_yarn").mkdir(exist_ok=True)
yarn = Qwen2Config(**shape, tie_word_embeddings=True, rope_theta=1e6,
                   rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=64))
yarn.architectures = ["Qwen2ForCausalLM"]
yarn.to_json_file(here / "checkpoint_qwen2_yarn/config.json", use_diff=False)
