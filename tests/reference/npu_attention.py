"""Packed causal attention with grouped queries and its gradients by PyTorch in float64: npu_attention.json.

q, k, v and the gradient of the output are bfloat16 numbers, written as their 16 bits. Run: python npu_attention.py
"""

import json
import math
import pathlib

import torch

torch.manual_seed(20)
heads, key_heads, width = 4, 2, 8
lengths = [(5, 5), (3, 7), (1, 4), (6, 6)]  # queries, keys; the last query sees the last key


def numbers(rows, n):
    return torch.randn(rows, n, width).to(torch.bfloat16)


def bits(x):
    return [int(i) & 0xFFFF for i in x.contiguous().view(torch.int16).flatten()]


queries, keys = sum(a for a, _ in lengths), sum(b for _, b in lengths)
q, k, v, g = numbers(queries, heads), numbers(keys, key_heads), numbers(keys, key_heads), numbers(queries, heads)
leaves = [x.double().requires_grad_(True) for x in (q, k, v)]
scale = 1 / math.sqrt(width)
out, lse, first_query, first_key = [], [], 0, 0
for a, b in lengths:
    rows = [leaves[0][first_query : first_query + a]] + [x[first_key : first_key + b] for x in leaves[1:]]
    first_query, first_key = first_query + a, first_key + b
    qs, ks, vs = (x.transpose(0, 1) for x in rows)
    ks, vs = (x.repeat_interleave(heads // key_heads, 0) for x in (ks, vs))
    visible = torch.ones(a, b, dtype=torch.bool).tril(b - a)
    out.append(
        torch.nn.functional.scaled_dot_product_attention(qs, ks, vs, attn_mask=visible, scale=scale).transpose(0, 1)
    )
    scores = (qs @ ks.transpose(1, 2) * scale).masked_fill(~visible, -math.inf)
    lse.append(torch.logsumexp(scores, -1).transpose(0, 1))
out, lse = torch.cat(out), torch.cat(lse)
out.backward(g.double())

pathlib.Path(__file__).with_suffix(".json").write_text(
    json.dumps(
        {
            "heads": heads,
            "key_heads": key_heads,
            "width": width,
            "query_lengths": [a for a, _ in lengths],
            "key_lengths": [b for _, b in lengths],
            "q": bits(q),
            "k": bits(k),
            "v": bits(v),
            "gradient": bits(g),
            "out": out.flatten().tolist(),
            "lse": lse.flatten().tolist(),
            "dq": leaves[0].grad.flatten().tolist(),
            "dk": leaves[1].grad.flatten().tolist(),
            "dv": leaves[2].grad.flatten().tolist(),
        }
    )
    + "\n"
)
