"""One optimizer step of GRPO on a tiny Qwen2.5-VL by transformers and autograd, in double: policy_step.py with pictures.

Writes next to itself vision_step.json: log-probs, advantages, losses, the gradient's norm, and of every parameter the
norm of its gradient and 40 values. The model is that of vl_parity.py. Pixel i of picture n is (value(700 + n, i) + 1/2)
* 256; transformers' Pillow processor makes its patches. The logits of image and video tokens are -inf.
"""
import json
import random
from pathlib import Path

import numpy as np
import torch
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import policy_step
from nn_parity import flat
from vision_tower import values
from vl_parity import END, IMAGE, START, VIDEO, WORDS, model_of_formula, on_disk, text, vision

here = Path(__file__).resolve().parent
PICTURES = [(56, 56), (56, 84), (112, 84)]  # height, width
SHOWN = [[0, 1], [2], []]  # by each prompt
RESPONSES = [5, 1, 9, 3, 6, 2, 4, 7, 2]
REWARDS = [1.0, 0.0, 0.0, 0.25, 1.0, 1.0, 0.0, 1.0, 0.0]
SAMPLES = 3
CASES = {"token_mean_k3": policy_step.CASES["token_mean_k3"],
         "token_mean_entropy": policy_step.CASES["sequence_mean_entropy"] | {"agg": "token-mean"}}


def pixels(n):
    h, w = PICTURES[n]
    return np.floor((values(700 + n, h * w * 3) + 0.5) * 256).astype(np.uint8).reshape(h, w, 3)


def prompts(rng):
    for shown in SHOWN:
        ids = [rng.randrange(WORDS) for _ in range(3)]
        for n in shown:
            h, w = PICTURES[n]
            ids += [START] + [IMAGE] * (h * w // 784) + [END] + [rng.randrange(WORDS)]
        yield ids + [rng.randrange(WORDS) for _ in range(2)]


def score(model):
    """Log-probs and entropies of the response tokens of every trajectory."""
    out = []
    for ids, prompt, shown in TRAJECTORIES:
        tokens, more = torch.tensor([ids]), {}
        if shown:
            seen = PROCESSOR(images=[pixels(n) for n in shown], return_tensors="pt")
            more = dict(pixel_values=seen["pixel_values"].double(), image_grid_thw=seen["image_grid_thw"],
                        mm_token_type_ids=(tokens == IMAGE).int())
        z = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), **more).logits[0, prompt - 1:-1].double()
        words = [i for i in range(z.shape[-1]) if i not in (IMAGE, VIDEO)]
        never = torch.tensor([i in (IMAGE, VIDEO) for i in range(z.shape[-1])])
        lp = torch.log_softmax(z.masked_fill(never, -torch.inf) / policy_step.TEMPERATURE, -1)
        chosen = lp.gather(1, torch.tensor(ids[prompt:])[:, None])[:, 0]
        out.append((chosen, -(lp[:, words].exp() * lp[:, words]).sum(-1)))
    return out


def trajectories():
    rng, out = random.Random(5), []
    for p, ids in enumerate(list(prompts(rng))):
        for _ in range(SAMPLES):
            out.append((ids + [rng.randrange(WORDS) for _ in range(RESPONSES[len(out)])], len(ids), SHOWN[p]))
    return out


def run(case, old, ref, adv):
    model, named = model_of_formula(True)
    result = policy_step.run(case, old, ref, adv, model, score)
    result.pop("updated")
    slopes = {on_disk(name): torch.tensor(g) for name, g in result.pop("gradients").items()}
    assert set(slopes) == {name for name, _ in named}
    result["gradients"] = {name: {"norm": float(g.norm()), "first": flat(g[:40], 9)} for name, g in slopes.items()}
    return result


if __name__ == "__main__":
    torch.set_num_threads(1)
    TRAJECTORIES, PROCESSOR = trajectories(), Qwen2VLImageProcessorPil()
    with torch.no_grad():
        now = [logp for logp, _ in score(model_of_formula(True)[0])]
    old, ref = policy_step.around(now)
    adv = policy_step.advantages(REWARDS)
    out = {"text": text(), "vision": vision, "pictures": PICTURES, "shown": SHOWN,
           "temperature": policy_step.TEMPERATURE, "samples": SAMPLES, "rewards": REWARDS,
           "tokens": [ids for ids, _, _ in TRAJECTORIES], "prompts": [n for _, n, _ in TRAJECTORIES],
           "logp": [flat(x, 9) for x in now], "old_logp": [flat(x, 9) for x in old],
           "ref_logp": [flat(x, 9) for x in ref], "advantages": flat(adv, 9), "lr": 1e-2, "weight_decay": 0.01,
           "grad_clip": 1.0,
           "cases": {name: run(case, old, ref, adv) for name, case in CASES.items()}}
    (here / "vision_step.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")
