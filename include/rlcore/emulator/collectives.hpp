// HCCL collectives of the emulator. The ranks are threads of the process, each with its own device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/device/npu/errors.hpp"
#include "rlcore/emulator/communicators.hpp"
#include "rlcore/emulator/rank_group.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

inline constexpr std::string_view root_magic = "rlcore emulated root ";

/// Creates the root info for HcclCommInitRootInfo; the calling thread needs a current device.
HcclResult HcclGetRootInfo(hccl_root_info* root);

/// Joins the group of a root info as one of its ranks and waits until all ranks have joined, see rank_group::join().
HcclResult HcclCommInitRootInfo(std::uint32_t ranks, const hccl_root_info* root, std::uint32_t rank,
                                HcclComm* communicator);

/// Communicators of one process, rank i on devices[i]. Refused: no devices, one of them twice, one that does not exist.
HcclResult HcclCommInitAll(std::uint32_t count, std::int32_t* devices, HcclComm* communicators);

/// Destroys one rank's communicator; if operations are in flight, this aborts all ranks.
HcclResult HcclCommDestroy(HcclComm communicator);

/// The number of ranks.
HcclResult HcclGetRankSize(HcclComm communicator, std::uint32_t* size);

/// The number of this rank.
HcclResult HcclGetRankId(HcclComm communicator, std::uint32_t* rank);

/// Copies device memory of the running task to bytes, and back.
inline std::vector<std::byte> read_bytes(const void* from, std::size_t bytes) {
  if (bytes == 0) return {};
  const std::byte* p = shadow(from, bytes, access::read);
  return {p, p + bytes};
}
/// Copies bytes to device memory of the running task. Throws outcome_error, see shadow().
inline void write_bytes(void* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(shadow(to, bytes, access::write), from, bytes);
}

/// AllReduce, or ReduceScatter if `scattered`; `count` is that of the result.
HcclResult reduce_collective(const char* name, bool scattered, void* in, void* out, std::uint64_t count, hccl_type type,
                             hccl_reduction op, HcclComm communicator, aclrtStream stream);

/// out[count] = the reduction of all ranks' in[count], see reduce_ranks() for the order.
inline HcclResult HcclAllReduce(void* in, void* out, std::uint64_t count, hccl_type type, hccl_reduction op,
                                HcclComm communicator, aclrtStream stream) {
  return reduce_collective("HcclAllReduce", false, in, out, count, type, op, communicator, stream);
}
/// out[count] = part `rank` of the reduction of all ranks' in[ranks * count].
inline HcclResult HcclReduceScatter(void* in, void* out, std::uint64_t count, hccl_type type, hccl_reduction op,
                                    HcclComm communicator, aclrtStream stream) {
  return reduce_collective("HcclReduceScatter", true, in, out, count, type, op, communicator, stream);
}

/// out[ranks * count] = the concatenation of all ranks' in[count], in rank order.
HcclResult HcclAllGather(void* in, void* out, std::uint64_t count, hccl_type type, HcclComm communicator,
                         aclrtStream stream);

/// Copies data[count] of the rank `root` to all ranks.
HcclResult HcclBroadcast(void* data, std::uint64_t count, hccl_type type, std::uint32_t root, HcclComm communicator,
                         aclrtStream stream);

/// Part r of out = this rank's part of the `in` of rank r; every part has in_count elements.
HcclResult HcclAlltoAll(const void* in, std::uint64_t in_count, hccl_type in_type, const void* out,
                        std::uint64_t out_count, hccl_type out_type, HcclComm communicator, aclrtStream stream);

/// Checks that the send counts of every rank match the receive counts of the other ranks.
std::vector<std::byte> check_lists(const rank_group::shares& shares);

/// Counts and offsets count elements; they have 64 bits and lie on the host.
HcclResult HcclAlltoAllV(const void* in, const void* in_counts, const void* in_offsets, hccl_type in_type,
                         const void* out, const void* out_counts, const void* out_offsets, hccl_type out_type,
                         HcclComm communicator, aclrtStream stream);

