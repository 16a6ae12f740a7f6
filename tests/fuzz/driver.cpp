// driver NAME SEEDS [SECONDS]: the fuzzers without a fuzzing engine, for any compiler. Runs every file of the folder
// SEEDS, then mutations of them, always in the same order, for so many seconds (else $RLCORE_FUZZ_SECONDS, else 1). An
// input that fails is left in the working directory; `driver NAME FILE` runs one file.
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "fuzz/registered.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
#else
constexpr bool sanitized = false;
#endif
extern "C" void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));

namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_input = std::size_t{1} << 16;
constexpr int longest_seconds = sanitized ? 20 : 5;  // of processor time, for one input
constexpr rlim_t memory = rlim_t{1} << 30;

std::string input;
fs::path place_of_input;  ///< a seed, or where to leave a mutation that fails; empty: nothing is being read
bool is_seed = false;

/// Says where the input is that was being read. The process is about to die, so a stream may be used in a handler.
void leave_input() {
  if (place_of_input.empty()) return;
  if (!is_seed) {
    std::FILE* file = std::fopen(place_of_input.c_str(), "wb");
    if (file == nullptr) return;
    std::fwrite(input.data(), 1, input.size(), file);
    std::fclose(file);
  }
  std::fprintf(stderr, "fuzzing: the input is in %s\n", place_of_input.c_str());
  place_of_input.clear();
}
void on_signal(int signal) {
  std::fprintf(stderr, "fuzzing: %s\n", signal == SIGPROF ? "one input takes too long" : strsignal(signal));
  leave_input();
  std::signal(signal, SIG_DFL);
  signal == SIGPROF ? std::_Exit(1) : static_cast<void>(std::raise(signal));
}
void watch() {
  static char stack[1 << 16];  // for a stack overflow
  stack_t other{};
  other.ss_sp = stack, other.ss_size = sizeof stack;
  ::sigaltstack(&other, nullptr);
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF}) ::sigaction(signal, &action, nullptr);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(leave_input);
  const rlimit limit{memory, memory};
  if (!sanitized) ::setrlimit(RLIMIT_DATA, &limit);
}

void run(const fuzzer& f) {
  const itimerval soon{{0, 0}, {longest_seconds, 0}};
  ::setitimer(ITIMER_PROF, &soon, nullptr);
  const std::string copy = input;  // of exact size, for the sanitizers
  f.run(reinterpret_cast<const std::uint8_t*>(copy.data()), copy.size());
}

/// xorshift64
struct generator {
  std::uint64_t state = 0x9E3779B97F4A7C15u;
  std::size_t below(std::size_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<std::size_t>((state >> 11) % n);
  }
};

/// The words of a dictionary of libFuzzer: lines "word" or name="word", with \xNN, \\ and \".
std::vector<std::string> read_words(const fs::path& path) {
  std::vector<std::string> words;
  const std::string text = fuzzing::read(path);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t first = line.find('"'), last = line.rfind('"');
    if (line.starts_with('#') || first == last) continue;
    std::string word;
    for (std::size_t i = first + 1; i < last; ++i) {
      if (line[i] == '\\' && line[i + 1] == 'x') {
        word += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
        i += 3;
      } else {
        word += line[i] == '\\' ? line[++i] : line[i];
      }
    }
    words.push_back(word);
  }
  return words;
}

class mutator {
 public:
  mutator(std::vector<std::string> seeds, std::vector<std::string> words)
      : seeds_(std::move(seeds)), words_(std::move(words)) {}

  /// The next input: a seed after one to eight small changes.
  std::string next() {
    std::string text = seeds_[random_.below(seeds_.size())];
    for (std::size_t n = 1 + random_.below(8); n-- > 0;) change(text);
    if (text.size() > longest_input) text.resize(longest_input);
    return text;
  }

 private:
  void change(std::string& text) {
    static constexpr char signs[] = "{}[]\"\\,:0-9.eE \n\t\0\xff\x7f\x80()<>|=+~/%#";
    const std::size_t at = random_.below(text.size() + 1), length = 1 + random_.below(1 + text.size() / 4);
    switch (random_.below(9)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random_.below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random_.below(256));
        break;
      case 2:
        text.insert(at, 1, signs[random_.below(sizeof signs - 1)]);
        break;
      case 3:
        text.erase(at, length);
        break;
      case 4:
        text.insert(at, text.substr(random_.below(text.size() + 1), length));
        break;
      case 5: {  // the same again and again: depth, and whatever is not linear
        const std::string part = text.substr(at, 1 + random_.below(16));
        std::string many;
        for (std::size_t n = std::size_t{1} << random_.below(13); n-- > 0 && many.size() < longest_input;) many += part;
        text.insert(at, many);
        break;
      }
      case 6: {
        const std::string& other = seeds_[random_.below(seeds_.size())];
        text = text.substr(0, at) + other.substr(random_.below(other.size() + 1));
        break;
      }
      case 7:
        if (!words_.empty()) text.insert(at, words_[random_.below(words_.size())]);
        break;
      default: {
        static const char* const numbers[] = {
            "0",    "-1",    "1e999",      "9223372036854775808", "-9223372036854775808",
            "1e-9", "65536", "2147483648", "18446744073709551615"};
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit != text.npos)
          text.replace(digit, std::min(text.find_first_not_of("0123456789", digit), text.size()) - digit,
                       numbers[random_.below(std::size(numbers))]);
      }
    }
  }

  std::vector<std::string> seeds_, words_;
  generator random_;
};

int fuzz(const fuzzer& f, const fs::path& place, double seconds) {
  std::vector<fs::path> files;
  if (fs::is_directory(place)) {
    for (const auto& entry : fs::directory_iterator(place)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(place), seconds = 0;
  }
  std::vector<std::string> seeds;
  watch();
  is_seed = true;
  for (const fs::path& file : files) {
    seeds.push_back(input = fuzzing::read(file));
    place_of_input = file;
    run(f);
  }
  is_seed = false;
  if (seeds.empty()) fuzzing::fail("no seeds in", place.string());
  mutator mutations(seeds, read_words(place.parent_path().parent_path() / (f.name + ".dict")));
  place_of_input = fs::current_path() / ("failed_" + f.name);
  std::size_t count = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (; std::chrono::steady_clock::now() < end; ++count) {
    input = mutations.next();
    run(f);
  }
  place_of_input.clear();
  std::printf("%s: %zu seeds, %zu mutations\n", f.name.c_str(), seeds.size(), count);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* limit = argc > 3 ? argv[3] : std::getenv("RLCORE_FUZZ_SECONDS");
  for (const fuzzer& f : fuzzers())
    if (argc > 2 && argv[1] == f.name) return fuzz(f, argv[2], limit != nullptr ? std::atof(limit) : 1);
  std::fprintf(stderr, "usage: %s NAME SEEDS|FILE [SECONDS]; NAME is one of", argv[0]);
  for (const fuzzer& f : fuzzers()) std::fprintf(stderr, " %s", f.name.c_str());
  std::fprintf(stderr, "\n");
  return 2;
}
