// Fingerprint text of a supervised run's rows, stored in settings.json.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlcore/data/image_file.hpp"
#include "rlcore/data/sft_dataset.hpp"
#include "rlcore/trainer/preference/row_types.hpp"
#include "rlcore/training/files/fingerprint.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {

template <class Number>
void add_numbers(fingerprint& hash, const std::vector<Number>& numbers) {
  hash.add(std::uint64_t{numbers.size()});
  for (const Number x : numbers) hash.add(std::bit_cast<std::uint64_t>(static_cast<double>(x)));
}
inline void add_row(fingerprint& hash, const data::sft_example& e) {
  hash.add(e.tokens);
  add_numbers(hash, e.written);
}
inline void add_row(fingerprint& hash, const preference_pair& p) {
  hash.add(p.chosen), hash.add(p.rejected);
  hash.add(std::uint64_t{p.prompt_length});
  hash.add(std::bit_cast<std::uint64_t>(p.margin));
}
inline void add_row(fingerprint& hash, const unpaired_row& r) {
  hash.add(r.tokens);
  hash.add(std::uint64_t{r.prompt_length});
  hash.add(std::uint64_t{r.desirable});
}
inline void add_row(fingerprint& hash, const judged_row& r) {
  hash.add(r.tokens), hash.add(r.steps), hash.add(r.labels);
  add_numbers(hash, r.probabilities);
}
inline const std::vector<data::image_pointer>& pictures_in(const unpaired_row& r) { return r.text.images; }
template <class Row>
const std::vector<data::image_pointer>& pictures_in(const Row& r) {
  return r.images;
}

}  // namespace detail

/// "18 rows, fingerprint 0123456789abcdef": equal if tokens, pictures and labels are, in the same order.
template <class Row>
std::string data_text(const std::vector<Row>& rows) {
  fingerprint hash;
  for (const Row& row : rows) {
    detail::add_row(hash, row);
    for (const data::image_pointer& i : detail::pictures_in(row)) hash.add(i->hash.low), hash.add(i->hash.high);
  }
  return std::to_string(rows.size()) + " rows, fingerprint " + hash.text();
}

}  // namespace trainer
RLCORE_END
