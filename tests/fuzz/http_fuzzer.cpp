// The bytes of a connection: heads of requests and their bodies, one behind the other, as the server reads them.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "fuzz/fuzzing.hpp"
#include "rlcore/serving/connection.hpp"
#include "rlcore/serving/http_request.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace serving = rlcore::serving;

/// What the headers say of the body; in a head without problems every line has its colon.
serving::body_framing framing_of(std::string_view head) {
  serving::body_framing f;
  for (std::size_t at = head.find("\r\n") + 2, end; at < head.size(); at = end + 2) {
    end = head.find("\r\n", at);
    const std::string_view line = head.substr(at, end - at);
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    fuzzing::require(colon != line.npos && colon > 0, "a header without a name:", line);
    const std::string_view name = line.substr(0, colon), value = serving::detail::trimmed(line.substr(colon + 1));
    if (serving::detail::is_word(name, "content-length")) ++f.lengths, f.length = value;
    if (serving::detail::is_word(name, "transfer-encoding")) f.transfer = value;
    if (serving::detail::is_word(name, "content-encoding")) f.compression = value;
  }
  return f;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzzing::text_of(data, std::min<std::size_t>(size, 65536));
  serving::http_settings settings;
  settings.header_limit = 4096, settings.body_limit = 8192;
  std::array<int, 2> ends{};
  fuzzing::require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "no sockets");
  fuzzing::require(
      ::send(ends[1], bytes.data(), bytes.size(), MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size()) || bytes.empty(),
      "a socket takes no bytes");
  ::close(ends[1]);
  serving::connection client(ends[0], settings, "", nullptr);
  serving::body_budget budget(16384, settings.body_limit);
  std::size_t done = 0;  // bytes of requests that were understood
  while (true) {
    while (!client.has_headers() && !client.has_too_many_headers() && client.receive()) {
    }
    if (!client.has_headers()) break;
    const std::string head(client.head());
    fuzzing::require(head.ends_with("\r\n\r\n") && bytes.substr(done).starts_with(head), "another head:", head);
    if (const std::string problem = serving::problem_of_head(head); !problem.empty()) {
      fuzzing::check_sentence(problem);
      break;
    }
    std::string read(head.size(), '\0');
    fuzzing::require(client.read(read.data(), read.size(), [] { return false; }) == head.size() && read == head,
                     "the head is read otherwise");
    done += head.size();
    const serving::body_framing framing = framing_of(head);
    const std::function<bool()> crowded = [] { return false; };
    serving::body_budget::share room(budget);
    serving::body_reader reader(client, settings, room, crowded);
    std::string body;
    const bool taken = fuzzing::accepts([&] { body = reader.read(framing); });
    if (!taken) break;
    fuzzing::require(body.size() <= settings.body_limit && reader.in_step(), "a body beyond its limit");
    if (!framing.transfer.empty()) break;  // how long its chunks were is nobody's to say
    fuzzing::require(bytes.substr(done).starts_with(body), "another body:", body);
    done += body.size();
  }
  return 0;
}

}  // namespace RLCORE_TEST_ID
