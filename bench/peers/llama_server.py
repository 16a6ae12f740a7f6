"""openai_server beside llama.cpp's llama-server: tokens per second, and the time to the first token.

    python bench/peers/llama_server.py --peer PATH/llama-server [--build build] [--clients 1,8,64] [--turns 3] [--threads 2]

Both serve the same random weights, of the shape of Qwen2.5-0.5B, stored and multiplied as bf16. A client asks for a text of
--tokens tokens behind a random prompt of --prompt tokens, streamed and greedy, and asks again when it has got it. The
servers take turns, ours first in every other one, and each is started for each number of clients, the peer with a slot
for each. What llama-server is told beyond that stands in --peer-flags.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

import gguf
import numpy as np

from common import MODELS

SHAPE = "0.5B"
EOS = 151645


def tensors(random_numbers):
    """(Hugging Face's name, GGUF's name, values) of the model; matrices come as bf16 bits, vectors as float32."""
    vocabulary, hidden, intermediate, layers, heads, kv_heads = MODELS[SHAPE]
    width = hidden // heads

    def matrix(rows, columns):
        values = 0.02 * random_numbers.standard_normal((rows, columns), dtype=np.float32)
        return gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16).view(np.uint16)

    yield "model.embed_tokens.weight", "token_embd.weight", matrix(vocabulary, hidden)
    for layer in range(layers):
        ours, theirs = f"model.layers.{layer}.", f"blk.{layer}."
        yield ours + "input_layernorm.weight", theirs + "attn_norm.weight", np.ones(hidden, np.float32)
        for part, rows in (("q", heads * width), ("k", kv_heads * width), ("v", kv_heads * width)):
            yield ours + f"self_attn.{part}_proj.weight", theirs + f"attn_{part}.weight", matrix(rows, hidden)
            yield ours + f"self_attn.{part}_proj.bias", theirs + f"attn_{part}.bias", np.zeros(rows, np.float32)
        yield ours + "self_attn.o_proj.weight", theirs + "attn_output.weight", matrix(hidden, heads * width)
        yield ours + "post_attention_layernorm.weight", theirs + "ffn_norm.weight", np.ones(hidden, np.float32)
        yield ours + "mlp.gate_proj.weight", theirs + "ffn_gate.weight", matrix(intermediate, hidden)
        yield ours + "mlp.up_proj.weight", theirs + "ffn_up.weight", matrix(intermediate, hidden)
        yield ours + "mlp.down_proj.weight", theirs + "ffn_down.weight", matrix(hidden, intermediate)
    yield "model.norm.weight", "output_norm.weight", np.ones(hidden, np.float32)


def vocabulary_texts():
    """A byte-level vocabulary in which every token has a text: the bytes, then words of small letters."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    characters = dict(zip(printable, printable)) | {b: 256 + i for i, b in enumerate(others)}
    texts = [chr(characters[b]) for b in range(256)]
    letters = "abcdefghijklmnopqrstuvwxyz"
    while len(texts) < MODELS[SHAPE][0]:
        n, word = len(texts) - 256, "\u0120"  # a space, then four letters
        for _ in range(4):
            n, letter = divmod(n, 26)
            word += letters[letter]
        texts.append(word)
    texts[EOS] = "<|im_end|>"
    return texts


