#include "rlcore/verify/dataset_rows.hpp"

#include "data/scratch.hpp"
#include "rlcore/verify/dispatch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::verify;
using rlcore::data::row;

row raw() {
  return {{"images", {{{"bytes", row::binary({1, 2})}, {"path", nullptr}}}},
          {"problem", "<image>Find x."},
          {"answer", "2\\sqrt{3}"}};
}

TEST(geo3k_row, has_verls_columns) {
  const row r = geo3k_row(raw(), "train", 4, "f: row 4");
  EXPECT_EQ(r["images"], raw()["images"]);
  row rest = r;
  rest.erase("images");
  EXPECT_EQ(rest.dump(),
            R"({"data_source":"hiyouga/geometry3k","prompt":[{"role":"user","content":"<image>Find x. You FIRST think )"
            R"(about the reasoning process as an internal monologue and then provide the final answer. The reasoning )"
            R"(process MUST BE enclosed within <think> </think> tags. The final answer MUST BE put in \\boxed{}."}],)"
            R"("ability":"math","reward_model":{"style":"rule","ground_truth":"2\\sqrt{3}"},"extra_info":{"split":)"
            R"("train","index":4,"answer":"2\\sqrt{3}","question":"<image>Find x."}})");
  const std::string source = r["data_source"], truth = r["reward_model"]["ground_truth"];
  EXPECT_EQ(score(source, "<think>so</think> \\boxed{2\\sqrt{3}}", truth).score, 1);
  EXPECT_LT(score(source, "<think>so</think> \\boxed{2}", truth).score, 0.2);
}

TEST(geo3k_row, refuses_other_rows) {
  const auto refused = [](const char* column, const row& value, std::vector<std::string> parts) {
    row bad = raw();
    if (value.is_null())
      bad.erase(column);
    else
      bad[column] = value;
    parts.push_back("f: row 0");
    scratch::error_of<rlcore::data_error>([&] { geo3k_row(bad, "test", 0, "f: row 0"); }, parts);
  };
  refused("answer", nullptr, {"no column 'answer'"});
  refused("problem", "Find x.", {"0 <image> marks", "1 images"});
  refused("images", row::array(), {"1 <image> marks", "0 images"});
  refused("images", 5, {"0 images"});
  refused("problem", 7, {"expected a string"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
