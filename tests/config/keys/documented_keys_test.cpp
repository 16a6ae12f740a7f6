// What is not offered here stands on the pages for those who come from elsewhere.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/config/programs/preference_keys.hpp"
#include "rlcore/config/programs/sft.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

/// The words between backquotes.
std::vector<std::string> code_of(const std::string& page) {
  std::vector<std::string> words;
  const std::string text = scratch::read(RLCORE_SOURCE_DIR "/docs/" + page);
  for (std::size_t at = 0; (at = text.find('`', at)) != text.npos; ++at) {
    const std::size_t end = text.find('`', at + 1);
    if (end == text.npos) break;
    words.push_back(text.substr(at + 1, end - at - 1));
    at = end;
  }
  return words;
}
/// Whether `word` is the key, its last parts, or one of the two with `*` at one end.
bool names(std::string_view word, const std::string& key) {
  const std::string whole = "." + key;
  if (word.starts_with("*.")) return whole.ends_with(word.substr(1));
  if (word.ends_with(".*")) return whole.find("." + std::string(word.substr(0, word.size() - 1))) != whole.npos;
  return !word.empty() && whole.ends_with("." + std::string(word));
}

TEST(documented_keys, those_that_take_one_value_are_on_the_pages) {
  const auto verl = code_of("from_verl.md"), openrlhf = code_of("from_openrlhf.md");
  std::size_t count = 0;
  for (const registry& known :
       {grpo_trainer_registry(), ppo_trainer_registry(), dapo_registry(), reinforce_plus_plus_trainer_registry(),
        sft_registry(), openrlhf_sft_registry(), dpo_registry(), kto_registry(), rm_registry(), prm_registry()})
    for (const key& k : known.keys()) {
      if (k.use != disposition::fixed && k.use != disposition::off) continue;
      ++count;
      const std::string name(k.name);
      const bool flag = known.typed_name(name) != name;
      bool found = false;
      for (const std::string& word : flag ? openrlhf : verl)
        found = found || (flag ? word == "--" + name : names(word, name));
      EXPECT_TRUE(found) << known.program << ": " << name << " is not on the page";
    }
  EXPECT_GT(count, 50u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
