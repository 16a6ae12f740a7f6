// Allowlist of names in a torch.save pickle. A pickle is a program; its calls are only recorded here, and a name
// outside this list is an error.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "rlcore/checkpoint/tensor_info.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// Element type of "torch FloatStorage"; nothing for other names.
std::optional<stored_type> storage_type(std::string_view global);

/// The class behind a name that moved between versions of torch: "torch.distributed._tensor.api DTensor" -> "DTensor".
/// Empty for names outside torch's distributed tensors.
std::string_view distributed_class(std::string_view global);

/// Whether a checkpoint may mention "module name".
bool is_allowed_global(std::string_view global);

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE std::optional<stored_type> storage_type(std::string_view global) {
  struct entry {
    std::string_view name;
    stored_type type;
  };
  static constexpr std::array<entry, 9> entries{{{"torch FloatStorage", stored_type::f32},
                                                 {"torch BFloat16Storage", stored_type::bf16},
                                                 {"torch HalfStorage", stored_type::f16},
                                                 {"torch DoubleStorage", stored_type::f64},
                                                 {"torch LongStorage", stored_type::i64},
                                                 {"torch IntStorage", stored_type::i32},
                                                 {"torch ShortStorage", stored_type::i16},
                                                 {"torch ByteStorage", stored_type::u8},
                                                 {"torch BoolStorage", stored_type::boolean}}};
  for (const entry& e : entries)
    if (e.name == global) return e.type;
  return std::nullopt;
}

RLCORE_INLINE std::string_view distributed_class(std::string_view global) {
  const std::size_t space = global.find(' ');
  if (space == std::string_view::npos) return {};
  const std::string_view module = global.substr(0, space), name = global.substr(space + 1);
  static constexpr std::array<std::string_view, 13> modules{"torch.distributed.tensor",
                                                            "torch.distributed.tensor._api",
                                                            "torch.distributed.tensor._dtensor_spec",
                                                            "torch.distributed.tensor.placement_types",
                                                            "torch.distributed.tensor.device_mesh",
                                                            "torch.distributed._tensor",
                                                            "torch.distributed._tensor.api",
                                                            "torch.distributed._tensor._dtensor_spec",
                                                            "torch.distributed._tensor.placement_types",
                                                            "torch.distributed._tensor.device_mesh",
                                                            "torch.distributed.device_mesh",
                                                            "torch.distributed._mesh_layout",
                                                            "torch.distributed._tensor.dtensor_spec"};
  static constexpr std::array<std::string_view, 11> names{
      "DTensor",   "DTensorSpec", "TensorMeta", "ShardOrderEntry", "Shard",      "_StridedShard",
      "Replicate", "Partial",     "DeviceMesh", "_MeshLayout",     "_FlatLayout"};
  if (std::find(modules.begin(), modules.end(), module) == modules.end()) return {};
  return std::find(names.begin(), names.end(), name) != names.end() ? name : std::string_view{};
}

RLCORE_INLINE bool is_allowed_global(std::string_view global) {
  static constexpr std::array<std::string_view, 24> names{"collections OrderedDict",
                                                          "torch._utils _rebuild_tensor_v2",
                                                          "torch._utils _rebuild_parameter",
                                                          "torch._utils _rebuild_parameter_with_state",
                                                          "torch._utils _rebuild_wrapper_subclass",
                                                          "torch._tensor _rebuild_from_type_v2",
                                                          "torch.nn.parameter Parameter",
                                                          "torch.serialization _get_layout",
                                                          "torch Tensor",
                                                          "torch Size",
                                                          "torch device",
                                                          "torch float32",
                                                          "torch float",
                                                          "torch float16",
                                                          "torch half",
                                                          "torch bfloat16",
                                                          "torch float64",
                                                          "torch double",
                                                          "torch int64",
                                                          "torch int32",
                                                          "torch int16",
                                                          "torch int8",
                                                          "torch uint8",
                                                          "torch bool"};
  return std::find(names.begin(), names.end(), global) != names.end() || storage_type(global).has_value() ||
         !distributed_class(global).empty();
}

}  // namespace checkpoint
RLCORE_END
#endif
