#!/usr/bin/env python3
"""Many clients of one openai_server, of all manners:

    load.py [--build build] [--clients 256] [--seconds 60] [--seed 1] [--latency 50]

They read to the end, leave in the middle of a body or of a stream, break off their own request, or read slowly. Every
answer that is read to its end has to be, but for its name, what the only client of another server got. After the first
tenth of the time, memory may grow by the cache of keys and values alone, whose pages are the machine's when they are
first used. 99 of 100 requests for /v1/models are answered within --latency milliseconds. At the end nothing is left
running, and SIGTERM ends the server.
"""
import argparse
import asyncio
import collections
import json
import multiprocessing
import pathlib
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANNERS = {"reads": 60, "leaves": 20, "breaks off": 8, "reads slowly": 12}  # in percent
MEBIBYTE = 1 << 20
CACHE = 64 * MEBIBYTE


def save_model(build, place):
    source = place / "tokenizer"
    source.mkdir()
    shutil.copy(ROOT / "tests/reference/text_qwen2/tokenizer.json", source)
    turn = "{{- '<|im_start|>' + turn.role + '\\n' + turn.content + '<|im_end|>\\n' }}"
    (source / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "chat_template": "{%- for turn in messages %}" + turn + "{%- endfor %}"}))
    subprocess.run([build / "bin/random_model", "--tokenizer", source, "--output", place / "model"], check=True,
                   stdout=subprocess.DEVNULL)
    return place / "model"


def start(build, model, log):
    """A server and its port."""
    command = [build / "bin/openai_server", model, "--served-model-name", "auto", "--port", "0", "--max-num-seqs", "24",
               "--kv-cache-memory-bytes", str(CACHE), "--rlcore-log-interval", "0"]
    process = subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT)
    while not (found := re.search(r"ready +http://127\.0\.0\.1:(\d+)", log.read_text())):
        if process.poll() is not None:
            sys.exit(f"load: the server did not start: {log.read_text()}")
        time.sleep(0.05)
    return process, int(found[1])


def requests(rng):
    """Requests of both endpoints with every option that changes how an answer is made; all have a seed."""
    made = []
    for i in range(64):
        body = {"seed": i, "max_tokens": rng.choice((1, 5, 20, 60, 200)), "temperature": rng.choice((0, 0.7, 1.3)),
                "ignore_eos": rng.random() < 0.7, "stream": rng.random() < 0.6, "n": rng.choice((1, 1, 1, 3))}
        if rng.random() < 0.3:
            body |= {"repetition_penalty": 1.1, "top_k": 20, "top_p": 0.9}
        if rng.random() < 0.2:
            body["stop"] = ["e", "12"]
        words = rng.choices(("apples", "are", "left", "and 12", "Ann", "été"), k=rng.choice((2, 40, 300)))
        if rng.random() < 0.5:
            path = "/v1/completions"
            body |= {"prompt": " ".join(words)} | ({"logprobs": 2} if rng.random() < 0.3 else {})
        else:
            path = "/v1/chat/completions"
            body |= {"messages": [{"role": "user", "content": " ".join(words)}]}
            body |= {"logprobs": True, "top_logprobs": 2} if rng.random() < 0.3 else {}
        made.append((path, json.dumps(body).encode()))
    return made


def content(body):
    """What of an answer does not depend on when it was asked for."""
    text = body.decode()
    if not text.startswith("data: "):
        answer = json.loads(text)
        return json.dumps([answer["choices"], answer["usage"]])
    events = text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""], text[-300:]
    choices = collections.defaultdict(list)
    for event in events[:-2]:
        for choice in json.loads(event[6:])["choices"]:
            choices[choice["index"]].append(choice)  # which choice comes first is nobody's promise
    joined = {}
    for index, parts in choices.items():
        joined[index] = ["".join(p.get("text", "") + p.get("delta", {}).get("content", "") for p in parts),
                         parts[-1]["finish_reason"], parts[-1]["stop_reason"],
                         [x for p in parts if p["logprobs"] for x in p["logprobs"].get("token_logprobs",
                          [t["logprob"] for t in p["logprobs"].get("content", [])])]]
    return json.dumps(joined, sort_keys=True)


def alone(port, made):
    """Each answer, one after the other."""
    answers = []
    for path, body in made:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"})
        answers.append(content(urllib.request.urlopen(request).read()))
    return answers


async def whole(reader, slowly):
    """Status and body of a response; `slowly` waits between small pieces."""
    async def exactly(n):
        parts = []
        while n > 0:
            parts.append(await reader.readexactly(min(n, 700) if slowly else n))
            n -= len(parts[-1])
            if slowly:
                await asyncio.sleep(0.02)
        return b"".join(parts)

    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status = int(head.split()[1])
    if length := re.search(r"(?i)content-length: (\d+)", head):
        return status, await exactly(int(length[1]))
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += await exactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return status, body


