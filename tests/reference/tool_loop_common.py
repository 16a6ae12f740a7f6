"""What the programs share that play a policy for the multi-turn loops of others: tokenizer, chats, texts.

TEMPLATES, which those with chats take, is a folder with qwen2.5.jinja and qwen3.jinja, the texts of
rlcore::text::family_jinja("qwen2.5") and ("qwen3"). tool_loop.py makes tool_loop_tokenizer/.
"""
import functools
import json
import pathlib

from tokenizers import pre_tokenizers
from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
FOLDER = HERE / "tool_loop_tokenizer"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END, OTHER_END = "<|im_end|>", "<|endoftext|>"
CHATS = {"qwen2.5": ("qwen2.5", "qwen2", {}), "qwen3": ("qwen3", "qwen3", {}), "qwen3 without thoughts": ("qwen3", "qwen3", {"enable_thinking": False})}
USER = [{"role": "user", "content": "What is the answer?"}]


def load_tokenizer(template=None):
    t = PreTrainedTokenizerFast(tokenizer_file=str(FOLDER / "tokenizer.json"), eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False)
    t.chat_template = template
    return t


def load_tokenizers(templates):
    return {name: load_tokenizer((pathlib.Path(templates) / f"{name}.jinja").read_text()) for name in ("qwen2.5", "qwen3")}


@functools.cache
def tokens():
    return load_tokenizer()


def runs(mask):
    out = [0]
    for m in mask:
        if m == len(out) % 2:
            out[-1] += 1
        else:
            out.append(1)
    return out


def said(text, end=END):
    return tokens().encode(text, add_special_tokens=False) + ([] if end is None else [tokens().convert_tokens_to_ids(end)])


def spelled(text, end=END):
    """One token for each byte."""
    alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    ids = [tokens().convert_tokens_to_ids(c) for word, _ in alphabet.pre_tokenize_str(text) for c in word]
    return ids + ([] if end is None else [tokens().convert_tokens_to_ids(end)])


def call(name, **given):
    return block(json.dumps({"name": name, "arguments": given}, ensure_ascii=False))


def block(text):
    return f"<tool_call>\n{text}\n</tool_call>"


def echo(text):
    return call("echo", text=text)


DONE = "The answer is 42."
LONG = "".join(chr(ord("a") + i % 26) for i in range(60))
MIXED = "aé水😀z e\u0301 한글 ½"
BROKEN = [block("{\"name\": \"echo\"}"), block("{\"name\": \"echo\", \"arguments\": {\"text\": \"a}}"), block("no json"), block("{\"name\": 7, \"arguments\": {}}"), "<tool_call></tool_call>",
          block("[1]"), "<tool_call>" + echo("inner"), block("{'name': 'echo', 'arguments': {}}")]


def write(name, **parts):
    """A compact JSON object, a line for each item of its lists."""
    lines = ",\n".join(json.dumps(k) + ": " + "[\n" + ",\n".join(json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in part) + "\n]" for k, part in parts.items())
    (HERE / name).write_text("{\n" + lines + "\n}\n")
    return (HERE / name).stat().st_size
