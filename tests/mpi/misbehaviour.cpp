// A job of three ranks in which rank 1 misbehaves: misbehaviour <what> <deadline in ms> [compare]. Before that, two
// collectives, so that the one that matters is number 3 or later.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/device/device_group.hpp"
#include "rlcore/parallel/launch.hpp"

namespace {

using namespace rlcore::parallel;

void gather(any_communicator& c, std::size_t n = 4) {
  const std::vector<float> in(n, 1.0F);
  std::vector<float> out(n * static_cast<std::size_t>(c.size()));
  c.all_gather(std::span<const float>(in), std::span(out));
}

/// Devices that wait for the others without end.
struct waiting_devices : rlcore::device_group {
  void all_gather(const void*, void*, std::span<const std::size_t>) override {
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
  void all_to_all(const void*, std::span<const std::size_t>, void*, std::span<const std::size_t>) override {}
};

void misbehave(any_communicator& c, const std::string& what) {
  if (what == "kill")
    ::raise(SIGKILL);
  else if (what == "segv")
    ::raise(SIGSEGV);
  else if (what == "stop")
    ::raise(SIGSTOP);
  else if (what == "exit0")
    ::_exit(0);
  else if (what == "exit3")
    ::_exit(3);
  else if (what == "throw")
    throw std::runtime_error("no such row");
  else if (what == "abort")
    c.abort("loss is not finite");
  else if (what == "loop")
    std::this_thread::sleep_for(std::chrono::hours(1));
  else if (what == "late")
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  else if (what == "skip")
    return c.barrier();
  else if (what == "count")
    return gather(c, 5);
  else if (what == "root") {
    std::vector<float> x(4);
    return c.broadcast(std::span(x), 1);
  } else if (what == "kind") {
    const std::vector<int> in(4, 1);
    std::vector<int> out(4 * static_cast<std::size_t>(c.size()));
    c.all_gather(std::span<const int>(in), std::span(out));
    return gather(c);
  } else if (what != "nothing" && what != "work" && what != "starts_late")
    throw std::invalid_argument("misbehaviour: no '" + what + "'");
  gather(c);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[1];
  launch_settings s;
  s.deadline = std::chrono::milliseconds(std::stol(argv[2]));
  s.fingerprint = argc > 3;
  if (what == "starts_late" && rank_of_environment() == 1) std::this_thread::sleep_for(std::chrono::seconds(5));
  try {
    launch(s, [&](any_communicator& c) {
      c.barrier();
      gather(c, 1);
      if (what == "all_throw") throw std::runtime_error("no such file");
      if (what == "group") {  // one half of the job disagrees inside; the other half waits elsewhere
        const auto half = c.split(c.rank() < 2 ? 0 : 1, 0);
        if (c.rank() == 1) half->barrier();
        if (c.rank() == 0) gather(*half, 2);
        c.barrier();
        return;
      }
      if (what == "work") {  // for six seconds of everybody's time
        const auto begin = std::chrono::steady_clock::now();
        for (int on = 1; on != 0;) {
          on = std::chrono::steady_clock::now() - begin < std::chrono::seconds(6) ? 1 : 0;
          c.broadcast(std::span<int>(&on, 1), 0);
          if (const char* file = std::getenv("MISBEHAVIOUR_STARTED"); file != nullptr && c.rank() == 0)
            if (std::FILE* made = std::fopen(file, "a"); made != nullptr) std::fclose(made);
          gather(c, 1000);
        }
      }
      if (what == "devices") {  // those of rank 1 do not come
        if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
        c.link_devices([](any_communicator&) { return std::make_unique<waiting_devices>(); });
        const std::vector<std::size_t> bytes(static_cast<std::size_t>(c.size()), 4);
        c.device_all_gather(nullptr, nullptr, bytes);
      }
      if (what == "return" && c.rank() == 1) return;
      if (what == "between") {  // nobody is inside a collective when rank 1 dies
        if (c.rank() == 1) ::raise(SIGKILL);
        std::this_thread::sleep_for(std::chrono::seconds(30));
      }
      if (c.rank() == 1)
        misbehave(c, what);
      else
        gather(c);
      gather(c, 2);
      if (c.rank() == 0) std::printf("done\n");
    });
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "misbehaviour: %s\n", e.what());
    return 1;
  }
}
