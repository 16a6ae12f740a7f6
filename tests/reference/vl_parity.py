"""A tiny Qwen2.5-VL by transformers (requirements.txt), in double: log-probs, entropies and gradients of rows with and
without pictures.

Writes next to itself vl_parity.json. Weights and patches are value(k, i) of nn_parity.py's formula, k counting the
parameters by their names on disk. The loss is the sum of weight * log-prob + bonus * entropy of every next token that
is no image token. The logits of image and video tokens are -inf.
"""
import json
import random
from pathlib import Path

import torch
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLForConditionalGeneration

from nn_parity import norm
from vision_tower import values

here = Path(__file__).resolve().parent
VIDEO, IMAGE, START, END, WORDS = 56, 57, 58, 59, 50
vision = dict(depth=2, hidden_size=32, num_heads=4, intermediate_size=44, out_hidden_size=24, fullatt_block_indexes=[1])


def text(**more):
    return dict(hidden_size=24, intermediate_size=36, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
                vocab_size=60, rms_norm_eps=1e-6, max_position_embeddings=512, rope_parameters={
                    "rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}) | more


def on_disk(name):
    return name.replace("model.visual.", "visual.").replace("model.language_model.", "model.")


def sequences(rng, shapes):
    """Each of `shapes` is the grids of a row."""
    for grids in shapes:
        tokens = [rng.randrange(WORDS) for _ in range(3)]
        for h, w in grids:
            tokens += [START] + [IMAGE] * (h * w // 4) + [END] + [rng.randrange(WORDS) for _ in range(rng.randint(0, 3))]
        yield tokens + [rng.randrange(WORDS) for _ in range(4)], grids


def model_of_formula(tied, text=text(), vision=vision, scale=0.5):
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE, video_token_id=VIDEO,
                              vision_start_token_id=START, vision_end_token_id=END, tie_word_embeddings=tied)
    config._attn_implementation = "eager"
    model = Qwen2_5_VLForConditionalGeneration(config).double().train()
    named = sorted(((on_disk(name), p) for name, p in model.named_parameters()))
    with torch.no_grad():
        for k, (name, p) in enumerate(named):
            v = torch.from_numpy(values(k, p.numel())).reshape(p.shape)
            p.copy_(1 + v / 2 if "norm" in name or "ln_q" in name else v * (0.1 if "patch" in name else scale))
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = norm.__get__(module)
    return model, named


def run(tied, shapes, seed, **sizes):
    model, named = model_of_formula(tied, **sizes)
    patch, used, n, loss = 3 * 2 * 14 * 14, 0, 0, 0
    rows = list(sequences(random.Random(seed), shapes))
    logps, entropies = [], []
    for tokens, grids in rows:
        ids = torch.tensor([tokens])
        more = {}
        if grids:
            count = sum(h * w for h, w in grids)
            more = dict(pixel_values=torch.from_numpy(values(500, (used + count) * patch)[used * patch:]).reshape(count, patch),
                        image_grid_thw=torch.tensor([[1, h, w] for h, w in grids]), mm_token_type_ids=(ids == IMAGE).int())
            used += count
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more).logits[0, :-1].double()
        never = torch.zeros(logits.shape[-1], dtype=torch.bool)
        never[[IMAGE, VIDEO]] = True  # stand for rows of pictures: nobody samples them
        p = logits.masked_fill(never, -torch.inf).log_softmax(-1)
        words = ~never[ids[0, 1:]]  # the targets
        p, target = p[words], ids[0, 1:][words]
        q, logp = p[:, ~never], p.gather(1, target[:, None])[:, 0]
        entropy = -(q.exp() * q).sum(-1)
        i = torch.arange(n, n + len(target))
        loss = loss + (((i * 5) % 7 - 3) / 4 * logp + ((i * 3) % 5 - 1) / 8 * entropy).sum()
        n += len(target)
        logps += logp.tolist()
        entropies += entropy.tolist()
    loss.backward()
    slopes = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in named}
    gradients = {name: {"norm": float(g.norm()), "first": g.flatten()[:40].tolist()} for name, g in slopes.items()}
    return {"tied": tied, "rows": rows, "logp": logps, "entropy": entropies, "gradients": gradients}


def published(heads, keys, inner, tied, tower_inner):
    """The shape of a released model, an eighth as wide in its heads: their ratios, sections and untied or tied head."""
    wide = 16 * heads
    sizes = {"text": text(hidden_size=wide, intermediate_size=inner, num_attention_heads=heads, num_key_value_heads=keys,
                          rope_parameters={"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e6}),
             "vision": dict(depth=4, hidden_size=64, num_heads=16, intermediate_size=tower_inner, out_hidden_size=wide,
                            fullatt_block_indexes=[1, 3]),
             "scale": 0.2}  # of the matrices, which have longer sums here
    return sizes | run(tied, [[[10, 14], [4, 2]], []], heads, **sizes)


if __name__ == "__main__":
    cases = [run(True, [[[4, 4]]], 1), run(False, [[[10, 14]], [], [[2, 2], [6, 4], [4, 2]]], 2),
             run(True, [[], [[8, 20]], []], 3), run(False, [[]], 4)]
    shapes = {"3B": published(8, 1, 688, True, 171), "7B": published(7, 1, 592, False, 171),
              "32B": published(10, 2, 864, False, 173)}
    (here / "vl_parity.json").write_text(
        json.dumps({"text": text(), "vision": vision, "cases": cases, "shapes": shapes}) + "\n")
