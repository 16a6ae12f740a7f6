// The model families that there are, and a family that is chosen at run time.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/family/family_traits.hpp"
#include "rlcore/nn/family/llama.hpp"
#include "rlcore/nn/family/qwen2.hpp"
#include "rlcore/nn/family/qwen2_5_vl.hpp"
#include "rlcore/nn/family/qwen3.hpp"
#include "rlcore/nn/family/qwen3_moe.hpp"

RLCORE_BEGIN
namespace nn {

/// Refers to the traits of a family type, from which it converts: `family f = llama{};` then `f->qk_norms`.
class family {
 public:
  /// The family of that type.
  template <model_family F>
  constexpr family(F) noexcept : traits_(&F::traits) {}

  constexpr const family_traits* operator->() const noexcept { return traits_; }
  constexpr const family_traits& operator*() const noexcept { return *traits_; }
  friend constexpr bool operator==(family a, family b) noexcept { return a->model_type == b->model_type; }
  /// Writes the model_type.
  template <class Stream>
  friend Stream& operator<<(Stream& out, family f) {
    out << f->model_type;
    return out;
  }

  static const family qwen2, qwen3, qwen3_moe;  ///< as are nn::qwen2{}, nn::qwen3{} and nn::qwen3_moe{}

 private:
  const family_traits* traits_;
};

inline constexpr family family::qwen2 = nn::qwen2{}, family::qwen3 = nn::qwen3{}, family::qwen3_moe = nn::qwen3_moe{};

/// One row each. Files and command lines name families by their model_type.
inline constexpr std::array families{
    family(qwen2{}), family(qwen3{}), family(qwen3_moe{}), family(llama{}), family(qwen2_5_vl{}),
};

/// Hugging Face's model_type.
constexpr std::string_view name_of(family f) noexcept { return f->model_type; }

/// The family of a model_type; null if there is none.
constexpr const family* find_family(std::string_view model_type) noexcept {
  for (const family& f : families)
    if (f->model_type == model_type) return &f;
  return nullptr;
}

/// Their names with `between` before all but the first and `last` before the last: "a, b or c".
inline std::string family_names(std::string_view between, std::string_view last, std::string_view quote = {}) {
  std::string list;
  for (const family& f : families) {
    if (!list.empty()) list += &f == &families.back() ? last : between;
    ((list += quote) += f->model_type) += quote;
  }
  return list;
}

}  // namespace nn
RLCORE_END
