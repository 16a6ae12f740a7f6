#!/usr/bin/env python3
"""A real language model in every program, beside PyTorch and transformers:

    real.py --model FOLDER [--gsm8k FOLDER] [--build build] [--parts tokens,templates,...]

FOLDER is a Hugging Face folder of a small chat model (SmolLM2-135M-Instruct in docs/models.md), also RLCORE_REAL_MODEL;
--gsm8k the folder with GSM8K's train.jsonl and test.jsonl, also RLCORE_GSM8K. Run it by a Python that has torch and
transformers. Without one of them it ends with 77. It prints a row per comparison, and ends with 1 if one does not hold.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ["tokens", "templates", "log_probs", "greedy", "server", "sft", "lora", "memory", "grpo"]


def skip(why):
    print(f"real: {why}; skipped")
    sys.exit(77)


class Table:
    """The comparisons: a row each, and whether all hold."""

    def __init__(self):
        self.held = True

    def row(self, part, what, holds, text):
        self.held &= bool(holds)
        print(f"{'ok   ' if holds else 'WRONG'}  {part:9}  {what:52}  {text}", flush=True)


def jsonl(path, count):
    with open(path) as lines:
        return [json.loads(line) for line, _ in zip(lines, range(count))]


@contextlib.contextmanager
def server(at):
    """The address of a server of the model, in float32."""
    log = at.place / "server.log"
    command = [at.bin / "openai_server", at.model, "--port", "0", "--served-model-name", "real", "--dtype", "float32",
               "--rlcore-log-interval", "0"]
    process = subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT)
    try:
        while not (found := re.search(r"ready +(http://127\.0\.0\.1:\d+)", log.read_text())):
            if process.poll() is not None:
                sys.exit(f"real: the server did not start: {log.read_text()}")
            time.sleep(0.1)
        yield found[1]
    finally:
        process.terminate()
        process.wait()


def post(address, path, body):
    request = urllib.request.Request(address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def train(at, program, **keys):
    """Runs a trainer; the rows of its metrics. A key's `__` stands for a dot."""
    out = at.place / f"{program}-{len(list(at.place.iterdir()))}"
    pairs = {"default_local_dir": out, **keys}
    words = [f"{'trainer.' if key == 'default_local_dir' else ''}{key.replace('__', '.')}={value}"
             for key, value in pairs.items()]
    done = subprocess.run([at.bin / program, *words, "rlcore.report=False"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"real: {program}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return out, [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def odd_texts():
    """What tokenizers disagree on: blanks, digits, marks, other scripts, emoji, special tokens, bytes of no letter."""
    pieces = ["", " ", "  two  blanks ", "\n\n\n", "\t a", "\r\nline", "12345678901234567890", "3.14159e-10", "1,000,000",
              "I'll can't we've it's", "naïve café", "e\u0301", "ﬁ", "日本語のテキスト", "Привет, мир", "مرحبا", "नमस्ते",
              "👩‍👩‍👧‍👦 🇩🇪 ❤️", "\u200b\u00a0\u2028", "<|im_start|>user", "<|endoftext|>", "<|im_end", "$\\frac{1}{2}$",
              "def f(x):\n    return x**2", "#### 42", "a" * 300, "\u0000", "\ud7ff", "￿", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢"]
    return pieces + [a + b for a in pieces[2:12] for b in pieces[12:22]]


def tokens(at, table):
    texts = [row[key] for row in at.questions(200) for key in ("question", "answer")] + odd_texts()
    with server(at) as address:
        wrong = [text for text in texts
                 if post(address, "/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]
                 != at.tokenizer(text, add_special_tokens=False)["input_ids"]]
    table.row("tokens", f"{len(texts)} texts, transformers' tokenizer", not wrong, f"{len(wrong)} differ {wrong[:2]}")


def conversations():
    say = lambda role, content: {"role": role, "content": content}
    for system in ([], [say("system", "Be brief.")], [say("system", "")]):
        for first in ("What is 2+2?", " leading and trailing ", "日本語\nzwei Zeilen", "<|im_end|>\n<|im_start|>system\nno"):
            yield system + [say("user", first)]
            yield system + [say("user", first), say("assistant", "4"), say("user", "Why?")]


def templates(at, table):
    wrong, count = [], 0
    with server(at) as address:
        for messages in conversations():
            for prompts in (True, False):
                count += 1
                body = {"messages": messages, "add_generation_prompt": prompts, "add_special_tokens": False}
                wanted = at.tokenizer.apply_chat_template(messages, add_generation_prompt=prompts, tokenize=True,
                                                          return_dict=True)["input_ids"]
                if post(address, "/tokenize", body)["tokens"] != wanted:
                    wrong.append(messages)
    table.row("templates", f"{count} conversations, transformers' template", not wrong, f"{len(wrong)} differ {wrong[:1]}")


def log_probs(at, table):
    """Errors of log-probs against float64: ours and PyTorch's in float32."""
    import torch
    rows = [at.tokenizer(row["question"] + "\n" + row["answer"])["input_ids"][:256] for row in at.questions(16)]

    def torch_log_probs(model):
        with torch.no_grad():
            return [torch.log_softmax(model(torch.tensor([ids])).logits[0, :-1], -1)
                    .gather(1, torch.tensor(ids[1:])[:, None])[:, 0].double() for ids in rows]
    exact, single = torch_log_probs(at.torch_model(torch.float64)), torch_log_probs(at.torch_model(torch.float32))
    with server(at) as address:
        ours = []
        for ids in rows:
            answer = post(address, "/v1/completions",
                          {"model": "real", "prompt": ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0})
            listed = answer["choices"][0]["prompt_logprobs"]
            ours.append(torch.tensor([place[str(i)]["logprob"] for place, i in zip(listed[1:], ids[1:])]).double())
    count = sum(len(x) for x in exact)
    error = lambda x: torch.cat([(a - b).abs() for a, b in zip(x, exact)])
    mine, other = error(ours), error(single)
    table.row("log_probs", f"{count} tokens, |error| against float64", mine.mean() < other.mean() and mine.max() < 2 * other.max(),
              f"mean {mine.mean():.2e} max {mine.max():.1e}; PyTorch float32 mean {other.mean():.2e} max {other.max():.1e}")


def greedy(at, table):
    """Greedy texts; they may part where two tokens are as likely but for rounding."""
    import torch
    model, gaps, equal = at.torch_model(torch.float64), [], 0
    prompts = [row["question"] for row in at.questions(12)]
    with server(at) as address:
        for prompt in prompts:
            ids = at.tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True,
                                                   tokenize=True, return_dict=True)["input_ids"]
            answer = post(address, "/v1/completions", {"model": "real", "prompt": ids, "max_tokens": 48, "temperature": 0,
                                                       "return_token_ids": True})
            ours = answer["choices"][0]["token_ids"]
            with torch.no_grad():
                logits = model(torch.tensor([ids + ours])).logits[0, len(ids) - 1:-1]
            best = logits.argmax(-1).tolist()
            parts = [k for k, (a, b) in enumerate(zip(ours, best)) if a != b]
            equal += not parts
            gaps += [(logits[k].max() - logits[k, ours[k]]).item() for k in parts]
    table.row("greedy", f"{len(prompts)} answers, the likeliest tokens in float64", all(g < 1e-3 for g in gaps),
              f"{equal} equal, largest gap elsewhere {max(gaps, default=0):.1e}")


def serves(at, table):
    """Clients at once get what they get alone; a stream is its answer in pieces."""
    bodies = [{"model": "real", "messages": [{"role": "user", "content": row["question"]}], "max_tokens": 32, "seed": k,
               "temperature": 0.0 if k % 2 else 0.8} for k, row in enumerate(at.questions(16))]
    text = lambda answer: answer["choices"][0]["message"]["content"]
    with server(at) as address:
        ask = lambda body: text(post(address, "/v1/chat/completions", body))
        alone = [ask(body) for body in bodies]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            together = list(pool.map(ask, bodies))
        request = urllib.request.Request(address + "/v1/chat/completions",
                                         json.dumps({**bodies[1], "stream": True}).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as stream:
            events = [json.loads(line[6:]) for line in stream if line.startswith(b"data: {")]
    streamed = "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"])
    table.row("server", f"{len(bodies)} clients at once and alone", alone == together,
              f"{sum(a != b for a, b in zip(alone, together))} differ")
    table.row("server", "a stream and its answer", streamed == alone[1], repr(streamed[:40]))


def rows_file(at, count):
    path = at.place / f"rows{count}.jsonl"
    path.write_text("".join(json.dumps({"prompt": r["question"], "response": r["answer"]}) + "\n" for r in at.questions(count)))
    return path


def taught(at, count):
    """The rows as verl's SFTDataset has them: ids, and the number of them that are prompt."""
    for row in at.questions(count):
        prompt = at.tokenizer.apply_chat_template([{"role": "user", "content": row["question"]}],
                                                  add_generation_prompt=True, tokenize=False)
        head = at.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        yield head + at.tokenizer(row["answer"] + at.tokenizer.eos_token, add_special_tokens=False)["input_ids"], len(head)


def torch_sft(model, rows, steps, lr):
    """Loss before each step, and the gradient's norm; full batches, the mean over all learnt tokens."""
    import torch
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01)
    count, out = sum(len(ids) - head for ids, head in rows), []
    for _ in range(steps):
        total = 0.0
        for ids, head in rows:
            logits = model(torch.tensor([ids])).logits[0, head - 1:-1]
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[head:]), reduction="sum") / count
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        optimizer.zero_grad()
        out.append((total, norm))
    return out


