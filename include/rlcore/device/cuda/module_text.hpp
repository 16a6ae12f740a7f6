// The text of all CUDA kernels, which NVRTC compiles on the machine that runs them.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/device/cuda/provider.hpp"

RLCORE_BEGIN
namespace nvidia {

/// The text: no #include, every sum and product rounded as written if it is compiled with --fmad=false. With
/// --device-int128, since doubles' exp, exp2 and log are integer arithmetic.
std::string module_text();
/// NVRTC's options for a compute capability: 90 for 9.0.
std::vector<std::string> module_options(int capability);
/// The binary that NVRTC makes of a text. Throws device_error with the first line of NVRTC's log.
std::string compiled(const compiler_calls& compiler, const std::string& text, const std::vector<std::string>& options);

}  // namespace nvidia
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
#include "rlcore/core/elementary.hpp"
#include "rlcore/simd/math.hpp"

RLCORE_BEGIN
namespace nvidia {
namespace detail {

/// "static __device__ const word name[2] = {1ull, 2ull};"
template <class Values>
std::string table_text(const std::string& type, const std::string& name, const Values& values) {
  std::string text = "static __device__ const " + type + " " + name + "[" + std::to_string(values.size()) + "] = {";
  for (const auto v : values) text += std::to_string(v) + "ull, ";
  return text + "};\n";
}
/// "static __device__ const float name[2] = {0x1p-1f, };": every digit, in every locale.
template <std::size_t n>
std::string floats_text(const std::string& name, const float (&values)[n]) {
  std::string text = "static __device__ const float " + name + "[" + std::to_string(n) + "] = {";
  for (const float v : values) {
    char digits[40];
    const auto end = std::to_chars(digits, std::end(digits), std::abs(v), std::chars_format::hex).ptr;
    text += (v < 0 ? "-0x" : "0x") + std::string(digits, end) + "f, ";
  }
  return text + "};\n";
}
inline std::string word_text(const std::string& name, elementary::constants::word value) {
  return "static __device__ const word " + name + " = " + std::to_string(value) + "ull;\n";
}

/// Two floats as bfloat16, the first one in the lower half; and d += a b of 16 x 16 by 16 x 8, spread over a warp as
/// PTX says. GPUs before 8.0 have no such instructions, and the host launches no kernel that calls these.
inline constexpr const char* tensor_core_text = R"(#if __CUDA_ARCH__ >= 800
static __device__ __forceinline__ unsigned two_bf16(float low, float high) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
static __device__ __forceinline__ void add_tensor_product(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
static __device__ __forceinline__ unsigned two_bf16(float, float) { __trap(); return 0; }
static __device__ __forceinline__ void add_tensor_product(float (&)[4], const unsigned (&)[4], const unsigned (&)[2]) { __trap(); }
#endif
)";

}  // namespace detail

RLCORE_INLINE std::string module_text() {
  using namespace detail;
  namespace c = elementary::constants;
  using c::word;
  std::array<word, 65> log_high{}, log_low{};
  for (std::size_t i = 0; i < log_high.size(); ++i)
    log_high[i] = c::log_reciprocals[i][0], log_low[i] = c::log_reciprocals[i][1];
  std::string text =
      "typedef unsigned long long word;\n"
      "typedef unsigned __int128 wide;\n"
      "typedef __int128 signed_wide;\n"
      "#define RLCORE_CUDA_KERNEL(name) extern \"C\" __global__ void "
      "__launch_bounds__(arguments::name::threads) name(const arguments::name o)\n"
      "#define RLCORE_CUDA_UNROLL _Pragma(\"unroll\")\n";
  text += table_text("word", "powers_of_two", c::powers_of_two);
  text += table_text("word", "over_factorial", elementary::detail::over_factorial<63>);
  text += table_text("word", "over", elementary::detail::over);
  text += table_text("unsigned short", "reciprocals", c::reciprocals);
  text += table_text("word", "log_reciprocals_high", log_high) + table_text("word", "log_reciprocals_low", log_low);
  text += word_text("ln_2_word", c::ln_2_word);
  text += word_text("ln_2_high", static_cast<word>(c::ln_2 >> 64)) + word_text("ln_2_low", static_cast<word>(c::ln_2));
  text += floats_text("exp_narrow", exp_constants<float>::narrow) +
          floats_text("exp_wide", exp_constants<float>::wide) + floats_text("log_series", log_constants<float>::series);
  text += word_text("log2_e_high", static_cast<word>(c::log2_e >> 64)) +
          word_text("log2_e_low", static_cast<word>(c::log2_e));
  text += tensor_core_text;
  // One literal a file: a compiler need not take more than 65536 characters.
#define RLCORE_CUDA_TEXT(...) text += #__VA_ARGS__ "\n";
#include "rlcore/device/cuda/text/arguments.inc"
#include "rlcore/device/cuda/text/loss_arguments.inc"
#include "rlcore/device/cuda/text/sums.inc"

#include "rlcore/device/cuda/text/elementary.inc"
#include "rlcore/device/cuda/text/products.inc"

#include "rlcore/device/cuda/text/attention.inc"
#include "rlcore/device/cuda/text/attention_tiles.inc"
#include "rlcore/device/cuda/text/elements.inc"
#include "rlcore/device/cuda/text/log_prob.inc"
#include "rlcore/device/cuda/text/losses.inc"
#include "rlcore/device/cuda/text/rows.inc"
#include "rlcore/device/cuda/text/tensor_products.inc"
#undef RLCORE_CUDA_TEXT
  return text;
}

RLCORE_INLINE std::vector<std::string> module_options(int capability) {
  return {"--gpu-architecture=sm_" + std::to_string(capability), "--std=c++17", "--fmad=false", "--device-int128"};
}

RLCORE_INLINE std::string compiled(const compiler_calls& compiler, const std::string& text,
                                   const std::vector<std::string>& options) {
  std::vector<const char*> words;
  for (const std::string& o : options) words.push_back(o.c_str());
  nvrtcProgram program = nullptr;
  if (const int failed = compiler.nvrtcCreateProgram(&program, text.c_str(), "rlcore.cu", 0, nullptr, nullptr))
    throw device_error("cuda: nvrtcCreateProgram: error " + std::to_string(failed));
  const int failed = compiler.nvrtcCompileProgram(program, static_cast<int>(words.size()), words.data());
  std::string result;
  std::size_t bytes = 0;
  bool complete = true;
  if (failed == 0) {
    complete = compiler.nvrtcGetCUBINSize(program, &bytes) == 0 && bytes > 0;
    result.resize(bytes);
    complete = complete && compiler.nvrtcGetCUBIN(program, result.data()) == 0;
  } else if (compiler.nvrtcGetProgramLogSize(program, &bytes) == 0 && bytes > 0) {
    result.resize(bytes);
    if (compiler.nvrtcGetProgramLog(program, result.data()) != 0) result.clear();
  }
  compiler.nvrtcDestroyProgram(&program);
  if (!complete) throw device_error("cuda: NVRTC gives no binary of the kernels it compiled");
  if (failed != 0) {
    const std::size_t at = result.find("error"), line = at == result.npos ? 0 : result.rfind('\n', at) + 1;
    std::string why = result.substr(line, result.find('\n', line) - line);
    while (!why.empty() && why.back() == 0) why.pop_back();
    throw device_error(
        "cuda: NVRTC does not compile the kernels with " + (options.empty() ? "" : options.front()) + " (error " +
        std::to_string(failed) + "): " + why +
        (failed == 5 ? "; this NVRTC may not know the GPU: pip install --upgrade nvidia-cuda-nvrtc" : ""));
  }
  return result;
}

}  // namespace nvidia
RLCORE_END
#endif
