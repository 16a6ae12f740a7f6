#include "rlcore/verify/dataset_rows.hpp"

#include "data/scratch.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/verify/dispatch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::verify;

TEST(gsm8k_row, has_verls_columns) {
  const auto row = gsm8k_row("How many?", "2+1,000 = 1,002\n#### 1,002", "train", 4, "f: row 4");
  EXPECT_EQ(row.dump(),
            R"({"data_source":"openai/gsm8k","prompt":[{"role":"user","content":"How many? Let's think step by step )"
            R"(and output the final answer after \"####\"."}],"ability":"math","reward_model":{"style":"rule",)"
            R"("ground_truth":"1002"},"extra_info":{"split":"train","index":4,"answer":"2+1,000 = 1,002\n#### 1,002",)"
            R"("question":"How many?"}})");
  scratch::error_of<rlcore::data_error>([] { gsm8k_row("q", "####12", "train", 0, "f: row 0"); },
                                        {"f: row 0", "'####12'", "no number"});
}

TEST(gsm8k_row, is_what_the_prompt_data_set_reads) {
  const std::vector<rlcore::data::table> tables{{"f", {gsm8k_row("How many?", "#### -5", "test", 0, "f")}}};
  const auto prompts = rlcore::data::make_prompts(
      tables, {}, [](const auto& messages) { return std::vector<std::int32_t>(messages[0].content.size()); },
      [](const std::string& source) { scorer_of(source); });
  EXPECT_EQ(prompts[0].ids.size(), std::string("How many? ").size() + gsm8k_instruction.size());
  EXPECT_EQ(score(prompts[0].data_source, "#### -5", prompts[0].ground_truth).score, 1);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
