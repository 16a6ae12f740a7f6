// The rules of the operator calls that CANN accepts, by operator and version: the table, the check of a call, and the
// rules as Markdown.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/device/npu/abi/types.hpp"

RLCORE_BEGIN
namespace ascend {

/// The vendor's rules for calls of operators; operators.inc is the table.
namespace rules {

/// The condition of a rule; sentence() prints it in words.
enum class kind : unsigned char { given, types, promotable, castable, same_type, rank, same_shape };

/// A row of the table. `versions` are "8.1* 8.3 ..."; a star marks a version whose own sources were not read for the
/// row.
struct rule {
  std::string_view op, versions;
  rules::kind kind;
  std::string_view subject, value;
  aclnnStatus code;
  std::string_view source;

  /// Whether the rule holds for a version such as "8.3".
  constexpr bool holds_in(std::string_view version) const noexcept {
    return versions.find(version) != std::string_view::npos;
  }
};

/// The names of an operator's arguments in their order: "self other alpha out".
struct signature {
  std::string_view op, names;
};

/// The operators of the table.
inline std::span<const signature> signatures() noexcept {
  static constexpr signature table[] = {
#define RLCORE_NPU_SIGNATURE(op, names) {#op, names},
#define RLCORE_NPU_RULE(op, versions, condition, subject, value, code, source)
#include "rlcore/emulator/rules/operators.inc"
#undef RLCORE_NPU_RULE
#undef RLCORE_NPU_SIGNATURE
  };
  return table;
}

/// The rows in the order of the table. The rows of an operator are adjacent, and rows that refuse calls are in the
/// order of the checks.
inline std::span<const rule> all() noexcept {
  static constexpr rule table[] = {
#define RLCORE_NPU_SIGNATURE(op, names)
#define RLCORE_NPU_RULE(op, versions, condition, subject, value, code, source) \
  {#op, versions, kind::condition, subject, value, code, source},
#include "rlcore/emulator/rules/operators.inc"
#undef RLCORE_NPU_RULE
#undef RLCORE_NPU_SIGNATURE
  };
  return table;
}

/// The versions whose sources were read.
inline constexpr std::string_view versions[] = {"8.1", "8.3", "8.5", "9.1"};

/// The version of the table for a version of CANN: 80300 is "8.3", and so is 80400.
constexpr std::string_view version_of(int cann_version) noexcept {
  return cann_version < 80300 ? "8.1" : cann_version < 80500 ? "8.3" : cann_version < 90100 ? "8.5" : "9.1";
}

}  // namespace rules

}  // namespace ascend

namespace ascend::rules {

/// The checked properties of an argument: tensors have a type and a shape, scalars and data types have a type.
struct argument {
  bool null = false;
  data_type type = data_type::undefined;
  std::optional<std::vector<std::int64_t>> shape = {};
};

/// The error code of a refused call, and the reason.
struct refusal {
  aclnnStatus code;
  std::string why;
};

/// Whether CANN converts a result of one type to another: not from floats to integers, and to bool from bool alone.
constexpr bool castable(data_type from, data_type to) noexcept {
  if (to == data_type::boolean) return from == data_type::boolean;
  return !floating(from) || floating(to);
}
/// The common type of two: PyTorch's, but uint16, uint32 and uint64 have one only with themselves; else undefined.
constexpr data_type common_type(data_type a, data_type b) noexcept {
  const auto wide_unsigned = [](data_type t) {
    return t == data_type::uint16 || t == data_type::uint32 || t == data_type::uint64;
  };
  if (a == b) return a;
  if (wide_unsigned(a) || wide_unsigned(b)) return data_type::undefined;
  if (floating(a) != floating(b)) return floating(a) ? a : b;
  if (bytes_of(a) == bytes_of(b) && floating(a)) return data_type::float32;
  if (a == data_type::boolean) return b;
  if (b == data_type::boolean) return a;
  if (bytes_of(a) == bytes_of(b)) return data_type::int16;  // int8 with uint8
  return bytes_of(a) > bytes_of(b) ? a : b;
}

/// The rules of one operator in one version, read once.
class checker {
 public:
  /// Reads the rules of `op` that hold in a version such as "8.3".
  checker(std::string_view op, std::string_view version);

  /// The first rule that the call breaks.
  std::optional<refusal> operator()(std::span<const argument> call) const;
  std::span<const std::string_view> names() const noexcept { return names_; }

 private:
  /// One argument, or two that stand for their common type.
  using operand = std::vector<std::size_t>;
  struct reading {
    const rule* row;
    std::vector<operand> subjects;
    std::vector<std::string_view> types;
    std::size_t least = 0, most = 0;
  };

  static std::vector<std::string_view> words(std::string_view text);
  std::size_t place(std::string_view name) const {
    return static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }
  /// "self" or "promote(self other)".
  operand operand_of(std::string_view text) const;
  reading read(const rule& r) const;

  static data_type type_of(const operand& o, std::span<const argument> call);
  std::string name_of(const operand& o) const { return std::string(names_[o[0]]); }

  /// The violation as text; empty if the rule holds.
  std::string broken(const reading& r, std::span<const argument> call) const;

  std::vector<std::string_view> names_;
  std::vector<reading> rules_;
};

/// Finds the first rule of this version of CANN that a call of `op` breaks, if any. Not thread-safe.
class book {
 public:
  /// Checks calls against the rules of a version of CANN such as 80300.
  explicit book(int cann_version) : version_(version_of(cann_version)) {}
  /// The refusal of a call of `op` with these arguments.
  std::optional<refusal> operator()(std::string_view op, std::span<const argument> call) {
    return checkers_.try_emplace(op, op, version_).first->second(call);
  }

