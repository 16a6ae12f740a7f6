// docs/algorithms.md says what the code does: its table of named algorithms is compared with the types, its lists of
// pieces with the folders. RLCORE_WRITE_DOCS=1 puts the first three cells of every row right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "objective/algorithm/describe.hpp"
#include "rlcore/objective/algorithms.hpp"

using namespace rlcore;
using namespace rlcore_test;

namespace {

namespace fs = std::filesystem;
using defaults = std::vector<std::pair<std::string, double>>;

struct row {
  std::string name;
  parts made_of;
  defaults settings;
};

template <class Pair, class Chosen>
parts describe(const likelihood_regularised<Pair, Chosen>& a) {
  parts p = rlcore_test::describe(a.pair);
  p.objective = "with_likelihood{" + p.objective + "}";
  return p;
}
using rlcore_test::describe;

template <class Clip>
defaults clips(const Clip& s) {
  return {{"clip_low", s.clip_low}, {"clip_high", s.clip_high}};
}

std::vector<row> papers() {
  std::vector<row> rows;
  const auto add = [&](const char* name, const auto& a, defaults d = {}) {
    rows.push_back({std::string("paper::") + name, describe(a), std::move(d)});
  };
  add("grpo", paper::grpo(),
      {{"clip_low", paper::grpo_settings{}.clip_low},
       {"clip_high", paper::grpo_settings{}.clip_high},
       {"kl", paper::grpo_settings{}.kl}});
  add("dr_grpo", paper::dr_grpo(),
      {{"clip_low", paper::dr_grpo_settings{}.clip_low},
       {"clip_high", paper::dr_grpo_settings{}.clip_high},
       {"length", paper::dr_grpo_settings{}.length}});
  add("dapo", paper::dapo(), clips(paper::dapo_settings{}));
  add("gspo", paper::gspo(), clips(paper::gspo_settings{}));
  add("gspo_token", paper::gspo_token(), clips(paper::gspo_settings{}));
  add("luspo", paper::luspo(), clips(paper::gspo_settings{}));
  add("gmpo", paper::gmpo(), clips(paper::gmpo_settings{}));
  add("cispo", paper::cispo(), {{"high", paper::cispo_settings{}.surrogate.highest_ratio()}});
  add("sapo", paper::sapo(),
      {{"temperature_positive", paper::sapo_settings{}.temperature_positive},
       {"temperature_negative", paper::sapo_settings{}.temperature_negative}});
  add("vespo", paper::vespo(),
      {{"k_positive", paper::vespo_settings{}.k_positive},
       {"lambda_positive", paper::vespo_settings{}.lambda_positive},
       {"k_negative", paper::vespo_settings{}.k_negative},
       {"lambda_negative", paper::vespo_settings{}.lambda_negative}});
  add("gdpo", paper::gdpo(), clips(paper::gdpo_settings{}));
  add("ppo", paper::ppo(),
      {{"clip_low", paper::ppo_settings{}.clip_low},
       {"clip_high", paper::ppo_settings{}.clip_high},
       {"gamma", paper::ppo_settings{}.gamma},
       {"lambda", paper::ppo_settings{}.lambda}});
  add("ppo_critic", paper::ppo_critic(), {{"range", paper::ppo_critic_settings{}.range}});
  add("reinforce_plus_plus", paper::reinforce_plus_plus(), clips(paper::reinforce_plus_plus_settings{}));
  add("reinforce_plus_plus_baseline", paper::reinforce_plus_plus_baseline(),
      {{"kl", paper::reinforce_plus_plus_baseline_settings{}.kl}});
  add("rloo", paper::rloo());
  add("remax", paper::remax());
  add("opo", paper::opo());
  add("gpg", paper::gpg());
  add("dppo_tv", paper::dppo_tv(),
      {{"low", rlcore::dppo_tv{}.low}, {"high", rlcore::dppo_tv{}.high}, {"bound", rlcore::dppo_tv{}.bound}});
  add("dppo_kl", paper::dppo_kl(),
      {{"low", rlcore::dppo_kl{}.low}, {"high", rlcore::dppo_kl{}.high}, {"bound", rlcore::dppo_kl{}.bound}});
  add("dro", paper::dro(), {{"beta", paper::dro_settings{}.beta}});
  add("clip_cov", paper::clip_cov(), clips(paper::clip_cov_settings{}));
  add("kl_cov", paper::kl_cov(), {{"kappa", paper::kl_cov_settings{}.kappa}});
  add("a2po", paper::a2po(), {{"beta", paper::a2po().objective.link.beta}});
  add("sppo", paper::sppo(), {{"eta", squared_residual{}.eta}});
  add("gvpo", paper::gvpo(rlcore::gvpo{}), {{"beta", rlcore::gvpo{}.beta}});
  add("flow_rl", paper::flow_rl(), {{"beta", trajectory_balance{}.beta}, {"bound", trajectory_balance{}.bound}});

  add("dpo", paper::dpo(),
      {{"beta", paper::dpo_settings{}.beta}, {"label_smoothing", paper::dpo_settings{}.label_smoothing}});
  add("robust_dpo", paper::robust_dpo(), {{"beta", robust_link{}.beta}, {"flips", robust_link{}.flips.value}});
  add("slic", paper::slic(), {{"beta", hinge_link{}.beta}});
  add("ipo", paper::ipo(), {{"beta", ipo_link{}.beta}});
  add("exo", paper::exo(), {{"beta", exo_pair_link{}.beta}, {"doubt", exo_pair_link{}.doubt.value}});
  add("nca", paper::nca(), {{"beta", nca_pair_link{}.beta}});
  add("bco_pair", paper::bco_pair(), {{"beta", bco_pair_link{}.beta}});
  add("sppo_hard", paper::sppo_hard(), {{"beta", sppo_hard_link{}.beta}});
  add("apo_zero", paper::apo_zero(), {{"beta", apo_zero_link{}.beta}});
  add("apo_down", paper::apo_down(), {{"beta", apo_down_link{}.beta}});
  add("discopop", paper::discopop(), {{"beta", discopop_link{}.beta}, {"temperature", discopop_link{}.temperature}});
  add("aot", paper::aot(), {{"beta", aot_link{}.beta}});
  add("aot_unpaired", paper::aot_unpaired(), {{"beta", aot_unpaired_link{}.beta}});
  const kto_link kto{.kl = kto_baseline(0)};
  add("kto", paper::kto(kto),
      {{"beta", kto.beta}, {"desirable_weight", kto.desirable_weight}, {"undesirable_weight", kto.undesirable_weight}});
  add("bco", paper::bco(bco_link(0)), {{"beta", bco_link(0).beta}});
  add("apo_zero_unpaired", paper::apo_zero_unpaired(), {{"beta", apo_zero_unpaired_link{}.beta}});
  add("cpo", paper::cpo(), {{"beta", paper::cpo_settings{}.beta}, {"likelihood", paper::cpo_settings{}.likelihood}});
  add("simpo", paper::simpo(), {{"beta", paper::simpo_settings{}.beta}, {"margin", paper::simpo_settings{}.margin}});
  add("alpha_po", paper::alpha_po(),
      {{"alpha", alpha_po_link{}.alpha}, {"beta", alpha_po_link{}.beta}, {"margin", alpha_po_link{}.margin}});
  add("orpo", paper::orpo(), {{"beta", orpo_link{}.beta}});

  add("sft", paper::sft());
  add("dft", paper::dft());
  add("rm", paper::rm(), {{"margin", paper::rm_settings{}.margin}});
  add("rm_with_margins", paper::rm_with_margins());
  add("centered_rm", paper::centered_rm(), {{"coefficient", paper::centered_rm_settings{}.coefficient}});
  add("prm", paper::prm());
  add("kd", paper::kd());
  add("reverse_kd", paper::reverse_kd());
  add("gkd", paper::gkd(), {{"beta", generalised_jsd{}.beta}});
  return rows;
}

std::vector<row> systems() {
  std::vector<row> rows;
  const auto add = [&](const char* name, const auto& a, defaults d = {}) {
    rows.push_back({name, describe(a), std::move(d)});
  };
  const verl::clip_settings v;
  add("verl::grpo", verl::grpo(), {{"clip_low", v.clip_low}, {"clip_high", v.clip_high}, {"clip_c", v.clip_c}});
  add("verl::ppo", verl::ppo());
  add("verl::ppo_critic", verl::ppo_critic(), {{"range", clipped_value{}.range}});
  add("verl::dr_grpo", verl::dr_grpo(1024));
  add("verl::dapo", verl::dapo(),
      {{"clip_high", verl::dapo().objective.high}, {"clip_c", verl::dapo().objective.bound}});
  add("verl::pass_at_k", verl::pass_at_k());
  add("verl::rloo", verl::rloo());
  add("verl::reinforce_plus_plus", verl::reinforce_plus_plus());
  add("verl::reinforce_plus_plus_baseline", verl::reinforce_plus_plus_baseline());
  add("verl::remax", verl::remax());
  add("verl::opo", verl::opo());
  add("verl::gpg", verl::gpg());
  add("verl::gspo", verl::gspo());
  add("verl::gmpo", verl::gmpo());
  add("verl::sapo", verl::sapo());
  add("verl::cispo", verl::cispo());
  add("verl::clip_cov", verl::clip_cov());
  add("verl::kl_cov", verl::kl_cov(), {{"kappa", verl::kl_cov().objective.rest.first.scale}});
  add("verl::dppo_tv", verl::dppo_tv());
  add("verl::dppo_kl", verl::dppo_kl());
  add("verl::dro", verl::dro(1));
  add("openrlhf::ppo", openrlhf::ppo(),
      {{"clip_low", openrlhf::clip_settings{}.clip_low},
       {"clip_high", openrlhf::clip_settings{}.clip_high},
       {"dual_clip", openrlhf::clip_settings{}.dual_clip}});
  add("openrlhf::ppo_critic", openrlhf::ppo_critic(), {{"range", openrlhf::ppo_critic().objective.range}});
  add("openrlhf::grpo", openrlhf::grpo());
  add("openrlhf::dr_grpo", openrlhf::dr_grpo());
  add("openrlhf::rloo", openrlhf::rloo());
  add("openrlhf::reinforce_plus_plus", openrlhf::reinforce_plus_plus());
  add("openrlhf::gspo", openrlhf::gspo());
  add("openrlhf::dpo", openrlhf::dpo());
  add("openrlhf::ipo", openrlhf::ipo());
  add("trl::grpo", trl::grpo(), clips(trl::clip_settings{}));
  add("trl::dapo", trl::dapo());
  add("trl::dr_grpo", trl::dr_grpo(256));
  add("trl::two_sided_dapo", trl::two_sided_dapo(), {{"bound", two_sided_clip{}.bound}});
  add("trl::gspo", trl::gspo());
  add("trl::gspo_token", trl::gspo_token());
  add("trl::luspo", trl::luspo());
  add("trl::cispo", trl::cispo(), {{"high", trl::cispo().objective.highest_ratio()}});
  add("trl::sapo", trl::sapo());
  add("trl::vespo", trl::vespo());
  add("trl::gmpo", trl::gmpo(), {{"low", trl::gmpo().objective.low}, {"high", trl::gmpo().objective.high}});
  add("trl::rloo", trl::rloo());
  add("trl::ppo", trl::ppo(), {{"lambda", trl::ppo().advantage.lambda}});
  add("trl::ppo_critic", trl::ppo_critic(),
      {{"range", trl::ppo_critic().objective.node.range}, {"vf_coef", trl::ppo_critic().objective.scale}});
  add("trl::simpo", trl::simpo(),
      {{"beta", trl::simpo().objective.link.beta}, {"margin", trl::simpo().objective.link.margin}});
  return rows;
}

fs::path document() { return fs::path(RLCORE_SOURCE_DIR) / "docs" / "algorithms.md"; }

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string number(double x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

/// "| `paper::grpo` | `group_relative` | `sum{...}` | `token_mean` | clip_low = 0.2, ... |": the cells that are
/// generated.
std::string generated_cells(const row& r) {
  const std::string advantage = r.made_of.advantage == "no_advantage" ? "" : "`" + r.made_of.advantage + "`";
  std::string line =
      "| `" + r.name + "` | " + advantage + " | `" + r.made_of.objective + "` | `" + r.made_of.aggregation + "` | ";
  for (std::size_t k = 0; k < r.settings.size(); ++k)
    line += (k ? ", " : "") + r.settings[k].first + " = " + number(r.settings[k].second);
  return line + " |";
}

TEST(catalogue, the_table_of_algorithms_is_what_the_types_say) {
  std::string text = read(document());
  const bool write = std::getenv("RLCORE_WRITE_DOCS") != nullptr;
  for (const auto& rows : {papers(), systems()})
    for (const row& r : rows) {
      const std::string want = generated_cells(r), start = "| `" + r.name + "` |";
      const std::size_t at = text.find(start);
      if (at != std::string::npos && text.compare(at, want.size(), want) == 0) continue;
      if (!write || at == std::string::npos) {
        ADD_FAILURE() << "docs/algorithms.md should have a row that begins\n" << want;
        continue;
      }
      std::size_t stop = at;  // behind the fifth cell
      for (int cells = 0; cells < 6; ++cells) stop = text.find('|', stop) + 1;
      text.replace(at, stop - at, want);
    }
  if (write) std::ofstream(document()) << text;
}

TEST(catalogue, names_no_algorithm_that_is_not_there) {
  std::set<std::string> known;
  for (const auto& rows : {papers(), systems()})
    for (const row& r : rows) known.insert(r.name);
  const std::string text = read(document());
  const std::regex name("\\n\\| `((?:paper|verl|openrlhf|trl)::[a-z_0-9]+)` \\|");
  int found = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it, ++found)
    EXPECT_TRUE(known.contains((*it)[1])) << (*it)[1];
  EXPECT_EQ(static_cast<std::size_t>(found), known.size());
}

TEST(catalogue, lists_every_header_of_the_mathematics) {
  const fs::path folder = fs::path(RLCORE_SOURCE_DIR) / "include" / "rlcore" / "objective";
  const std::string text = read(document());
  for (const char* part :
       {"advantage", "aggregation", "controller", "correction", "distillation", "filter", "piece/divergence",
        "piece/entropy", "piece/preference", "piece/regression", "piece/reward_model", "piece/supervised",
        "piece/surrogate", "piece/value", "process_reward", "reward", "selection"})
    for (const auto& entry : fs::directory_iterator(folder / part)) {
      if (entry.path().extension() != ".hpp") continue;
      const std::string header = fs::relative(entry.path(), folder).generic_string();
      EXPECT_NE(text.find(header), std::string::npos) << header << " is not in docs/algorithms.md";
    }
}

TEST(catalogue, links_to_no_header_that_is_gone) {
  const fs::path include = fs::path(RLCORE_SOURCE_DIR) / "include", objective = include / "rlcore" / "objective";
  const std::string text = read(document());
  const std::regex header("`((?:[a-z_0-9]+/)+[a-z_0-9]+\\.hpp)`");
  for (std::sregex_iterator it(text.begin(), text.end(), header), end; it != end; ++it)
    EXPECT_TRUE(fs::exists(objective / (*it)[1].str()) || fs::exists(include / (*it)[1].str())) << (*it)[1];
}

}  // namespace
