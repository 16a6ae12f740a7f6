// C types of AscendCL, aclnn and HCCL that rlcore uses: our own declarations of facts that have not changed from CANN
// 8.1 to 9.1. tests/device/npu/abi_check compares them with the vendor's headers where those exist.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
/// Everything below the npu device policy: Ascend's interfaces, their providers, and owners of their objects.
namespace ascend {

// Names of functions and opaque objects are the vendor's, so that they can be looked up in its documentation.
struct aclTensor;
struct aclScalar;
struct aclIntArray;
struct aclFloatArray;
struct aclBoolArray;
struct aclTensorList;
struct aclScalarList;
struct aclOpExecutor;
using aclError = int;              ///< status of a runtime function; 0 is success
using aclnnStatus = std::int32_t;  ///< status of an operator function; 0 is success
using HcclResult = int;            ///< status of an HCCL function; 0 is success
using aclrtContext = void*;        ///< a device as a thread uses it
using aclrtStream = void*;         ///< a queue of tasks
using aclrtEvent = void*;          ///< an event in streams
using HcclComm = void*;            ///< a rank's handle of a communicator

/// aclDataType.
enum class data_type : int {
  undefined = -1,
  float32 = 0,
  float16 = 1,
  int8 = 2,
  int32 = 3,
  uint8 = 4,
  int16 = 6,
  uint16 = 7,
  uint32 = 8,
  int64 = 9,
  uint64 = 10,
  float64 = 11,
  boolean = 12,
  bfloat16 = 27
};
/// Bytes of an element; 0 for types that rlcore does not use.
constexpr std::size_t bytes_of(data_type t) {
  switch (t) {
    case data_type::int8:
    case data_type::uint8:
    case data_type::boolean:
      return 1;
    case data_type::float16:
    case data_type::bfloat16:
    case data_type::int16:
    case data_type::uint16:
      return 2;
    case data_type::float32:
    case data_type::int32:
    case data_type::uint32:
      return 4;
    case data_type::int64:
    case data_type::uint64:
    case data_type::float64:
      return 8;
    default:
      return 0;
  }
}
/// Whether it is float32, float16, bfloat16 or float64.
constexpr bool floating(data_type t) {
  return t == data_type::float32 || t == data_type::float16 || t == data_type::bfloat16 || t == data_type::float64;
}
/// "float32".
constexpr const char* name_of(data_type t) {
  switch (t) {
    case data_type::float32:
      return "float32";
    case data_type::float16:
      return "float16";
    case data_type::bfloat16:
      return "bfloat16";
    case data_type::float64:
      return "float64";
    case data_type::int8:
      return "int8";
    case data_type::int16:
      return "int16";
    case data_type::int32:
      return "int32";
    case data_type::int64:
      return "int64";
    case data_type::uint8:
      return "uint8";
    case data_type::uint16:
      return "uint16";
    case data_type::uint32:
      return "uint32";
    case data_type::uint64:
      return "uint64";
    case data_type::boolean:
      return "bool";
    default:
      return "undefined";
  }
}
/// aclFormat; rlcore passes nd everywhere.
enum class format : int { undefined = -1, nchw = 0, nhwc = 1, nd = 2, fractal_nz = 29 };
/// aclrtMemMallocPolicy.
enum class memory_policy : int { huge_first = 0, huge_only = 1, normal_only = 2 };
/// aclrtMemcpyKind.
enum class copy_kind : int {
  host_to_host = 0,
  host_to_device = 1,
  device_to_host = 2,
  device_to_device = 3,
  automatic = 4
};
/// aclrtMemAttr.
enum class memory_kind : int { ddr = 0, hbm = 1 };
/// aclrtStreamStatus: 0 is done, unlike in event_status.
enum class stream_status : int { complete = 0, not_ready = 1 };
/// aclrtEventRecordedStatus: 1 is done.
enum class event_status : int { not_ready = 0, complete = 1 };
/// Bits of the flag of aclrtCreateEventExWithFlag: permitted uses of the event.
inline constexpr std::uint32_t event_sync = 0x1, event_time_line = 0x8;
/// Bits of the flag of aclrtCreateStreamWithConfig.
inline constexpr std::uint32_t stream_fast_launch = 1, stream_fast_sync = 2;
/// aclrtSetStreamFailureMode.
enum class failure_mode : std::uint64_t { continue_on_failure = 0, stop_on_failure = 1 };
/// aclrtFloatOverflowMode; infnan is the default of A2 and A3.
enum class overflow_mode : int { saturation = 0, infnan = 1 };
/// aclSysParamOpt.
enum class system_option : int { deterministic = 0, debug_kernel = 1, strong_consistency = 2 };
/// aclCANNPackageName.
enum class package_name : int {
  cann = 0,
  runtime = 1,
  compiler = 2,
  hccl = 3,
  toolkit = 4,
  opp = 5,
  opp_kernel = 6,
  driver = 7
};
/// aclCANNPackageVersion.
struct package_version {
  char version[128], major_version[64], minor_version[64], release_version[64], patch_version[64], reserved[128];
};
/// cubeMathType of matrix products: permitted conversions of float inputs.
enum class cube_math : std::int8_t { keep = 0, allow_hf32 = 1, use_float16 = 2, use_hf32 = 3 };

/// HcclDataType: numbered differently from data_type.
enum class hccl_type : int {
  int8 = 0,
  int16 = 1,
  int32 = 2,
  float16 = 3,
  float32 = 4,
  int64 = 5,
  uint64 = 6,
  uint8 = 7,
  uint16 = 8,
  uint32 = 9,
  float64 = 10,
  bfloat16 = 11
};
/// HcclReduceOp.
enum class hccl_reduction : int { sum = 0, product = 1, maximum = 2, minimum = 3 };
/// HcclRootInfo.
struct hccl_root_info {
  char internal[4108];
};
/// HcclSendRecvItem.
struct hccl_item {
  int type = 0;  ///< 0 send, 1 receive
  void* data = nullptr;
  std::uint64_t count = 0;
  hccl_type element = hccl_type::int8;
  std::uint32_t remote = 0;
};

}  // namespace ascend
RLCORE_END
