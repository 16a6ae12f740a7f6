"""What transformers says of the requests of tests/serving/transformers_test.cpp: serving.json and serving_model/.

    pip install -r requirements.txt && python serving.py

serving_model is a tiny Qwen3 in bfloat16 for the tokenizer of text_qwen2/, with weights for which transformers' own
log-probs in float32 differ from those in float64 by less than 4e-6 in sum. "scores": the log-probs of a prompt's tokens
in float64. "greedy": generate() with a repetition penalty, and the log-probs of what it drew before the penalty.
"texts": tokens of 500 texts. The conversations are those of text_chat.json.
"""
import json
import pathlib
import random
import shutil

import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

HERE = pathlib.Path(__file__).parent
tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(HERE / "text_qwen2/tokenizer.json"))
rng = random.Random(8)


def save_model():
    torch.manual_seed(8)
    config = Qwen3Config(vocab_size=len(tokenizer), hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=256,
                         tie_word_embeddings=True, initializer_range=0.2, bos_token_id=None, pad_token_id=None,
                         eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"))
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    model.generation_config = GenerationConfig(eos_token_id=config.eos_token_id)
    shutil.rmtree(HERE / "serving_model", ignore_errors=True)
    model.save_pretrained(HERE / "serving_model")


def log_probs(model, ids):
    """Those of every token but the first."""
    logits = model(torch.tensor([ids])).logits[0, :-1]
    return logits.log_softmax(-1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])].tolist()


def rounded(values):
    return [float(f"{v:.9g}") for v in values]


def model_says():
    model = Qwen3ForCausalLM.from_pretrained(HERE / "serving_model", dtype=torch.float64)
    scores, greedy = [], []
    with torch.no_grad():
        for length in (2, 3, 17, 32, 33, 64, 100, 200):
            ids = [rng.randrange(len(tokenizer)) for _ in range(length)]
            scores.append({"prompt": ids, "logprobs": rounded(log_probs(model, ids))})
        for text, penalty in (("Ann has 6 apples", 1.0), ("Ann has 6 apples", 1.1), ("How many are left?", 1.5),
                              ("x", 2.0)):
            prompt = tokenizer(text)["input_ids"]
            out = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=40, repetition_penalty=penalty,
                                 pad_token_id=0)[0].tolist()
            assert len(out) > len(prompt) + 5, "the text ends too early to prove anything"
            greedy.append({"prompt": text, "repetition_penalty": penalty, "ids": out[len(prompt):],
                           "logprobs": rounded(log_probs(model, out)[len(prompt) - 1:])})
    return scores, greedy


def texts():
    """The difficult strings of text_qwen2.json, and mixtures of their parts."""
    known = [c["text"] for c in json.loads((HERE / "text_qwen2.json").read_text())["cases"]]
    known = [t for t in dict.fromkeys(known) if t and len(t) < 80]
    words = sorted({w for t in known for w in t.split() if len(w) < 12})
    words += [" ", "  ", "\n", "\t", "\n\n", "'s", "12", "é", "<|im_end|>"]
    while len(known) < 500:
        known.append("".join(rng.choice(words) + rng.choice(("", " ")) for _ in range(rng.randint(1, 4))))
    return [{"text": t, "ids": tokenizer(t)["input_ids"]} for t in known]


save_model()
scores, greedy = model_says()
parts = {"scores": scores, "greedy": greedy, "texts": texts()}
lines = (f'"{name}":[\n' + ",\n".join(json.dumps(x, ensure_ascii=False, separators=(",", ":")) for x in values) + "]"
         for name, values in parts.items())
(HERE / "serving.json").write_text("{" + ",\n".join(lines) + "}\n")