 private:
  std::string_view version_;
  std::map<std::string_view, checker> checkers_;
};

/// `text` with Markdown's special characters escaped, for a table cell.
std::string cell(std::string_view text);

/// A rule in words: "self, out: one of float32, float16; else 161002".
std::string sentence(const rule& r);

/// The rules of one operator as a table; `versions` in columns.
std::string section(std::string_view op);

/// The rules of all operators: those rows of docs/npu_operators.md that refuse a call.
std::string page();

}  // namespace ascend::rules
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::rules {

RLCORE_INLINE checker::checker(std::string_view op, std::string_view version) {
  for (const signature& s : signatures())
    if (s.op == op) names_ = words(s.names);
  for (const rule& r : all())
    if (r.op == op && r.holds_in(version)) rules_.push_back(read(r));
}

RLCORE_INLINE std::optional<refusal> checker::operator()(std::span<const argument> call) const {
  if (call.size() != names_.size()) return std::nullopt;
  for (const reading& r : rules_)
    if (std::string why = broken(r, call); !why.empty())
      return refusal{r.row->code, why + " (" + std::string(r.row->source) + ")"};
  return std::nullopt;
}

RLCORE_INLINE std::vector<std::string_view> checker::words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) found.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

RLCORE_INLINE auto checker::operand_of(std::string_view text) const -> operand {
  if (text.starts_with("promote(")) text = text.substr(8, text.size() - 9);
  operand places;
  for (const std::string_view name : words(text)) places.push_back(place(name));
  return places;
}

RLCORE_INLINE auto checker::read(const rule& r) const -> reading {
  reading made{&r, {}, {}};
  if (const std::size_t arrow = r.subject.find("->"); arrow != std::string_view::npos)
    made.subjects = {operand_of(r.subject.substr(0, arrow)), operand_of(r.subject.substr(arrow + 2))};
  else if (r.kind == kind::promotable)
    made.subjects = {operand_of(r.subject)};
  else
    for (const std::string_view name : words(r.subject)) made.subjects.push_back({place(name)});
  made.types = words(r.value);
  if (r.kind == kind::rank) {
    made.least = static_cast<std::size_t>(r.value[0] - '0');
    made.most = static_cast<std::size_t>(r.value[2] - '0');
  }
  return made;
}

RLCORE_INLINE data_type checker::type_of(const operand& o, std::span<const argument> call) {
  data_type t = call[o[0]].type;
  for (std::size_t i = 1; i < o.size(); ++i)
    if (t != data_type::undefined && call[o[i]].type != data_type::undefined) t = common_type(t, call[o[i]].type);
  return t;
}

RLCORE_INLINE std::string checker::broken(const reading& r, std::span<const argument> call) const {
  const auto absent = [&](const operand& o) {
    return std::any_of(o.begin(), o.end(), [&](std::size_t i) { return call[i].null; });
  };
  if (r.row->kind == kind::given) {
    for (const operand& o : r.subjects)
      if (absent(o)) return name_of(o) + " is null";
    return {};
  }
  if (std::any_of(r.subjects.begin(), r.subjects.end(), absent)) return {};
  const argument& first = call[r.subjects[0][0]];
  switch (r.row->kind) {
    case kind::types:
      for (const operand& o : r.subjects)
        if (const data_type t = call[o[0]].type;
            t != data_type::undefined && std::find(r.types.begin(), r.types.end(), ascend::name_of(t)) == r.types.end())
          return name_of(o) + " is " + ascend::name_of(t) + ", not one of " + std::string(r.row->value);
      return {};
    case kind::promotable:
      return type_of(r.subjects[0], call) == data_type::undefined ? "no common type of " + std::string(r.row->subject)
                                                                  : std::string();
    case kind::castable: {
      const data_type from = type_of(r.subjects[0], call), to = type_of(r.subjects[1], call);
      if (from == data_type::undefined || to == data_type::undefined || castable(from, to)) return {};
      return std::string(r.row->subject) + ": " + ascend::name_of(from) + " does not become " + ascend::name_of(to);
    }
    case kind::same_type:
      for (const operand& o : r.subjects)
        if (call[o[0]].type != first.type)
          return name_of(o) + " is " + ascend::name_of(call[o[0]].type) + ", " + name_of(r.subjects[0]) + " " +
                 ascend::name_of(first.type);
      return {};
    case kind::rank:
      for (const operand& o : r.subjects)
        if (const auto& shape = call[o[0]].shape; shape && (shape->size() < r.least || shape->size() > r.most))
          return name_of(o) + " has " + std::to_string(shape->size()) + " dimensions, not " + std::to_string(r.least) +
                 " to " + std::to_string(r.most);
      return {};
    case kind::same_shape:
      for (const operand& o : r.subjects)
        if (call[o[0]].shape != first.shape)
          return name_of(o) + " and " + name_of(r.subjects[0]) + " are of different shapes";
      return {};
    default:
      return {};
  }
}

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
  }
  return text + "; else " + std::to_string(r.code);
}

RLCORE_INLINE std::string section(std::string_view op) {
  std::string text = "\n## " + std::string(op) + "\n\n";
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
      "# What the emulator checks of a call\n"
      "\n"
      "docs/npu_operators.md explains the columns, and has what else was read of each operator.\n";
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
