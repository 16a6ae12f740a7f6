// A program is one loop or one kernel for a device that has a compiler: the text is compiled, loaded and compared.
#include "rlcore/objective/traced/source.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "objective/algorithm/catalogue.hpp"
#include "rlcore/objective/piece/slope_check.hpp"
#include "rlcore/objective/traced/trace.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

namespace fs = std::filesystem;

/// A folder that is gone when the test is over.
struct folder {
  folder() {
    std::string name = (fs::temp_directory_path() / "rlcore_source_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~folder() { fs::remove_all(path); }
  fs::path path;
};

bool runs(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

/// An executor that a compiler makes: every program is compiled into a library of its own text.
class compiled_executor {
 public:
  using function = void (*)(long long, long long, const program_input<double>*, program_input<double>, double* const*);

  /// Programs are added by name, then compiled together.
  void add(const traced_program& p, const std::string& name) {
    text_ += program_source(p, name, source_language::cpp);
    programs_.emplace_back(p, name);
  }
  void compile(const fs::path& where) {
    std::ofstream(where / "programs.cpp") << source_prelude(source_language::cpp, "double") << text_;
    ASSERT_TRUE(runs("c++ -O1 -ffp-contract=off -shared -fPIC -w -o " + (where / "programs.so").string() + " " +
                     (where / "programs.cpp").string()))
        << text_.substr(0, 2000);
    library_ = dlopen((where / "programs.so").c_str(), RTLD_NOW);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  ~compiled_executor() {
    if (library_ != nullptr) dlclose(library_);
  }

  void run_program(const traced_program& p, const program_arrays<double>& arrays) {
    for (const auto& [known, name] : programs_) {
      if (program_source(known, name, source_language::cpp) != program_source(p, name, source_language::cpp)) continue;
      const auto inputs = source_inputs(p, arrays);
      const auto f = reinterpret_cast<function>(dlsym(library_, name.c_str()));
      return f(arrays.rows, arrays.width, inputs.data(), arrays.live, arrays.results.data());
    }
    FAIL() << "a program that was not compiled";
  }
  const std::string& text() const { return text_; }
  const std::vector<std::pair<traced_program, std::string>>& programs() const { return programs_; }

 private:
  std::string text_;
  std::vector<std::pair<traced_program, std::string>> programs_;
  void* library_ = nullptr;
};
static_assert(program_executor<compiled_executor, double>);

/// The programs of all pieces, links and scores that differ.
template <class Add>
void each_program(const Add& add) {
  const auto objective = [&](const auto& o) {
    using type = std::remove_cvref_t<decltype(o)>;
    if constexpr (requires {
                    o.link;
                    o.gather;
                  }) {
      if constexpr (!batch_link<std::remove_cvref_t<decltype(o.link)>>) add(trace(o.link));
    } else if constexpr (composite_piece<type> || token_piece<type>) {
      add(trace_objective(o));
    }
  };
  rlcore_test::each_of_papers([&](const char*, const auto& a, const rlcore_test::defaults& = {}) {
    if constexpr (requires { a.objective; })
      objective(a.objective);
    else
      objective(a.pair.objective);
  });
}

TEST(program_source, compiled_gives_what_the_program_gives) {
  if (!runs("command -v c++")) GTEST_SKIP() << "there is no c++";
  folder where;
  compiled_executor compiled;
  each_program(
      [&](const traced_program& p) { compiled.add(p, "program" + std::to_string(compiled.programs().size())); });
  ASSERT_GT(compiled.programs().size(), 40u);
  compiled.compile(where.path);

  constexpr extent_t rows = 4, width = 50;
  std::array<std::array<std::vector<double>, field_count>, 2> values;
  std::vector<double> live;
  for (extent_t k = 0; k < rows * width; ++k) {
    live.push_back(k % 5 == 2 ? 0 : 1);
    for (std::uint32_t row = 0; row < 2; ++row) {
      const token<double> t = random_token(static_cast<std::uint32_t>(2 * k) + row);
      for (std::size_t f = 0; f < field_count; ++f)
        values[row][f].push_back(live.back() > 0 ? t.*field_member<double>[f] : std::nan(""));
    }
  }
  program_arrays<double> arrays;
  arrays.rows = rows, arrays.width = width, arrays.live = {live.data(), width, 1};
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t f = 0; f < field_count; ++f) arrays.input[row][f] = {values[row][f].data(), width, 1};
  for (const auto& compiled_program : compiled.programs()) {
    const traced_program& program = compiled_program.first;
    std::vector<std::vector<double>> want(program.results.size(), std::vector<double>(live.size(), 7)), got = want;
    const auto run_on = [&](auto& executor, auto& results) {
      std::vector<double*> to;
      for (auto& r : results) to.push_back(r.data());
      arrays.results = to;
      executor.run_program(program, arrays);
    };
    host_program_executor host;
    run_on(host, want);
    run_on(compiled, got);
    for (std::size_t r = 0; r < want.size(); ++r)
      for (std::size_t k = 0; k < live.size(); ++k) {
        if (std::isnan(want[r][k]) && std::isnan(got[r][k])) continue;
        ASSERT_NEAR(got[r][k], want[r][k], 1e-12 * (1 + std::abs(want[r][k]))) << program.results[r].name;
      }
  }
}

TEST(program_source, is_cuda_that_nvcc_compiles) {
  std::string text = source_prelude(source_language::cuda);
  std::size_t programs = 0;
  each_program([&](const traced_program& p) {
    text += program_source(p, "program" + std::to_string(programs++), source_language::cuda);
  });
  EXPECT_NE(text.find("__global__ void program0("), text.npos);
  if (!runs("command -v nvcc")) return;
  folder where;
  std::ofstream(where.path / "programs.cu") << text;
  EXPECT_TRUE(
      runs("nvcc -ptx -o " + (where.path / "programs.ptx").string() + " " + (where.path / "programs.cu").string()));
}

TEST(program_source, is_one_loop) {
  EXPECT_EQ(program_source(trace(negative_log_likelihood{}), "nll", source_language::cpp),
            "extern \"C\" void nll(long long rows, long long width, const rlcore_input* inputs, rlcore_input live, "
            "real* const* results) {\n"
            "  for (long long slot = 0; slot < rows * width; ++slot) {\n"
            "    const long long i = slot / width, t = slot % width;\n"
            "    if (live.data && !(live.data[i * live.row_stride + t * live.token_stride] > 0)) {\n"
            "      if (results[0]) results[0][i * width + t] = 0;\n"
            "      if (results[1]) results[1][i * width + t] = 0;\n"
            "      continue;\n"
            "    }\n"
            "    const real t0 = inputs[0].data[i * inputs[0].row_stride + t * inputs[0].token_stride];  // logp\n"
            "    const real t1 = -t0;\n"
            "    const real t2 = real(-1);\n"
            "    if (results[0]) results[0][i * width + t] = t1;  // value\n"
            "    if (results[1]) results[1][i * width + t] = t2;  // slope\n"
            "  }\n"
            "}\n");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
