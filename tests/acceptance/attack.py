#!/usr/bin/env python3
"""Attacks on the programs from outside; whatever is sent, stored or killed, nothing becomes wrong, slow or dead:

    attack.py [--build build] [--part server|files|runs]... [--requests 100000] [--slow 256] [--kills 200] [--seed 1]

server  --requests of 64 clients: valid ones, broken ones, cut ones, foreign pages, wrong keys, inputs that would take
        quadratic time, while --slow others send a byte now and then. Each answer that is asked for has one of the
        statuses of its kind, valid ones the text that an only client got, /health is 200 all the time, memory does not
        grow, and SIGTERM ends the server.
files   every file of a checkpoint damaged in twelve ways, and mixed with that of another step: each resume ends in one
        line that names the file, and with exit code 1.
runs    --kills of SIGKILL at random instants over all trainers; the run that goes on ends with the bits of one that
        was left alone.
"""
import argparse
import asyncio
import collections
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/reference/first_steps"
KEY = "secret-%41"
faults = []


def fail(message):
    faults.append(message)
    if len(faults) <= 20:
        print(f"attack: {message}", flush=True)


def model_folder(place):
    folder = place / "model"
    shutil.copytree(DATA / "qwen2", folder)
    shutil.copytree(DATA / "tokenizer", folder, dirs_exist_ok=True)
    return folder


# --- server ----------------------------------------------------------------------------------------------------------


def http(path, body, headers=(), method="POST", key=KEY):
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1:1", f"Content-Length: {len(body)}"]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}")
    if not any(h.lower().startswith("content-type") for h in headers):
        lines.append("Content-Type: application/json")
    return ("\r\n".join([*lines, *headers]) + "\r\n\r\n").encode() + body


def completion(**fields):
    return json.dumps({"prompt": "Ann has 12 apples", "max_tokens": 5, "seed": 1} | fields).encode()


def valid(number):
    """Requests whose answers are known from an only client."""
    path = "/v1/completions" if number % 2 == 0 else "/v1/chat/completions"
    body = {"seed": number, "max_tokens": 1 + number % 9, "temperature": number % 3 / 2}
    prompt = f"Bo has {number % 40} coins and gives {number % 7} away."
    body |= {"prompt": prompt} if number % 2 == 0 else {"messages": [{"role": "user", "content": prompt}]}
    return path, json.dumps(body).encode()


def hostile(rng):
    """A request that is no good, or hard, and the statuses that it may have."""
    kinds = [
        lambda: (http("/v1/completions", completion(), key=rng.choice((None, "", "secret-A", "secret-%2541", "x" * 9000)))
                 , {400, 401, 431}),
        lambda: (http("/v1/completions", completion(), [f"Origin: {rng.choice(('http://bad', 'null', 'http://127.0.0.1:2'))}"]),
                 {403}),
        lambda: (http("/sleep", b"", ["Origin: http://bad"]), {403}),
        lambda: (http("/update_weights", json.dumps({"model": rng.choice(("/", "nowhere", "/dev/zero", "\0", 7))}).encode()),
                 {400}),
        lambda: (http("/v1/completions", rng.randbytes(rng.randrange(300))), {400}),
        lambda: (http("/v1/completions", b"[" * rng.choice((10, 70, 100000))), {400}),
        lambda: (http("/v1/completions", b'{"prompt": "' + b"\xff" * 100 + b'"}'), {400}),
        lambda: (http("/v1/completions", completion(**{rng.choice(("max_tokens", "n", "seed", "logprobs", "top_k")): rng.choice(
            (-1, 1e300, 2**70, "x", [], {}, None, 10**6))})), {200, 400}),
        lambda: (http("/v1/completions", completion(prompt=rng.choice(([], [[]], [1e9], [-1], {}, "", ["a"] * 2000)))), {200, 400}),
        lambda: (http("/v1/completions", completion(bad_words=["x" * 2_000_000])), {400}),
        lambda: (http("/v1/completions", completion(stop=["x" * 2_000_000])), {400}),
        lambda: (http("/v1/chat/completions", json.dumps({"max_tokens": 1, "messages": rng.choice((
            [], "x", [{}], [{"role": "x"}], [{"role": "user", "content": [{"type": "image_url"}]}],
            [{"role": "tool", "content": None}], [{"role": "user", "content": "a"}] * 300))}).encode()), {200, 400}),
        lambda: (http(rng.choice(("/v1/nothing", "//", "/%2e%2e/etc/passwd", "/v1/models/../../x")), b"{}"), {400, 404}),
        lambda: (http("/health", b"", method=rng.choice(("PUT", "DELETE", "TRACE", "BREW"))), {400, 405}),
        lambda: (http("/v1/completions", completion(), ["Content-Type: text/plain"]), {400}),
        lambda: (http("/v1/completions", completion(), ["Transfer-Encoding: chunked"]), {400}),
        lambda: (http("/v1/completions", completion(), ["Content-Encoding: gzip"]), {400}),
        lambda: (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70000 + b"\r\n\r\n", {431}),
        lambda: (rng.randbytes(rng.randrange(1, 200)).replace(b"\n", b"") + b"\r\n\r\n", {400}),
    ]
    return rng.choice(kinds)()


