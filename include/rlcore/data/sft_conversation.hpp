// Multi-turn SFT example: the loss covers the assistant turns only.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/sft_dataset.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace data {

/// The assistant turns that are trained on.
enum class learnt_turns { all, last };

/// Renders the conversation with the chat template. Assistant content is tokenized separately from the text before it,
/// as in generation: its tokens never merge with those of the header. (Where they would merge, the tokens differ from
/// those of the whole text; verl also tokenizes the pieces.)
inline sft_example conversation_example(const text::chat_template& chat, const text::tokenizer& tokenizer,
                                        std::span<const text::message> messages, const text::render_options& options,
                                        learnt_turns which = learnt_turns::all) {
  std::vector<text::written_bytes> written;
  const std::string text = chat.render(messages, options, written);
  if (which == learnt_turns::last && written.size() > 1) written.erase(written.begin(), written.end() - 1);
  sft_example example;
  std::size_t done = 0;
  const auto piece = [&](std::size_t end, bool by_assistant) {
    example.append(tokenizer.encode(std::string_view(text).substr(done, end - done)), by_assistant);
    done = end;
  };
  for (const text::written_bytes& turn : written) {
    piece(turn.begin, false);
    piece(turn.end, true);
  }
  piece(text.size(), false);
  return example;
}

}  // namespace data
RLCORE_END
