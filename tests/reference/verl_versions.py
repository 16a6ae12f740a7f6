"""What versions of verl compute where they differ: writes verl_versions.json.

Usage: verl_versions.py 2025-08=FOLDER 0.6.1=FOLDER 0.8.0=FOLDER 0.9.1=FOLDER. Each folder holds verl/: the wheel
unpacked, for 2025-08 a checkout of commit 28f6e4af7. The functions are cut out of trainer/ppo/core_algos.py and
utils/torch_functional.py, so that no version has to be installed; torch is all that they need.
"""

import ast
import json
import os
import sys
from types import SimpleNamespace

import torch

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def functions_of(folder):
    """The functions of a version, as its files have them."""
    space = {"torch": torch, "VF": None}
    for path in ("utils/torch_functional.py", "trainer/ppo/core_algos.py"):
        tree = ast.parse(open(os.path.join(folder, "verl", path)).read())
        wanted = {"masked_sum", "masked_mean", "masked_var", "masked_whiten", "agg_loss", "compute_policy_loss_gspo",
                  "compute_reinforce_plus_plus_outcome_advantage"}
        found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in wanted]
        for f in found:
            f.decorator_list, f.returns = [], None
            for a in f.args.args + f.args.kwonlyargs:
                a.annotation = None
        exec(compile(ast.Module(found, []), path, "exec"), space)
        space["verl_F"] = SimpleNamespace(**{k: v for k, v in space.items() if k.startswith("masked")})
    space["ActorConfig"] = SimpleNamespace
    return space


LENGTHS = [3, 1, 0, 7, 5]
B, T = len(LENGTHS), max(LENGTHS)
WIDTH = 9  # of the padded responses: what seq-mean-token-sum-norm divides by
generator = torch.Generator().manual_seed(5)
draw = lambda *shape: torch.rand(*shape, generator=generator)
mask = (torch.arange(WIDTH)[None] < torch.tensor(LENGTHS)[:, None]).double()
logp = (-2 * draw(B, WIDTH) - 0.1).float().double()
old_logp = (logp + 0.6 * draw(B, WIDTH) - 0.3).float().double()
advantage = (2 * draw(B) - 1).float().double()
# Two turns each, with other tokens between them.
turns = torch.tensor([[1, 1, 0, 0, 1, 1], [1, 0, 1, 1, 1, 0], [0, 1, 1, 0, 0, 1]]).double()
reward = (turns * (2 * draw(3, 6) - 1)).float().double()
MODES = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]


def case(version, f):
    config = SimpleNamespace(clip_ratio=0.2, clip_ratio_low=0.1, clip_ratio_high=0.15, global_batch_info={})
    if version in ("0.8.0", "0.9.1"):  # as their engines do
        config.global_batch_info = dict(dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=B)
    live = lambda t: [float(f"{x:.9g}") for x in t[mask.bool()].tolist()]
    out = {"gspo": {}, "aggregation": {}}
    for mode in MODES:
        if mode == "token-sum" and version != "0.9.1":
            continue
        leaf = logp.clone().requires_grad_()
        loss = f["compute_policy_loss_gspo"](old_logp, leaf, advantage[:, None].expand(B, WIDTH), mask,
                                             loss_agg_mode=mode, config=config)[0]
        # at 2025-08 the mean of a row without tokens is 0/0: its rows are compared without that one
        if torch.isfinite(loss):
            out["gspo"][mode] = {"loss": loss.item(), "gradient": live(torch.autograd.grad(loss, leaf)[0])}
        value = f["agg_loss"](-logp, mask, mode, **config.global_batch_info)
        if torch.isfinite(value):
            out["aggregation"][mode] = value.item()
    whitened, returns = f["compute_reinforce_plus_plus_outcome_advantage"](
        token_level_rewards=reward, response_mask=turns, config=SimpleNamespace(gamma=0.9))
    numbers = lambda t: [float(f"{x:.9g}") for x in t[turns.bool()].tolist()]
    out["reinforce_plus_plus"] = {"advantages": numbers(whitened), "returns": numbers(returns)}
    return out


if __name__ == "__main__":
    folders = dict(a.split("=", 1) for a in sys.argv[1:])
    flat = lambda t: [float(f"{x:.9g}") for x in t.flatten().tolist()]
    result = {"lengths": LENGTHS, "width": WIDTH, "logp": flat(logp[mask.bool()]), "old_logp": flat(old_logp[mask.bool()]),
              "advantage": flat(advantage), "clip": [0.1, 0.15],
              "turns": {"rows": 3, "tokens": 6, "mask": [int(x) for x in turns.flatten()], "reward": flat(reward),
                        "gamma": 0.9},
              "versions": {v: case(v, functions_of(folder)) for v, folder in folders.items()}}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "verl_versions.json")
    with open(path, "w") as f:
        json.dump(result, f, separators=(",", ":"))
        f.write("\n")
    for v, c in result["versions"].items():
        print(v, {k: x["loss"] for k, x in c["gspo"].items()}, c["aggregation"], c["reinforce_plus_plus"]["returns"][:4])
