"""Positions of sequences with pictures by transformers' Qwen2.5-VL (requirements.txt).

Writes next to itself rope_positions.json: [tokens, grids in patches, time, row, column, delta]. 8 and 9 stand around
the pictures, 7 is a picture's token.
"""
import json
import random
from pathlib import Path

import torch
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel

here = Path(__file__).resolve().parent
rng = random.Random(20261123)
text = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
            vocab_size=16, rope_parameters={"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e6})
config = Qwen2_5_VLConfig(text_config=text, image_token_id=7, vision_start_token_id=8, vision_end_token_id=9, video_token_id=10,
                          vision_config=dict(depth=1, hidden_size=16, num_heads=2, intermediate_size=16, out_hidden_size=16,
                                             fullatt_block_indexes=[0]))
model = Qwen2_5_VLModel(config)


def case():
    tokens, grids = [], []
    for _ in range(rng.randint(0, 4)):
        tokens += [rng.randint(0, 5) for _ in range(rng.randint(0, 6))]
        h, w = 2 * rng.randint(1, 5), 2 * rng.randint(1, 5)
        grids.append([h, w])
        tokens += [8] + [7] * (h * w // 4) + [9]
    tokens += [rng.randint(0, 5) for _ in range(rng.randint(0 if tokens else 1, 6))]
    ids = torch.tensor([tokens])
    thw = torch.tensor([[1, h, w] for h, w in grids]) if grids else None
    kinds = (ids == 7).int()
    positions, delta = model.get_rope_index(ids, mm_token_type_ids=kinds, image_grid_thw=thw)
    return [tokens, grids, *positions[:, 0].tolist(), int(delta)]


(here / "rope_positions.json").write_text("[\n" + ",\n".join(json.dumps(case()) for _ in range(1000)) + "\n]\n")
