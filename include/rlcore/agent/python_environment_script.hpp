// How Python runs agents of OpenRLHF and interactions of verl: a part of the program of python_host.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace agent {
namespace detail {

/// The conversations with environments, and what loads agents.
inline constexpr const char* python_environment_script = R"py(
# ---- Environments. An object of these classes is a conversation.

def number(value, name):
    """The finite float of a number, a numpy scalar or a tensor with one element."""
    value = value.item() if hasattr(value, "item") else value
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError("%s is %s; expected a number" % (name, type(value).__name__))
    value = float(value)
    if not math.isfinite(value):
        raise ValueError("%s is %s" % (name, value))
    return value


def flag(value, name):
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError("%s is %s; expected True or False" % (name, type(value).__name__))
    return bool(value)


def text_of(value, name):
    if not isinstance(value, str):
        raise TypeError("%s is %s; expected a text" % (name, type(value).__name__))
    return clean(value)


class Interaction:
    """A conversation with an interaction of verl: an object that is there once, and an instance of it."""

    def __init__(self, interaction):
        self.interaction, self.instance = interaction, str(uuid.uuid4())

    async def open(self, given):
        start = self.interaction.start_interaction
        await result_of(start, self.instance, **accepted(start, given["kwargs"]))

    async def step(self, given):
        generate = self.interaction.generate_response
        result = await result_of(generate, self.instance, given["messages"], **accepted(generate, given["kwargs"]))
        if not isinstance(result, (tuple, list)) or len(result) not in (3, 4):
            raise TypeError("generate_response() returned %s; expected (should_terminate, text, score, metrics)"
                            % type(result).__name__)
        done, text, reward = result[:3]
        return {"text": text_of(text, "the text of generate_response()"),
                "done": flag(done, "should_terminate of generate_response()"),
                "reward": 0.0 if reward is None else number(reward, "the score of generate_response()")}

    async def close(self):
        end = getattr(self.interaction, "finalize_interaction", None)
        if end:
            by_place = [p for p in inspect.signature(end).parameters.values() if p.kind < p.KEYWORD_ONLY]
            await result_of(end, *[self.instance][:len(by_place)])


class SamplingParameters(types.SimpleNamespace):
    def clone(self):
        return copy.deepcopy(self)


def check_sampling(each):
    """What a step has got or given back as sampling parameters, which have to be those of all turns."""
    given, known = agent.sampling, isinstance(each, (dict, SamplingParameters))
    values = each if isinstance(each, dict) else vars(each) if known else {n: getattr(each, n, None) for n in given}
    for name in {**given, **values} if each else ():
        if name not in given or values.get(name, given[name]) != given[name]:
            raise ValueError("step() set sampling_params.%s to %r; sampling parameters per turn are not supported"
                             % (name, values[name]))


class Agent:
    """A conversation with an agent of OpenRLHF."""

    async def step(self, given):
        sampling = SamplingParameters(**copy.deepcopy(agent.sampling))
        result = await self.result(given["observation"], given["action"], given["label"], sampling)
        if not isinstance(result, dict):
            raise TypeError("step() returned %s; expected a dict" % type(result).__name__)
        for name in ("rewards", "environment_feedback", "done"):
            if name not in result:
                raise ValueError("step() returned no " + name)
        images = result.get("environment_images")
        if images is not None and not (hasattr(images, "__len__") and len(images) == 0):
            raise ValueError("step() returned environment_images; the feedback of agents is text alone")
        for each in (sampling, result.get("sampling_params")):
            check_sampling(each)
        scores = result.get("scores")
        return {"text": text_of(result["environment_feedback"], "environment_feedback of step()"),
                "done": flag(result["done"], "done of step()"),
                "reward": number(result["rewards"], "rewards of step()"),
                "score": None if scores is None else number(scores, "scores of step()"),
                "logs": {str(name): number(value, "extra_logs[%r] of step()" % name)
                         for name, value in (result.get("extra_logs") or {}).items()}}

