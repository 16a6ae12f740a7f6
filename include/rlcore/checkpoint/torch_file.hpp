// Reads a file of torch.save. A pickle is a program; its calls are only recorded here, and a name outside the list of
// allowed names is an error.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/checkpoint/torch_zip.hpp"
#include "rlcore/checkpoint/unpickler.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// Element type of "torch FloatStorage"; nothing for other names.
std::optional<stored_type> storage_type(std::string_view global);

/// The class behind a name that moved between versions of torch: "torch.distributed._tensor.api DTensor" -> "DTensor".
/// Empty for names outside torch's distributed tensors.
std::string_view distributed_class(std::string_view global);

/// Whether a checkpoint may mention "module name".
bool is_allowed_global(std::string_view global);

/// One tensor of a file; of a distributed tensor the file holds a piece.
struct torch_tensor {
  std::string name;
  stored_type dtype = stored_type::f32;
  std::vector<std::int64_t> shape, stride;  ///< of the stored piece, stride in elements
  std::uint64_t offset = 0;                 ///< of the first element in the storage
  std::string storage;                      ///< record of the archive
  bool distributed = false;                 ///< a DTensor
  std::optional<std::size_t> shard_dim;     ///< of the placement Shard(dim) on the mesh's last dimension
  std::vector<std::int64_t> whole_shape;    ///< of all pieces together

  std::uint64_t size() const noexcept {
    std::uint64_t n = 1;
    for (const std::int64_t extent : shape) n *= static_cast<std::uint64_t>(extent);
    return n;
  }
};

namespace detail {

/// Turns the graph of a pickled state dict into tensors. It accepts only the few forms that torch writes.
class state_dict_reader {
 public:
  state_dict_reader(const torch_zip& zip, const pickle_graph& graph) : zip_(zip), graph_(graph) {}

  std::vector<torch_tensor> read();

 private:
  using kind = pickle_kind;

  [[noreturn]] void fail(const std::string& message) const {
    zip_.fail("tensor '" + data::printable(name_) + "' " + message);
  }
  const pickle_value& expect(std::uint32_t at, kind k, const char* detail) const {
    if (!graph_.is(at, k)) fail(std::string("has a form that torch does not write (") + detail + ")");
    return graph_[at];
  }
  /// The name of an object's constructor or rebuild function, and its arguments.
  const std::string& callable(const pickle_value& object) const { return graph_[object.items[0]].text; }
  const std::vector<std::uint32_t>& arguments(const pickle_value& object, std::size_t at_least) const {
    const auto& items = graph_[object.items[1]].items;
    if (items.size() < at_least) fail("has a form that torch does not write (too few arguments)");
    return items;
  }
  /// The dictionary in an object's state: the state itself, or the dictionary in (None, slots).
  const pickle_value& fields(const pickle_value& state) const;
  const pickle_value& field(const pickle_value& dictionary, std::string_view key) const {
    const pickle_value* found = graph_.find(dictionary, key);
    if (found == nullptr) fail("lacks '" + std::string(key) + "'");
    return *found;
  }
  /// A tuple of integers, or a torch.Size of one.
  std::vector<std::int64_t> integers(std::uint32_t at) const;

  torch_tensor tensor(std::uint32_t at);

  /// storage, offset, size, stride, ...
  torch_tensor plain(const pickle_value& call);

  /// class, dtype, size, ... and the fields _local_tensor and _spec: a DTensor.
  torch_tensor wrapped(const pickle_value& call, const pickle_value& state);
  /// Accepts only (fsdp) and (ddp, fsdp), like verl's merger.
  void check_mesh(const pickle_value& mesh);
  /// Nothing for Replicate.
  std::optional<std::size_t> shard_dim(const pickle_value& placement) const;

  const torch_zip& zip_;
  const pickle_graph& graph_;
  std::string name_;
  std::size_t mesh_dimensions_ = 0;
  bool inside_wrapper_ = false;
};

}  // namespace detail

/// An open file and its tensors, sorted by name; their elements stay on the disk.
class torch_file {
 public:
  /// Throws file_error, or format_error with one line: the file is no state dict, is damaged, or imports a name that is
  /// not on the list of torch_file.hpp. Nothing in the file is executed.
  explicit torch_file(const std::filesystem::path& path);
  const torch_zip& archive() const noexcept { return zip_; }
  const std::vector<torch_tensor>& tensors() const noexcept { return tensors_; }

 private:
  torch_zip zip_;
  std::vector<torch_tensor> tensors_;
};

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

