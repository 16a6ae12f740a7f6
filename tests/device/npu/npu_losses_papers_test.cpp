// The algorithms of papers on the emulated npu, by the rules of every CANN from 8.1 to 9.1.
#include "device/loss_catalogue.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

TEST(npu_losses, of_papers_are_those_of_the_host) {
  std::size_t checked = 0;
  for (const int version : {80100, 80300, 80500, 90100}) {
    emulated_npu on(compute::float32, {}, version);
    each_of_papers([&](const char* name, const auto& a, const defaults& = {}) {
      using type = std::remove_cvref_t<decltype(a)>;
      if constexpr (reads_log_probs<type>()) {
        if (std::string_view(name) == "gvpo") return;  // without its group size
        check_algorithm(*on, name, a);
        ++checked;
      }
    });
    check_algorithm(*on, "gvpo", paper::gvpo({.group_size = 4}));
  }
  EXPECT_GT(checked, 4 * 50u);
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
