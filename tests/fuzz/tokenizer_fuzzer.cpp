// tokenizer.json, and tokenizer_config.json behind a line "=====".
#include "fuzz/fuzzing.hpp"
#include "rlcore/text/stream_decoder.hpp"
#include "rlcore/text/tokenizer.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = fuzzing::two_texts(fuzzing::text_of(data, size));
  const std::string_view json = parts.first, config = parts.second;
  std::optional<rlcore::text::tokenizer> t;
  if (!fuzzing::accepts([&] { t = rlcore::text::tokenizer::parse(std::string(json), config); })) return 0;
  fuzzing::require(t->json() == json, "another text than it was read from");
  for (const char* text :
       {"", "Hello, the 3 worlds\n", " \xC3\xA9\xE6\xBC\xA2  <|im_end|>a", "aaaaaaaaaaaaaaaaaaaaaaaa"})
    fuzzing::accepts([&] {
      const std::vector<std::int32_t> ids = t->encode_with_special_tokens(text);
      rlcore::text::stream_decoder stream(*t);
      std::string pieces;
      for (const std::int32_t id : ids) {
        fuzzing::require(id >= 0 && static_cast<std::size_t>(id) < t->vocab_size(), "an id outside of the vocabulary");
        pieces += stream.push(id);
      }
      fuzzing::require(pieces + stream.finish() == t->decode(ids), "the pieces are not the text");
    });
  return 0;
}

}  // namespace RLCORE_TEST_ID
