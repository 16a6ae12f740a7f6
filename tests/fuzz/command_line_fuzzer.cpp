// Whole command lines, a word on each line: verl's keys and OpenRLHF's flags.
#include "fuzz/fuzzing.hpp"
#include "rlcore/config/programs/evaluate.hpp"
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/config/programs/preference_keys.hpp"
#include "rlcore/config/programs/sft.hpp"
#include "rlcore/train/policy/settings.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace t = rlcore::train;
  std::string_view text = fuzzing::text_of(data, size);
  static const t::registry registries[] = {
      t::grpo_trainer_registry(), t::ppo_trainer_registry(),  t::dapo_registry(),
      t::sft_registry(),          t::openrlhf_sft_registry(), t::dpo_registry(),
      t::kto_registry(),          t::prm_registry(),          t::evaluate_registry()};
  const t::registry& known = registries[fuzzing::choice(text, std::size(registries))];
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  fuzzing::accepts([&] {
    const auto options = t::options::parse(words, known);
    if (options.answer()) return;
    options.yaml();
    fuzzing::require(options.overrides().size() <= known.size(), "a key that is not known");
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
