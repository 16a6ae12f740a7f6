// A sequence of the scheduler.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/vision/positions.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/ruled_logits.hpp"

RLCORE_BEGIN
namespace rollout {

/// The images of a prompt and the rope positions of its tokens. A token after the prompt has position index + `delta`.
struct image_prompt {
  std::vector<nn::image_patches> images;
  std::shared_ptr<const void> pixels;  ///< owns the data that the images view
  std::vector<nn::rope_position> positions;
  std::vector<std::int64_t> first_token, rows_before;  ///< per image; tower rows before each token
  std::int32_t delta = 0;
  std::size_t readers = 0;    ///< sequences that still have to prefill the prompt
  std::size_t last_pass = 0;  ///< the last pass that read the rows

  /// Throws std::invalid_argument if the images do not match the image tokens.
  image_prompt(const nn::config& c, std::span<const std::int32_t> tokens, std::span<const nn::image_patches> shown,
               std::shared_ptr<const void> owner)
      : images(shown.begin(), shown.end()), pixels(std::move(owner)) {
    std::vector<nn::patch_grid> grids;
    for (const nn::image_patches& each : images) grids.push_back(each.grid);
    nn::rope_positions all = nn::make_rope_positions(tokens, c.image_token_id, grids, c.vision->spatial_merge_size);
    positions = std::move(all.positions), delta = all.delta;
    rows_before.reserve(tokens.size() + 1);
    std::int64_t row = 0, next = 0;  // the first row of the next image
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      rows_before.push_back(row);
      if (tokens[i] != c.image_token_id) continue;
      if (row++ != next) continue;
      const nn::patch_grid& grid = grids[first_token.size()];
      const std::int64_t merge = c.vision->spatial_merge_size;
      next += (grid.height / merge) * (grid.width / merge);
      first_token.push_back(static_cast<std::int64_t>(i));
    }
    rows_before.push_back(row);
  }

  /// Tower rows of all images.
  std::int64_t rows() const noexcept { return rows_before.back(); }
  /// Tower rows before the token at `position`.
  std::int64_t rows_until(std::int64_t position) const {
    return rows_before[static_cast<std::size_t>(std::min(position, std::ssize(rows_before) - 1))];
  }
  /// Does [begin, end) contain an image token?
  bool shows(std::int64_t begin, std::int64_t end) const { return rows_until(begin) < rows_until(end); }
  /// The images whose first token is in [begin, end).
  std::span<const nn::image_patches> images_in(std::int64_t begin, std::int64_t end) const {
    const auto first = std::ranges::lower_bound(first_token, begin), last = std::ranges::lower_bound(first_token, end);
    return std::span(images).subspan(static_cast<std::size_t>(first - first_token.begin()),
                                     static_cast<std::size_t>(last - first));
  }
};

/// The tokens of a job and its progress.
struct sequence {
  ticket number = 0;  ///< later ones are larger
  job asked;          ///< without its prompt, which is in the tokens
  std::vector<std::int32_t> tokens;
  std::int64_t prompt_length = 0;
  std::int64_t turn = 0, longest = 0;        ///< tokens at the start of this turn; maximum at its end
  std::int64_t pause_at = 0;                 ///< tokens at which the turn pauses; 0: none
  std::uint64_t group = 0;                   ///< equal for adjacent sequences with the same prompt
  std::shared_ptr<image_prompt> shown = {};  ///< null for a text-only prompt
  finish reason = finish::length;            ///< of the last turn
  bool cancelled = false;
  token_history history = {};  ///< of the turn, if the rules need it

  /// State owned by schedule.
  struct scheduled {
    /// open: between two turns, or finished.
    enum class state { open, waiting, running };
    state where = state::open;
    std::int32_t slot = 0;
    std::int32_t first_page = 0;  ///< the leader still has to fill the pages before it
    std::int32_t pages = 0, most_pages = 0;
    std::int64_t fed = 0;                        ///< tokens in the KV cache, including this pass
    sequence* leader = nullptr;                  ///< the sequence that prefills the prompt
    std::int32_t chunk = 0, row = 0, draws = 0;  ///< of this pass
    bool reads_prompt = false;                   ///< this pass feeds the prompt's last token
    bool counted = false;                        ///< as a reader of the prompt's images
    std::int64_t remembered = 0;                 ///< pages known to the prefix cache,
    std::uint64_t last_page = 0;                 ///< and the number of the last one's content
    std::int64_t scored = 0;                     ///< prompt tokens whose next token is scored
  } plan;