def save_models(place):
    """A model folder and a GGUF file, unless they are there."""
    folder, file = os.path.join(place, "model"), os.path.join(place, "model.gguf")
    if os.path.exists(file):
        return folder, file
    os.makedirs(folder, exist_ok=True)
    vocabulary, hidden, intermediate, layers, heads, kv_heads = MODELS[SHAPE]
    texts = vocabulary_texts()
    config = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": vocabulary,
              "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
              "num_attention_heads": heads, "num_key_value_heads": kv_heads, "max_position_embeddings": 32768,
              "rope_theta": 1e6, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
              "hidden_act": "silu", "eos_token_id": EOS}
    special = {"id": EOS, "content": texts[EOS], "special": True, "single_word": False, "lstrip": False,
               "rstrip": False, "normalized": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    tokenizer = {"version": "1.0", "added_tokens": [special], "normalizer": None, "pre_tokenizer": byte_level,
                 "post_processor": None, "decoder": byte_level,
                 "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(texts) if i != EOS}, "merges": []}}
    for name, content in (("config.json", config), ("tokenizer.json", tokenizer),
                          ("tokenizer_config.json", {"eos_token": texts[EOS], "tokenizer_class": "Qwen2Tokenizer"})):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(content, f)
    all_tensors = list(tensors(np.random.default_rng(1)))
    save_safetensors(os.path.join(folder, "model.safetensors"), all_tensors)
    save_gguf(file, all_tensors, texts)
    return folder, file


def save_safetensors(name, all_tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for tensor, _, values in all_tensors:
        bits = values if values.dtype == np.uint16 else gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16)
        header[tensor] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [at, at + bits.nbytes]}
        at += bits.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(name, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, _, values in all_tensors:
            bits = values if values.dtype == np.uint16 else gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16)
            f.write(bits.tobytes())


def save_gguf(name, all_tensors, texts):
    _, hidden, intermediate, layers, heads, kv_heads = MODELS[SHAPE]
    w = gguf.GGUFWriter(name + ".part", "qwen2")
    w.add_context_length(32768)
    w.add_embedding_length(hidden)
    w.add_block_count(layers)
    w.add_feed_forward_length(intermediate)
    w.add_head_count(heads)
    w.add_head_count_kv(kv_heads)
    w.add_rope_freq_base(1e6)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(texts)
    w.add_token_types([gguf.TokenType.CONTROL if i == EOS else gguf.TokenType.NORMAL for i in range(len(texts))])
    w.add_token_merges(["a b"])  # it wants one
    w.add_eos_token_id(EOS)
    w.add_add_bos_token(False)
    for _, tensor, values in all_tensors:
        bits = values.dtype == np.uint16
        w.add_tensor(tensor, values.view(np.uint8) if bits else values,
                     raw_dtype=gguf.GGMLQuantizationType.BF16 if bits else None)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    os.rename(name + ".part", name)


class Server:
    """One that runs until it is stopped; `seconds`: what it took to start."""

    def __init__(self, command, port):
        self.port = port
        began = time.monotonic()
        self.log = open(os.devnull, "w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        while True:
            if self.process.poll() is not None:
                sys.exit(f"llama_server: {' '.join(command)}: exit status {self.process.returncode}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                    if answer.status == 200:
                        break
            except OSError:
                time.sleep(0.02)
        self.seconds = time.monotonic() - began

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmHWM:\s+(\d+)", f.read())[1]) / 1024

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


async def ask(port, prompt, tokens):
    """Seconds to the first token, seconds between tokens, tokens, and the text."""
    body = json.dumps({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                       "stream_options": {"include_usage": True}}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
    first = last = None
    text, count = "", 0
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            if line.startswith(b"HTTP/1.1 ") and b" 200 " not in line:
                sys.exit(f"llama_server: {line!r} {await reader.read()!r}")
            continue
        event = json.loads(line[6:])
        if piece := "".join(c["text"] for c in event["choices"]):
            last = time.monotonic()
            first = first or last
            text += piece
        if event.get("usage"):
            count = event["usage"]["completion_tokens"]
    writer.close()
    return first - began, (last - first) / max(1, count - 1), count, text


async def load(port, clients, options):
    """(tokens per second, seconds to each first token, seconds between tokens, first texts)"""
    rounds = max(options.rounds, 4 if clients == 1 else 1)

    async def client(number):
        rng = random.Random(number)
        answers = []
        for _ in range(rounds):
            prompt = [rng.randrange(256, EOS) for _ in range(options.prompt)]
            answers.append(await ask(port, prompt, options.tokens))
        return answers

    await ask(port, [300] * 16, 4)
    began = time.monotonic()
    answers = await asyncio.gather(*(client(i) for i in range(clients)))
    seconds = time.monotonic() - began
    flat = [a for of_client in answers for a in of_client]
    return sum(a[2] for a in flat) / seconds, [a[0] for a in flat], [a[1] for a in flat], [a[3] for a in flat]


def measure(who, clients, options, folder, file):
    port = free_port()
    if who == "rlcore":
        command = [os.path.join(options.build, "bin", "openai_server"), folder, "--port", str(port), "--dtype",
                   "bfloat16", "--rlcore-threads", str(options.threads), "--max-model-len", str(options.length),
                   "--kv-cache-memory-bytes", str(2 << 30), "--rlcore-log-interval", "0", *options.flags.split()]
    else:
        command = [options.peer, "-m", file, "--host", "127.0.0.1", "--port", str(port), "-t", str(options.threads),
                   "-np", str(clients), "-c", str(clients * options.length), "--no-webui",
                   *options.peer_flags.split()]
    server = Server(command, port)
    try:
        before = server.processor_seconds()
        rate, first, between, texts = asyncio.run(load(port, clients, options))
        busy = server.processor_seconds() - before
        return {"who": who, "clients": clients, "rate": rate, "first": statistics.median(first),
                "first_mean": statistics.mean(first), "first_worst": max(first),
                "between": statistics.median(between), "start": server.seconds, "memory": server.memory(),
                "busy": busy / (len(texts) * options.tokens), "texts": texts}
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="llama-server")
    parser.add_argument("--build", default="build")
    parser.add_argument("--clients", default="1,8,64")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1, help="texts that a client asks for, one after the other")
    parser.add_argument("--flags", default="", help="more flags of openai_server")
    parser.add_argument("--peer-flags", default="", help="more flags of llama-server")
    parser.add_argument("--only", default="", help="one of the two")
    parser.add_argument("--json")
    options = parser.parse_args()
    options.length = (options.prompt + options.tokens + 255) // 256 * 256
    place = os.path.join(options.build, "speed", "serving")
    folder, file = save_models(place)
    rows = []
    for clients in map(int, options.clients.split(",")):
        for turn in range(options.turns):
            for who in sorted(("rlcore", "llama.cpp"), reverse=turn % 2 == 0):
                if options.only not in who:
                    continue
                rows.append(measure(who, clients, options, folder, file))
                r = rows[-1]
                print(f"{r['clients']:3d} clients  {r['who']:10s} {r['rate']:7.1f} tok/s   first token {r['first']:.3f} s "
                      f"(mean {r['first_mean']:.3f}, worst {r['first_worst']:.3f}), then {1e3 * r['between']:.1f} ms each"
                      f"   {1e3 * r['busy']:.2f} ms of processor time a token, start {r['start']:.2f} s, "
                      f"{r['memory']:.0f} MiB", flush=True)
        report(clients, rows)
    if options.json:
        with open(options.json, "w") as f:
            json.dump([{k: v for k, v in r.items() if k != "texts"} for r in rows], f)


def report(clients, rows):
    """Ratios of pairs that ran one after the other, and how often the first word of a text is the same."""
    of = {who: [r for r in rows if r["clients"] == clients and r["who"] == who] for who in ("rlcore", "llama.cpp")}
    pairs = list(zip(of["rlcore"], of["llama.cpp"]))
    if not pairs:
        return
    ratios = sorted(a["rate"] / b["rate"] for a, b in pairs)
    firsts = sorted(a["first_mean"] / b["first_mean"] for a, b in pairs)
    same = [x.split()[:1] == y.split()[:1] for x, y in zip(pairs[0][0]["texts"], pairs[0][1]["texts"])]
    print(f"{clients:3d} clients  {statistics.median(ratios):.2f} x llama.cpp's tokens per second "
          f"({ratios[0]:.2f} .. {ratios[-1]:.2f}), first tokens after {statistics.median(firsts):.2f} of its time "
          f"({firsts[0]:.2f} .. {firsts[-1]:.2f}); {sum(same)} of {len(same)} texts begin with the same word", flush=True)


if __name__ == "__main__":
    main()