/// Processes all items at once: sends, receives, then waits until the sent messages have been received.
void exchange(communicator_state& me, const std::vector<hccl_item>& items);

/// Checks the items of a call and enqueues their exchange. A single message to oneself is refused.
HcclResult exchange(const char* name, std::vector<hccl_item> items, HcclComm communicator, aclrtStream stream);

/// Sends `count` elements to a rank; done when they have been received.
inline HcclResult HcclSend(void* data, std::uint64_t count, hccl_type type, std::uint32_t to, HcclComm communicator,
                           aclrtStream stream) {
  return exchange("HcclSend", {{0, data, count, type, to}}, communicator, stream);
}
/// Receives `count` elements from a rank, whose HcclSend has to agree on type and count.
inline HcclResult HcclRecv(void* data, std::uint64_t count, hccl_type type, std::uint32_t from, HcclComm communicator,
                           aclrtStream stream) {
  return exchange("HcclRecv", {{1, data, count, type, from}}, communicator, stream);
}
/// Sends and receives all items at once.
inline HcclResult HcclBatchSendRecv(hccl_item* items, std::uint32_t count, HcclComm communicator, aclrtStream stream) {
  if (items == nullptr) return fail(hccl_errors::pointer, "HcclBatchSendRecv: null");
  return exchange("HcclBatchSendRecv", {items, items + count}, communicator, stream);
}

/// The stream waits for all ranks.
HcclResult HcclBarrier(HcclComm communicator, aclrtStream stream);

/// *error = the error that aborted all ranks; 0 if none did.
HcclResult HcclGetCommAsyncError(HcclComm communicator, HcclResult* error);

/// The name of an HcclResult; "success" for 0.
inline const char* HcclGetErrorString(HcclResult code) {
  return code == 0 ? "success" : describe(domain::collectives, code).name.data();
}

/// Fills in the functions of this header.
inline void fill(collective_calls& table) {
#define RLCORE_NPU_CALL(name, need, result, parameters) table.name = &emulated::name;
#include "rlcore/device/npu/abi/collectives.inc"
#undef RLCORE_NPU_CALL
}

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE HcclResult HcclGetRootInfo(hccl_root_info* root) {
  if (root == nullptr) return fail(hccl_errors::pointer, "HcclGetRootInfo: null");
  if (current_device() < 0) return fail(hccl_errors::runtime, "HcclGetRootInfo: call aclrtSetDevice first");
  communicator_table& table = communicator_table::instance();
  std::uint64_t token;
  {
    const std::lock_guard<std::mutex> lock(table.mutex);
    token = ++table.tokens;
    table.forming.emplace(token, nullptr);
  }
  std::memset(root->internal, 0, sizeof root->internal);
  std::memcpy(root->internal, root_magic.data(), root_magic.size());
  std::memcpy(root->internal + 64, &token, sizeof token);
  return 0;
}

