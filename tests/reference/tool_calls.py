"""Tool calls as verl reads them, and the replies of its GSM8K tool: writes tool_calls.json.

Usage: tool_calls.py OLD NEW: folders with the unpacked wheels of verl 0.5.0 and 0.9.1 (the GSM8K tool is in 0.5.0 only,
the cut of long replies is that of 0.9.1). Needs regex and pydantic, but not what verl itself needs: its packages are
stood in for, only the files named below are run. The golden file is made by Python 3.11, whose Unicode is 14.0.

"calls":    [text, content, blocks that are no call, name, arguments, name, arguments, ...]; arguments as
            json.dumps(..., ensure_ascii=False) writes them; lone surrogates are replaced by U+FFFD
"differ":   texts that the two versions read differently (none)
"gsm8k":    [arguments, ground truth, reply, reward of the call]
"repr":     [text, repr(text)]
"str":      [JSON, str(json.loads(JSON))]
"printable": [code point, what follows from there on: printable, escaped, or unassigned in this version of Unicode]
"decode":   [bytes in hexadecimal, the text with errors="replace"]
"cut":      [text, longest, side, what verl makes of it]
"""
import ast
import asyncio
import importlib
import json
import logging
import pathlib
import random
import re
import sys
import types
import unicodedata

draw = random.Random(16)


def module(name, path=(), **members):
    m = types.ModuleType(name)
    m.__path__ = [str(p) for p in path]
    m.__dict__.update(members)
    sys.modules[name] = m


def load(folder, name):
    """verl.<name> of an unpacked wheel, without running the __init__.py of its packages."""
    for known in [m for m in sys.modules if m.split(".")[0] == "verl"]:
        del sys.modules[known]
    root = pathlib.Path(folder) / "verl"
    for package in ("", ".utils", ".tools", ".utils.reward_score", ".experimental", ".experimental.agent_loop"):
        module("verl" + package, [root.joinpath(*package.split(".")[1:])])
    module("verl.utils.rollout_trace", rollout_trace_op=lambda f: f)
    module("verl.utils.ray_utils", get_event_loop=asyncio.get_event_loop)
    return importlib.import_module("verl." + name)


class Tokenizer:
    """Its ids are the text."""

    def decode(self, ids):
        return ids


class Count(logging.Handler):
    def __init__(self):
        super().__init__()
        self.count = 0

    def emit(self, record):
        self.count += 1


