// The Python program of python_host.
#pragma once

#include <string>

#include "rlcore/agent/python_environment_script.hpp"
#include "rlcore/agent/python_stand_ins.hpp"

RLCORE_BEGIN
namespace agent {
namespace detail {

inline constexpr const char* python_host_imports = R"py(
import ast, asyncio, concurrent.futures, copy, fcntl, importlib, importlib.util, inspect, json, math, os, site, sys
import threading, traceback, types, uuid
)py";

/// The protocol, the loading and the calls.
inline constexpr const char* python_host_main = R"py(
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
                os.write(2, b"\nrlcore: the %s have printed more than 1 MiB; the rest is not shown\n"
                         % wanted["what"].encode())
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


async def load_class(entry):
    module, _, name = entry["class_name"].rpartition(".")
    if not module:
        raise ValueError("expected MODULE.CLASS")
    made = getattr(importlib.import_module(module), name)
    if wanted["what"] == "interactions":
        interaction = made(config=entry["config"])
        loaded.append(lambda: Interaction(interaction))
        return None
    given = entry["schema"]
    if given is not None:
        given = importlib.import_module("verl.tools.schemas").OpenAIFunctionToolSchema.model_validate(given)
    loaded.append(made(config=entry["config"], tool_schema=given))
    schema = schema_of(loaded[-1]) if given is None else None
    json.dumps(schema, ensure_ascii=False).encode()
    return schema


async def load():  # in the event loop, as in verl: __init__ may make locks and sessions
    where = ""
    try:
        schemas = []
        if wanted["what"] == "agents":
            loaded.append(load_agent(wanted["file"], wanted["sampling_params"]))
        for entry in wanted.get("classes", []):
            where = "class_name %s: " % entry["class_name"]
            schemas.append(await load_class(entry))
    except BaseException as e:
        say({"failure": where + told(e)})
        return False
    say({"schemas": schemas})
    return True


# ---- Calls.

async def result_of(method, /, *arguments, **named):
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


def accepted(function, named):
    """Those of the values that the function has parameters for."""
    parameters = inspect.signature(function).parameters
    named = {k: v for k, v in named.items() if k not in ("self", "instance_id")}
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
    reward = 0.0 if reward is None else number(reward, "the reward of the call")
    return {"text": "" if text is None else clean(text), "reward": reward}


async def call_tool(request):
    tool, instance = loaded[request["tool"]], None
    try:
        arguments, kwargs = json.loads(request["arguments"]), json.loads(request["kwargs"])
        # One by one, as in verl 0.5, and as one dict, as in verl 0.9.
        given = {**(kwargs if isinstance(kwargs, dict) else {}), "create_kwargs": kwargs}
        created = await result_of(tool.create, **accepted(tool.create, given))
        instance = created[0] if isinstance(created, (tuple, list)) else created
        return reply(await result_of(tool.execute, instance, arguments))
    finally:
        if instance is not None:
            await ended("release() of a tool", tool.release, instance)


async def ended(name, method, *arguments):
    try:
        await result_of(method, *arguments)
    except Exception as e:  # what came before is good all the same
        print("rlcore: %s: %s" % (name, told(e)), file=sys.stderr)


async def call_environment(request):
    place, do = request["conversation"], request["do"]
    if do == "close":
        if place in conversations:
            await ended("the end of a conversation", conversations.pop(place).close)
        return {}
    given = json.loads(request["given"])
    if do == "open":
        conversation = loaded[request["environment"]]()
        text = await conversation.open(given)
        conversations[place] = conversation
        return {"text": text}
    if place not in conversations:
        return {"lost": "the process that had the conversation has ended, and what the conversation kept there is lost"}
    return await conversations[place].step(given)


async def run(request):
    text_of_error = clean if "tool" in request else told
    try:
        return await (call_tool if "tool" in request else call_environment)(request)
    except Exception as e:
        try:
            return {"error": text_of_error(e) or type(e).__name__}
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
loaded, conversations, open_calls = [], {}, set()  # conversations by their numbers
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
wanted = json.loads(requests.readline())
timeout = wanted["timeout"]
set_path(wanted["file"])
if wanted["what"] == "agents":
    provide(OPENRLHF, "openrlhf.utils.agent")
else:
    provide(VERL, "verl.tools.base_tool" if wanted["what"] == "tools" else "verl.interactions.base")
if loop.run_until_complete(load()):
    threading.Thread(target=read_requests, args=(loop,), daemon=True).start()
    loop.run_forever()
sys.stdout.flush()
os.dup2(2, 1)
output.join(0.5)
)py";

}  // namespace detail

/// A program for python3 -I -c. It reads JSON lines from standard input and writes JSON lines to standard output:
///   {"what": "tools", "file", "timeout", "classes": [{"class_name", "config", "schema"}]}, once;
///   "what" may be "interactions", whose classes have no schema, or "agents", with "sampling_params" for classes:
///   "file" is the agent's                                               -> {"schemas": [...]} or {"failure"}
///   {"id", "tool", "arguments": JSON as text, "kwargs": JSON as text}   -> {"id", "text", "reward"}
///   {"id", "conversation", "do": "open", "environment", "given": JSON as text}  -> {"id", "text": of a prompt or null}
///   {"id", "conversation", "do": "step", "given": JSON as text}         -> {"id", "text", "reward", "done", "score"}
///   {"id", "conversation", "do": "close"}                               -> {"id"}
/// or -> {"id", "error"}, {"id", "timeout"}, or {"id", "lost"} where the conversation was in a process that has ended.
/// The answers come in any order. A call that has timed out is cancelled, and answered when it has ended: until then
/// python_host does not know that its process is healthy.
inline std::string python_host_script() {
  using namespace detail;
  return std::string(python_host_imports) + python_stand_ins + python_environment_script + python_host_main;
}

}  // namespace agent
RLCORE_END
