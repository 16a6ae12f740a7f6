// One line "set hash" per instruction set that this processor runs: float32, every kernel of the cpu on odd sizes. With
// an argument, a line "set kernel hash" per kernel as well. Compilers, flags and sets must agree on the hashes; build
// by hand with any of them, e.g. g++ -std=c++20 -O2 -march=haswell -Iinclude -Itests tests/flags/kernels_hash.cpp
// -pthread
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "rlcore/device/every_kernel.hpp"

int main(int argc, char**) {
  for (const auto* set : rlcore::cpu_kernels::available()) {
    rlcore::cpu device(1, set->name);
    const rlcore::every_kernel all(device);
    std::printf("%s %016llx\n", set->name, static_cast<unsigned long long>(all.hash()));
    if (argc < 2) continue;
    std::map<std::string, std::uint64_t> of;
    for (const auto& r : all.results()) {
      auto& h = of.try_emplace(r.kernel, 0xcbf29ce484222325u).first->second;
      for (const unsigned char byte : r.bytes) h = (h ^ byte) * 0x100000001b3u;
    }
    for (const auto& [kernel, h] : of)
      std::printf("%s %s %016llx\n", set->name, kernel.c_str(), static_cast<unsigned long long>(h));
  }
}
