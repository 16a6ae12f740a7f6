// Providers of Ascend's functions: CANN's libraries or the emulator.
#pragma once

#include <concepts>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/device/npu/loader/installation.hpp"

RLCORE_BEGIN
namespace ascend {

/// A provider is a value whose table of functions stays valid for the rest of the process. The code above it is the
/// same for all providers: tests on the emulator run the same machine code as an Atlas machine.
template <class P>
concept provider = requires(const P& p) {
  { p.name() } -> std::convertible_to<std::string_view>;  // "CANN 8.3.RC1, Ascend910B3" or "emulator of Ascend910B3"
  { p.calls() } -> std::same_as<const ascend::calls&>;
};

/// The CANN that RLCORE_CANN_LIB_DIR, LD_LIBRARY_PATH or the usual folders lead to, in this order; loaded once per
/// process, on first use, and never unloaded.
class dynamic_provider {
 public:
  /// Throws device_error with why_not() if no usable CANN is found.
  dynamic_provider() : dynamic_provider(installed()) {}
  /// The CANN in these folders alone; loaded once per list of folders.
  explicit dynamic_provider(const std::vector<std::string>& folders) : dynamic_provider(loaded({false, folders})) {}

  std::string_view name() const noexcept { return name_; }
  const ascend::calls& calls() const noexcept { return installation_->table(); }
  const ascend::installation& installation() const noexcept { return *installation_; }

  /// Whether a CANN with all functions of every_run is installed. Only opening a device shows whether a device exists.
  static bool available() noexcept {
    try {
      return installed().problem().empty();
    } catch (...) {
      return false;
    }
  }
  /// The reason why CANN cannot be used and the remedy, in one line; empty if no reason is known.
  static std::string why_not() {
    const ascend::installation& here = installed();
    if (!here.problem().empty()) return here.problem();
    if (here.searched().process && environment("ASCEND_OPP_PATH").empty())
      return "npu: ASCEND_OPP_PATH is not set, operators will not be found: source CANN's set_env.sh";
    return {};
  }
  /// The installation found on this machine, usable or not.
  static const ascend::installation& installed() {
    static const ascend::installation here(default_search_path());
    return here;
  }

 private:
  explicit dynamic_provider(const ascend::installation& found) : installation_(&found), name_(found.name()) {
    if (!found.problem().empty()) throw device_error(found.problem());
  }
  static const ascend::installation& loaded(const search_path& where) {
    static std::mutex lock;
    static std::deque<ascend::installation> installations;
    const std::lock_guard hold(lock);
    for (const ascend::installation& known : installations)
      if (known.searched().folders == where.folders) return known;
    return installations.emplace_back(where);
  }

  const ascend::installation* installation_;
  std::string name_;
};

static_assert(provider<dynamic_provider>);

}  // namespace ascend

RLCORE_END
