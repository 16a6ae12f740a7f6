// Request log: requests and responses as JSON lines.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/serving/http.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace serving {

/// Appends a JSON line for each request with a body, when its answer has ended: {"path", "status", "request",
/// "responses", "response"}, or "events" of a stream. `responses` are the texts of the choices, as `evaluate` reads
/// stored ones. Keys and other headers are not kept. Any number of threads may call it at once.
class request_record {
 public:
  /// `log` is called once if the file cannot be written. Throws file_error if it cannot be opened.
  request_record(const std::filesystem::path& file, std::function<void(const std::string&)> log)
      : name_(file.string()), log_(std::move(log)), file_(std::fopen(file.c_str(), "ab"), &std::fclose) {
    if (!file_) throw file_error("--rlcore-record " + name_ + ": " + std::strerror(errno));
  }

  /// Records the request and its response `made`, which is passed on unchanged. The record must outlive the response.
  http_response keep(const http_request& request, http_response made);

 private:
  /// A JSON value, or the text if it is not JSON.
  static json readable(std::string_view text) {
    json value = text::try_parse_json<json>(text);
    return value.is_discarded() ? json(std::string(text)) : value;
  }
  /// The text of a choice, or of an event's part of it.
  static std::string text_of(const json& choice);
  void write(json line, const std::vector<json>& answers, std::pair<const char*, json> whole);

  std::string name_;
  std::function<void(const std::string&)> log_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::mutex mutex_;
  bool failed_ = false;
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE http_response request_record::keep(const http_request& request, http_response made) {
  if (request.body.empty()) return made;
  json line{{"path", request.path}, {"status", made.status}};
  line["request"] = made.status == 200 ? readable(request.body) : json(request.body);  // depth unknown otherwise
  if (!made.stream) {
    const json answer = readable(made.body);
    write(std::move(line), answer.is_object() ? std::vector{answer} : std::vector<json>{}, {"response", answer});
    return made;
  }
  made.stream = [this, line = std::move(line), stream = std::move(made.stream)](const body_writer& write_on) {
    std::vector<json> events;
    stream([&](std::string_view event) {
      constexpr std::string_view begin = "data: ";
      if (event.starts_with(begin) && event != done_event) events.push_back(readable(event.substr(begin.size())));
      return write_on(event);
    });
    write(line, events, {"events", events});
  };
  return made;
}

RLCORE_INLINE std::string request_record::text_of(const json& choice) {
  for (const char* part : {"message", "delta"})
    if (const auto found = choice.find(part); found != choice.end() && found->is_object())
      return found->value("content", json()).is_string() ? found->at("content").get<std::string>() : "";
  const auto text = choice.find("text");
  return text != choice.end() && text->is_string() ? text->get<std::string>() : "";
}

RLCORE_INLINE void request_record::write(json line, const std::vector<json>& answers,
                                         std::pair<const char*, json> whole) {
  std::map<std::size_t, std::string> texts;
  for (const json& answer : answers)
    if (const auto choices = answer.find("choices"); choices != answer.end())
      for (const json& choice : *choices) texts[choice.value("index", std::size_t{0})] += text_of(choice);
  if (!texts.empty()) {
    json& responses = line["responses"] = json::array();
    for (auto& [index, text] : texts) responses.push_back(std::move(text));
  }
  line[whole.first] = std::move(whole.second);
  const std::string bytes = text::json_text(line) + "\n";
  const std::lock_guard lock(mutex_);
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size() && std::fflush(file_.get()) == 0) return;
  if (!std::exchange(failed_, true)) log_("--rlcore-record " + name_ + ": " + std::strerror(errno));
}

}  // namespace serving
RLCORE_END
#endif
