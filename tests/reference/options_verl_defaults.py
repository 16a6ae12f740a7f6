"""Names and default values of verl's ppo_trainer: writes options_verl_defaults.json.

Usage: options_verl_defaults.py VERL_CHECKOUT  (commit 28f6e4af7, 2025-08-15). Needs omegaconf (see requirements.txt).
"""
import json
import pathlib
import sys

from omegaconf import OmegaConf


def leaves(node, path=""):
    for name, v in node.items():
        if name == "_target_":
            continue
        if isinstance(v, dict) and v:
            yield from leaves(v, path + name + ".")
        else:
            yield path + name, v


def main():
    config = OmegaConf.load(pathlib.Path(sys.argv[1]) / "verl/trainer/config/_generated_ppo_trainer.yaml")
    rollout = config.actor_rollout_ref.rollout
    if OmegaConf.is_missing(rollout, "name"):
        rollout.name = "<mandatory>"
    found = dict(leaves(OmegaConf.to_container(config, resolve=True)))
    pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
