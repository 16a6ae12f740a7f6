// The functions that every template of transformers may call.
#pragma once

#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/jinja/services.hpp"
#include "rlcore/text/jinja/value.hpp"

RLCORE_BEGIN
namespace text::jinja {

namespace detail {

/// dict(members, name=item, ...).
dictionary named_members(const call_arguments& a);

/// The time of strftime_now: now, in the zone of this machine; the seconds of SOURCE_DATE_EPOCH, in UTC, where the
/// environment has them, so that a run can be repeated on another day.
std::string time_text(const std::string& format);

value range(call_arguments& a, services& run);

}  // namespace detail

/// namespace, dict, range, raise_exception, strftime_now as values; `run` has to outlive them.
dictionary global_functions(services& run);

}  // namespace text::jinja
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text::jinja::detail {

RLCORE_INLINE dictionary named_members(const call_arguments& a) {
  dictionary out;
  if (a.positional.size() > 1) throw render_error(std::string(a.callee) + "() takes at most 1 argument without name");
  if (!a.positional.empty()) {
    if (!a.positional[0].as<value::dictionary_pointer>())
      throw render_error(std::string(a.callee) + "(): expected a dict, found " +
                         std::string(a.positional[0].type_name()));
    out = *a.positional[0].members();
  }
  for (const auto& [key, item] : a.named) out.set(key, item);
  return out;
}

RLCORE_INLINE std::string time_text(const std::string& format) {
  std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (const char* fixed = std::getenv("SOURCE_DATE_EPOCH")) {
    now = static_cast<std::time_t>(std::atoll(fixed));
    gmtime_r(&now, &parts);
  } else {
    localtime_r(&now, &parts);
  }
  char text[256];
  if (format.size() > 64) throw render_error("strftime_now: a format of more than 64 bytes");
  return std::string(text, std::strftime(text, sizeof text, format.c_str(), &parts));
}

RLCORE_INLINE value range(call_arguments& a, services& run) {
  a.check(3);
  const std::int64_t first = a.positional.size() < 2 ? 0 : integer_of(a.positional[0], "range");
  const std::int64_t last = integer_of(a.positional.size() < 2 ? a.get(0, "stop") : a.positional[1], "range");
  const std::int64_t step = a.positional.size() < 3 ? 1 : integer_of(a.positional[2], "range");
  if (step == 0) throw render_error("range: step 0");
  value::list out;
  constexpr std::size_t most = 100'000;  // the sandbox's
  for (std::int64_t i = first; step > 0 ? i < last : i > last;) {
    if (out.size() == most) throw render_error("range: more than 100000 elements");
    out.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  run.charge(16 * out.size());
  return out;
}

}  // namespace text::jinja::detail

namespace text::jinja {

RLCORE_INLINE dictionary global_functions(services& run) {
  dictionary all;
  const auto add = [&](const char* name, std::function<value(call_arguments&)> call) {
    all.set(name, std::make_shared<const callable>(callable{name, std::move(call)}));
  };
  add("namespace", [](call_arguments& a) -> value {
    dictionary members = detail::named_members(a);
    for (const auto& [key, item] : members.entries) item.check_inside();
    return std::make_shared<dictionary>(std::move(members));
  });
  add("dict", [](call_arguments& a) -> value { return detail::named_members(a); });
  add("range", [&run](call_arguments& a) -> value { return detail::range(a, run); });
  add("raise_exception", [](call_arguments& a) -> value { throw render_error(to_text(a.get(0, "message"))); });
  add("strftime_now",
      [](call_arguments& a) -> value { return detail::time_text(text_of(a.get(0, "format"), "strftime_now")); });
  return all;
}

}  // namespace text::jinja
RLCORE_END
#endif
