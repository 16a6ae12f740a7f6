// Reads a pickle (protocols 2 to 5, the opcodes that torch.save emits) into a graph of plain data.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// Node kinds.
enum class pickle_kind : std::uint8_t {
  none,
  boolean,
  integer,
  real,
  text,  ///< also bytes
  tuple,
  list,        ///< also sets
  dictionary,  ///< items: key, value, key, value, ...
  global,      ///< text: "module name"
  object,      ///< items: callable, arguments, and (optional) state
  persistent   ///< items: the identifier of something outside the pickle, such as a storage
};

/// A node of the description; `items` index the graph's other nodes.
struct pickle_value {
  pickle_kind kind = pickle_kind::none;
  std::int64_t number = 0;  ///< of boolean and integer
  double real = 0;
  std::string text;
  std::vector<std::uint32_t> items;
};

/// All nodes of one pickle and which of them is the result.
struct pickle_graph {
  std::vector<pickle_value> values;
  std::uint32_t root = 0;

  /// Node i.
  const pickle_value& operator[](std::uint32_t i) const { return values[i]; }
  /// Is node i of this kind?
  bool is(std::uint32_t i, pickle_kind kind) const { return values[i].kind == kind; }
  /// The value of a text key in a dictionary; nullptr if there is none.
  const pickle_value* find(const pickle_value& dictionary, std::string_view key) const {
    if (dictionary.kind != pickle_kind::dictionary) return nullptr;
    for (std::size_t i = 0; i + 1 < dictionary.items.size(); i += 2) {
      const pickle_value& k = values[dictionary.items[i]];
      if (k.kind == pickle_kind::text && k.text == key) return &values[dictionary.items[i + 1]];
    }
    return nullptr;
  }
};

/// A pickle is a program for a machine with a stack. This machine runs it without calling anything: every import of the
/// program must pass `allowed(std::string_view "module name")`, and calls become nodes of the graph. Nodes and stack
/// grow by at most one per byte of the pickle, up to 2^24 nodes; nothing recurses.
template <class Allowed>
class unpickler {
 public:
  /// For the pickle `bytes`, which must outlive this; `where` starts the messages.
  unpickler(std::string where, std::string_view bytes, Allowed allowed)
      : where_(std::move(where)), bytes_(bytes), allowed_(std::move(allowed)) {}

  /// Throws format_error naming the first unknown byte or the refused import.
  pickle_graph run() {
    while (step()) {
    }
    graph_.root = pop();
    return std::move(graph_);
  }

 private:
  using kind = pickle_kind;

