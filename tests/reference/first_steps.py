"""The first optimizer steps of every trainer, recomputed with PyTorch on the models and data of first_steps/.

Writes first_steps.json: for each case the program, its arguments and what it must log, in float64, and the largest
relative distance of the same run in float32. In the arguments {qwen2}, {qwen3} and {score} are model folders, {data} is
the folder first_steps and {out} is where the run goes.

    pip install -r requirements.txt && python first_steps.py
"""

import json
import pathlib

import torch

import first_steps_policy as policy
import first_steps_supervised as supervised
from first_steps_common import cosine, warmup_stable_decay

VERL_SFT = ["data.train_files={data}/sft.jsonl", "data.val_files={data}/held_out.jsonl", "data.prompt_key=extra_info",
            "data.response_key=extra_info", "+data.prompt_dict_keys=['question']", "+data.response_dict_keys=['answer']",
            "data.shuffle=False", "trainer.default_local_dir={out}", "trainer.default_hdfs_dir=null",
            "trainer.logger=console", "rlcore.threads=1"]
VERL_PPO = ["data.train_files={data}/prompts.jsonl", "data.val_files={data}/held_out.jsonl", "data.train_batch_size=4",
            "data.max_prompt_length=64", "data.max_response_length=16", "data.shuffle=False",
            "actor_rollout_ref.model.path={qwen2}", "actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.rollout.n=3",
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=5",
            "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=7",
            "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8", "trainer.val_before_train=False",
            "trainer.test_freq=-1", "trainer.save_freq=-1", "trainer.total_training_steps=4",
            "trainer.default_local_dir={out}", "trainer.logger=console", "rlcore.threads=1",
            "rlcore.replay={data}/rollouts.jsonl"]


def scaled(rows, names):
    """`names`: ours -> theirs, or (theirs, factor)."""
    out = []
    for row in rows:
        new = {}
        for name, x in row.items():
            target, factor = names[name] if isinstance(names[name], tuple) else (names[name], 1)
            new[target] = x * factor
        out.append(new)
    return out


def case(program, arguments, rows_of, names=None):
    exact, rounded = (rows_of(dtype) for dtype in (torch.float64, torch.float32))
    distance = max(abs(a[k] - b[k]) / max(1e-3, abs(a[k])) for a, b in zip(exact, rounded) for k in a)
    shorten = lambda x: float(f"{x:.9g}")
    rows = [{k: shorten(x) for k, x in row.items()} for row in (scaled(exact, names) if names else exact)]
    return {"program": program, "arguments": arguments, "float32": float(f"{distance:.1e}"), "rows": rows}


def sft_cases():
    names = {"loss": "train/loss", "lr": ("train/lr(1e-3)", 1e3), "grad_norm": "train/grad_norm"}
    yield "sft", case(
        "sft_trainer",
        VERL_SFT + ["model.partial_pretrain={qwen2}", "data.train_batch_size=8", "data.micro_batch_size_per_gpu=3",
                    "data.max_length=128", "optim.lr=5e-3", "optim.betas=[0.9,0.95]", "optim.weight_decay=0.01",
                    "optim.warmup_steps_ratio=0.34", "optim.clip_grad=0.5", "trainer.total_epochs=3"],
        lambda dtype: supervised.sft(dtype, "qwen2", 8, 3, 5e-3, 0.34, 0.5, cosine), names)
    yield "sft_qwen3_wsd_truncated", case(
        "sft_trainer",
        VERL_SFT + ["model.partial_pretrain={qwen3}", "data.train_batch_size=5", "data.micro_batch_size_per_gpu=5",
                    "data.max_length=60", "data.truncation=right", "optim.lr=5e-3", "optim.warmup_steps_ratio=0.2",
                    "optim.lr_scheduler=wsd", "trainer.total_epochs=2"],
        lambda dtype: supervised.sft(dtype, "qwen3", 5, 2, 5e-3, 0.2, 1.0, warmup_stable_decay, limit=60), names)
    yield "sft_lora", case(
        "sft_trainer",
        VERL_SFT + ["model.partial_pretrain={qwen2}", "model.lora_rank=4", "model.lora_alpha=8",
                    "model.target_modules=all-linear", "data.train_batch_size=8", "data.micro_batch_size_per_gpu=3",
                    "data.max_length=128", "optim.lr=2e-2", "trainer.total_epochs=3"],
        lambda dtype: supervised.sft(dtype, "qwen2", 8, 3, 2e-2, 0.1, 1.0, cosine, adapter=("adapter", 4, 8)), names)
    yield "sft_multiturn", case(
        "sft_trainer",
        [a for a in VERL_SFT if "_key" not in a and "_files" not in a] +
        ["data.train_files={data}/turns.jsonl", "data.val_files={data}/turns.jsonl", "data.multiturn.enable=True",
         "data.multiturn.messages_key=messages", "model.partial_pretrain={qwen2}", "data.train_batch_size=6",
         "data.micro_batch_size_per_gpu=4", "data.max_length=200", "optim.lr=2e-3", "optim.warmup_steps_ratio=0",
         "trainer.total_epochs=2"],
        lambda dtype: supervised.sft(dtype, "qwen2", 6, 2, 2e-3, 0.0, 1.0, cosine, turns=True), names)


