// tokenizer.json, and tokenizer_config.json behind a line "=====", as the metadata of a GGUF file: model_merger writes
// it.
#include "fuzz/fuzzing.hpp"
#include "rlcore/text/gguf/tokenizer_to_gguf.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t vocabulary = 512;
  const auto parts = fuzzing::two_texts(fuzzing::text_of(data, size));
  static const std::filesystem::path folder = [] {
    std::filesystem::path model = fuzzing::folder() / "model";
    std::filesystem::create_directories(model);
    return model;
  }();
  fuzzing::write("model/tokenizer.json", parts.first);
  std::filesystem::remove(folder / "tokenizer_config.json");
  if (!parts.second.empty()) fuzzing::write("model/tokenizer_config.json", parts.second);
  fuzzing::accepts([&] {
    const rlcore::text::gguf_tokenizer t = rlcore::text::tokenizer_to_gguf(folder, vocabulary);
    fuzzing::require(t.tokens.size() == vocabulary && t.types.size() == vocabulary, "other tokens than the model has");
    fuzzing::require(t.scores.empty() == (t.model == "gpt2"), "scores of another model");
    for (const auto& [name, id] : t.ids)
      fuzzing::require(id >= 0 && static_cast<std::size_t>(id) < vocabulary, "an id outside of the vocabulary", name);
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
