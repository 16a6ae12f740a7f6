// What a cuda device says of machines that lack something, and NVRTC's word on the text of the kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <clocale>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "rlcore/device/cuda/module_text.hpp"
#include "rlcore/emulator/emulated_cuda.hpp"
#include "rlcore/objective/traced/source.hpp"
#include "rlcore/objective/traced/trace.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using testing::HasSubstr;

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "no error";
}

TEST(cuda_provider, a_missing_gpu_is_named) {
  EXPECT_EQ(refusal([] { emulated_cuda({.device = 2}, {.devices = 2}); }),
            "cuda: no GPU 2: this machine has 2, from 0 to 1");
  EXPECT_THAT(refusal([] { emulated_cuda({.compute = compute::hf32}); }), HasSubstr("no compute type hf32"));
  EXPECT_EQ(nvidia::emulated_bytes_in_use(), 0u);
}

TEST(cuda_provider, memory_that_runs_out_is_named_with_its_sizes) {
  emulated_cuda device({}, {.memory_bytes = std::size_t{1} << 20});
  void* half = device.allocate(std::size_t{1} << 19);
  EXPECT_EQ(refusal([&] { device.allocate(std::size_t{1} << 20); }),
            "cuda: out of memory on GPU 0: 1.00 MiB asked for, 512.00 KiB of 1.00 MiB are left; smaller micro-batches "
            "need less");
  EXPECT_EQ(device.available_bytes(), std::size_t{1} << 19);
  device.release(half);
  EXPECT_EQ(nvidia::emulated_bytes_in_use(), 0u);
}

