"""GGUF files of random weights in the shapes of bench/speed/models.hpp, for llama.cpp: path(folder, model, kind)."""

import os

import gguf
import numpy as np

from common import MODELS

KINDS = {"fp32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16,
         "bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0}


def path(folder, model, kind):
    os.makedirs(folder, exist_ok=True)
    name = os.path.join(folder, f"{model}-{kind}.gguf")
    if not os.path.exists(name):
        write(name + ".part", model, KINDS[kind])
        os.rename(name + ".part", name)
    return name


def write(name, model, kind):
    vocabulary, hidden, intermediate, layers, heads, kv_heads = MODELS[model]
    head_dim = hidden // heads
    w = gguf.GGUFWriter(name, "qwen2")
    w.add_context_length(32768)
    w.add_embedding_length(hidden)
    w.add_block_count(layers)
    w.add_feed_forward_length(intermediate)
    w.add_head_count(heads)
    w.add_head_count_kv(kv_heads)
    w.add_rope_freq_base(1e6)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_vocab_size(vocabulary)
    w.add_tokenizer_model("none")  # tokens go in and come out as numbers
    random = np.random.default_rng(1)

    def matrix(tensor, rows, columns):
        values = (0.02 * random.standard_normal((rows, columns), dtype=np.float32))
        w.add_tensor(tensor, gguf.quants.quantize(values, kind), raw_dtype=kind)

    def vector(tensor, size, value):
        w.add_tensor(tensor, np.full(size, value, np.float32))

    matrix("token_embd.weight", vocabulary, hidden)
    for layer in range(layers):
        b = f"blk.{layer}."
        vector(b + "attn_norm.weight", hidden, 1)
        for part, rows in (("q", heads * head_dim), ("k", kv_heads * head_dim), ("v", kv_heads * head_dim)):
            matrix(b + f"attn_{part}.weight", rows, hidden)
            vector(b + f"attn_{part}.bias", rows, 0)
        matrix(b + "attn_output.weight", hidden, heads * head_dim)
        vector(b + "ffn_norm.weight", hidden, 1)
        matrix(b + "ffn_gate.weight", intermediate, hidden)
        matrix(b + "ffn_up.weight", intermediate, hidden)
        matrix(b + "ffn_down.weight", hidden, intermediate)
    vector("output_norm.weight", hidden, 1)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
