#!/usr/bin/env python3
"""recipes.py ROOT: every trainer names the parts of its algorithm in its own file, and no two loops of policy trainers
are the same text."""
import itertools
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
TERMS = ["dual_clip", "when", "scaled", "entropy_bonus", "aggregation", "run->advantages", "run->update_actor"]
PARTS = {
    "grpo": ["group_relative", *TERMS, "run->sample", "run->provide"],
    "dapo": ["group_relative", *TERMS, "run->needs_groups", "run->keep_differing_groups", "run->take_groups"],
    "ppo": ["gae", "whitened", *TERMS, "run->sample", "run->penalise_rewards", "run->update_critic"],
    "reinforce_plus_plus": ["reinforce_plus_plus", *TERMS, "run->sample", "run->penalise_rewards"],
    "sft": ["negative_log_likelihood", "dft", "train_supervised"],
    "dpo": ["paper::dpo", "openrlhf::ipo", "open_pairs", "load_reference", "train_supervised"],
    "kto": ["paper::kto", "open_unpaired", "load_reference", "train_supervised"],
    "rm": ["paper::rm", "paper::rm_with_margins", "open_pairs", "train_supervised"],
    "prm": ["prm_task_settings", "open_steps", "train_supervised"],
}

wrong, compositions = [], {}
for name, parts in PARTS.items():
    code = re.sub(r"//[^\n]*", "", (root / f"examples/{name}_trainer.cpp").read_text())
    words = set(re.findall(r"(?:\w+(?:::|->))*\w+", code))
    wrong += [f"examples/{name}_trainer.cpp does not name {part}" for part in parts if part not in words]
    if "make_" in code and "next_step" in code:
        compositions[name] = re.sub(r"\s+|make_\w+|\b(?:grpo|dapo|ppo|reinforce)\b", "", code)
unlisted = {p.name[: -len("_trainer.cpp")] for p in (root / "examples").glob("*_trainer.cpp")} - set(PARTS)
wrong += [f"examples/{name}_trainer.cpp is not in the table of tests/api/recipes.py" for name in sorted(unlisted)]
wrong += [f"{a} and {b} are the same trainer but for names" for a, b in itertools.combinations(compositions, 2)
          if compositions[a] == compositions[b]]
print("\n".join(wrong) or f"{len(PARTS)} trainers name their parts")
sys.exit(1 if wrong else 0)
