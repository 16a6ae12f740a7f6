"""What `transformers` renders from the chat templates that TRL and transformers ship: writes shipped_templates.json.

usage: shipped_templates.py [FOLDER]
With FOLDER, only the templates are written there, NAME.jinja: a test reads them from the Python of RLCORE_PYTHON. The
templates belong to the authors of their models and are not in this repository; the golden file has the hash of each
template, and the hash of each text that it gives. The templates of OWN are ours, of the same kinds; their texts are
written in full.
"""
import importlib.util
import json
import pathlib
import re
import sys
import time

HERE = pathlib.Path(__file__).parent


def call(name, arguments, **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def message(role, content=None, **more):
    return {"role": role, **({} if content is None else {"content": content}), **more}


def calls(content, *given, **more):
    return message("assistant", content, tool_calls=list(given), **more)


TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a place",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "the city"},
                                                    "days": {"type": "integer", "description": "how many"}},
                   "required": ["city"]}}}]
ROME = call("get_weather", {"city": "Rome"}, id="call00001")
ask, answer = lambda t: message("user", t), lambda t, **more: message("assistant", t, **more)
result = lambda t: message("tool", t, name="get_weather", tool_call_id="call00001")
parts = lambda *texts: [{"type": "text", "text": t} for t in texts]
CONVERSATIONS = {
    "question": [ask("What is 2+2?")],
    "answered": [ask("What is 2+2?"), answer("four")],
    "system": [message("system", "Be brief."), ask("Hi"), answer("Hello!")],
    "turns": [message("system", "Be brief."), ask("Hi"), answer(" Hello!\n"), ask("  And you?  "), answer("\n\nFine")],
    "empty answer": [ask("Hi"), answer(""), ask("Say something."), answer("Yes")],
    "names": [message("user", "Hi", name="Ann"), answer("Hello", name="Bob"), message("user", "Bye", name="Carl")],
    "developer": [message("developer", "Be brief."), ask("Hi"), answer("Hello")],
    "thoughts": [ask("one?"), answer("Alpha", reasoning_content="why alpha"), ask("two?"),
                 answer("Beta", reasoning_content="why beta")],
    "last thoughts": [ask("one?"), answer("Alpha"), ask("two?"), answer("Beta", reasoning_content="why beta")],
    "empty thoughts": [ask("one?"), answer("Alpha", reasoning_content="")],
    "thoughts in content": [ask("one?"), answer("<think>\nwhy alpha\n</think>\n\nAlpha"), ask("two?"),
                            answer("<think>why beta</think>Beta")],
    "thoughts after the answer": [ask("one?"), answer("Alpha<think>\nwhy alpha\n</think>")],
    "two blocks of thoughts": [ask("one?"), answer("<think>a1</think>Alpha<think>a2</think>Beta")],
    "thoughts without end": [ask("one?"), answer("<think>why alpha")],
    "thoughts without begin": [ask("one?"), answer("why alpha</think>Alpha")],
    "call": [ask("Weather in Rome?"), calls("", ROME)],
    "call without content": [ask("Weather in Rome?"), calls(None, ROME)],
    "call and text": [ask("Weather in Rome?"), calls("I will look.", ROME)],
    "two calls": [ask("Weather in Rome and Oslo?"),
                  calls("", ROME, call("get_weather", {"city": "Oslo", "days": 2, "exact": True, "at": None, "x": [1.5, "é"]},
                                       id="call00002"))],
    "call without arguments": [ask("Weather?"), calls("", call("get_weather", {}, id="call00001"))],
    "round": [message("system", "Use tools."), ask("Weather in Rome?"), calls("", ROME), result("sunny"),
              answer("It is sunny."), ask("Thanks"), answer("Welcome")],
    "open round": [ask("Weather in Rome?"), calls("I will look.", ROME), result("{\"sky\": \"sunny\"}")],
    "two results": [ask("Weather in Rome?"), calls("", ROME, call("get_weather", {"city": "Oslo"}, id="call00002")),
                    result("sunny"), message("tool", "rain", name="get_weather", tool_call_id="call00002"), answer("Good.")],
    "thoughts and calls": [ask("Weather in Rome?"), calls("I will look.", ROME, reasoning_content="where is Rome"),
                           result("sunny"), answer("It is sunny.", reasoning_content="sun is sunny")],
    "thoughts in content and calls": [ask("Weather in Rome?"), calls("<think>\nwhere is Rome\n</think>\n\nI will look.", ROME),
                                      result("sunny"), answer("<think>\nsun is sunny\n</think>\n\nIt is sunny.")],
    "parts": [message("system", parts("Be brief.")), message("user", parts("Hi")), message("assistant", parts("Hello"))],
    "several parts": [message("user", parts("Hi", "there")), message("assistant", parts("Hel", "lo"))],
    "ends with the user": [ask("Hi"), answer("Hello"), ask("And now?")],
    "only system": [message("system", "Be brief.")],
    "late system": [ask("Hi"), message("system", "Now in French."), ask("Hi again")],
    "assistant first": [answer("Welcome"), ask("Hi"), answer("Hello")],
}

