// A file of torch.save as a whole: the archive and the pickle in it.
#include "fuzz/fuzzing.hpp"
#include "rlcore/checkpoint/torch_file.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzzing::write("x.pt", fuzzing::text_of(data, size));
  fuzzing::accepts([&] {
    const rlcore::checkpoint::torch_file file(path);
    for (const auto& r : file.archive().records()) {
      fuzzing::require(r.second.begin <= size && r.second.size <= size - r.second.begin, "a record past the end");
      fuzzing::accepts([&] { file.archive().text(r.first, 1 << 20); });
    }
    for (const auto& t : file.tensors())
      fuzzing::require(t.size() * rlcore::checkpoint::bytes_of(t.dtype) <= size, "a tensor larger than the file");
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
