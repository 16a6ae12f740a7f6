// What a server asks of an engine: jobs come and go, and a listener is told their tokens one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/rollout/job.hpp"
#include "rlcore/rollout/request.hpp"

RLCORE_BEGIN
namespace serving {

/// A token, its log-prob, and the most likely tokens at its place (most likely first).
struct scored_token {
  std::int32_t id = 0;
  float logp = 0;
  std::vector<rollout::token_logprob> most_likely{};
  std::int64_t rank = 0;  ///< its place among all tokens by probability, from 1; 0: unknown
};

/// Hears of the jobs of one submission, `job` being their place in it; each job's calls come in the order of its text.
/// The engine's thread calls, and must not be kept waiting.
class job_listener {
 public:
  virtual ~job_listener() = default;
  /// A token of the prompt, from the second one on, if the job asked for them; before the first on_token().
  virtual void on_prompt(std::size_t job, scored_token token) = 0;
  /// A drawn token, stop tokens included.
  virtual void on_token(std::size_t job, scored_token token) = 0;
  /// The last call of a job.
  virtual void on_end(std::size_t job, rollout::finish why) = 0;
  /// The engine has broken, or a job could not go on. What else is told of these jobs does not matter any more.
  virtual void on_failure(const std::string& problem) = 0;
};

/// What an engine is doing, and what it has done since its start.
struct engine_load {
  std::size_t running = 0, waiting = 0;
  double cache_usage = 0;  ///< share of the cache's pages in use
  std::uint64_t tokens_fed = 0, tokens_drawn = 0, preemptions = 0, prefix_hits = 0;
  std::uint64_t pictures_read = 0;  ///< by the vision tower
  std::size_t engines = 1;          ///< that these numbers are of
  bool broken = false;              ///< it has failed, and answers nothing any more

  /// Two engines together; their caches are equally large.
  engine_load& operator+=(const engine_load& other) {
    running += other.running, waiting += other.waiting;
    const auto mine = static_cast<double>(engines), theirs = static_cast<double>(other.engines);
    cache_usage = (cache_usage * mine + other.cache_usage * theirs) / (mine + theirs);
    engines += other.engines;
    tokens_fed += other.tokens_fed, tokens_drawn += other.tokens_drawn;
    preemptions += other.preemptions, prefix_hits += other.prefix_hits;
    pictures_read += other.pictures_read, broken = broken || other.broken;
    return *this;
  }
};

/// An engine that takes jobs from any thread.
class generator {
 public:
  virtual ~generator() = default;
  /// Throws config_error for a job that submit() would refuse.
  virtual void check(const rollout::job&) const {}
  /// Takes jobs, which may wait without limit of time; their tickets in order. Throws config_error for a bad job.
  virtual std::vector<rollout::ticket> submit(std::vector<rollout::job> jobs,
                                              std::shared_ptr<job_listener> listener) = 0;
  /// Ends a job within a pass, if it has not ended: rollout::finish::cancelled.
  virtual void cancel(rollout::ticket which) = 0;
  /// May be asked at any time, also while a pass runs.
  virtual engine_load load() const = 0;
};

}  // namespace serving
RLCORE_END
