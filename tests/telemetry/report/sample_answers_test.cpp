// Answers of validations: those of the first and the last stay, whatever happens in between.
#include "rlcore/telemetry/report/sample_answers.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/telemetry/report/report.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

std::vector<sample_answer> of_step(std::int64_t step) {
  return {{step, 1, "what?", "best of " + std::to_string(step), "4"}, {step, 0, "what?", "worst", "4"}};
}

std::string steps(const std::filesystem::path& root) {
  std::string out;
  for (const sample_answer& a : read_sample_answers(root)) out += std::to_string(a.step) + " ";
  return out;
}

TEST(sample_answers, of_the_first_and_the_last_validation_stay) {
  const scratch::folder place;
  EXPECT_TRUE(read_sample_answers(place.path()).empty());
  keep_sample_answers(place.path(), {});
  EXPECT_FALSE(std::filesystem::exists(sample_answers_path(place.path())));
  for (const std::int64_t step : {0, 5, 10}) keep_sample_answers(place.path(), of_step(step));
  EXPECT_EQ(steps(place.path()), "0 0 10 10 ");
  EXPECT_EQ(read_sample_answers(place.path())[2].answer, "best of 10");
  // Continued from step 5: what the run says again takes the place of what was said.
  keep_sample_answers(place.path(), of_step(8));
  EXPECT_EQ(steps(place.path()), "0 0 8 8 ");
  keep_sample_answers(place.path(), of_step(0));
  EXPECT_EQ(steps(place.path()), "0 0 ");
}

TEST(sample_answers, are_bounded_and_survive_any_text) {
  const scratch::folder place;
  const std::string long_text(sample_text_bytes - 1, 'x');
  EXPECT_EQ(beginning_of("short"), "short");
  EXPECT_EQ(beginning_of(long_text + "\xC3\xA4"), long_text + "\xE2\x80\xA6");  // not half of an umlaut
  keep_sample_answers(place.path(), {{3, 0.5, "\xFF\xFE", std::string(1 << 20, 'y') + "\n", "\"quoted\""}});
  EXPECT_LT(std::filesystem::file_size(sample_answers_path(place.path())), 3 * sample_text_bytes);
  ASSERT_EQ(read_sample_answers(place.path()).size(), 1u);
  EXPECT_EQ(read_sample_answers(place.path())[0].ground_truth, "\"quoted\"");
  std::ofstream(sample_answers_path(place.path()), std::ios::app) << "{half a li\n{\"step\":\"no\"}\n";
  EXPECT_EQ(read_sample_answers(place.path()).size(), 1u);
}

TEST(sample_answers, are_in_the_report_of_their_folder_and_escaped) {
  const scratch::folder place;
  keep_sample_answers(place.path(), {{0, 0.25, "</pre><b>?", "<script>1</script>", "a&b"}});
  keep_sample_answers(place.path(), of_step(7));
  metrics m;
  m.set("val-core/openai/gsm8k/reward/mean@1", 0.5);
  const std::vector<metric_row> rows{{0, m}};  // step 7 is still to come
  write_report(place.path() / "report.html", {}, rows);
  const std::string text = scratch::read(place.path() / "report.html");
  EXPECT_NE(text.find("<h3>step 0<small>reward 0.25</small></h3>\n<pre class=\"asked\">&lt;/pre&gt;&lt;b&gt;?</pre>\n"
                      "<pre>&lt;script&gt;1&lt;/script&gt;</pre>\n<p class=\"about\">right answer: a&amp;b</p>"),
            std::string::npos);
  EXPECT_EQ(text.find("<script"), std::string::npos);
  EXPECT_EQ(text.find("best of 7"), std::string::npos);
}

TEST(sample_answers, show_what_tools_wrote_apart) {
  const scratch::folder place;
  keep_sample_answers(place.path(), {{0, 1, "q", "I call.\xC3\xA4<7>I know.", "7", {}, {7, 4, 8}}});
  const std::vector<sample_answer> kept = read_sample_answers(place.path());
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].runs, (std::vector<std::uint64_t>{7, 4, 8}));
  EXPECT_NE(html::answer_cards(kept).find("<pre>I call.<span class=\"tool\">\xC3\xA4&lt;7</span>&gt;I know.</pre>"),
            std::string::npos);
  // Runs of an edited file neither split characters nor lose text.
  const std::vector<sample_answer> odd{{0, 1, "q", "\xC3\xA4x", "", {}, {1}}, {0, 1, "q", "ab", "", {}, {0, 99, 1}}};
  EXPECT_NE(html::answer_cards(odd).find("<pre>\xC3\xA4x</pre>"), std::string::npos);
  EXPECT_NE(html::answer_cards(odd).find("<pre><span class=\"tool\">ab</span></pre>"), std::string::npos);
}

TEST(sample_answers, show_images_and_nothing_else_in_their_place) {
  const scratch::folder place;
  const std::string image = "data:image/png;base64,iVBORw0KGgo=";
  keep_sample_answers(place.path(), {{0, 1, "how many?", "3", "3", {image, image}},
                                     {0, 0, "and now?", "2", "3", {"x\" onerror=\"alert(1)", image + "\">"}}});
  const std::vector<sample_answer> kept = read_sample_answers(place.path());
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].images, (std::vector<std::string>{image, image}));
  EXPECT_TRUE(kept[1].images.empty());
  metrics m;
  m.set("val-core/openai/gsm8k/reward/mean@1", 0.5);
  const std::vector<metric_row> rows{{0, m}};
  write_report(place.path() / "report.html", {}, rows);
  const std::string text = scratch::read(place.path() / "report.html");
  EXPECT_NE(text.find("src=\"" + image + "\">"), std::string::npos);
  EXPECT_EQ(text.find("onerror"), std::string::npos);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
