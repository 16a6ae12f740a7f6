"""Expected values of single operators, computed by PyTorch in float64.

Inputs are multiples of 1/32 below 4 in magnitude, which float32, float16 and bfloat16 all hold exactly, so that one
file serves the tests of every type.

    pip install -r requirements.txt && python npu_operators.py > npu_operators.json
"""

import json

import torch

torch.manual_seed(20)
double = torch.float64


def coarse(*shape):
    return (torch.randint(-127, 128, shape).to(double) / 32).requires_grad_()


def plain(t):
    return [float(f"{v:.12g}") for v in t.detach().to(double).flatten().tolist()]


def with_gradients(inputs, outputs, dy):
    grads = torch.autograd.grad(outputs, list(inputs.values()), dy)
    case = {name: plain(t) for name, t in inputs.items()}
    case |= {"dy": plain(dy), "y": plain(outputs)}
    return case | {"d" + name: plain(g) for name, g in zip(inputs, grads)}


def softmax(shape, dim, log):
    x, dy = coarse(*shape), coarse(*shape).detach()
    y = (torch.log_softmax if log else torch.softmax)(x, dim)
    return {"shape": shape, "dim": dim} | with_gradients({"x": x}, y, dy)


def rms_norm(rows, width, eps):
    x, gamma, dy = coarse(rows, width), coarse(width), coarse(rows, width).detach()
    y = torch.nn.functional.rms_norm(x, (width,), gamma, eps)
    rstd = torch.rsqrt(x.detach().pow(2).mean(-1) + eps)
    case = {"rows": rows, "width": width, "eps": eps, "rstd": plain(rstd)}
    return case | with_gradients({"x": x, "gamma": gamma}, y, dy)


def swiglu(rows, width):
    x, dy = coarse(rows, 2 * width), coarse(rows, width).detach()
    gate, up = x.chunk(2, -1)
    return {"rows": rows, "width": width} | with_gradients({"x": x}, torch.nn.functional.silu(gate) * up, dy)


def rope(tokens, heads, width, mode):
    """Mode 0 as transformers' rotate_half, mode 1 as a product of complex numbers."""
    x = coarse(tokens, heads, width).detach()
    angle = torch.outer(torch.arange(tokens, dtype=double), 100.0 ** (-torch.arange(0, width, 2, dtype=double) / width))
    # cos and sin are inputs as well: coarse, so that every type holds them
    cos, sin = (angle.cos() * 32).round() / 32, (angle.sin() * 32).round() / 32
    if mode == 0:
        c, s = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)
        a, b = x.chunk(2, -1)
        y = x * c[:, None] + torch.cat([-b, a], -1) * s[:, None]
    else:
        c, s = cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1)
        turned = torch.view_as_complex(x.reshape(tokens, heads, -1, 2)) * torch.complex(cos, sin)[:, None]
        y = torch.view_as_real(turned).flatten(-2)
    return {"tokens": tokens, "heads": heads, "width": width, "mode": mode} | {
        k: plain(v) for k, v in {"x": x, "cos": c, "sin": s, "y": y}.items()
    }


def adamw(n, steps, amsgrad, maximize):
    w = torch.nn.Parameter(coarse(n).detach().clone())
    options = {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1}
    optimizer = torch.optim.AdamW([w], amsgrad=amsgrad, maximize=maximize, foreach=False, **options)
    case = {"n": n, "amsgrad": amsgrad, "maximize": maximize, "w": plain(w), "gradients": []}
    for _ in range(steps):
        w.grad = coarse(n).detach()
        case["gradients"].append(plain(w.grad))
        optimizer.step()
    state = optimizer.state[w]
    case |= {"after": plain(w), "m": plain(state["exp_avg"]), "v": plain(state["exp_avg_sq"])}
    if amsgrad:
        case["top"] = plain(state["max_exp_avg_sq"])
    return case


def order(rows, width):
    x = coarse(rows, width).detach()
    values, indices = torch.sort(x, dim=-1, descending=True, stable=True)
    ascending, ascending_indices = torch.sort(x, dim=0, stable=True)
    return {
        "rows": rows,
        "width": width,
        "x": plain(x),
        "values": plain(values),
        "indices": plain(indices),
        "ascending": plain(ascending),
        "ascending_indices": plain(ascending_indices),
        "argmax": plain(torch.argmax(x, -1)),
        "cumsum": plain(torch.cumsum(x, 1)),
        "sum_0": plain(x.sum(0)),
        "sum_1": plain(x.sum(1)),
        "sum": float(x.sum()),
        "amax_0": plain(x.amax(0)),
        "amax_1": plain(x.amax(1)),
    }


print(
    json.dumps(
        {
            "torch": torch.__version__,
            "softmax": [softmax((3, 100), -1, False), softmax((2, 5, 7), 1, False)],
            "log_softmax": [softmax((3, 100), -1, True), softmax((2, 5, 7), 1, True)],
            "rms_norm": [rms_norm(5, 96, 1e-6), rms_norm(3, 200, 1e-5)],
            "swiglu": [swiglu(4, 32)],
            "rope": [rope(9, 3, 16, 0), rope(9, 3, 16, 1)],
            "adamw": [adamw(20, 3, False, False), adamw(20, 3, True, True)],
            "order": order(4, 75),
        },
        separators=(",", ":"),
    )
)
