"""Golden files of tests/checkpoint/gguf_test.cpp, made by the Python package gguf, transformers and sentencepiece.

Writes next to itself:
  gguf_blocks.json           random blocks of each type and the floats that gguf.quants makes of them; floats and the
                             blocks that it makes of these (bytes in hexadecimal)
  gguf_llama.gguf            a tiny tied Llama with Llama 3's rotary scaling, in blocks of several types, with the
                             tokenizer text_llama3, written by gguf.GGUFWriter as llama.cpp's converter does
  gguf_llama.json            shape, exact sum and first values of its parameters under transformers' names, and
                             log-probs that transformers computes with them
  gguf_sentencepiece.gguf    the metadata of a small SentencePiece BPE with byte fallback, no weights
  gguf_sentencepiece.json    texts and the ids that sentencepiece gives them
"""
import io
import json
from pathlib import Path

import gguf
import numpy as np
import sentencepiece
import torch
from gguf import GGMLQuantizationType as Kind
from transformers import LlamaConfig, LlamaForCausalLM

here = Path(__file__).resolve().parent
random = np.random.default_rng(7)


def sane_blocks(kind, count):
    """Random bytes, with halves that are ordinary numbers where the type has scales."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    halves = {Kind.Q4_1: [0, 2], Kind.Q5_1: [0, 2], Kind.Q4_K: [0, 2], Kind.Q5_K: [0, 2], Kind.Q6_K: [208]}
    for at in halves.get(kind, [0]):
        scales = (random.standard_normal(count) * 10.0 ** random.integers(-6, 3, count)).astype(np.float16)
        blocks[:, at:at + 2] = scales.view(np.uint8).reshape(count, 2)
    return blocks


golden = {"read": {}, "write": {}}
for kind in (Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K):
    blocks = sane_blocks(kind, 2 if kind.name.endswith("_K") else 6)
    floats = gguf.quants.dequantize(blocks, kind).astype(np.float32)
    golden["read"][kind.name] = {"blocks": blocks.tobytes().hex(), "floats": floats.tobytes().hex()}
floats = (random.standard_normal((12, 32)) * 10.0 ** random.integers(-7, 4, (12, 1))).astype(np.float32)
floats[0] = 0                                # no scale
floats[1, :] = np.arange(32) * 0.5 - 8       # halves, which are rounded away from zero
floats[1, 31] = 127
floats[2, 3] = 65520                         # F16 is infinite from here on
floats[3, :4] = [1e-8, -6e-8, 6.1e-5, -0.0]  # and subnormal here
golden["write"]["floats"] = floats.tobytes().hex()
for kind in (Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0):
    with np.errstate(over="ignore"):
        golden["write"][kind.name] = gguf.quants.quantize(floats, kind).tobytes().hex()
(here / "gguf_blocks.json").write_text(json.dumps(golden, indent=1) + "\n")

# The model: numbers are rounded to the file's types first, so that both sides have the same ones.
torch.manual_seed(31)
words = json.loads((here / "text_llama3/tokenizer.json").read_text())
tokens = {id: token for token, id in words["model"]["vocab"].items()} | {
    a["id"]: a["content"] for a in words["added_tokens"]}
config = LlamaConfig(vocab_size=len(tokens) + 5, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=256,
                     rms_norm_eps=1e-5, tie_word_embeddings=True,
                     rope_parameters={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                      "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
                                      "rope_theta": 10000.0})
model = LlamaForCausalLM(config).float()
kinds = {"embed_tokens": Kind.Q8_0, "q_proj": Kind.Q5_1, "k_proj": Kind.Q4_0, "v_proj": Kind.F16, "o_proj": Kind.BF16,
         "gate_proj": Kind.Q4_1, "up_proj": Kind.Q5_0, "down_proj": Kind.F32}
names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)


def permuted(weight, heads):
    """llama.cpp's order of the rows: both halves of a head in turn."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


writer = gguf.GGUFWriter(here / "gguf_llama.gguf", "llama")
writer.add_type("model")
writer.add_name("golden")
writer.add_block_count(config.num_hidden_layers)
writer.add_context_length(config.max_position_embeddings)
writer.add_embedding_length(config.hidden_size)
writer.add_feed_forward_length(config.intermediate_size)
writer.add_head_count(config.num_attention_heads)
writer.add_head_count_kv(config.num_key_value_heads)
writer.add_rope_freq_base(10000.0)
writer.add_layer_norm_rms_eps(config.rms_norm_eps)
writer.add_key_length(config.head_dim)
writer.add_value_length(config.head_dim)
writer.add_rope_dimension_count(config.head_dim)
writer.add_vocab_size(config.vocab_size)
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("llama-bpe")
special = {a["id"] for a in words["added_tokens"]}
writer.add_token_list([tokens.get(i, f"[PAD{i}]") for i in range(config.vocab_size)])
writer.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL if i in tokens
                        else gguf.TokenType.UNUSED for i in range(config.vocab_size)])
