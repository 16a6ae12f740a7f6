// Examples for supervised fine-tuning: a prompt, the response to be learnt, and which predictions count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/truncation.hpp"

RLCORE_BEGIN
namespace data {

/// One row of tokens. The prediction made at position t is about token t + 1; it counts when that token is of the
/// response, so the first response token and the EOS are learnt.
struct sft_example {
  std::vector<std::int32_t> tokens;
  std::size_t prompt_length = 0;

  bool counts(std::size_t t) const noexcept { return t + 1 >= prompt_length && t + 1 < tokens.size(); }
  /// One entry per token: 1 from prompt_length - 1 to tokens.size() - 2, otherwise 0.
  std::vector<std::uint8_t> loss_mask() const {
    std::vector<std::uint8_t> mask(tokens.size());
    for (std::size_t t = 0; t < mask.size(); ++t) mask[t] = counts(t);
    return mask;
  }
};

/// prompt + response + eos, at most `max_length` tokens (0: no limit) as `how` says (no `middle`). Throws data_error
/// starting with `where` when the prompt is empty, the row is too long, or truncation leaves nothing to learn.
inline sft_example make_sft_example(std::span<const std::int32_t> prompt, std::span<const std::int32_t> response,
                                    std::int32_t eos, std::size_t max_length, truncation how,
                                    const std::string& where) {
  if (prompt.empty()) throw data_error(where + ": the prompt has no tokens");
  if (how == truncation::middle) throw config_error("data.truncation=middle is not for supervised rows");
  sft_example example;
  example.tokens.reserve(prompt.size() + response.size() + 1);
  example.tokens.assign(prompt.begin(), prompt.end());
  example.tokens.insert(example.tokens.end(), response.begin(), response.end());
  example.tokens.push_back(eos);
  const std::size_t length = example.tokens.size();
  truncate(example.tokens, max_length, how, where, "data.max_length");
  const std::size_t removed = how == truncation::left ? length - example.tokens.size() : 0;
  example.prompt_length = prompt.size() > removed ? prompt.size() - removed : 0;
  if (example.tokens.size() < 2 || example.prompt_length >= example.tokens.size())
    throw data_error(where + ": nothing of the response is left within data.max_length " + std::to_string(max_length));
  return example;
}

}  // namespace data
RLCORE_END
