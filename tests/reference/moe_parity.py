"""Logits, log-probs, entropies, load-balancing loss and all parameter gradients of tiny Qwen3-MoE models by
`transformers`.

Writes moe_parity.json. The weights, sequences and the loss are those of nn_parity.py; to the loss comes `coefficient`
times load_balancing_loss_func over the tokens of all sequences at once. Names are those of checkpoints: `transformers`
joins the experts' matrices in memory and takes them apart when it saves. In the models with "replay" the experts of
most tokens are not those that the router finds most likely but given ones (router replay), and so are those that
load_balancing_loss_func counts.

    pip install -r requirements.txt && python moe_parity.py
"""

import json
import os
import unittest.mock

import torch
from nn_parity import LENGTHS, TEMPERATURE, flat, norm, tokens, value
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

MODELS = {
    "renormalised": dict(vocab_size=30, hidden_size=12, intermediate_size=16, num_hidden_layers=2,
                         num_attention_heads=2, num_key_value_heads=1, head_dim=8, tie_word_embeddings=False,
                         num_experts=5, num_experts_per_tok=2, moe_intermediate_size=7, norm_topk_prob=True,
                         router_aux_loss_coef=2.5),
    "mixed_layers": dict(vocab_size=30, hidden_size=10, intermediate_size=14, num_hidden_layers=4,
                         num_attention_heads=2, num_key_value_heads=2, head_dim=6, tie_word_embeddings=True,
                         num_experts=4, num_experts_per_tok=3, moe_intermediate_size=8, norm_topk_prob=False,
                         decoder_sparse_step=2, mlp_only_layers=[1], router_aux_loss_coef=0.0),
}
MODELS["replayed"] = dict(MODELS["renormalised"], replay=True)
MODELS["replayed_mixed_layers"] = dict(MODELS["mixed_layers"], replay=True, router_aux_loss_coef=1.5)


def given_experts(n, layer, experts, chosen):
    """Ids of each token of sequence n in a layer of those with experts, in no order; every fourth token has none."""
    return [[-1] * chosen if (t + layer) % 4 == 3 else
            [(2 * t + 3 * layer + n + j * (experts - 1)) % experts for j in range(chosen)] for t in range(LENGTHS[n])]


def replay(gate, ids):
    """The router of `transformers` with these choices; returns those of all tokens."""
    def forward(hidden):
        logits = torch.nn.functional.linear(hidden.reshape(-1, gate.hidden_dim), gate.weight)
        p = logits.softmax(-1, dtype=torch.float)
        given = torch.tensor(ids)
        chosen = torch.where(given < 0, p.topk(gate.top_k, -1).indices, given)
        weight = p.gather(-1, chosen)
        if gate.norm_topk_prob:
            weight = weight / weight.sum(-1, keepdim=True)
        gate.chosen = chosen
        return logits, weight.to(logits.dtype), chosen
    gate.forward = forward


def checkpoint_names(named):
    """(name in a checkpoint, function that picks it out of the tensor in memory) of every parameter."""
    out = {}
    for name, p in named:
        if name.endswith("experts.gate_up_proj"):
            half = p.shape[1] // 2
            for e in range(p.shape[0]):
                base = name.replace("gate_up_proj", f"{e}.")
                out[base + "gate_proj.weight"] = (name, lambda t, e=e, h=half: t[e, :h])
                out[base + "up_proj.weight"] = (name, lambda t, e=e, h=half: t[e, h:])
        elif name.endswith("experts.down_proj"):
            for e in range(p.shape[0]):
                out[name.replace("down_proj", f"{e}.down_proj.weight")] = (name, lambda t, e=e: t[e])
        else:
            out[name] = (name, lambda t: t)
    return out


