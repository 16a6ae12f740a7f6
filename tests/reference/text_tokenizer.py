"""What Hugging Face `tokenizers` makes of GSM8K and of difficult strings: writes text_tokenizer.json and the small
tokenizers text_gpt2/, text_qwen2/, text_fallback/ that its numbers belong to.

usage: text_tokenizer.py SHARED   (folder with data/tokenizer and data/gsm8k)
"""
import json
import pathlib
import random
import struct
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
SHARED = pathlib.Path(sys.argv[1])
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
         r"\s+(?!\S)|\s+")

DIFFICULT = [
    "", " ", "  ", "\n", "\n\n\n", "\t\t x", " \n ", "a\r\nb\r\n\r\n c", "   leading and trailing   ", "x" * 60,
    "tabs\tand\u00a0no-break\u2003em\u3000wide\u200bzero\u2028line\u2029para\u0085next\u180esep\u1680ogham\ufeffbom",
    "I'm you're he'll they'd we've it's don't I'M YOU'RE HE'LL 'S 'ſ it’s 'sa 'tis 'LLama",
    "1234567890 12 3.14 1,000,000 ٠١٢٣ ०१२ ½ ² ⅷ Ⅻ 一二三 ①② 𝟘𝟙𝟚 1st 2nd",
    "日本語のテキスト。中文字符，测试！한국어 텍스트 조합 ᄒ\u1161\u11ab",
    "😀 👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪🇫🇷 ❤️ ☺ #️⃣ 🧑🏿‍🚀", "e\u0301 \u00e9 A\u030a \u00c5 \u212b \u1e69 s\u0323\u0307 s\u0307\u0323 \u0344 \u0958 \u2126",
    "Z\u0351\u036b\u0343\u0334\u0321a\u0329\u0349l\u033d\u0489g\u0334o\u0327", "\u0301alone \u0301\u0302 \u20dd \ufe0f\u200d",
    "".join(map(chr, range(0x20))) + "\x7f\x80\x9f\xa0\xad", "nul\0inside\0\0", "\ud7ff\ue000\uf8ff\ufffd\ufffe\uffff\U00010000\U0010ffff\U000e0001",
    "مرحبا بالعالم \u202eשלום עולם\u202c abc \u0640\u064b\u0652", "हिन्दी நன்றி ภาษาไทย ខ្មែរ བོད་ ქართული ელ",
    "ﬁ ﬂ ﬆ ß ẞ İ ı ŉ ǰ ΐ ς Σ ΑΣ Å K ſ ﷺ ㎏ ｱｲｳ Ｈｅｌｌｏ",
    "𝕳𝖊𝖑𝖑𝖔 𝄞 𐍈 𒀀 𓀀 \U0001e900 \U0001f1e6", "\u115f\u1160\u3164 \u00b7 \u0387 \u037e \u2000\u2001\u2002 \u2329\u3008",
    "def f(x):\n    return x**2  # comment\n\n\nclass A:\n\tpass\n", "{\"key\": [1, 2.5e-7, null], \"a\": \"\\u00e9\"}",
    "https://example.org/a/b?c=d&e=%20#frag user@host C:\\dir\\x ~/x", "<<48/2=24>>24 $<<12/60=0.2>>0.2 #### 72",
    "!!!??? ... ,,,; -- — – _ __init__ a_b *** === /// \\\\ || && ^^ `` ~~ @@ ## $$ %%", "!\n\n?\r\n .\n x",
    "CamelCase snake_case kebab-case SCREAMING mixedCASE123abc456 x1y2z3", "\u2160\u2161 \u3007 \u3021 \U00016ee0 \u0e01\u0e33 \u0dca\u0dcf",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|im_start|><|im_start|>x<|im_end|><|endoftext|>", "a <|im_end|> b",
    "<|im_end", "<|im_end|", "<<|im_end|>>", "<|im_start|im_end|>", " <think>\n\n</think>\n\n <tool_call>\n{}\n</tool_call>",
    "left <left> right", "left   <left>   right", "left <right>   right<right>", "<left><right> <left> \n<right>\t<left>",
    "one word two", "one wordtwo", "xword one", "word", "(word)", "word1 1word _word word_ éword word\u0301 word!", "wordword word",
    "\u00e9t\u00e9 caf\u00e9 cafe\u0301 cafe\u0301s", "\ufb01n fin", "long  long long<long", "longest long longe longes longest",
    "a\u0300\u0323 \u1ea1\u0300 q\u0307\u0323 \u0f71\u0f72\u0f80 \uac00\u11a8 \u1100\u1161\u11a8 \u1100\uac01", "ab" * 200, " " * 300 + "x" + "\n" * 120 + "\t" * 50,
    "ABABABABAB abababababab aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
]


def random_strings():
    """Strings of random characters: all planes, and thickly where normalisation and splitting decide."""
    rng = random.Random(20)
    spans = [(0x20, 0x7e), (0x9, 0xd), (0x80, 0x24f), (0x300, 0x36f), (0x370, 0x6ff), (0x900, 0xdff), (0x1100, 0x11ff),
             (0x1e00, 0x1fff), (0x2000, 0x2bff), (0x3000, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xf900, 0xffef),
             (0x1d100, 0x1d1ff), (0x1f300, 0x1faff)]
    for _ in range(60):
        text = ""
        while len(text) < 40:
            low, high = rng.choice(spans)
            c = chr(rng.randint(low, high))
            # Characters newer than Unicode 13 are read differently by different versions of the tables.
            if unicodedata.category(c) not in ("Cn", "Cs") and unicodedata.ucd_3_2_0.category(c) != "Cn":
                text += c * rng.choice((1, 1, 1, 2))
        yield text


