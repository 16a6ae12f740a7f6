"""SFT, DPO, KTO, reward and process reward models, from the definitions of verl's and OpenRLHF's documentation.

Every loss is a mean over the whole optimizer step (tokens, pairs, rows or marked positions), however it is split.
"""

import math

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file

from first_steps_common import (EOS, FOLDER, UNDECAYED, Trainee, chat, chosen_log_probs, cosine_with_min_lr, encode,
                                in_order, load, rows, supervised, tokenizer, values)

MARK = "ки"


# --- SFT with verl's keys

def sft_row(question, answer, limit):
    prompt = encode(chat([{"role": "user", "content": question}], prompt=True))
    ids = prompt + encode(answer + EOS)
    weights = [0] * len(prompt) + [1] * (len(ids) - len(prompt))  # of the token that is predicted
    return ids[:limit], weights[:limit]


def turns_row(messages):
    """The tokens an assistant wrote are trained: its text and the end mark of the turn, not the line end after it."""
    ids, weights = [], []
    for message in messages:
        head, body = encode(f"<|im_start|>{message['role']}\n"), encode(message["content"] + EOS)
        line_end = encode("\n")
        wrote = int(message["role"] == "assistant")
        ids += head + body + line_end
        weights += [0] * len(head) + [wrote] * len(body) + [0] * len(line_end)
    assert ids == encode(chat(messages))
    return ids, weights


def token_mean(model, batch):
    total, count = 0, 0
    for ids, weights in batch:
        logp = chosen_log_probs(model, ids, 1)
        w = torch.tensor(weights[1:], dtype=logp.dtype)
        total, count = total - (logp * w).sum(), count + w.sum()
    loss = total / count
    return loss, {"loss": loss}


def with_adapter(model, folder, rank, alpha):
    """LoRA on every projection; A as stored, B = 0."""
    config = LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=alpha, target_modules="all-linear", bias="none")
    dtype = next(model.parameters()).dtype
    adapted = get_peft_model(model, config, autocast_adapter_dtype=False).to(dtype)
    stored = load_file(FOLDER / folder / "adapter_model.safetensors")
    with torch.no_grad():
        for name, p in adapted.named_parameters():
            if ".lora_A." in name:
                p.copy_(stored.pop(name.replace(".default", "")))
            elif ".lora_B." in name:
                assert not p.any() and not stored.pop(name.replace(".default", "")).any()
    assert not stored
    return adapted


def sft(dtype, model, batch, epochs, lr, warmup_ratio, clip, schedule, limit=10 ** 6, turns=False, adapter=None):
    if turns:
        items = [turns_row(row["messages"]) for row in rows("turns.jsonl")]
    else:
        items = [sft_row(r["extra_info"]["question"], r["extra_info"]["answer"], limit) for r in rows("sft.jsonl")]
    batches = in_order(items, batch, epochs)
    warmup = int(len(batches) * warmup_ratio)
    model = load(model, dtype)
    if adapter:
        model = with_adapter(model, *adapter)
    trainee = Trainee(model, lr, betas=(0.9, 0.95), weight_decay=0.01, clip=clip)
    return supervised(trainee, schedule(warmup, len(batches)), batches, token_mean)


# --- OpenRLHF's text rules

def finish(text, limit):
    text = text.rstrip("\n")
    if not text.endswith(EOS):
        text += " " + EOS
    ids = encode(text)[:limit]
    ids[-1] = tokenizer.eos_token_id
    return ids


def openrlhf(dtype, name, items, batch, epochs, lr, objective, l2=0.0, warmup_ratio=0.03, clip=1.0):
    batches = in_order(items, batch, epochs)
    warmup = math.ceil(len(batches) * warmup_ratio)
    trainee = Trainee(load(name, dtype), lr, betas=(0.9, 0.95), weight_decay=l2, clip=clip, undecayed=UNDECAYED)
    return supervised(trainee, cosine_with_min_lr(warmup, len(batches)), batches, objective)


def openrlhf_sft(dtype, batch, epochs, lr, template, limit, l2):
    items = []
    for row in rows("unpaired.jsonl"):
        prompt = template.format(row["input"])
        n = len(encode(prompt))
        if n < limit - 2:
            ids = finish(prompt + row["output"], limit)
            items.append((ids, [int(t >= n) for t in range(len(ids))]))
    return openrlhf(dtype, "qwen2", items, batch, epochs, lr, token_mean, l2=l2)


def pair_items(limit, as_chat):
    """(chosen ids, rejected ids, length of the prompt, margin)"""
    items = []
    for row in rows("chats.jsonl" if as_chat else "pairs.jsonl"):
        if as_chat:
            prompt = chat(row["chosen"][:-1], prompt=True)
            chosen, rejected = chat(row["chosen"])[len(prompt):], chat(row["rejected"])[len(prompt):]
        else:
            prompt, chosen, rejected = row["prompt"], row["chosen"], row["rejected"]
        n = len(encode(prompt))
        if n < limit - 2:
            items.append((finish(prompt + chosen, limit), finish(prompt + rejected, limit), n, row.get("margin", 0)))
    return items