def run(spec, dtype):
    spec = dict(spec)
    replays = spec.pop("replay", False)
    config = Qwen3MoeConfig(**spec, rms_norm_eps=1e-6, rope_theta=10000.0, max_position_embeddings=64,
                            use_cache=False, attn_implementation="sdpa", experts_implementation="eager", pad_token_id=None, bos_token_id=None,
                            eos_token_id=None, output_router_logits=True)
    model = Qwen3MoeForCausalLM(config).to(dtype)
    parameters = dict(model.named_parameters())
    names = checkpoint_names(parameters.items())
    for k, (name, (owner, pick)) in enumerate(sorted(names.items())):
        part = pick(parameters[owner].data)
        v = torch.tensor([value(k, i) for i in range(part.numel())], dtype=torch.float64).reshape(part.shape)
        part.copy_(1 + v * 0.5 if "norm" in name else v)
    if dtype == torch.float64:
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):
                module.forward = norm.__get__(module)
    model.train()
    logits, logp, entropy, routed, loss, n = [], [], [], [], 0, 0
    gates = [layer.mlp.gate for layer in model.model.layers if hasattr(layer.mlp, "gate")]
    given, counted = [], [[] for _ in gates]
    for s, ids in enumerate(tokens(spec["vocab_size"])):
        if replays:
            by_layer = [given_experts(s, l, spec["num_experts"], spec["num_experts_per_tok"]) for l in range(len(gates))]
            given += [[layer[t] for layer in by_layer] for t in range(len(ids))]
            for gate, choices in zip(gates, by_layer):
                replay(gate, choices)
        out = model(torch.tensor([ids]))
        z = out.logits[0]
        logits.append(z.detach())
        routed.append(out.router_logits)
        for gate, layer in zip(gates, counted):
            layer.append(gate.chosen if replays else None)
        rows = range(1, len(ids)) if len(ids) > 1 else range(1)
        target = torch.tensor([(3 * ids[r] + 1) % spec["vocab_size"] for r in rows])
        lp = torch.log_softmax(z[list(rows)] / TEMPERATURE, -1)
        h = -(lp.exp() * lp).sum(-1)
        chosen = lp.gather(1, target[:, None])[:, 0]
        weight = torch.tensor([((n + j) * 5 % 7 - 3) / 4 for j in range(len(rows))], dtype=dtype)
        bonus = torch.tensor([((n + j) * 3 % 5 - 1) / 8 for j in range(len(rows))], dtype=dtype)
        loss = loss + (weight * chosen).sum() + (bonus * h).sum()
        n += len(rows)
        logp.append(chosen.detach())
        entropy.append(h.detach())
    layers = tuple(torch.cat(layer) for layer in zip(*routed))
    of_layers = iter([torch.cat(layer) for layer in counted] if replays else [])
    with unittest.mock.patch("torch.topk", (lambda *_, **__: (None, next(of_layers))) if replays else torch.topk):
        aux = load_balancing_loss_func(layers, spec["num_experts"], spec["num_experts_per_tok"])
    (loss + spec["router_aux_loss_coef"] * aux).backward()
    grads = {name: pick(parameters[owner].grad) for name, (owner, pick) in names.items()}
    p = torch.cat(layers).detach().softmax(-1).sort(-1, descending=True).values
    k = spec["num_experts_per_tok"]
    gap = float((p[:, k - 1] - p[:, k]).min())  # what rounding would have to reach to change a choice
    return torch.cat(logits), torch.cat(logp), torch.cat(entropy), grads, float(aux), gap, given


def main():
    torch.set_num_threads(1)
    out = {"temperature": TEMPERATURE, "lengths": LENGTHS, "models": {}}
    for name, spec in MODELS.items():
        exact, single = run(spec, torch.float64), run(spec, torch.float32)
        worst = max(float((single[3][k].double() - g).norm() / g.norm()) for k, g in exact[3].items() if g.norm() > 1e-9)
        out["models"][name] = {
            "config": spec,
            "logits": flat(exact[0], 7),
            "logp": flat(exact[1], 8),
            "entropy": flat(exact[2], 8),
            "load_balancing_loss": exact[4],
            "gradients": {k: flat(g, 6) for k, g in sorted(exact[3].items())},
            "float32_gradient_error": worst,
            "float32_logit_error": float((single[0].double() - exact[0]).norm() / exact[0].norm()),
            "smallest_gap": exact[5],
        }
        if exact[6]:
            out["models"][name]["routed_experts"] = exact[6]
        print(name, worst, out["models"][name]["float32_logit_error"], exact[4], single[4], exact[5])
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "moe_parity.json")
    with open(path, "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")
    print(os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
