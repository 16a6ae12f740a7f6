// Sharded checkpoint writer: all ranks save their pieces together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/crc32.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/checkpoint/shard_manifest.hpp"
#include "rlcore/parallel/layout/reshard.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// Writes the pieces of all ranks into `folder`. Each rank writes one file per kind, with at most one block in memory;
/// elements that several ranks hold are written once. Rank 0 adds the manifest when all have finished. All ranks call
/// it with the same folder and kinds. `local` holds this rank's pieces, the same for all kinds; read(kind number, piece
/// number, first, span<float>) gets their elements. Throws file_error, and std::invalid_argument if the ranks together
/// do not hold whole tensors. Without the manifest the folder is no checkpoint, so a rank that fails leaves none.
template <parallel::communicator C, class Read>
void write_shards(C& c, const std::filesystem::path& folder, std::span<const shard_piece> local,
                  const std::vector<std::string>& kinds, Read&& read) {
  const auto self = static_cast<std::size_t>(c.rank());
  const parallel::piece_layout layout = parallel::gather_pieces(c, local);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& pieces : layout)
    for (const shard_piece& p : pieces) shapes.emplace(p.tensor, p.shape);
  const auto held = parallel::held_pieces(layout);
  if (const std::string missing = parallel::missing_of(held, shapes); !missing.empty())
    throw std::invalid_argument("rlcore: write_shards: " + missing + " in all ranks");
  if (c.rank() == 0) std::filesystem::create_directories(folder);
  c.barrier();
  if (!std::filesystem::is_directory(folder))
    throw file_error(folder.string() + ": rank " + std::to_string(self) +
                     " does not see the folder that rank 0 made; expected a file system that all hosts share");

  const std::vector<parallel::assigned_piece> dealt = parallel::assign_pieces(held, self);
  shard_files files;
  std::vector<tensor_info> announced;
  for (const parallel::assigned_piece& d : dealt) files.pieces.push_back(d.piece);
  for (std::size_t i = 0; i < dealt.size(); ++i)
    announced.push_back(
        {stored_name(files, i), stored_type::f32, {static_cast<std::int64_t>(dealt[i].piece.size())}, 0, 0});
  std::vector<float> values;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    shard_file& file = files.kinds[kinds[k]];
    file.name = kinds[k] + "_rank_" + std::to_string(self) + ".safetensors";
    safetensors_writer writer(folder / file.name, announced, {});
    for (const parallel::assigned_piece& d : dealt)
      for (std::size_t first = 0; first < d.piece.size(); first += shard_block) {
        values.resize(std::min(shard_block, d.piece.size() - first));
        read(k, d.index, d.offset + first, std::span<float>(values));
        file.crc32.push_back(crc32(std::as_bytes(std::span<const float>(values))));
        writer.append(values);
      }
    writer.finish();
    file.bytes = std::filesystem::file_size(folder / file.name);
  }

  const std::vector<std::string> texts = parallel::gather_texts(c, text::json_text(to_json(files)));
  if (c.rank() != 0) return c.barrier();
  nlohmann::json ranks = nlohmann::json::array();
  for (const std::string& files_of_rank : texts) ranks.push_back(text::try_parse_json(files_of_rank));
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (const nlohmann::json& file : ranks[r]["kinds"]) {
      const std::filesystem::path path = folder / file["file"].get<std::string>();
      std::error_code code;
      if (std::filesystem::file_size(path, code) != file["bytes"] || code)
        throw file_error(path.string() + ": rank " + std::to_string(r) +
                         " has written it, but rank 0 does not see all of "
                         "it; expected a file system that all hosts share");
    }
  shard_manifest::write(folder, shapes, ranks);
  c.barrier();
}

}  // namespace checkpoint
RLCORE_END
