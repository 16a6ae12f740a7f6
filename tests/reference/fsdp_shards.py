# Sharded checkpoints as verl writes them (model_world_size_W_rank_r.pt), by torch's own FSDP on CPU with gloo, of one tiny Qwen2
# model, and the model itself as safetensors: fills fsdp_shards/.
#   python fsdp_shards.py      (torch, transformers, peft as pinned in requirements.txt)
import json
import os
import pathlib
import shutil
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardedStateDictConfig, ShardingStrategy, StateDictType, fully_shard
from transformers import Qwen2Config, Qwen2ForCausalLM

HERE = pathlib.Path(__file__).with_suffix("")
# Odd extents: no dimension divides evenly among two ranks, and the norms of the LoRA run are smaller than the mesh.
CONFIG = dict(vocab_size=11, hidden_size=6, intermediate_size=5, num_hidden_layers=1, num_attention_heads=3, num_key_value_heads=1, head_dim=2,
              max_position_embeddings=32, tie_word_embeddings=True, rope_theta=10000.0, eos_token_id=2, pad_token_id=0)


def model():
    torch.manual_seed(3)
    m = Qwen2ForCausalLM(Qwen2Config(**CONFIG))
    for p in m.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return m


def adapted():
    m = get_peft_model(model(), LoraConfig(r=2, lora_alpha=6, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM"))
    torch.manual_seed(4)
    for name, p in m.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(p, std=0.5)
    return m


def sharded(kind, world):
    if kind == "fsdp2":
        m = model()
        fully_shard(m.model.layers[0], mesh=init_device_mesh("cpu", (world,), mesh_dim_names=("fsdp",)))
        fully_shard(m, mesh=init_device_mesh("cpu", (world,), mesh_dim_names=("fsdp",)))
        return m.state_dict()
    if kind == "hsdp":
        m = model()
        mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("ddp", "fsdp"))
        fully_shard(m, mesh=mesh)
        return m.state_dict()
    if kind == "lora":
        m = adapted()
        fully_shard(m, mesh=init_device_mesh("cpu", (world,), mesh_dim_names=("fsdp",)))
        return m.state_dict()
    if kind == "fsdp1_bf16":
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("fsdp",))
        m = FullyShardedDataParallel(model().bfloat16(), device_mesh=mesh, device_id=torch.device("cpu"), sharding_strategy=ShardingStrategy.FULL_SHARD,
                                     use_orig_params=False)
        with FullyShardedDataParallel.state_dict_type(m, StateDictType.SHARDED_STATE_DICT, ShardedStateDictConfig(offload_to_cpu=True)):
            return m.state_dict()
    if kind == "plain":
        return model().state_dict()
    if kind == "columns":  # not what FSDP does by itself, but what a DTensor may be
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("fsdp",))
        return {k: distribute_tensor(v.detach(), mesh, [Shard(1) if v.dim() == 2 else Replicate()]) for k, v in model().state_dict().items()}
    raise ValueError(kind)


def rank_main(rank, kind, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533", RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    state = sharded(kind, world)
    if kind != "hsdp" or rank < 2:  # the other ranks repeat them
        torch.save(state, HERE / kind / f"model_world_size_{world}_rank_{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    shutil.rmtree(HERE, ignore_errors=True)
    for kind, world in (("fsdp2", 2), ("fsdp1_bf16", 2), ("hsdp", 4), ("lora", 2), ("columns", 2), ("plain", 1)):
        (HERE / kind).mkdir(parents=True)
        (HERE / kind / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 1 if "1" in kind else 2, "world_size": world}))
        mp.spawn(rank_main, args=(kind, world), nprocs=world)
        print(kind, sum(f.stat().st_size for f in (HERE / kind).iterdir()), "bytes")
    full = HERE / "huggingface"
    full.mkdir()
    m = model()
    m.config.architectures = ["Qwen2ForCausalLM"]
    m.config.save_pretrained(full)
    m.generation_config.save_pretrained(full)
    weights = {k: v.detach().clone() for k, v in m.state_dict().items() if k != "lm_head.weight"}
    save_file(weights, full / "model.safetensors", metadata={"format": "pt"})
    merged = adapted().merge_and_unload().state_dict()
    save_file({k: v.detach().clone() for k, v in merged.items() if k != "lm_head.weight"}, HERE / "lora" / "merged.safetensors", metadata={"format": "pt"})
    alpha = {"r": 2, "lora_alpha": 6, "task_type": "CAUSAL_LM"}
    (HERE / "lora" / "lora_train_meta.json").write_text(json.dumps(alpha))
    sys.exit(0)
