// A random program on one device of the emulated machine, right and wrong, checked call by call against fuzz_model.hpp.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "emulator/fuzz_model.hpp"
#include "emulator/machine_fixture.hpp"
#include "rlcore/emulator/emulated_npu.hpp"

namespace npu_test {

using ascend::emulator;
using codes = std::set<int>;

/// One thread's program on a device of its own, and the model of it.
class random_program {
 public:
  random_program(int device, std::uint64_t seed, const char* what)
      : device_(device), seed_(seed), what_(what), random_(seed) {}

  void run(int calls) {
    expect(rt.aclrtSetDevice(device_), {0}, "aclrtSetDevice");
    void* handle = nullptr;
    rt.aclrtGetCurrentContext(&handle);
    contexts_.push_back({handle, true, true});
    streams_.push_back({nullptr, 0, 0, true, 0, {}, {}});
    for (step_ = 0; step_ < calls && !testing::Test::HasFailure(); ++step_) next_call();
    finish();
  }

 private:
  void next_call() {
    switch (random_.below(22)) {
      case 0:
      case 1:
        return allocate();
      case 2:
        return free_memory();
      case 3:
        return create_stream();
      case 4:
        return random_.one_in(3) ? destroy_stream() : failing_task();
      case 5:
        return random_.one_in(2) ? create_event() : destroy_event();
      case 6:
      case 7:
        return record();
      case 8:
      case 9:
        return wait_event();
      case 10:
        return synchronize_event();
      case 11:
        return synchronize_stream();
      case 12:
        return random_.one_in(4) ? synchronize_device() : query();
      case 13:
        return change_context();
      case 14:
      case 15:
        return upload();
      case 16:
      case 17:
        return download();
      case 18:
        return memset_async();
      default:
        return run_operator();
    }
  }

  // Choosing arguments. What is wrong with a handle decides the number.
  model_stream* pick_stream(void*& handle, codes& expected) {
    model_stream& s = streams_[random_.below(streams_.size())];
    handle = s.handle;
    expected = {0};
    if (random_.one_in(40)) {
      handle = reinterpret_cast<void*>(std::uintptr_t{0x1234560});
      expected = {107000};
      return nullptr;
    }
    if (s.handle == nullptr) {  // the default stream of whatever context is current
      for (model_stream& other : streams_)
        if (other.handle == nullptr && other.context == current_) return &other;
    }
    if (!s.alive) expected = {107000};
    if (s.alive && s.context != current_) expected = {107003};
    return expected == codes{0} ? &s : nullptr;
  }
  model_event* pick_event(void*& handle, codes& expected) {
    handle = nullptr;
    expected = {100000};
    if (events_.empty() || random_.one_in(40)) return nullptr;
    model_event& e = events_[random_.below(events_.size())];
    handle = e.handle;
    expected = {e.alive ? 0 : 107000};
    return e.alive ? &e : nullptr;
  }
  model_block* pick_block() { return blocks_.empty() ? nullptr : &blocks_[random_.below(blocks_.size())]; }

  /// A task of the program has been put on a stream.
  std::uint64_t started(model_stream& s) {
    s.known.join(host_);
    s.known.set(s.number, ++s.tasks);
    return s.tasks;
  }
  /// Task `n` of the stream reads or writes the block; returns whether what it sees is known.
  bool touches(model_stream& s, std::uint64_t n, model_block& b, bool writes) {
    const bool ordered = b.ordered(s.known, writes);
    if (!ordered) doubt();
    b.uses.push_back({s.number, n, writes});
    return ordered;
  }
  bool host_may_touch(const model_block& b, bool writes) const { return b.ordered(host_, writes); }
  /// Under a race detector the program itself has to be free of races, so that those of the machine are seen.
  bool not_for_detector(const model_stream* s, const model_block& b, bool writes) const {
    clock_vector clock = host_;
    if (s != nullptr) clock.join(s->known);
    return emulated::race_detector && !b.ordered(clock, writes);
  }
  /// A race: whatever depends on tasks that are under way may come out in two ways.
  void doubt() {
    for (model_block& b : blocks_) {
      forget_done(b);
      b.known = b.known && b.uses.empty();
    }
  }
  void forget_done(model_block& b) {
    std::erase_if(b.uses, [&](const model_block::use& u) { return host_.covers(u.stream, u.task); });
  }
  void reported(model_stream& s) {
    s.failures.clear();
    host_.join(s.known);
  }

