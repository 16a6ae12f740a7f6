// Online generation engine: jobs can be submitted and cancelled at any time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/timeline.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/rollout/logit_rules.hpp"
#include "rlcore/rollout/pass_results.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/schedule.hpp"
#include "rlcore/rollout/sequence.hpp"
#include "rlcore/rollout/session_memory.hpp"

RLCORE_BEGIN
namespace rollout {

/// Runs submitted jobs. One thread calls step() and wait(); all other functions are thread-safe and take effect between
/// two passes. The text of a job depends only on the weights and the fields of job, not on the batch or the arrival
/// time. See docs/rollout.md.
template <rlcore::device Device>
class session {
 public:
  /// Allocates all memory up front. Model, workspace and the ranks of a group must outlive this, and no other code may
  /// use them while step() runs. Limits apply per rank. Throws config_error if the limits leave no room for a sequence.
  session(const nn::causal_lm<Device>& model, nn::workspace<Device>& space, const session_limits& limits,
          const rank_group<Device>* group = nullptr)
      : model_(model),
        space_(space),
        own_(std::make_unique<session_memory<Device>>()),
        memory_(*own_),
        ranks_(model, space, memory_, group) {
    start(prepare(limits), true, limits.weights);
  }
  /// Uses memory prepared by the caller, as engine does for one generate() call.
  session(const nn::causal_lm<Device>& model, nn::workspace<Device>& space, const schedule_limits& limits,
          bool share_prompts, std::optional<weight_format> weights, session_memory<Device>& memory)
      : model_(model), space_(space), memory_(memory), ranks_(model, space, memory, nullptr) {
    start(limits, share_prompts, weights);
  }
  /// Frees the pages of unfinished jobs.
  ~session() { schedule_.forget_pages(); }
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// Maximum tokens of a sequence, including the prompt.
  std::int64_t max_length() const noexcept { return limits_.longest; }

  /// Bytes of KV cache and image rows: at most max_cache_bytes.
  std::size_t cache_bytes() const noexcept { return memory_.bytes(); }

  /// Throws config_error for a job that submit() would refuse.
  void check(job asked) const { make_sequence(std::move(asked)); }
  /// Queues a job. Throws config_error, a sentence, if the job is invalid.
  ticket submit(job asked) { return submit(std::vector<job>(1, std::move(asked))).front(); }
  /// Queues jobs as a group: jobs with the same prompt prefill it once. Queues all or none: if one is invalid, none.
  std::vector<ticket> submit(std::vector<job> asked) {
    std::vector<std::unique_ptr<sequence>> made;
    for (job& j : asked) made.push_back(make_sequence(std::move(j)));
    std::vector<ticket> tickets;
    const std::lock_guard lock(mutex_);
    for (auto& s : made) tickets.push_back(add(std::move(s)));
    return tickets;
  }
  /// Cancels a job in any state; reports finish::cancelled. Ignores jobs that have ended.
  void cancel(ticket number) {
    const std::lock_guard lock(mutex_);
    const auto found = sequences_.find(number);
    if (found == sequences_.end() || std::exchange(found->second->cancelled, true)) return;
    cancelled_.push_back(number);
    work_.notify_all();
  }
  /// Starts the next turn of a job: appends `tokens` and draws up to `max_new_tokens` more; it pauses after
  /// `pause_after` of them, unless that is 0. The appended tokens are prefilled and count like drawn ones in the
  /// numbers of later tokens. The images remain those of the prompt. Throws config_error.
  void extend(ticket number, std::span<const std::int32_t> tokens, std::int64_t max_new_tokens,
              std::int64_t pause_after = 0) {
    const std::lock_guard lock(mutex_);
    sequence& s = find(number);
    if (s.plan.where != sequence::scheduled::state::open || s.reason == finish::paused)
      throw config_error("job " + std::to_string(number) + " cannot be extended before its turn ends");
    check_vocabulary(tokens, model_.settings().vocab_size, "a token to append");
    if (const nn::config& c = model_.settings(); c.vision && std::ranges::count(tokens, c.image_token_id) > 0)
      throw config_error("a token to append stands for an image: images belong into the prompt");
    check_length(std::ssize(s.tokens) + std::ssize(tokens), max_new_tokens);
    if (s.asked.rules) check_rules(*s.asked.rules, max_new_tokens);
    s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.end());
    s.begin_turn(max_new_tokens);
    s.pause_after(pause_after);
    schedule_.add(s);
    work_.notify_all();
  }
  /// Continues a turn that has paused, for `more` tokens; 0: to its end. Throws config_error.
  void go_on(ticket number, std::int64_t more) {
    const std::lock_guard lock(mutex_);
    sequence& s = find(number);
    if (s.plan.where != sequence::scheduled::state::open || s.reason != finish::paused)
      throw config_error("job " + std::to_string(number) + " has not paused");
    s.pause_after(more);
    schedule_.add(s);
    work_.notify_all();
  }
  /// Forks a job: the new job has the same tokens and fields, except the sample number. If the original is between two
  /// turns or has paused, so has the fork; otherwise the fork also continues to draw. Throws config_error if the job
  /// has ended.
  ticket fork(ticket number, std::uint32_t sample) {
    const std::lock_guard lock(mutex_);
    const sequence& from = find(number);
    auto copy = std::make_unique<sequence>(from);
    copy->asked.sample = sample;
    copy->number = ++last_;
    copy->plan = {};
    copy->plan.scored = from.plan.scored;
    if (from.plan.where != sequence::scheduled::state::open) schedule_.add(*copy);
    sequences_.emplace(last_, std::move(copy));
    work_.notify_all();
    return last_;
  }

