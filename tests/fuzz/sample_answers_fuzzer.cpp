// samples.jsonl of a run, which the report shows.
#include "fuzz/fuzzing.hpp"
#include "rlcore/telemetry/report/sample_answers.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace t = rlcore::train;
  const auto& folder = fuzzing::folder();
  fuzzing::write(t::sample_answers_path(folder).filename().string(), fuzzing::text_of(data, size));
  fuzzing::accepts([&] {
    const auto read = t::read_sample_answers(folder);
    t::keep_sample_answers(folder, {{1000, 1, "p", "a", "g"}});
    const auto kept = t::read_sample_answers(folder);
    fuzzing::require(!kept.empty() && kept.back().step == 1000 && kept.size() <= read.size() + 1, "answers are lost");
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
