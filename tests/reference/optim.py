"""torch.optim.AdamW, clip_grad_norm_ and the schedules of `transformers`, for tests/optim.

    pip install -r requirements.txt && python optim.py
"""

import json
import os

import torch
from transformers import (get_constant_schedule_with_warmup, get_cosine_with_min_lr_schedule_with_warmup,
                          get_linear_schedule_with_warmup, get_wsd_schedule)



def digits(t):
    return [float(f"{x:.9g}") for x in t.flatten().tolist()]


def adamw(dtype, settings, steps):
    g = torch.Generator().manual_seed(1)
    w = torch.nn.Parameter((torch.randn(37, generator=g) * 0.5).to(dtype))
    start = w.detach().clone()
    optimizer = torch.optim.AdamW([w], **settings)
    gradients, weights = [], []
    for k in range(steps):
        gradient = torch.randn(37, generator=g) * 10.0 ** (k % 4 - 2)
        gradient[5] = 0  # a parameter without gradient still decays
        w.grad = gradient.to(dtype)
        optimizer.step()
        gradients.append(digits(gradient))
        weights.append(digits(w.detach()))
    state = optimizer.state[w]
    return {"start": digits(start), "gradients": gradients, "weights": weights, "m": digits(state["exp_avg"]),
            "v": digits(state["exp_avg_sq"])}


def schedule(build, steps):
    w = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([w], lr=1.0)
    scheduler = build(optimizer)
    factors = []
    for _ in range(steps):
        factors.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return factors


def main():
    torch.manual_seed(3)
    out = {"adamw": [], "clip": [], "schedules": []}
    for settings, steps in [(dict(lr=1e-2), 8), (dict(lr=3e-3, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.2), 8),
                            (dict(lr=1e-3, weight_decay=0.0), 3)]:
        out["adamw"].append({"settings": settings, **adamw(torch.float64, settings, steps)})
    for scale, limit in [(0.01, 1.0), (3.0, 1.0), (3.0, 0.25), (0.05, 0.2)]:
        x = torch.nn.Parameter(torch.zeros(50, dtype=torch.float64))
        x.grad = (torch.randn(50) * scale).double()
        before = digits(x.grad)
        norm = torch.nn.utils.clip_grad_norm_([x], limit)
        out["clip"].append({"gradient": before, "max_norm": limit, "norm": float(norm), "clipped": digits(x.grad)})
    out["schedules"] = [
        {"kind": "constant", "total": 20, "warmup": 5, "min": 0.0, "cycles": 0.5,
         "factors": schedule(lambda o: get_constant_schedule_with_warmup(o, 5), 20)},
        {"kind": "constant", "total": 6, "warmup": 0, "min": 0.0, "cycles": 0.5,
         "factors": schedule(lambda o: get_constant_schedule_with_warmup(o, 0), 6)},
        {"kind": "cosine", "total": 30, "warmup": 4, "min": 0.0, "cycles": 0.5,
         "factors": schedule(lambda o: get_cosine_with_min_lr_schedule_with_warmup(o, 4, 30, min_lr_rate=1e-300), 30)},
        {"kind": "cosine", "total": 30, "warmup": 0, "min": 0.1, "cycles": 0.5,
         "factors": schedule(lambda o: get_cosine_with_min_lr_schedule_with_warmup(o, 0, 30, min_lr_rate=0.1), 30)},
        {"kind": "cosine", "total": 24, "warmup": 0, "min": 0.2, "cycles": 1.5,
         "factors": schedule(lambda o: get_cosine_with_min_lr_schedule_with_warmup(o, 0, 24, 1.5, min_lr_rate=0.2), 24)},
        {"kind": "wsd", "total": 40, "warmup": 5, "min": 0.05, "cycles": 0.5,  # 31 = int(0.9 * 35) stable, 4 of decay
         "factors": schedule(lambda o: get_wsd_schedule(o, 5, 4, num_stable_steps=31, min_lr_ratio=0.05), 44)},
        {"kind": "cosine_with_min_lr", "total": 30, "warmup": 4, "min": 0.1, "cycles": 0.5,
         "factors": schedule(lambda o: get_cosine_with_min_lr_schedule_with_warmup(o, 4, 30, min_lr_rate=0.1), 30)},
        {"kind": "linear", "total": 12, "warmup": 3, "min": 0.0, "cycles": 0.5,
         "factors": schedule(lambda o: get_linear_schedule_with_warmup(o, 3, 12), 14)},
    ]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optim.json")
    with open(path, "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")
    print(os.path.getsize(path), [s["factors"][:8] for s in out["schedules"]])


if __name__ == "__main__":
    main()