  /// The rules of its next logits row.
  ruled_row rules() const noexcept {
    return {asked.rules.get(), &history, std::span(tokens).subspan(static_cast<std::size_t>(turn))};
  }
  /// Appends a drawn token.
  void append(std::int32_t token) {
    tokens.push_back(token);
    if (asked.rules && asked.rules->penalises()) history.add(token);
  }
  /// Number of tokens after the prompt.
  std::int64_t response_length() const noexcept { return std::ssize(tokens) - prompt_length; }
  /// Takes a job: its prompt, and what is written behind it.
  void start(job taken) {
    prompt_length = std::ssize(taken.prompt);
    tokens = std::move(taken.prompt);
    const std::vector<std::int32_t> written = std::exchange(taken.written, {});
    const auto first = written.begin() + static_cast<std::ptrdiff_t>(taken.turn);
    asked = std::move(taken);
    tokens.insert(tokens.end(), written.begin(), first);
    begin_turn(asked.max_new_tokens, {first, written.end()});
    pause_after(asked.pause_after);
  }
  /// Starts a turn of up to `max_new_tokens` tokens, of which `written` are drawn already.
  void begin_turn(std::int64_t max_new_tokens, std::span<const std::int32_t> written = {}) {
    turn = std::ssize(tokens);
    longest = turn + max_new_tokens, pause_at = 0;
    if (asked.rules && asked.rules->penalises()) history.start(tokens);
    for (const std::int32_t token : written) append(token);
  }
  /// Lets the turn draw `more` tokens before it pauses; 0: until its end.
  void pause_after(std::int64_t more) noexcept { pause_at = more > 0 ? std::ssize(tokens) + more : 0; }
  /// Is it decoding, with only the last drawn token to feed? Only such a sequence may need another page.
  bool draws_next() const noexcept {
    return response_length() > 0 && plan.fed >= prompt_length && plan.fed + 1 == std::ssize(tokens);
  }
  /// Are requested prompt log-probs still missing?
  bool unscored() const noexcept { return asked.prompt_logprobs && plan.scored + 1 < prompt_length; }
  /// Registers as a reader of the prompt's images.
  void will_read() {
    if (!std::exchange(plan.counted, true) && shown) ++shown->readers;
  }
  /// Unregisters as a reader of the prompt's images.
  void has_read() {
    if (std::exchange(plan.counted, false) && shown) --shown->readers;
  }
  /// Its sampling and log-prob settings.
  std::tuple<float, std::int64_t, float, float, float, bool, bool> reading() const noexcept {
    const rollout::sampling& s = asked.sampling;
    return {s.temperature,
            s.top_k,
            s.top_p,
            s.min_p,
            asked.logprob_temperature.value_or(0),
            asked.processed_logprobs,
            asked.keep_sampling_mask};
  }
  /// Given the same prompt: may the later sequence follow the earlier one?
  bool shares_with(const sequence& other) const noexcept {
    return asked.salt == other.asked.salt && asked.priority == other.asked.priority && !asked.prompt_logprobs &&
           !other.asked.prompt_logprobs;
  }
  /// Does it start before `other`?
  bool before(const sequence& other) const noexcept {
    return asked.priority != other.asked.priority ? asked.priority < other.asked.priority : number < other.number;
  }
};

/// A heap ordered by (priority, arrival). A preempted sequence keeps its arrival position.
class waiting_list {
 public:
  bool empty() const noexcept { return heap_.empty(); }
  std::size_t size() const noexcept { return heap_.size(); }
  /// The sequence that starts next.
  sequence& next() const { return *heap_.front(); }

  /// Adds a sequence; it must live until it is taken or removed.
  void add(sequence& s) {
    heap_.push_back(&s);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  /// Removes next().
  void take() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
  }
  /// Removes a sequence at any position.
  void remove(const sequence& s) {
    std::erase(heap_, &s);
    std::make_heap(heap_.begin(), heap_.end(), later);
  }
  void clear() { heap_.clear(); }

 private:
  static bool later(const sequence* a, const sequence* b) { return b->before(*a); }

  std::vector<sequence*> heap_;
};

/// Throws config_error, which begins with `what`, for a token that is not in the vocabulary.
inline void check_vocabulary(std::span<const std::int32_t> tokens, std::int64_t vocabulary, const char* what) {
  for (const std::int32_t token : tokens)
    if (token < 0 || token >= vocabulary)
      throw config_error(std::string(what) + " " + std::to_string(token) + " is not in the vocabulary of " +
                         std::to_string(vocabulary) + " tokens");
}

/// The job, with stop_ids as the ids that min_tokens keeps back. Throws config_error for what no session would take.
inline job complete_job(job asked, const nn::config& model) {
  asked.sampling.validate();
  asked.check_logprobs();
  if (asked.prompt.empty()) throw config_error("the prompt has no token");
  check_vocabulary(asked.prompt, model.vocab_size, "the prompt's token");
  check_vocabulary(asked.written, model.vocab_size, "the response's token");
  if (model.vision && std::ranges::count(asked.written, model.image_token_id) > 0)
    throw config_error("the response has a token that stands for an image: images belong into the prompt");
  if (asked.pause_after < 0 || (asked.pause_after > 0 && !asked.keep_open))
    throw config_error("pause_after=" + std::to_string(asked.pause_after) +
                       ": expected at least 0, and more than 0 only with keep_open");
  if (asked.turn > asked.written.size())
    throw config_error("the turn begins at token " + std::to_string(asked.turn) + " of " +
                       std::to_string(asked.written.size()) + " that are written");
  if (const std::size_t drawn = asked.written.size() - asked.turn;
      drawn > 0 && static_cast<std::int64_t>(drawn) >= asked.max_new_tokens)
    throw config_error(std::to_string(drawn) + " tokens of at most " + std::to_string(asked.max_new_tokens) +
                       " are written: nothing is left to draw");
  if (asked.rules && asked.rules->min_tokens > 0 && asked.rules->ending_ids.empty()) {
    auto rules = std::make_shared<logit_rules>(*asked.rules);
    rules->ending_ids = asked.stop_ids;
    asked.rules = std::move(rules);
  }
  return asked;
}

}  // namespace rollout
RLCORE_END
