// The Python program of python_host.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace agent {

/// python3 -I -c <this>. Reads JSON lines from standard input and writes JSON lines to standard output:
///   {"file", "timeout", "tools": [{"class_name", "config", "schema"}]}, once  -> {"schemas": [...]} or {"failure"}
///   {"id", "tool", "arguments": JSON as text, "kwargs": JSON as text}         -> {"id", "text", "reward"},
///                                                                                {"id", "error"} or {"id", "timeout"}
/// The answers come in any order. A call that has timed out is cancelled, and answered when it has ended: until then
/// python_host does not know that its process is healthy.
inline constexpr const char* python_host_script = R"py(
import asyncio, concurrent.futures, fcntl, functools, importlib, importlib.util, inspect, json, math, os, site, sys
import threading, traceback, types, uuid

SHOWN_OUTPUT = 1 << 20  # bytes
LONGEST_TEXT = 10 << 20  # characters: at most 60 MiB of JSON, a line may have 64


# ---- Standard input and output belong to the protocol; a tool gets /dev/null and, for a while, standard error.

requests = os.fdopen(os.dup(0), "rb")
answers = os.dup(1)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.register_at_fork(after_in_child=lambda: os.close(answers))  # or the end of this process would not be seen


def show_output(source):
    left = SHOWN_OUTPUT
    while True:
        piece = os.read(source, 1 << 16)
        if not piece:
            return
        shown, left = piece[:max(left, 0)], left - len(piece)
        try:
            if shown:
                os.write(2, shown)
            if left < 0 <= left + len(piece):
                os.write(2, b"\nrlcore: the tools have printed more than 1 MiB; the rest is not shown\n")
        except OSError:
            pass


def capture_output():
    source, target = os.pipe()
    try:
        fcntl.fcntl(target, 1031, 1 << 20)  # F_SETPIPE_SZ: code that prints without the GIL need not wait for us
    except OSError:
        pass
    os.dup2(target, 1)
    os.close(target)
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    thread = threading.Thread(target=show_output, args=(source,), daemon=True)
    thread.start()
    return thread


