// What tests of files share: a folder that vanishes, one-line errors, and Python when it is there.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace scratch {

/// A fresh folder, removed at the end of the test.
class folder {
 public:
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rlcore-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// The message of the Error that f must throw: one line that contains every one of `parts`.
template <class Error, class F>
std::string error_of(F&& f, std::vector<std::string> parts = {}) {
  try {
    f();
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    for (const std::string& part : parts) EXPECT_NE(what.find(part), std::string::npos) << what << " lacks " << part;
    return what;
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another exception: " << e.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// A Python that has `modules`: of the variable RLCORE_PYTHON, of the build, of its virtual environment, or python3; ""
/// if none has.
inline std::string python_with(const std::string& modules) {
  std::vector<std::string> candidates;
  if (const char* chosen = std::getenv("RLCORE_PYTHON"); chosen != nullptr) candidates.emplace_back(chosen);
#ifdef RLCORE_PYTHON
  candidates.insert(candidates.end(), {RLCORE_PYTHON, RLCORE_BIN_DIR "/../venv/bin/python3"});
#endif
  candidates.emplace_back("python3");
  for (const std::string& python : candidates) {
    const std::string probe = "'" + python + "' -c 'import " + modules + "' >/dev/null 2>&1";
    if (!python.empty() && std::system(probe.c_str()) == 0) return python;
  }
  return "";
}

/// Runs a program text with arguments; what it prints is `output`.
struct python_result {
  int code;
  std::string output;
};
inline python_result run_python(const std::string& python, const std::string& program, const std::string& arguments) {
  const folder place;
  write(place / "program.py", program);
  const std::string command = "'" + python + "' '" + (place / "program.py").string() + "' " + arguments + " > '" +
                              (place / "output").string() + "' 2>&1";
  const int code = std::system(command.c_str());
  return {code, read(place / "output")};
}

}  // namespace scratch
