// When two declarations of a C function mean the same machine code: ours with scoped enumerations, the vendor's
// without.
#pragma once

#include <type_traits>

namespace abi_check {

/// The vendor's type for one of ours: specialised where both have a name.
template <class T>
struct counterpart {
  using type = T;
};

/// An object that exists only behind pointers.
template <class T>
concept opaque = std::is_class_v<T> && !requires { sizeof(T); };

/// Whether a parameter or result of ours is passed as the vendor's: equal names of objects and enumerations (through
/// counterpart), equal constness behind pointers, equal size and sign of integers. One side may be an enumeration where
/// the other is an integer of its size: C passes them alike. Outputs of operators, which we leave mutable to tell them
/// from inputs, are const in some of the vendor's headers.
template <class Ours, class Theirs>
constexpr bool same() {
  if constexpr (std::is_same_v<typename counterpart<Ours>::type, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using A = std::remove_pointer_t<Ours>;
    using B = std::remove_pointer_t<Theirs>;
    constexpr bool kept = std::is_const_v<A> == std::is_const_v<B> || (opaque<A> && std::is_const_v<B>);
    return kept && same<std::remove_const_t<A>, std::remove_const_t<B>>();
  } else if constexpr (std::is_enum_v<Ours> && std::is_enum_v<Theirs>) {
    return false;  // another enumeration
  } else if constexpr (std::is_enum_v<Ours> != std::is_enum_v<Theirs>) {
    return (std::is_integral_v<Ours> || std::is_integral_v<Theirs>) && sizeof(Ours) == sizeof(Theirs);
  } else if constexpr (std::is_integral_v<Ours> && std::is_integral_v<Theirs>) {
    return !std::is_same_v<Ours, bool> && !std::is_same_v<Theirs, bool> && sizeof(Ours) == sizeof(Theirs) &&
           std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
  } else {
    return false;
  }
}

template <class Ours, class Theirs>
struct same_function : std::false_type {};
template <class R, class... A, class S, class... B>
  requires(sizeof...(A) == sizeof...(B))
struct same_function<R (*)(A...), S (*)(B...)>
    : std::bool_constant<same<R, S>() && (same<std::remove_cv_t<A>, std::remove_cv_t<B>>() && ...)> {};

}  // namespace abi_check
