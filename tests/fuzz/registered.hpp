// What fuzz_driver includes before each fuzzer: LLVMFuzzerTestOneInput becomes a function of this file in a list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct fuzzer {
  std::string name;  ///< json of json_fuzzer.cpp
  int (*run)(const std::uint8_t*, std::size_t);
};
inline std::vector<fuzzer>& fuzzers() {
  static std::vector<fuzzer> all;
  return all;
}
struct registered_fuzzer {
  registered_fuzzer(std::string file, int (*run)(const std::uint8_t*, std::size_t)) {
    file = file.substr(file.rfind('/') + 1);
    fuzzers().push_back({file.substr(0, file.rfind("_fuzzer.cpp")), run});
  }
};

#define LLVMFuzzerTestOneInput(...)                     \
  declared_only();                                      \
  static int run(__VA_ARGS__);                          \
  static const registered_fuzzer listed(__FILE__, run); \
  static int run(__VA_ARGS__)
