// Stored responses in the place of sampling (rlcore.replay).
#include "fuzz/fuzzing.hpp"
#include "fuzz/small_tokenizer.hpp"
#include "rlcore/train/policy/trajectory/replay.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const rlcore::data::prompt_dataset prompts = [] {
    rlcore::data::prompt_dataset two;
    for (const char* text : {"Hi", "the user"})
      two.prompts.push_back(
          {{}, fuzzing::small_tokenizer().encode(text), "openai/gsm8k", "1", "", "", {}, {}, two.size()});
    return two;
  }();
  const std::int32_t eos[] = {*fuzzing::small_tokenizer().eos_id()};
  const auto path = fuzzing::write("1.jsonl", fuzzing::text_of(data, size));
  fuzzing::accepts([&] {
    rlcore::train::replay stored(path, {prompts, fuzzing::small_tokenizer(), eos, 16, 2, 2});
    stored.require(1, 1);
    for (const auto& t : stored(1))
      fuzzing::require(t.row < 2 && t.prompt_length > 0 && std::ssize(t.tokens) > t.prompt_length &&
                           std::ssize(t.tokens) - t.prompt_length <= 16,
                       "a response that does not fit");
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
