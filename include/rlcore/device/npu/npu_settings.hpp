// Settings of the NPU device and of the NPU emulator; the supported Ascend chips (SoCs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/arguments.hpp"

RLCORE_BEGIN
/// `compute`: the input type of matrix products and attention; all other values and all sums are float. With bf16 the
/// result of attention and, before CANN 8.5, of a product is rounded to bf16 once.
struct npu_settings {
  int device = 0;
  rlcore::compute compute = rlcore::compute::bfloat16;
  bool deterministic = true;         ///< operators that add atomically take their ordered variants: same bits each run
  bool sync_each_operation = false;  ///< waits after every operator, so that an error names the one that failed
  bool exact_memory = false;         ///< every allocation is Ascend's own, for finding stray accesses
};

/// Emulated Atlas machine: the functions of the four lists, with their rules and error codes.
namespace ascend::emulated {

/// The rounding of a value between two representable ones. Ascend C calls the first three CAST_RINT, CAST_ROUND and
/// CAST_TRUNC; the last one is our interpretation of the "NEAREST_ZERO" of HF32.
enum class rounding : unsigned char { nearest_even, nearest_away, toward_zero, nearest_zero };

/// The emulated machine: its chips, its CANN, and the choices that documentation and hardware leave open.
struct settings {
  std::string soc = "Ascend910B3";                  ///< result of aclrtGetSocName
  int cores = 20;                                   ///< cube cores; the chip has twice as many vector cores
  int cann_version = 80300;                         ///< 8.1.RC1 = 80100, 8.3.RC1 = 80300, 8.5.0 = 80500, 9.1.0 = 90100
  std::size_t memory_bytes = std::size_t{8} << 30;  ///< of each device; address space, taken from the host when used
  int devices = 2;
  std::uint64_t seed = 0;                       ///< of every order that the hardware leaves open
  rounding hf32_ties = rounding::nearest_zero;  ///< how floats become HF32; documentation leaves the ties open
  int exp_ulp = 0;                              ///< largest error of exp and its like, in units in the last place
  bool reference = false;  ///< fp64 inside, one rounding at the end: to tell rounding from mistakes
  bool strict = true;      ///< refuse calls that are documented as not allowed, even if hardware may accept them
  int threads = 0;         ///< for large products; 0: as many as the host has
  /// Every task waits a random time up to this before it runs, drawn from (seed, stream, index in the stream). This
  /// exposes missing synchronization.
  int delay_microseconds = 0;
  /// At most this much of a fresh block is overwritten with NaN; the rest is zero or has its old contents.
  std::size_t poison_bytes = std::size_t{64} << 20;
  /// Freed memory of a device is reused only when more than this has been freed since, or no memory is left.
  std::size_t quarantine_bytes = std::size_t{64} << 20;
  int collective_milliseconds = 60000;  ///< timeout of a rank that waits for another; then all ranks are aborted

  friend bool operator==(const settings&, const settings&) = default;
};

/// settings::cann_version of "8.1", "8.3", "8.5" or "9.1", whose rules the emulator knows. Throws config_error for any
/// other.
inline int cann_version_of(std::string_view release) {
  if (release == "8.1") return 80100;
  if (release == "8.3") return 80300;
  if (release == "8.5") return 80500;
  if (release == "9.1") return 90100;
  throw config_error("emulated machine: CANN '" + std::string(release) + "': expected 8.1, 8.3, 8.5 or 9.1");
}

/// Throws config_error for settings of an impossible machine.
inline void validate(const settings& s) {
  const auto bad = [](const char* reason) { throw config_error(std::string("emulated machine: ") + reason); };
  if (s.soc.empty()) bad("soc is empty");
  if (s.cores < 1) bad("cores must be at least 1");
  if (s.cann_version < 80100) bad("cann_version must be at least 80100 (8.1.RC1)");
  if (s.devices < 1 || s.devices > 1024) bad("devices must be 1 to 1024");
  if (s.memory_bytes < (std::size_t{1} << 16)) bad("memory_bytes must be at least 65536");
  if (s.exp_ulp < 0 || s.threads < 0 || s.delay_microseconds < 0) bad("exp_ulp, threads, delay must not be negative");
}

}  // namespace ascend::emulated

namespace ascend {

/// Families of chips by what their operators can do.
enum class soc_family : unsigned char {
  a2_or_a3,      ///< Ascend910B1 to B4, B2C, B4-1; Ascend910_93xx
  a5,            ///< Ascend950PR_*, Ascend950DT_*; Ascend910_95* before CANN 9.0
  other_ascend,  ///< 310P, 310B, the first generation of 910, and later chips
  unknown        ///< no name, or none of Ascend's
};

/// "Ascend910B" without a suffix is the first generation; Atlas A2 has a number after it.
constexpr soc_family family_of(std::string_view soc) {
  const auto begins = [soc](std::string_view start) { return soc.substr(0, start.size()) == start; };
  constexpr std::string_view a2 = "Ascend910B";
  if (begins("Ascend910_93")) return soc_family::a2_or_a3;
  if (begins(a2) && soc.size() > a2.size() && soc[a2.size()] >= '0' && soc[a2.size()] <= '9')
    return soc_family::a2_or_a3;
  if (begins("Ascend950") || begins("Ascend910_95")) return soc_family::a5;
  return begins("Ascend") ? soc_family::other_ascend : soc_family::unknown;
}

/// Why a chip cannot run rlcore, in one line; empty if it can or is unknown. Without this check, single operators would
/// fail inside CANN.
inline std::string soc_problem(std::string_view soc) {
  const std::string chip = "npu: " + std::string(soc), needed = "Atlas A2 or A3 (Ascend910B1 to B4, Ascend910_93xx)";
  switch (family_of(soc)) {
    case soc_family::a5:
      return chip + " is an A5, whose kernels are others: untested; rlcore needs " + needed;
    case soc_family::other_ascend:
      return chip + (soc == "Ascend910B" ? ", the first generation in spite of its name," : "") +
             " does not have the kernels of rlcore's operators, which need " + needed +
             "; trainer.device=cpu works here";
    default:
      return {};
  }
}

}  // namespace ascend
RLCORE_END
