// The table of functions, filled from groups of libraries.
#pragma once

#include <dlfcn.h>

#include <string>
#include <string_view>
#include <vector>

#include "rlcore/device/npu/abi/feature.hpp"
#include "rlcore/device/npu/loader/library.hpp"

RLCORE_BEGIN
namespace ascend {

/// Libraries of which any may have a function: which one does depends on the version of CANN.
struct library_group {
  std::string_view purpose;
  std::vector<library> libraries;

  bool loaded() const {
    for (const library& l : libraries)
      if (l.handle != nullptr) return true;
    return false;
  }
  /// The address of a function, from the first library that has it; null if none has.
  void* find(const char* symbol) const {
    for (const library& l : libraries)
      if (l.handle != nullptr)
        if (void* address = dlsym(l.handle, symbol)) return address;
    return nullptr;
  }
};

/// A function that no library of its group has.
struct missing_symbol {
  std::string name;
  feature need = feature::later;
  bool group_loaded = false;  ///< else all of the group is missing
};

/// Fills a table from the four lists of functions; what is absent stays null and is noted.
class symbol_table {
 public:
  /// Looks up every function of the four lists in its group.
  symbol_table(const library_group& runtime, const library_group& meta, const library_group& operators,
               const library_group& collectives) {
#define RLCORE_NPU_CALL(name, need, result, parameters) fill(table_.rt.name, runtime, #name, feature::need);
#include "rlcore/device/npu/abi/runtime.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_CALL(name, need, result, parameters) fill(table_.nn.name, meta, #name, feature::need);
#include "rlcore/device/npu/abi/meta.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_OPERATOR(name, need, ...) fill(table_.op.name, operators, feature::need);
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
    here_ = &missing_collectives_;
#define RLCORE_NPU_CALL(name, need, result, parameters) fill(table_.comm.name, collectives, #name, feature::need);
#include "rlcore/device/npu/abi/collectives.inc"
#undef RLCORE_NPU_CALL
  }

  const calls& table() const noexcept { return table_; }
  /// Without the collectives, which a single device does not need.
  const std::vector<missing_symbol>& missing() const noexcept { return missing_; }
  const std::vector<missing_symbol>& missing_collectives() const noexcept { return missing_collectives_; }

 private:
  template <class Result, class... A>
  void fill(Result (*&entry)(A...), const library_group& from, const char* name, feature need) {
    entry = reinterpret_cast<Result (*)(A...)>(from.find(name));
    if (entry == nullptr) here_->push_back({name, need, from.loaded()});
  }
  /// Half an operator is none.
  template <class... A>
  void fill(operator_call<A...>& entry, const library_group& from, feature need) {
    void* plan = from.find((std::string(entry.name) + "GetWorkspaceSize").c_str());
    void* run = from.find(entry.name);
    if (plan == nullptr || run == nullptr) {
      here_->push_back({entry.name, need, from.loaded()});
      return;
    }
    entry.plan = reinterpret_cast<decltype(entry.plan)>(plan);
    entry.run = reinterpret_cast<decltype(entry.run)>(run);
  }

  calls table_;
  std::vector<missing_symbol> missing_, missing_collectives_;
  std::vector<missing_symbol>* here_ = &missing_;
};

}  // namespace ascend
RLCORE_END
