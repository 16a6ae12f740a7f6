"""Names and default values of verl's ppo_trainer: writes options_verl_defaults.json.

Usage: options_verl_defaults.py VERL_CHECKOUT [NEWER]  (commit 28f6e4af7, 2025-08-15; NEWER is where the package of 0.9.1
is installed: options_verl_newer_defaults.json has what it has beyond). Needs omegaconf (see requirements.txt).
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


def defaults(folder):
    config = OmegaConf.load(pathlib.Path(folder) / "verl/trainer/config/_generated_ppo_trainer.yaml")
    for rollout in (config.actor_rollout_ref.rollout, OmegaConf.select(config, "reward.reward_model.rollout")):
        if rollout is not None and OmegaConf.is_missing(rollout, "name"):
            rollout.name = "<mandatory>"
    return dict(leaves(OmegaConf.to_container(config, resolve=True)))


def main():
    place = pathlib.Path(__file__)
    found = defaults(sys.argv[1])
    place.with_suffix(".json").write_text(json.dumps(found, indent=0) + "\n")
    if len(sys.argv) > 2:
        newer = {name: v for name, v in defaults(sys.argv[2]).items() if name not in found}
        place.with_name("options_verl_newer_defaults.json").write_text(json.dumps(newer, indent=0) + "\n")


if __name__ == "__main__":
    main()
