// A folder of weights: the index of files, and the manifest of shards.
#include "fuzz/fuzzing.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/checkpoint/tensor_info.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace c = rlcore::checkpoint;

/// A folder with model-00001-of-00001.safetensors (a [2, 2], b [3]), for an index; or with shards/weights_rank_0 of the
/// tensor a, for a manifest.
std::filesystem::path prepared(bool shards) {
  const std::filesystem::path top = fuzzing::folder() / (shards ? "ranks" : "files");
  if (std::filesystem::exists(top)) return top;
  std::filesystem::create_directories(top / "shards");
  static const float values[] = {1, 2, 3, 4};
  const auto write = [&](const std::filesystem::path& path, const std::vector<c::tensor_info>& tensors) {
    c::safetensors_writer file(path, tensors);
    for (const c::tensor_info& t : tensors) file.append(std::span(values).first(t.shape.size() == 2 ? 4 : 3));
    file.finish();
  };
  if (shards) {
    c::safetensors_writer file(top / "shards" / "weights_rank_0.safetensors",
                               {{"a#0", c::stored_type::f32, {4}, 0, 0}});
    file.append(values);
    file.finish();
  } else {
    write(top / "model-00001-of-00001.safetensors",
          {{"a", c::stored_type::f32, {2, 2}, 0, 0}, {"b", c::stored_type::f32, {3}, 0, 0}});
  }
  return top;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text = fuzzing::text_of(data, size);
  const bool shards = fuzzing::choice(text, 2) == 1;
  const std::filesystem::path top = prepared(shards);
  const std::string name =
      top.filename().string() + (shards ? "/shards/manifest.json" : "/model.safetensors.index.json");
  fuzzing::write(name, text);
  fuzzing::accepts([&] {
    const c::tensor_folder weights(top);
    for (const std::string& tensor : weights.names()) {
      const auto elements = weights.info(tensor).size();
      fuzzing::require(elements <= 4, "more elements than the files have");
      std::vector<float> values(elements);
      fuzzing::accepts([&] { weights.read_f32(tensor, values); });
    }
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
