#include "support/allocation_counter.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/device/npu/queue.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/rollout/session.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/view.hpp"
#include "support/idle_npu.hpp"

namespace RLCORE_TEST_ID {
namespace {

/// Keeps the compiler from removing an allocation that nobody looks at.
template <class T>
T* keep(T* p) {
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

#define NEEDS_COUNTS \
  if (!counts_allocations) GTEST_SKIP() << "a sanitizer owns malloc"

TEST(allocation_counter, sees_every_way_to_allocate) {
  NEEDS_COUNTS;
  const auto calls = [](auto f) {
    const allocation_counter counter;
    f();
    return counter.count();
  };
  EXPECT_EQ(calls([] {}), 0u);
  EXPECT_EQ(calls([] { std::free(keep(std::malloc(10))); }), 1u);
  EXPECT_EQ(calls([] { std::free(keep(std::calloc(2, 10))); }), 1u);
  EXPECT_EQ(calls([] { std::free(keep(std::realloc(keep(std::malloc(10)), 100000))); }), 2u);
  EXPECT_EQ(calls([] { std::free(keep(std::aligned_alloc(64, 128))); }), 1u);
  EXPECT_EQ(calls([] { delete keep(new int(3)); }), 1u);
  EXPECT_EQ(calls([] { delete[] keep(new char[1000]); }), 1u);
  EXPECT_EQ(calls([] { ::operator delete(keep(::operator new(64, std::align_val_t{64})), std::align_val_t{64}); }), 1u);
  EXPECT_EQ(calls([] {
              std::vector<double> v(100);
              keep(v.data());
            }),
            1u);
  const allocation_counter counter;
  std::free(keep(std::malloc(1000)));
  EXPECT_EQ(counter.bytes(), 1000u);
}

TEST(allocation, an_executor_asks_for_none) {
  NEEDS_COUNTS;
  const rlcore::threads three(3);
  const rlcore::serial one;
  std::vector<double> out(512);
  double* const result = out.data();
  double factor = 2;
  const auto work = [result, &factor](std::size_t i) { result[i] += factor * static_cast<double>(i); };
  for (int warm = 0; warm < 10; ++warm) three.for_each(out.size(), work);
  const allocation_counter counter;
  for (int k = 0; k < 1000; ++k) {
    three.for_each(out.size(), work);
    one.for_each(out.size(), work);
  }
  EXPECT_EQ(counter.count(), 0u);
  EXPECT_EQ(out[1], 2.0 * 2010);
}

TEST(allocation, views_ask_for_none) {
  NEEDS_COUNTS;
  std::vector<float> v(12);
  const allocation_counter counter;
  const auto m = rlcore::matrix(v, 3, 4);
  const rlcore::matrix_view<const float> readable = rlcore::as_view(m);
  EXPECT_EQ(keep(readable.data), v.data());
  EXPECT_EQ(counter.count(), 0u);
}

TEST(allocation, packed_rows_keep_their_memory) {
  NEEDS_COUNTS;
  rlcore::ragged<int> packed;
  const std::vector<int> row(7);
  const auto fill = [&] {
    packed.clear();
    for (int i = 0; i < 100; ++i) packed.push_back(row);
  };
  fill();
  const allocation_counter counter;
  fill();
  EXPECT_EQ(counter.count(), 0u);
}

rlcore::nn::config small_model() {
  rlcore::nn::config c;
  c.vocab_size = 75;
  c.hidden_size = 48;
  c.intermediate_size = 70;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 6;
  c.num_key_value_heads = 2;
  c.head_dim = 8;
  return c;
}

/// Everything that a training step does, and one of generation, on a model whose memory has been seen once.
TEST(allocation, a_steady_step_asks_for_none) {
  NEEDS_COUNTS;
  using rlcore::cpu;
  namespace nn = rlcore::nn;
  for (const auto type : {rlcore::compute::float32, rlcore::compute::bfloat16}) {
    cpu device(2, {}, type);
    nn::causal_lm<cpu> model(device, small_model());
    model.initialize(3);
    nn::workspace<cpu> space(device);
    nn::gradients<cpu> gradients(model);
    rlcore::optim::adamw<cpu> optimizer(device, model.size());
    rlcore::ragged<std::int32_t> sequences;
    nn::targets targets;
    for (int length : {40, 23, 7}) {
      const auto start = static_cast<std::int32_t>(sequences.size());
      std::vector<std::int32_t> ids;
      for (int i = 0; i < length; ++i) ids.push_back(i * i % 75);
      sequences.push_back(ids);
      for (int i = 1; i < length; ++i) targets.row.push_back(start + i - 1), targets.token.push_back(ids[1]);
    }
    const auto train = [&](bool recompute) {
      gradients.zero();
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch)
        nn::forward_backward(model, space, gradients, sequences, targets, 1.0f, recompute,
                             [](auto logp, auto, auto dlogp, auto dentropy) {
                               for (std::size_t i = 0; i < logp.size(); ++i) dlogp[i] = -0.01f, dentropy[i] = 0.001f;
                             });
      const double norm = rlcore::optim::global_norm(device, gradients);
      optimizer.step(model.weights(), gradients, 1e-3, rlcore::optim::clip_scale(norm, 1.0));
    };
    std::vector<float> logp(targets.row.size()), entropy(logp.size());
    const auto score = [&] { nn::log_probs(model, space, sequences, targets, 1.0f, logp, entropy); };
    nn::kv_cache<cpu> cache(device, model.settings(), 4);
    const std::vector<std::int32_t> prompt{5, 9, 70, 3, 3, 8}, next{4}, pages{1, 2}, more_pages{0, 3};
    std::vector<float> logits(2 * 75);
    const auto generate = [&] {
      const nn::decode_chunk first[] = {{prompt, 0, pages, true}, {prompt, 0, more_pages, false}};
      const nn::decode_chunk second[] = {{next, 6, pages, true}, {next, 6, more_pages, true}};
      nn::decode(model, space, cache, first, logits.data());
      nn::decode(model, space, cache, second, logits.data());
    };
    const auto all = [&] {
      train(false);
      train(true);
      score();
      generate();
    };
    all(), all();
    const allocation_counter counter;
    train(false);
    EXPECT_EQ(counter.count(), 0u) << "training";
    train(true);
    EXPECT_EQ(counter.count(), 0u) << "training with recomputation";
    score();
    EXPECT_EQ(counter.count(), 0u) << "scoring";
    generate();
    EXPECT_EQ(counter.count(), 0u) << "generation";
  }
}

/// Between arrivals and ends, over boundaries of pages, with two ways to sample.
TEST(allocation, a_steady_step_of_a_session_asks_for_none) {
  NEEDS_COUNTS;
  using namespace rlcore;
  cpu device(2);
  nn::config c;
  c.vocab_size = 50, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8, c.max_position_embeddings = 256;
  nn::causal_lm<cpu> model(device, c);
  model.initialize(11);
  nn::workspace<cpu> space(device);
  rollout::session<cpu> session(model, space, {.max_sequences = 9, .max_batched_tokens = 64});
  rollout::session_listener nobody;
  for (std::uint32_t i = 0; i < 12; ++i) {
    rollout::job job;
    job.prompt.assign(3 + 4 * i, static_cast<std::int32_t>(i)), job.max_new_tokens = 150;
    job.sampling.temperature = i % 2 == 0 ? 0.7f : 1.0f;
    job.top_logprobs = i % 3 == 0 ? 4 : 0, job.prompt_number = i;
    session.submit(std::move(job));
  }
  for (int pass = 0; pass < 80; ++pass) session.step(nobody);
  const allocation_counter counter;
  for (int pass = 0; pass < 60; ++pass) session.step(nobody);
  EXPECT_EQ(counter.count(), 0u);
  EXPECT_EQ(session.statistics().running, 9u);
  EXPECT_EQ(session.statistics().waiting, 3u);
}

/// Once its cache and its ring are there; the objects of Ascend are Ascend's.
TEST(allocation_counter, operators_of_the_npu_allocate_nothing) {
  NEEDS_COUNTS;
  using namespace rlcore;
  ascend::queue q(ascend::session::open(idle_npu(), "idle"));
  std::vector<float> host(100);
  const auto step = [&] {
    const auto x = q.take<float>(100), y = q.take<float>(5000);
    q.upload(x.data(), host.data(), 400);
    for (int i = 0; i < 40; ++i) {
      const auto temporary = q.take<float>(100 * (i + 1));
      q.run(q.table().op.aclnnMul, q.tensor(x.data(), {10, 10}), q.tensor(x.data() + 3, {10, 1}, {10, 1}),
            q.tensor(temporary.data(), {10, 10}));
    }
    q.download(host.data(), y.data(), 400);
  };
  step(), step();
  const allocation_counter counter;
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(counter.count(), 0u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