  void allocate() {
    void* p = nullptr;
    const std::uint32_t kind = random_.below(12);
    if (kind == 0) return expect(rt.aclrtMalloc(&p, 0, memory_policy::huge_first), {100000}, "aclrtMalloc of 0");
    if (kind == 1) return expect(rt.aclrtMalloc(nullptr, 4, memory_policy::huge_first), {100000}, "aclrtMalloc");
    if (kind == 2)
      return expect(rt.aclrtMalloc(&p, std::size_t{1} << 40, memory_policy::huge_first), {207001},
                    "aclrtMalloc of 1 TiB");
    if (blocks_.size() > 40) return;
    const std::size_t n = 1 + random_.below(64);
    expect(rt.aclrtMalloc(&p, n * 4, memory_policy::huge_first), {0}, "aclrtMalloc");
    blocks_.push_back({p, std::vector<float>(n), true, false, {}});
  }
  void free_memory() {
    model_block* b = pick_block();
    const std::uint32_t kind = random_.below(8);
    if (kind == 0) return expect(rt.aclrtFree(nullptr), {100000}, "aclrtFree of null");
    if (kind == 1) return expect(rt.aclrtFree(this), {107000}, "aclrtFree of host memory");
    if (b == nullptr) return;
    if (kind == 2) return expect(rt.aclrtFree(static_cast<char*>(b->address) + 4), {107000}, "aclrtFree inside");
    if (not_for_detector(nullptr, *b, true)) return;
    expect(rt.aclrtFree(b->address), {b->alive ? 0 : 107000}, "aclrtFree");
    if (b->alive) lose(*b);
  }
  /// The block is freed: tasks that nobody has waited for may or may not come too late.
  void lose(model_block& b) {
    doubt();
    b.alive = b.known = false;
    for (const model_block::use& u : b.uses) {
      for (model_stream& s : streams_) {
        if (s.number != u.stream) continue;
        const auto after =
            std::find_if(s.failures.begin(), s.failures.end(), [&](const auto& f) { return f.task > u.task; });
        s.failures.insert(after, {u.task, 507015, false});
      }
    }
  }

  void create_stream() {
    if (random_.one_in(6)) return expect(rt.aclrtCreateStream(nullptr), {100000}, "aclrtCreateStream");
    if (streams_.size() > 14) return;
    void* handle = nullptr;
    expect(rt.aclrtCreateStream(&handle), {0}, "aclrtCreateStream");
    streams_.push_back({handle, static_cast<int>(streams_.size()), current_, true, 0, {}, {}});
  }
  void destroy_stream() {
    void* handle = nullptr;
    codes expected;
    model_stream* s = pick_stream(handle, expected);
    if (handle == nullptr) return expect(rt.aclrtDestroyStream(nullptr), {100000}, "aclrtDestroyStream of null");
    if (s != nullptr) expected = s->outcomes();
    expect(rt.aclrtDestroyStream(handle), expected, "aclrtDestroyStream");
    if (s == nullptr) return;
    reported(*s);
    s->alive = false;
  }
  void failing_task() {
    void* handle = nullptr;
    codes expected;
    model_stream* s = pick_stream(handle, expected);
    const int code = random_.one_in(2) ? 507035 : 507014;
    expect(emulated::enqueue(handle, "fails", [code] { throw emulated::outcome_error{code, "as it must"}; }), expected,
           "a failing task");
    if (s != nullptr) s->failures.push_back({started(*s), code, true});
  }

