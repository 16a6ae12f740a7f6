#!/usr/bin/env python3
"""The cases of `speed_bench cuda` by PyTorch on the same GPU, one JSON line each: torch.matmul, SDPA, fused AdamW and, where
transformers is installed, Qwen2 at the shape of Qwen2.5-0.5B.

    torch_cuda.py cuda [--quick] [--only TEXT]
"""

import torch
import torch.nn.functional as F

from common import arguments, best_seconds, line, wants

CALLS = 10


def timed(o, case, work, unit, function, who="torch"):
    if not wants(o, case):
        return

    def calls():
        for _ in range(CALLS):
            function()
        torch.cuda.synchronize()

    line(o, who, case, best_seconds(calls, o.budget) / CALLS, work, unit)


def values(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def products(o, name, dtype):
    for t in (1, 16, 64, 8192):
        shapes = [(4864, 896), (896, 4864)] + ([(151936, 896)] if t <= 64 else [])
        for outputs, inputs in shapes:
            x, w, dy = values(t, inputs, dtype=dtype), values(outputs, inputs, dtype=dtype), values(t, outputs, dtype=dtype)
            case, work = f"{name} t={t} {inputs}->{outputs} ", 2.0 * t * outputs * inputs
            timed(o, case + "forward", work, "flop", lambda: torch.matmul(x, w.t()))
            if t > 64:
                timed(o, case + "dX", work, "flop", lambda: torch.matmul(dy, w))
                timed(o, case + "dW", work, "flop", lambda: torch.matmul(dy.t(), x))


def attention(o, sequences, heads, kv_heads, length, head_dim):
    case = f"attention B{sequences} H{heads}/{kv_heads} T{length} D{head_dim} "
    work = 4.0 * heads * head_dim * sequences * length * (length + 1) / 2
    for who, dtype in (("torch", torch.float32), ("torch bf16", torch.bfloat16)):
        q = values(sequences, heads, length, head_dim, dtype=dtype).requires_grad_()
        # float32 has no fused kernel for grouped queries, so it gets keys for every head
        of_keys = heads if dtype == torch.float32 else kv_heads
        k, v = (values(sequences, of_keys, length, head_dim, dtype=dtype).requires_grad_() for _ in range(2))
        dout = values(sequences, heads, length, head_dim, dtype=dtype)

        def forward():
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.125,
                                                  enable_gqa=of_keys != heads)

        timed(o, case + "forward", work, "flop", forward, who)
        out = forward()
        timed(o, case + "backward", 2.5 * work, "flop",
              lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True), who)


def elements(o):
    x, weight, gate_up = values(8192, 896), values(896), values(8192, 2 * 4864)
    timed(o, "rms_norm 8192x896", 8.0 * x.numel(), "byte", lambda: F.rms_norm(x, (896,), weight, 1e-6))
    timed(o, "swiglu 8192x4864", 12.0 * 8192 * 4864, "byte",
          lambda: F.silu(gate_up[:, :4864]) * gate_up[:, 4864:])
    n = 1 << 27
    w = torch.nn.Parameter(values(n))
    w.grad = values(n)
    adamw = torch.optim.AdamW([w], lr=1e-5, fused=True)
    timed(o, f"adamw {n}", 28.0 * n, "byte", adamw.step)
    logits, targets = values(1024, 151936), torch.full((1024, 1), 3, device="cuda")

    def score():
        p = torch.log_softmax(logits, -1)
        return p.gather(1, targets), -(p.exp() * p).sum(-1)

    timed(o, "logp+entropy 1024x151936", 4.0 * logits.numel(), "byte", score)


def model(o):
    try:
        from transformers import Qwen2Config, Qwen2ForCausalLM, StaticCache
    except ImportError:
        return
    config = Qwen2Config(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                         num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True)
    m = Qwen2ForCausalLM(config).to("cuda", torch.bfloat16)
    adamw = torch.optim.AdamW(m.parameters(), lr=1e-5, fused=True)
    ids = torch.randint(0, 151936, (8, 1024), device="cuda")
    if wants(o, "train 0.5B bf16 tokens=8192"):

        def step():
            adamw.zero_grad(set_to_none=True)
            m(input_ids=ids, labels=ids, use_cache=False).loss.backward()
            torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            adamw.step()
            torch.cuda.synchronize()

        line(o, "transformers, all in bf16", "train 0.5B bf16 tokens=8192", best_seconds(step, o.budget), 8192, "token")
    for batch in (1, 64, 256):
        case = f"decode 0.5B bf16 B={batch}"
        if not wants(o, case):
            continue
        cache = StaticCache(config=config, max_batch_size=batch, max_cache_len=320, device="cuda", dtype=torch.bfloat16)
        place, token = torch.tensor([256], device="cuda"), torch.full((batch, 1), 5, device="cuda")

        def decode():
            with torch.no_grad():
                for layer in getattr(cache, "layers", ()):  # newer versions count from there
                    if hasattr(layer, "cumulative_length"):
                        layer.cumulative_length.fill_(256)
                logits = m(input_ids=token, past_key_values=cache, cache_position=place).logits[:, -1].float()
                p = torch.log_softmax(logits, -1)
                return torch.multinomial(p.exp(), 1).cpu()

        line(o, "transformers", case, best_seconds(decode, o.budget), batch, "token")


def main():
    o = arguments(["cuda"])
    torch.backends.cuda.matmul.allow_tf32 = False
    n = 1 << 26
    x, y = values(n), values(n)
    timed(o, "copy", 8.0 * n, "byte", lambda: y.copy_(x))
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        products(o, name, dtype)
    attention(o, 4, 14, 2, 1024, 64)
    attention(o, 2, 16, 8, 4096, 128)
    elements(o)
    model(o)


if __name__ == "__main__":
    main()
