// A library that pretends to be one of CANN's: exports the functions of RLCORE_LIST, member RLCORE_TABLE of the tables,
// each a jump to the emulator's. No C++ function could be written for all of them, since the lists have no names for
// the operators' parameters; a jump needs none.
#include "rlcore/device/npu/abi/calls.hpp"

extern "C" const rlcore::ascend::calls* rlcore_emulated_calls();

#if defined(__x86_64__)
#define RLCORE_JUMP(name) "jmp *rlcore_to_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define RLCORE_JUMP(name) "adrp x16, rlcore_to_" #name "\nldr x16, [x16, :lo12:rlcore_to_" #name "]\nbr x16\n"
#else
#error "jumps are written for x86-64 and AArch64"
#endif
#define RLCORE_EXPORT(name)                                                      \
  extern "C" {                                                                   \
  __attribute__((visibility("hidden"), used)) void* rlcore_to_##name = nullptr;  \
  }                                                                              \
  asm(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n" #name \
      ":\n" RLCORE_JUMP(name) ".size " #name ", . - " #name "\n.popsection\n");

#define RLCORE_NPU_CALL(name, need, result, parameters) RLCORE_EXPORT(name)
#define RLCORE_NPU_OPERATOR(name, need, ...) RLCORE_EXPORT(name##GetWorkspaceSize) RLCORE_EXPORT(name)
#include RLCORE_LIST
#undef RLCORE_NPU_CALL
#undef RLCORE_NPU_OPERATOR

__attribute__((constructor)) static void connect() {
  const auto& table = rlcore_emulated_calls()->RLCORE_TABLE;
#define RLCORE_NPU_CALL(name, need, result, parameters) rlcore_to_##name = reinterpret_cast<void*>(table.name);
#define RLCORE_NPU_OPERATOR(name, need, ...)                                     \
  rlcore_to_##name##GetWorkspaceSize = reinterpret_cast<void*>(table.name.plan); \
  rlcore_to_##name = reinterpret_cast<void*>(table.name.run);
#include RLCORE_LIST
#if defined(RLCORE_FAULTY)
  rlcore_to_aclnnRmsNormGradGetWorkspaceSize = reinterpret_cast<void*>(+[] { return 561003; });
  rlcore_to_aclnnExpGetWorkspaceSize = reinterpret_cast<void*>(table.aclnnSigmoid.plan);
  rlcore_to_aclnnExp = reinterpret_cast<void*>(table.aclnnSigmoid.run);
#endif
}