TEST(cuda_provider, copies_of_other_memory_fail) {
  emulated_cuda device;
  std::vector<float> host(16);
  EXPECT_THAT(refusal([&] { device.download(host.data(), host.data() + 8, 4); }),
              HasSubstr("cuMemcpyDtoHAsync of 4 B: CUDA_ERROR_INVALID_VALUE (1)"));
  std::vector<float> large(1 << 14);
  EXPECT_THAT(refusal([&] { device.upload(large.data(), large.data(), large.size() * sizeof(float)); }),
              HasSubstr("cuMemcpyHtoDAsync of 64.00 KiB: CUDA_ERROR_INVALID_VALUE (1)"));
  EXPECT_THAT(refusal([&] { device.upload(host.data(), host.data() + 8, 4); }),
              HasSubstr("cuLaunchKernel of write_bytes: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
}

/// A driver's word on a launch that goes wrong later names the kernels before it.
TEST(cuda_provider, a_late_failure_names_the_latest_kernels) {
  static nvidia::driver_calls driver;
  nvidia::provider p = nvidia::emulator();
  driver = *p.driver;
  driver.cuStreamSynchronize = [](nvidia::CUstream) { return 700; };
  p.driver = &driver;
  cuda device(p);
  auto* x = static_cast<float*>(device.allocate(64));
  device.run(op::fill{.y = x, .value = 1, .n = 16});
  device.run(op::scale{.y = x, .factor = 2, .n = 16});
  EXPECT_EQ(refusal([&] { device.wait(); }),
            "cuda: cuStreamSynchronize; the latest kernels: scale, fill: CUDA_ERROR_ILLEGAL_ADDRESS (700), by the "
            "emulator");
  device.release(x);
  cuda careful(p, {.sync_each_operation = true});
  auto* y = static_cast<float*>(careful.allocate(64));
  EXPECT_THAT(refusal([&] { careful.run(op::fill{.y = y, .value = 1, .n = 16}); }), HasSubstr("kernels: fill: "));
  careful.release(y);
}

/// Compiled once, read later; a damaged file is made anew, and a folder that cannot be written is no error.
TEST(cuda_provider, compiled_kernels_are_kept) {
  static nvidia::compiler_calls compiler;
  static int compilations = 0;
  static int (*compile)(nvidia::nvrtcProgram, int, const char* const*) = nullptr;
  nvidia::provider p = nvidia::emulator();
  p.keeps_binaries = true;
  compiler = *p.compiler;
  compile = compiler.nvrtcCompileProgram;
  compiler.nvrtcCompileProgram = [](nvidia::nvrtcProgram program, int n, const char* const* options) {
    ++compilations;
    return compile(program, n, options);
  };
  p.compiler = &compiler;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("rlcore_kernels_" + std::to_string(getpid()));
  const auto open = [&] {
    cuda device(p, {.cache = folder});
    return compilations;
  };
  EXPECT_EQ(open(), 1);
  EXPECT_EQ(open(), 1);
  ASSERT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  const std::filesystem::path file = std::filesystem::directory_iterator(folder)->path();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_EQ(open(), 2);
  EXPECT_EQ(open(), 2);
  std::filesystem::resize_file(file, 0);
  EXPECT_EQ(open(), 3);
  std::filesystem::remove_all(folder);
  std::ofstream(folder) << "a file where the folder would be";
  EXPECT_EQ(open(), 4);
  EXPECT_EQ(open(), 5);
  std::filesystem::remove(folder);
}

TEST(cuda_provider, without_a_driver_it_says_what_to_install) {
  if (nvidia::installed_devices() > 0) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_THAT(nvidia::why_not_installed(), HasSubstr("cuda: "));
  EXPECT_EQ(refusal([] { cuda device; }), nvidia::why_not_installed());
}

/// The kernels of a machine with a GPU are compiled there; here NVRTC only reads them.
TEST(cuda_text, nvrtc_compiles_it) {
  const nvidia::compiler_calls* compiler = nvidia::installed_compiler();
  if (compiler == nullptr) GTEST_SKIP() << "libnvrtc is not found: pip install nvidia-cuda-nvrtc";
  const std::string text = nvidia::module_text();
  const std::string image = nvidia::compiled(*compiler, text, nvidia::module_options(90));
  ASSERT_GE(image.size(), 4u);
  EXPECT_EQ(image.substr(1, 3), "ELF");
  for (int k = 0; k < static_cast<int>(nvidia::kernel::count); ++k)
    EXPECT_NE(image.find(nvidia::name_of(static_cast<nvidia::kernel>(k))), std::string::npos);
  EXPECT_THAT(refusal([&] { nvidia::compiled(*compiler, "nonsense", nvidia::module_options(90)); }),
              HasSubstr("cuda: NVRTC does not compile the kernels with --gpu-architecture=sm_90 (error 6): rlcore.cu"));
}

/// A program that uses the user's locale may write numbers with a comma.
TEST(cuda_text, has_no_numbers_of_a_locale) {
  const std::string text = nvidia::module_text();
  EXPECT_THAT(text, HasSubstr("float exp_narrow[5] = {0x1p-1f, 0x1.5554dcp-3f, "));
  const char* before = std::setlocale(LC_ALL, nullptr);
  const std::string kept = before == nullptr ? "C" : before;
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"})
    if (std::setlocale(LC_ALL, name) != nullptr) {
      EXPECT_EQ(nvidia::module_text(), text) << name;
    }
  std::setlocale(LC_ALL, kept.c_str());
}

/// What a program is as CUDA text, which may hold numbers that NVRTC has no names for.
TEST(cuda_text, nvrtc_compiles_programs_with_infinities) {
  const nvidia::compiler_calls* compiler = nvidia::installed_compiler();
  if (compiler == nullptr) GTEST_SKIP() << "libnvrtc is not found: pip install nvidia-cuda-nvrtc";
  const traced x = traced::field_value(field::logp, 0);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  program_writer writer;
  writer.result("value", traced_math::select(x < traced(0), traced(infinity), traced(std::nan(""))));
  writer.result("slope", traced_math::max(x, traced(-infinity)));
  const std::string text =
      source_prelude(source_language::cuda) + program_source(writer.finish(), "with_infinities", source_language::cuda);
  const std::string image = nvidia::compiled(*compiler, text, nvidia::module_options(90));
  EXPECT_NE(image.find("with_infinities"), std::string::npos);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
