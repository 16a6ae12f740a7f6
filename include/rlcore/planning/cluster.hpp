// A cluster: machines, links, and their measured curves; cluster.json.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace train::planning {

/// y over x through points, both > 0, x ascending: log-log linear interpolation, no fit.
struct curve {
  /// One measurement.
  struct point {
    double x = 0, y = 0;
  };
  std::vector<point> points;

  bool empty() const noexcept { return points.empty(); }
  /// Extrapolates the first and the last segment outside the points; for times. Throws std::logic_error without points.
  double at(double x) const {
    if (points.empty()) throw std::logic_error("rlcore: a curve without points");
    if (points.size() == 1 || x <= 0) return points.front().y;
    std::size_t k = 1;
    while (k + 1 < points.size() && points[k].x < x) ++k;
    const point &a = points[k - 1], &b = points[k];
    const double slope = std::log(b.y / a.y) / std::log(b.x / a.x);
    return a.y * std::exp(slope * std::log(x / a.x));
  }
  /// Holds the first and the last value outside the points; for rates.
  double held(double x) const {
    if (points.empty()) throw std::logic_error("rlcore: a curve without points");
    return at(std::clamp(x, points.front().x, points.back().x));
  }
};

/// z over (x, y): a curve over y for each of several x, with straight lines between logarithms of x too; held outside.
struct surface {
  /// The curve over y at one x.
  struct row {
    double x = 0;
    curve over_y;
  };
  std::vector<row> rows;

  bool empty() const noexcept { return rows.empty(); }
  /// z at (x, y). Throws std::logic_error if there are no rows.
  double held(double x, double y) const {
    curve across;
    for (const row& r : rows) across.points.push_back({r.x, r.over_y.held(y)});
    return across.held(x);
  }
};

/// The measurements of `plan calibrate` on ranks of one machine that all do the same work at the same time.
struct measured_rank {
  std::int64_t ranks = 1;
  /// Operations per second of products [tokens, width] x [width, width], over tokens and width: with 4 MB of weights in
  /// turn, and with 96 MB.
  surface forward, backward_x, backward_w, cold_forward, cold_backward_x, cold_backward_w;
  /// Operations per second over the length of the sequences.
  curve attention_forward, attention_backward;
  /// Values per second over the values of a pass, rows x width: two norms, their sums and the residual's; the gate, by
  /// values of its output; rotary positions.
  curve norm_forward, norm_backward, gate_forward, gate_backward, rotate;
  double optimizer = 0, norm = 0, pack = 0, add = 0;  ///< parameters per second: AdamW, norm, packing, a sum of two
  double head = 0, head_backward = 0;                 ///< logits per second beside the products
  /// Seconds over the bytes of the gathered result, which are those of the input of a sum.
  curve all_gather, ordered_sum;
};

/// Figures that were not measured are public quotes or assumptions; `source` says which.
struct cluster {
  std::string name, source;
  std::int64_t devices_per_node = 8;
  double memory = 0;                                 ///< bytes of a device
  double memory_bandwidth = 0;                       ///< bytes per second
  double peak = 0;                                   ///< operations per second of products in the compute type
  double training_share = 0.4, scoring_share = 0.4;  ///< fraction of `peak` reached by training and scoring
  double decode_share = 0.6;                         ///< fraction of `memory_bandwidth` reached by decoding
  double layer_floor = 0;                            ///< minimum seconds of a decode pass per layer
  double value_bytes = 2;     ///< bytes of the compute type: packed weights, activations, keys and values
  double node_bandwidth = 0;  ///< bytes per second and direction of a device, to all others of its node together
  bool mesh = false;          ///< full mesh: two devices share only their direct link's bandwidth
  double node_latency = 5e-6;
  double network_bandwidth = 0;  ///< bytes per second and direction of a device between nodes
  double network_latency = 10e-6;
  double host_bandwidth = 25e9;  ///< bytes per second and direction between a device and its host
  double usable_share = 0.9;     ///< fraction of `memory`; the runtime needs the rest
  double overlap = 0.8;          ///< share of the traffic of weights and gradients that computation can hide
  std::vector<measured_rank> measured;

  /// Bandwidth of a device inside a group of `ranks` of its node.
  double inside(std::int64_t ranks) const noexcept {
    return mesh && ranks > 1 ? node_bandwidth * static_cast<double>(std::min(ranks, devices_per_node) - 1) /
                                   static_cast<double>(devices_per_node - 1)
                             : node_bandwidth;
  }
  /// The table of the nearest number of ranks, nullptr if nothing was measured.
  const measured_rank* table(std::int64_t ranks) const noexcept;
};

