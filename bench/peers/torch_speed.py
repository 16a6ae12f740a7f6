"""The items of speed_bench in PyTorch: gemm, head, optimizer, attention.

    python bench/peers/torch_speed.py gemm --threads 2 [--tuned] [--quick] [--only TEXT]

Without --tuned: what one writes first. With --tuned: every variant below; bench/speed.py keeps the fastest of each case.
"""

import functools

import torch
import torch.nn.functional as F
import torch.utils.checkpoint

from common import MemoryPeak, arguments, best_seconds, line, wants

options = arguments(["gemm", "head", "optimizer", "attention"])
torch.set_num_threads(options.threads)
WHO = "torch tuned" if options.tuned else "torch default"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def report(case, function, work, unit, memory=None, how=""):
    """memory: bytes of the peak that are not counted, or None if it is not measured."""
    if not wants(options, case):
        return
    try:
        peak = MemoryPeak()
        seconds = best_seconds(function, options.budget)
    except Exception as e:  # a variant that this version does not have is no candidate
        print(f"# {case}, {how}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}", flush=True)
        return
    line(options, WHO, case, seconds, work, unit, None if memory is None else max(0, peak.extra() - memory), how)


def compiled(function):
    torch.compiler.reset()
    return torch.compile(function, dynamic=False)


# ---------------------------------------------------------------------------------------------------------------- gemm
SHAPES = (("gate_up", 9728, 896, True), ("down", 896, 4864, True), ("qkv", 1152, 896, False), ("o", 896, 896, False),
          ("tiny 256", 256, 256, False), ("tiny 128", 128, 128, False))


