// Memory check: all responses of a step are in memory at the same time.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rlcore/core/error.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace trainer {

/// Responses that are in memory together.
struct response_count {
  std::string key;  ///< that sets the number of samples
  std::int64_t prompts = 0, samples = 0;
  std::string ways_out;                     ///< keys that reduce it
  const char* name = "trajectories";        ///< name of a response in messages
  std::size_t object = sizeof(trajectory);  ///< its size without tokens
};

/// Bytes of a trajectory: of each its number, of a token of the response a log-prob and an entropy.
/// `object` is the size of what holds them.
inline double trajectory_bytes(double prompt_tokens, double response_tokens, std::size_t object = sizeof(trajectory)) {
  return static_cast<double>(object) + sizeof(std::int32_t) * (prompt_tokens + response_tokens) +
         2 * sizeof(float) * response_tokens;
}

/// Mean tokens of a prompt.
inline double mean_tokens(const data::prompt_dataset& prompts) {
  double sum = 0;
  for (const data::prompt& p : prompts.prompts) sum += static_cast<double>(p.ids.size());
  return prompts.size() == 0 ? 0 : sum / static_cast<double>(prompts.size());
}

/// Throws config_error with the numbers if the responses do not fit in `available` bytes even with one token each.
/// Returns a warning if they do not fit with `longest` tokens each, else "". Without `available` there is no limit.
inline std::string check_memory(const response_count& n, double prompt_tokens, std::int64_t longest,
                                std::optional<std::size_t> available) {
  if (!available) return {};
  const double count = static_cast<double>(n.prompts) * static_cast<double>(n.samples),
               least = trajectory_bytes(prompt_tokens, 1, n.object),
               most = trajectory_bytes(prompt_tokens, static_cast<double>(longest), n.object),
               there = static_cast<double>(*available);
  const auto gigabytes = [](double bytes) { return fmt::format("{:.3g} GB", bytes * 1e-9); };
  const std::string sum = fmt::format("{}={}: {} prompts x {} samples are {:.0f} {}", n.key, n.samples, n.prompts,
                                      n.samples, count, n.name),
                    rest = gigabytes(there) + " of memory are available here";
  if (count * least > there)
    throw config_error(fmt::format("{} of at least {:.0f} bytes each, {} together, but {}; lower {}", sum, least,
                                   gigabytes(count * least), rest, n.ways_out));
  if (count * most <= there) return {};
  return fmt::format("{} of up to {:.0f} bytes each if all have {} tokens, {} together, but {}", sum, most, longest,
                     gigabytes(count * most), rest);
}

}  // namespace trainer
RLCORE_END