  [[noreturn]] void fail(const std::string& message) const {
    throw format_error(where_ + ": " + message + " (at byte " + std::to_string(at_) + " of its pickle)");
  }
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("truncated pickle");
    const std::string_view out = bytes_.substr(at_, static_cast<std::size_t>(count));
    at_ += out.size();
    return out;
  }
  std::uint64_t number(std::size_t size) {
    const std::string_view in = take(size);
    std::uint64_t x = 0;
    for (std::size_t i = 0; i < size; ++i) x |= std::uint64_t{static_cast<unsigned char>(in[i])} << (8 * i);
    return x;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("truncated pickle");
    const std::string_view out = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }

  std::uint32_t make(pickle_value v) {
    if (graph_.values.size() == std::size_t{1} << 24) fail("a pickle of more than 2^24 values");
    graph_.values.push_back(std::move(v));
    return static_cast<std::uint32_t>(graph_.values.size() - 1);
  }
  void push(pickle_value v) { stack_.push_back(make(std::move(v))); }
  void push_integer(std::int64_t x) { push({.kind = kind::integer, .number = x, .text = {}, .items = {}}); }
  void push_text(std::string_view x) { push({.kind = kind::text, .text = std::string(x), .items = {}}); }
  void push_items(kind k, std::vector<std::uint32_t> items) {
    push({.kind = k, .text = {}, .items = std::move(items)});
  }
  std::uint32_t pop() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() == marks_.back()))
      fail("a pickle that takes from an empty stack");
    const std::uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  std::vector<std::uint32_t> pop_to_mark() {
    if (marks_.empty()) fail("a pickle without the mark it goes back to");
    const std::vector<std::uint32_t> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  void push_tuple(std::size_t size) {
    std::vector<std::uint32_t> items(size);
    for (std::size_t i = size; i-- > 0;) items[i] = pop();
    push_items(kind::tuple, std::move(items));
  }
  /// Adds `items` to the container on top of the stack.
  void add(kind expected, const std::vector<std::uint32_t>& items) {
    const std::uint32_t top = pop();
    stack_.push_back(top);
    if (graph_.values[top].kind != expected) fail("a pickle that fills something that is no container");
    if (expected == kind::dictionary && items.size() % 2 != 0) fail("a pickle with a key that has no value");
    auto& to = graph_.values[top].items;
    to.insert(to.end(), items.begin(), items.end());
  }
  void push_global(std::string_view module, std::string_view name) {
    const std::string global = std::string(module) + " " + std::string(name);
    if (!allowed_(std::string_view(global)))
      fail("refused: it wants to import '" + data::printable(std::string(module) + "." + std::string(name)) +
           "', which no checkpoint needs; nothing was executed");
    push({.kind = kind::global, .text = global, .items = {}});
  }
  /// The import whose module and name are on the stack.
  void push_global_of_stack() {
    const std::uint32_t name = pop(), module = pop();
    if (!graph_.is(name, kind::text) || !graph_.is(module, kind::text)) fail("a pickle that imports what is no name");
    push_global(std::string(graph_[module].text), std::string(graph_[name].text));
  }
  /// A call or an instance. An empty OrderedDict is a dictionary.
  void push_object(std::uint32_t callable, std::uint32_t arguments) {
    const pickle_value& c = graph_.values[callable];
    if (c.kind != kind::global) fail("a pickle that calls what is no imported name");
    if (graph_.values[arguments].kind != kind::tuple) fail("a pickle that calls without a tuple of arguments");
    if (c.text == "collections OrderedDict" && graph_.values[arguments].items.empty())
      return push_items(kind::dictionary, {});
    push_items(kind::object, {callable, arguments});
  }
  void build() {
    const std::uint32_t state = pop(), object = pop();
    stack_.push_back(object);
    pickle_value& o = graph_.values[object];
    if (o.kind == kind::dictionary) return;  // attributes of an OrderedDict, such as a state dict's version numbers
    if (o.kind != kind::object || o.items.size() != 2) fail("a pickle that sets the state of what is no new object");
    o.items.push_back(state);
  }
  void memoize(std::uint64_t slot) {
    if (stack_.empty()) fail("a pickle that remembers what is not there");
    memo_[slot] = stack_.back();
  }
  void recall(std::uint64_t slot) {
    const auto at = memo_.find(slot);
    if (at == memo_.end()) fail("a pickle that recalls what it did not remember");
    stack_.push_back(at->second);
  }
  /// Eight bytes, big endian.
  void push_real() {
    std::uint64_t x = 0;
    for (const char c : take(8)) x = x << 8 | static_cast<unsigned char>(c);
    push({.kind = kind::real, .real = std::bit_cast<double>(x), .text = {}, .items = {}});
  }
  void push_long(std::uint64_t size) {
    const std::string_view in = take(size);
    std::uint64_t x = 0;
    for (std::size_t i = 0; i < in.size() && i < 8; ++i)
      x |= std::uint64_t{static_cast<unsigned char>(in[i])} << (8 * i);
    const bool negative = !in.empty() && (static_cast<unsigned char>(in.back()) & 0x80) != 0;
    if (negative && in.size() < 8) x |= ~std::uint64_t{0} << (8 * in.size());
    push_integer(std::bit_cast<std::int64_t>(x));  // longer ones are hashes and never used
  }

  /// Executes one opcode; false after STOP.
  bool step() {
    const auto op = static_cast<unsigned char>(take(1)[0]);
    if (op == '.') return false;
    if (!push_scalar(op) && !fill_container(op) && !make_object(op) && !use_memo(op) && !arrange(op)) {
      char text[8];
      std::snprintf(text, sizeof text, "0x%02x", op);
      fail(std::string("pickle opcode ") + text + " is not one that torch.save uses");
    }
    return true;
  }

  // Each of these executes `op` if it is one of its opcodes, else returns false.

  /// None, truth values, numbers and texts.
  bool push_scalar(unsigned char op) {
    switch (op) {
      case 'N':
        return push({}), true;
      case 0x88:
        return push({.kind = kind::boolean, .number = 1, .text = {}, .items = {}}), true;
      case 0x89:
        return push({.kind = kind::boolean, .number = 0, .text = {}, .items = {}}), true;
      case 'J':
        return push_integer(static_cast<std::int32_t>(number(4))), true;
      case 'K':
        return push_integer(static_cast<std::int64_t>(number(1))), true;
      case 'M':
        return push_integer(static_cast<std::int64_t>(number(2))), true;
      case 0x8a:
        return push_long(number(1)), true;
      case 0x8b:
        return push_long(number(4)), true;
      case 'G':
        return push_real(), true;
      case 'X':
      case 'B':
      case 'T':
        return push_text(take(number(4))), true;
      case 0x8c:
      case 'C':
      case 'U':
        return push_text(take(number(1))), true;
      case 0x8d:
      case 0x8e:
        return push_text(take(number(8))), true;
      default:
        return false;
    }
  }
  /// Tuples, lists and dictionaries.
  bool fill_container(unsigned char op) {
    switch (op) {
      case ')':
        return push_items(kind::tuple, {}), true;
      case 0x85:
        return push_tuple(1), true;
      case 0x86:
        return push_tuple(2), true;
      case 0x87:
        return push_tuple(3), true;
      case 't':
        return push_items(kind::tuple, pop_to_mark()), true;
      case ']':
      case 0x8f:
        return push_items(kind::list, {}), true;
      case 'l':
        return push_items(kind::list, pop_to_mark()), true;
      case 'a':
        return add(kind::list, {pop()}), true;
      case 'e':
      case 0x90:
        return add(kind::list, pop_to_mark()), true;
      case '}':
        return push_items(kind::dictionary, {}), true;
      case 'd': {
        const std::vector<std::uint32_t> items = pop_to_mark();
        push_items(kind::dictionary, {});
        return add(kind::dictionary, items), true;
      }
      case 's': {
        const std::uint32_t value = pop(), key = pop();
        return add(kind::dictionary, {key, value}), true;
      }
      case 'u':
        return add(kind::dictionary, pop_to_mark()), true;
      default:
        return false;
    }
  }
  /// Imports, calls, states and persistent ids.
  bool make_object(unsigned char op) {
    switch (op) {
      case 'c': {
        const std::string_view module = line();
        return push_global(module, line()), true;
      }
      case 0x93:
        return push_global_of_stack(), true;
      case 'R':
      case 0x81: {
        const std::uint32_t arguments = pop(), callable = pop();
        return push_object(callable, arguments), true;
      }
      case 'b':
        return build(), true;
      case 'Q':
        return push_items(kind::persistent, {pop()}), true;
      default:
        return false;
    }
  }
  bool use_memo(unsigned char op) {
    switch (op) {
      case 'q':
        return memoize(number(1)), true;
      case 'r':
        return memoize(number(4)), true;
      case 0x94:
        return memoize(memo_.size()), true;
      case 'h':
        return recall(number(1)), true;
      case 'j':
        return recall(number(4)), true;
      default:
        return false;
    }
  }
  /// Marks, pops and protocol frames.
  bool arrange(unsigned char op) {
    switch (op) {
      case 0x80:  // PROTO
        if (const auto version = number(1); version < 2 || version > 5)
          fail("pickle protocol " + std::to_string(version) + "; expected 2 to 5");
        return true;
      case 0x95:  // FRAME
        return number(8), true;
      case '(':
        return marks_.push_back(stack_.size()), true;
      case '0':
        return pop(), true;
      case '1':
        return pop_to_mark(), true;
      default:
        return false;
    }
  }

  std::string where_;
  std::string_view bytes_;
  Allowed allowed_;
  std::size_t at_ = 0;
  pickle_graph graph_;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, std::uint32_t> memo_;
};

}  // namespace checkpoint
RLCORE_END