/// The figures are public quotes, and none has been verified here. Peak, memory and links come from vendors' data
/// sheets; shares and floors are assumptions. A device of A3 is one of the two dies of a package.
const std::vector<cluster>& known_clusters();

namespace detail {

/// A number of cluster.json: its key, its member, and the conversion factor to internal units.
struct cluster_number {
  const char* key;
  double cluster::* place;
  double unit;
};
inline constexpr cluster_number cluster_numbers[] = {
    {"memory_gb", &cluster::memory, 1e9},
    {"memory_gb_per_s", &cluster::memory_bandwidth, 1e9},
    {"tflops", &cluster::peak, 1e12},
    {"training_share", &cluster::training_share, 1},
    {"scoring_share", &cluster::scoring_share, 1},
    {"decode_share", &cluster::decode_share, 1},
    {"layer_floor_us", &cluster::layer_floor, 1e-6},
    {"value_bytes", &cluster::value_bytes, 1},
    {"node_gb_per_s", &cluster::node_bandwidth, 1e9},
    {"node_latency_us", &cluster::node_latency, 1e-6},
    {"network_gb_per_s", &cluster::network_bandwidth, 1e9},
    {"network_latency_us", &cluster::network_latency, 1e-6},
    {"host_gb_per_s", &cluster::host_bandwidth, 1e9},
    {"usable_share", &cluster::usable_share, 1},
    {"overlap", &cluster::overlap, 1},
};
struct rank_curve {
  const char* key;
  curve measured_rank::* place;
};
inline constexpr rank_curve rank_curves[] = {{"attention_forward", &measured_rank::attention_forward},
                                             {"attention_backward", &measured_rank::attention_backward},
                                             {"norm_forward", &measured_rank::norm_forward},
                                             {"norm_backward", &measured_rank::norm_backward},
                                             {"gate_forward", &measured_rank::gate_forward},
                                             {"gate_backward", &measured_rank::gate_backward},
                                             {"rotate", &measured_rank::rotate},
                                             {"all_gather", &measured_rank::all_gather},
                                             {"ordered_sum", &measured_rank::ordered_sum}};
struct rank_surface {
  const char* key;
  surface measured_rank::* place;
};
inline constexpr rank_surface rank_surfaces[] = {{"forward", &measured_rank::forward},
                                                 {"backward_x", &measured_rank::backward_x},
                                                 {"backward_w", &measured_rank::backward_w},
                                                 {"cold_forward", &measured_rank::cold_forward},
                                                 {"cold_backward_x", &measured_rank::cold_backward_x},
                                                 {"cold_backward_w", &measured_rank::cold_backward_w}};
struct rank_number {
  const char* key;
  double measured_rank::* place;
};
inline constexpr rank_number rank_numbers[] = {
    {"optimizer", &measured_rank::optimizer}, {"norm", &measured_rank::norm},
    {"pack", &measured_rank::pack},           {"add", &measured_rank::add},
    {"head", &measured_rank::head},           {"head_backward", &measured_rank::head_backward}};

nlohmann::ordered_json to_json(const curve& c);

/// Throws config_error naming `where` unless the list is points with ascending x and positive numbers.
curve read_curve(const nlohmann::json& list, const std::string& where);

measured_rank read_measured(const nlohmann::json& item, const std::string& where);

}  // namespace detail

/// The known cluster of that name, or nullptr.
inline const cluster* find_known_cluster(const std::string& name) {
  for (const cluster& c : known_clusters())
    if (c.name == name) return &c;
  return nullptr;
}

/// Writes every number of `c`; throws file_error.
void write_cluster(const std::filesystem::path& path, const cluster& c);

/// Reads cluster.json. {"like": "H100", "network_gb_per_s": 25} is a known cluster with overridden numbers; without
/// "like" every number without a default is required. Throws file_error, format_error or config_error.
cluster read_cluster(const std::filesystem::path& path);

/// `text` names a known cluster or is the path of a cluster.json.
cluster find_cluster(const std::string& text);

}  // namespace train::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace train::planning {

RLCORE_INLINE const measured_rank* cluster::table(std::int64_t ranks) const noexcept {
  const measured_rank* best = nullptr;
  for (const measured_rank& m : measured)
    if (best == nullptr || std::abs(m.ranks - ranks) < std::abs(best->ranks - ranks)) best = &m;
  return best;
}