  void create_event() {
    if (events_.size() > 20) return;
    const std::uint32_t flags[] = {0, ascend::event_sync, ascend::event_time_line,
                                   ascend::event_sync | ascend::event_time_line};
    const std::uint32_t flag = flags[random_.below(4)];
    void* handle = nullptr;
    expect(rt.aclrtCreateEventExWithFlag(&handle, flag), {flag == 0 ? 107000 : 0}, "aclrtCreateEventExWithFlag");
    if (flag != 0) events_.push_back({handle, flag, true, false, {}});
  }
  void destroy_event() {
    void* handle = nullptr;
    codes expected;
    model_event* e = pick_event(handle, expected);
    expect(rt.aclrtDestroyEvent(handle), expected, "aclrtDestroyEvent");
    if (e != nullptr) e->alive = false;
  }
  void record() {
    void *event = nullptr, *stream = nullptr;
    codes expected, of_stream;
    model_event* e = pick_event(event, expected);
    model_stream* s = pick_stream(stream, of_stream);
    expect(rt.aclrtRecordEvent(event, stream), e == nullptr ? expected : of_stream, "aclrtRecordEvent");
    if (e == nullptr || s == nullptr) return;
    started(*s);
    e->recorded = true;
    e->known = s->known;
  }
  void wait_event() {
    void *event = nullptr, *stream = nullptr;
    codes expected, of_stream;
    model_event* e = pick_event(event, expected);
    model_stream* s = pick_stream(stream, of_stream);
    if (e != nullptr) expected = of_stream;
    const bool may = e != nullptr && (e->flags & ascend::event_sync) != 0;
    if (e != nullptr && s != nullptr && !may) expected = {107000};
    expect(rt.aclrtStreamWaitEvent(stream, event), expected, "aclrtStreamWaitEvent");
    if (!may || s == nullptr || !e->recorded) return;
    started(*s);
    s->known.join(e->known);
  }
  void synchronize_event() {
    void* event = nullptr;
    codes expected;
    model_event* e = pick_event(event, expected);
    expect(rt.aclrtSynchronizeEvent(event), expected, "aclrtSynchronizeEvent");
    if (e == nullptr) return;
    host_.join(e->known);
    event_status status{};
    expect(rt.aclrtQueryEventStatus(event, &status), {0}, "aclrtQueryEventStatus");
    expect(status == event_status::complete, "the status of an event that was waited for");
    float ms = -1;
    const bool timed = e->recorded && (e->flags & ascend::event_time_line) != 0;
    expect(rt.aclrtEventElapsedTime(&ms, event, event), {timed ? 0 : 107006}, "aclrtEventElapsedTime");
    expect(ms == 0 || !timed, "the time between an event and itself");
  }
  void synchronize_stream() {
    void* handle = nullptr;
    codes expected;
    model_stream* s = pick_stream(handle, expected);
    if (s != nullptr) expected = s->outcomes();
    expect(random_.one_in(2) ? rt.aclrtSynchronizeStream(handle) : rt.aclrtSynchronizeStreamWithTimeout(handle, 60000),
           expected, "aclrtSynchronizeStream");
    if (s != nullptr) reported(*s);
  }
  void synchronize_device() {
    codes expected{0};
    bool certain = false;
    for (const model_stream& s : streams_) {
      const codes its = s.outcomes();
      certain = certain || its.count(0) == 0;
      expected.insert(its.begin(), its.end());
    }
    if (certain) expected.erase(0);
    expect(rt.aclrtSynchronizeDevice(), expected, "aclrtSynchronizeDevice");
    for (model_stream& s : streams_) reported(s);
  }
  void query() {
    void* handle = nullptr;
    codes expected;
    model_stream* s = pick_stream(handle, expected);
    stream_status status = stream_status::not_ready;
    expect(rt.aclrtStreamQuery(handle, &status), expected, "aclrtStreamQuery");
    const bool over = s != nullptr && host_.covers(s->number, s->tasks);
    expect(!over || status == stream_status::complete, "the status of a stream that was waited for");
  }
  void change_context() {
    const std::uint32_t kind = random_.below(6);
    if (kind == 0 && contexts_.size() < 4) {
      void* handle = nullptr;
      expect(rt.aclrtCreateContext(&handle, device_), {0}, "aclrtCreateContext");
      current_ = static_cast<int>(contexts_.size());
      contexts_.push_back({handle, false, true});
      streams_.push_back({nullptr, static_cast<int>(streams_.size()), current_, true, 0, {}, {}});
      return;
    }
    const auto i = static_cast<int>(random_.below(contexts_.size()));
    const model_context& c = contexts_[static_cast<std::size_t>(i)];
    if (kind == 1 && i == 0)
      return expect(rt.aclrtDestroyContext(c.handle), {107000}, "aclrtDestroyContext of SetDevice");
    expect(rt.aclrtSetCurrentContext(c.handle), {0}, "aclrtSetCurrentContext");
    current_ = i;
  }

