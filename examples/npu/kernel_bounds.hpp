// Error bounds between kernels that round products to bfloat16.
#pragma once

namespace comparison {

/// The largest |a - b| / max(|b|, root mean square of b) that is right where inputs of products and attention are
/// bfloat16, whose unit roundoff is 2^-8, and all else is float.
inline constexpr double exact = 0;
inline constexpr double float_bound = 0x1p-16;        ///< float, sums in any order, functions of a vector unit
inline constexpr double optimizer_bound = 0x1p-14;    ///< AdamW: 1 - 0.999 is off by 1.3e-5 if 0.999 is a float
inline constexpr double product_bound = 0x1.8p-8;     ///< exact products, float sums, a result rounded to bfloat16
inline constexpr double attention_bound = 0x1p-5;     ///< rounded queries, keys, weights, values and result
inline constexpr double attention_gradient = 0x1p-3;  ///< of differences between such results

}  // namespace comparison
