// Blends of data sets (--dataset a.jsonl,folder,folder@part of OpenRLHF), and the order of rows. Reads Parquet when the
// build has it.
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/data/table.hpp"

RLCORE_BEGIN
namespace data {

/// The numbers 0 to n - 1, shuffled (Fisher-Yates) or in order. A pure function of its arguments: a resumed run needs
/// only seed and epoch. Throws std::invalid_argument when n does not fit 32 bits.
inline std::vector<std::uint32_t> epoch_order(std::size_t n, std::uint64_t seed, std::uint64_t epoch, bool shuffle) {
  if (n > UINT32_MAX) throw std::invalid_argument("rlcore: epoch_order of more than 2^32 - 1 rows");
  std::vector<std::uint32_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::uint32_t>(i);
  if (!shuffle) return order;
  const random_key key = random_key{seed}.child(0x6f726472u);  // "ordr"
  for (std::size_t i = n; i-- > 1;) {
    const auto last = static_cast<std::uint32_t>(i);
    std::swap(
        order[i],
        order[key.below(last + 1, last, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32))]);
  }
  return order;
}

/// Rows of batch number `batch` (from 1) of `size` rows each: epoch after epoch, the last partial batch of each
/// dropped. Needs size <= n.
inline std::vector<std::uint32_t> rows_of_batch(std::size_t n, std::int64_t size, std::int64_t batch,
                                                std::uint64_t seed, bool shuffle) {
  const std::int64_t per_epoch = static_cast<std::int64_t>(n) / size, index = batch - 1;
  const auto order = epoch_order(n, seed, static_cast<std::uint64_t>(index / per_epoch), shuffle);
  const auto first = order.begin() + index % per_epoch * size;
  return {first, first + size};
}

/// Row `row` of data set `set`.
struct row_place {
  std::uint32_t set = 0, row = 0;
  friend bool operator==(const row_place&, const row_place&) = default;
};

/// All rows of all datasets, concatenated.
std::vector<row_place> concatenated(std::span<const std::size_t> sizes);

/// Draws the dataset of each row with the given probabilities (they need not sum to 1) until every dataset is
/// exhausted; one that ends sooner restarts (the rule "all_exhausted" of Hugging Face datasets). The order is a
/// function of the arguments. Throws std::invalid_argument for empty sets, and probabilities that are not positive.
std::vector<row_place> interleaved(std::span<const std::size_t> sizes, std::span<const double> probabilities,
                                   std::uint64_t seed);

/// The rows of all sets in the order of use.
struct blend {
  std::vector<table> sets;
  std::vector<row_place> order;

  std::size_t size() const noexcept { return order.size(); }
  /// Row i in the order of use.
  const row& operator[](std::size_t i) const { return sets[order[i].set].rows[order[i].row]; }
  /// "<file>: row <n>"
  std::string where(std::size_t i) const { return row_text(sets[order[i].set].file, order[i].row); }
  /// The folder of its file, the base of relative image paths.
  std::filesystem::path folder(std::size_t i) const {
    return std::filesystem::path(sets[order[i].set].file).parent_path();
  }
};

/// The datasets to read; the flags have the same names.
struct blend_settings {
  std::string datasets = {};       ///< comma-separated paths; folder@sub is a folder inside a folder
  std::string probabilities = {};  ///< comma-separated, one per data set; empty: concatenate
  std::string split = "train";
  std::uint64_t seed = 42;
  std::size_t max_samples = 0;  ///< per dataset, and in total; 0: all
};

/// The items of "a, b,c" without blanks around them.
std::vector<std::string> comma_separated(std::string_view text);

/// The files of a folder that belong to a split. Their names begin with the split's word ("train-00000-of-2.parquet",
/// "train.jsonl"), here or in "data", or they lie in a folder of that name. If no file is named after a split, all
/// files are "train".
std::vector<std::filesystem::path> split_files(const std::filesystem::path& folder, std::string_view split);