  std::vector<float> new_values(std::size_t n) {
    std::vector<float> v(n);
    for (float& x : v) x = static_cast<float>(random_.below(1000));
    return v;
  }
  void upload() {
    model_block* b = pick_block();
    if (b == nullptr) return;
    const auto values = new_values(b->values.size());
    const std::size_t bytes = values.size() * 4;
    const bool async = random_.one_in(2);
    void* stream = nullptr;
    codes expected{0};
    model_stream* s = async ? pick_stream(stream, expected) : nullptr;
    if (not_for_detector(s, *b, true)) return;
    copy_kind kind = copy_kind::host_to_device;
    std::size_t count = bytes, room = bytes;
    int wrong = b->alive ? 0 : 107000;
    if (wrong == 0 && random_.one_in(6)) {
      wrong = 107000;
      const std::uint32_t how = random_.below(4);
      if (how == 0) kind = copy_kind::device_to_host;
      if (how == 1) count = 0;
      if (how == 2) room = bytes - 1;
      if (how == 3)
        return expect(rt.aclrtMemcpy(b->address, bytes, nullptr, bytes, kind), {100000}, "aclrtMemcpy of null");
    }
    if (wrong != 0) expected = {wrong};
    const int code = async ? rt.aclrtMemcpyAsync(b->address, room, values.data(), count, kind, stream)
                           : rt.aclrtMemcpy(b->address, room, values.data(), count, kind);
    expect(code, expected, async ? "aclrtMemcpyAsync to the device" : "aclrtMemcpy to the device");
    if (expected != codes{0}) return;
    bool ordered = false;
    if (async) {
      const std::uint64_t n = started(*s);
      ordered = touches(*s, n, *b, true);
      host_.set(s->number, n);  // pageable: it has run
      host_.join(s->known);
    } else {
      ordered = host_may_touch(*b, true);
      if (!ordered) doubt();
    }
    b->known = ordered;
    b->values = values;
    forget_done(*b);
  }
  void download() {
    model_block* b = pick_block();
    if (b == nullptr || not_for_detector(nullptr, *b, false)) return;
    std::vector<float> values(b->values.size());
    const std::size_t bytes = values.size() * 4;
    expect(rt.aclrtMemcpy(values.data(), bytes, b->address, bytes, copy_kind::device_to_host), {b->alive ? 0 : 107000},
           "aclrtMemcpy to the host");
    const bool known = b->alive && b->known && host_may_touch(*b, false);
    expect(!known || values == b->values, "the contents of memory");
  }
  void memset_async() {
    model_block* b = pick_block();
    if (b == nullptr) return;
    void* stream = nullptr;
    codes expected;
    const std::size_t bytes = b->values.size() * 4;
    model_stream* s = pick_stream(stream, expected);
    if (not_for_detector(s, *b, true)) return;
    const bool too_much = random_.one_in(6);
    if (!b->alive || too_much) expected = {107000};
    expect(rt.aclrtMemsetAsync(b->address, bytes + 1, 0, bytes + too_much, stream), expected, "aclrtMemsetAsync");
    if (expected != codes{0}) return;
    b->known = touches(*s, started(*s), *b, true);
    std::fill(b->values.begin(), b->values.end(), 0.0f);
  }

