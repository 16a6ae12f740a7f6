// An engine without a model: tests say which tokens a job draws.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/serving/context.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/served_model.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/text/train_bpe.hpp"

namespace scripted {

using ids = std::vector<std::int32_t>;

/// Bytes, a few merged words and the tokens of ChatML: what is not ASCII is split over tokens.
inline const rlcore::text::tokenizer& tokenizer() {
  static const rlcore::text::tokenizer only = [] {
    const std::vector<std::string> corpus{"user assistant user assistant the the"},
        special{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    return rlcore::text::train_bpe(corpus, 262, special);
  }();
  return only;
}
inline std::int32_t eos() { return *tokenizer().id_of("<|im_end|>"); }

inline rlcore::serving::served_model model() {
  rlcore::serving::served_model m{.names = {"tiny", "other"}, .folder = "/models/tiny", .tokenizer = tokenizer()};
  m.chat = rlcore::text::chat_template::named("qwen2.5");
  m.eos_ids = {eos()}, m.eos_id = eos();
  m.max_length = 512, m.vocabulary = static_cast<std::int64_t>(tokenizer().vocab_size());
  m.fingerprint = "weights";
  m.created = 1700000000;
  return m;
}

/// Log-probs that tests can tell apart: -0.125 times the place in the text.
inline float logp_at(std::size_t place) { return -0.125f * static_cast<float>(place + 1); }

/// Draws what `script` says for a job, then EOS; all at once in submit(). With `endless` a thread draws on, a token
/// every millisecond, until the job is cancelled.
class engine final : public rlcore::serving::generator {
 public:
  using job = rlcore::rollout::job;
  std::function<ids(const job&)> script = [](const job&) { return tokenizer().encode("Hello, world"); };
  bool endless = false;
  std::vector<job> seen;  // by submit()
  std::string broken;     // what on_failure() is told
  std::string refused;    // what check() throws

  ~engine() override {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }

  std::vector<rlcore::rollout::ticket> submit(std::vector<job> jobs,
                                              std::shared_ptr<rlcore::serving::job_listener> listener) override {
    const std::lock_guard lock(mutex_);
    std::vector<rlcore::rollout::ticket> tickets;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      seen.push_back(jobs[i]);
      tickets.push_back(++last_);
      if (!broken.empty())
        listener->on_failure(broken);
      else if (endless)
        running_[last_] = {listener, i};
      else
        draw_all(jobs[i], i, *listener);
    }
    if (endless && !thread_.joinable()) thread_ = std::thread([this] { draw_on(); });
    return tickets;
  }
  void check(const job&) const override {
    if (!refused.empty()) throw rlcore::config_error(refused);
  }
  void cancel(rlcore::rollout::ticket which) override {
    const std::lock_guard lock(mutex_);
    const auto at = running_.find(which);
    ++cancelled_;
    if (at == running_.end()) return;
    at->second.first->on_end(at->second.second, rlcore::rollout::finish::cancelled);
    running_.erase(at);
  }
  rlcore::serving::engine_load load() const override {
    const std::lock_guard lock(mutex_);
    return {.running = running_.size(), .waiting = 3, .cache_usage = 0.25};
  }
  std::size_t cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

 private:
  static rlcore::serving::scored_token scored(std::int32_t id, std::size_t place, std::int32_t top) {
    rlcore::serving::scored_token t{id, logp_at(place), {}, 7};
    for (std::int32_t k = 0; k < top; ++k) t.most_likely.push_back({k + 33, -0.0625f * static_cast<float>(k + 1)});
    return t;
  }
  void draw_all(const job& j, std::size_t number, rlcore::serving::job_listener& listener) const {
    if (j.prompt_logprobs)
      for (std::size_t i = 1; i < j.prompt.size(); ++i)
        listener.on_prompt(number, scored(j.prompt[i], i, *j.prompt_logprobs));
    ids text = script(j);
    text.push_back(eos());
    if (j.rules && j.rules->allowed_token_ids.size() == 1) text.assign(1, j.rules->allowed_token_ids[0]);
    for (std::size_t i = 0; i < text.size(); ++i) {
      listener.on_token(number, scored(text[i], i, j.top_logprobs));
      if (std::find(j.stop_ids.begin(), j.stop_ids.end(), text[i]) != j.stop_ids.end())
        return listener.on_end(number, rlcore::rollout::finish::eos);
      if (static_cast<std::int64_t>(i) + 1 == j.max_new_tokens) break;
    }
    listener.on_end(number, rlcore::rollout::finish::length);
  }
  void draw_on() {
    while (!ended_) {
      {
        const std::lock_guard lock(mutex_);
        for (auto& [ticket, to] : running_) to.first->on_token(to.second, scored('a' - '!', 0, 0));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  mutable std::mutex mutex_;
  std::map<rlcore::rollout::ticket, std::pair<std::shared_ptr<rlcore::serving::job_listener>, std::size_t>> running_;
  rlcore::rollout::ticket last_ = 0;
  std::size_t cancelled_ = 0;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

/// A service over such an engine.
struct house {
  rlcore::serving::served_model model = scripted::model();
  scripted::engine engine;
  std::vector<std::string> logged;
  rlcore::serving::context shared{model, engine, [this](const std::string& line) { logged.push_back(line); }};
};

}  // namespace scripted
