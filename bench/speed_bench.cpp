// The speed of one item of docs/performance.md, as JSON lines; bench/speed.py runs it beside its peers.
//   build/bin/speed_bench ITEM [--threads N] [--quick] [--only TEXT]  (the items: limits and those of that page)
//   build/bin/speed_bench folder tiny|0.5B|images PATH   a model folder and prompts, or images, for the programs
//   that need them
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "speed/bench.hpp"
#include "speed/limits.hpp"

namespace speed {

void limits(const options& o) {
  const machine_limits m = measure_limits(o.threads, o.quick ? 768 : 1024);
  const auto print_rate = [&](const char* name, double rate, const char* unit) { print(o, {name, 1, rate, unit}); };
  print_rate("fma", m.fma, "flop");
  print_rate("dot_bf16", m.dot_bf16, "flop");
  print_rate("read", m.read, "byte");
  print_rate("in_place", m.in_place, "byte");
}

}  // namespace speed

namespace {

constexpr struct {
  const char* name;
  void (*run)(const speed::options&);
} items[] = {
    {"limits", speed::limits},       {"gemm", speed::gemm},   {"head", speed::head},   {"optimizer", speed::optimizer},
    {"attention", speed::attention}, {"train", speed::train}, {"tower", speed::tower}, {"images", speed::images},
    {"generate", speed::generate},   {"cuda", speed::cuda}};

int usage() {
  std::fputs(
      "usage: speed_bench limits|gemm|head|optimizer|attention|train|tower|images|generate\n"
      "                   [--threads N] [--quick] [--only TEXT]\n"
      "       speed_bench cuda [--device cuda|cuda_emulator] [--quick] [--only TEXT]\n"
      "       speed_bench folder tiny|0.5B|images PATH\n",
      stderr);
  return 2;
}

int run(int argc, char** argv) {
  if (argc < 2) return usage();
  if (std::string_view(argv[1]) == "folder") {
    if (argc != 4) return usage();
    speed::folder(argv[2], argv[3]);
    return 0;
  }
  speed::options o;
  o.item = argv[1];
  const bool on_gpu = o.item == "cuda";
  for (int k = 2; k < argc; ++k) {
    const std::string_view word = argv[k];
    if (word == "--quick")
      o.quick = true;
    else if (word == "--device" && on_gpu && k + 1 < argc)
      o.device = argv[++k];
    else if (word == "--threads" && !on_gpu && k + 1 < argc)
      o.threads = std::atoi(argv[++k]);
    else if (word == "--only" && k + 1 < argc)
      o.only = argv[++k];
    else
      return usage();
  }
  if (o.threads < 1) return usage();
  for (const auto& item : items)
    if (o.item == item.name) {
      item.run(o);
      return 0;
    }
  return usage();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "speed_bench: %s\n", e.what());
    return 1;
  }
}
