"""Tokens of supervised rows and which of them are learnt, from `transformers`: writes sft_mask.json.

usage: sft_mask.py TEMPLATES   (the folder with the Jinja texts of published models that text_chat.py takes)

The text is what the published template gives for the whole conversation; where the assistant wrote is found in that text
(an open header of the assistant, up to its end mark), and checked against the template of every prefix. Rows of a
question and an answer, and OpenRLHF's, follow the data sets of those systems step by step.
"""
import json
import pathlib
import re
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WORDS = ["<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "</tool_response>"]
CHATML = ("{%- for turn in messages %}{{- '<|im_start|>' + turn.role + '\\n' + turn.content + '<|im_end|>\\n' }}{%- endfor %}"
          "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")

TOOLS = [{"type": "function", "function": {
    "name": "code_interpreter", "description": "A tool for executing code.",
    "parameters": {"type": "object", "properties": {"code": {"type": "string", "description": "The code to execute."}},
                   "required": ["code"]}}}]


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def code(text):
    return [{"type": "function", "function": {"name": "code_interpreter", "arguments": {"code": text}}}]


RETOOL = [
    message("user", "How many primes are below 30?\nRemember to put the answer in \\boxed{}."),
    message("assistant", "Let me count them with code.", tool_calls=code("print(sum(all(n % d for d in range(2, n)) for n in range(2, 30)))")),
    message("tool", "10"),
    message("assistant", "\nThe count is 10, so I check it by hand.", tool_calls=code("print([2, 3, 5, 7, 11, 13, 17, 19, 23, 29])\n")),
    message("tool", "[2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\n"),
    message("assistant", "<answer>\n\\boxed{10}\n</answer>"),
]
CONVERSATIONS = {
    "one turn": [message("user", "What is 2+2?"), message("assistant", "4")],
    "turns": [message("system", "Be brief."), message("user", "Hi"), message("assistant", "Hello!"), message("user", "Bye"),
              message("assistant", "See you.\n")],
    "leading line ends": [message("user", "Hi"), message("assistant", "\n\nHello"), message("user", "x"), message("assistant", "\n")],
    "ends with the user": [message("user", "Hi"), message("assistant", "Hello"), message("user", "And now?")],
    "assistant twice": [message("user", "Hi"), message("assistant", "One"), message("assistant", "Two")],
    "retool": RETOOL,
    "silent call": [message("user", "Sum?"), message("assistant", "", tool_calls=code("print(1+1)")), message("tool", "2"),
                    message("tool", "and 2"), message("assistant", "2")],
    "thinking": [message("user", "1"), message("assistant", "<think>\nfirst\n</think>\n\nA"), message("user", "2"),
                 message("assistant", "<think>\nsecond\n</think>\n\nB")],
    "reasoning": [message("user", "1"), message("assistant", "A", reasoning_content="why A"), message("user", "2"),
                  message("assistant", "B", reasoning_content="why B")],
}
TOOL_USE, THINKING = ("retool", "silent call"), ("reasoning",)


def small_tokenizer():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    corpus = [m["content"] for c in CONVERSATIONS.values() for m in c] + ["system\nuser\nassistant\n\n\n", json.dumps(TOOLS)] * 3
    t.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=360, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens([AddedToken(s, special=True) for s in SPECIAL])
    t.add_tokens([AddedToken(w, special=False, normalized=False) for w in WORDS])
    return PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def ids_of(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def conversation(tokenizer, source, name, messages, tools, think):
    extra = {} if think is None else {"enable_thinking": think}

    def render(some, prompt):
        return tokenizer.apply_chat_template(some, chat_template=source, tools=tools or None, tokenize=False,
                                             add_generation_prompt=prompt, **extra)

    text = render(messages, False)
    spans = [list(m.span(1)) for m in re.finditer(r"<\|im_start\|>assistant\n(.*?<\|im_end\|>)", text, re.S)]
    assistants = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    assert len(spans) == len(assistants), name
    agree = 0
    for span, i in zip(spans, assistants):
        empty = "<think>\n\n</think>\n\n"
        if think is False and text.startswith(empty, span[0]):  # written by add_generation_prompt
            span[0] += len(empty)
        opened = render(messages[:i], True)
        if text.startswith(opened):  # fails where a template rewrites earlier turns
            assert len(opened) == span[0], (name, opened)
            agree += 1
    ids, written, at = [], [], 0
    for begin, end in spans:
        for piece, mine in ((text[at:begin], 0), (text[begin:end], 1)):
            new = ids_of(tokenizer, piece)
            ids += new
            written += [mine] * len(new)
        at = end
    tail = ids_of(tokenizer, text[at:])
    return {"name": name, "thinking": think, "with_tools": bool(tools), "ids": ids + tail, "written": written + [0] * len(tail),
            "as_whole": ids + tail == ids_of(tokenizer, text), "prefixes": agree}


def question(tokenizer, source, prompt, answer):
    """verl's SFTDataset: two tokenizations, the mask from the last prompt token to the last but one."""
    first = ids_of(tokenizer, tokenizer.apply_chat_template([message("user", prompt)], chat_template=source, tokenize=False,
                                                            add_generation_prompt=True))
    second = ids_of(tokenizer, answer + tokenizer.eos_token)
    mask = [1] * (len(first) + len(second))
    mask[:len(first) - 1] = [0] * (len(first) - 1)
    mask[-1] = 0
    return {"question": prompt, "answer": answer, "ids": first + second, "mask": mask}


def openrlhf(tokenizer, prompt, response, max_len):
    """OpenRLHF's SFTDataset without chat template: one tokenization, the prompt's length counted alone."""
    length = len(ids_of(tokenizer, prompt))
    if not prompt or not response or length >= max_len - 2:
        return None
    text = (prompt + response).rstrip("\n")
    if not text.endswith(tokenizer.eos_token):
        text += " " + tokenizer.eos_token
    ids = ids_of(tokenizer, text)[:max_len]
    ids[-1] = tokenizer.eos_token_id
    mask = [0] * len(ids)
    mask[length - 1:-1] = [1] * (len(ids) - 1 - (length - 1))
    return {"ids": ids, "mask": mask}


def main():
    folder = pathlib.Path(sys.argv[1])
    sources = {"chatml": CHATML, **{n: (folder / f"{n}.jinja").read_text() for n in ("qwen2.5", "qwen3")}}
    tokenizer = small_tokenizer()
    out = {"tools": TOOLS, "conversations": CONVERSATIONS, "families": {}, "openrlhf": []}
    for family, source in sources.items():
        cases = []
        for name, messages in CONVERSATIONS.items():
            if (family == "chatml" and name in TOOL_USE) or (family != "qwen3" and name in THINKING):
                continue
            for think in (None, True, False) if family == "qwen3" else (None,):
                cases.append(conversation(tokenizer, source, name, messages, TOOLS if name in TOOL_USE else [], think))
        questions = [question(tokenizer, source, *row) for row in
                     (("What is 2+2?", "4"), ("Say two lines.", "\n\nHello\nHi"), ("Count.", "1 2 3 <|im_end|>"))]
        out["families"][family] = {"conversations": cases, "questions": questions}
        print(family, len(cases), sum(c["prefixes"] for c in cases), "prefixes,", sum(not c["as_whole"] for c in cases),
              "conversations whose whole text has other tokens")
    for prompt, response, max_len in (("What is 2+2?", "4", 64), ("Hi", "Hello\n\n", 64), ("Count.", "1 2 3<|im_end|>\n", 64),
                                      ("What is 2+2?", "", 64), ("What is 2+2?", "The sum is 4, as everybody knows.", 24),
                                      ("What is 2+2?", "no room", 16), ("", "x", 64)):
        row = openrlhf(tokenizer, f"User: {prompt}\nAssistant: ", response, max_len)
        out["openrlhf"].append({"input": prompt, "output": response, "max_len": max_len, "row": row})
    out["tokenizer"] = json.loads(tokenizer.backend_tokenizer.to_str())
    path = HERE / "sft_mask.json"
    path.write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(path.stat().st_size)


main()
