// Any bytes as a prompt, and any token ids as an answer.
#include "fuzz/fuzzing.hpp"
#include "fuzz/small_tokenizer.hpp"
#include "rlcore/text/normalizer.hpp"
#include "rlcore/text/stream_decoder.hpp"
#include "rlcore/text/utf8.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzzing::text_of(data, size);
  const auto& tokenizer = fuzzing::small_tokenizer();
  const auto composed = [](std::string_view t) { return rlcore::text::normalized(t, rlcore::text::normal_form::nfc); };
  // The tokenizer composes (NFC), as Qwen's does; between special tokens, each part by itself.
  fuzzing::accepts([&] {
    const std::string plain = tokenizer.decode(tokenizer.encode(text, false));
    fuzzing::require(plain == composed(text), "decode(encode(text)) is not the composed text");
    const std::string parsed = tokenizer.decode(tokenizer.encode(text, true));
    fuzzing::require(composed(parsed) == plain, "special tokens change the text around them");
    fuzzing::require(tokenizer.decode(tokenizer.encode(parsed, true)) == parsed, "decode(encode(text)) changes twice");
  });
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < size; ++i) ids.push_back(data[i] + (i % 3 == 0 ? 128 : 0));  // some beyond the vocabulary
  rlcore::text::stream_decoder stream(tokenizer);
  std::string pieces;
  for (const std::int32_t id : ids) pieces += stream.push(id);
  fuzzing::require(pieces + stream.finish() == tokenizer.decode(ids), "the pieces are not the text");
  return 0;
}

}  // namespace RLCORE_TEST_ID
