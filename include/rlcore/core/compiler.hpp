// Compiler macros: with those of abi.hpp and instruction_set.hpp, the only macros that rlcore defines.
#pragma once

#if defined(__CUDACC__) || defined(__CUDA__)
#define RLCORE_FN __host__ __device__ __forceinline__
#elif defined(__GNUC__) || defined(__clang__)
#if defined(__OPTIMIZE__)
#define RLCORE_FN inline __attribute__((always_inline))
#else  // where nothing is optimised, a third of the time to compile
#define RLCORE_FN inline
#endif
#else
#define RLCORE_FN inline
#endif

// RLCORE_LAMBDA stands between the parameters and the body of a lambda that must be inlined into its loop;
// RLCORE_NOINLINE before a function that is rare and would only make its callers longer. Copies of such a function for
// constant arguments are of no use either; g++ 12 warns of null pointers in them that no caller passes.
#if defined(__OPTIMIZE__)
#define RLCORE_LAMBDA __attribute__((always_inline))
#else
#define RLCORE_LAMBDA
#endif
#if defined(__clang__)
#define RLCORE_NOINLINE __attribute__((noinline))
#elif defined(__GNUC__)
#define RLCORE_NOINLINE __attribute__((noinline, noclone))
#else
#define RLCORE_NOINLINE
#endif

#define RLCORE_RESTRICT __restrict__

// RLCORE_COMPILED: code that is slow to compile comes from a library (in CMake, linking rlcore::kernels or a target
// that needs it defines the macro). A header declares first and defines in a section at its end; with RLCORE_COMPILED
// only the file of src/ that defines RLCORE_SOURCE_ and the folder's name compiles that section. RLCORE_MODELS
// (rlcore::models): the library instantiates the models for cpu and any_device. Without it everything is in the
// headers.
#if defined(RLCORE_COMPILED)
#define RLCORE_INLINE
#else
#define RLCORE_INLINE inline
#endif

// Between these two every sum and product is rounded as it is written, whatever flags the file is compiled with:
// RLCORE_BEGIN and RLCORE_END (abi.hpp) put them around all of the library. g++ would contract a * b + c to one
// rounding wherever it meets such a pair after inlining, in one copy of a loop and not in its twin; the attribute that
// the pragma gives a function holds for all that is inlined into it; a pragma that a user set before the include is
// undone. clang marks every operation where it is written. Code that wants a single rounding calls multiply_add or fma.
// An RLCORE_FN is inlined into its caller and follows the caller's flags, so no RLCORE_FN that is called from outside
// multiplies and adds.
#if defined(__clang__)
#define RLCORE_AS_WRITTEN_BEGIN \
  _Pragma("float_control(push)") _Pragma("float_control(precise, on)") _Pragma("clang fp contract(off)")
#define RLCORE_AS_WRITTEN_END _Pragma("float_control(pop)")
#elif defined(__GNUC__)
#define RLCORE_AS_WRITTEN_BEGIN                                                \
  _Pragma("GCC push_options") _Pragma("GCC optimize(\"fp-contract=off\")")     \
      _Pragma("GCC optimize(\"no-finite-math-only\",\"no-associative-math\")") \
          _Pragma("GCC optimize(\"no-reciprocal-math\",\"signed-zeros\")")     \
              _Pragma("GCC optimize(\"no-unsafe-math-optimizations\")")
#define RLCORE_AS_WRITTEN_END _Pragma("GCC pop_options")
#else
#define RLCORE_AS_WRITTEN_BEGIN
#define RLCORE_AS_WRITTEN_END
#endif