def flags(program, dataset, model="{qwen2}", **more):
    words = ["--pretrain", model, "--dataset", "{data}/" + dataset, "--save_path", "{out}", "--ckpt_path", "{out}"]
    for name, x in more.items():
        words += ["--" + name] + ([] if x is True else [str(v) for v in x] if isinstance(x, tuple) else [str(x)])
    return words + ["rlcore.threads=1", "rlcore.shuffle=False"]


def preference_cases():
    common = lambda *names: {n: f"train/{n}" for n in ("loss", "lr", "grad_norm", *names)}
    pair = common("acc", "chosen_reward", "reject_reward")
    s = supervised
    yield "openrlhf_sft", case(
        "sft_trainer",
        flags("sft_trainer", "unpaired.jsonl", input_key="input", output_key="output", input_template="User: {}\nAssistant: ",
              max_len=80, max_epochs=2, train_batch_size=4, micro_train_batch_size=4, learning_rate=2e-3, l2=0.1),
        lambda dtype: s.openrlhf_sft(dtype, 4, 2, 2e-3, "User: {}\nAssistant: ", 80, 0.1),
        {**common(), "loss": "train/loss"})
    yield "dpo", case(
        "dpo_trainer",
        flags("dpo_trainer", "pairs.jsonl", prompt_key="prompt", max_epochs=2, train_batch_size=4,
              micro_train_batch_size=2, learning_rate=1e-3, beta=0.1),
        lambda dtype: s.dpo(dtype, 4, 2, 1e-3, 0.1), pair)
    yield "dpo_smoothing_nll_chat", case(
        "dpo_trainer",
        flags("dpo_trainer", "chats.jsonl", apply_chat_template=True, max_epochs=2, train_batch_size=4,
              micro_train_batch_size=4, learning_rate=3e-4, beta=0.3, label_smoothing=0.1, nll_loss_coef=0.2),
        lambda dtype: s.dpo(dtype, 4, 2, 3e-4, 0.3, smoothing=0.1, nll=0.2, as_chat=True),
        {**pair, "nll_loss": "train/nll_loss"})
    yield "dpo_ipo_truncated", case(
        "dpo_trainer",
        flags("dpo_trainer", "pairs.jsonl", prompt_key="prompt", max_epochs=2, train_batch_size=6,
              micro_train_batch_size=3, learning_rate=1e-4, beta=0.5, ipo=True, max_len=44, l2=0.1),
        lambda dtype: s.dpo(dtype, 6, 2, 1e-4, 0.5, ipo=True, limit=44, l2=0.1), pair)
    yield "kto", case(
        "kto_trainer",
        flags("kto_trainer", "unpaired.jsonl", input_key="input", output_key="output", label_key="label", max_len=256, max_epochs=2,
              train_batch_size=4, micro_train_batch_size=4, learning_rate=1e-3, beta=0.1, desirable_loss_weight=1.0,
              undesirable_loss_weight=1.5),
        lambda dtype: s.kto(dtype, 4, 2, 1e-3, 0.1, 1.0, 1.5),
        {**common("kl", "chosen_reward", "reject_reward"), "loss": "train/kto_loss"})
    yield "rm", case(
        "rm_trainer",
        flags("rm_trainer", "pairs.jsonl", "{score}", prompt_key="prompt", max_epochs=2, train_batch_size=4,
              micro_train_batch_size=1, learning_rate=2e-3),
        lambda dtype: s.rm(dtype, 4, 2, 2e-3, "sigmoid"), pair)
    yield "rm_margin", case(
        "rm_trainer",
        flags("rm_trainer", "pairs.jsonl", "{score}", prompt_key="prompt", max_epochs=2, train_batch_size=6,
              micro_train_batch_size=2, learning_rate=2e-3, margin_loss=True),
        lambda dtype: s.rm(dtype, 6, 2, 2e-3, "sigmoid", margin=True), pair)
    yield "rm_logexp_chat", case(
        "rm_trainer",
        flags("rm_trainer", "chats.jsonl", "{score}", apply_chat_template=True, max_epochs=2, train_batch_size=4,
              micro_train_batch_size=4, learning_rate=2e-3, loss="logexp"),
        lambda dtype: s.rm(dtype, 4, 2, 2e-3, "logexp", as_chat=True), pair)
    marks = {**common("acc"), "loss": "train/prm_loss"}
    yield "prm", case(
        "prm_trainer",
        flags("prm_trainer", "steps.jsonl", input_key="input", label_key="value", placeholder_token="ки",
              reward_tokens=("+", "-"), max_len=256, max_epochs=2, train_batch_size=4, micro_train_batch_size=2, learning_rate=2e-3),
        lambda dtype: s.prm(dtype, 4, 2, 2e-3, ("+", "-")), marks)
    yield "prm_whole_vocabulary_truncated", case(
        "prm_trainer",
        flags("prm_trainer", "steps.jsonl", input_key="input", label_key="value", placeholder_token="ки", max_len=70,
              max_epochs=2, train_batch_size=6, micro_train_batch_size=6, learning_rate=2e-3),
        lambda dtype: [{k: x for k, x in row.items() if k != "acc"} for row in s.prm(dtype, 6, 2, 2e-3, (), limit=70)],
        marks)


