"""What the recomputed training runs of first_steps.py share: models, AdamW, learning-rate schedules, the loop."""

import json
import math
import pathlib

import torch
import transformers
from transformers import AutoTokenizer, Qwen2ForCausalLM, Qwen2ForSequenceClassification, Qwen3ForCausalLM

FOLDER = pathlib.Path(__file__).parent / "first_steps"
KINDS = {"qwen2": Qwen2ForCausalLM, "qwen3": Qwen3ForCausalLM, "score": Qwen2ForSequenceClassification}
transformers.utils.logging.disable_progress_bar()
tokenizer = AutoTokenizer.from_pretrained(FOLDER / "tokenizer")
EOS = tokenizer.eos_token
UNDECAYED = ("bias", "norm.weight")  # what OpenRLHF leaves without weight decay


def rows(name):
    with open(FOLDER / name) as file:
        return [json.loads(line) for line in file]


def encode(text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def chat(messages, prompt=False):
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt)


def exact_norm(module, x):
    """Root-mean-square norm in the type of x; the library's computes in float32."""
    return module.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + module.variance_epsilon))


def load(name, dtype):
    model = KINDS[name].from_pretrained(FOLDER / name, dtype=dtype, attn_implementation="sdpa")
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = exact_norm.__get__(module)
    return model.train()


def log_probs(model, ids, temperature=1.0):
    """Row t: the log-probabilities of every next token after ids[: t + 1]."""
    return torch.log_softmax(model(torch.tensor([ids])).logits[0] / temperature, -1)


def chosen_log_probs(model, ids, first, temperature=1.0):
    """Log-probabilities of ids[first:], each after what stands before it."""
    table = log_probs(model, ids, temperature)[first - 1:-1]
    return table.gather(1, torch.tensor(ids[first:])[:, None])[:, 0]


def values(model, ids):
    """The score after every prefix of ids."""
    return model.score(model.model(torch.tensor([ids])).last_hidden_state)[0, :, 0]


# Schedules: the factor of the learning rate after s steps.

def cosine(warmup, total, floor=0.0, cycles=0.5):
    def factor(s):
        if s < warmup:
            return floor + (1 - floor) * s / warmup
        angle = 2 * math.pi * cycles * (s - warmup) / max(1, total - warmup)
        return max(floor, (1 + floor) / 2 + (1 - floor) / 2 * math.cos(angle))
    return factor


def cosine_with_min_lr(warmup, total, floor=0.1):
    """The warm-up of this one starts at 0, whatever the floor."""
    return lambda s: s / warmup if s < warmup else cosine(0, total - warmup, floor)(s - warmup)


def warmup_stable_decay(warmup, total, stable_ratio=0.9):
    stable = int((total - warmup) * stable_ratio)
    def factor(s):
        if s < warmup:
            return s / warmup
        if s < warmup + stable:
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * (s - warmup - stable) / max(1, total - warmup - stable)))
    return factor


def constant(warmup):
    return lambda s: s / warmup if s < warmup else 1.0


class Trainee:
    """A model under AdamW. `undecayed`: parts of names whose parameters have no weight decay."""

    def __init__(self, model, lr, betas=(0.9, 0.999), weight_decay=0.01, clip=1.0, undecayed=()):
        self.model, self.lr, self.clip = model, lr, clip
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        free = [p for n, p in named if any(part in n for part in undecayed)]
        rest = [p for n, p in named if not any(part in n for part in undecayed)]
        self.optimizer = torch.optim.AdamW([{"params": rest, "weight_decay": weight_decay},
                                            {"params": free, "weight_decay": 0.0}], lr=lr, betas=betas, eps=1e-8)
        self.parameters = rest + free

    def update(self, loss, factor):
        """Returns the length of the gradient before clipping."""
        self.optimizer.zero_grad()
        loss.backward()
        length = torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * factor
        self.optimizer.step()
        return length.item()


def supervised(trainee, schedule, batches, objective):
    """One optimizer step per batch; objective(model, batch) = loss and what else is logged."""
    log = []
    for s, batch in enumerate(batches):
        loss, row = objective(trainee.model, batch)
        row["lr"] = trainee.lr * schedule(s)
        row["grad_norm"] = trainee.update(loss, schedule(s))
        log.append({k: v.item() if torch.is_tensor(v) else v for k, v in row.items()})
    return log


def in_order(items, batch, epochs):
    return [items[i:i + batch] for _ in range(epochs) for i in range(0, len(items) - batch + 1, batch)]
