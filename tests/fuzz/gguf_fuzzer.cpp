// A GGUF file, from whomever: its values, its tensors, and the folder that it stands for.
#include "fuzz/fuzzing.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/gguf/gguf_file.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/tokenizer.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzzing::write("x.gguf", fuzzing::text_of(data, size));
  const bool whole = fuzzing::accepts([&] {
    const rlcore::text::gguf_file file(path);
    std::uint64_t bytes = 0;
    for (const auto& t : file.tensors()) bytes += t.bytes;
    fuzzing::require(bytes <= size, "more tensors than bytes");
  });
  if (!whole) return 0;
  fuzzing::accepts([&] { rlcore::checkpoint::read_config(path); });
  fuzzing::accepts([&] {
    const auto t = rlcore::text::tokenizer::load(path);
    fuzzing::accepts([&] { t.decode(t.encode("Hello 12 <|end|>")); });
  });
  fuzzing::accepts([&] { rlcore::text::chat_template::detect(path); });
  fuzzing::accepts([&] {
    const rlcore::checkpoint::tensor_folder weights(path);
    for (const std::string& name : weights.names()) {
      const auto elements = weights.info(name).size();
      fuzzing::require(elements <= 2 * size, "more elements than the file has");
      std::vector<float> values(elements);
      weights.read_f32(name, values);
    }
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