RLCORE_INLINE HcclResult HcclCommInitRootInfo(std::uint32_t ranks, const hccl_root_info* root, std::uint32_t rank,
                                              HcclComm* communicator) {
  const std::string me = "HcclCommInitRootInfo: ";
  if (root == nullptr || communicator == nullptr) return fail(hccl_errors::pointer, me + "null");
  if (ranks == 0 || rank >= ranks)
    return fail(hccl_errors::parameter, me + "rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  const int device = current_device();
  if (device < 0) return fail(hccl_errors::runtime, me + "call aclrtSetDevice first");
  if (std::memcmp(root->internal, root_magic.data(), root_magic.size()) != 0)
    return fail(hccl_errors::parameter, me + "not what HcclGetRootInfo made");
  std::uint64_t token = 0;
  std::memcpy(&token, root->internal + 64, sizeof token);
  communicator_table& table = communicator_table::instance();
  std::shared_ptr<rank_group> group;
  {
    const std::lock_guard<std::mutex> lock(table.mutex);
    const auto at = table.forming.find(token);
    if (at == table.forming.end()) return fail(hccl_errors::parameter, me + "another process made this root");
    if (!at->second) at->second = std::make_shared<rank_group>(ranks, collective_deadline());
    group = at->second;
  }
  if (const int code = group->join(ranks, rank, device); code != 0) return code;
  *communicator = table.add(std::make_shared<communicator_state>(communicator_state{group, rank, device, 0}));
  return 0;
}

RLCORE_INLINE HcclResult HcclCommInitAll(std::uint32_t count, std::int32_t* devices, HcclComm* communicators) {
  if (devices == nullptr || communicators == nullptr) return fail(hccl_errors::pointer, "HcclCommInitAll: null");
  for (std::uint32_t i = 0; i < count; ++i)
    for (std::uint32_t k = 0; k < i; ++k)
      if (devices[i] == devices[k]) return fail(hccl_errors::parameter, "HcclCommInitAll: a device twice");
  if (count == 0) return fail(hccl_errors::parameter, "HcclCommInitAll: no devices");
  for (std::uint32_t i = 0; i < count; ++i)
    if (devices[i] < 0 || devices[i] >= machine_settings().devices)
      return fail(hccl_errors::parameter, "HcclCommInitAll: no device " + std::to_string(devices[i]));
  const auto group = std::make_shared<rank_group>(count, collective_deadline());
  for (std::uint32_t i = 0; i < count; ++i)
    communicators[i] = communicator_table::instance().add(
        std::make_shared<communicator_state>(communicator_state{group, i, devices[i], 0}));
  return 0;
}

RLCORE_INLINE HcclResult HcclCommDestroy(HcclComm communicator) {
  communicator_table& table = communicator_table::instance();
  std::shared_ptr<communicator_state> state;
  {
    const std::lock_guard<std::mutex> lock(table.mutex);
    const auto at = table.alive.find(communicator);
    if (at == table.alive.end()) return fail(hccl_errors::parameter, "HcclCommDestroy: not a communicator");
    state = std::move(at->second);
    table.alive.erase(at);
  }
  died(host_object::communicator);
  state->group->leave(state->rank);
  return 0;
}

RLCORE_INLINE HcclResult HcclGetRankSize(HcclComm communicator, std::uint32_t* size) {
  const auto state = communicator_table::instance().find(communicator);
  if (size == nullptr || communicator == nullptr) return fail(hccl_errors::pointer, "HcclGetRankSize: null");
  if (!state) return fail(hccl_errors::parameter, "HcclGetRankSize: not a communicator");
  *size = state->group->size();
  return 0;
}

RLCORE_INLINE HcclResult HcclGetRankId(HcclComm communicator, std::uint32_t* rank) {
  const auto state = communicator_table::instance().find(communicator);
  if (rank == nullptr || communicator == nullptr) return fail(hccl_errors::pointer, "HcclGetRankId: null");
  if (!state) return fail(hccl_errors::parameter, "HcclGetRankId: not a communicator");
  *rank = state->rank;
  return 0;
}

RLCORE_INLINE HcclResult reduce_collective(const char* name, bool scattered, void* in, void* out, std::uint64_t count,
                                           hccl_type type, hccl_reduction op, HcclComm communicator,
                                           aclrtStream stream) {
  collective_call call(name, communicator, {in, out});
  if (call.result == 0 && !reducible(type, op))
    call.refuse(hccl_errors::not_supported, "no reduction " + std::to_string(static_cast<int>(op)) + " of type " +
                                                std::to_string(static_cast<int>(type)));
  if (call.result != 0 || count == 0) return call.result;
  const bool ordered = deterministic_sums();
  return call.enqueue(stream, [=](communicator_state& me, std::uint64_t number) {
    const std::size_t total = scattered ? count * me.group->size() : count;
    const auto met = me.group->meet(
        me.rank, number, {name, type, count, static_cast<int>(op), -1},
        {read_bytes(in, total * bytes_of(type)), {}, {}, ordered}, [&](const rank_group::shares& shares) {
          std::vector<const std::byte*> of;
          rank_order mode{true, machine_settings().reference, random_key{machine_settings().seed}.child(0x6863u),
                          static_cast<std::uint32_t>(number)};
          for (const collective_share& s : shares) {
            of.push_back(s.data.data());
            mode.deterministic = mode.deterministic && s.deterministic;
          }
          return reduce_ranks(of, type, total, op, mode);
        });
    const std::size_t offset = scattered ? me.rank * count * bytes_of(type) : 0;
    write_bytes(out, met->combined.data() + offset, count * bytes_of(type));
  });
}

RLCORE_INLINE HcclResult HcclAllGather(void* in, void* out, std::uint64_t count, hccl_type type, HcclComm communicator,
                                       aclrtStream stream) {
  collective_call call("HcclAllGather", communicator, {in, out});
  call.moves(type);
  if (call.result != 0 || count == 0) return call.result;
  return call.enqueue(stream, [=](communicator_state& me, std::uint64_t number) {
    const std::size_t bytes = count * bytes_of(type);
    const auto met =
        me.group->meet(me.rank, number, {"HcclAllGather", type, count}, {read_bytes(in, bytes), {}, {}}, {});
    for (std::size_t r = 0; r < met->brought.size(); ++r)
      write_bytes(static_cast<std::byte*>(out) + r * bytes, met->brought[r].data.data(), bytes);
  });
}

RLCORE_INLINE HcclResult HcclBroadcast(void* data, std::uint64_t count, hccl_type type, std::uint32_t root,
                                       HcclComm communicator, aclrtStream stream) {
  collective_call call("HcclBroadcast", communicator, {data});
  call.moves(type);
  call.ranked(root);
  if (call.result != 0 || count == 0) return call.result;
  return call.enqueue(stream, [=](communicator_state& me, std::uint64_t number) {
    const std::size_t bytes = count * bytes_of(type);
    collective_share share;
    if (me.rank == root) share.data = read_bytes(data, bytes);
    const auto met = me.group->meet(me.rank, number, {"HcclBroadcast", type, count, -1, static_cast<int>(root)},
                                    std::move(share), {});
    if (me.rank != root) write_bytes(data, met->brought[root].data.data(), bytes);
  });
}

RLCORE_INLINE HcclResult HcclAlltoAll(const void* in, std::uint64_t in_count, hccl_type in_type, const void* out,
                                      std::uint64_t out_count, hccl_type out_type, HcclComm communicator,
                                      aclrtStream stream) {
  collective_call call("HcclAlltoAll", communicator, {in, out});
  call.moves(in_type);
  if (call.result == 0 && (in_count != out_count || in_type != out_type))
    call.refuse(hccl_errors::parameter, "counts or types of input and output differ");
  if (call.result != 0 || in_count == 0) return call.result;
  return call.enqueue(stream, [=](communicator_state& me, std::uint64_t number) {
    const std::size_t bytes = in_count * bytes_of(in_type), ranks = me.group->size();
    const auto met = me.group->meet(me.rank, number, {"HcclAlltoAll", in_type, in_count},
                                    {read_bytes(in, bytes * ranks), {}, {}}, {});
    for (std::size_t r = 0; r < ranks; ++r)
      write_bytes(static_cast<std::byte*>(const_cast<void*>(out)) + r * bytes,
                  met->brought[r].data.data() + me.rank * bytes, bytes);
  });
}

RLCORE_INLINE std::vector<std::byte> check_lists(const rank_group::shares& shares) {
  for (std::size_t from = 0; from < shares.size(); ++from)
    for (std::size_t to = 0; to < shares.size(); ++to)
      if (const auto sent = shares[from].counts[to], expected = shares[to].expected[from]; sent != expected)
        throw outcome_error{hccl_errors::parameter, "rank " + std::to_string(from) + " sends " + std::to_string(sent) +
                                                        " elements, rank " + std::to_string(to) + " expects " +
                                                        std::to_string(expected)};
  return {};
}

RLCORE_INLINE HcclResult HcclAlltoAllV(const void* in, const void* in_counts, const void* in_offsets, hccl_type in_type,
                                       const void* out, const void* out_counts, const void* out_offsets,
                                       hccl_type out_type, HcclComm communicator, aclrtStream stream) {
  collective_call call("HcclAlltoAllV", communicator, {in_counts, in_offsets, out_counts, out_offsets});
  call.moves(in_type);
  if (call.result == 0 && in_type != out_type) call.refuse(hccl_errors::parameter, "types of input and output differ");
  if (call.result != 0) return call.result;
  const auto list = [&](const void* values) {
    std::vector<std::uint64_t> copy(call.state->group->size());
    std::memcpy(copy.data(), values, copy.size() * sizeof(std::uint64_t));
    return copy;
  };
  return call.enqueue(stream, [=, sent = list(in_counts), from = list(in_offsets), expected = list(out_counts),
                               to = list(out_offsets)](communicator_state& me, std::uint64_t number) {
    const std::size_t size = bytes_of(in_type), ranks = me.group->size();
    collective_share share;
    share.counts = sent;
    share.expected = expected;
    for (std::size_t r = 0; r < ranks; ++r) {  // packed: bytes between the parts may be unallocated
      share.offsets.push_back(share.data.size());
      const auto part = read_bytes(static_cast<const std::byte*>(in) + from[r] * size, sent[r] * size);
      share.data.insert(share.data.end(), part.begin(), part.end());
    }
    const auto met = me.group->meet(me.rank, number, {"HcclAlltoAllV", in_type}, std::move(share), check_lists);
    for (std::size_t r = 0; r < ranks; ++r)
      write_bytes(static_cast<std::byte*>(const_cast<void*>(out)) + to[r] * size,
                  met->brought[r].data.data() + met->brought[r].offsets[me.rank], expected[r] * size);
  });
}

RLCORE_INLINE void exchange(communicator_state& me, const std::vector<hccl_item>& items) {
  std::vector<std::pair<std::uint32_t, std::shared_ptr<rank_group::message>>> posted;
  for (const hccl_item& i : items)
    if (i.type == 0)
      posted.emplace_back(
          i.remote,
          me.group->post(me.rank, i.remote,
                         {{"HcclSend", i.element, i.count}, read_bytes(i.data, i.count * bytes_of(i.element)), false}));
  for (const hccl_item& i : items)
    if (i.type == 1) {
      const auto data = me.group->receive(i.remote, me.rank, {"HcclRecv", i.element, i.count});
      write_bytes(i.data, data.data(), data.size());
    }
  for (const auto& [to, message] : posted) me.group->taken(me.rank, to, *message);
}

RLCORE_INLINE HcclResult exchange(const char* name, std::vector<hccl_item> items, HcclComm communicator,
                                  aclrtStream stream) {
  collective_call call(name, communicator);
  for (const hccl_item& i : items) {
    call.moves(i.element);
    call.ranked(i.remote);
    if (call.result == 0 && i.data == nullptr && i.count > 0) call.refuse(hccl_errors::pointer, "a buffer is null");
    if (call.result == 0 && i.type != 0 && i.type != 1) call.refuse(hccl_errors::parameter, "neither send nor receive");
    if (call.result == 0 && items.size() == 1 && i.remote == call.state->rank)
      call.refuse(hccl_errors::parameter, "a rank sends to itself");
  }
  if (items.size() == 1 && items[0].count == 0) return call.result;
  return call.enqueue(
      stream, [items = std::move(items)](communicator_state& me, std::uint64_t) { exchange(me, items); }, false);
}

RLCORE_INLINE HcclResult HcclBarrier(HcclComm communicator, aclrtStream stream) {
  collective_call call("HcclBarrier", communicator);
  return call.enqueue(stream, [](communicator_state& me, std::uint64_t number) {
    (void)me.group->meet(me.rank, number, {"HcclBarrier"}, {}, {});
  });
}

RLCORE_INLINE HcclResult HcclGetCommAsyncError(HcclComm communicator, HcclResult* error) {
  const auto state = communicator_table::instance().find(communicator);
  if (error == nullptr || communicator == nullptr) return fail(hccl_errors::pointer, "HcclGetCommAsyncError: null");
  if (!state) return fail(hccl_errors::parameter, "HcclGetCommAsyncError: not a communicator");
  *error = state->group->failed();
  if (*error != 0) fail(*error, state->group->why());
  return 0;
}

}  // namespace ascend::emulated
RLCORE_END
#endif
