// Message content parts: texts and images.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/text/message.hpp"

RLCORE_BEGIN
namespace serving {

/// An image of a conversation as it was sent.
struct sent_picture {
  std::string where;     ///< "messages[0].content[1]"
  std::string_view url;  ///< in the body, which must outlive it
};

namespace detail {

/// A member that exists and is not null.
inline const json* member_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// The URL of a part {"type": "image_url", "image_url": {"url"}}, {"type": "input_image", "image_url"}, or one of these
/// without a type. Further members (detail, uuid) are ignored. Throws api_error.
std::string_view url_of(const json& part, const std::string& where);

}  // namespace detail

/// Reads a content in parts; its images are appended to `pictures`. Throws api_error 400 that names the part.
std::vector<text::message_part> read_parts(const json& parts, const std::string& where,
                                           std::vector<sent_picture>& pictures);

/// The texts of parts as one, joined by line ends, as vLLM does for templates that take texts.
std::string joined_texts(const std::vector<text::message_part>& parts);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving::detail {

RLCORE_INLINE std::string_view url_of(const json& part, const std::string& where) {
  const json* url = member_of(part, "image_url");
  if (url != nullptr && url->is_object()) url = member_of(*url, "url");
  if (url == nullptr || !url->is_string())
    throw invalid_body(where + R"( has no URL; expected {"type": "image_url", "image_url": {"url": "data:..."}})");
  return url->get_ref<const std::string&>();
}

}  // namespace serving::detail

namespace serving {

RLCORE_INLINE std::vector<text::message_part> read_parts(const json& parts, const std::string& where,
                                                         std::vector<sent_picture>& pictures) {
  std::vector<text::message_part> read;
  for (const json& part : parts) {
    const std::string place = where + "[" + std::to_string(read.size()) + "]";
    if (!part.is_object()) throw invalid_body(place + R"( is no object; expected {"type": "text", "text"})");
    const json* type = detail::member_of(part, "type");
    if (type == nullptr && detail::member_of(part, "image_url") == nullptr) throw invalid_body(place + " has no type");
    if (type != nullptr && !type->is_string()) throw invalid_body(place + ".type is no string");
    const std::string name = type == nullptr ? "image_url" : type->get<std::string>();
    if (name == "image_url" || name == "input_image") {
      pictures.push_back({place, detail::url_of(part, place)});
      read.push_back({"", true});
      continue;
    }
    if (name != "text" && name != "input_text" && name != "output_text" && name != "refusal")
      throw bad_request(place + " is of type '" + name + "'; expected text, input_text, refusal or image_url");
    const json* content = detail::member_of(part, name == "refusal" ? "refusal" : "text");
    if (content == nullptr || !content->is_string()) throw invalid_body(place + " has no text");
    read.push_back({content->get<std::string>()});
  }
  return read;
}

RLCORE_INLINE std::string joined_texts(const std::vector<text::message_part>& parts) {
  std::string text;
  bool first = true;
  for (const text::message_part& p : parts) {
    if (p.image) continue;
    text += (first ? "" : "\n") + p.text;
    first = false;
  }
  return text;
}

}  // namespace serving
RLCORE_END
#endif