/// The file itself; of a folder, the files that belong to a split. Throws data_error if no file belongs to it.
std::vector<std::filesystem::path> table_files(const std::filesystem::path& place, std::string_view split);

/// The files of one data set.
struct set_files {
  std::filesystem::path place;  ///< the file, or the folder of the files
  std::vector<std::filesystem::path> files;
};

/// Finds one dataset of the list and checks that each of its files is readable. Throws file_error or data_error.
set_files find_set(const std::string& name, const std::string& split);

/// Finds all sets of a comma-separated list, before any of them is read. Throws file_error or data_error.
inline std::vector<set_files> find_sets(std::string_view datasets, const std::string& split) {
  std::vector<set_files> sets;
  for (const std::string& name : comma_separated(datasets)) sets.push_back(find_set(name, split));
  return sets;
}

/// Reads one data set. Throws file_error or data_error.
table read_set(const set_files& found);

/// Opens a list of data sets. Throws config_error (probabilities), file_error or data_error.
blend open_blend(const blend_settings& s);

}  // namespace data
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DATA)
RLCORE_BEGIN
namespace data {

RLCORE_INLINE std::vector<row_place> concatenated(std::span<const std::size_t> sizes) {
  std::vector<row_place> order;
  for (std::uint32_t set = 0; set < sizes.size(); ++set)
    for (std::uint32_t i = 0; i < sizes[set]; ++i) order.push_back({set, i});
  return order;
}

RLCORE_INLINE std::vector<row_place> interleaved(std::span<const std::size_t> sizes,
                                                 std::span<const double> probabilities, std::uint64_t seed) {
  double total = 0;
  if (sizes.size() != probabilities.size() || sizes.empty())
    throw std::invalid_argument("rlcore: interleaved: " + std::to_string(sizes.size()) + " sets and " +
                                std::to_string(probabilities.size()) + " probabilities");
  for (std::size_t set = 0; set < sizes.size(); ++set) {
    if (!(probabilities[set] > 0) || sizes[set] == 0)
      throw std::invalid_argument("rlcore: interleaved: set " + std::to_string(set) + " has " +
                                  std::to_string(sizes[set]) + " rows and probability " +
                                  std::to_string(probabilities[set]));
    total += probabilities[set];
  }
  const random_key key = random_key{seed}.child(0x6d697865u);  // "mixe"
  std::vector<std::uint32_t> next(sizes.size());
  std::vector<bool> whole(sizes.size());
  std::vector<row_place> order;
  for (std::size_t left = sizes.size(); left > 0;) {
    double at = key.uniform(static_cast<std::uint32_t>(order.size())) * total;
    std::uint32_t set = 0;
    while (set + 1 < sizes.size() && at >= probabilities[set]) at -= probabilities[set++];
    order.push_back({set, next[set]});
    if (++next[set] < sizes[set]) continue;
    next[set] = 0;
    if (!whole[set]) whole[set] = true, --left;
  }
  return order;
}

RLCORE_INLINE std::vector<std::string> comma_separated(std::string_view text) {
  std::vector<std::string> items;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t end = std::min(text.find(',', first), text.size());
    std::string_view item = text.substr(first, end - first);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    items.emplace_back(item);
    first = end + 1;
  }
  return items;
}

