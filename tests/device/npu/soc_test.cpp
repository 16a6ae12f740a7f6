#include "rlcore/device/npu/npu_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/npu/emulated_npu.hpp"
#include "rlcore/emulator/emulated_npu.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

using ascend::family_of;
using ascend::soc_family;
using ascend::soc_problem;
using testing::HasSubstr;

TEST(npu_soc, atlas_a2_and_a3_pass) {
  for (const auto& chip : ascend::emulated::chips()) EXPECT_EQ(soc_problem(chip.name), "") << chip.name;
  EXPECT_EQ(family_of("Ascend910_9363"), soc_family::a2_or_a3) << "CANN 9.1 has it";
}

TEST(npu_soc, others_of_ascend_are_refused_in_one_line) {
  EXPECT_EQ(soc_problem("Ascend310P3"),
            "npu: Ascend310P3 does not have the kernels of rlcore's operators, which need Atlas A2 or A3 (Ascend910B1 "
            "to B4, Ascend910_93xx); trainer.device=cpu works here");
  for (const char* name : {"Ascend310P1", "Ascend310B4", "Ascend910A", "Ascend910ProA", "Ascend910ProB",
                           "Ascend910PremiumA", "Ascend910", "Ascend910B", "Ascend910BX", "Ascend610"})
    EXPECT_EQ(family_of(name), soc_family::other_ascend) << name;
  EXPECT_THAT(soc_problem("Ascend910B"), HasSubstr("Ascend910B, the first generation in spite of its name, does not"));
}

TEST(npu_soc, a5_is_refused_as_untried) {
  for (const char* name : {"Ascend950PR_9599", "Ascend950DT_95A1", "Ascend910_95", "Ascend910_9599"})
    EXPECT_THAT(soc_problem(name),
                HasSubstr(" is an A5, whose kernels are others: untested; rlcore needs Atlas A2 or A3"))
        << name;
}

TEST(npu_soc, what_is_not_ascends_passes) {
  for (const char* name : {"", "kirin", "ascend"}) EXPECT_EQ(family_of(name), soc_family::unknown) << name;
  EXPECT_EQ(soc_problem(""), "");
}

TEST(npu_soc, a_device_of_another_family_is_not_opened) {
  ascend::calls table = emulated_calls();
  table.rt.aclrtGetSocName = [] { return "Ascend910A"; };
  try {
    npu on(table_provider{&table});
    FAIL() << "nothing was thrown";
  } catch (const device_error& e) {
    EXPECT_STREQ(e.what(), soc_problem("Ascend910A").c_str());
  }
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
