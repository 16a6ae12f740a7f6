#include "rlcore/checkpoint/layout.hpp"

#include <set>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::checkpoint;
using rlcore::config_error;
using rlcore::format_error;

void save(const std::filesystem::path& root, std::int64_t step, std::int64_t keep = 0) {
  save_step(root, step, keep,
            [&](const std::filesystem::path& folder) { scratch::write(folder / "state", std::to_string(step)); });
}
std::set<std::string> content(const std::filesystem::path& root) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root)) names.insert(entry.path().filename().string());
  return names;
}
const std::string tracker = "latest_checkpointed_iteration.txt";

TEST(layout, knows_a_step_folder_by_its_name) {
  EXPECT_EQ(step_of("/a/global_step_12"), 12);
  EXPECT_EQ(step_of("global_step_0/"), 0);
  for (const char* name : {"", "/", "global_step_", "global_step_x", "global_step_-1", "global_step_1.tmp-33",
                           "global_steps_3", "global_step_99999999999999999999", "a/global_step_3/actor"})
    EXPECT_FALSE(step_of(name)) << name;
}

TEST(layout, the_tracker_names_the_last_save) {
  const scratch::folder place;
  EXPECT_FALSE(find_latest(place / "none"));
  save(place.path() / "run", 5);
  save(place.path() / "run", 10);
  EXPECT_EQ(scratch::read(place / "run" / tracker), "10");
  EXPECT_EQ(content(place / "run"), (std::set<std::string>{"global_step_5", "global_step_10", tracker}));
  const resume_point latest = find_latest(place / "run");
  EXPECT_EQ(latest.step, 10);
  EXPECT_EQ(latest.folder, place / "run" / "global_step_10");
  EXPECT_TRUE(latest.notice.empty());
}

TEST(layout, resumes_by_verls_rules) {
  const scratch::folder place;
  save(place.path(), 3);
  const std::string folder = (place / "global_step_3").string();
  EXPECT_EQ(find_resume("auto", "", place.path()).step, 3);
  EXPECT_FALSE(find_resume("disable", folder, place.path()));
  EXPECT_EQ(find_resume("resume_path", folder + "/", "/nonexistent").step, 3);
  scratch::error_of<config_error>([&] { find_resume("resume_path", place.path().string(), ""); }, {"global_step_N"});
  scratch::error_of<config_error>([&] { find_resume("resume_path", "/no/global_step_4", ""); }, {"/no/global_step_4"});
  scratch::error_of<config_error>([&] { find_resume("atuo", "", ""); }, {"'atuo'", "auto, disable or resume_path"});

  scratch::write(place / tracker, "7\n");  // a save that somebody deleted
  const resume_point fresh = find_resume("auto", "", place.path());
  EXPECT_FALSE(fresh);
  EXPECT_NE(fresh.notice.find("global_step_7 does not exist"), std::string::npos);
  for (const char* text : {"", "abc", "3 4", "-1", "3.5"}) {
    scratch::write(place / tracker, text);
    scratch::error_of<format_error>([&] { find_latest(place.path()); }, {tracker, "number of a step"});
  }
}

TEST(layout, keeps_the_newest_after_a_success) {
  const scratch::folder place;
  for (const int step : {1, 2, 3, 10}) save(place.path(), step, 2);
  EXPECT_EQ(content(place.path()), (std::set<std::string>{"global_step_3", "global_step_10", tracker}));
  std::filesystem::create_directory(place / "global_step_notes");
  save(place.path(), 4, 1);  // resumed from 3: the later step of the abandoned branch stays
  EXPECT_EQ(content(place.path()),
            (std::set<std::string>{"global_step_4", "global_step_10", "global_step_notes", tracker}));
  EXPECT_EQ(find_latest(place.path()).step, 4);
}

TEST(layout, a_failing_save_changes_nothing) {
  const scratch::folder place;
  save(place.path(), 1);
  EXPECT_THROW(save_step(place.path(), 2, 1,
                         [](const std::filesystem::path& folder) {
                           scratch::write(folder / "half", "x");
                           throw rlcore::file_error("disk full");
                         }),
               rlcore::file_error);
  EXPECT_EQ(content(place.path()), (std::set<std::string>{"global_step_1", tracker}));
  EXPECT_EQ(find_latest(place.path()).step, 1);
  save(place.path(), 1);  // once more over itself
  EXPECT_EQ(content(place.path()), (std::set<std::string>{"global_step_1", tracker}));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