def clean(text):
    """The text without lone surrogates, which UTF-8 cannot hold."""
    text = str(text)[:LONGEST_TEXT]
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def say(answer):
    line = memoryview(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
    try:
        while line:
            line = line[os.write(answers, line):]
    except OSError:
        os._exit(1)


# ---- What a file of tools imports from verl, where verl is absent.

class Model:
    """A small pydantic.BaseModel: `fields` has a default, or `...`, for each name, `parts` the class of a value."""
    fields, parts = {}, {}

    def __init__(self, **given):
        for name, default in self.fields.items():
            if name not in given and default is ...:
                raise ValueError("%s: no %s" % (type(self).__name__, name))
            value = given[name] if name in given else default() if callable(default) else default
            part = self.parts.get(name)
            if isinstance(part, list):  # of the values of a dict
                value = {key: part[0].model_validate(v) for key, v in value.items()}
            elif part and value is not None:
                value = part.model_validate(value)
            setattr(self, name, value)
        self.model_fields_set = {name for name in given if name in self.fields}

    @classmethod
    def model_validate(cls, value):
        if isinstance(value, cls):
            return value
        if not isinstance(value, dict):
            raise ValueError("%s: expected a dict, found %s" % (cls.__name__, type(value).__name__))
        return cls(**value)

    def model_dump(self, exclude_unset=False, exclude_none=False, **further):
        def plain(x):
            if isinstance(x, Model):
                return x.model_dump(exclude_unset, exclude_none)
            if isinstance(x, dict):
                return {key: plain(v) for key, v in x.items() if not (exclude_none and v is None)}
            return [plain(v) for v in x] if isinstance(x, list) else x

        shown = {name: plain(getattr(self, name)) for name in self.fields
                 if not exclude_unset or name in self.model_fields_set}
        return {name: x for name, x in shown.items() if not (exclude_none and x is None)}

    def __eq__(self, other):
        return type(self) is type(other) and self.model_dump() == other.model_dump()

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%r" % (n, getattr(self, n)) for n in self.fields))


class OpenAIFunctionPropertySchema(Model):
    fields = {"type": ..., "description": None, "enum": None}


class OpenAIFunctionParametersSchema(Model):
    fields = {"type": ..., "properties": ..., "required": list}
    parts = {"properties": [OpenAIFunctionPropertySchema]}


class OpenAIFunctionSchema(Model):
    fields = {"name": ..., "description": ..., "strict": False,
              "parameters": lambda: OpenAIFunctionParametersSchema(type="object", properties={}, required=[])}
    parts = {"parameters": OpenAIFunctionParametersSchema}


class OpenAIFunctionToolSchema(Model):
    fields = {"type": ..., "function": ...}
    parts = {"function": OpenAIFunctionSchema}


class ToolResponse(Model):
    fields = {"text": None, "image": None, "video": None}

    def __init__(self, **given):
        for kind in ("image", "video"):
            if kind in given and not isinstance(given[kind], list):
                raise ValueError("%s: expected a list, found %s" % (kind, type(given[kind]).__name__))
        super().__init__(**given)

    def is_empty(self):
        return not (self.text or self.image or self.video)

    def is_text_only(self):
        return bool(self.text) and not (self.image or self.video)


class BaseTool:
    def __init__(self, config, tool_schema):
        self.config = config
        self.tool_schema = tool_schema or self.get_openai_tool_schema()
        assert self.tool_schema is not None, "Tool schema is not set!"
        self.name = self.tool_schema.function.name

    def get_openai_tool_schema(self):
        return getattr(self, "tool_schema", None)

    async def create(self, instance_id=None, **kwargs):
        return instance_id or str(uuid.uuid4()), ToolResponse()

    async def execute(self, instance_id, parameters, **kwargs):
        return ToolResponse(text="Updated the tool state."), 0.0, {}

    async def calc_reward(self, instance_id, **kwargs):
        return 0.0

    async def release(self, instance_id, **kwargs):
        pass


def provide_verl():
    """Imports verl, which needs torch and ray, or stands in for what tools use of it."""
    found = importlib.util.find_spec("verl")
    if found:
        try:
            importlib.import_module("verl.tools.base_tool")
            return
        except Exception as e:
            print("rlcore: verl cannot be imported (%s); its classes for tools are replaced" % told(e), file=sys.stderr)
            for name in [n for n in sys.modules if n == "verl" or n.startswith("verl.")]:
                del sys.modules[name]
    folders = list(found.submodule_search_locations or []) if found else []
    schemas = [Model, OpenAIFunctionPropertySchema, OpenAIFunctionParametersSchema, OpenAIFunctionSchema,
               OpenAIFunctionToolSchema, ToolResponse]
    contents = {"verl": None, "verl.tools": None, "verl.utils": None, "verl.tools.schemas": schemas,
                "verl.tools.base_tool": [BaseTool, OpenAIFunctionToolSchema, ToolResponse],
                "verl.utils.rollout_trace": []}
    for name, classes in contents.items():
        module = sys.modules[name] = types.ModuleType(name)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
        if classes is None:  # a package: the rest of it is what is on disk
            module.__path__ = [os.path.join(f, *name.split(".")[1:]) for f in folders]
        for each in classes or []:
            setattr(module, each.__name__, each)
    sys.modules["verl.utils.rollout_trace"].rollout_trace_op = lambda function: function


# ---- Loading.

def told(e):
    """The exception's type and message, and the line of the user's file that raised it."""
    where = [f for f in traceback.extract_tb(e.__traceback__) if not f.filename.startswith("<")
             and os.sep + "importlib" + os.sep not in f.filename]
    return clean("%s: %s%s" % (type(e).__name__, e, " (%s, line %s)" % (where[-1].filename, where[-1].lineno)
                               if where and not isinstance(e, SyntaxError) else ""))


def set_path(file):
    first = [os.getcwd(), os.path.dirname(os.path.abspath(file))]
    sys.path[:0] = first + [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if sys.prefix == sys.base_prefix and os.path.isdir(site.getusersitepackages()):
        site.addsitedir(site.getusersitepackages())  # -I leaves both out, for the sake of the imports above


def schema_of(tool):
    schema = tool.get_openai_tool_schema()
    return schema.model_dump(exclude_unset=True, exclude_none=True) if hasattr(schema, "model_dump") else schema


async def load(entries):  # in the event loop, as in verl: __init__ may make locks and sessions
    schemas = []
    for entry in entries:
        try:
            module, _, name = entry["class_name"].rpartition(".")
            if not module:
                raise ValueError("expected MODULE.CLASS")
            made = getattr(importlib.import_module(module), name)
            given = entry["schema"]
            if given is not None:
                given = importlib.import_module("verl.tools.schemas").OpenAIFunctionToolSchema.model_validate(given)
            tool = made(config=entry["config"], tool_schema=given)
            tools.append(tool)
            schemas.append(schema_of(tool) if given is None else None)
            json.dumps(schemas[-1], ensure_ascii=False).encode()
        except BaseException as e:
            say({"failure": "class_name %s: %s" % (entry["class_name"], told(e))})
            return False
    say({"schemas": schemas})
    return True


# ---- Calls.

async def result_of(method, *arguments, **named):
    """The method's result: a coroutine function runs in the event loop, any other in a thread of its own."""
    if inspect.iscoroutinefunction(inspect.unwrap(method)):
        result = method(*arguments, **named)
    else:
        def called():
            try:
                return method(*arguments, **named), None
            except BaseException as e:
                return None, e

        running = asyncio.get_running_loop().run_in_executor(threads, called)
        try:
            result, raised = await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])  # nothing can stop a thread
            raise
        if raised is not None:
            raise raised
    return await result if inspect.isawaitable(result) else result