    async def close(self):
        pass


class AgentOfClass(Agent):
    async def open(self, given):
        if inspect.iscoroutinefunction(agent.made.__init__):  # as OpenRLHF 0.8 has it
            self.instance = agent.made.__new__(agent.made)
            await self.instance.__init__()
        else:
            self.instance = agent.made()
        if not hasattr(self.instance, "reset"):
            return None
        state = await result_of(self.instance.reset, {"observation": given["observation"], "label": given["label"]})
        if not isinstance(state, dict) or "observation" not in state:
            raise TypeError("reset() returned %s; expected {'observation': text}" % type(state).__name__)
        text = text_of(state["observation"], "observation of reset()")
        return None if text == given["observation"] else text

    async def result(self, observation, action, label, sampling):
        return await result_of(self.instance.step, {"observation_text": observation, "action_text": action,
                                                    "label": label, "sampling_params": sampling})


class AgentOfFunction(Agent):
    """The function step() of OpenRLHF 0.8.0 to 0.8.10; as there, each conversation has the file's globals to itself."""

    async def open(self, given):
        self.function = module_of(agent.code).step

    async def result(self, observation, action, label, sampling):
        result = await result_of(self.function, observation, action, label,
                                 **accepted(self.function, {"sampling_params": sampling}))
        if isinstance(result, (tuple, list)) and len(result) in (3, 4):
            result = {"rewards": result[0], "next_observation": result[1], "done": result[2]}
        if isinstance(result, dict) and "environment_feedback" not in result and "next_observation" in result:
            after = text_of(result["next_observation"], "the next state of step()")
            if not after.startswith(observation + action):
                raise ValueError("the next state of step() does not begin with the observation and the action; what "
                                 "the policy has read and written cannot be changed")
            result = {**result, "environment_feedback": after[len(observation) + len(action):]}
        return result


# ---- Loading an agent.

def module_of(code):
    module = types.ModuleType("agent_module")
    module.__file__ = code.co_filename
    sys.modules["agent_module"] = module  # dataclasses look it up
    exec(code, module.__dict__)
    return module


def own_execute(tree):
    """The function execute() of AgentExecutor or of a base of it in the same file, and whether it calls super()'s."""
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    names = ["AgentExecutor"]
    while names:
        found = classes.pop(names.pop(), None)
        for each in found.body if found else []:
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name == "execute":
                return each, any(isinstance(n, ast.Attribute) and n.attr == "execute" and isinstance(n.value, ast.Call)
                                 and getattr(n.value.func, "id", None) == "super" for n in ast.walk(each))
        names += [b.id for b in found.bases if isinstance(b, ast.Name)] if found else []
    return None, True


def load_agent(file, sampling):
    """Finds the agent of a file: a class, or a function step()."""
    with open(file, "rb") as source:
        tree = ast.parse(source.read(), file)
    execute, passes_on = own_execute(tree)
    if not passes_on:
        raise TypeError("AgentExecutor has an execute() of its own (line %s), which calls vLLM; rlcore needs a class "
                        "AgentInstance with reset() and step() instead" % execute.lineno)
    if execute and sum(not isinstance(n, ast.Expr) for n in execute.body) > 1:
        print("rlcore: %s: what execute() of AgentExecutor adds is not run" % file, file=sys.stderr)
    agent.sampling, agent.code = sampling, compile(tree, file, "exec")
    module = module_of(agent.code)
    agent.made = getattr(module, "AgentInstance", None)
    executor = getattr(module, "AgentExecutor", None)
    if agent.made is None and executor is not None:
        named = dict.fromkeys(("max_steps", "max_length", "llm_engine", "hf_tokenizer", "result_queue"))
        agent.made = getattr(executor(**accepted(executor, named)), "agent_instance_cls", None)
    if agent.made is not None:
        return AgentOfClass
    if executor is None and callable(getattr(module, "step", None)):
        return AgentOfFunction
    raise TypeError("expected a class AgentInstance with reset() and step(), or a function step(observation, action, "
                    "label)")


agent = types.SimpleNamespace()
)py";

}  // namespace detail
}  // namespace agent
RLCORE_END
