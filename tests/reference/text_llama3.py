"""A tokenizer of Llama 3's structure and what `tokenizers` and `transformers` make of difficult strings with it.

Writes text_llama3/ (tokenizer.json, tokenizer_config.json) and text_llama3.json. Its strings are those of
text_qwen2.json, in their order, and then its own. Structure: Split by Llama 3's expression and ByteLevel; BPE that takes
words of the vocabulary whole (ignore_merges), among them words that no merges lead to; <|begin_of_text|> in front.

    pip install -r requirements.txt && python text_llama3.py
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).parent
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
OWN = [
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi there.<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n", "a<|eot_id|>", "<|eot_id|", "<|begin_of_text|>", " <|end_of_text|> ",
    "1234567890 12345678 1 12 123 1234", "unreachable unreachables  unreachable", "日本語 日本", "1,234.5678 + 1000000 = x",
]
UNREACHABLE = [" unreachable", "日本語", " snake", "456", "…\n", "\n\n\n"]


def made():
    corpus = [case["text"] for case in json.loads((HERE / "text_qwen2.json").read_text())["cases"]]
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated", invert=False),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=520, show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    learned = json.loads(t.to_str())["model"]
    for word in UNREACHABLE:
        spelled = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(word)[0][0]
        assert spelled not in learned["vocab"], word
        learned["vocab"][spelled] = len(learned["vocab"])
    t.model = models.BPE(vocab=learned["vocab"], merges=[tuple(m) for m in learned["merges"]], ignore_merges=True)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    begin = (SPECIAL[0], t.token_to_id(SPECIAL[0]))
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single=f"{SPECIAL[0]}:0 $A:0", pair=f"{SPECIAL[0]}:0 $A:0 {SPECIAL[0]}:1 $B:1",
                                      special_tokens=[begin])])
    return t, corpus + OWN


def main():
    t, strings = made()
    folder = HERE / "text_llama3"
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(
        json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"bos_token": SPECIAL[0], "clean_up_tokenization_spaces": True, "eos_token": SPECIAL[4],
         "model_input_names": ["input_ids", "attention_mask"], "model_max_length": 131072,
         "tokenizer_class": "PreTrainedTokenizerFast"}, indent=1) + "\n")
    published = AutoTokenizer.from_pretrained(folder)
    cases = []
    for text in strings:
        ids = t.encode(text, add_special_tokens=False).ids
        assert published(text)["input_ids"] == t.encode(text).ids == [t.token_to_id(SPECIAL[0])] + ids
        assert published(text, add_special_tokens=False)["input_ids"] == ids
        case = {"ids": ids, "decoded": t.decode(ids, skip_special_tokens=False)}
        if case["decoded"] == text:
            del case["decoded"]
        assert published.decode(ids) == t.decode(ids, skip_special_tokens=False)  # clean_up_tokenization_spaces or not
        skipped = t.decode(ids, skip_special_tokens=True)
        if skipped != text:
            case["skipped"] = skipped
        t.encode_special_tokens = True
        if (plain := t.encode(text, add_special_tokens=False).ids) != ids:
            case["plain_ids"] = plain
        t.encode_special_tokens = False
        cases.append(case)
    (HERE / "text_llama3.json").write_text(json.dumps(
        {"strings_before": len(strings) - len(OWN), "strings": OWN, "begin_of_text": t.token_to_id(SPECIAL[0]),
         "cases": cases}, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
