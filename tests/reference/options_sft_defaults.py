"""Names and default values of verl's sft_trainer: writes options_sft_defaults.json.

Usage: options_sft_defaults.py VERL_CHECKOUT  (commit 28f6e4af7, 2025-08-15). Needs omegaconf (see requirements.txt).
"""
import json
import pathlib
import sys

from omegaconf import OmegaConf
from options_verl_defaults import leaves

config = OmegaConf.load(pathlib.Path(sys.argv[1]) / "verl/trainer/config/sft_trainer.yaml")
found = dict(leaves(OmegaConf.to_container(config, resolve=True)))
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=0) + "\n")
