// Markdown documentation of the operator rules.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "rlcore/emulator/rules/check.hpp"

RLCORE_BEGIN
namespace ascend::rules {

/// `text` with Markdown's special characters escaped, for a table cell.
std::string cell(std::string_view text);

/// A rule in words: "self, out: one of float32, float16; else 161002".
std::string sentence(const rule& r);

/// The rules of one operator as a table; `versions` in columns.
std::string section(std::string_view op);

/// docs/npu_operators.md.
std::string page();

}  // namespace ascend::rules
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::rules {

RLCORE_INLINE std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '_' || c == '<' || c == '>' || c == '`') out += '\\';
    out += c;
  }
  return out;
}

RLCORE_INLINE std::string sentence(const rule& r) {
  const auto listed = [](std::string_view names) {
    std::string out;
    for (const char c : names) out += c == ' ' ? std::string(", ") : std::string(1, c);
    return out;
  };
  std::string text;
  switch (r.kind) {
    case kind::given:
      text = listed(r.subject) + ": not null";
      break;
    case kind::types:
      text = listed(r.subject) + ": " + listed(r.value);
      break;
    case kind::promotable:
      text = listed(r.subject.substr(8, r.subject.size() - 9)) + ": types that have a common one";
      break;
    case kind::castable: {
      const std::size_t arrow = r.subject.find("->");
      text = std::string(r.subject.substr(0, arrow)) + " can become " + std::string(r.subject.substr(arrow + 2));
      break;
    }
    case kind::same_type:
      text = listed(r.subject) + ": of one type";
      break;
    case kind::rank:
      text = listed(r.subject) + ": " + std::string(1, r.value[0]) +
             (r.value[0] == r.value[2] ? "" : " to " + std::string(1, r.value[2])) + " dimensions";
      break;
    case kind::same_shape:
      text = listed(r.subject) + ": of one shape";
      break;
    case kind::fact:
      return std::string(r.subject) + ": " + std::string(r.value);
  }
  return text + "; else " + std::to_string(r.code);
}

RLCORE_INLINE std::string section(std::string_view op) {
  std::string text = "\n## " + std::string(op == "every_operator" ? "every operator" : op) + "\n\n";
  for (const signature& s : signatures())
    if (s.op == op) {
      text += "`(";
      for (const char c : s.names) text += c == ' ' ? std::string(", ") : std::string(1, c);
      text += ")`\n\n";
    }
  text += "| rule | 8.1 | 8.3 | 8.5 | 9.1 | read in |\n|---|---|---|---|---|---|\n";
  for (const rule& r : all()) {
    if (r.op != op) continue;
    text += "| " + cell(sentence(r)) + " |";
    for (const std::string_view v : versions) {
      const std::size_t at = r.versions.find(v);
      text += at == std::string_view::npos                                            ? "  |"
              : at + v.size() < r.versions.size() && r.versions[at + v.size()] == '*' ? " (x) |"
                                                                                      : " x |";
    }
    text += " " + cell(r.source) + " |\n";
  }
  return text;
}

RLCORE_INLINE std::string page() {
  std::string text =
      "# What CANN accepts of its operators\n"
      "\n"
      "Read from the vendor's sources for Atlas A2 and A3: `x` where the sources of that version were read, `(x)` "
      "where they\n"
      "are not public and the row is concluded from the versions beside it, the header and the list of kernels (all "
      "host code\n"
      "of 8.1, and 8.3 where it was published later). The last column is `repository:file@revision:line`; the "
      "repositories\n"
      "are those of the vendor, `CANN-8.1.RC1` the installed toolkit. The emulator refuses every call that breaks a "
      "row, with\n"
      "the number of the row, in the version that `rlcore.npu_emulator.cann_version` names. Rows that begin with "
      "`inside`,\n"
      "`order`, `limit`, `shape`, `if`, `empty`, `strides` are for readers; the emulator has them in code or not at "
      "all.\n"
      "This page is printed by `npu_doctor --rules`; the table is `emulator/rules/operators.inc`.\n";
  std::string_view last;
  for (const rule& r : all())
    if (r.op != last) {
      text += section(r.op);
      last = r.op;
    }
  return text;
}

}  // namespace ascend::rules
RLCORE_END
#endif
