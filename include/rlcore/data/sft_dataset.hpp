// A data set of supervised fine-tuning: settings, conversations, images.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/data/template_notes.hpp"
#include "rlcore/data/truncation.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/dropped_parts.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace data {

/// One row of tokens. Position t predicts token t + 1, and it counts in the loss if and only if the assistant wrote
/// that token. So the first token of a response is predicted at the last token before it, and the end mark at the last
/// token of the content.
struct sft_example {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> written;    ///< 1 for a token of the assistant (content, tool call, end mark), otherwise 0
  std::vector<image_pointer> images{};  ///< image k belongs to the k-th run of image tokens

  /// Whether the prediction at position t counts in the loss.
  bool counts(std::size_t t) const noexcept { return t + 1 < tokens.size() && written[t + 1] != 0; }
  /// The number of predictions that count.
  std::size_t trained() const noexcept {
    return written.empty() ? 0 : static_cast<std::size_t>(std::count(written.begin() + 1, written.end(), 1));
  }
  /// counts(t) for every t.
  std::vector<std::uint8_t> loss_mask() const {
    std::vector<std::uint8_t> mask(tokens.size());
    for (std::size_t t = 0; t < mask.size(); ++t) mask[t] = counts(t);
    return mask;
  }

  /// Appends tokens, marked as written by the assistant or not.
  void append(std::span<const std::int32_t> ids, bool by_assistant) {
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    written.resize(tokens.size(), by_assistant);
  }
};

/// Truncates the row and its marks to at most `max_length` tokens (0: no limit) by `mode`; `middle` is not allowed.
/// Throws data_error starting with `where` if the row is too long for truncation::error, or too long and has images, or
/// no trained token is left.
void truncate(sft_example& example, std::size_t max_length, truncation mode, const std::string& where);

/// Makes prompt + response + eos, cut by truncate(). The prompt may have images, with expanded tokens. Throws
/// data_error starting with `where` when the prompt is empty, the row is too long, or truncation leaves no trained
/// token.
sft_example make_sft_example(std::span<const std::int32_t> prompt, std::span<const std::int32_t> response,
                             std::int32_t eos, std::size_t max_length, truncation mode, const std::string& where,
                             std::vector<image_pointer> images = {});

/// The assistant turns that are trained on.
enum class learnt_turns { all, last };

namespace detail {

/// Where the text that opens a turn ends, if it reaches or ends at `begin` in `text`.
inline std::optional<std::size_t> end_of_opening(std::string_view text, std::size_t begin, std::string_view opening) {
  for (std::size_t before = std::min(opening.size(), begin) + 1; before-- > 0 && !opening.empty();)
    if (text.substr(begin - before).starts_with(opening)) return begin - before + opening.size();
  return std::nullopt;
}

}  // namespace detail

