// What a call throws, as text.
#pragma once

#include <exception>
#include <string>

/// The message of the exception that f() throws, or "nothing was thrown".
template <class F>
std::string thrown_by(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}
