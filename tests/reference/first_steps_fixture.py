"""Makes the folder first_steps: small models, their tokenizer and some rows of every data format.

    python first_steps_fixture.py

Everything is random or made up here. The models are stored in float32; a model folder is one of qwen2, qwen3, score
together with the files of tokenizer/. The folder adapter is not made here: it holds the initial LoRA matrices of case sft_lora, which
sft_trainer draws from its seed and saves after a step with optim.lr=0.
"""

import json
import pathlib
import random
import shutil

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification, Qwen3Config,
                          Qwen3ForCausalLM)

FOLDER = pathlib.Path(__file__).parent / "first_steps"
CHATML = ("{%- for turn in messages %}{{- '<|im_start|>' + turn.role + '\\n' + turn.content + '<|im_end|>\\n' }}"
          "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")
THINGS = ["apples", "books", "cards", "coins", "eggs", "pens", "shells"]
NAMES = ["Ann", "Bo", "Cleo", "Dan", "Eve"]


def write_rows(name, rows):
    with open(FOLDER / name, "w") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def problem(i):
    draw = random.Random(100 + i)
    name, thing, have, less = draw.choice(NAMES), draw.choice(THINGS), draw.randint(4, 19), draw.randint(1, 3)
    question = f"{name} has {have} {thing} and gives {less} away. How many are left?"
    steps = f"{name} keeps {have}-{less}=<<{have}-{less}={have - less}>>{have - less} {thing}."
    wrong = f"{name} keeps {have}+{less}={have + less}."
    return question, steps, wrong, have - less, have + less


def gsm8k_row(i):
    question, steps, _, result, _ = problem(i)
    prompt = [{"role": "user", "content": question}]
    return {"data_source": "openai/gsm8k", "prompt": prompt, "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(result)},
            "extra_info": {"split": "train", "index": i, "question": question, "answer": f"{steps}\n#### {result}"}}


def conversation(i):
    question, steps, wrong, result, _ = problem(i)
    turns = [{"role": "system", "content": "Be brief."}] if i % 3 == 0 else []
    turns.append({"role": "user", "content": question})
    if i % 2:
        turns.append({"role": "assistant", "content": "Let me count."})
        turns.append({"role": "tool", "content": f"= {result}"})
    turns.append({"role": "assistant", "content": f"{steps} So {result}."})
    if i % 4 == 2:
        turns += [{"role": "user", "content": "Sure?"}, {"role": "assistant", "content": "Yes."}]
    return {"messages": turns}


def pair(i):
    question, steps, wrong, result, sum_ = problem(i)
    chosen, rejected = f"{steps}\n#### {result}", f"{wrong}\n#### {sum_}"
    if i % 5 == 0:
        chosen += "\n\n"  # trailing line ends are removed
    return {"prompt": question + "\n", "chosen": chosen, "rejected": rejected, "margin": (i % 4) * 0.25}


def chat_pair(i):
    p = pair(i)
    talk = lambda answer: [{"role": "user", "content": p["prompt"].strip()},
                           {"role": "assistant", "content": answer.strip()}]
    return {"chosen": talk(p["chosen"]), "rejected": talk(p["rejected"])}


def unpaired(i):
    p = pair(i)
    good = i % 3 != 1
    return {"input": p["prompt"], "output": p["chosen" if good else "rejected"], "label": int(good)}


def step_rewards(i):
    question, steps, wrong, result, sum_ = problem(i)
    text, labels = question + "\n", []
    for k in range(2 + i % 2):
        good = (i + k) % 3 != 0
        text += (steps if good else wrong) + " ки\n"
        labels.append("+" if good else "-")
    return {"input": text, "value": labels}