  // out = in * 2, in + 3 or 5, by operators.
  void run_operator() {
    model_block *in = pick_block(), *out = pick_block();
    if (in == nullptr) return;
    void* stream = nullptr;
    codes expected;
    model_stream* s = pick_stream(stream, expected);
    if (not_for_detector(s, *in, false) || not_for_detector(s, *out, true)) return;
    const std::uint32_t what = random_.below(3), wrong = random_.below(12);
    auto* x = describe(*in, wrong == 0 ? ascend::data_type::float64 : ascend::data_type::float32);
    auto* y = describe(*out, ascend::data_type::float32);
    float two = 2, three = 3, five = 5, one = 1;
    const float& number = what == 0 ? two : what == 1 ? three : five;
    auto* value = nn.aclCreateScalar(const_cast<float*>(&number), ascend::data_type::float32);
    auto* alpha = nn.aclCreateScalar(&one, ascend::data_type::float32);
    std::uint64_t workspace = 0;
    ascend::aclOpExecutor* executor = nullptr;
    const bool unary = what != 2, shapes = in->values.size() == out->values.size();
    ascend::aclTensor* target = wrong == 1 ? nullptr : y;
    int code = 0;
    if (what == 0) code = op.aclnnMuls.plan(x, value, target, &workspace, &executor);
    if (what == 1) code = op.aclnnAdds.plan(x, value, alpha, target, &workspace, &executor);
    if (what == 2) code = op.aclnnInplaceFillScalar.plan(target, value, &workspace, &executor);
    codes planned{0};
    if (unary && (wrong == 0 || !shapes)) planned = {161002};
    if (unary && wrong == 0) planned = {0, 161002};  // fp64 may be known to the operator
    if (wrong == 1) planned = {161001, 161002};
    expect(code, planned, "the first phase");
    if (code == 0) {
      const auto run = what == 0 ? op.aclnnMuls.run : what == 1 ? op.aclnnAdds.run : op.aclnnInplaceFillScalar.run;
      const auto other = what == 2 ? op.aclnnMuls.run : op.aclnnInplaceFillScalar.run;
      if (wrong == 2) expect(other(nullptr, 0, executor, stream), {161002}, "another operator's executor");
      const int status = run(nullptr, 0, executor, stream);
      if (workspace != 0) {
        expect(status, {161001}, "no workspace");
      } else {
        expect(status, expected == codes{0} ? codes{0} : codes{361001}, "the second phase");
        if (wrong == 3) expect(run(nullptr, 0, executor, stream), {161002}, "an executor used twice");
      }
      if (status == 0) computed(*s, unary ? in : nullptr, *out, what, unary && wrong == 0);
    }
    for (const auto* t : {x, y}) expect(nn.aclDestroyTensor(t), {0}, "aclDestroyTensor");
    for (const auto* v : {value, alpha}) expect(nn.aclDestroyScalar(v), {0}, "aclDestroyScalar");
  }
  void computed(model_stream& s, model_block* in, model_block& out, std::uint32_t what, bool other_type) {
    const std::uint64_t n = started(s);
    const bool lives = out.alive && (in == nullptr || in->alive);
    if (!lives) s.failures.push_back({n, 507015, true});
    bool known = in == nullptr || (touches(s, n, *in, false) && in->known);
    known = touches(s, n, out, true) && known && lives && !other_type;
    for (std::size_t i = 0; known && i < out.values.size(); ++i)
      out.values[i] = what == 0 ? in->values[i] * 2 : what == 1 ? in->values[i] + 3 : 5;
    out.known = known;
  }
  ascend::aclTensor* describe(const model_block& b, ascend::data_type type) {
    const auto n = static_cast<std::int64_t>(b.values.size());
    const std::int64_t shape[] = {type == ascend::data_type::float64 ? n / 2 : n};
    return nn.aclCreateTensor(shape, 1, type, nullptr, 0, ascend::format::nd, shape, 1, b.address);
  }

  void finish() {
    if (testing::Test::HasFailure()) return;
    synchronize_device();
    for (model_block& b : blocks_)
      if (b.alive) expect(rt.aclrtFree(b.address), {0}, "aclrtFree at the end");
    for (model_event& e : events_)
      if (e.alive) expect(rt.aclrtDestroyEvent(e.handle), {0}, "aclrtDestroyEvent at the end");
    for (model_stream& s : streams_) {
      if (!s.alive || s.handle == nullptr) continue;
      expect(rt.aclrtSetCurrentContext(contexts_[static_cast<std::size_t>(s.context)].handle), {0},
             "aclrtSetCurrentContext");
      expect(rt.aclrtDestroyStream(s.handle), {0}, "aclrtDestroyStream at the end");
    }
    for (model_context& c : contexts_)
      if (!c.implicit) expect(rt.aclrtDestroyContext(c.handle), {0}, "aclrtDestroyContext");
    expect(rt.aclrtResetDevice(device_), {0}, "aclrtResetDevice");
  }

  void expect(bool right, const char* what) {
    if (!right) ADD_FAILURE() << where() << what;
  }
  void expect(int code, const codes& expected, const char* call) {
    if (expected.count(code) != 0) return;
    const char* text = rt.aclGetRecentErrMsg();
    ADD_FAILURE() << where() << call << " gave " << code << " (" << (text == nullptr ? "" : text) << "), not "
                  << testing::PrintToString(expected);
  }
  std::string where() const {
    return std::string(what_) + " " + std::to_string(seed_) + ", call " + std::to_string(step_) + ": ";
  }

  const ascend::calls& calls_ = emulator().calls();
  const ascend::runtime_calls& rt = calls_.rt;
  const ascend::meta_calls& nn = calls_.nn;
  const ascend::operator_calls& op = calls_.op;
  const int device_;
  const std::uint64_t seed_;
  const char* what_;
  fuzz_random random_;
  int step_ = 0, current_ = 0;
  clock_vector host_;
  std::vector<model_context> contexts_;
  std::vector<model_stream> streams_;
  std::vector<model_event> events_;
  std::vector<model_block> blocks_;
};

}  // namespace npu_test
