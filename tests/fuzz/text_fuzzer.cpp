// Any bytes as a prompt, and any token ids as an answer.
#include "fuzz/fuzzing.hpp"
#include "fuzz/small_tokenizer.hpp"
#include "rlcore/text/stream_decoder.hpp"
#include "rlcore/text/utf8.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzzing::text_of(data, size);
  const auto& tokenizer = fuzzing::small_tokenizer();
  for (const bool special : {true, false})
    fuzzing::accepts([&] {
      fuzzing::require(tokenizer.decode(tokenizer.encode(text, special)) == text,
                       "decode(encode(text)) is another text");
    });
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < size; ++i) ids.push_back(data[i] + (i % 3 == 0 ? 128 : 0));  // some beyond the vocabulary
  rlcore::text::stream_decoder stream(tokenizer);
  std::string pieces;
  for (const std::int32_t id : ids) pieces += stream.push(id);
  fuzzing::require(pieces + stream.finish() == tokenizer.decode(ids), "the pieces are not the text");
  return 0;
}
