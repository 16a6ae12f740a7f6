// Golden test case: inputs, outputs and error bounds of one operator run.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "rlcore/checkpoint/safetensors_reader.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/npu/arguments.hpp"

namespace golden {

using nlohmann::json;
using rlcore::ascend::data_type;
using shape = std::vector<std::int64_t>;

struct type_row {
  data_type type;
  rlcore::checkpoint::stored_type stored;
};
inline constexpr type_row types[] = {{data_type::float32, rlcore::checkpoint::stored_type::f32},
                                     {data_type::bfloat16, rlcore::checkpoint::stored_type::bf16},
                                     {data_type::float16, rlcore::checkpoint::stored_type::f16},
                                     {data_type::int32, rlcore::checkpoint::stored_type::i32},
                                     {data_type::int64, rlcore::checkpoint::stored_type::i64},
                                     {data_type::uint8, rlcore::checkpoint::stored_type::u8},
                                     {data_type::boolean, rlcore::checkpoint::stored_type::boolean}};

inline data_type type_named(const std::string& name) {
  for (const type_row& t : types)
    if (rlcore::ascend::name_of(t.type) == name) return t.type;
  throw rlcore::format_error("unknown type '" + name + "'");
}
inline rlcore::checkpoint::stored_type stored_as(data_type type) {
  for (const type_row& t : types)
    if (t.type == type) return t.stored;
  throw rlcore::format_error("a type that golden files do not hold");
}

/// Row-major elements.
struct tensor {
  data_type type = data_type::undefined;
  golden::shape shape;
  std::vector<std::byte> bytes;

  std::size_t size() const {
    std::size_t n = 1;
    for (const std::int64_t extent : shape) n *= static_cast<std::size_t>(extent);
    return n;
  }
  template <class T>
  T at(std::size_t i) const {
    T x;
    std::memcpy(&x, bytes.data() + i * sizeof(T), sizeof(T));
    return x;
  }
  double value(std::size_t i) const {
    switch (type) {
      case data_type::float32:
        return static_cast<double>(at<float>(i));
      case data_type::bfloat16:
        return static_cast<double>(static_cast<float>(at<rlcore::bf16>(i)));
      case data_type::float16:
        return static_cast<double>(static_cast<float>(at<rlcore::f16>(i)));
      case data_type::int32:
        return at<std::int32_t>(i);
      case data_type::int64:
        return static_cast<double>(at<std::int64_t>(i));
      default:
        return std::to_integer<int>(bytes[i]);
    }
  }
};

inline tensor make_tensor(data_type type, golden::shape extents, const std::vector<double>& values) {
  tensor t{type, std::move(extents), {}};
  const auto put = [&](const auto& x) {
    const auto* p = reinterpret_cast<const std::byte*>(&x);
    t.bytes.insert(t.bytes.end(), p, p + sizeof x);
  };
  for (const double v : values) switch (type) {
      case data_type::float32:
        put(static_cast<float>(v));
        break;
      case data_type::bfloat16:
        put(rlcore::bf16(static_cast<float>(v)));
        break;
      case data_type::float16:
        put(rlcore::f16(static_cast<float>(v)));
        break;
      case data_type::int32:
        put(static_cast<std::int32_t>(v));
        break;
      case data_type::int64:
        put(static_cast<std::int64_t>(v));
        break;
      default:
        put(static_cast<std::uint8_t>(v));
    }
  return t;
}

using tensors = std::map<std::string, tensor>;

/// `name`, `operator`, `arguments` in Ascend's order, `ulps` (the bound, or one for each output) and `relative_to`. An
/// argument is null, a number, true or false, a text, a list of numbers, or an object: {"scalar": 0.5, "type":
/// "float32"}, {"causal_mask": 2048}, a tensor {"tensor": "x", "role": "in", "out" or "inout", "type", "shape"; for a
/// view of it also "view", "strides", "offset"}, or {"list": [tensors]}. Inputs and results are in NAME.safetensors;
/// "inout" has "x" and "x.after". An older CANN than `from_cann` may refuse the case. If there was no result, `failure`
/// has a verdict (absent or error) and says why, and there is no file.
struct golden_case {
  json description;
  tensors given, results;