def policy_cases():
    yield "grpo", case(
        "grpo_trainer",
        VERL_PPO + ["algorithm.adv_estimator=grpo", "actor_rollout_ref.actor.ppo_mini_batch_size=2",
                    "actor_rollout_ref.actor.optim.lr=2e-3", "actor_rollout_ref.actor.optim.lr_warmup_steps=2",
                    "actor_rollout_ref.rollout.temperature=0.8", "actor_rollout_ref.actor.entropy_coeff=0.01",
                    "actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.kl_loss_coef=0.05",
                    "actor_rollout_ref.actor.kl_loss_type=low_var_kl"],
        lambda dtype: policy.run(dtype, estimator="grpo", mini=2, lr=2e-3, warmup=2, temperature=0.8, entropy=0.01,
                                 kl_loss=0.05))
    yield "rloo", case(
        "grpo_trainer",
        VERL_PPO + ["algorithm.adv_estimator=rloo", "actor_rollout_ref.actor.ppo_mini_batch_size=4",
                    "actor_rollout_ref.actor.ppo_epochs=2", "actor_rollout_ref.actor.optim.lr=1e-3",
                    "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean"],
        lambda dtype: policy.run(dtype, estimator="rloo", epochs=2, lr=1e-3, agg="seq-mean-token-mean"))
    yield "reinforce_plus_plus", case(
        "grpo_trainer",
        VERL_PPO + ["algorithm.adv_estimator=reinforce_plus_plus", "algorithm.use_kl_in_reward=True",
                    "algorithm.kl_ctrl.kl_coef=0.05", "algorithm.gamma=0.9",
                    "actor_rollout_ref.actor.ppo_mini_batch_size=2", "actor_rollout_ref.actor.optim.lr=1e-3"],
        lambda dtype: policy.run(dtype, estimator="reinforce_plus_plus", mini=2, lr=1e-3, kl_reward=0.05, gamma=0.9))
    yield "reinforce_plus_plus_baseline", case(
        "grpo_trainer",
        [a.replace("{qwen2}", "{qwen3}") for a in VERL_PPO] +
        ["algorithm.adv_estimator=reinforce_plus_plus_baseline", "algorithm.use_kl_in_reward=True",
         "algorithm.kl_ctrl.type=adaptive", "algorithm.kl_ctrl.kl_coef=0.1", "algorithm.kl_ctrl.horizon=100",
         "algorithm.kl_ctrl.target_kl=0.1", "actor_rollout_ref.actor.ppo_mini_batch_size=2",
         "actor_rollout_ref.actor.optim.lr=2e-3"],
        lambda dtype: policy.run(dtype, model="qwen3", estimator="reinforce_plus_plus_baseline", mini=2, lr=2e-3,
                                 kl_reward=0.1, kl_horizon=100))
    yield "gspo", case(
        "grpo_trainer",
        VERL_PPO + ["algorithm.adv_estimator=grpo", "algorithm.norm_adv_by_std_in_grpo=False",
                    "actor_rollout_ref.actor.policy_loss.loss_mode=gspo",
                    "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean", "actor_rollout_ref.actor.clip_ratio=0.05",
                    "actor_rollout_ref.actor.clip_ratio_low=0.05", "actor_rollout_ref.actor.clip_ratio_high=0.08",
                    "actor_rollout_ref.actor.ppo_mini_batch_size=1", "actor_rollout_ref.actor.optim.lr=1e-3"],
        lambda dtype: policy.run(dtype, estimator="grpo", by_std=False, gspo=True, agg="seq-mean-token-mean", low=0.05,
                                 high=0.08, mini=1, lr=1e-3))
    yield "dapo", case(
        "dapo_trainer",
        VERL_PPO + ["algorithm.adv_estimator=grpo", "actor_rollout_ref.actor.ppo_mini_batch_size=1",
                    "actor_rollout_ref.actor.optim.lr=1e-3", "actor_rollout_ref.actor.optim.lr_warmup_steps=1",
                    "actor_rollout_ref.actor.optim.warmup_style=cosine", "actor_rollout_ref.actor.optim.weight_decay=0.1",
                    "actor_rollout_ref.actor.clip_ratio_low=0.2", "actor_rollout_ref.actor.clip_ratio_high=0.28",
                    "actor_rollout_ref.actor.clip_ratio_c=10.0", "actor_rollout_ref.actor.loss_agg_mode=token-mean",
                    "reward_model.reward_manager=dapo", "reward_model.overlong_buffer.enable=True",
                    "reward_model.overlong_buffer.len=8", "reward_model.overlong_buffer.penalty_factor=1.0"],
        lambda dtype: policy.run(dtype, estimator="grpo", mini=1, lr=1e-3, high=0.28, dual=10.0, overlong=8, cosine=True,
                                 warmup=1, weight_decay=0.1))
    yield "ppo", case(
        "ppo_trainer",
        VERL_PPO + ["algorithm.adv_estimator=gae", "algorithm.gamma=0.99", "algorithm.lam=0.95",
                    "actor_rollout_ref.actor.ppo_mini_batch_size=2", "actor_rollout_ref.actor.optim.lr=1e-3",
                    "critic.model.path={score}", "critic.optim.lr=5e-3", "critic.cliprange_value=0.1",
                    "critic.ppo_micro_batch_size_per_gpu=4", "trainer.critic_warmup=2"],
        lambda dtype: policy.run(dtype, estimator="gae", mini=2, lr=1e-3, gamma=0.99, lam=0.95, critic_lr=5e-3,
                                 critic_warmup=2, value_clip=0.1))