RLCORE_INLINE const std::vector<cluster>& known_clusters() {
  static const std::vector<cluster> clusters = [] {
    const char* quotes = "quotes, not measured";
    constexpr double giga = 1e9, tera = 1e12, micro = 1e-6;
    std::vector<cluster> list;
    const auto add = [&](const char* name, std::int64_t node, double memory, double bandwidth, double peak,
                         double inside, bool mesh, double network, double floor) {
      cluster c;
      c.name = name, c.source = quotes, c.devices_per_node = node;
      c.memory = memory * giga, c.memory_bandwidth = bandwidth * tera, c.peak = peak * tera;
      c.node_bandwidth = inside * giga, c.mesh = mesh, c.network_bandwidth = network * giga;
      c.layer_floor = floor * micro;
      list.push_back(c);
    };
    add("910B", 8, 64, 1.6, 354, 196, true, 25, 100);
    add("A3", 384, 64, 1.6, 376, 196, false, 25, 100);
    add("A100", 8, 80, 2.0, 312, 300, false, 25, 60);
    add("H100", 8, 80, 3.35, 989, 450, false, 50, 60);
    add("H200", 8, 141, 4.8, 989, 450, false, 50, 60);
    add("cpu", 1, 512, 0.4, 4, 12.5, false, 12.5, 20);
    cluster& host = list.back();
    host.value_bytes = 4, host.training_share = host.scoring_share = 0.7, host.decode_share = 0.8;
    host.source = "an assumed host of 64 cores, fp32, 100 Gbit/s";
    host.overlap = 0;
    return list;
  }();
  return clusters;
}

}  // namespace train::planning

namespace train::planning::detail {

RLCORE_INLINE nlohmann::ordered_json to_json(const curve& c) {
  auto out = nlohmann::ordered_json::array();
  const auto digits = [](double x) {  // four exceed the precision of a measurement
    const double scale = std::pow(10.0, 3 - std::floor(std::log10(x)));
    return std::round(x * scale) / scale;
  };
  for (const curve::point& p : c.points) out.push_back({p.x, digits(p.y)});
  return out;
}

RLCORE_INLINE curve read_curve(const nlohmann::json& list, const std::string& where) {
  curve c;
  const auto fail = [&] { throw config_error(where + ": expected a list of [x, y], both > 0, x ascending"); };
  if (!list.is_array() || list.empty()) fail();
  for (const nlohmann::json& p : list) {
    if (!p.is_array() || p.size() != 2 || !p[0].is_number() || !p[1].is_number()) fail();
    c.points.push_back({p[0].get<double>(), p[1].get<double>()});
    if (!(c.points.back().x > 0) || !(c.points.back().y > 0)) fail();
    if (c.points.size() > 1 && !(c.points[c.points.size() - 2].x < c.points.back().x)) fail();
  }
  return c;
}

RLCORE_INLINE measured_rank read_measured(const nlohmann::json& item, const std::string& where) {
  measured_rank m;
  const auto member = [&](const char* key) -> const nlohmann::json& {
    if (!item.is_object() || !item.contains(key)) throw config_error(where + ": '" + key + "' is missing");
    return item[key];
  };
  const auto number = [&](const char* key) {
    const nlohmann::json& x = member(key);
    if (!x.is_number() || !(x.get<double>() > 0)) throw config_error(where + "." + key + ": expected a number > 0");
    return x.get<double>();
  };
  const double ranks = number("ranks");
  if (ranks > 1e9 || ranks != std::floor(ranks)) throw config_error(where + ".ranks: expected a number of ranks");
  m.ranks = static_cast<std::int64_t>(ranks);
  for (const rank_number& n : rank_numbers) m.*n.place = number(n.key);
  for (const rank_curve& c : rank_curves) {
    const bool between = c.place == &measured_rank::all_gather || c.place == &measured_rank::ordered_sum;
    if (!between || m.ranks > 1) m.*c.place = read_curve(member(c.key), where + "." + c.key);
  }
  for (const rank_surface& s : rank_surfaces) {
    const nlohmann::json& rows = member(s.key);
    if (!rows.is_array() || rows.empty()) throw config_error(where + "." + s.key + ": expected a list of rows");
    for (const nlohmann::json& r : rows) {
      const std::string here = where + "." + s.key;
      if (!r.is_object() || !r.contains("tokens") || !r["tokens"].is_number() || !r.contains("rate"))
        throw config_error(here + ": expected {\"tokens\": number, \"rate\": [[width, operations per second], ...]}");
      const auto tokens = r["tokens"].get<double>();
      const std::vector<surface::row>& before = (m.*s.place).rows;
      if (!(tokens > (before.empty() ? 0 : before.back().x)))
        throw config_error(here + ": expected \"tokens\" > 0, ascending from row to row");
      (m.*s.place).rows.push_back({tokens, read_curve(r["rate"], here)});
    }
  }
  return m;
}

}  // namespace train::planning::detail

