#include "rlcore/device/npu/loader/library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::ascend;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// A root folder with these files.
class machine {
 public:
  void add(const std::string& path, const std::string& content = "") {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }
  driver_files look() const { return find_driver(root_.path().string()); }
  fs::path operator/(const std::string& path) const { return root_ / path; }

 private:
  ::scratch::folder root_;
};

TEST(driver_test, whole) {
  machine m;
  for (const char* name : {"dev/davinci0", "dev/davinci7", "dev/davinci_manager", "dev/devmm_svm", "dev/hisi_hdc"})
    m.add(name);
  m.add("usr/local/Ascend/driver/version.info", "Innerversion=V1\nVersion=24.1.rc2\n");
  const driver_files found = m.look();
  ASSERT_EQ(found.devices.size(), 2u);
  EXPECT_EQ(found.devices[1].path, (m / "dev/davinci7").string());
  EXPECT_TRUE(found.devices[1].openable);
  EXPECT_EQ(found.managers.size(), 3u);
  EXPECT_EQ(found.version, "24.1.rc2");
  EXPECT_EQ(driver_problem(found), "");
}

TEST(driver_test, what_is_missing_is_said) {
  EXPECT_THAT(driver_problem(machine().look()), testing::StartsWith("no Ascend driver"));
  machine devices;
  devices.add("dev/davinci0");
  EXPECT_THAT(driver_problem(devices.look()),
              HasSubstr("/usr/local/Ascend/driver is missing though there are devices"));
  machine folder;
  folder.add("usr/local/Ascend/driver/other");
  EXPECT_EQ(folder.look().version, "");
  EXPECT_THAT(driver_problem(folder.look()), HasSubstr("there is no /dev/davinci*"));
}

TEST(driver_test, permissions) {
  driver_files d{"/usr/local/Ascend/driver", "24.1", {{"/dev/davinci0", true}, {"/dev/davinci1", false}}, {}};
  EXPECT_THAT(driver_problem(d), HasSubstr("may not open /dev/davinci1: add the user to the group HwHiAiUser"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
