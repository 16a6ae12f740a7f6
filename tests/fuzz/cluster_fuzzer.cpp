// cluster.json of plan.
#include "fuzz/fuzzing.hpp"
#include "rlcore/planning/cluster.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace p = rlcore::train::planning;
  const auto path = fuzzing::write("cluster.json", fuzzing::text_of(data, size));
  p::cluster read;
  if (!fuzzing::accepts([&] { read = p::read_cluster(path); })) return 0;
  p::write_cluster(path, read);  // rounds what was measured
  fuzzing::accepts([&] {
    read = p::read_cluster(path);
    const std::string once = fuzzing::read(path);
    p::write_cluster(path, read);
    fuzzing::require(nlohmann::json::parse(once)["measured"] == nlohmann::json::parse(fuzzing::read(path))["measured"],
                     "what was measured does not read back");
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