  /// Pauses generation and returns between two passes; step() does nothing until resume() has been called once for each
  /// pause(). The weights may change meanwhile.
  void pause() {
    std::unique_lock lock(mutex_);
    ++pauses_;
    between_passes_.wait(lock, [&] { return !in_pass_; });
  }
  /// The last resume() continues generation. Re-prefills all sequences with the current weights; each token keeps the
  /// log-prob of the weights that drew it. Does nothing without a pause().
  void resume() {
    std::unique_lock lock(mutex_);
    between_passes_.wait(lock, [&] { return !in_pass_ || pauses_ == 0; });
    if (pauses_ == 0 || --pauses_ > 0) return;
    schedule_.forget_pages();
    ranks_.each([](auto& memory) { memory.images.forget_rows(); });
    work_.notify_all();
  }

  /// One pass: plan, feed, draw, accept. Reports events to the listener, which may call all functions but step() and
  /// wait(). Returns false if there was nothing to do. A job whose logits are not finite ends with finish::failed, and
  /// no other job does. If the device throws, the session does not change. Events that were not reported because of an
  /// exception are reported by the next call.
  template <class Listener>
  bool step(Listener&& listener) {
    if (told_ == events_.size()) {
      events_.clear(), told_ = 0;
      if (!make_pass() && events_.empty()) return false;
    }
    report(listener);
    return true;
  }
  /// Waits until step() has work, at most `longest`.
  void wait(std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex_);
    work_.wait_for(lock, longest, [&] {
      return told_ < events_.size() || !cancelled_.empty() || (pauses_ == 0 && !schedule_.idle());
    });
  }

  /// Current statistics.
  session_statistics statistics() const {
    const std::lock_guard lock(mutex_);
    const page_pool& pool = memory_.pool;
    const std::size_t running = schedule_.running(), waiting = schedule_.waiting();
    return {running,
            waiting,
            sequences_.size() - running - waiting,
            pool.pages() - pool.available(),
            pool.pages(),
            schedule_.passes(),
            schedule_.tokens_fed(),
            schedule_.tokens_drawn(),
            schedule_.prefix_hits(),
            schedule_.preemptions(),
            images_read_};
  }

 private:
  struct ended_turn {
    ticket of = 0;
    finish reason = finish::length;
    std::string problem = {};  ///< of finish::failed
  };
  using event = std::variant<prompt_token, drawn_token, ended_turn>;

  template <class Listener>
  void report(Listener& listener) {
    while (told_ < events_.size()) {
      const event& e = events_[told_++];  // the listener may throw
      if (const auto* prompt = std::get_if<prompt_token>(&e)) {
        listener.on_prompt(*prompt);
      } else if (const auto* token = std::get_if<drawn_token>(&e)) {
        listener.on_token(*token);
      } else {
        const auto& [of, reason, problem] = std::get<ended_turn>(e);
        if (reason == finish::failed) listener.on_failure(of, problem);
        listener.on_end(of, reason);
      }
    }
  }

  void start(const schedule_limits& limits, bool share_prompts, std::optional<weight_format> weights) {
    limits_ = limits, share_prompts_ = share_prompts, weights_ = weights;
    schedule_.start(limits, memory_.pool);
  }

  schedule_limits prepare(const session_limits& limits) {
    if (limits.max_sequences <= 0 || limits.max_batched_tokens <= 0 || limits.max_length < 0 ||
        limits.max_image_tokens < 0 || limits.max_prompt_tokens < 0)
      throw config_error("session: max_sequences and max_batched_tokens must be positive, other limits not negative");
    const nn::config& c = model_.settings();
    most_rows_ = limits.max_image_tokens > 0 ? limits.max_image_tokens : limits.max_batched_tokens;
    const std::int64_t rows = c.vision ? limits.max_batched_tokens + 3 * most_rows_ : 0;
    ranks_.start(rows);
    const std::int64_t pages = memory_.pages_within(model_, limits.max_cache_bytes);
    const std::int64_t wanted = limits.max_length > 0 ? limits.max_length : c.max_position_embeddings;
    const std::int64_t longest = std::min(wanted, pages * kv_page + 1);
    if (wanted > c.max_position_embeddings || (longest < wanted && limits.max_length > 0) || longest < 2)
      throw config_error("session: sequences of " + std::to_string(wanted) + " tokens, expected at most " +
                         std::to_string(std::min(c.max_position_embeddings, pages * kv_page + 1)) + ": the model has " +
                         std::to_string(c.max_position_embeddings) + " positions, and " +
                         std::to_string(limits.max_cache_bytes) + " bytes of cache hold " +
                         std::to_string(pages * kv_page) + " tokens");
    const std::int64_t slots = nn::logit_rows(model_, space_, static_cast<extent_t>(limits.max_sequences));
    const std::int64_t scores = nn::logit_rows(model_, space_, 32);
    ranks_.prepare(pages, slots + scores, static_cast<extent_t>(longest));
    schedule_limits made{slots, limits.max_batched_tokens, longest, scores, rows};
    made.share_prefixes = limits.share_prefixes, made.chunk_prompts = limits.chunk_prompts;
    made.prompt_tokens = limits.max_prompt_tokens;
    return made;
  }

  /// Validates the job outside of the lock.
  std::unique_ptr<sequence> make_sequence(job asked) const {
    asked = complete_job(std::move(asked), model_.settings());
    if (asked.rules) check_rules(*asked.rules, asked.max_new_tokens);
    check_length(std::ssize(asked.prompt) + static_cast<std::int64_t>(asked.turn), asked.max_new_tokens);
    auto s = std::make_unique<sequence>();
    const nn::config& c = model_.settings();
    if (!asked.images.empty() && !c.vision)
      throw config_error("the prompt has images, and the model reads none (no vision_config)");
    if (!asked.images.empty() && own_ && !asked.pixels)
      throw config_error("the prompt has images, and nothing owns them (job::pixels)");
    try {
      if (!asked.images.empty() || (c.vision && std::ranges::count(asked.prompt, c.image_token_id) > 0))
        s->shown = std::make_shared<image_prompt>(c, asked.prompt, asked.images, asked.pixels);
    } catch (const std::invalid_argument& e) {
      throw config_error(e.what());
    }
    if (s->shown && own_ && s->shown->rows() > most_rows_)
      throw config_error("the prompt's images have " + std::to_string(s->shown->rows()) +
                         " tokens, expected at most max_image_tokens = " + std::to_string(most_rows_));
    s->start(std::move(asked));
    return s;
  }
  void check_rules(const logit_rules& rules, std::int64_t max_new_tokens) const {
    rules.validate(model_.settings().vocab_size, max_new_tokens, model_.settings().never_sampled());
  }
  void check_length(std::int64_t tokens, std::int64_t more) const {
    if (more <= 0) throw config_error("max_new_tokens=" + std::to_string(more) + " must be positive");
    if (more > limits_.longest - tokens)
      throw config_error(std::to_string(tokens) + " tokens and up to " + std::to_string(more) +
                         " new ones exceed the longest sequence, " + std::to_string(limits_.longest) + " tokens");
  }

  ticket add(std::unique_ptr<sequence> s) {
    const auto before = sequences_.find(last_);
    const bool same = before != sequences_.end() && same_prompt(*s, *before->second);
    if (same) s->shown = before->second->shown;
    s->group = same && share_prompts_ && s->shares_with(*before->second) ? before->second->group : ++last_group_;
    s->number = ++last_;
    schedule_.add(*s);
    sequences_.emplace(last_, std::move(s));
    work_.notify_all();
    return last_;
  }
  sequence& find(ticket number) {
    const auto found = sequences_.find(number);
    if (found == sequences_.end() || found->second->cancelled)
      throw config_error("job " + std::to_string(number) + " has ended");
    return *found->second;
  }

  /// Runs a pass if there is work. Returns true if it ran one.
  bool make_pass() {
    if (!begin_pass()) return false;
    const timeline::span traced("sampling pass", "draws", std::ssize(schedule_.draws()));
    try {
      ranks_.feed(schedule_, weights_);
      memory_.results.read(model_, memory_.logits.data(), schedule_.draws(), schedule_.scores());
    } catch (...) {
      end_pass(false);
      throw;
    }
    end_pass(true);
    return true;
  }
  bool begin_pass() {
    const std::lock_guard lock(mutex_);
    for (const ticket number : cancelled_) {
      schedule_.remove(*sequences_.at(number));
      sequences_.erase(number);
      events_.push_back(ended_turn{number, finish::cancelled});
    }
    cancelled_.clear();
    if (pauses_ > 0 || schedule_.idle()) return false;
    schedule_.plan();
    return in_pass_ = true;
  }
  void end_pass(bool good) {
    const std::lock_guard lock(mutex_);
    in_pass_ = false;
    between_passes_.notify_all();
    ranks_.each([](auto& memory) { memory.images.forget(); });
    images_read_ = memory_.images.images_read();
    if (!good) return schedule_.forget_pages();
    const pass_results<Device>& results = memory_.results;
    schedule_.accept(results.tokens());
    std::vector<std::pair<sequence*, std::string>> unscored;
    const std::span<const scheduled_score> scores = schedule_.scores();
    for (std::size_t i = 0; i < scores.size(); ++i) {
      sequence* const s = scores[i].of;
      if (s->cancelled || (!unscored.empty() && unscored.back().first == s)) continue;
      if (std::string problem = results.score_problem(i, scores[i]); problem.empty())
        events_.push_back(results.scored(i, scores[i]));
      else
        unscored.emplace_back(s, std::move(problem));
    }
    const std::span<const scheduled_draw> draws = schedule_.draws();
    for (std::size_t i = 0; i < draws.size(); ++i) {
      const sequence& s = *draws[i].of;
      if (s.cancelled) continue;
      const std::string& problem = results.problem(i);
      if (problem.empty()) events_.push_back(results.drawn(i, draws[i]));
      if (s.plan.where != sequence::scheduled::state::open) continue;
      end_turn(s, problem);
    }
    for (auto& [s, problem] : unscored) {
      schedule_.remove(*s);
      s->reason = finish::failed;
      end_turn(*s, problem);
    }
  }
  void end_turn(const sequence& s, const std::string& problem) {
    events_.push_back(ended_turn{s.number, s.reason, problem});
    if (!s.asked.keep_open) sequences_.erase(s.number);
  }

  const nn::causal_lm<Device>& model_;
  nn::workspace<Device>& space_;
  std::unique_ptr<session_memory<Device>> own_;
  session_memory<Device>& memory_;
  session_ranks<Device> ranks_;
  schedule_limits limits_;
  std::int64_t most_rows_ = 0;  ///< tower rows per prompt; unless the caller prepared the memory
  bool share_prompts_ = true;
  std::optional<weight_format> weights_;

  mutable std::mutex mutex_;  ///< not held during device work and listener calls
  std::condition_variable work_, between_passes_;
  bool in_pass_ = false;
  std::size_t pauses_ = 0, told_ = 0, images_read_ = 0;
  schedule schedule_;
  std::unordered_map<ticket, std::unique_ptr<sequence>> sequences_;
  std::vector<ticket> cancelled_;
  ticket last_ = 0;
  std::uint64_t last_group_ = 0;

  std::vector<event> events_;  ///< the first told_ have been reported
};

}  // namespace rollout
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace rollout {
extern template class session<cpu>;
extern template class session<any_device>;
}  // namespace rollout
RLCORE_END
#endif
