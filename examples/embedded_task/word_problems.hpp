// Synthetic GSM8K-style word problems, unlimited, for the quickstart and the tests.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/core/random.hpp"

namespace word_problems {

struct problem {
  std::string question, working;  ///< "3 + 4"
  int result = 0;

  /// As in raw GSM8K: "3 + 4 = 7\n#### 7".
  std::string answer() const { return working + " = " + std::to_string(result) + "\n#### " + std::to_string(result); }
};

/// Problem number `index` of the stream `key`: one addition or subtraction with numbers up to `largest`.
inline problem make(rlcore::random_key key, std::uint32_t index, std::uint32_t largest = 5) {
  static constexpr std::array<const char*, 8> names{"Tom", "Mia", "Ben", "Ana", "Leo", "Eva", "Sam", "Zoe"};
  static constexpr std::array<const char*, 8> things{"apples", "books", "cards",  "coins",
                                                     "eggs",   "pens",  "shells", "stamps"};
  const auto pick = [&](std::uint32_t n, std::uint32_t what) { return key.below(n, index, what); };
  const std::string a = names[pick(8, 0)], b = names[(pick(8, 0) + 1 + pick(7, 1)) % 8], thing = things[pick(8, 2)];
  std::uint32_t x = 1 + pick(largest, 3), y = 1 + pick(largest, 4);
  const std::uint32_t kind = pick(4, 5);
  if (kind >= 2 && x < y) std::swap(x, y);
  const std::string sx = std::to_string(x), sy = std::to_string(y);
  const auto finish = [&](std::string question, const char* sign, std::uint32_t z) {
    return problem{std::move(question), sx + " " + sign + " " + sy, static_cast<int>(z)};
  };
  switch (kind) {
    case 0:
      return finish(a + " has " + sx + " " + thing + ". " + b + " gives " + a + " " + sy + " more. How many " + thing +
                        " does " + a + " have?",
                    "+", x + y);
    case 1:
      return finish(a + " has " + sx + " " + thing + " and " + b + " has " + sy + ". How many " + thing +
                        " do they have together?",
                    "+", x + y);
    case 2:
      return finish(a + " has " + sx + " " + thing + ". " + a + " gives " + sy + " to " + b + ". How many " + thing +
                        " are left?",
                    "-", x - y);
    default:
      return finish(a + " has " + sx + " " + thing + " and " + b + " has " + sy + ". How many more " + thing +
                        " does " + a + " have?",
                    "-", x - y);
  }
}

inline std::vector<problem> make_many(rlcore::random_key key, std::uint32_t count) {
  std::vector<problem> problems;
  for (std::uint32_t i = 0; i < count; ++i) problems.push_back(make(key, i));
  return problems;
}

}  // namespace word_problems