/// Renders the conversation with the chat template. Assistant content is tokenized separately from the text before it,
/// as in generation: its tokens never merge with those of the header. (Where they would merge, the tokens differ from
/// those of the whole text; verl also tokenizes the pieces.) Throws data_error if the template drops what the row
/// teaches; `notes` count what else it drops, and answers that do not begin as the template opens them for the model.
inline sft_example conversation_example(const text::chat_template& chat, const text::tokenizer& tokenizer,
                                        std::span<const text::message> messages, const text::render_options& options,
                                        learnt_turns which = learnt_turns::all, template_notes* notes = nullptr,
                                        const std::string& where = {}) {
  const std::vector<text::message> accepted = chat.accepted(messages);
  std::vector<text::written_bytes> written;
  std::vector<text::dropped_part> parts;
  const std::string text = chat.render(accepted, options, written, &parts);
  for (const text::dropped_part& part : parts)
    if (text::is_taught(part, accepted)) throw data_error(chat.text_of(part));
  const auto first = std::ranges::find(accepted, "assistant", &text::message::role) - accepted.begin();
  const std::string opening = chat.opening(accepted, static_cast<std::size_t>(first), options);
  if (notes != nullptr) {
    notes->add(parts, where);
    if (first > 0 && !written.empty() && !opening.empty() && !detail::end_of_opening(text, written[0].begin, opening))
      notes->add(
          "the answer begins otherwise than the chat template opens one (\"" + text::beginning_of(opening) + "\")",
          where);
  }
  if (which == learnt_turns::last && written.size() > 1) written.erase(written.begin(), written.end() - 1);
  sft_example example;
  std::size_t done = 0;
  const auto piece = [&](std::size_t end, bool by_assistant) {
    example.append(tokenizer.encode(std::string_view(text).substr(done, end - done)), by_assistant);
    done = end;
  };
  for (const text::written_bytes& turn : written) {
    // {% generation %} may begin inside the opening, which a prompt ends with: its tokens are those of the prompt.
    const std::size_t opened = detail::end_of_opening(text, turn.begin, opening).value_or(turn.begin);
    if (opened > turn.begin && turn.begin >= done && opened <= turn.end) {
      const auto tokens = [&](std::size_t begin, std::size_t end) {
        return tokenizer.encode(std::string_view(text).substr(begin, end - begin));
      };
      const auto whole = tokens(done, opened), before = tokens(done, turn.begin);
      const std::size_t learnt =
          before.size() + tokens(turn.begin, opened).size() == whole.size() ? before.size() : whole.size();
      example.append(std::span(whole).first(learnt), false);
      example.append(std::span(whole).subspan(learnt), true);
      done = opened;
    }
    piece(std::max(turn.begin, done), false);
    piece(turn.end, true);
  }
  piece(text.size(), false);
  return example;
}

/// Attaches images to an example: each image token is expanded to the image's token count, and image tokens are
/// masked from the loss in every turn. Throws data_error with `where` unless the example has one image token for each
/// image.
inline sft_example with_images(sft_example example, std::vector<image_pointer> images, const image_settings& settings,
                               const std::string& where) {
  check_image_tokens(example.tokens, images.size(), settings, where);
  if (images.empty()) return example;
  sft_example shown;
  shown.images = std::move(images);
  std::size_t at = 0;
  for_expanded_tokens(example.tokens, shown.images, settings, [&](std::int32_t id, std::size_t count) {
    shown.tokens.insert(shown.tokens.end(), count, id);
    shown.written.resize(shown.tokens.size(), id == settings.token ? 0 : example.written[at]);
    ++at;
  });
  return shown;
}

}  // namespace data
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DATA)
RLCORE_BEGIN
namespace data {

RLCORE_INLINE void truncate(sft_example& example, std::size_t max_length, truncation mode, const std::string& where) {
  if (mode == truncation::middle) throw config_error("data.truncation=middle is not for supervised rows");
  const std::size_t length = example.tokens.size();
  if (!example.images.empty() && mode != truncation::error && max_length > 0 && length > max_length)
    throw data_error(where + ": " + std::to_string(length) + " tokens with images, but data.max_length is " +
                     std::to_string(max_length) + "; images are not truncated");
  truncate(example.tokens, max_length, mode, where, "data.max_length");
  const auto removed = static_cast<std::ptrdiff_t>(length - example.tokens.size());
  if (mode == truncation::left) example.written.erase(example.written.begin(), example.written.begin() + removed);
  example.written.resize(example.tokens.size());
  if (example.trained() > 0) return;
  if (removed > 0)
    throw data_error(where + ": nothing of the response is left within data.max_length " + std::to_string(max_length) +
                     " of " + std::to_string(length) + " tokens");
  throw data_error(where + ": nothing to learn, the assistant wrote no token");
}

RLCORE_INLINE sft_example make_sft_example(std::span<const std::int32_t> prompt, std::span<const std::int32_t> response,
                                           std::int32_t eos, std::size_t max_length, truncation mode,
                                           const std::string& where, std::vector<image_pointer> images) {
  if (prompt.empty()) throw data_error(where + ": the prompt has no tokens");
  sft_example example;
  example.images = std::move(images);
  example.append(prompt, false);
  example.append(response, true);
  example.append(std::span(&eos, 1), true);
  truncate(example, max_length, mode, where);
  return example;
}

}  // namespace data
RLCORE_END
#endif
