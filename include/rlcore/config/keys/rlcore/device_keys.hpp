// The keys of every program that runs a model: on what, and how.
#pragma once

#include "rlcore/config/key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key device[] = {
    {"trainer.device", text, "cpu", honoured,
     "cpu; npu: Ascend, by CANN; npu_emulator: modelled on the CPU; cuda: runs on the CPU here (upstream default: "
     "cuda)",
     words("cpu|npu|npu_emulator|cuda")},
    {"rlcore.compute", text, "null", honoured,
     "what products read: float32, bfloat16 (masters float32), hf32 (NPU); null: float32, on the NPU bfloat16",
     words("float32|bfloat16|hf32")},
    {"rlcore.threads", integer, "0", honoured,
     "worker threads (CPU and emulator); 0: all cores. No result depends on it", at_least(0)},
    {"rlcore.instruction_set", text, "null", honoured,
     "kernels of the CPU: avx512_bf16, avx512, avx2 or portable; null: the best that this processor has",
     words("avx512_bf16|avx512|avx2|portable")},
    {"rlcore.npu.device", integer, "0", honoured, "number of the NPU", between(0, 1023)},
    {"rlcore.npu.deterministic", boolean, "True", honoured,
     "equal runs give equal bits: operators that add in any order take their slower ordered forms"},
    {"rlcore.npu.sync_each_operation", boolean, "False", honoured,
     "wait after every operator, so that an error names the one that failed; slow"},
    {"rlcore.npu.trace", text, "null", honoured, "file for every call of Ascend's functions, one per line"},
    {"rlcore.npu_emulator.soc", text, "Ascend910B3", honoured, "the chip that is played",
     words("Ascend910B1|Ascend910B2|Ascend910B2C|Ascend910B3|Ascend910B4|Ascend910B4-1|Ascend910_9391|Ascend910_9392|"
           "Ascend910_9381|Ascend910_9382|Ascend910_9372|Ascend910_9362")},
    {"rlcore.npu_emulator.cann_version", text, "8.3", honoured,
     "the release of CANN that is played; before 8.5 a float32 result of bfloat16 factors is rounded to bfloat16",
     words("8.1|8.3|8.5|9.1")},
    {"rlcore.npu_emulator.seed", integer, "0", honoured, "of every order that the hardware leaves open", at_least(0)},
    {"rlcore.npu_emulator.exp_ulp", integer, "0", honoured,
     "largest error of exp and its like, in units in the last place", between(0, 16)},
    {"rlcore.npu_emulator.hf32_ties", text, "zero", honoured,
     "where a float goes that lies half-way between two HF32 numbers; documentation leaves it open",
     words("zero|even|away")},
    {"rlcore.npu_emulator.delay_microseconds", integer, "0", honoured,
     "every operator waits a random time up to this, which shows what does not wait for it", between(0, 1000000)},
    {"rlcore.npu_emulator.strict", boolean, "True", honoured,
     "refuse what is documented as not allowed even where hardware may let it pass"},
    {"rlcore.npu_emulator.reference", boolean, "False", honoured,
     "operators in float64 with one rounding, to tell the rounding from the method"},
    {"rlcore.npu_emulator.memory_gb", integer, "null", honoured,
     "memory of the card, GiB, taken from this machine as it is used; null: the chip's", between(1, 1024)},
};

}  // namespace trainer::keys
RLCORE_END
