"""What the programs share that run verl's agent loops: the tools, and the server that returns forced turns."""
import ast
import contextlib
import io
import pathlib
import types

import verl
from verl.tools.base_tool import BaseTool
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse
from verl.workers.rollout.replica import TokenOutput


def schema(name, description, properties, required):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {"type": "object", "properties": properties, "required": required}}}


def arguments(parameters, *names):
    if not isinstance(parameters, dict):
        raise ValueError("the arguments are no object")
    return [parameters[n] for n in names]  # KeyError


class Echo(BaseTool):
    about = schema("echo", "Gives a text back.", {"text": {"type": "string", "description": "any text"}}, ["text"])

    async def execute(self, instance_id, parameters, **kwargs):
        (text,) = arguments(parameters, "text")
        if not isinstance(text, str):
            raise TypeError("text is no string")
        return ToolResponse(text=text), 0.25, {}


class Repeat(BaseTool):
    about = schema("repeat", "Gives a text several times — 'quoted' & <b>bold</b>.",
                   {"text": {"type": "string"}, "count": {"type": ["integer", "null"], "description": "how often", "enum": [2, 10, 100, None]}}, ["text", "count"])

    async def execute(self, instance_id, parameters, **kwargs):
        text, count = arguments(parameters, "text", "count")
        return ToolResponse(text=text * count), -0.5, {}


class Fail(BaseTool):
    about = schema("fail", "Raises.", {"message": {"type": "string", "description": "das Übel"}}, [])

    async def execute(self, instance_id, parameters, **kwargs):
        raise RuntimeError(arguments(parameters, "message")[0])


class Quiet(BaseTool):
    about = schema("quiet", "Says nothing.", {}, [])

    async def execute(self, instance_id, parameters, **kwargs):
        return ToolResponse(), None, {}


class Recall(BaseTool):
    about = schema("recall", "Says the word of the row.", {}, [])

    async def create(self, instance_id=None, **kwargs):
        self.words = {**getattr(self, "words", {}), str(len(getattr(self, "words", {}))): kwargs["create_kwargs"].get("word", "no word")}
        return list(self.words)[-1], ToolResponse()

    async def execute(self, instance_id, parameters, **kwargs):
        return ToolResponse(text=self.words[instance_id]), 1.0, {}


def make_tools(classes):
    with contextlib.redirect_stdout(io.StringIO()):  # they print their schemas
        return [c(config={}, tool_schema=OpenAIFunctionToolSchema.model_validate(c.about)) for c in classes]


def statements_of_the_server():
    """Of verl's vLLM server: the statements that decide how many tokens a generation may have."""
    source = (pathlib.Path(verl.__file__).parent / "workers/rollout/vllm_rollout/vllm_async_server.py").read_text()
    (function,) = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.AsyncFunctionDef) and n.name == "generate"
                   and any(isinstance(s, ast.If) and ast.unparse(s.test) == "'max_tokens' in sampling_params" for s in n.body)]
    at = [i for i, s in enumerate(function.body) if ast.unparse(s).startswith(("max_possible_tokens =", "if 'max_tokens' in", "max_tokens = max("))]
    assert len(at) == 3, at
    return compile(ast.Module([function.body[i] for i in at], []), "vllm_async_server.py", "exec")


SERVER = statements_of_the_server()


class Server:
    """Returns the forced turns."""

    def __init__(self, rollout, turns):
        self.rollout, self.turns, self.used, self.row, self.drawn = rollout, turns, 0, [], []

    async def generate(self, request_id, *, prompt_ids, sampling_params, **kwargs):
        assert prompt_ids[: len(self.row)] == self.row, "the row was rewritten"
        names = {"self": types.SimpleNamespace(config=self.rollout), "prompt_ids": prompt_ids, "sampling_params": dict(sampling_params)}
        exec(SERVER, names)
        ids = self.turns[self.used][: names["max_tokens"]]
        self.used += 1
        self.drawn.append(len(ids))
        self.row = prompt_ids + ids
        return TokenOutput(token_ids=ids, log_probs=[-0.125] * len(ids), stop_reason="completed")
