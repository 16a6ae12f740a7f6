// The pickle inside a file of torch.save; the archive around it is sound.
#include "checkpoint/torch_archive.hpp"
#include "fuzz/fuzzing.hpp"
#include "rlcore/checkpoint/sharded_torch.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace c = rlcore::checkpoint;
  torch_archive::write_file(fuzzing::folder() / "model_world_size_1_rank_0.pt",
                            std::string(fuzzing::text_of(data, size)));
  fuzzing::accepts([&] {
    c::sharded_torch file(fuzzing::folder(), 1);
    for (const c::weight& w : file.weights()) {
      const std::uint64_t size_of_all = w.size() * c::bytes_of(w.dtype);
      fuzzing::require(size_of_all <= 4 * 4, "more bytes than the storage has");
      std::vector<std::byte> bytes(size_of_all);
      fuzzing::accepts([&] { file.read_bytes(w, 0, bytes); });
    }
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
