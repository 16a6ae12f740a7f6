// A model folder with prompts, for grpo_trainer and for the peers that load one.
#include <filesystem>
#include <stdexcept>
#include <string>

#include "embedded_task.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/run/devices.hpp"
#include "speed/bench.hpp"
#include "speed/images.hpp"
#include "speed/models.hpp"

namespace speed {

/// images: the files of the item of that name. tiny: the quickstart's task after a short warm start. 0.5B: random
/// weights of that shape, the same prompts.
void folder(const std::string& kind, const std::string& path) {
  if (kind == "images") {
    std::filesystem::create_directories(path);
    for (const image_file& file : image_files())
      rlcore::checkpoint::write_file_atomically(std::filesystem::path(path) / file.name,
                                                {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()});
    return;
  }
  if (kind != "tiny" && kind != "0.5B")
    throw std::invalid_argument("no folder " + kind + ": expected tiny, 0.5B or images");
  const auto device = rlcore::open_device({});
  embedded_task::make(*device, path, 1, kind == "tiny" ? 160 : 1);
  if (kind == "tiny") return;
  const std::filesystem::path model_folder = std::filesystem::path(path) / "model";
  rlcore::nn::config c = model_config("0.5B");
  c.eos_token_ids = {0};
  c.pad_token_id = 0;
  rlcore::nn::causal_lm<rlcore::any_device> model(*device, c);
  model.initialize(1);
  rlcore::checkpoint::write_config(model_folder, model.settings());
  rlcore::checkpoint::save_weights(model_folder, model.parameters(), rlcore::train::to_host(*device, model.weights()));
}

}  // namespace speed
