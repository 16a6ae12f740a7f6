// The registry against verl's own table of defaults (tests/reference/options_verl_defaults.py).
#include "rlcore/config/registry.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/grammar/override.hpp"
#include "rlcore/config/programs/main_ppo.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

nlohmann::json reference(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(std::string(RLCORE_REFERENCE_DIR "/") + name));
}

const nlohmann::json& defaults() {
  static const auto data = reference("options_verl_defaults.json");
  return data;
}

bool same(const value& mine, const nlohmann::json& theirs) {
  if (theirs.is_null()) return mine.is_null() || (mine.is_map() && mine.as<value::map>()->empty());
  if (theirs.is_boolean()) return mine.as<bool>() != nullptr && *mine.as<bool>() == theirs.get<bool>();
  if (theirs.is_number()) {
    if (const auto* x = mine.as<double>()) return *x == theirs.get<double>();
    return mine.as<std::int64_t>() != nullptr && *mine.as<std::int64_t>() == theirs.get<std::int64_t>() &&
           theirs.is_number_integer();
  }
  if (theirs.is_string()) return scalar_text(mine) == theirs.get<std::string>();
  if (theirs.is_object()) return mine.is_map() && theirs.empty();
  const auto* items = mine.as<value::list>();
  if (items == nullptr || items->size() != theirs.size()) return false;
  for (std::size_t i = 0; i < items->size(); ++i)
    if (!same((*items)[i], theirs[i])) return false;
  return true;
}

TEST(registry, knows_every_key_of_verl_and_its_default) {
  const options opt = options::parse(std::vector<std::string>{}, main_ppo_registry());
  // Deliberate: the engine and the device are ours, the program is named after its estimator, no web tracker, and a
  // critic starts from the actor's model unless told otherwise.
  const std::set<std::string> different = {"actor_rollout_ref.rollout.name", "algorithm.adv_estimator",
                                           "trainer.device", "trainer.logger", "critic.model.path"};
  ASSERT_GT(defaults().size(), 300u);
  for (const auto& [name, theirs] : defaults().items()) {
    if (opt.known().find(name) == nullptr) {
      EXPECT_NE(opt.known().free_form(name), nullptr) << name;
      continue;
    }
    EXPECT_EQ(same(opt.at(name), theirs), different.count(name) == 0)
        << name << "=" << inline_text(opt.at(name)) << ", verl: " << theirs;
  }
}

TEST(registry, knows_every_key_of_a_newer_verl_and_its_default) {
  const options opt = options::parse(std::vector<std::string>{}, main_ppo_registry());
  // Deliberate: keys of the DAPO recipe, with its defaults, before they were the trainer's; the model knows its
  // patches.
  const std::set<std::string> different = {"algorithm.filter_groups.metric", "data.gen_batch_size",
                                           "data.image_patch_size"};
  const auto newer = reference("options_verl_newer_defaults.json");
  ASSERT_GT(newer.size(), 500u);
  for (const auto& [name, theirs] : newer.items()) {
    const key* known = opt.known().find(name);
    if (known == nullptr) {
      EXPECT_NE(opt.known().free_form(name), nullptr) << name;
      continue;
    }
    if (known->type == key_type::dictionary) continue;  // null there, or a map that follows another one
    EXPECT_EQ(same(opt.at(name), theirs), different.count(name) == 0)
        << name << "=" << inline_text(opt.at(name)) << ", verl: " << theirs;
  }
}

TEST(registry, tables_are_well_formed) {
  const registry known = main_ppo_registry();
  std::set<std::string_view> names;
  for (const key& k : known.keys()) {
    EXPECT_TRUE(names.insert(k.name).second) << k.name;
    EXPECT_TRUE(valid_key(k.name)) << k.name;
    EXPECT_FALSE(k.meaning.empty()) << k.name;
    EXPECT_FALSE(known.is_section(k.name)) << k.name << " is a key and a section";
    if (!k.limits.choices.empty() && !k.fallback.starts_with("${") && k.fallback != "null") {
      const auto words = split_words(k.limits.choices);
      EXPECT_NE(std::find(words.begin(), words.end(), k.fallback), words.end()) << k.name;
    }
  }
}

TEST(registry, both_names_of_a_spelling_are_honoured_keys_of_one_type) {
  const registry known = main_ppo_registry();
  ASSERT_FALSE(known.spellings.empty());
  for (const auto& [name, other] : known.spellings) {
    const key *k = known.find(name), *o = known.find(other);
    ASSERT_NE(k, nullptr) << name;
    ASSERT_NE(o, nullptr) << other;
    EXPECT_EQ(k->type, o->type) << name;
    EXPECT_EQ(o->use, disposition::honoured) << other;
  }
}

TEST(registry, a_later_table_replaces_and_extends) {
  registry known = main_ppo_registry();
  const std::size_t before = known.size();
  constexpr key more[] = {
      {"algorithm.adv_estimator", key_type::text, "gae", disposition::honoured, "advantage estimator"},
      {"critic.new_key", key_type::integer, "3", disposition::honoured, "something new"}};
  known.add(more);
  EXPECT_EQ(known.size(), before + 1);
  const options opt = options::parse(std::vector<std::string>{"critic.new_key=4"}, known);
  EXPECT_EQ(opt.get<std::string>("algorithm.adv_estimator"), "gae");
  EXPECT_EQ(opt.get<std::int64_t>("critic.new_key"), 4);
}

TEST(registry, sections_and_free_form_maps) {
  const registry known = main_ppo_registry();
  EXPECT_TRUE(known.is_section("trainer"));
  EXPECT_FALSE(known.is_section("train"));
  EXPECT_EQ(known.find("trainer"), nullptr);
  ASSERT_NE(known.free_form("hydra.run.dir"), nullptr);
  EXPECT_EQ(known.free_form("trainer.nnodes"), nullptr);
  EXPECT_EQ(known.free_form("trainer.nnodes.x"), nullptr);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
