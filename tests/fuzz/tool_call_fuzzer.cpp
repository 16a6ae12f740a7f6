// A turn that a policy wrote, with calls of tools, and code among its arguments; and what a tool replied.
#include "fuzz/fuzzing.hpp"
#include "rlcore/agent/builtin_tools.hpp"
#include "rlcore/agent/code_tool.hpp"
#include "rlcore/agent/tool_calls.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace a = rlcore::agent;
  const std::string_view text = fuzzing::text_of(data, size);
  static a::calculator calculator;
  static a::gsm8k_tool gsm8k(a::gsm8k_tool::default_schema());
  const nlohmann::ordered_json kwargs{{"ground_truth", "72"}};
  for (const rlcore::text::tool_call& call : a::parse_hermes(text).calls) {
    a::arguments_text(call.arguments);
    const a::tool_request request{call.name, call.arguments, &kwargs};
    fuzzing::accepts([&] { a::clean_tool_text(calculator.call(request).text); });
    fuzzing::accepts([&] { a::clean_tool_text(gsm8k.call(request).text); });
  }
  const std::string clean = a::clean_tool_text(text, 1000);
  fuzzing::require(clean.size() <= 1000, "a tool's text is longer than asked for");
  for (const a::cut_side side : {a::cut_side::left, a::cut_side::middle, a::cut_side::right})
    a::cut_tool_text(clean, 7, side);
  a::program_of(text);
  return 0;
}

}  // namespace RLCORE_TEST_ID