async def client(port, made, wanted, until, rng, counts):
    manners, weights = list(MANNERS), list(MANNERS.values())
    while time.monotonic() < until:
        side = socket.socket()
        side.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        side.setblocking(False)
        await asyncio.get_running_loop().sock_connect(side, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=side)
        for _ in range(rng.randint(1, 6)):  # on one connection
            if time.monotonic() > until:
                break
            which, manner = rng.randrange(len(made)), rng.choices(manners, weights)[0]
            path, body = made[which]
            head = (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n").encode()
            if manner == "breaks off":
                writer.write((head + body)[:rng.randrange(1, len(head + body))])
                await asyncio.sleep(rng.random() * 0.2)
            else:
                writer.write(head + body)
            if manner == "leaves":
                try:
                    await asyncio.wait_for(reader.read(rng.choice((1, 2000))), rng.random())
                except asyncio.TimeoutError:
                    pass
            counts[manner] += 1
            if manner in ("breaks off", "leaves"):
                break
            status, answer = await whole(reader, manner == "reads slowly")
            if status != 200 or content(answer) != wanted[which]:
                counts["wrong"] += 1
                print(f"load: {status} for {body!r}:\n{answer[:2000]!r}\nexpected {wanted[which][:2000]}", flush=True)
        writer.transport.abort()


def watch(port, pid, end, results):
    """Latency of /v1/models and memory, from a process of its own."""
    begin, report, latencies, all_latencies = time.monotonic(), 0, [], []
    while not end.is_set():
        asked = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models") as answer:
            answer.read()
        latencies.append(1e3 * (time.monotonic() - asked))
        if asked - begin >= report:
            load = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/load"))["server_load"]
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            rss = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024
            results.put((asked - begin, rss))
            threads = int(re.search(r"Threads:\s+(\d+)", status)[1])
            print(f"{asked - begin:6.0f} s  {rss / MEBIBYTE:7.1f} MiB  {threads:4d} threads  {load:4d} requests  "
                  f"/v1/models {statistics.median(latencies):6.1f} ms, at most {max(latencies):6.1f} ms", flush=True)
            all_latencies += latencies
            latencies, report = [], report + max(1, min(30, asked - begin))
        time.sleep(0.05)
    all_latencies = sorted(all_latencies + latencies)
    results.put([all_latencies[int(len(all_latencies) * q)] for q in (0.5, 0.99)] + [all_latencies[-1]])


async def clients(port, made, wanted, options, counts):
    until = time.monotonic() + options.seconds
    await asyncio.gather(*(client(port, made, wanted, until, random.Random(f"{options.seed} {i}"), counts)
                           for i in range(options.clients)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build")
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--latency", type=float, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        model = save_model(options.build.resolve(), place)
        made = requests(random.Random(options.seed))
        process, port = start(options.build.resolve(), model, place / "alone.log")
        wanted = alone(port, made)
        process.terminate()
        process.wait()
        process, port = start(options.build.resolve(), model, place / "log")
        try:
            run(process, port, made, wanted, options)
        finally:
            process.kill()


def run(process, port, made, wanted, options):
    counts, results, end = collections.Counter(), multiprocessing.Queue(), multiprocessing.Event()
    watcher = multiprocessing.Process(target=watch, args=(port, process.pid, end, results))
    watcher.start()
    asyncio.run(clients(port, made, wanted, options, counts))
    end.set()
    rows = []
    while not isinstance(row := results.get(timeout=60), list):
        rows.append(row)
    watcher.join()
    print("load: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    print("load: /v1/models: median {:.1f} ms, 99 % {:.1f} ms, at most {:.1f} ms".format(*row))
    settled = [rss for seconds, rss in rows if seconds >= options.seconds / 10]
    print(f"load: memory from {settled[0] / MEBIBYTE:.1f} to {settled[-1] / MEBIBYTE:.1f} MiB, "
          f"at most {max(settled) / MEBIBYTE:.1f} MiB")
    faults = [f"{counts['wrong']} wrong answers"] if counts["wrong"] else []
    if max(settled) > settled[0] + CACHE:
        faults.append("memory grows")
    if row[1] > options.latency:
        faults.append("/v1/models is slow")
    for _ in range(100):
        load = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/load"))["server_load"]
        if load == 0:
            break
        time.sleep(0.1)
    metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    for name in ("num_requests_running", "num_requests_waiting"):
        if left := float(re.search(rf"vllm:{name}{{.*}} (.*)", metrics)[1]):
            faults.append(f"{name} = {left} at the end")
    if load:
        faults.append(f"{load} requests at the end")
    process.send_signal(signal.SIGTERM)
    if (code := process.wait(timeout=60)) != 143:
        faults.append(f"exit code {code}")
    if faults:
        sys.exit("load: " + "; ".join(faults))


if __name__ == "__main__":
    main()