SFT = {"data__prompt_key": "prompt", "data__response_key": "response", "data__max_length": 512,
       "optim__lr_scheduler": "constant", "optim__warmup_steps_ratio": 0, "trainer__save_freq": -1, "trainer__test_freq": -1}


def sft_keys(at, count):
    path = rows_file(at, count)
    return {**SFT, "data__train_files": path, "data__val_files": path, "data__train_batch_size": count,
            "data__micro_batch_size_per_gpu": 2, "model__partial_pretrain": at.model}


def sft(at, table):
    import torch
    rows, steps = list(taught(at, 8)), 3
    wanted = torch_sft(at.torch_model(torch.float32).train(), rows, steps, 1e-5)
    _, metrics = train(at, "sft_trainer", **sft_keys(at, 8), optim__lr="1e-5", trainer__total_training_steps=steps,
                       trainer__total_epochs=steps)
    ours = [(m["train/loss"], m["train/grad_norm"]) for m in metrics if "train/loss" in m]
    worst = max(abs(a - b) / b for x, y in zip(ours, wanted) for a, b in zip(x, y))
    table.row("sft", f"{steps} steps on {len(rows)} rows: losses and norms", len(ours) == steps and worst < 1e-3,
              f"largest difference {worst:.1e}, losses {' '.join(f'{x[0]:.4f}' for x in ours)}")


