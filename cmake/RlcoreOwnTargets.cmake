# Flags of our own programs, tests and benchmarks. Nothing here reaches a project that uses rlcore.
include_guard(GLOBAL)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

find_program(RLCORE_CCACHE ccache)
mark_as_advanced(RLCORE_CCACHE)
if(RLCORE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Depend mode: a file that is not in the cache is read once, by the compiler. The sloppiness is what ccache asks for
  # where headers are precompiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros "${RLCORE_CCACHE}")
endif()

include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-march=native RLCORE_HAS_MARCH_NATIVE)

set(RLCORE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The flow analysis of g++ 12 and later cries wolf inside libstdc++: moving a std::variant (GCC bug 109561), and in
  # version 12 adding strings (105651). clang++ and the sanitizer presets keep watch instead.
  list(APPEND RLCORE_WARNINGS -Wno-maybe-uninitialized)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND RLCORE_WARNINGS -Wno-restrict)
  endif()
  # g++ looks for garbage from 128 MB on, which takes a tenth of its time; from 600 MB on, units stay below 2.2 GB.
  set(RLCORE_COMPILER_MEMORY --param=ggc-min-heapsize=600000)
endif()
if(RLCORE_WERROR)
  list(APPEND RLCORE_WARNINGS -Werror)
endif()

function(rlcore_own_target target)
  target_compile_options(${target} PRIVATE ${RLCORE_WARNINGS} ${RLCORE_COMPILER_MEMORY})
  if(RLCORE_NATIVE AND RLCORE_HAS_MARCH_NATIVE)
    target_compile_options(${target} PRIVATE -march=native)
    # With AVX-512, the SLP vectoriser of g++ 12.2 stores {1, 1, 0, 0} as {1, 1, 1, 1}. Packs do not need it.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      target_compile_options(${target} PRIVATE -fno-tree-slp-vectorize)
    endif()
  endif()
endfunction()