def hard(rng):
    """Inputs that a quadratic reader would take minutes for."""
    prompt = rng.choice(("a" + "\u0301" * 40000, " " * 200000, "<|im_start|>" * 20000, "\n" * 100000, "1" * 100000))
    if rng.random() < 0.5:
        return http("/tokenize", json.dumps({"prompt": prompt}).encode(), key=None), {200, 400}
    messages = [{"role": rng.choice(("user", "assistant")), "content": "x"} for _ in range(5000)]
    return http("/tokenize", json.dumps({"messages": messages}).encode(), key=None), {200, 400}


async def exchange(port, request, patience=60):
    """Status and body of the answer to one request on a connection of its own; no status if none came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    try:
        writer.write(request)
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), patience)).decode("latin-1")
        length = re.search(r"(?i)content-length: (\d+)", head)
        body = await asyncio.wait_for(reader.readexactly(int(length[1])), patience) if length else b""
        return int(head.split()[1]), body
    except (ConnectionError, asyncio.IncompleteReadError):
        return None, b""
    finally:
        writer.transport.abort()


def text_of(body):
    return json.dumps(json.loads(body)["choices"])


async def client(port, requests, wanted, rng, counts):
    while counts["sent"] < requests:
        counts["sent"] += 1
        dice = rng.random()
        if dice < 0.35:
            which = rng.randrange(len(wanted))
            status, body = await exchange(port, http(*valid(which)))
            counts["valid"] += 1
            if status != 200 or text_of(body) != wanted[which]:
                fail(f"valid request {which}: {status} {body[:300]!r}")
        elif dice < 0.5:
            counts["cut"] += 1
            request = http(*valid(rng.randrange(len(wanted))))
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request[:rng.randrange(1, len(request) + 1)])
            await asyncio.sleep(rng.random() * 0.05)
            writer.transport.abort()
        else:
            kind = "hard" if dice > 0.999 else "hostile"
            request, allowed = hard(rng) if kind == "hard" else hostile(rng)
            began = time.monotonic()
            status, body = await exchange(port, request)
            counts[kind] += 1
            counts[f"status {status}"] += 1
            if status is not None and status not in allowed:
                fail(f"{request[:200]!r}: {status} {body[:300]!r}, expected one of {allowed}")
            if kind == "hard" and time.monotonic() - began > 30:
                fail(f"{request[:120]!r} took {time.monotonic() - began:.0f} s")


async def slow_client(port, rng, end, counts):
    """A body, or a head, that comes a byte at a time."""
    while not end.is_set():
        request = http("/v1/completions", b" " * 100000, key=rng.choice((KEY, None)))
        if rng.random() < 0.3:
            request = b"GET /v1/models HTTP/1.1\r\nX: " + b"a" * 1000
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            counts["slow"] += 1
            sent = request.find(b"\r\n\r\n") + 5
            writer.write(request[:sent])
            while not end.is_set() and not writer.transport.is_closing():
                await asyncio.sleep(rng.random() * 4)
                writer.write(request[sent:sent + 1])
                sent += 1
            writer.transport.abort()
        except ConnectionError:
            pass


async def watch(port, end, worst):
    while not end.is_set():
        began = time.monotonic()
        status, _ = await exchange(port, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        worst[0] = max(worst[0], time.monotonic() - began)
        if status != 200:
            fail(f"/health is {status}")
        await asyncio.sleep(0.2)


async def storm(port, options, wanted, counts, worst):
    end = asyncio.Event()
    rest = [asyncio.ensure_future(slow_client(port, random.Random(f"{options.seed} slow {i}"), end, counts))
            for i in range(options.slow)]
    rest.append(asyncio.ensure_future(watch(port, end, worst)))
    await asyncio.gather(*(client(port, options.requests, wanted, random.Random(f"{options.seed} {i}"), counts)
                           for i in range(64)))
    end.set()
    await asyncio.gather(*rest)


def memory_of(process):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1]) / 1024


def part_server(build, place, options):
    log = place / "server.log"
    command = [build / "bin/openai_server", "--model", model_folder(place), "--served-model-name", "auto", "--port", "0",
               "--api-key", KEY, "--enable-dev-endpoints", "--kv-cache-memory-bytes", "64M", "--rlcore-log-interval", "0"]
    process = subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT)
    try:
        while not (found := re.search(r"ready +http://127\.0\.0\.1:(\d+)", log.read_text())):
            if process.poll() is not None:
                return fail(f"the server did not start: {log.read_text()}")
            time.sleep(0.05)
        port = int(found[1])
        wanted = [text_of(asyncio.run(exchange(port, http(*valid(i))))[1]) for i in range(64)]
        counts, worst = collections.Counter(), [0.0]
        tenth = argparse.Namespace(**vars(options) | {"requests": max(200, options.requests // 10)})
        asyncio.run(storm(port, tenth, wanted, collections.Counter(), worst))
        before, worst = memory_of(process), [0.0]
        asyncio.run(storm(port, options, wanted, counts, worst))
        after = memory_of(process)
        print("attack: server: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
        print(f"attack: server: memory from {before:.0f} to {after:.0f} MiB; /health within {worst[0]:.2f} s")
        if after > before + 64 + 32:
            fail(f"the server's memory grows from {before:.0f} to {after:.0f} MiB")
        process.send_signal(signal.SIGTERM)
        if (code := process.wait(timeout=30)) != 143:
            fail(f"SIGTERM ended the server with exit code {code}: {log.read_text()[-500:]}")
    finally:
        process.kill()


# --- runs and files --------------------------------------------------------------------------------------------------


def trainers(build, model):
    """Name, and a command line but for the folder: steps of milliseconds, a checkpoint every second one."""
    score = model.parent / "score"  # a random model earns nothing by GSM8K's rule
    score.write_text("#!/bin/sh\nwhile read -r line; do echo $((${#line} % 2)); done\n")
    score.chmod(0o755)

    def openrlhf(program, *more):
        return lambda folder: [build / f"bin/{program}", "--pretrain", model, "--ckpt_path", folder, "--save_path",
                               f"{folder}_model", "--train_batch_size", "4", "--micro_train_batch_size", "2",
                               "--max_epochs", "4", "--learning_rate", "1e-3", "--save_steps", "2", "--load_checkpoint",
                               "--max_ckpt_num", "3", "rlcore.threads=1", *more]

    def policy(program, *more):
        return lambda folder: [build / f"bin/{program}", f"data.train_files={DATA}/prompts.jsonl",
                               f"data.val_files={DATA}/held_out.jsonl", "data.train_batch_size=4",
                               "data.max_prompt_length=64", "data.max_response_length=16",
                               f"actor_rollout_ref.model.path={model}", "actor_rollout_ref.rollout.n=3",
                               "actor_rollout_ref.actor.ppo_mini_batch_size=2",
                               "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=5",
                               "actor_rollout_ref.actor.optim.lr=2e-3",
                               f"custom_reward_function.path={score}",
                               "trainer.total_training_steps=8", "trainer.total_epochs=9", "trainer.save_freq=2",
                               f"trainer.default_local_dir={folder}", "trainer.max_actor_ckpt_to_keep=3",
                               "rlcore.threads=1", *more]

    pairs = ("--dataset", DATA / "pairs.jsonl", "--prompt_key", "prompt")
    return {
        "sft": lambda folder: [build / "bin/sft_trainer", f"data.train_files={DATA}/sft.jsonl",
                               f"data.val_files={DATA}/sft.jsonl", "data.prompt_key=extra_info",
                               "data.response_key=extra_info", "+data.prompt_dict_keys=['question']",
                               "+data.response_dict_keys=['answer']", "data.train_batch_size=4",
                               "data.micro_batch_size_per_gpu=3", "data.max_length=128",
                               f"model.partial_pretrain={model}", "optim.lr=3e-3", "trainer.total_epochs=3",
                               "trainer.save_freq=2", f"trainer.default_local_dir={folder}", "rlcore.threads=1"],
        "dpo": openrlhf("dpo_trainer", *pairs),
        "rm": openrlhf("rm_trainer", *pairs),
        "kto": openrlhf("kto_trainer", "--dataset", DATA / "unpaired.jsonl", "--output_key", "output", "--beta", "0.1"),
        "prm": openrlhf("prm_trainer", "--dataset", DATA / "steps.jsonl", "--label_key", "value", "--placeholder_token",
                        "ки", "--reward_tokens", "+", "-"),
        "grpo": policy("grpo_trainer", "actor_rollout_ref.actor.use_kl_loss=True",
                       "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8"),
        "ppo": policy("ppo_trainer", f"critic.model.path={model}", "critic.ppo_micro_batch_size_per_gpu=5",
                      "critic.optim.lr=1e-3"),
        "dapo": policy("dapo_trainer"),
        "reinforce++": policy("reinforce_plus_plus_trainer"),
    }


def train(command, **more):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, **more)


def last_step(folder):
    return max((int(p.name[12:]) for p in folder.glob("global_step_*") if p.name[12:].isdigit()), default=0)


def essence(folder):
    """Name and hash of every file of the last checkpoint."""
    last = folder / f"global_step_{last_step(folder)}"
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(last.rglob("*")) if p.is_file()}


def part_files(build, place, options):
    rng, counts = random.Random(options.seed), collections.Counter()
    model = model_folder(place)

    def flipped(path, at):
        data = bytearray(path.read_bytes())
        data[int(at * (len(data) - 1))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)

    ways = {
        "first bit": lambda p, _: flipped(p, 0), "middle bit": lambda p, _: flipped(p, 0.5),
        "last bit": lambda p, _: flipped(p, 1), "random bit": lambda p, _: flipped(p, rng.random()),
        "zeros": lambda p, _: p.write_bytes(bytes(p.stat().st_size)),
        "noise": lambda p, _: p.write_bytes(rng.randbytes(p.stat().st_size)),
        "cut": lambda p, _: os.truncate(p, p.stat().st_size // 2), "empty": lambda p, _: os.truncate(p, 0),
        "longer": lambda p, _: p.write_bytes(p.read_bytes() + b"\0"), "missing": lambda p, _: p.unlink(),
        "halves changed": lambda p, _: p.write_bytes(p.read_bytes()[p.stat().st_size // 2:] + p.read_bytes()[:p.stat().st_size // 2]),
        "other step": lambda p, other: shutil.copy(other, p),
    }
    for name in ("sft", "grpo"):
        command = trainers(build, model)[name]
        whole, tried = place / f"files_{name}", place / f"tried_{name}"
        if (run := train(command(whole))).returncode != 0:
            return fail(f"{name}: {run.stderr}")
        last = last_step(whole)
        step, before = whole / f"global_step_{last}", whole / f"global_step_{last - 2}"
        for path in sorted(p.relative_to(step) for p in step.rglob("*") if p.is_file()):
            for way, damage in ways.items():
                other = before / path
                if way == "other step" and (not other.exists() or other.read_bytes() == (step / path).read_bytes()):
                    continue
                shutil.rmtree(tried, ignore_errors=True)
                shutil.copytree(whole, tried)
                target = tried / step.name / path
                data = target.read_bytes()
                damage(target, other)
                if target.exists() and target.read_bytes() == data:
                    continue
                counts[name] += 1
                # The folder of the run is part of its settings, which say what may differ: it is moved back.
                shutil.move(whole, place / "aside")
                shutil.move(tried, whole)
                run = train(command(whole))
                shutil.rmtree(whole)
                shutil.move(place / "aside", whole)
                noted = way == "missing" and path == pathlib.Path("checkpoint.json")
                if noted and run.returncode == 0:
                    continue  # as earlier versions saved: a note says so
                named = path.name in run.stderr or (
                    path == pathlib.Path("checkpoint.json") and "the checkpoint is damaged" in run.stderr)
                if run.returncode != 1 or run.stderr.count("\n") != 1 or not named:
                    fail(f"{name}: {path}, {way}: exit code {run.returncode}: {run.stderr[:500]}")
    print("attack: files: " + ", ".join(f"{n} damages to a checkpoint of {what}" for what, n in counts.items()))


def part_runs(build, place, options):
    rng, counts = random.Random(options.seed), collections.Counter()
    commands = trainers(build, model_folder(place))
    wanted, took = {}, {}
    for name, command in commands.items():
        began = time.monotonic()
        if (run := train(command(place / name))).returncode != 0:
            return fail(f"{name}: {run.stderr}")
        took[name], wanted[name] = time.monotonic() - began, essence(place / name)
    names, kills, number = list(commands), 0, 0
    while kills < options.kills:
        name, number = names[number % len(names)], number + 1
        folder = place / "killed" / name
        for _ in range(rng.randint(1, 4)):
            process = subprocess.Popen([str(w) for w in commands[name](folder)], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(rng.random() * took[name])
            process.kill()
            if process.wait() != -signal.SIGKILL:
                break
            kills += 1
            counts[name] += 1
        run = train(commands[name](folder))
        if run.returncode != 0:
            fail(f"{name}, run {number} of --seed {options.seed}: exit code {run.returncode}: {run.stderr[:500]}")
        elif essence(folder) != wanted[name]:
            other = [f for f, h in essence(folder).items() if wanted[name].get(f) != h]
            fail(f"{name}, run {number} of --seed {options.seed}: other bits in {other}")
        shutil.rmtree(place / "killed")
    print("attack: runs: " + ", ".join(f"{n} kills of {what}" for what, n in counts.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build")
    parser.add_argument("--part", action="append", choices=("server", "files", "runs"))
    parser.add_argument("--requests", type=int, default=100000)
    parser.add_argument("--slow", type=int, default=256)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for part in options.part or ("server", "files", "runs"):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="attack.") as place:
            globals()[f"part_{part}"](options.build.resolve(), pathlib.Path(place), options)
        print(f"attack: {part}: {time.monotonic() - began:.0f} s", flush=True)
    if faults:
        sys.exit(f"attack: {len(faults)} faults")


if __name__ == "__main__":
    main()
