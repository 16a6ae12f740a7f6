// Names that other libraries turn into macros. They are defined after the headers of the standard library and of third
// parties, which cannot be asked to survive them; then every header of ours is included.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <complex>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if __has_include(<immintrin.h>)
#include <immintrin.h>
#endif

#if __has_include(<Eigen/Core>)
#include <Eigen/Dense>
#endif
#if __has_include(<xtensor/xtensor.hpp>)
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>
#endif
#if __has_include(<httplib.h>)
#include <httplib.h>
#endif
#if __has_include(<fmt/format.h>)
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#endif
#if __has_include(<nlohmann/json.hpp>)
#include <nlohmann/json.hpp>
#endif
#if __has_include(<parquet/arrow/reader.h>)
#include <arrow/api.h>
#include <arrow/io/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#endif

#define RLCORE_POISON a_macro_of_another_library met_a_name_of_rlcore
// complex.h, termios.h, sys/sysmacros.h
#define I RLCORE_POISON
#define B0 RLCORE_POISON
#define B1 RLCORE_POISON
#define major RLCORE_POISON
#define minor RLCORE_POISON
// X11
#define None RLCORE_POISON
#define Bool RLCORE_POISON
#define Success RLCORE_POISON
// Windows, debugging and logging
#define small RLCORE_POISON
#define ERROR RLCORE_POISON
#define DEBUG RLCORE_POISON
// compilers in GNU mode
#undef unix
#undef linux
#define unix RLCORE_POISON
#define linux RLCORE_POISON
// logging and test libraries
#define LOG RLCORE_POISON
#define CHECK RLCORE_POISON
#define REQUIRE RLCORE_POISON
#define EXPECT RLCORE_POISON
#define ASSERT RLCORE_POISON
// identifiers that embedded and BSD headers use
#define _B RLCORE_POISON
#define _N RLCORE_POISON
#define _U RLCORE_POISON
