// Learning a tokenizer: the merges of the `tokenizers` library's trainer (golden file of text_tokenizer.py), and files
// that read back as what was written.
#include "rlcore/text/train_bpe.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/chat_variables.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/text_file.hpp"

namespace RLCORE_TEST_ID {

namespace fs = std::filesystem;
namespace text = rlcore::text;
using nlohmann::json;
using strings = std::vector<std::string>;

namespace {

const fs::path reference = RLCORE_REFERENCE_DIR;
const strings specials{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

json golden() { return json::parse(text::read_text_file(reference / "text_trainer.json")); }

TEST(train_bpe, learns_the_merges_of_the_reference_trainer) {
  const json g = golden();
  const auto corpus = g["corpus"].get<strings>();
  for (const auto& [name, style] : {std::pair{"gpt2", text::split_style::gpt2}, {"qwen2", text::split_style::qwen2}}) {
    const auto tokens = g[name]["tokens"].get<strings>();
    ASSERT_GT(tokens.size(), 400u);
    const auto t = text::train_bpe(corpus, tokens.size() + specials.size(), specials, style);
    const json made = json::parse(t.json());
    EXPECT_EQ(made["model"]["merges"], g[name]["merges"]) << name;
    for (std::size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(t.token_of(static_cast<int>(i)), tokens[i]);
    EXPECT_EQ(t.vocab_size(), tokens.size() + 3);
    EXPECT_EQ(t.eos_id(), static_cast<int>(tokens.size()) + 2);
    EXPECT_EQ(t.pad_id(), static_cast<int>(tokens.size()));
    EXPECT_TRUE(t.is_special(*t.eos_id()));
    for (const std::string& s : corpus) EXPECT_EQ(t.decode(t.encode(s)), text::normalizer(made["normalizer"])(s));
  }
}

TEST(train_bpe, the_same_corpus_gives_the_same_file) {
  const auto corpus = golden()["corpus"].get<strings>();
  EXPECT_EQ(text::train_bpe(corpus, 400, specials).json(), text::train_bpe(corpus, 400, specials).json());
}

TEST(train_bpe, folder_reads_back_and_copies) {
  const auto t = text::train_bpe(golden()["corpus"].get<strings>(), 330, specials);
  const scratch::folder place;
  const fs::path folder = place / "tokenizer", copy = folder / "copy";
  text::save(t, folder);
  const auto back = text::tokenizer::load(folder);
  EXPECT_EQ(back.json(), t.json());
  EXPECT_EQ(back.eos_id(), t.eos_id());
  EXPECT_EQ(back.pad_id(), t.pad_id());
  EXPECT_EQ(text::chat_template::detect(folder).source(), text::chatml_jinja);
  fs::create_directories(copy);
  text::write_text_file(folder / "merges.txt", "#version: 0.2\n");
  fs::permissions(folder / "tokenizer.json", fs::perms::owner_read);
  text::copy_files(folder, copy);
  text::copy_files(folder, copy);  // replaces
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "merges.txt"})
    EXPECT_EQ(text::read_text_file(copy / name), text::read_text_file(folder / name));
  EXPECT_FALSE(fs::exists(copy / "vocab.json"));
  EXPECT_THROW(text::copy_files(folder / "none", copy), rlcore::file_error);
  EXPECT_THROW(text::copy_files(folder, folder / "none"), rlcore::file_error);
  text::tokenizer_settings settings;
  settings.eos_token = "<eos>";
  EXPECT_THROW(text::save(t, folder, settings), std::invalid_argument);
}

TEST(train_bpe, refuses_what_it_cannot_do) {
  const strings small{"ab"};
  EXPECT_THROW((void)text::train_bpe(small, 258, specials), std::invalid_argument);
  EXPECT_THROW((void)text::train_bpe(small, 300, specials), rlcore::data_error);
  EXPECT_THROW((void)text::train_bpe(strings{"a\xFF"}, 256, {}), rlcore::data_error);
  const auto bytes = text::train_bpe({}, 256, {});
  EXPECT_EQ(bytes.encode("ab\n").size(), 3u);
  EXPECT_EQ(bytes.eos_id(), std::nullopt);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
