"""Names, types and defaults of the fields in vLLM's answers, read from its wheel: writes vllm_shapes.json.

    pip download vllm==0.11.0 --no-deps && python vllm_shapes.py vllm-0.11.0-*.whl

Nothing of vLLM is run. A type is a list of alternatives: "null", "string", "integer", "number", "boolean", "any",
{"list": type}, {"map": type}, {"words": [...]}, {"class": name}. A field without "default" is required. "calls" are the
members with which vLLM builds the events of conversations, which show those and no others.
"""
import ast
import json
import pathlib
import sys
import zipfile

HERE = pathlib.Path(__file__).parent
ROOTS = ["CompletionResponse", "CompletionStreamResponse", "ChatCompletionResponse", "ChatCompletionStreamResponse",
         "ErrorResponse", "ModelList", "TokenizeResponse", "DetokenizeResponse", "Logprob"]
PLAIN = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "Any": "any", "None": "null"}
EVENTS = ["ChatCompletionStreamResponse", "ChatCompletionResponseStreamChoice"]


def alternatives(node):
    """The type of an annotation."""
    if isinstance(node, ast.Constant) and node.value is None:
        return ["null"]
    if isinstance(node, ast.Name):
        return [PLAIN.get(node.id, {"class": node.id})]
    name, inner = node.value.id, node.slice
    if name == "Optional":
        return alternatives(inner) + ["null"]
    if name == "Union":
        return [a for part in inner.elts for a in alternatives(part)]
    if name == "Literal":
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        return [{"words": [p.value for p in parts]}]
    if name == "list":
        return [{"list": alternatives(inner)}]
    if name == "dict":
        return [{"map": alternatives(inner.elts[1])}]
    if name == "ClassVar":
        return None
    raise ValueError(ast.dump(node))


def default(node):
    """What a field is when nobody sets it; "made" stands for what is new each time."""
    if isinstance(node, (ast.Constant, ast.UnaryOp)):
        return {"default": ast.literal_eval(node)}
    if isinstance(node, ast.Call) and node.func.id == "Field":
        for keyword in node.keywords:
            if keyword.arg == "default":
                return default(keyword.value)
            if keyword.arg == "default_factory":
                return {"default": []} if getattr(keyword.value, "id", "") == "list" else {"made": True}
    raise ValueError(ast.dump(node))


def fields_of(name, definitions):
    """The fields of a class, those of its bases first."""
    if name not in definitions:
        return {}  # of OpenAI's own package; vLLM leaves these null
    fields = {}
    for base in definitions[name].bases:
        fields |= fields_of(getattr(base, "id", ""), definitions)
    for item in definitions[name].body:
        if isinstance(item, ast.AnnAssign) and (kind := alternatives(item.annotation)) is not None:
            fields[item.target.id] = {"type": kind} | ({} if item.value is None else default(item.value))
    return fields


def named(kind):
    for a in kind:
        if isinstance(a, dict):
            yield from [a["class"]] if "class" in a else named(a.get("list", a.get("map", [])))


def main():
    wheel = zipfile.ZipFile(sys.argv[1])
    read = lambda name: wheel.read(f"vllm/{name}").decode()
    sources = read("logprobs.py"), read("entrypoints/openai/protocol.py")
    definitions = {n.name: n for source in sources for n in ast.parse(source).body if isinstance(n, ast.ClassDef)}
    wanted, todo = {}, list(ROOTS)
    while todo:
        if (name := todo.pop()) not in wanted:
            wanted[name] = fields_of(name, definitions)
            for field in wanted[name].values():
                todo += named(field["type"])
    chat = ast.parse(read("entrypoints/openai/serving_chat.py"))
    stream = next(n for n in ast.walk(chat) if getattr(n, "name", "") == "chat_completion_stream_generator")
    calls = {name: sorted({tuple(sorted(k.arg for k in n.keywords)) for n in ast.walk(stream)
                           if isinstance(n, ast.Call) and getattr(n.func, "id", "") == name}) for name in EVENTS}
    version = pathlib.Path(sys.argv[1]).name.split("-")[1]
    lines = [f'{json.dumps(name)}:{json.dumps(wanted[name], separators=(",", ":"))}' for name in sorted(wanted)]
    (HERE / "vllm_shapes.json").write_text(f'{{"vllm":{json.dumps(version)},"classes":{{\n' + ",\n".join(lines) +
                                           f'}},\n"calls":{json.dumps(calls, separators=(",", ":"))}}}\n')


main()
