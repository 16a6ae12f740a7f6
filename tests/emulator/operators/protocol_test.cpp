#include "device/npu/gate.hpp"
#include "emulator/operators_fixture.hpp"
#include "rlcore/emulator/emulated_npu.hpp"

namespace npu_test::RLCORE_TEST_ID {

namespace {

struct protocol : operators_test {
  std::uint64_t bytes = 0;
  ascend::aclOpExecutor* executor = nullptr;
  device_tensor &x = make(data_type::float32, {4}, {1, 2, 3, 4}), &y = make(data_type::float32, {4}, {5, 6, 7, 8}),
                &z = make(data_type::float32, {4});
  int plan_add() { return op.aclnnAdd.plan(x, y, number(1), z, &bytes, &executor); }
};

TEST_F(protocol, a_tensor_is_what_it_was_created_from) {
  std::int64_t shape[] = {2, 2}, strides[] = {1, 2}, storage = 4;
  auto* t = nn.aclCreateTensor(shape, 2, data_type::float32, strides, 0, ascend::format::nd, &storage, 1, x.data);
  shape[0] = 7;
  strides[0] = 9;
  auto& out = make(data_type::float32, {2, 2});
  ASSERT_EQ(run(op.aclnnNeg, t, out), 0) << "the arrays were copied";
  EXPECT_EQ(get(out), (numbers{-1, -3, -2, -4}));
  EXPECT_EQ(nn.aclDestroyTensor(t), 0);
  EXPECT_EQ(nn.aclDestroyTensor(t), 161002) << "destroyed twice";
  EXPECT_EQ(plan(op.aclnnNeg, t, out), 161002) << "used after it was destroyed";
  EXPECT_EQ(nn.aclDestroyTensor(nullptr), 0);
}

TEST_F(protocol, null_strides_are_contiguous_and_the_address_can_be_changed) {
  const std::int64_t shape[] = {2}, storage = 4;
  auto* t = nn.aclCreateTensor(shape, 1, data_type::float32, nullptr, 1, ascend::format::nd, &storage, 1, x.data);
  auto& out = make(data_type::float32, {2});
  ASSERT_EQ(run(op.aclnnNeg, t, out), 0);
  EXPECT_EQ(get(out), (numbers{-2, -3}));
  EXPECT_EQ(nn.aclSetRawTensorAddr(t, y.data), 0);
  void* address = nullptr;
  EXPECT_EQ(nn.aclGetRawTensorAddr(t, &address), 0);
  EXPECT_EQ(address, y.data);
  ASSERT_EQ(run(op.aclnnNeg, t, out), 0);
  EXPECT_EQ(get(out), (numbers{-6, -7}));
  EXPECT_EQ(nn.aclDestroyTensor(t), 0);
  EXPECT_EQ(nn.aclGetRawTensorAddr(t, &address), 161002);
}

TEST_F(protocol, scalars_are_copied_in_every_type) {
  auto& out = make(data_type::float32, {4});
  const auto times = [&](auto value, data_type type) {
    auto* s = nn.aclCreateScalar(&value, type);
    value = decltype(value)(0);
    EXPECT_EQ(run(op.aclnnMuls, x, s, out), 0);
    EXPECT_EQ(nn.aclDestroyScalar(s), 0);
    EXPECT_EQ(nn.aclDestroyScalar(s), 161002);
    return get(out)[1];
  };
  EXPECT_EQ(times(1.5f, data_type::float32), 3);
  EXPECT_EQ(times(1.5, data_type::float64), 3);
  EXPECT_EQ(times(bf16(1.5f), data_type::bfloat16), 3);
  EXPECT_EQ(times(f16(1.5f), data_type::float16), 3);
  EXPECT_EQ(times(std::int64_t{-3}, data_type::int64), -6);
  EXPECT_EQ(times(std::int32_t{-3}, data_type::int32), -6);
  EXPECT_EQ(times(std::uint8_t{200}, data_type::uint8), 400);
  EXPECT_EQ(times(true, data_type::boolean), 2);
  EXPECT_EQ(nn.aclCreateScalar(nullptr, data_type::float32), nullptr);
}

TEST_F(protocol, a_list_owns_its_tensors) {
  auto &a = make(data_type::float32, {1}, {1}), &b = make(data_type::float32, {1}, {2}),
       &out = make(data_type::float32, {2});
  auto* const handle = a.handle;
  auto* l = list({&a, &b});
  EXPECT_EQ(nn.aclDestroyTensor(handle), 161002) << "the list destroys it";
  EXPECT_EQ(nn.aclCreateTensorList(std::array<const ascend::aclTensor*, 1>{handle}.data(), 1), nullptr);
  ASSERT_EQ(run(op.aclnnCat, l, 0, out), 0);
  EXPECT_EQ(get(out), (numbers{1, 2}));
}

TEST_F(protocol, views_must_stay_inside_their_storage_and_storages_be_aligned) {
  const std::int64_t shape[] = {3}, strides[] = {2}, storage = 4;
  const auto status = [&](std::int64_t offset, void* data) {
    auto* t = nn.aclCreateTensor(shape, 1, data_type::float32, strides, offset, ascend::format::nd, &storage, 1, data);
    auto& out = make(data_type::float32, {3});
    const int s = plan(op.aclnnNeg, t, out);
    EXPECT_EQ(nn.aclDestroyTensor(t), 0);
    return s;
  };
  EXPECT_EQ(status(0, x.data), 161002) << "element 4 of 4";
  EXPECT_EQ(status(-1, x.data), 161002);
  auto& repeated = make(data_type::float32, {4}, {}, {0});
  EXPECT_EQ(plan(op.aclnnNeg, x, repeated), 161002) << "an output that names an element twice";
  const std::int64_t one = 1;
  auto* t = nn.aclCreateTensor(&one, 1, data_type::float32, nullptr, 0, ascend::format::nd, &one, 1, x.data + 4);
  EXPECT_EQ(plan(op.aclnnNeg, t, z), 161002) << "not a multiple of 32 bytes";
  EXPECT_EQ(nn.aclDestroyTensor(t), 0);
}

TEST_F(protocol, an_executor_runs_once) {
  ASSERT_EQ(plan_add(), 0);
  auto* const used = executor;
  EXPECT_EQ(op.aclnnAdd.run(nullptr, 0, executor, stream), 0);
  EXPECT_EQ(op.aclnnAdd.run(nullptr, 0, used, stream), 161002);
  EXPECT_NE(message().find("runs once"), std::string::npos);
  EXPECT_EQ(nn.aclDestroyAclOpExecutor(used), 161002) << "phase 2 has destroyed it";
  EXPECT_EQ(op.aclnnAdd.run(nullptr, 0, nullptr, stream), 161001);
  EXPECT_EQ(rt.aclrtSynchronizeStream(stream), 0);
}

TEST_F(protocol, a_repeatable_executor_runs_often_and_at_other_addresses) {
  ASSERT_EQ(plan_add(), 0);
  EXPECT_EQ(nn.aclSetInputTensorAddr(executor, 0, x.handle, y.data), 161002) << "not repeatable yet";
  ASSERT_EQ(nn.aclSetAclOpExecutorRepeatable(executor), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(op.aclnnAdd.run(nullptr, 0, executor, stream), 0);
  EXPECT_EQ(rt.aclrtSynchronizeStream(stream), 0);
  EXPECT_EQ(get(z), (numbers{6, 8, 10, 12}));
  auto& other = make(data_type::float32, {4});
  EXPECT_EQ(nn.aclSetInputTensorAddr(executor, 0, x.handle, y.data), 0);
  EXPECT_EQ(nn.aclSetOutputTensorAddr(executor, 0, z.handle, other.data), 0);
  EXPECT_EQ(nn.aclSetInputTensorAddr(executor, 2, x.handle, y.data), 161002) << "two inputs";
  EXPECT_EQ(nn.aclSetInputTensorAddr(executor, 1, x.handle, y.data), 161002) << "not that input";
  EXPECT_EQ(op.aclnnAdd.run(nullptr, 0, executor, stream), 0);
  EXPECT_EQ(rt.aclrtSynchronizeStream(stream), 0);
  EXPECT_EQ(get(other), (numbers{10, 12, 14, 16}));
  EXPECT_EQ(nn.aclDestroyAclOpExecutor(executor), 0);
}

TEST_F(protocol, what_copies_between_tensors_cannot_be_repeated) {
  ASSERT_EQ(op.aclnnInplaceCopy.plan(z, x, &bytes, &executor), 0);
  EXPECT_EQ(nn.aclSetAclOpExecutorRepeatable(executor), 161002);
  EXPECT_EQ(nn.aclDestroyAclOpExecutor(executor), 0);
}

TEST_F(protocol, phases_do_not_mix) {
  ASSERT_EQ(plan_add(), 0);
  EXPECT_EQ(op.aclnnMul.run(nullptr, 0, executor, stream), 161002);
  EXPECT_NE(message().find("another operator"), std::string::npos);
  EXPECT_EQ(op.aclnnAdd.run(nullptr, 0, executor, stream), 0);
  EXPECT_EQ(rt.aclrtSynchronizeStream(stream), 0);
  EXPECT_EQ(op.aclnnAdd.plan(x, y, number(1), z, nullptr, &executor), 161001);
  EXPECT_EQ(op.aclnnAdd.plan(x, y, number(1), z, &bytes, nullptr), 161001);
}

TEST_F(protocol, tensors_live_until_the_second_phase) {
  auto* t = nn.aclCreateTensor(x.view.shape.data(), 1, data_type::float32, nullptr, 0, ascend::format::nd,
                               x.view.shape.data(), 1, x.data);
  ASSERT_EQ(op.aclnnNeg.plan(t, z, &bytes, &executor), 0);
  ASSERT_EQ(nn.aclDestroyTensor(t), 0);
  EXPECT_EQ(op.aclnnNeg.run(nullptr, 0, executor, stream), 161002);
  EXPECT_EQ(nn.aclDestroyAclOpExecutor(executor), 0);
}

TEST_F(protocol, the_workspace_is_checked) {
  auto& sum = make(data_type::float32, {});
  auto* all = ints({});
  const auto plan_sum = [&] {
    return op.aclnnReduceSum.plan(x, all, false, data_type::float32, sum, &bytes, &executor);
  };
  ASSERT_EQ(plan_sum(), 0);
  ASSERT_GT(bytes, 0u);
  void* workspace = nullptr;
  ASSERT_EQ(rt.aclrtMalloc(&workspace, bytes, ascend::memory_policy::huge_first), 0);
  EXPECT_EQ(op.aclnnReduceSum.run(workspace, bytes - 1, executor, stream), 161002) << "too small";
  EXPECT_EQ(op.aclnnReduceSum.run(nullptr, bytes, executor, stream), 161001) << "null";
  EXPECT_EQ(nn.aclDestroyAclOpExecutor(executor), 161002) << "which destroys the executor";
  ASSERT_EQ(plan_sum(), 0);
  EXPECT_EQ(op.aclnnReduceSum.run(x.data + 8, bytes, executor, stream), 0) << "found on the device";
  EXPECT_EQ(rt.aclrtSynchronizeStream(stream), 507015) << "beyond the end of an allocation";
  EXPECT_EQ(rt.aclrtFree(workspace), 0);
}

TEST_F(protocol, a_workspace_freed_while_the_operator_is_pending_is_found) {
  auto& sum = make(data_type::float32, {});
  void* workspace = nullptr;
  ASSERT_EQ(op.aclnnReduceSum.plan(x, ints({}), false, data_type::float32, sum, &bytes, &executor), 0);
  ASSERT_EQ(rt.aclrtMalloc(&workspace, bytes, ascend::memory_policy::huge_first), 0);
  gate hold;
  ASSERT_EQ(emulated::enqueue(stream, "holds", [&] { hold.pass(); }), 0);
  EXPECT_EQ(op.aclnnReduceSum.run(workspace, bytes, executor, stream), 0);
  EXPECT_EQ(rt.aclrtFree(workspace), 0);
  hold.open();
  EXPECT_EQ(rt.aclrtSynchronizeStream(stream), 507015);
}

TEST_F(protocol, the_first_phase_touches_no_data_and_the_second_only_enqueues) {
  gate hold;
  ASSERT_EQ(emulated::enqueue(stream, "holds", [&] { hold.pass(); }), 0);
  EXPECT_EQ(plan_add(), 0);
  EXPECT_EQ(op.aclnnAdd.run(nullptr, 0, executor, stream), 0);
  ascend::stream_status status = ascend::stream_status::complete;
  EXPECT_EQ(rt.aclrtStreamQuery(stream, &status), 0);
  EXPECT_EQ(status, ascend::stream_status::not_ready);
  hold.open();
  EXPECT_EQ(rt.aclrtSynchronizeStream(stream), 0);
  EXPECT_EQ(get(z), (numbers{6, 8, 10, 12}));
}

TEST_F(protocol, a_host_address_is_found_when_the_kernel_runs) {
  std::vector<float> host(64);
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(host.data()) + 31) / 32 * 32);
  const std::int64_t four = 4;
  auto* t = nn.aclCreateTensor(&four, 1, data_type::float32, nullptr, 0, ascend::format::nd, &four, 1, aligned);
  EXPECT_EQ(run(op.aclnnNeg, t, z), 507015);
  EXPECT_EQ(nn.aclDestroyTensor(t), 0);
}

TEST_F(protocol, a_refusing_stream_is_a_runtime_error) {
  ascend::aclrtContext own = nullptr, before = nullptr;
  ASSERT_EQ(rt.aclrtGetCurrentContext(&before), 0);
  ASSERT_EQ(rt.aclrtCreateContext(&own, 0), 0);
  ASSERT_EQ(plan_add(), 0);
  EXPECT_EQ(op.aclnnAdd.run(nullptr, 0, executor, stream), 361001) << "the stream is another context's";
  EXPECT_NE(message().find("107003"), std::string::npos);
  ASSERT_EQ(rt.aclrtSetCurrentContext(before), 0);
  ASSERT_EQ(rt.aclrtDestroyContext(own), 0);
}

TEST_F(protocol, what_was_not_destroyed_is_reported) {
  auto* s = number(1);
  ASSERT_EQ(op.aclnnAdd.plan(x, y, s, z, &bytes, &executor), 0);
  const std::int64_t four = 4;
  auto* lost = nn.aclCreateTensor(&four, 1, data_type::float32, nullptr, 0, ascend::format::nd, &four, 1, x.data);
  finish_expecting({"aclTensor", "aclOpExecutor"});
  EXPECT_EQ(nn.aclDestroyTensor(lost), 0);
  EXPECT_EQ(nn.aclDestroyAclOpExecutor(executor), 0);
}

}  // namespace
}  // namespace npu_test::RLCORE_TEST_ID
