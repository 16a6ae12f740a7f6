// Compares abi/types.hpp and the four lists with the headers of an installed CANN toolkit: compiles if all that both
// declare agrees. present.hpp is written by CMakeLists.txt: it includes the headers and says which functions they have.
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "present.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "shape.hpp"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace abi_check {

namespace ours = rlcore::ascend;

#define RLCORE_ABI_PAIR(own, vendor) \
  template <>                        \
  struct counterpart<own> {          \
    using type = vendor;             \
  };
RLCORE_ABI_PAIR(ours::aclTensor, ::aclTensor)
RLCORE_ABI_PAIR(ours::aclScalar, ::aclScalar)
RLCORE_ABI_PAIR(ours::aclIntArray, ::aclIntArray)
RLCORE_ABI_PAIR(ours::aclFloatArray, ::aclFloatArray)
RLCORE_ABI_PAIR(ours::aclBoolArray, ::aclBoolArray)
RLCORE_ABI_PAIR(ours::aclTensorList, ::aclTensorList)
RLCORE_ABI_PAIR(ours::aclScalarList, ::aclScalarList)
RLCORE_ABI_PAIR(ours::aclOpExecutor, ::aclOpExecutor)
RLCORE_ABI_PAIR(ours::data_type, ::aclDataType)
RLCORE_ABI_PAIR(ours::format, ::aclFormat)
RLCORE_ABI_PAIR(ours::memory_policy, ::aclrtMemMallocPolicy)
RLCORE_ABI_PAIR(ours::copy_kind, ::aclrtMemcpyKind)
RLCORE_ABI_PAIR(ours::memory_kind, ::aclrtMemAttr)
RLCORE_ABI_PAIR(ours::stream_status, ::aclrtStreamStatus)
RLCORE_ABI_PAIR(ours::event_status, ::aclrtEventRecordedStatus)
RLCORE_ABI_PAIR(ours::overflow_mode, ::aclrtFloatOverflowMode)
RLCORE_ABI_PAIR(ours::system_option, ::aclSysParamOpt)
RLCORE_ABI_PAIR(ours::package_name, ::aclCANNPackageName)
RLCORE_ABI_PAIR(ours::package_version, ::aclCANNPackageVersion)
RLCORE_ABI_PAIR(ours::hccl_type, ::HcclDataType)
RLCORE_ABI_PAIR(ours::hccl_reduction, ::HcclReduceOp)
RLCORE_ABI_PAIR(ours::hccl_root_info, ::HcclRootInfo)
RLCORE_ABI_PAIR(ours::hccl_item, ::HcclSendRecvItem)