def openrlhf_policy_cases():
    def words(estimator, *more):
        return ["--prompt_data", "{data}/prompts.jsonl", "--input_key", "prompt", "--apply_chat_template", "--pretrain",
                "{qwen2}", "--advantage_estimator", estimator, "--rollout_batch_size", "4", "--n_samples_per_prompt", "3",
                "--train_batch_size", "12", "--micro_train_batch_size", "5", "--num_episodes", "2", "--prompt_max_len",
                "64", "--generate_max_len", "16", "--actor_learning_rate", "1e-3", "--l2", "0.1", "--ckpt_path",
                "{out}", "--save_path", "{out}", *more, "data.shuffle=False", "rlcore.threads=1", "rlcore.replay={data}/rollouts.jsonl"]

    common = dict(openrlhf=True, warmup=1, lr=1e-3, dual=float("inf"), weight_decay=0.1)
    yield "openrlhf_reinforce_plus_plus", case(
        "reinforce_plus_plus_trainer",
        words("reinforce", "--init_kl_coef", "0.05", "--gamma", "0.9"),
        lambda dtype: policy.run(dtype, estimator="reinforce_plus_plus", kl_reward=0.05, gamma=0.9, **common))
    yield "openrlhf_ppo", case(
        "ppo_trainer",
        words("gae", "--init_kl_coef", "0.02", "--lambd", "0.95", "--critic_pretrain", "{score}",
              "--critic_learning_rate", "5e-3", "--value_clip", "0.1", "--train_batch_size", "6"),
        lambda dtype: policy.run(dtype, estimator="gae", mini=2, kl_reward=0.02, lam=0.95, critic_lr=5e-3,
                                 value_clip=0.1, **common))


def main():
    torch.set_num_threads(1)
    cases = {}
    for group in (sft_cases, preference_cases, policy_cases, openrlhf_policy_cases):
        for name, content in group():
            cases[name] = content
            print(f"{name}: {len(content['rows'])} steps, float32 within {content['float32']:.1e}")
    path = pathlib.Path(__file__).with_name("first_steps.json")
    lines = [json.dumps(name) + ": " + json.dumps(content, ensure_ascii=False) for name, content in cases.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
