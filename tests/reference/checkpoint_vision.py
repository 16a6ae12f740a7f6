"""A tiny Qwen2.5-VL as folders of transformers: config.json of every layout, names and shapes, numbers of parameters, and
what its class makes of a preprocessor_config.json.

Writes next to itself checkpoint_vision.json, for tests/checkpoint/vision_*_test.cpp and preprocessor_config_test.cpp.
"layouts" has one config.json for every version that this was run with (transformers of requirements.txt, and 4.57.6),
tied and not, and one of the flat form of the published models. Sizes are those of vl_parity.py.
"""
import json
import struct
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessor

target = Path(__file__).resolve().parent / "checkpoint_vision.json"
version = transformers.__version__
new = not version.startswith("4.")
ids = dict(image_token_id=57, video_token_id=56, vision_start_token_id=58, vision_end_token_id=59)
vision = dict(depth=2, hidden_size=32, num_heads=4, intermediate_size=44, out_hidden_size=24, fullatt_block_indexes=[1],
              tokens_per_second=2)


def rope(sections, theta):
    if new:
        return dict(rope_parameters={"rope_type": "default", "mrope_section": sections, "rope_theta": theta})
    return dict(rope_scaling={"type": "mrope", "mrope_section": sections}, rope_theta=theta)


def config(text, vision, tied, **more):
    text = dict(text, tie_word_embeddings=tied)
    if new:
        return Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=tied, **more)
    return Qwen2_5_VLConfig(**text, vision_config=vision, **more)


def shapes_of(folder):
    with open(Path(folder) / "model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return {name: value["shape"] for name, value in sorted(header.items()) if name != "__metadata__"}


tiny = dict(hidden_size=24, intermediate_size=36, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
            vocab_size=60, rms_norm_eps=1e-6, max_position_embeddings=512, bos_token_id=50, eos_token_id=[52, 53],
            pad_token_id=51) | rope([1, 1, 2], 10000.0)
# hidden, intermediate, layers, heads, kv heads, vocabulary, tied, intermediate of the tower
released = {"3B": (2048, 11008, 36, 16, 2, 151936, True, 3420), "7B": (3584, 18944, 28, 28, 4, 152064, False, 3420),
            "32B": (5120, 27648, 64, 40, 8, 152064, False, 3456)}

golden = json.loads(target.read_text()) if target.exists() else {"layouts": {}, "shapes": {}, "in_memory": {}}
golden["layouts"]["published"] = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"], "attention_dropout": 0.0, "bos_token_id": 50,
    "eos_token_id": 52, "vision_start_token_id": 58, "vision_end_token_id": 59, "vision_token_id": 55,
    "image_token_id": 57, "video_token_id": 56, "hidden_act": "silu", "hidden_size": 24, "initializer_range": 0.02,
    "intermediate_size": 36, "max_position_embeddings": 512, "max_window_layers": 70, "model_type": "qwen2_5_vl",
    "num_attention_heads": 3, "num_hidden_layers": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0, "sliding_window": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "transformers_version": "4.41.2", "use_cache": True, "use_sliding_window": False, "vision_config": {
        "depth": 2, "hidden_act": "silu", "hidden_size": 32, "num_heads": 4, "intermediate_size": 44, "in_chans": 3,
        "out_hidden_size": 24, "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14, "window_size": 112,
        "fullatt_block_indexes": [1], "tokens_per_second": 2, "temporal_patch_size": 2},
    "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]}, "vocab_size": 60}
for tied in (False, True):
    model = Qwen2_5_VLForConditionalGeneration(config(tiny, vision, tied, **ids))
    word = "tied" if tied else "untied"
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        golden["layouts"][f"{version} {word}"] = json.loads((Path(folder) / "config.json").read_text())
        stored = shapes_of(folder)
    assert golden["shapes"].setdefault(word, stored) == stored, "versions disagree"
    memory = sorted(name for name, _ in model.named_parameters())
    assert golden["in_memory"].setdefault(word, memory) == memory, "versions disagree"
golden["parameters"] = {}
for name, (h, i, layers, heads, kv, vocabulary, tied, width) in released.items():
    text = dict(hidden_size=h, intermediate_size=i, num_hidden_layers=layers, num_attention_heads=heads,
                num_key_value_heads=kv, vocab_size=vocabulary) | rope([16, 24, 24], 1e6)
    tower = dict(depth=32, hidden_size=1280, intermediate_size=width, out_hidden_size=h)
    with torch.device("meta"):
        model = Qwen2_5_VLForConditionalGeneration(config(text, tower, tied))
    count = {name: p.numel() for name, p in model.named_parameters()}
    seen = sum(n for key, n in count.items() if "visual." in key)
    if tied:
        model.tie_weights()
        count = {name: p.numel() for name, p in model.named_parameters()}
    golden["parameters"][name] = {
        "config": {"hidden_size": h, "intermediate_size": i, "num_hidden_layers": layers, "num_attention_heads": heads,
                   "num_key_value_heads": kv, "vocab_size": vocabulary, "tie_word_embeddings": tied},
        "vision_intermediate_size": width, "vision": seen, "all": sum(count.values())}
if new:  # 4.57's slow class ignores size
    processors = [{}, dict(min_pixels=784, max_pixels=78400), dict(size=dict(shortest_edge=784, longest_edge=78400)),
                  dict(min_pixels=784, size=dict(shortest_edge=3000, longest_edge=90000)),
                  dict(max_pixels=78400, size=dict(shortest_edge=3000, longest_edge=90000)),
                  dict(min_pixels=None, max_pixels=12845056), dict(size=None, image_mean=[0.5, 0.25, 0.125])]
    golden["processors"] = []
    for more in processors:
        file = {"image_processor_type": "Qwen2VLImageProcessor", **more}
        for name in ("preprocessor_config.json", "processor_config.json"):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / name).write_text(json.dumps(file if name.startswith("pre") else {"image_processor": file}))
                loaded = Qwen2VLImageProcessor.from_pretrained(folder)
            golden["processors"].append({"name": name, "file": file, "size": [
                loaded.size["shortest_edge"], loaded.size["longest_edge"]], "mean": list(loaded.image_mean)})
golden["layouts"] = dict(sorted(golden["layouts"].items()))
target.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
print(version, golden["parameters"], file=sys.stderr)