#define RLCORE_ABI_VALUE(own, vendor) \
  static_assert(static_cast<long long>(ours::own) == static_cast<long long>(vendor), #vendor);
RLCORE_ABI_VALUE(data_type::undefined, ACL_DT_UNDEFINED)
RLCORE_ABI_VALUE(data_type::float32, ACL_FLOAT)
RLCORE_ABI_VALUE(data_type::float16, ACL_FLOAT16)
RLCORE_ABI_VALUE(data_type::int8, ACL_INT8)
RLCORE_ABI_VALUE(data_type::int32, ACL_INT32)
RLCORE_ABI_VALUE(data_type::uint8, ACL_UINT8)
RLCORE_ABI_VALUE(data_type::int16, ACL_INT16)
RLCORE_ABI_VALUE(data_type::uint16, ACL_UINT16)
RLCORE_ABI_VALUE(data_type::uint32, ACL_UINT32)
RLCORE_ABI_VALUE(data_type::int64, ACL_INT64)
RLCORE_ABI_VALUE(data_type::uint64, ACL_UINT64)
RLCORE_ABI_VALUE(data_type::float64, ACL_DOUBLE)
RLCORE_ABI_VALUE(data_type::boolean, ACL_BOOL)
RLCORE_ABI_VALUE(data_type::bfloat16, ACL_BF16)
RLCORE_ABI_VALUE(format::undefined, ACL_FORMAT_UNDEFINED)
RLCORE_ABI_VALUE(format::nchw, ACL_FORMAT_NCHW)
RLCORE_ABI_VALUE(format::nhwc, ACL_FORMAT_NHWC)
RLCORE_ABI_VALUE(format::nd, ACL_FORMAT_ND)
RLCORE_ABI_VALUE(format::fractal_nz, ACL_FORMAT_FRACTAL_NZ)
RLCORE_ABI_VALUE(memory_policy::huge_first, ACL_MEM_MALLOC_HUGE_FIRST)
RLCORE_ABI_VALUE(memory_policy::huge_only, ACL_MEM_MALLOC_HUGE_ONLY)
RLCORE_ABI_VALUE(memory_policy::normal_only, ACL_MEM_MALLOC_NORMAL_ONLY)
RLCORE_ABI_VALUE(copy_kind::host_to_host, ACL_MEMCPY_HOST_TO_HOST)
RLCORE_ABI_VALUE(copy_kind::host_to_device, ACL_MEMCPY_HOST_TO_DEVICE)
RLCORE_ABI_VALUE(copy_kind::device_to_host, ACL_MEMCPY_DEVICE_TO_HOST)
RLCORE_ABI_VALUE(copy_kind::device_to_device, ACL_MEMCPY_DEVICE_TO_DEVICE)
RLCORE_ABI_VALUE(copy_kind::automatic, ACL_MEMCPY_DEFAULT)
RLCORE_ABI_VALUE(memory_kind::ddr, ACL_DDR_MEM)
RLCORE_ABI_VALUE(memory_kind::hbm, ACL_HBM_MEM)
RLCORE_ABI_VALUE(stream_status::complete, ACL_STREAM_STATUS_COMPLETE)
RLCORE_ABI_VALUE(stream_status::not_ready, ACL_STREAM_STATUS_NOT_READY)
RLCORE_ABI_VALUE(event_status::not_ready, ACL_EVENT_RECORDED_STATUS_NOT_READY)
RLCORE_ABI_VALUE(event_status::complete, ACL_EVENT_RECORDED_STATUS_COMPLETE)
RLCORE_ABI_VALUE(event_sync, ACL_EVENT_SYNC)
RLCORE_ABI_VALUE(event_time_line, ACL_EVENT_TIME_LINE)
RLCORE_ABI_VALUE(stream_fast_launch, ACL_STREAM_FAST_LAUNCH)
RLCORE_ABI_VALUE(stream_fast_sync, ACL_STREAM_FAST_SYNC)
RLCORE_ABI_VALUE(failure_mode::continue_on_failure, ACL_CONTINUE_ON_FAILURE)
RLCORE_ABI_VALUE(failure_mode::stop_on_failure, ACL_STOP_ON_FAILURE)
RLCORE_ABI_VALUE(overflow_mode::saturation, ACL_RT_OVERFLOW_MODE_SATURATION)
RLCORE_ABI_VALUE(overflow_mode::infnan, ACL_RT_OVERFLOW_MODE_INFNAN)
RLCORE_ABI_VALUE(system_option::deterministic, ACL_OPT_DETERMINISTIC)
RLCORE_ABI_VALUE(system_option::debug_kernel, ACL_OPT_ENABLE_DEBUG_KERNEL)
RLCORE_ABI_VALUE(package_name::cann, ACL_PKG_NAME_CANN)
RLCORE_ABI_VALUE(package_name::runtime, ACL_PKG_NAME_RUNTIME)
RLCORE_ABI_VALUE(package_name::compiler, ACL_PKG_NAME_COMPILER)
RLCORE_ABI_VALUE(package_name::hccl, ACL_PKG_NAME_HCCL)
RLCORE_ABI_VALUE(package_name::toolkit, ACL_PKG_NAME_TOOLKIT)
RLCORE_ABI_VALUE(package_name::opp, ACL_PKG_NAME_OPP)
RLCORE_ABI_VALUE(package_name::opp_kernel, ACL_PKG_NAME_OPP_KERNEL)
RLCORE_ABI_VALUE(package_name::driver, ACL_PKG_NAME_DRIVER)
RLCORE_ABI_VALUE(hccl_type::int8, HCCL_DATA_TYPE_INT8)
RLCORE_ABI_VALUE(hccl_type::int16, HCCL_DATA_TYPE_INT16)
RLCORE_ABI_VALUE(hccl_type::int32, HCCL_DATA_TYPE_INT32)
RLCORE_ABI_VALUE(hccl_type::float16, HCCL_DATA_TYPE_FP16)
RLCORE_ABI_VALUE(hccl_type::float32, HCCL_DATA_TYPE_FP32)
RLCORE_ABI_VALUE(hccl_type::int64, HCCL_DATA_TYPE_INT64)
RLCORE_ABI_VALUE(hccl_type::uint64, HCCL_DATA_TYPE_UINT64)
RLCORE_ABI_VALUE(hccl_type::uint8, HCCL_DATA_TYPE_UINT8)
RLCORE_ABI_VALUE(hccl_type::uint16, HCCL_DATA_TYPE_UINT16)
RLCORE_ABI_VALUE(hccl_type::uint32, HCCL_DATA_TYPE_UINT32)
RLCORE_ABI_VALUE(hccl_type::float64, HCCL_DATA_TYPE_FP64)
RLCORE_ABI_VALUE(hccl_type::bfloat16, HCCL_DATA_TYPE_BFP16)
RLCORE_ABI_VALUE(hccl_reduction::sum, HCCL_REDUCE_SUM)
RLCORE_ABI_VALUE(hccl_reduction::product, HCCL_REDUCE_PROD)
RLCORE_ABI_VALUE(hccl_reduction::maximum, HCCL_REDUCE_MAX)
RLCORE_ABI_VALUE(hccl_reduction::minimum, HCCL_REDUCE_MIN)
static_assert(HCCL_SEND == 0 && HCCL_RECV == 1, "hccl_item::type");

#define RLCORE_ABI_MEMBER(own, member, vendor, field)                                                 \
  static_assert(offsetof(ours::own, member) == offsetof(vendor, field) &&                             \
                    sizeof(std::declval<ours::own>().member) == sizeof(std::declval<vendor>().field), \
                #vendor "::" #field);
static_assert(sizeof(ours::hccl_root_info) == sizeof(::HcclRootInfo));
static_assert(sizeof(ours::hccl_item) == sizeof(::HcclSendRecvItem));
RLCORE_ABI_MEMBER(hccl_item, type, ::HcclSendRecvItem, sendRecvType)
RLCORE_ABI_MEMBER(hccl_item, data, ::HcclSendRecvItem, buf)
RLCORE_ABI_MEMBER(hccl_item, count, ::HcclSendRecvItem, count)
RLCORE_ABI_MEMBER(hccl_item, element, ::HcclSendRecvItem, dataType)
RLCORE_ABI_MEMBER(hccl_item, remote, ::HcclSendRecvItem, remoteRank)
static_assert(sizeof(ours::package_version) == sizeof(::aclCANNPackageVersion));
RLCORE_ABI_MEMBER(package_version, version, ::aclCANNPackageVersion, version)
RLCORE_ABI_MEMBER(package_version, major_version, ::aclCANNPackageVersion, majorVersion)
RLCORE_ABI_MEMBER(package_version, minor_version, ::aclCANNPackageVersion, minorVersion)
RLCORE_ABI_MEMBER(package_version, release_version, ::aclCANNPackageVersion, releaseVersion)
RLCORE_ABI_MEMBER(package_version, patch_version, ::aclCANNPackageVersion, patchVersion)

// One row of a list: compared if the headers have it, else counted.
#define RLCORE_ABI_JOIN_(a, b) a##b
#define RLCORE_ABI_JOIN(a, b) RLCORE_ABI_JOIN_(a, b)
#define RLCORE_ABI_0(name, table, member) std::printf("not declared by these headers: %s\n", #name);
#define RLCORE_ABI_1(name, table, member)                                                           \
  static_assert(same_function<decltype(table.member), decltype(&::name)>::value, #name " differs"); \
  ++compared;
#define RLCORE_ABI_ROW(name, table, member) RLCORE_ABI_JOIN(RLCORE_ABI_, RLCORE_ABI_HAS_##name)(name, table, member)

}  // namespace abi_check

int main() {
  using namespace abi_check;
  const ours::calls all;
  int compared = 0;
#define RLCORE_NPU_CALL(name, need, ...) RLCORE_ABI_ROW(name, all.rt, name)
#include "rlcore/device/npu/abi/runtime.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_CALL(name, need, ...) RLCORE_ABI_ROW(name, all.nn, name)
#include "rlcore/device/npu/abi/meta.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_CALL(name, need, ...) RLCORE_ABI_ROW(name, all.comm, name)
#include "rlcore/device/npu/abi/collectives.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_OPERATOR(name, need, ...)                \
  RLCORE_ABI_ROW(name##GetWorkspaceSize, all.op, name.plan) \
  RLCORE_ABI_ROW(name, all.op, name.run)
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
  static_cast<void>(all);
  std::printf("%d functions are declared as in these headers\n", compared);
  return compared == 0;
}