def create_arguments(create, given):
    """A row's create_kwargs: one by one, as in verl 0.5, and as one dict `create_kwargs`, as in verl 0.9, as far as
    `create` has such parameters."""
    named = {k: v for k, v in given.items() if k not in ("self", "instance_id")} if isinstance(given, dict) else {}
    named["create_kwargs"] = given
    parameters = inspect.signature(create).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return named
    return {k: v for k, v in named.items() if k in parameters}


def reply(result):
    result = result if isinstance(result, (tuple, list)) else (result,)
    response, reward = result[0] if result else None, result[1] if len(result) > 1 else None
    for kind in ("image", "video"):
        if getattr(response, kind, None):
            raise ValueError(kind + "s in tool replies are not supported")
    text = response if isinstance(response, str) else getattr(response, "text", ...)
    if text is ... or len(result) > 3:
        raise TypeError("execute() returned %s; expected (ToolResponse or text, reward, metrics)"
                        % type(response if len(result) < 4 else result).__name__)
    reward = 0.0 if reward is None else float(reward)
    if not math.isfinite(reward):
        raise ValueError("the reward of the call is %s" % reward)
    return {"text": "" if text is None else clean(text), "reward": reward}


async def run(request):
    tool, instance = tools[request["tool"]], None
    try:
        try:
            arguments, kwargs = json.loads(request["arguments"]), json.loads(request["kwargs"])
            created = await result_of(tool.create, **create_arguments(tool.create, kwargs))
            instance = created[0] if isinstance(created, (tuple, list)) else created
            return reply(await result_of(tool.execute, instance, arguments))
        finally:
            if instance is not None:
                try:
                    await result_of(tool.release, instance)
                except Exception as e:  # the answer is good all the same
                    print("rlcore: release() of a tool: " + told(e), file=sys.stderr)
    except Exception as e:
        try:
            return {"error": clean(e) or type(e).__name__}
        except Exception:
            return {"error": type(e).__name__}
    except (SystemExit, KeyboardInterrupt) as e:  # or it would end the event loop
        return {"error": clean("%s: %s" % (type(e).__name__, e))}


async def serve(request):
    task = asyncio.ensure_future(run(request))
    in_time, _ = await asyncio.wait([task], timeout=timeout)
    if not in_time:
        task.cancel()
        await asyncio.wait([task])
        answer = {"timeout": True}
    else:
        answer = {"error": "CancelledError"} if task.cancelled() else task.result()
    say({"id": request["id"], **answer})


def read_requests(loop):
    for line in requests:
        loop.call_soon_threadsafe(begin, json.loads(line))
    loop.call_soon_threadsafe(loop.stop)


def begin(request):
    task = asyncio.ensure_future(serve(request))
    open_calls.add(task)  # the loop itself keeps weak references only
    task.add_done_callback(open_calls.discard)


output = capture_output()
threads = concurrent.futures.ThreadPoolExecutor(max_workers=4096)
tools, open_calls = [], set()
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
wanted = json.loads(requests.readline())
timeout = wanted["timeout"]
set_path(wanted["file"])
provide_verl()
if loop.run_until_complete(load(wanted["tools"])):
    threading.Thread(target=read_requests, args=(loop,), daemon=True).start()
    loop.run_forever()
sys.stdout.flush()
os.dup2(2, 1)
output.join(0.5)
)py";

}  // namespace agent
RLCORE_END