def texts(name):
    return [json.loads(line) for line in (SHARED / "data/gsm8k" / name).read_text().splitlines()]


def train(pre, normalizer, extra):
    t = Tokenizer(models.BPE())
    t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=900, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator(DIFFICULT * 3 + [q for r in GSM8K[:150] for q in (r["question"], r["answer"])], trainer)
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.add_tokens(extra)
    return t


def fallback():
    """A character-level vocabulary with bytes to fall back on and the space written as U+2581, as Llama 2 has it."""
    words = "▁ ▁t he ▁the h e t ▁a n d an and ▁and o r m k l i s T".split()
    vocab = {"<unk>": 0} | {f"<0x{i:02X}>": i + 1 for i in range(256)}
    for w in words:
        vocab.setdefault(w, len(vocab))
    merges = [("h", "e"), ("▁", "t"), ("▁t", "he"), ("▁", "a"), ("a", "n"), ("an", "d"), ("▁a", "n"), ("▁", "and")]
    merges = [m for m in merges if all(x in vocab for x in (*m, "".join(m)))]
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.add_special_tokens(["<s>", "</s>"])
    return t


def digest(ids, value=0xCBF29CE484222325):
    for byte in struct.pack(f"<{len(ids)}i", *ids):
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def golden(t, strings, gsm8k):
    out = {"cases": [], "digests": [], "rows": []}
    for text in strings:
        t.encode_special_tokens = True
        plain = t.encode(text, add_special_tokens=False).ids
        t.encode_special_tokens = False
        ids = t.encode(text, add_special_tokens=False).ids
        case = {"text": text, "ids": ids, "decoded": t.decode(ids, skip_special_tokens=False)}
        if plain != ids:
            case["plain_ids"] = plain
            case["skipped"] = t.decode(ids, skip_special_tokens=True)
        out["cases"].append(case)
    rng = random.Random(3)
    size = t.get_vocab_size()
    out["random_ids"] = []
    for _ in range(25):  # ids in any order: bytes that are no UTF-8
        ids = [rng.randrange(size) if rng.random() < 0.5 else rng.randrange(min(size, 320)) for _ in range(30)]
        out["random_ids"].append({"ids": ids, "decoded": t.decode(ids, skip_special_tokens=False)})
    for start in range(0, len(gsm8k), 100):
        value = 0xCBF29CE484222325
        for row in gsm8k[start:start + 100]:
            for key in ("question", "answer"):
                value = digest(t.encode(row[key], add_special_tokens=False).ids + [-1], value)
        out["digests"].append(f"{value:016x}")
    for row in gsm8k[:20]:
        out["rows"].append(t.encode(row["question"], add_special_tokens=False).ids)
    return out


def trainer_golden():
    """Merges that the library's trainer learns, of text full of ties and repetitions."""
    corpus = ["aaaa aaaaa aaaaaa abab ababab", "the cat and the hat and the bat", "12 + 34 = 46, 46 - 34 = 12",
              "Ann has 3 apples. Ann buys 4 apples. Now Ann has 7 apples.\n#### 7", "été cafe\u0301 日本日本 😀😀😀",
              "banana bandana banana"] + [r["question"] for r in GSM8K[:5]]
    out = {"corpus": corpus}
    for name, pre, normalizer in (
            ("gpt2", pre_tokenizers.ByteLevel(add_prefix_space=False), None),
            ("qwen2", pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
             normalizers.NFC())):
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre
        if normalizer:
            t.normalizer = normalizer
        t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=470, show_progress=False,
                                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        model = json.loads(t.to_str())["model"]
        out[name] = {"merges": model["merges"], "tokens": [k for k, _ in sorted(model["vocab"].items(), key=lambda e: e[1])]}
    return out


GSM8K = texts("train.jsonl")
added = [AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False),
         AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
         AddedToken("word", single_word=True, normalized=False), AddedToken("caf\u00e9", normalized=True),
         AddedToken("long", normalized=True), AddedToken("longest", normalized=True), AddedToken("fin", normalized=True),
         AddedToken("\u00e9t\u00e9", single_word=True, normalized=True)]
tokenizers = {
    "gpt2": train(pre_tokenizers.ByteLevel(add_prefix_space=True), None, added),
    "qwen2": train(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                                            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
                   normalizers.NFC(), added),
    "fallback": fallback(),
}
strings = DIFFICULT + list(random_strings())
result = {"shared": golden(Tokenizer.from_file(str(SHARED / "data/tokenizer/tokenizer.json")), strings,
                           GSM8K + texts("test.jsonl"))}
for name, t in tokenizers.items():
    (HERE / f"text_{name}").mkdir(exist_ok=True)
    data = json.loads(t.to_str())
    (HERE / f"text_{name}/tokenizer.json").write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")
    result[name] = golden(t, DIFFICULT[:20] if name == "fallback" else strings,
                          GSM8K + texts("test.jsonl") if name == "qwen2" else GSM8K[:200])
for name, part in result.items():
    (HERE / f"text_{name}.json").write_text(json.dumps(part, ensure_ascii=False, separators=(",", ":")) + "\n")
(HERE / "text_trainer.json").write_text(json.dumps(trainer_golden(), ensure_ascii=False, separators=(",", ":")) + "\n")