def lora(at, table):
    """The first loss is the model's own, and the saved adapters are what lies between base and merged weights."""
    import torch
    from safetensors.torch import load_file
    rows = list(taught(at, 8))
    with torch.no_grad():
        model = at.torch_model(torch.float32)
        total = sum(torch.nn.functional.cross_entropy(model(torch.tensor([ids])).logits[0, head - 1:-1],
                                                      torch.tensor(ids[head:]), reduction="sum").item()
                    for ids, head in rows)
    first = total / sum(len(ids) - head for ids, head in rows)
    out, metrics = train(at, "sft_trainer", **sft_keys(at, 8), optim__lr="1e-3", model__lora_rank=8, model__lora_alpha=16,
                         trainer__total_training_steps=4, trainer__total_epochs=4)
    losses = [m["train/loss"] for m in metrics if "train/loss" in m]
    table.row("lora", "first loss, and it falls", abs(losses[0] - first) < 1e-3 * first and losses[-1] < losses[0],
              f"{' '.join(f'{x:.4f}' for x in losses)}; PyTorch {first:.4f}")
    saved = max(out.glob("global_step_*"), key=lambda p: int(p.name.rsplit("_", 1)[1]))
    adapter = load_file(saved / "lora_adapter" / "adapter_model.safetensors")
    merged = load_file(saved / "huggingface" / "model.safetensors")
    base, worst = at.torch_model(torch.float32).state_dict(), 0.0
    for name in [n for n in adapter if n.endswith("lora_A.weight")]:
        module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        a, b = adapter[name].double(), adapter[name.replace("lora_A", "lora_B")].double()
        weight = base[module + ".weight"].double() + 16 / 8 * (b @ a)
        worst = max(worst, (weight - merged[module + ".weight"].double()).abs().max().item())
    table.row("lora", "base and adapters against the merged folder", worst < 1e-6, f"largest difference {worst:.1e}")


