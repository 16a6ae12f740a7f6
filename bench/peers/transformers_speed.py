"""The items train and generate of speed_bench by PyTorch and transformers.

    python bench/peers/transformers_speed.py train|generate --threads 2 [--tuned] [--quick] [--only TEXT]

Without --tuned: the model's own loss, torch.optim.AdamW, clip_grad_norm_; bf16 means autocast in training and bf16
weights in generation. With --tuned: fused AdamW, torch.compile, pure bf16 weights; in generation a static cache, compiled.
Where compiling takes minutes and the rest is large products anyway (0.5B in bf16, batches above 8), it is left out.
bench/speed.py keeps the fastest of each case.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM, StaticCache  # noqa: E402
from transformers.utils import logging  # noqa: E402

from common import MODELS, MemoryPeak, arguments, best_seconds, line, wants  # noqa: E402

options = arguments(["train", "generate"])
torch.set_num_threads(options.threads)
logging.set_verbosity_error()
WHO = "torch tuned" if options.tuned else "torch default"


def make(name, dtype=torch.float32):
    vocabulary, hidden, intermediate, layers, heads, kv_heads = MODELS[name]
    config = Qwen2Config(vocab_size=vocabulary, hidden_size=hidden, intermediate_size=intermediate,
                         num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
                         max_position_embeddings=32768, tie_word_embeddings=True, rope_theta=1e6,
                         attn_implementation="sdpa")
    torch.manual_seed(1)
    with torch.device("cpu"):
        torch.set_default_dtype(dtype)
        model = Qwen2ForCausalLM(config)
        torch.set_default_dtype(torch.float32)
    return model


def attempt(case, how, function, *settings):
    try:
        function(case, how, *settings)
    except Exception as e:  # a way that this version does not have is no candidate
        print(f"# {case}, {how}: {type(e).__name__}: {(str(e).splitlines() or [''])[0]}", flush=True)
    torch.compiler.reset()


# --------------------------------------------------------------------------------------------------------------- train
def train_step(case, how, name, kind, sequences, length, fused, compiled, pure):
    peak = MemoryPeak()
    model = make(name, torch.bfloat16 if pure else torch.float32)
    model.train()
    run = torch.compile(model, dynamic=False) if compiled else model
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-5, **({"fused": True} if fused else {}))
    ids = torch.arange(sequences * length).reshape(sequences, length) * 7919 % MODELS[name][0]

    def step():
        adamw.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bf16" and not pure):
            loss = run(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()

    seconds = best_seconds(step, options.budget)
    line(options, WHO, case, seconds, sequences * length, "token", peak.total(), how)


def train():
    for name in ("1M", "124M", "0.5B"):
        tiny = name == "1M"
        for kind in ("fp32", "bf16"):
            for sequences, length in ((8, 32), (8, 128)) if tiny else ((4, 64), (4, 256)):
                tokens = sequences * length
                case = f"{name} {kind} tokens={tokens}"
                if not wants(options, case):
                    continue
                if name == "0.5B" and options.threads == 1 and not options.only:  # a step takes minutes
                    continue
                if options.quick and not tiny and (name == "0.5B" or tokens > 256) and not options.only:
                    continue
                size = name, kind, sequences, length
                if not options.tuned:
                    attempt(case, "", train_step, *size, False, False, False)
                    continue
                attempt(case, "fused AdamW", train_step, *size, True, False, False)
                if name == "0.5B" and kind == "bf16":
                    continue
                attempt(case, "fused AdamW, torch.compile", train_step, *size, True, True, False)
                if kind == "bf16" and name != "0.5B":
                    attempt(case, "fused AdamW, bf16 weights", train_step, *size, True, False, True)


# ------------------------------------------------------------------------------------------------------------ generate
def filled(cache, model, batch, context):
    c = model.config
    for layer in range(c.num_hidden_layers):
        shape = batch, c.num_key_value_heads, context, c.hidden_size // c.num_attention_heads
        k = torch.randn(shape, dtype=model.dtype)
        if isinstance(cache, StaticCache):
            cache.update(k, k.clone(), layer, {"cache_position": torch.arange(context)})
        else:
            cache.update(k, k.clone(), layer)
    return cache


@torch.inference_mode()
def decode(case, how, name, model, batch, context, static):
    peak = MemoryPeak()
    ids = torch.arange(batch)[:, None] * 101 % MODELS[name][0]
    target = ids[:, 0]
    if static:
        cache = filled(StaticCache(config=model.config, max_cache_len=context + 1), model, batch, context)
        run = torch.compile(model.forward, dynamic=False)
        position = torch.full((batch, 1), context)
        settings = {"cache_position": torch.tensor([context])}
    else:
        cache = filled(DynamicCache(config=model.config), model, batch, context)
        run, position, settings = model, torch.full((batch, 1), context), {}

    def step():
        out = run(input_ids=ids, position_ids=position, past_key_values=cache, use_cache=True, **settings)
        chosen = F.log_softmax(out.logits[:, -1].float(), -1).gather(-1, target[:, None])
        if static:
            for layer in cache.layers:
                if hasattr(layer, "cumulative_length"):
                    layer.cumulative_length = (layer.cumulative_length.fill_(context)
                                               if torch.is_tensor(layer.cumulative_length) else context)
        else:
            cache.crop(-1)
        return chosen

    line(options, WHO, case, best_seconds(step, options.budget), batch, "token", peak.total(), how)


@torch.inference_mode()
def prefill(case, how, name, model, length):
    peak = MemoryPeak()
    ids = torch.arange(length)[None] * 7919 % MODELS[name][0]

    def step():
        return model(input_ids=ids, use_cache=True, logits_to_keep=1).logits

    line(options, WHO, case, best_seconds(step, options.budget), length, "token", peak.total(), how)


def generate():
    for name in ("1M", "0.5B"):
        tiny = name == "1M"
        for kind, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            of = f"{name} {kind} "
            jobs = [(f"{of}B={b} context={c}", b, c) for c in ((64,) if tiny else (256, 1024)) for b in (1, 8, 16, 64)
                    if not options.quick or (c != 1024 and b != 16)]
            jobs = [j for j in jobs if wants(options, j[0])]
            ask_prefill = wants(options, of + "prefill=512")
            if not jobs and not ask_prefill:
                continue
            model = make(name, dtype).eval()
            for case, batch, context in jobs:
                attempt(case, "", decode, name, model, batch, context, False)
                if options.tuned and (tiny or (batch <= 8 and context == 256 and options.threads > 1)):
                    attempt(case, "static cache, torch.compile", decode, name, model, batch, context, True)
            if ask_prefill:
                attempt(of + "prefill=512", "", prefill, name, model, 512)


globals()[options.item]()