  std::string name() const { return description.at("name").get<std::string>(); }
};

inline void write(const std::filesystem::path& folder, const golden_case& c) {
  std::vector<rlcore::checkpoint::tensor_info> infos;
  std::vector<const tensor*> all;
  for (const tensors* group : {&c.given, &c.results})
    for (const auto& [name, t] : *group) {
      rlcore::checkpoint::tensor_info info;
      info.name = name;
      info.dtype = stored_as(t.type);
      info.shape = t.shape;
      infos.push_back(info);
      all.push_back(&t);
    }
  rlcore::checkpoint::safetensors_writer file(folder / (c.name() + ".safetensors"), infos, {});
  for (const tensor* t : all) file.append_bytes(t->bytes);
  file.finish();
}

inline golden_case read(const std::filesystem::path& folder, json description) {
  golden_case c{std::move(description), {}, {}};
  const rlcore::checkpoint::safetensors_reader file(folder / (c.name() + ".safetensors"));
  const auto load = [&](const std::string& name, const json& like) {
    tensor t{type_named(like.at("type").get<std::string>()), like.at("shape").get<golden::shape>(), {}};
    const auto& info = file.info(name);
    if (info.dtype != stored_as(t.type) || info.shape != t.shape)
      throw rlcore::format_error(file.path().string() + ": tensor '" + name + "' is not as its case describes it");
    t.bytes.resize(info.bytes());
    file.read_bytes(name, t.bytes);
    return t;
  };
  const auto look = [&](const json& a, const auto& self) -> void {
    if (!a.is_object()) return;
    if (a.contains("list"))
      for (const json& one : a["list"]) self(one, self);
    if (!a.contains("tensor")) return;
    const auto name = a["tensor"].get<std::string>(), role = a.at("role").get<std::string>();
    if (role != "out") c.given[name] = load(name, a);
    if (role == "out") c.results[name] = load(name, a);
    if (role == "inout") c.results[name + ".after"] = load(name + ".after", a);
  };
  for (const json& a : c.description.at("arguments")) look(a, look);
  return c;
}

/// How far `found` is from `expected`.
struct difference {
  double largest = 0, mean = 0, equal = 1;  ///< units in the last place of the type; share of equal bits
  std::size_t where = 0;
};

/// The distance between neighbouring values of a type at magnitude x; 1 for integers.
inline double unit_at(data_type type, double x) {
  const int digits = type == data_type::float32    ? 23
                     : type == data_type::bfloat16 ? 7
                     : type == data_type::float16  ? 10
                                                   : -1;
  if (digits < 0) return 1;
  const int least = type == data_type::float16 ? -14 : -126;
  return std::ldexp(1.0, (x == 0 ? least : std::max(std::ilogb(x), least)) - digits);
}

/// `rms`: small values are measured in units at the root mean square of what is expected, since they are what larger
/// terms left over.
inline difference compare(const tensor& expected, const tensor& found, bool rms) {
  difference d;
  const std::size_t n = expected.size();
  if (n == 0) return d;
  double floor = 0;
  std::size_t finite = 0, equal = 0;
  for (std::size_t i = 0; rms && i < n; ++i)
    if (const double x = expected.value(i); std::isfinite(x)) floor += x * x, ++finite;
  if (finite > 0) floor = std::sqrt(floor / static_cast<double>(finite));
  const std::size_t each = expected.bytes.size() / n;
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (std::memcmp(expected.bytes.data() + i * each, found.bytes.data() + i * each, each) == 0) {
      ++equal;
      continue;
    }
    const double a = expected.value(i), b = found.value(i);
    double units = 0;
    if (std::isnan(a) != std::isnan(b) || std::isinf(a) || std::isinf(b))
      units = a == b || (std::isnan(a) && std::isnan(b)) ? 0 : std::numeric_limits<double>::infinity();
    else if (!std::isnan(a))
      units = std::abs(a - b) / unit_at(expected.type, std::max(std::abs(a), floor));
    total += units;
    if (units > d.largest) {
      d.largest = units;
      d.where = i;
    }
  }
  d.mean = total / static_cast<double>(n);
  d.equal = static_cast<double>(equal) / static_cast<double>(n);
  return d;
}

}  // namespace golden
