// The kernels of the cpu device for every instruction set (the target rlcore::kernels).
#include "rlcore/device/cpu/kernel_sets.hpp"
