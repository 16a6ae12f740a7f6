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

#include "objective/algorithm/catalogue.hpp"
#include "objective/algorithm/describe.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

namespace fs = std::filesystem;

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

/// Collects rows; the names of papers lack their namespace.
auto into(std::vector<row>& rows, const std::string& prefix) {
  return [&rows, prefix](const char* name, const auto& a, defaults d = {}) {
    rows.push_back({prefix + name, describe(a), std::move(d)});
  };
}
std::vector<row> papers() {
  std::vector<row> rows;
  each_of_papers(into(rows, "paper::"));
  return rows;
}
std::vector<row> systems() {
  std::vector<row> rows;
  each_of_systems(into(rows, ""));
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
  const std::regex other(
      "algorithms?[./].*|loop/.*|traced/.*|vocabulary/.*|piece/(combine/.*|piece|fields_used|slope_check|score).*|.*/"
      "detail/.*");
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string header = fs::relative(entry.path(), folder).generic_string();
    if (entry.path().extension() != ".hpp" || std::regex_match(header, other)) continue;
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
}  // namespace RLCORE_TEST_ID
