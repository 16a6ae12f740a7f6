// Compiler vocabulary: together with abi.hpp the only macros that rlcore defines.
#pragma once

#if defined(__CUDACC__) || defined(__CUDA__)
#define RLCORE_FN __host__ __device__ __forceinline__
#elif defined(__GNUC__) || defined(__clang__)
#define RLCORE_FN inline __attribute__((always_inline))
#else
#define RLCORE_FN inline
#endif

#define RLCORE_RESTRICT __restrict__