def dpo(dtype, batch, epochs, lr, beta, limit=512, smoothing=0.0, ipo=False, nll=0.0, as_chat=False, l2=0.0):
    reference = load("qwen2", dtype)

    def objective(model, pairs):
        losses, good, bad, likelihood = [], [], [], []
        for chosen, rejected, n, _ in pairs:
            logp = chosen_log_probs(model, chosen, n)
            with torch.no_grad():
                ref_good, ref_bad = chosen_log_probs(reference, chosen, n), chosen_log_probs(reference, rejected, n)
            c, r = logp.sum() - ref_good.sum(), chosen_log_probs(model, rejected, n).sum() - ref_bad.sum()
            z = c - r
            losses.append((z - 1 / (2 * beta)) ** 2 if ipo else
                          -(1 - smoothing) * F.logsigmoid(beta * z) - smoothing * F.logsigmoid(-beta * z))
            good.append(beta * c.detach())
            bad.append(beta * r.detach())
            likelihood.append(-logp.mean())
        loss, good, bad, likelihood = (torch.stack(x).mean() for x in (losses, good, bad, likelihood)), good, bad, likelihood
        loss, mean_good, mean_bad, mean_nll = list(loss)
        row = {"loss": loss, "acc": sum(float(a > b) for a, b in zip(good, bad)) / len(good),
               "chosen_reward": mean_good, "reject_reward": mean_bad}
        if nll:
            row["nll_loss"] = mean_nll
        return loss + nll * mean_nll, row

    return openrlhf(dtype, "qwen2", pair_items(limit, as_chat), batch, epochs, lr, objective, l2=l2)


def kto(dtype, batch, epochs, lr, beta, desirable, undesirable, limit=512):
    reference = load("qwen2", dtype)
    items = []
    for row in rows("unpaired.jsonl"):
        prompt = "User: {}\nAssistant: ".format(row["input"])  # the default template of this trainer and of SFT
        n = len(encode(prompt))
        if n < limit - 2:
            items.append((prompt, row["output"], row["label"], n))

    def ratio(model, prompt, response, n):
        ids = finish(prompt + response, limit)
        with torch.no_grad():
            ref = chosen_log_probs(reference, ids, n).sum()
        return chosen_log_probs(model, ids, n).sum() - ref

    def objective(model, batch):
        with torch.no_grad():
            other = [ratio(model, item[0], batch[(i + 1) % len(batch)][1], item[3]) for i, item in enumerate(batch)]
            kl = torch.stack(other).mean().clamp(min=0)
        losses, good, bad = [], [], []
        for prompt, response, label, n in batch:
            u = ratio(model, prompt, response, n)
            losses.append(desirable * (1 - torch.sigmoid(beta * (u - kl))) if label == 1 else
                          undesirable * (1 - torch.sigmoid(beta * (kl - u))))
            (good if label == 1 else bad).append(beta * u.detach())
        loss = torch.stack(losses).mean()
        return loss, {"loss": loss, "kl": kl, "chosen_reward": torch.stack(good).mean() if good else 0.0,
                      "reject_reward": torch.stack(bad).mean() if bad else 0.0}

    return openrlhf(dtype, "qwen2", items, batch, epochs, lr, objective)


def rm(dtype, batch, epochs, lr, kind, margin=False, limit=512, as_chat=False):
    if as_chat:  # whole conversations
        items = [(finish(chat(r["chosen"]), limit), finish(chat(r["rejected"]), limit), 0, 0)
                 for r in rows("chats.jsonl")]
    else:
        items = [(finish(r["prompt"] + r["chosen"], limit), finish(r["prompt"] + r["rejected"], limit), 0, r["margin"])
                 for r in rows("pairs.jsonl")]

    def objective(model, pairs):
        good = torch.stack([values(model, p[0])[-1] for p in pairs])
        bad = torch.stack([values(model, p[1])[-1] for p in pairs])
        m = torch.tensor([p[3] for p in pairs], dtype=good.dtype) if margin else 0
        loss = (-F.logsigmoid(good - bad - m) if kind == "sigmoid" else torch.log(1 + torch.exp(bad - good))).mean()
        return loss, {"loss": loss, "acc": (good > bad).to(good.dtype).mean(), "chosen_reward": good.mean(),
                      "reject_reward": bad.mean()}

    return openrlhf(dtype, "score", items, batch, epochs, lr, objective)


def prm(dtype, batch, epochs, lr, reward_tokens, limit=512):
    one = lambda text: encode(text)[0]
    assert all(len(encode(t)) == 1 for t in (MARK, *reward_tokens))
    items = [(encode(r["input"])[:limit], [one(label) for label in r["value"]]) for r in rows("steps.jsonl")]

    def objective(model, batch):
        losses, right = [], []
        for ids, labels in batch:
            places = [t for t, token in enumerate(ids) if token == one(MARK)]
            table = model(torch.tensor([ids])).logits[0, places]
            truth = torch.tensor(labels[:len(places)])
            if reward_tokens:
                table = table[:, [one(t) for t in reward_tokens]]
                truth = torch.tensor([[one(t) for t in reward_tokens].index(label) for label in truth.tolist()])
            losses.append(F.cross_entropy(table, truth, reduction="none"))
            right.append((table.argmax(-1) == truth).to(table.dtype))
        loss = torch.cat(losses).mean()
        return loss, {"loss": loss, "acc": torch.cat(right).mean()}

    return openrlhf(dtype, "qwen2", items, batch, epochs, lr, objective)
