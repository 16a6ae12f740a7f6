// A line that the process of tools, agents and simulated users in Python answers with.
#include <cmath>

#include "fuzz/fuzzing.hpp"
#include "rlcore/agent/python_environment.hpp"
#include "rlcore/text/parse_json.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace a = rlcore::agent;
  std::string_view text = fuzzing::text_of(data, size);
  const std::size_t chosen = fuzzing::choice(text, 3);
  const auto answer = rlcore::text::try_parse_json<nlohmann::ordered_json>(text);
  if (!answer.is_object()) return 0;  // such a process is stopped
  fuzzing::accepts([&] {
    if (chosen == 0) {
      fuzzing::require(std::isfinite(a::read_tool_reply(answer).reward), "a reward that is not finite");
    } else if (chosen == 1) {
      a::read_opening(answer);
    } else {
      const a::turn_reply reply = a::read_turn_reply(answer);
      fuzzing::require(std::isfinite(reply.reward) && std::isfinite(reply.score.value_or(0)),
                       "a number that is not finite");
    }
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
