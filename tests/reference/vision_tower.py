"""The vision tower of a tiny Qwen2.5-VL by transformers (requirements.txt), in double: rows and gradients.

Writes next to itself vision_tower.json. Weights and patches are value(k, i) of nn_parity.py's formula, k counting the
parameters by name. The loss is the sum of value(999, i) * rows[i].
"""
import json
from pathlib import Path

import numpy as np
import torch
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionTransformerPretrainedModel

from nn_parity import norm

here = Path(__file__).resolve().parent
mask = 0xFFFFFFFF
base = dict(depth=4, hidden_size=32, num_heads=4, intermediate_size=44, out_hidden_size=24, fullatt_block_indexes=[1, 3])


def values(k, n):
    x = (np.arange(n, dtype=np.uint64) * 2654435761 + k * (40503 * 65537 & mask) + 12345) & mask
    x ^= x >> np.uint64(15)
    x = x * 2246822519 & mask
    x ^= x >> np.uint64(13)
    return ((x >> np.uint64(16)).astype(np.float64) - 32768) / 65536


def run(settings, grids):
    config = Qwen2_5_VLVisionConfig(**settings)
    config._attn_implementation = "eager"
    tower = Qwen2_5_VisionTransformerPretrainedModel(config).double()
    named = sorted(tower.named_parameters(), key=lambda pair: "visual." + pair[0])
    with torch.no_grad():
        for k, (name, p) in enumerate(named):
            v = torch.from_numpy(values(k, p.numel())).reshape(p.shape)
            p.copy_(1 + v / 2 if "norm" in name or "ln_q" in name else v * (0.1 if "patch" in name else 0.5))
    for module in tower.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = norm.__get__(module)
    patch = 3 * 2 * 14 * 14
    n = sum(h * w for h, w in grids)
    pixels = torch.from_numpy(values(500, n * patch)).reshape(n, patch)
    thw = torch.tensor([[1, h, w] for h, w in grids])
    rows = tower(pixels, grid_thw=thw)
    rows = rows if isinstance(rows, torch.Tensor) else rows.pooler_output
    loss = (rows * torch.from_numpy(values(999, rows.numel())).reshape(rows.shape)).sum()
    loss.backward()
    gradients = {"visual." + name: {"norm": float(p.grad.norm()), "first": p.grad.flatten()[:48].tolist()}
                 for name, p in named}
    return {"settings": settings, "grids": grids, "rows": rows.flatten().tolist(), "gradients": gradients}


if __name__ == "__main__":
    cases = [run(base, [[4, 4]]), run(base, [[10, 14], [2, 6]]), run(base, [[8, 8], [20, 4], [2, 2]]),
             run(dict(base, fullatt_block_indexes=[]), [[12, 10]])]
    (here / "vision_tower.json").write_text(json.dumps(cases) + "\n")