merges = words["model"]["merges"]
writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
ids = {a["content"]: a["id"] for a in words["added_tokens"]}
writer.add_bos_token_id(ids["<|begin_of_text|>"])
writer.add_eos_token_id(ids["<|eot_id|>"])
writer.add_chat_template("{% for m in messages %}{{ m['content'] }}{{ eos_token }}{% endfor %}")
factors = []
for i in range(0, config.head_dim, 2):
    wave = 2 * np.pi * 10000.0 ** (i / config.head_dim)
    smooth = (32 / wave - 1) / 3
    factors.append(1.0 if wave < 32 / 4 else 8.0 if wave > 32 else 1 / ((1 - smooth) / 8 + smooth))
writer.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))
parameters = {}
with torch.no_grad():
    for name, p in model.named_parameters():
        p.add_(0.3 * torch.randn_like(p))
        kind = next((k for part, k in kinds.items() if part in name), Kind.F32)
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        heads = next((n for part, n in heads.items() if part in name), 0)
        weight = p.numpy()
        stored = gguf.quants.quantize(permuted(weight, heads) if heads else weight, kind)
        read = gguf.quants.dequantize(stored, kind).astype(np.float32).reshape(weight.shape)
        if heads:
            read = read.reshape(heads, weight.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)
        p.copy_(torch.from_numpy(read.copy()))
        raw = None if kind in (Kind.F32, Kind.F16) else kind
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), stored, raw_dtype=raw)
        parameters[name] = {"shape": list(p.shape), "sum": p.double().sum().item(),
                            "first": p.flatten()[:3].double().tolist()}
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
text = torch.tensor([[526, 72, 101, 300, 7, 41, 529, 2, 2, 480, 33, 120, 530, 5, 17, 256, 91, 64, 18, 3]])
with torch.no_grad():
    logp = model(text).logits.double().log_softmax(-1)[0, :-1].gather(-1, text[0, 1:, None])[:, 0]
(here / "gguf_llama.json").write_text(json.dumps(
    {"parameters": parameters, "ids": text[0].tolist(), "log_probs": logp.tolist()}, indent=1) + "\n")

# SentencePiece.
corpus = [line for page in sorted((here / "../../docs").glob("*.md")) for line in page.read_text().splitlines() if line]
trained = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(corpus[:2000]), model_writer=trained, model_type="bpe", vocab_size=640, byte_fallback=True,
    character_coverage=0.999, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
    add_dummy_prefix=True, user_defined_symbols=["<|im_end|>"], minloglevel=2)
sp = sentencepiece.SentencePieceProcessor(model_proto=trained.getvalue())


def kind_of(i):
    return (gguf.TokenType.UNKNOWN if sp.is_unknown(i) else gguf.TokenType.CONTROL if sp.is_control(i)
            else gguf.TokenType.BYTE if sp.is_byte(i) else gguf.TokenType.USER_DEFINED
            if sp.id_to_piece(i) == "<|im_end|>" else gguf.TokenType.NORMAL)


count = sp.get_piece_size()
writer = gguf.GGUFWriter(here / "gguf_sentencepiece.gguf", "llama")
writer.add_context_length(512)
writer.add_tokenizer_model("llama")
writer.add_tokenizer_pre("default")
writer.add_token_list([sp.id_to_piece(i) for i in range(count)])
writer.add_token_scores([sp.get_score(i) for i in range(count)])
writer.add_token_types([kind_of(i) for i in range(count)])
writer.add_bos_token_id(sp.bos_id())
writer.add_eos_token_id(sp.eos_id())
writer.add_unk_token_id(sp.unk_id())
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
texts = ["", "a", " a", "the model", "  two  spaces ", "Numbers 1234.5 and (x + y) * 2\n\tlines\r\n", "日本語 café Ünï",
         "🦙 \u0301\u200d\x00 end", "<s></s><unk>", *corpus[10:60], "x" * 90, "=" * 70, " " * 40]
(here / "gguf_sentencepiece.json").write_text(json.dumps(
    {"bos": sp.bos_id(), "cases": [{"text": t, "ids": sp.encode(t)} for t in texts]}, indent=1) + "\n")