namespace checkpoint::detail {

RLCORE_INLINE std::vector<torch_tensor> state_dict_reader::read() {
  const pickle_value& root = graph_[graph_.root];
  if (root.kind != kind::dictionary) zip_.fail("holds no state dict (a dictionary of tensors)");
  std::vector<torch_tensor> tensors;
  std::vector<char> taken(graph_.values.size());  // keys: a pickle may recall a long one in two bytes
  for (std::size_t i = 0; i + 1 < root.items.size(); i += 2) {
    const pickle_value& key = graph_[root.items[i]];
    if (key.kind != kind::text) zip_.fail("its state dict has a key that is no text");
    if (std::exchange(taken[root.items[i]], 1) != 0)
      zip_.fail("tensor '" + data::printable(key.text) + "' is there twice");
    name_ = key.text;
    if (text::first_broken_utf8(name_) != name_.size()) fail("has a name that is not UTF-8");
    torch_tensor t = tensor(root.items[i + 1]);
    t.name = name_;
    tensors.push_back(std::move(t));
  }
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i].name == tensors[i - 1].name)
      zip_.fail("tensor '" + data::printable(tensors[i].name) + "' is there twice");
  return tensors;
}

RLCORE_INLINE const pickle_value& state_dict_reader::fields(const pickle_value& state) const {
  constexpr std::size_t most = 1000;  // any number of tensors may share them
  if (state.items.size() > most) fail("has a form that torch does not write (fields)");
  if (state.kind == kind::dictionary) return state;
  if (state.kind == kind::tuple)
    for (auto i = state.items.rbegin(); i != state.items.rend(); ++i)
      if (graph_.is(*i, kind::dictionary) && graph_[*i].items.size() <= most) return graph_[*i];
  fail("has a form that torch does not write (no fields)");
}

RLCORE_INLINE std::vector<std::int64_t> state_dict_reader::integers(std::uint32_t at) const {
  const pickle_value* v = &graph_[at];
  if (v->kind == kind::object && callable(*v) == "torch Size") v = &graph_[arguments(*v, 1)[0]];
  if (v->kind != kind::tuple && v->kind != kind::list) fail("has a form that torch does not write (no shape)");
  if (v->items.size() > 16) fail("has " + std::to_string(v->items.size()) + " dimensions");
  std::vector<std::int64_t> out;
  for (const std::uint32_t i : v->items) {
    out.push_back(expect(i, kind::integer, "extent").number);
    if (out.back() < 0 || out.back() > std::int64_t{1} << 40) fail("has an extent of " + std::to_string(out.back()));
  }
  return out;
}

RLCORE_INLINE torch_tensor state_dict_reader::tensor(std::uint32_t at) {
  for (int depth = 0; depth < 4; ++depth) {
    const pickle_value& v = graph_[at];
    if (v.kind != kind::object) fail("is no tensor");
    const std::string& name = callable(v);
    if (name == "torch._utils _rebuild_tensor_v2") return plain(graph_[v.items[1]]);
    if (name == "torch._tensor _rebuild_from_type_v2") {
      const auto& parts = arguments(v, 4);  // function, type, its arguments, state
      const std::string& function = expect(parts[0], kind::global, "function").text;
      if (function == "torch._utils _rebuild_tensor_v2") return plain(graph_[parts[2]]);
      if (function == "torch._utils _rebuild_wrapper_subclass") return wrapped(graph_[parts[2]], graph_[parts[3]]);
      fail("is rebuilt by '" + data::printable(function) + "', which is not known here");
    }
    if (name != "torch._utils _rebuild_parameter" && name != "torch._utils _rebuild_parameter_with_state")
      fail("is rebuilt by '" + data::printable(name) + "', which is not known here");
    at = arguments(v, 1)[0];
  }
  fail("is wrapped too often");
}

RLCORE_INLINE torch_tensor state_dict_reader::plain(const pickle_value& call) {
  if (call.kind != kind::tuple || call.items.size() < 4) fail("has a form that torch does not write (no storage)");
  const pickle_value& id = graph_[expect(call.items[0], kind::persistent, "storage").items[0]];
  if (id.kind != kind::tuple || id.items.size() < 5 || graph_[id.items[0]].text != "storage")
    fail("has a form that torch does not write (storage)");
  torch_tensor t;
  const std::string& type = expect(id.items[1], kind::global, "storage type").text;
  const auto dtype = storage_type(type);
  if (!dtype) fail("has storage of type '" + data::printable(type) + "'");
  t.dtype = *dtype;
  const std::string& key = expect(id.items[2], kind::text, "storage key").text;
  if (key.size() > 256) fail("has a storage key of " + std::to_string(key.size()) + " bytes");
  t.storage = "data/" + key;
  const std::int64_t offset = expect(call.items[1], kind::integer, "offset").number;
  t.shape = t.whole_shape = integers(call.items[2]);
  t.stride = integers(call.items[3]);
  if (offset < 0 || t.stride.size() != t.shape.size()) fail("has strides that do not fit its shape");
  t.offset = static_cast<std::uint64_t>(offset);
  const bool empty = std::find(t.shape.begin(), t.shape.end(), 0) != t.shape.end();
  std::uint64_t size = empty ? 0 : 1, limit = std::uint64_t{1} << 60;
  for (const std::int64_t extent : t.shape) {
    if (extent > 0 && size > limit / static_cast<std::uint64_t>(extent)) fail("is too large: " + shape_text(t.shape));
    size *= static_cast<std::uint64_t>(extent);
  }
  std::uint64_t end = size == 0 ? t.offset : t.offset + 1;
  for (std::size_t d = 0; size != 0 && d < t.shape.size(); ++d) {
    const auto steps = static_cast<std::uint64_t>(t.shape[d] - 1), step = static_cast<std::uint64_t>(t.stride[d]);
    if (steps > 0 && step > limit / steps) fail("is too large: " + shape_text(t.shape));
    end += steps * step;
  }
  if (zip_.record(t.storage).size / bytes_of(t.dtype) < end)
    fail("of shape " + shape_text(t.shape) + " reaches past its storage of " +
         std::to_string(zip_.record(t.storage).size) + " bytes");
  if (size > zip_.record(t.storage).size / bytes_of(t.dtype))
    fail("of shape " + shape_text(t.shape) + " repeats elements of its storage of " +
         std::to_string(zip_.record(t.storage).size) + " bytes; expected each element once");
  return t;
}