namespace train::planning {

RLCORE_INLINE void write_cluster(const std::filesystem::path& path, const cluster& c) {
  nlohmann::ordered_json root{{"name", c.name}, {"source", c.source}, {"devices_per_node", c.devices_per_node}};
  for (const detail::cluster_number& n : detail::cluster_numbers) root[n.key] = c.*n.place / n.unit;
  root["mesh"] = c.mesh;
  for (const measured_rank& m : c.measured) {
    nlohmann::ordered_json item{{"ranks", m.ranks}};
    for (const auto& n : detail::rank_numbers) item[n.key] = m.*n.place;
    for (const auto& x : detail::rank_curves)
      if (!(m.*x.place).empty()) item[x.key] = detail::to_json(m.*x.place);
    for (const auto& s : detail::rank_surfaces)
      for (const surface::row& r : (m.*s.place).rows)
        item[s.key].push_back({{"tokens", r.x}, {"rate", detail::to_json(r.over_y)}});
    root["measured"].push_back(item);
  }
  checkpoint::write_file_atomically(path, text::json_text(root, 1) + "\n");
}

RLCORE_INLINE cluster read_cluster(const std::filesystem::path& path) {
  const checkpoint::json_file file(path);
  cluster c;
  std::vector<std::string> known = {"name", "source", "like", "devices_per_node", "mesh", "measured"};
  for (const auto& n : detail::cluster_numbers) known.emplace_back(n.key);
  for (const auto& [key, value] : file.root().items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw config_error(path.string() + ": unknown key '" + data::printable(key) + "'" + did_you_mean(key, known));
  const bool like = file.has("like");
  if (like) {
    const cluster* base = find_known_cluster(file.string("like"));
    if (base == nullptr) file.fail("like", "one of 910B, A3, A100, H100, H200, cpu");
    c = *base;
  }
  c.name = file.has("name") ? file.string("name") : like ? c.name : path.stem().string();
  c.source = file.has("source") ? file.string("source") : path.filename().string();
  if (!like || file.has("devices_per_node")) c.devices_per_node = file.integer("devices_per_node");
  c.mesh = file.boolean("mesh", c.mesh);
  for (const auto& n : detail::cluster_numbers) {
    const bool needed = !like && (n.place == &cluster::memory || n.place == &cluster::memory_bandwidth ||
                                  n.place == &cluster::peak || n.place == &cluster::node_bandwidth);
    const bool zero = n.place == &cluster::overlap || n.place == &cluster::layer_floor;
    if (zero && file.has(n.key) && file.root()[n.key] == 0) {
      c.*n.place = 0;
    } else if (needed || file.has(n.key)) {
      c.*n.place = file.positive(n.key) * n.unit;
    }
  }
  if (c.network_bandwidth == 0) c.network_bandwidth = c.node_bandwidth;
  if (!file.has("measured")) return c;
  const nlohmann::json& list = file.root()["measured"];
  if (!list.is_array()) file.fail("measured", "a list, as plan calibrate writes it");
  for (std::size_t k = 0; k < list.size(); ++k)
    c.measured.push_back(detail::read_measured(list[k], path.string() + ": measured[" + std::to_string(k) + "]"));
  return c;
}

RLCORE_INLINE cluster find_cluster(const std::string& text) {
  if (const cluster* known = find_known_cluster(text)) return *known;
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return read_cluster(text);
  std::vector<std::string> names;
  std::string list;
  for (const cluster& c : known_clusters()) names.push_back(c.name), list += (list.empty() ? "" : ", ") + c.name;
  throw config_error("cluster=" + text + ": neither a file nor a known cluster" + did_you_mean(text, names) +
                     "; expected the path of a cluster.json, or one of " + list);
}

}  // namespace train::planning
RLCORE_END
#endif