# Ours, of the kinds that models come with.
OWN = {
    # A system text in the first question, turns that have to alternate.
    "merged system": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set turns = messages[1:] %}{% set before = messages[0]['content'] + '\\n\\n' %}{% else %}{% set turns = messages %}{% set before = '' %}{% endif %}
{%- for m in turns %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{%- if m['role'] == 'user' %}{{ '[INST] ' + (before if loop.first else '') + m['content'].strip() + ' [/INST]' }}{% else %}{{ ' ' + m['content'] | trim + eos_token }}{% endif %}{% endfor %}""",
    # Thoughts are cut from every answer.
    "no thoughts": """{% for m in messages %}{% if m.role == 'assistant' %}<a>{{ m.content.split('</think>')[-1] }}</a>
{% else %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>
{% endif %}{% endfor %}{% if add_generation_prompt %}<a><think>
{% endif %}""",
    # A call or a text, but not both.
    "call or text": """{% for m in messages %}{% if m.role == 'assistant' and m.content %}<a>{{ m.content }}</a>
{% elif m.role == 'assistant' %}{% for c in m.tool_calls %}<a>call:{{ c.function.name }} {{ c.function.arguments | tojson }}</a>
{% endfor %}{% else %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>
{% endif %}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}""",
    # Parameters one by one, names of speakers, marked answers.
    "parameters": """{% macro text(c) %}{% if c is string %}{{ c }}{% else %}{% for p in c %}{{ p.text }}{% endfor %}{% endif %}{% endmacro -%}
{% if tools %}<tools>{% for t in tools %}{{ t.function | tojson }}{% endfor %}</tools>
{% endif -%}
{% for m in messages %}<{{ m.role }}{% if m.name %} name={{ m.name }}{% endif %}>{% if m.role == 'assistant' %}{% generation %}{% if m.reasoning_content and loop.index0 > messages | length - 3 %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ text(m.content) if m.content is defined else '' }}{% for c in m.tool_calls %}<call={{ c.function.name }}>{% for k, v in c.function.arguments.items() %}<{{ k }}>{{ v if v is string else v | tojson }}</{{ k }}>{% endfor %}</call>{% endfor %}</assistant>{% endgeneration %}{% else %}{{ text(m.content) }}</{{ m.role }}>{% endif %}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}""",
    # The result of a tool is announced, and lost.
    "lost result": """{% for m in messages %}<{{ m.role }}>{% if m.role == 'tool' %}(a result){% else %}{{ m.content }}{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}{% endif %}</{{ m.role }}>
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}""",
}


def templates_of_trl():
    folder = pathlib.Path(importlib.util.find_spec("trl").submodule_search_locations[0]) / "chat_templates"
    return {f"trl/{f.stem}": f.read_text() for f in sorted(folder.glob("*.jinja"))}


def templates_of_transformers():
    """Those that stand in its code: of a processor that takes pictures, and of Llama 4."""
    folder = pathlib.Path(importlib.util.find_spec("transformers").submodule_search_locations[0]) / "models"
    found = {}
    for name, file, variable in (("llama4", "llama4/processing_llama4.py", "chat_template"),
                                 ("smolvlm", "smolvlm/processing_smolvlm.py", "DEFAULT_CHAT_TEMPLATE")):
        if not (folder / file).is_file():
            continue
        text = re.search(rf'^{variable} = (".*")$', (folder / file).read_text(), re.M)
        found[f"transformers/{name}"] = eval(text.group(1))
    return found


def shipped():
    return {**templates_of_trl(), **templates_of_transformers()}


def hash_of(text):
    """FNV-1a, 32 bits."""
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return f"{value:08x}"


def undated(text):
    for form, mark in (("%Y-%m-%d", "YEAR-MONTH-DAY"), ("%d %b %Y", "DAY MONTH YEAR"), ("%d %B %Y", "DAY NAME YEAR")):
        text = text.replace(time.strftime(form), mark)
    return text


def render(tokenizer, source, messages, tools, prompt):
    try:
        text = tokenizer.apply_chat_template(messages, chat_template=source, tools=tools, tokenize=False,
                                             add_generation_prompt=prompt)
    except Exception:
        return None
    return undated(text)


def cases_of(tokenizer, source, keep):
    cases = {}
    for name, messages in CONVERSATIONS.items():
        with_calls = any("tool_calls" in m for m in messages)
        texts = [render(tokenizer, source, messages, TOOLS if with_tools else None, prompt)
                 for with_tools in ((False, True) if with_calls else (False,)) for prompt in (False, True)]
        cases[name] = [None if t is None else t if keep else hash_of(t) for t in texts]
    return cases


def main():
    if len(sys.argv) > 1:
        for name, source in shipped().items():
            (pathlib.Path(sys.argv[1]) / (name.replace("/", "-") + ".jinja")).write_text(source)
        return
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>")
    out = {"tools": TOOLS, "conversations": CONVERSATIONS,
           "own": {name: {"source": source, "cases": cases_of(tokenizer, source, True)} for name, source in OWN.items()},
           "shipped": {name: {"source": hash_of(source),
                              "cases": cases_of(tokenizer, source, False)} for name, source in shipped().items()}}
    path = HERE / "shipped_templates.json"
    path.write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(path.stat().st_size, len(out["shipped"]))


if __name__ == "__main__":
    main()
