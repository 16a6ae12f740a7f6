// The CPU kernels, compiled once for a whole program (the target rlcore::kernels).
#include "rlcore/device/cpu/kernel_sets.hpp"

RLCORE_BEGIN
namespace cpu_kernels {
std::vector<const table*> available();
std::vector<const table*> available() { return compiled_here(); }
}  // namespace cpu_kernels
RLCORE_END
