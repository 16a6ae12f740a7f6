// What Python files import from verl and OpenRLHF, where these are absent: a part of the program of python_host.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace agent {
namespace detail {

/// Classes of the same names and interfaces, and provide(), which puts them in their places.
inline constexpr const char* python_stand_ins = R"py(
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


class BaseInteraction:
    def __init__(self, config):
        self.config = config
        self.name = config.get("name", "interaction_agent")

    async def start_interaction(self, instance_id=None, **kwargs):
        return instance_id or str(uuid.uuid4())

    async def generate_response(self, instance_id, messages, **kwargs):
        raise NotImplementedError("generate_response() of %s" % type(self).__name__)

    async def calculate_score(self, *arguments, **kwargs):
        return 0.0

    async def finalize_interaction(self, *arguments, **kwargs):
        pass


# ---- What an agent imports from OpenRLHF. An executor is only asked for the class of its agents.

class AgentInstanceBase:
    async def reset(self, states, **kwargs):
        return states


class AgentExecutorBase:
    def __init__(self, agent_instance_cls=None, *further, **named):
        self.agent_instance_cls = agent_instance_cls


class MultiTurnAgentExecutor(AgentExecutorBase):
    pass


class SingleTurnAgentExecutor(AgentExecutorBase):
    pass


VERL = {"verl": None, "verl.tools": None, "verl.utils": None, "verl.interactions": None,
        "verl.tools.schemas": [Model, OpenAIFunctionPropertySchema, OpenAIFunctionParametersSchema,
                               OpenAIFunctionSchema, OpenAIFunctionToolSchema, ToolResponse],
        "verl.tools.base_tool": [BaseTool, OpenAIFunctionToolSchema, ToolResponse],
        "verl.interactions.base": [BaseInteraction], "verl.utils.rollout_trace": []}
OPENRLHF = {"openrlhf": None, "openrlhf.utils": None,
            "openrlhf.utils.agent": [AgentInstanceBase, AgentExecutorBase, MultiTurnAgentExecutor,
                                     SingleTurnAgentExecutor]}


def provide(contents, needed):
    """Imports the module `needed`, whose package may need torch and ray, or stands in for what is used of it."""
    package = needed.partition(".")[0]
    found = importlib.util.find_spec(package)
    if found:
        try:
            importlib.import_module(needed)
            return
        except Exception as e:
            if found.origin:  # not just a folder of that name
                print("rlcore: %s cannot be imported (%s); its classes for %s are replaced"
                      % (package, told(e), wanted["what"]), file=sys.stderr)
            for name in [n for n in sys.modules if n == package or n.startswith(package + ".")]:
                del sys.modules[name]
    folders = list(found.submodule_search_locations or []) if found else []
    for name, classes in contents.items():
        module = sys.modules[name] = types.ModuleType(name)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
        if classes is None:  # a package: the rest of it is what is on disk
            module.__path__ = [os.path.join(f, *name.split(".")[1:]) for f in folders]
        for each in classes or []:
            setattr(module, each.__name__, each)
    if package == "verl":
        sys.modules["verl.utils.rollout_trace"].rollout_trace_op = lambda function: function
)py";

}  // namespace detail
}  // namespace agent
RLCORE_END
