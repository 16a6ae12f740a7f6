// What rlcore/agent declares (part of the target rlcore::train).
#define RLCORE_SOURCE_AGENT
#include "rlcore/agent/answer_pool.hpp"
#include "rlcore/agent/builtin_tools.hpp"
#include "rlcore/agent/code_runner.hpp"
#include "rlcore/agent/code_tool.hpp"
#include "rlcore/agent/conversations.hpp"
#include "rlcore/agent/environment.hpp"
#include "rlcore/agent/open_tools.hpp"
#include "rlcore/agent/python_environment.hpp"
#include "rlcore/agent/python_host.hpp"
#include "rlcore/agent/reply_tokens.hpp"
#include "rlcore/agent/tool_calls.hpp"
#include "rlcore/agent/tool_file.hpp"