def whole(text):
    """Lone surrogates as U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def parser(folder):
    m = load(folder, "experimental.agent_loop.tool_parser")
    m.logger.propagate = False
    m.logger.handlers = [Count()]

    def parse(text):
        m.logger.handlers[0].count = 0
        content, calls = asyncio.run(m.HermesToolParser(Tokenizer()).extract_tool_calls(text))
        flat = [part for c in calls for part in (whole(c.name), whole(c.arguments))]
        return [text, content, m.logger.handlers[0].count, *flat]

    return parse


OPEN, CLOSE = "<tool_call>", "</tool_call>"
VALUES = ["{}", "[]", "null", "true", "false", "NaN", "Infinity", "-Infinity", "-NaN", "+1", "0", "-0", "-0.0", "01", "1.",
          ".5", "1e5", "1E+2", "1e-7", "1e", "1e400", "-1e400", "1e-400", "5e-324", "2e-324", "2.4703282292062328e-324",
          "1.7976931348623158e308", "1.7976931348623159e308", "0.1", "123456789.123456789", "0e99999999999999999999",
          "1e99999999999999999999", "1e-99999999999999999999", "0." + "0" * 400 + "1", "1" + "0" * 400 + ".0",
          "1" + "0" * 330 + "e-330", "9007199254740993.0", "9223372036854775807", "9223372036854775808",
          "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616",
          "123456789012345678901234567890", "'a'", '"a"', '""', '"é水😀"', '"a\nb"', '"a\tb"', '"a\\nb"', '"\x00"', '"\x7f"',
          '"\\u00e9\\u6c34"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"\\ud83d\\ud83d\\ude00"', '"\\ud83dx"', '"\\ud83d\\n"',
          '"\\ud83d\\u00"', '"\\u12G4"', '"\\u 123"', '"\\u-123"', '"\\u0000"', '"\\x41"', '"\\/\\b\\f\\r\\t\\"\\\\"', '"open', '"\\', '"\u2028"',
          '"</tool_call"', '"<tool_call>"', "[1, 2,3 ]", "[1,]", "[,1]", "[1 2]", "[[[]]]", "[", "]", "{", '{"a"}', '{"a":}', '{"a":1,}', '{a:1}', '{"a":1 "b":2}',
          '{"a":1,"b":2,"a":3}', '{"a":{"b":[{"c":null}]}}', '{"":""}', '{"x":1}//c', "nul", "True", "None", "undefined"]
SPACE = [" ", "\n", "\r\n\t "]
NO_SPACE = ["\f", "\u00a0", "\ufeff", "\v", "\x00"]
NAMES = ['"calc"'] * 12 + ['"search"', '""', '"é"', '"a b"', "1", "null", "[\"x\"]", '"\\ud800"', '"\\u0063alc"', "NaN"]
ARGUMENTS = ['{"x": 1}', '{"a": "b"}', "{}", '"text"', "[1, 2]", "null", '"{\\"x\\": 1}"']
WORDS = ["", "I call.", "\n", " ", "é水", "<tool_call", "tool_call>", "</tool_call", "<|im_end|>", "<think>\n</think>\n", "< tool_call>",
         "<TOOL_CALL>", "😀", "{", "}"]


def space():
    kind = draw.random()
    return draw.choice(NO_SPACE) if kind < 0.01 else draw.choice(SPACE) if kind < 0.3 else ""


def block():
    members = [['"name"', draw.choice(NAMES)], ['"arguments"', draw.choice(VALUES if draw.random() < 0.35 else ARGUMENTS)]]
    if draw.random() < 0.2:
        members.append([draw.choice(['"name"', '"arguments"', '"id"', '"Name"', '"n\\u0061me"', "name"]), draw.choice(['"again"', "3", '{"y": 2}'])])
    if draw.random() < 0.15:
        members[draw.randrange(2)] = ['"arguments"', '{"nested": ' + draw.choice(VALUES) + ', "n": [' + draw.choice(VALUES) + "]}"]
    if draw.random() < 0.1:
        members.pop(draw.randrange(len(members)))
    if draw.random() < 0.2:
        draw.shuffle(members)
    text = space() + "{" + ",".join(space() + k + space() + ":" + space() + v + space() for k, v in members) + "}" + space()
    if draw.random() < 0.08:  # something goes missing or is doubled
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice(["", text[at] * 2]) + text[at + 1:]
    if draw.random() < 0.05:
        text = draw.choice(["", "[" + text + "]", text + text, text + ",", "calc(1)", '"name"', "```json\n" + text + "\n```"])
    return text


def turn():
    if draw.random() < 0.25:  # parts in any order
        return "".join(draw.choice([OPEN, CLOSE, draw.choice(WORDS), block()]) for _ in range(draw.randrange(8)))
    text = draw.choice(WORDS)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        text += OPEN + draw.choice(["", "\n"]) + block() + draw.choice(["", "\n"]) + CLOSE + draw.choice(["", "\n", draw.choice(WORDS)])
    return text if draw.random() < 0.9 else text[: draw.randrange(len(text) + 1)]


def turns():
    fixed = [OPEN + '{"name": "calc", "arguments": ' + v + "}" + CLOSE for v in VALUES]
    fixed += [OPEN + '{"name": ' + n + ', "arguments": {}}' + CLOSE for n in NAMES]
    fixed += [OPEN + v + CLOSE for v in VALUES[:12]] + ["", OPEN, CLOSE, CLOSE + OPEN, OPEN + CLOSE, OPEN * 3 + CLOSE * 3, "<tool_" + OPEN + "call>" + CLOSE]
    for levels in (62, 63):  # and the block's own object
        fixed += [OPEN + '{"name": "calc", "arguments": ' + "[" * levels + "]" * levels + "}" + CLOSE,
                  OPEN + '{"name": "calc", "arguments": ' + '{"a":' * levels + "1" + "}" * levels + "}" + CLOSE]
    fixed += [OPEN + '{"name": "calc", "arguments": [' + sign + "7" * digits + "]}" + CLOSE for sign in ("", "-") for digits in (4300, 4301)]
    return fixed + [turn() for _ in range(700)]


def random_text():
    def character():
        kind = draw.random()
        if kind < 0.35:
            return chr(draw.randrange(0x20, 0x7F))
        if kind < 0.5:
            return draw.choice("'\"\\\n\r\t")
        if kind < 0.6:
            return chr(draw.randrange(0x100))
        while True:
            c = chr(draw.choice([draw.randrange(0x10000), draw.randrange(0x3000), draw.randrange(0x110000)]))
            old = unicodedata.ucd_3_2_0.category(c)  # what is unassigned may be assigned later
            if not 0xD800 <= ord(c) < 0xE000 and (old != "Cn" or ord(c) & 0xFFFE == 0xFFFE):
                return c

    return "".join(character() for _ in range(draw.randrange(14)))


def cut_of(folder):
    """The statement of verl that cuts the reply of a tool."""
    source = (pathlib.Path(folder) / "verl/experimental/agent_loop/tool_agent_loop.py").read_text()
    (found,) = [n for n in ast.walk(ast.parse(source))
                if isinstance(n, ast.If) and ast.unparse(n.test).endswith("len(tool_response_text) > self.max_tool_response_length")]
    code = compile(ast.Module([found], []), "tool_agent_loop.py", "exec")

    def cut(text, longest, side):
        names = {"tool_response_text": text, "self": types.SimpleNamespace(max_tool_response_length=longest, tool_response_truncate_side=side)}
        exec(code, names)
        return names["tool_response_text"]

    return cut


def gsm8k_replies(folder):
    m = load(folder, "tools.gsm8k_tool")
    tool = object.__new__(m.Gsm8kTool)
    tool._instance_dict = {}

    async def call(arguments, truth):
        instance = await tool.create(ground_truth=truth)
        text, reward, _ = await tool.execute(instance, arguments)
        await tool.release(instance)
        return whole(text), reward

    answers = ["72", "#### 72", "####72", "#### ", "", " 72 ", "72.", "72.0", "1,234", "-72", "--72", "7 2", "72 or 73", "no number", ".", "...",
               "-.", ". .", ",", "72 .", ". 72", "$72", "72%", "it's 72", "\"72\"", "'72\"", "72\n", "\n#### 72", "七十二", "72" + "x" * 293, "72" + "x" * 294,
               "72" + "水" * 293, "72" + "水" * 294, "#### 72" + "x" * 298, "#### 72" + "x" * 299, "x" * 400, "." + "x" * 320, "x" * 320 + ".", "٧٢", "72\x00"]
    others = [72, 72.0, -72, 0, True, False, None, [72], ["72", 1.5], {"value": 72}, {"a'b": None}, 1e16, 1e-7, float("nan"), float("-inf"), 10**30, [], {}, [[["it's"]]]]
    rows = [({"answer": a}, t) for a in answers for t in ("72", ".")] + [({"answer": a}, "72") for a in others]
    rows += [({}, "72"), ({"Answer": "72"}, "72"), ({"other": 1, "answer": "72"}, "72")]
    for _ in range(150):
        parts = [draw.choice(["72", "-", ".", ",", " ", "x", "7", "#### ", random_text()]) for _ in range(draw.randrange(6))]
        rows.append(({"answer": "".join(parts)}, draw.choice(["72", "7", "-7", "."])))
    return [[json.dumps(arguments), truth, *asyncio.run(call(arguments, truth))] for arguments, truth in rows]


def str_cases():
    texts = [v for v in VALUES if len(v) < 60] + ['{"a": [1, "it\'s", {"b": null}], "c\\n": "\\u0000"}', "[true, false, null, 1.0, 1e100, NaN]", '["\\"\'"]', '{"\\"": "\'"}',
                                                  "1e15", "1e16", "123456.789e3", "0.0001", "0.00001", "[[], {}, [[]], \"\"]"]
    cases = []
    for text in texts:
        try:
            cases.append([text, whole(str(json.loads(text)))])
        except ValueError:
            pass
    return [c for c in cases if "\\ud" not in c[1]]  # escaped inside a list, a lone surrogate differs from U+FFFD


def main(old, new):
    versions = [parser(folder) for folder in (old, new)]
    calls, differ = [], []
    for text in dict.fromkeys(turns()):
        first, second = [parse(text) for parse in versions]
        calls.append(first)
        if first != second:
            differ.append([first, second])
    cut = cut_of(new)
    cuts = [[text, longest, side, cut(text, longest, side)] for text in ("", "abc", "aé水😀z" * 3, "0123456789" * 2) for side in ("left", "middle", "right")
            for longest in (2, 3, 7, 14, 15, 19, 20, 21)]
    printable = []
    for code in range(0x110000):
        c = chr(code)
        forever = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code < 0xFDF0  # no characters in any version
        kind = "printable" if c.isprintable() else "unassigned" if unicodedata.category(c) == "Cn" and not forever else "escaped"
        if not printable or printable[-1][1] != kind:
            printable.append([code, kind])
    random_bytes = [bytes(draw.choice([draw.randrange(256), draw.randrange(0x80, 0xC0), draw.choice(b"\xc2\xe0\xe2\xed\xf0\xf4\x80\x9f\xa0\x90\x8f a")])
                          for _ in range(draw.randrange(12))) for _ in range(400)]
    out = {"calls": calls, "differ": differ, "gsm8k": gsm8k_replies(old), "repr": [[t, repr(t)] for t in (random_text() for _ in range(1200))], "str": str_cases(),
           "printable": printable,
           "decode": [[b.hex(), b.decode(errors="replace")] for b in random_bytes if 0 not in b], "cut": cuts}
    text = json.dumps(out, ensure_ascii=False, separators=(",", ":")).replace("],[", "],\n[")
    pathlib.Path(__file__).with_suffix(".json").write_text(text + "\n")
    print({k: len(v) for k, v in out.items()}, len(text.encode()), "bytes,", sum(len(c) > 3 for c in calls), "texts with calls,",
          sum(c[2] > 0 for c in calls), "with failures, python", sys.version.split()[0])


main(*sys.argv[1:])