def make_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=316, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("ки", normalized=False, special=False)])
    place = FOLDER / "tokenizer"
    place.mkdir()
    tokenizer.save(str(place / "tokenizer.json"), pretty=False)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
              "model_max_length": 512, "clean_up_tokenization_spaces": False, "add_prefix_space": False,
              "chat_template": CHATML}
    (place / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    return tokenizer


def make_model(name, kind, config, tokenizer, seed):
    torch.manual_seed(seed)
    ids = dict(eos_token_id=tokenizer.token_to_id("<|im_end|>"), pad_token_id=tokenizer.token_to_id("<|endoftext|>"))
    config = config(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=512, bos_token_id=None,
                    rms_norm_eps=1e-6, attention_dropout=0.0, initializer_range=0.2, use_cache=False, **ids)
    model = kind(config)
    with torch.no_grad():  # biases and norms are not at their trivial values
        for key, p in model.named_parameters():
            if key.endswith("norm.weight"):
                p.add_(0.1 * torch.randn_like(p))
            elif key.endswith("bias"):
                p.add_(0.1 * torch.randn_like(p))
    place = FOLDER / name
    place.mkdir()
    kept = {k: v.contiguous() for k, v in model.state_dict().items()
            if not (config.tie_word_embeddings and k == "lm_head.weight")}
    save_file(kept, place / "model.safetensors", metadata={"format": "pt"})
    written = {k: v for k, v in config.to_dict().items() if k not in ("transformers_version", "layer_types", "dtype")}
    written.update(architectures=[kind.__name__], torch_dtype="float32")
    theta = written.pop("rope_parameters")["rope_theta"]
    written.update(rope_theta=theta)
    (place / "config.json").write_text(json.dumps(written, indent=1, sort_keys=True) + "\n")


def rollouts(tokenizer):
    """Stored responses: 4 steps of 4 prompts x 3 samples, at most 16 tokens; some right, some wrong, some cut off."""
    draw = random.Random(5)
    encode = lambda text: tokenizer.encode(text).ids
    for step, order in enumerate([[0, 1, 2, 3], [4, 5, 6, 7], [2, 5, 0, 7], [6, 1, 4, 3]], 1):
        for row in order:
            question, _, _, result, sum_ = problem(20 + row)
            prompt = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
            for sample in range(3):
                number = result if draw.random() < 0.5 else draw.choice([sum_, result + 1])
                text = draw.choice(["#### {}", "So #### {}", "It is {}.\n#### {}", "{} left.", "#### {} #### {}"])
                ids = (encode(text.format(number, number)) + encode("<|im_end|>"))[:16]
                if draw.random() < 0.15:
                    ids = (ids[:-1] + encode(" eggs and apples and books and cards" * 2))[:16]
                yield {"step": step, "row": row, "sample": sample, "prompt_ids": encode(prompt), "response_ids": ids}


def main():
    FOLDER.mkdir(exist_ok=True)
    for name in ("qwen2", "qwen3", "score", "tokenizer"):
        shutil.rmtree(FOLDER / name, ignore_errors=True)
    write_rows("sft.jsonl", map(gsm8k_row, range(16)))
    write_rows("turns.jsonl", map(conversation, range(12)))
    write_rows("pairs.jsonl", map(pair, range(12)))
    write_rows("chats.jsonl", map(chat_pair, range(8)))
    write_rows("unpaired.jsonl", map(unpaired, range(12)))
    write_rows("steps.jsonl", map(step_rewards, range(12)))
    write_rows("prompts.jsonl", map(gsm8k_row, range(20, 28)))
    write_rows("held_out.jsonl", map(gsm8k_row, range(40, 44)))
    tokenizer = make_tokenizer([" ".join(problem(i)[:3]) + "\n#### 7" for i in range(60)] + ["system\nuser\nassistant\n"])
    write_rows("rollouts.jsonl", rollouts(tokenizer))
    small = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2)
    make_model("qwen2", Qwen2ForCausalLM, lambda **k: Qwen2Config(**small, tie_word_embeddings=True, **k), tokenizer, 1)
    one = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1)
    make_model("qwen3", Qwen3ForCausalLM, lambda **k: Qwen3Config(**one, head_dim=16, tie_word_embeddings=False, **k),
               tokenizer, 2)
    make_model("score", Qwen2ForSequenceClassification,
               lambda **k: Qwen2Config(**one, num_labels=1, tie_word_embeddings=True, **k), tokenizer, 3)
    for file in FOLDER.rglob("*.safetensors"):
        file.chmod(0o644)
    print(sum(f.stat().st_size for f in FOLDER.rglob("*") if f.is_file()), "bytes")


if __name__ == "__main__":
    main()
