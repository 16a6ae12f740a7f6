// The instruction set (-march) that a file is compiled for, under two names. RLCORE_ISA names the arithmetic: one pack
// width, hence one set of bits. RLCORE_LINKAGE names the machine code that the linker sees: RLCORE_ISA plus a letter
// for each feature that RLCORE_ISA leaves open and the compiler may use, or that it promises and the compiler may not
// use. -march=x86-64, x86-64-v3 and x86-64-v4 have no letter; -march=sandybridge is base_A_B_C_D_E_F.
#pragma once

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define RLCORE_ISA avx512
#define RLCORE_REGISTER_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__)
#define RLCORE_ISA avx2
#define RLCORE_REGISTER_BYTES 32
#elif defined(__aarch64__)
#define RLCORE_ISA neon
#define RLCORE_REGISTER_BYTES 16
#else
#define RLCORE_ISA base
#define RLCORE_REGISTER_BYTES 16
#endif

// The macro of a feature is 1, which makes a comma of RLCORE_COMMA_1 and moves the letter to the second place. Without
// the macro that place is empty (RLCORE_WITH) or holds the letter (RLCORE_WITHOUT).
#define RLCORE_COMMA_1 ,
#define RLCORE_SECOND(first, second, ...) second
#define RLCORE_TAKE(...) RLCORE_SECOND(__VA_ARGS__)
#define RLCORE_WITH_VALUE(value, letter) RLCORE_TAKE(RLCORE_COMMA_##value letter, , )
#define RLCORE_WITHOUT_VALUE(value, letter) RLCORE_TAKE(RLCORE_COMMA_##value, letter, )
#define RLCORE_WITH(feature, letter) RLCORE_WITH_VALUE(feature, _##letter)
#define RLCORE_WITHOUT(feature, letter) RLCORE_WITHOUT_VALUE(feature, _##letter)
#define RLCORE_JOINED(a, b, c, d, e, f, g) a##b##c##d##e##f##g
#define RLCORE_JOIN(...) RLCORE_JOINED(__VA_ARGS__)

#if RLCORE_REGISTER_BYTES >= 32
#define RLCORE_V3 RLCORE_WITHOUT
#else
#define RLCORE_V3 RLCORE_WITH
#endif
#if RLCORE_REGISTER_BYTES >= 64
#define RLCORE_V4 RLCORE_WITHOUT
#else
#define RLCORE_V4 RLCORE_WITH
#endif
#if defined(__x86_64__)
#define RLCORE_LINKAGE                                                                                                 \
  RLCORE_JOIN(                                                                                                         \
      RLCORE_ISA,                                                                                                      \
      RLCORE_JOIN(RLCORE_V3(__SSE3__, A), RLCORE_V3(__SSSE3__, B), RLCORE_V3(__SSE4_1__, C), RLCORE_V3(__SSE4_2__, D), \
                  RLCORE_V3(__POPCNT__, E), RLCORE_V3(__AVX__, F), ),                                                  \
      RLCORE_JOIN(RLCORE_V3(__F16C__, G), RLCORE_V3(__FMA__, H), RLCORE_V3(__BMI__, I), RLCORE_V3(__BMI2__, J),        \
                  RLCORE_V3(__LZCNT__, K), RLCORE_V3(__MOVBE__, L), RLCORE_V3(__AVX2__, M)),                           \
      RLCORE_JOIN(RLCORE_V4(__AVX512F__, N), RLCORE_V4(__AVX512CD__, O), RLCORE_V4(__AVX512BW__, P),                   \
                  RLCORE_V4(__AVX512DQ__, Q), RLCORE_V4(__AVX512VL__, R), , ),                                         \
      RLCORE_JOIN(RLCORE_WITH(__SSE4A__, S), RLCORE_WITH(__XOP__, T), RLCORE_WITH(__FMA4__, U),                        \
                  RLCORE_WITH(__TBM__, V), RLCORE_WITH(__GFNI__, W), RLCORE_WITH(__AVXVNNI__, X), ),                   \
      RLCORE_JOIN(RLCORE_WITH(__AVX512IFMA__, Y), RLCORE_WITH(__AVX512VBMI__, Z), RLCORE_WITH(__AVX512VBMI2__, a),     \
                  RLCORE_WITH(__AVX512VNNI__, b), RLCORE_WITH(__AVX512BITALG__, c),                                    \
                  RLCORE_WITH(__AVX512VPOPCNTDQ__, d), ),                                                              \
      RLCORE_JOIN(RLCORE_WITH(__AVX512BF16__, e), RLCORE_WITH(__AVX512FP16__, f), RLCORE_WITH(__APX_F__, g), , , , ))
#else
#define RLCORE_LINKAGE                                                                           \
  RLCORE_JOIN(RLCORE_ISA, RLCORE_WITH(__ARM_FEATURE_SVE, A), RLCORE_WITH(__ARM_FEATURE_SVE2, B), \
              RLCORE_WITH(__ARM_FEATURE_ATOMICS, C), RLCORE_WITH(__ARM_FEATURE_DOTPROD, D),      \
              RLCORE_WITH(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC, E), RLCORE_WITH(__ARM_FEATURE_MATMUL_INT8, F))
#endif