RLCORE_INLINE std::vector<std::filesystem::path> split_files(const std::filesystem::path& folder,
                                                             std::string_view split) {
  namespace fs = std::filesystem;
  const auto named = [](std::string_view file, std::string_view word) {
    return file.starts_with(word) &&
           (file.size() == word.size() || !std::isalnum(static_cast<unsigned char>(file[word.size()])));
  };
  std::vector<fs::path> files, chosen;
  bool has_splits = false;
  const auto look = [&](const fs::path& where, bool inside_split) {
    if (!fs::is_directory(where)) return;
    for (const auto& entry : fs::directory_iterator(where)) {
      const std::string extension = entry.path().extension().string(), name = entry.path().filename().string();
      if (!entry.is_regular_file() || (extension != ".jsonl" && extension != ".json" && extension != ".parquet"))
        continue;
      for (const char* word : {"train", "test", "validation", "valid", "dev", "eval"})
        has_splits = has_splits || inside_split || named(name, word);
      files.push_back(entry.path());
      if (inside_split || named(name, split)) chosen.push_back(entry.path());
    }
  };
  look(folder, false), look(folder / "data", false), look(folder / std::string(split), true);
  if (!has_splits && split == "train") chosen = files;
  if (chosen.empty())
    throw data_error(folder.string() + ": no .jsonl, .json or .parquet file of the split '" + printable(split) +
                     "' among its " + std::to_string(files.size()) + " data files");
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

RLCORE_INLINE std::vector<std::filesystem::path> table_files(const std::filesystem::path& place,
                                                             std::string_view split) {
  if (std::filesystem::is_directory(place)) return split_files(place, split);
  if (!place.has_extension() && !std::filesystem::exists(place))
    throw data_error(place.string() + ": no file or folder of this name" + alike_names(place) +
                     "; expected a local .jsonl, .json or .parquet file or a folder of them, nothing is downloaded");
  return {place};
}

RLCORE_INLINE set_files find_set(const std::string& name, const std::string& split) {
  namespace fs = std::filesystem;
  const char* home = std::getenv("HOME");
  const std::size_t at = name.rfind('@');
  std::string path = name.substr(0, at);
  if (home != nullptr && path.starts_with("~/")) path = home + path.substr(1);
  fs::path place = path;
  if (at != std::string::npos) place /= name.substr(at + 1);
  set_files found{place, {place}};
  if (!fs::is_regular_file(place)) {
    if (!fs::is_directory(place))
      throw data_error("data set '" + printable(name) + "': no file or folder " + place.string() + alike_names(place) +
                       "; expected a local .jsonl, .json or .parquet file or a folder of them, nothing is downloaded");
    found.files = split_files(place, split);
  }
  for (const fs::path& file : found.files) check_table(file);
  return found;
}

RLCORE_INLINE table read_set(const set_files& found) {
  if (found.files.size() == 1) return read_table(found.files.front());
  table merged{found.place.string(), {}};
  for (const std::filesystem::path& file : found.files) {
    table part = read_table(file);
    std::move(part.rows.begin(), part.rows.end(), std::back_inserter(merged.rows));
  }
  return merged;
}

RLCORE_INLINE blend open_blend(const blend_settings& s) {
  blend out;
  std::vector<std::size_t> sizes;
  for (const set_files& found : find_sets(s.datasets, s.split)) {
    out.sets.push_back(read_set(found));
    auto& rows = out.sets.back().rows;
    if (rows.empty()) throw data_error(out.sets.back().file + ": no rows");
    if (s.max_samples > 0 && rows.size() > s.max_samples) rows.resize(s.max_samples);
    sizes.push_back(rows.size());
  }
  if (s.probabilities.empty()) {
    out.order = concatenated(sizes);
  } else {
    std::vector<double> probabilities;
    for (const std::string& text : comma_separated(s.probabilities)) {
      double p = 0;
      const auto read = std::from_chars(text.data(), text.data() + text.size(), p);
      if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !(p > 0))
        throw config_error("--dataset_probs " + printable(s.probabilities) + ": '" + printable(text) +
                           "' is not a number above 0");
      probabilities.push_back(p);
    }
    if (probabilities.size() != sizes.size())
      throw config_error("--dataset_probs has " + std::to_string(probabilities.size()) + " numbers for " +
                         std::to_string(sizes.size()) + " data sets");
    out.order = interleaved(sizes, probabilities, s.seed);
  }
  if (s.max_samples > 0 && out.order.size() > s.max_samples) out.order.resize(s.max_samples);
  return out;
}

}  // namespace data
RLCORE_END
#endif