RLCORE_INLINE torch_tensor state_dict_reader::wrapped(const pickle_value& call, const pickle_value& state) {
  if (call.kind != kind::tuple || call.items.size() < 3) fail("has a form that torch does not write (wrapper)");
  if (distributed_class(expect(call.items[0], kind::global, "class").text) != "DTensor") fail("is no DTensor");
  const pickle_value& members = fields(state);
  const pickle_value& local = field(members, "_local_tensor");
  if (local.kind != kind::object) fail("has no local tensor");
  if (std::exchange(inside_wrapper_, true)) fail("is a DTensor inside a DTensor");
  torch_tensor t = tensor(static_cast<std::uint32_t>(&local - graph_.values.data()));
  inside_wrapper_ = false;
  t.distributed = true;
  t.whole_shape = integers(call.items[2]);
  const pickle_value& spec = field(members, "_spec");
  if (spec.kind != kind::object || spec.items.size() < 3) fail("has no sharding specification");
  const pickle_value& specification = fields(graph_[spec.items[2]]);
  check_mesh(field(specification, "mesh"));
  const pickle_value& placements = field(specification, "placements");
  if (placements.kind != kind::tuple || placements.items.size() != mesh_dimensions_)
    fail("has placements that do not fit its device mesh");
  for (std::size_t d = 0; d < mesh_dimensions_; ++d) {
    const auto dim = shard_dim(graph_[placements.items[d]]);
    if (dim && d + 1 < mesh_dimensions_) fail("is sharded over the replicas of the mesh; expected Replicate there");
    if (dim && *dim >= t.whole_shape.size()) fail("is sharded along a dimension that it does not have");
    t.shard_dim = dim;
  }
  return t;
}

RLCORE_INLINE void state_dict_reader::check_mesh(const pickle_value& mesh) {
  if (mesh.kind != kind::object || mesh.items.size() < 3) fail("has no device mesh");
  const pickle_value& members = fields(graph_[mesh.items[2]]);
  const pickle_value* names = graph_.find(members, "_mesh_dim_names");
  if (names == nullptr) names = graph_.find(members, "mesh_dim_names");
  if (names == nullptr || names->kind != kind::tuple)
    fail("lies on a device mesh without names; expected ('fsdp') or ('ddp', 'fsdp')");
  std::string text;
  for (const std::uint32_t i : names->items)
    if (text.size() < 64) text += (text.empty() ? "" : ", ") + data::printable(graph_[i].text, 64);
  if (text != "fsdp" && text != "ddp, fsdp" && text != "dp, fsdp")
    fail("lies on the device mesh (" + data::printable(text) + "); expected (fsdp) or (ddp, fsdp)");
  mesh_dimensions_ = names->items.size();
}

RLCORE_INLINE std::optional<std::size_t> state_dict_reader::shard_dim(const pickle_value& placement) const {
  if (placement.kind != kind::object) fail("has a placement that is none");
  const std::string_view name = distributed_class(callable(placement));
  if (name == "Replicate") return std::nullopt;
  if (name != "Shard")
    fail("has the placement " + data::printable(std::string(name)) + "; expected Shard or Replicate");
  const auto& values = graph_[placement.items[1]].items;
  const pickle_value* dim = !values.empty()              ? &graph_[values[0]]
                            : placement.items.size() > 2 ? &field(fields(graph_[placement.items[2]]), "dim")
                                                         : nullptr;
  if (dim == nullptr || dim->kind != kind::integer || dim->number < 0) fail("has a Shard without dimension");
  return static_cast<std::size_t>(dim->number);
}

}  // namespace checkpoint::detail

namespace checkpoint {

RLCORE_INLINE torch_file::torch_file(const std::filesystem::path& path) : zip_(path) {
  if (zip_.contains("byteorder") && zip_.text("byteorder", 16) != "little")
    zip_.fail("written on a big-endian machine, which is not read here");
  const std::string pickle = zip_.text("data.pkl", std::uint64_t{1} << 29);
  unpickler machine(path.string(), pickle, [](std::string_view global) { return is_allowed_global(global); });
  const pickle_graph graph = machine.run();
  tensors_ = detail::state_dict_reader(zip_, graph).read();
}

}  // namespace checkpoint
RLCORE_END
#endif