def rotating(make, size_bytes, cold):
    """Copies of one weight, taken in turn: more than any cache holds, or just one of a tiny model."""
    copies = [make() for _ in range((768 << 20) // size_bytes + 1 if cold else 1)]
    state = [0]

    def next_one():
        state[0] = (state[0] + 1) % len(copies)
        return copies[state[0]]

    return next_one


def gemm():
    for name, outputs, inputs, backward in SHAPES:
        tiny = outputs <= 256
        if options.quick and not backward and outputs != 256:
            continue
        if not wants(options, name) and options.only[:len(name)] != name:
            continue
        for kind, dtype in DTYPES.items():
            if kind not in options.only and "fp32" in options.only + kind and "bf16" in options.only:
                continue
            weight = 0.05 * torch.randn(outputs, inputs, dtype=dtype)
            size = weight.numel() * weight.element_size()
            plain = rotating(weight.clone, size, not tiny)

            def case(t, what):
                return f"{name} t={t} {kind} {what}"

            def numbers(t):
                flops = 2.0 * weight.numel() * t
                return (float(size), "byte") if t <= 8 and not tiny else (flops, "flop")

            for t in (1, 8, 64, 512):
                x = torch.randn(t, inputs, dtype=dtype)
                with torch.no_grad():
                    report(case(t, "forward"), lambda: F.linear(x, plain()), *numbers(t), how="F.linear")
                if not backward or t < 64:
                    continue
                dy, dw = torch.randn(t, outputs, dtype=dtype), torch.empty(outputs, inputs, dtype=dtype)
                report(case(t, "dX"), lambda: dy @ plain(), *numbers(t), how="matmul")
                report(case(t, "dW"), lambda: torch.mm(dy.t(), x, out=dw), *numbers(t), how="matmul")
            del plain
            if not options.tuned:
                continue
            with torch.no_grad():
                for t in (1, 8, 64, 512):
                    x = torch.randn(t, inputs, dtype=dtype)
                    try:
                        packed = rotating(
                            lambda: torch.ops.mkldnn._reorder_linear_weight(weight, t), size, not tiny)
                        report(case(t, "forward"),
                               lambda: torch.ops.mkldnn._linear_pointwise(x, packed(), None, "none", [], ""),
                               *numbers(t), how="oneDNN, weight packed once")
                        del packed
                    except Exception as e:
                        print(f"# {case(t, 'forward')}, oneDNN packed: {e}".splitlines()[0])
                    if kind == "fp32" and hasattr(torch.ops.mkl, "_mkl_reorder_linear_weight"):
                        try:
                            one = rotating(weight.clone, size, not tiny)
                            packed = rotating(
                                lambda: torch.ops.mkl._mkl_reorder_linear_weight(weight, t), size, not tiny)
                            report(case(t, "forward"),
                                   lambda: torch.ops.mkl._mkl_linear(x, packed(), one(), None, t),
                                   *numbers(t), how="MKL, weight packed once")
                            del packed, one
                        except Exception as e:
                            print(f"# {case(t, 'forward')}, MKL packed: {e}".splitlines()[0])


# ---------------------------------------------------------------------------------------------------------------- head
def with_softmax(logits, target):
    logp = F.log_softmax(logits, -1)
    return logp.gather(-1, target[:, None]).squeeze(-1), -(logp.exp() * logp).sum(-1)


def with_logsumexp(logits, target):
    total = torch.logsumexp(logits, -1)
    p = torch.softmax(logits, -1)
    return logits.gather(-1, target[:, None]).squeeze(-1) - total, total - (p * logits).sum(-1)


def logp_softmax(logits, target):
    return F.log_softmax(logits, -1).gather(-1, target[:, None]).squeeze(-1)


def logp_logsumexp(logits, target):
    return logits.gather(-1, target[:, None]).squeeze(-1) - torch.logsumexp(logits, -1)


def logp_cross_entropy(logits, target):
    return -F.cross_entropy(logits, target, reduction="none")


def logp_by_row(logits, target):
    """TRL's selective_log_softmax: row by row, so that no second array of logits is made."""
    chosen = logits.gather(-1, target[:, None]).squeeze(-1)
    return chosen - torch.stack([torch.logsumexp(row, -1) for row in logits])


def variants(eager_first, *others):
    """(how, function): eager ones, and each compiled. The first is the default."""
    yield eager_first.__name__, eager_first
    if options.tuned:
        for f in others:
            yield f.__name__, f
        for f in (eager_first, *others):
            if f is not logp_by_row:
                yield f.__name__ + ", torch.compile", compiled(f)


def backward(f, logits, target):
    def step():
        logits.grad = None
        logp, entropy = f(logits, target)
        (logp.mean() + 1e-3 * entropy.mean()).backward()

    return step


def head():
    for rows, v in ((64 if options.quick else 128, 151936), (512, 32000)):
        of = f" V={v} "
        if not any(wants(options, name + of + way) for name in ("logp", "logp+entropy")
                   for way in ("forward", "forward+backward")):
            continue
        logits, target = 12 * torch.rand(rows, v) - 6, torch.arange(rows) * 997 % v
        size = 4.0 * rows * v
        with torch.no_grad():
            for how, f in variants(logp_softmax, logp_logsumexp, logp_cross_entropy, logp_by_row):
                report("logp" + of + "forward", lambda: f(logits, target), size, "byte", how=how)
            for how, f in variants(with_softmax, with_logsumexp):
                report("logp+entropy" + of + "forward", lambda: f(logits, target), size, "byte", how=how)
        logits.requires_grad_()
        for how, f in variants(with_softmax, with_logsumexp):
            report("logp+entropy" + of + "forward+backward", backward(f, logits, target), 3 * size, "byte", how=how)
    fused_head(128 if options.quick else 512)


def fused_head(n):
    h, v = 896, 151936
    if not any(wants(options, f"linear+logp+entropy rows={n} {kind} {way}") for kind in DTYPES
               for way in ("forward", "forward+backward")):
        return
    x = torch.randn(n, h, requires_grad=True)
    weight = (0.02 * torch.randn(v, h)).requires_grad_()
    target, gradient = torch.arange(n) * 997 % v, 4 * v * h  # everybody needs room for the weight's gradient

    def score(f, x, weight, target, kind):
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bf16"):
            logits = F.linear(x, weight)
        return f(logits.float(), target)

    def chunked(f, kind, size):
        logp = entropy = 0
        for i in range(0, n, size):
            a, b = torch.utils.checkpoint.checkpoint(score, f, x[i:i + size], weight, target[i:i + size], kind,
                                                     use_reentrant=False)
            logp, entropy = logp + a.sum(), entropy + b.sum()
        return logp / n, entropy / n

    def step(function):
        x.grad = weight.grad = None
        logp, entropy = function()
        (logp.mean() + 1e-3 * entropy.mean()).backward()

    for kind in DTYPES:
        of = f"linear+logp+entropy rows={n} {kind} "
        flops = 2.0 * n * h * v
        for how, f in variants(with_softmax, with_logsumexp):
            if options.tuned and (how == "with_logsumexp, torch.compile" or
                                  (kind == "bf16" and how != "with_softmax, torch.compile")):
                continue  # minutes for what is known to be slower
            g = functools.partial(score, f, x, weight, target, kind)
            with torch.no_grad():
                report(of + "forward", g, flops, "flop", memory=0, how=how)
            x.grad = weight.grad = None
            report(of + "forward+backward", lambda: step(g), 3 * flops, "flop", memory=gradient, how=how)
        if options.tuned:
            x.grad = weight.grad = None
            report(of + "forward+backward", lambda: step(lambda: chunked(with_logsumexp, kind, 128)), 3 * flops, "flop",
                   memory=gradient, how="chunks of 128 tokens, checkpointed")


# ----------------------------------------------------------------------------------------------------------- optimizer
def optimizer():
    n = 24_000_000 if options.quick else 96_100_000
    of = f" {n // 1_000_000} M"
    sizes = [n // 96] * 95 + [n - n // 96 * 95]
    parameters = [torch.nn.Parameter(0.05 * torch.randn(k)) for k in sizes]
    for p in parameters:
        p.grad = 0.001 * torch.randn_like(p)
    ways = [("", {})] if not options.tuned else [("fused", {"fused": True}), ("foreach", {"foreach": True})]
    for how, settings in ways:
        adamw = torch.optim.AdamW(parameters, lr=1e-5, **settings)
        report("adamw" + of, adamw.step, 28.0 * n, "byte", how=how)

        def both():
            torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True if options.tuned else None)
            adamw.step()

        report("clip+adamw" + of, both, 32.0 * n, "byte", how=how)
        del adamw
    gradients = [p.grad for p in parameters]
    for foreach in ([None] if not options.tuned else [False, True]):
        report("global norm" + of, lambda: torch.nn.utils.get_total_norm(gradients, foreach=foreach), 4.0 * n, "byte",
               how=f"foreach={foreach}")


# ----------------------------------------------------------------------------------------------------------- attention
def attention():
    b, heads, kv_heads, t, d = 4, 14, 2, 512, 64
    flops = 4.0 * b * heads * d * t * (t + 1) / 2
    for kind, dtype in DTYPES.items():
        q = torch.randn(b, heads, t, d, dtype=dtype, requires_grad=True)
        k, v = (torch.randn(b, kv_heads, t, d, dtype=dtype, requires_grad=True) for _ in "kv")
        dout = torch.randn(b, heads, t, d, dtype=dtype)

        def grouped(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

        def repeated(q, k, v):
            k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        def step(f):
            q.grad = k.grad = v.grad = None
            f(q, k, v).backward(dout)

        for f in (grouped, repeated) if options.tuned else (grouped,):
            of = f"B{b} H{heads}/{kv_heads} T{t} D{d} {kind} "
            with torch.no_grad():
                report(of + "forward", lambda: f(q, k, v), flops, "flop", how=f.__name__)
            report(of + "forward+backward", lambda: step(f), 3.5 * flops, "flop", how=f.__name__)


globals()[options.item]()
