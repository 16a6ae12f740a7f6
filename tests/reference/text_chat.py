"""What `transformers` renders from the published chat templates: writes text_chat.json.

usage: text_chat.py SHARED TEMPLATES
SHARED: folder with data/tokenizer (the minimind template). TEMPLATES: folder with the Jinja texts of published models,
qwen2.jinja (Qwen2-7B-Instruct), qwen2.5.jinja (Qwen2.5-7B-Instruct), qwen2.5-vl.jinja (Qwen2.5-VL-7B-Instruct) and
qwen3.jinja (Qwen3-0.6B); their hashes are recorded in the output.
"""
import hashlib
import itertools
import json
import pathlib
import sys

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
CHATML = ("{%- for turn in messages %}{{- '<|im_start|>' + turn.role + '\\n' + turn.content + '<|im_end|>\\n' }}{%- endfor %}"
          "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")


def read_templates(shared, folder):
    read = {name: (folder / f"{name}.jinja").read_text() for name in ("qwen2", "qwen2.5", "qwen2.5-vl", "qwen3")}
    config = json.loads((shared / "data/tokenizer/tokenizer_config.json").read_text())
    return {"chatml": CHATML, "minimind": config["chat_template"], **read}


def call(name, arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a place — <b>now</b> & 'later'",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "city or 城市"},
                                                        "days": {"type": "integer", "default": 3}},
                       "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "numbers", "parameters": {"z": 1, "a": [1.0, 0.1, 1e-5, 1e-4, 123456789.125, 1e15, 1e16, 1.5e300, -0.0, 2**53, -7, True, None],
                                          "text": "tab\t nl\n cr\r quote\" back\\ slash/ \x01\x1f\x7f é 😀 \u2028"}}},
]
system, user, answer = (lambda r: lambda t: {"role": r, "content": t})("system"), *((lambda t, r=r: {"role": r, "content": t}) for r in ("user", "assistant"))
tool = lambda t: {"role": "tool", "content": t}
PLAIN = {
    "question": [user("What is 2+2?")],
    "system": [system("Be brief."), user("What is 2+2?")],
    "turns": [system("Be brief.\n"), user("Hi"), answer("Hello!\n"), user("  spaces  "), answer(""), user("")],
    "answered": [user("Hi"), answer("Hello")],
    "late system": [user("Hi"), system("Now in French."), user("Hi again")],
    "assistant first": [answer("Welcome"), user("Hi")],
    "only system": [system("Be brief.")],
    "special text": [user("<|im_end|>\n<|im_start|>system\nx"), answer("{{ messages }} {% raw %}")],
    "think in content": [user("1"), answer("<think>\none\n</think>\n\nA"), user("2"), answer("<think>two</think>B")],
}
TOOL_USE = {
    "call": [user("Weather in Rome?"), {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"city": "Rome", "x": 1.0})]}],
    "call and text": [user("Weather?"), {"role": "assistant", "content": "Let me see.", "tool_calls": [
        call("get_weather", {"city": "Köln", "days": 2}), call("numbers", {"a": [1, 2.5, None, "\"q\""], "b": {}})]}],
    "round": [system("Use tools."), user("Weather?"), {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"city": "Rome"})]},
              tool("sunny"), tool("{\"t\": 20}"), answer("Sunny."), user("Thanks"), answer("Welcome")],
    "open round": [user("Weather?"), {"role": "assistant", "content": "<think>\nI look.\n</think>\n\n", "tool_calls": [call("get_weather", {"city": "Rome"})]},
                   tool("sunny")],
    "string arguments": [user("x"), {"role": "assistant", "content": "", "tool_calls": [call("numbers", "{\"a\": 1}")]}, tool("1")],
    "answer as user": [user("Weather?"), answer("<think>\na\n</think>\n\nCalling"), user("<tool_response>\nsunny\n</tool_response>"), answer("<think>\nb\n</think>\n\nSunny")],
    "tool first": [tool("stray"), user("Hi")],
    "no question": [system("s"), answer("<think>x</think>y")],
}
THINKING = {
    "reasoning": [user("1"), {"role": "assistant", "content": "A", "reasoning_content": "why A"}, user("2"),
                  {"role": "assistant", "content": "\nB", "reasoning_content": "\n\nwhy B\n\n"}],
    "empty reasoning": [user("1"), {"role": "assistant", "content": "<think>kept</think>A", "reasoning_content": ""}],
    "odd blocks": [user("1"), answer("no open</think>\n\nA"), user("2"), answer("<think>a</think>b<think>c</think>\n\nd")],
    "open block": [user("1"), answer("<think>never closed")],
    "steps": [user("1"), {"role": "assistant", "content": "", "reasoning_content": "plan", "tool_calls": [call("numbers", {})]},
              tool("3"), {"role": "assistant", "content": "mid"}, tool("4"), {"role": "assistant", "content": "end", "reasoning_content": "sum"}],
}


def main():
    templates = read_templates(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()))
    out = {}
    for family, source in templates.items():
        conversations, thinks, tools = dict(PLAIN), [None], [[]]
        if family in ("qwen2.5", "qwen3", "minimind"):
            conversations |= TOOL_USE
            tools.append(TOOLS)
        if family in ("qwen3", "minimind"):
            conversations |= THINKING
            thinks += [True, False]
        cases = []
        for (name, messages), think, given, prompt in itertools.product(conversations.items(), thinks, tools, (False, True)):
            if (given or think is not None) and name not in ("question", "system", "round", "reasoning"):
                continue
            if think is not None and (given or not prompt):
                continue
            extra = {} if think is None else {"open_thinking" if family == "minimind" else "enable_thinking": think}
            text = tokenizer.apply_chat_template(messages, chat_template=source, tools=given or None, tokenize=False,
                                                 add_generation_prompt=prompt, **extra)
            cases.append({"name": name, "tools": bool(given), "prompt": prompt, "think": think, "text": text})
        out[family] = {"sha256": hashlib.sha256(source.encode()).hexdigest(), "cases": cases}
    result = {"tools": TOOLS, "conversations": PLAIN | TOOL_USE | THINKING, "families": out}
    (HERE / "text_chat.json").write_text(json.dumps(result, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
