// Responses of several turns: what is appended after a turn of the policy, such as the reply of a tool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/rollout/request.hpp"

RLCORE_BEGIN
namespace rollout {

/// Decides after each turn whether a response goes on. engine::generate() calls all functions from one thread, between
/// two passes; other responses are drawn while a reply is awaited. No drawn token depends on when a reply arrives.
class turn_source {
 public:
  /// Tokens to append to the response of request number `request`; the policy then draws on. No tokens: the response is
  /// complete.
  struct continuation {
    std::size_t request = 0;
    std::vector<std::int32_t> context;
  };

  virtual ~turn_source() = default;
  /// Called once with all requests, before the calls of generate() that draw them: may put other prompts in their
  /// places, which live as long as this object.
  virtual void prepare(std::span<request> /*requests*/) {}
  /// A call of generate() begins with these requests.
  virtual void begin(std::span<const request> requests) = 0;
  /// A turn of request number `request` has ended: it drew tokens [turn, end) of the response. next() returns exactly
  /// one continuation for each such turn.
  virtual void end_turn(std::size_t request, const response& so_far, std::size_t turn) = 0;
  /// The next continuation that is ready. With `wait` it waits for one; otherwise it returns nothing if none is.
  virtual std::optional<continuation> next(bool wait) = 0;
};

}  // namespace rollout
RLCORE_END
