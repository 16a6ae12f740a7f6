// Compiler vocabulary: together with abi.hpp the only macros that rlcore defines.
#pragma once

#if defined(__CUDACC__) || defined(__CUDA__)
#define RLCORE_FN __host__ __device__ __forceinline__
#elif defined(__GNUC__) || defined(__clang__)
#define RLCORE_FN inline __attribute__((always_inline))
#else
#define RLCORE_FN inline
#endif

// RLCORE_LAMBDA stands between the parameters and the body of a lambda that has to melt into its loop;
// RLCORE_NOINLINE before a function that is rare and would only make its callers longer.
#if defined(__GNUC__) || defined(__clang__)
#define RLCORE_LAMBDA __attribute__((always_inline))
#define RLCORE_NOINLINE __attribute__((noinline))
#else
#define RLCORE_LAMBDA
#define RLCORE_NOINLINE
#endif

#define RLCORE_RESTRICT __restrict__
