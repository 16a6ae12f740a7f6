"""The item generate of speed_bench by llama.cpp: one token of each of B sequences at a given context, with full logits.

    python bench/peers/llama_generate.py generate --threads 2 --folder build/speed [--tuned] [--quick] [--only TEXT]

Without --tuned: the settings that llama.cpp starts with. With --tuned: flash attention off and on, and 16-bit
weights as f16 as well as bf16; bench/speed.py keeps the fastest of each case. Logits are computed for every sequence; the
log-softmax that a rollout needs on top is left out, in llama.cpp's favour.
"""

import ctypes

import llama_cpp as llama

import gguf_folder
from common import MODELS, MemoryPeak, arguments, best_seconds, line, wants

options = arguments(["generate"], folder={"default": "build/speed"})
WHO = "llama.cpp tuned" if options.tuned else "llama.cpp default"
silent = llama.llama_log_callback(lambda level, text, data: None)
llama.llama_log_set(silent, ctypes.c_void_p(0))
llama.llama_backend_init()


def contexts():
    """(how, changes of the context's parameters)"""
    yield "", {}
    if options.tuned:
        yield "flash attention off", {"flash_attn_type": 0}
        yield "flash attention on", {"flash_attn_type": 1}


class Session:
    def __init__(self, model, sequences, length, changes):
        p = llama.llama_context_default_params()
        p.n_seq_max = sequences
        p.n_ctx = sequences * ((length + 255) // 256 * 256)
        p.n_batch = p.n_ubatch = 512
        p.n_threads = p.n_threads_batch = options.threads
        for key, value in changes.items():
            setattr(p, key, value)
        self.context = llama.llama_init_from_model(model, p)
        if not self.context:
            raise RuntimeError("no context")
        self.memory = llama.llama_get_memory(self.context)
        self.batch = llama.llama_batch_init(512, 0, 1)

    def prepare(self, tokens):
        """tokens: (id, position, sequence, wants logits)"""
        b = self.batch
        b.n_tokens = len(tokens)
        for i, (token, position, sequence, wanted) in enumerate(tokens):
            b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0], b.logits[i] = token, position, 1, sequence, wanted

    def feed(self):
        status = llama.llama_decode(self.context, self.batch)
        if status != 0:
            raise RuntimeError(f"llama_decode: {status}")

    def close(self):
        llama.llama_batch_free(self.batch)
        llama.llama_free(self.context)


def decode(model, name, how, changes, vocabulary, batch, context):
    peak = MemoryPeak()
    s = Session(model, batch, context + 1, changes)
    for start in range(0, context, 512):
        s.prepare([(p * 7919 % vocabulary, p, 0, False) for p in range(start, min(context, start + 512))])
        s.feed()
    for b in range(1, batch):
        llama.llama_memory_seq_cp(s.memory, 0, b, -1, -1)
    s.prepare([(b * 101 % vocabulary, context, b, True) for b in range(batch)])

    def once():
        s.feed()
        llama.llama_get_logits(s.context)
        for b in range(batch):
            llama.llama_memory_seq_rm(s.memory, b, context, -1)

    line(options, WHO, name, best_seconds(once, options.budget), batch, "token", peak.total(), how)
    s.close()


def prefill(model, name, how, changes, vocabulary, length):
    peak = MemoryPeak()
    s = Session(model, 1, length, changes)
    s.prepare([(p * 7919 % vocabulary, p, 0, p == length - 1) for p in range(length)])

    def once():
        llama.llama_memory_clear(s.memory, True)
        s.feed()
        llama.llama_get_logits(s.context)

    line(options, WHO, name, best_seconds(once, options.budget), length, "token", peak.total(), how)
    s.close()


for name in ("1M", "0.5B"):
    tiny = name == "1M"
    vocabulary = MODELS[name][0]
    for kind in ("fp32", "bf16"):
        of = f"{name} {kind} "
        jobs = [(f"{of}B={b} context={c}", decode, (b, c)) for c in ((64,) if tiny else (256, 1024))
                for b in (1, 8, 16, 64) if not options.quick or (c != 1024 and b != 16)]
        jobs.append((of + "prefill=512", prefill, (512,)))
        jobs = [j for j in jobs if wants(options, j[0])]
        if not jobs:
            continue
        for stored in ("bf16", "f16") if kind == "bf16" and options.tuned else (kind,):
            file = gguf_folder.path(options.folder, name, stored)
            p = llama.llama_model_default_params()
            model = llama.llama_model_load_from_file(file.encode(), p)
            if not model:
                raise SystemExit(f"llama_generate: {file} cannot be loaded")
            for how, changes in contexts():
                for case, function, rest in jobs:
                    try:
                        function(model, case, ", ".join(x for x in (stored, how) if x), changes, vocabulary, *rest)
                    except RuntimeError as e:
                        print(f"# {case}, {how}: {e}", flush=True)
            llama.llama_model_free(model)