PARTIAL = '''import re
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """A tenth for a number at all, 0.3 for the right one anywhere, half for a final line of GSM8K's form, 1 for the right
    line."""
    numbers = [n.replace(",", "").rstrip(".") for n in re.findall(r"-?[0-9][0-9.,]*", solution_str)]
    final = re.search(r"#### *(-?[0-9][0-9.,]*)", solution_str)
    if final:
        return 1.0 if final.group(1).replace(",", "").rstrip(".") == ground_truth else 0.5
    return 0.3 if ground_truth in numbers else 0.1 if numbers else 0.0
'''


def grpo(at, table):
    """GRPO on GSM8K's short problems with a reward that gives part of the credit: it rises."""
    reward = at.place / "partial.py"
    reward.write_text(PARTIAL)
    data = at.place / "gsm8k"
    subprocess.run([at.bin / "gsm8k_preprocess", at.gsm8k, f"local_save_dir={data}", "format=jsonl"], check=True,
                   stdout=subprocess.DEVNULL)
    began = time.time()
    _, metrics = train(
        at, "grpo_trainer", data__train_files=data / "train.jsonl", data__val_files=data / "test.jsonl",
        data__val_max_samples=8, data__train_batch_size=4, data__max_prompt_length=128, data__filter_overlong_prompts=True, data__max_response_length=at.response,
        actor_rollout_ref__model__path=at.model, actor_rollout_ref__rollout__n=8,
        actor_rollout_ref__actor__ppo_mini_batch_size=4, actor_rollout_ref__actor__ppo_micro_batch_size_per_gpu=8,
        actor_rollout_ref__actor__optim__lr="5e-5", actor_rollout_ref__actor__use_kl_loss=True,
        actor_rollout_ref__ref__log_prob_micro_batch_size_per_gpu=8, reward__custom_reward_function__path=reward,
        trainer__total_training_steps=at.steps, trainer__save_freq=-1, trainer__test_freq=-1,
        trainer__val_before_train=False)
    scores = [m["critic/score/mean"] for m in metrics if "critic/score/mean" in m]
    part = max(1, len(scores) // 4)
    first, last = sum(scores[:part]) / part, sum(scores[-part:]) / part
    table.row("grpo", f"mean reward of {part} first and last of {len(scores)} steps", last > first + 0.05,
              f"{first:.3f} -> {last:.3f} in {time.time() - began:.0f} s: {' '.join(f'{s:.2f}' for s in scores)}")


PROMPT, RESPONSE = 128, 64  # tokens of every row below
LENGTH = PROMPT + RESPONSE


def long_rows(at):
    """Files of rows that have exactly LENGTH tokens once they are cut, of two kinds; and prompts of PROMPT tokens."""
    text = " ".join(r["question"] + " " + r["answer"] for r in at.questions(8))
    head = len(at.tokenizer.apply_chat_template([{"role": "user", "content": ""}], add_generation_prompt=True,
                                                tokenize=True, return_dict=True)["input_ids"])
    ids = at.tokenizer(text, add_special_tokens=False)["input_ids"]
    prompt = at.tokenizer.decode(ids[:PROMPT - head - 4])
    files = {"sft": [{"prompt": prompt, "response": text}] * 16,
             "dpo": [{"prompt": at.tokenizer.decode(ids[:PROMPT]), "chosen": text, "rejected": text[100:]}] * 16,
             "grpo": [{"data_source": "openai/gsm8k", "prompt": [{"role": "user", "content": prompt}],
                       "reward_model": {"style": "rule", "ground_truth": "1"}}] * 8}
    for name, rows in files.items():
        path = at.place / f"long_{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {name: at.place / f"long_{name}.jsonl" for name in files}


def memory_runs(at):
    """What runs, and the same step for plan: name, model, command, plan's keys."""
    files, out, half = long_rows(at), at.place / "memory", at.half_billion()
    one = ["trainer.total_training_steps=1", "trainer.save_freq=-1", "trainer.test_freq=-1", "trainer.resume_mode=disable",
           f"trainer.default_local_dir={out}", "rlcore.report=False"]
    step = {"prompt_length": PROMPT, "response_length": RESPONSE}
    for model, micro, leaves, recompute, rank in ((at.model, 1, 8, True, 0), (at.model, 8, 8, True, 0),
                                                  (at.model, 8, 1, True, 0), (at.model, 4, 8, False, 0),
                                                  (at.model, 4, 8, True, 8), (half, 1, 8, True, 0),
                                                  (half, 8, 1, True, 0), (half, 4, 8, True, 8)):
        name = f"sft {model.name[:12]} micro {micro} leaves {leaves} LoRA {rank}{'' if recompute else ' all activations'}"
        yield name, model, [
            "sft_trainer", *one, f"model.partial_pretrain={model}", f"data.train_files={files['sft']}",
            f"data.val_files={files['sft']}", "data.prompt_key=prompt", "data.response_key=response",
            f"data.max_length={LENGTH}", "data.truncation=right", "data.train_batch_size=16",
            f"data.micro_batch_size_per_gpu={micro}", f"rlcore.gradient_leaves={leaves}", f"model.lora_rank={rank}",
            f"model.enable_gradient_checkpointing={recompute}",
        ], {**step, "sampling": False, "prompts": 16, "responses": 1, "micro_tokens": micro * LENGTH,
            "gradient_leaves": leaves, "recompute": recompute, "lora_rank": rank}
    for rank in (0, 8):
        yield f"dpo {at.model.name[:12]} micro 2 leaves 1 LoRA {rank}", at.model, [
            "dpo_trainer", "--pretrain", at.model, "--dataset", files["dpo"], "--prompt_key", "prompt", "--chosen_key",
            "chosen", "--rejected_key", "rejected", "--train_batch_size", 8, "--micro_train_batch_size", 2, "--max_len",
            LENGTH, "--max_samples", 8, "--lora_rank", rank, "--gradient_checkpointing", "--save_path", out, "--ckpt_path",
            at.place / "checkpoints", "rlcore.gradient_leaves=1", "rlcore.report=False",
        ], {**step, "sampling": False, "prompts": 8, "responses": 2, "micro_tokens": 4 * LENGTH, "reference": "sharded",
            "gradient_leaves": 1, "lora_rank": rank}
    for leaves, kl in ((8, True), (1, False)):
        actor = "actor_rollout_ref.actor."
        yield f"grpo {at.model.name[:12]} micro 4 leaves {leaves} KL {kl}", at.model, [
            "grpo_trainer", *one, f"actor_rollout_ref.model.path={at.model}", f"data.train_files={files['grpo']}",
            f"data.val_files={files['grpo']}", "data.train_batch_size=4", f"data.max_prompt_length={PROMPT}",
            f"data.max_response_length={RESPONSE}", "actor_rollout_ref.rollout.n=4",
            f"{actor}ppo_mini_batch_size=4",
            f"{actor}ppo_micro_batch_size_per_gpu=4", f"{actor}use_kl_loss={kl}",
            "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4", "trainer.val_before_train=False",
            f"rlcore.gradient_leaves={leaves}",
        ], {**step, "prompts": 4, "responses": 4, "old_log_probs": False, "micro_tokens": 4 * LENGTH,
            "reference": "sharded" if kl else "none", "gradient_leaves": leaves}


MEASURE = """import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_maxrss)
os._exit(os.waitstatus_to_exitcode(status) != 0)
"""


def peak_of(command):
    """The most memory that a command had, in GiB. A small process starts it: what starts a process counts for it."""
    done = subprocess.run([sys.executable, "-uSc", MEASURE, *map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"real: {command[0]}: {done.stderr[-2000:]}")
    return int(done.stdout) / (1 << 20)


def peer_step(at, kind):
    """PyTorch's step of SFT (two micro-batches of 8 rows) or DPO (four of 2 pairs) on rows of LENGTH tokens, with
    checkpointing, as a script would have it."""
    import torch
    ids = at.tokenizer(" ".join(r["answer"] for r in at.questions(16)))["input_ids"][:LENGTH]
    batch = torch.tensor([ids] * (8 if kind == "sft" else 2))
    model = at.torch_model(torch.float32).train()
    model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def log_probs(m):
        return torch.log_softmax(m(batch, use_cache=False).logits[:, :-1], -1).gather(-1, batch[:, 1:, None])[..., 0].sum()
    reference = at.torch_model(torch.float32) if kind == "dpo" else None
    for _ in range(2 if kind == "sft" else 4):
        if kind == "sft":
            loss = -log_probs(model) / LENGTH
        else:
            with torch.no_grad():
                before = [log_probs(reference) for _ in range(2)]
            chosen, rejected = log_probs(model), log_probs(model)
            loss = -torch.nn.functional.logsigmoid(0.1 * (chosen - before[0] - rejected + before[1]))
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    model.save_pretrained(at.place / "peer")


def memory(at, table):
    """plan's memory against the peak of twelve runs, and two with one sum of gradients against PyTorch's."""
    peaks = {}
    for name, model, (program, *words), step in memory_runs(at):
        peaks[name] = measured = peak_of([at.bin / program, *words])
        plan = subprocess.run([at.bin / "plan", f"model={model}", "devices=1", "cluster=cpu", "zero=0",
                               *[f"{key}={value}" for key, value in step.items()]], capture_output=True, text=True)
        if plan.returncode != 0:
            sys.exit(f"real: plan: {plan.stderr}")
        planned = max(float(x) for x in re.search(r"together +([0-9. ]+)", plan.stdout)[1].split())
        table.row("memory", name, abs(planned / measured - 1) <= 0.1,
                  f"{measured:.2f} GiB, plan {planned:.2f}: {100 * (planned / measured - 1):+.0f} %")
    for kind in ("sft", "dpo"):
        name = next(n for n in peaks if n.startswith(kind) and "leaves 1 LoRA 0" in n)
        peer = peak_of([sys.executable, __file__, "--model", at.model, "--gsm8k", at.gsm8k, "--peer", kind])
        table.row("memory", f"{name}, and PyTorch", peaks[name] < peer, f"{peaks[name]:.2f} GiB, PyTorch {peer:.2f}")


class Place:
    def __init__(self, options, folder):
        self.model, self.gsm8k = pathlib.Path(options.model).resolve(), pathlib.Path(options.gsm8k).resolve()
        self.bin, self.place = (ROOT / options.build / "bin").resolve(), pathlib.Path(folder)
        self.steps, self.response = options.steps, options.response
        from transformers import AutoTokenizer
        self.tokenizer = AutoTokenizer.from_pretrained(self.model)

    def half_billion(self):
        """A model of Qwen2.5-0.5B's shape with random weights, in bfloat16, and this model's tokenizer."""
        import torch
        from transformers import Qwen2Config, Qwen2ForCausalLM
        out = self.place / "half_billion"
        config = Qwen2Config(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                             num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True)
        Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(out)
        self.tokenizer.save_pretrained(out)
        return out

    def questions(self, count):
        return jsonl(self.gsm8k / "train.jsonl", count)

    def torch_model(self, dtype):
        from transformers import AutoModelForCausalLM
        return AutoModelForCausalLM.from_pretrained(self.model, dtype=dtype).eval()


def main():
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--model", default=os.environ.get("RLCORE_REAL_MODEL"))
    command.add_argument("--gsm8k", default=os.environ.get("RLCORE_GSM8K"))
    command.add_argument("--build", default="build")
    command.add_argument("--parts", default=",".join(PARTS))
    command.add_argument("--steps", type=int, default=12, help="of GRPO")
    command.add_argument("--response", type=int, default=64, help="tokens of an answer of GRPO")
    command.add_argument("--peer", choices=["sft", "dpo"], help="PyTorch's step alone, to measure its memory")
    options = command.parse_args()
    for name, flag in (("model", "RLCORE_REAL_MODEL"), ("gsm8k", "RLCORE_GSM8K")):
        if not getattr(options, name):
            skip(f"no --{name} and no {flag}")
        if not pathlib.Path(getattr(options, name)).is_dir():
            sys.exit(f"real: --{name} {getattr(options, name)}: there is no such folder")
    try:
        import torch
        import transformers
    except ImportError as e:
        skip(f"{sys.executable} has no {e.name}")
    if options.peer:
        with tempfile.TemporaryDirectory() as folder:
            return peer_step(Place(options, folder), options.peer)
    wanted = options.parts.split(",")
    if unknown := set(wanted) - set(PARTS):
        sys.exit(f"real: --parts {','.join(sorted(unknown))}: expected some of {','.join(PARTS)}")
    print(f"real: {options.model}, torch {torch.__version__}, transformers {transformers.__version__}")
    functions = {"tokens": tokens, "templates": templates, "log_probs": log_probs, "greedy": greedy, "server": serves,
                 "sft": sft, "lora": lora, "memory": memory, "grpo": grpo}
    table = Table()
    with tempfile.TemporaryDirectory() as folder:
        at = Place(options, folder)
        for part in wanted:
            functions[part](at, table)
    sys.exit(0 if table.held else 1)


if __name__ == "__main__":
    main()
