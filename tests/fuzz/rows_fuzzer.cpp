// What the trainers make of the rows of a data set: prompts, supervised examples, pairs, labels, steps.
#include <algorithm>

#include "fuzz/fuzzing.hpp"
#include "fuzz/small_tokenizer.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/data/sft_rows.hpp"
#include "rlcore/train/evaluation/stored_responses.hpp"
#include "rlcore/train/preference/read_rows.hpp"
#include "rlcore/verify/dataset_rows.hpp"
#include "rlcore/verify/dispatch.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace d = rlcore::data;
namespace t = rlcore::train;

const rlcore::text::chat_template& chat() {
  static const auto only = rlcore::text::chat_template::named("qwen2.5");
  return only;
}

void read_prompts(const d::table& rows) {
  const auto encode = [](const std::vector<rlcore::text::message>& messages) {
    return fuzzing::small_tokenizer().encode(chat().render(messages, {.add_generation_prompt = true}));
  };
  const auto found = d::make_prompts(std::span(&rows, 1), {}, encode,
                                     [](const std::string& source) { rlcore::verify::scorer_of(source); });
  fuzzing::require(found.size() <= rows.rows.size(), "more prompts than rows");
}

void read_supervised(const d::table& rows, d::sft_layout layout) {
  d::sft_settings settings;
  settings.layout = layout;
  if (layout != d::sft_layout::question) settings.prompt_key = "input", settings.response_key = "output";
  if (layout == d::sft_layout::question) settings.truncation = d::truncation::right;
  for (const auto& e : d::read_sft_rows(std::span(&rows, 1), settings, fuzzing::small_tokenizer(), &chat()).examples)
    fuzzing::require(e.tokens.size() == e.written.size() && e.tokens.size() <= settings.max_length,
                     "an example of other lengths");
}

d::image_settings settings_of_images() {
  d::image_settings images;
  images.processor.emplace().max_pixels = 12544;
  images.processor->decode.max_pixels = 1 << 18;
  images.token = *fuzzing::image_tokenizer().id_of("<|image_pad|>");
  return images;
}

void read_images(const d::table& rows, bool supervised) {
  static const auto chat = rlcore::text::chat_template::named("qwen2.5-vl");
  const rlcore::text::tokenizer& tokenizer = fuzzing::image_tokenizer();
  const auto fits = [](const auto& tokens, const auto& shown) {
    std::size_t all = 0;
    for (const d::image_pointer& i : shown) all += d::count_image_tokens(*i, settings_of_images());
    const auto found = std::count(tokens.begin(), tokens.end(), settings_of_images().token);
    fuzzing::require(static_cast<std::size_t>(found) == all, "other tokens than the images have");
  };
  if (supervised) {
    d::sft_settings settings{.layout = d::sft_layout::conversation, .images = settings_of_images()};
    for (const auto& e : d::read_sft_rows(std::span(&rows, 1), settings, tokenizer, &chat).examples) {
      fits(e.tokens, e.images);
      for (std::size_t i = 0; i < e.tokens.size(); ++i)
        fuzzing::require(e.written[i] == 0 || e.tokens[i] != settings.images.token, "an image is learnt");
    }
    return;
  }
  d::prompt_settings settings;
  settings.images = settings_of_images();
  const auto encode = [&](const std::vector<rlcore::text::message>& messages) {
    return tokenizer.encode(chat.render(messages, {.add_generation_prompt = true}));
  };
  for (const d::prompt& p : d::make_prompts(std::span(&rows, 1), settings, encode, [](const std::string&) {}).prompts)
    fits(p.ids, p.images);
}

void read_preferences(const d::table& rows, std::size_t how) {
  const d::blend blend{{rows}, d::concatenated(std::vector<std::size_t>{rows.rows.size()})};
  t::row_rules rules{fuzzing::small_tokenizer()};
  if (how % 2 == 1) rules.chat = chat();
  if (how < 2) {
    for (const auto& r : t::read_pairs(blend, {}, rules, how == 1).rows)
      fuzzing::require(r.chosen.size() <= rules.max_len && r.rejected.size() <= rules.max_len,
                       "a pair that is too long");
  } else if (how < 4) {
    t::read_unpaired(blend, {.output = "output"}, rules);
  } else {
    const t::step_columns keys{.placeholder = "\n", .reward_tokens = {"+", "-"}};
    for (const auto& r : t::read_steps(blend, keys, t::find_step_tokens(rules.tokenizer, keys), rules).rows)
      fuzzing::require(r.steps.size() == r.labels.size() || r.steps.size() == r.probabilities.size(), "unequal steps");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text = fuzzing::text_of(data, size);
  const std::size_t how = fuzzing::choice(text, 15);
  d::table rows{"x.jsonl", {}};
  fuzzing::accepts([&] {
    rows.rows = d::parse_jsonl(text, rows.file);
    if (how == 0) return read_prompts(rows);
    if (how < 6) return read_supervised(rows, static_cast<d::sft_layout>(how - 1));
    if (how < 11) return read_preferences(rows, how - 6);
    if (how == 11) return static_cast<void>(t::read_stored_responses({fuzzing::write("x.jsonl", text).string()}, true));
    if (how > 12) return read_images(rows, how == 14);
    for (std::size_t i = 0; i < rows.rows.size(); ++i) {
      const auto question = rlcore::verify::read_solved_question(rows.rows[i], d::row_text(rows.file, i));
      for (const auto& solution : question.solutions) rlcore::verify::good_steps(question, solution);
    }
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
