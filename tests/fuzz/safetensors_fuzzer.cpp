// A safetensors file, from whomever.
#include "fuzz/fuzzing.hpp"
#include "rlcore/checkpoint/safetensors_reader.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace c = rlcore::checkpoint;

/// All tensors with their bytes.
std::vector<std::pair<c::tensor_info, std::vector<std::byte>>> contents(const c::safetensors_reader& file) {
  std::vector<std::pair<c::tensor_info, std::vector<std::byte>>> out;
  for (const c::tensor_info& t : file.tensors()) {
    std::vector<std::byte> bytes(t.bytes());
    file.read_bytes(t.name, bytes);
    std::vector<float> values(t.size());
    fuzzing::accepts([&] { file.read_f32(t.name, values); });
    out.emplace_back(t, std::move(bytes));
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzzing::write("x.safetensors", fuzzing::text_of(data, size));
  const auto copy = fuzzing::folder() / "y.safetensors";
  fuzzing::accepts([&] {
    const c::safetensors_reader file(path);
    const auto before = contents(file);
    std::vector<c::tensor_info> infos;
    for (const auto& [info, bytes] : before) infos.push_back(info);
    c::safetensors_writer writer(copy, infos, file.metadata());
    for (const auto& [info, bytes] : before) writer.append_bytes(bytes);
    writer.finish();
    const c::safetensors_reader again(copy);
    const auto after = contents(again);
    fuzzing::require(again.metadata() == file.metadata() && after.size() == before.size(), "not what was written");
    for (std::size_t i = 0; i < after.size(); ++i)  // tensors without elements may change places
      fuzzing::require(again.info(before[i].first.name).shape == before[i].first.shape &&
                           again.info(before[i].first.name).dtype == before[i].first.dtype,
                       "a tensor does not read back");
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
