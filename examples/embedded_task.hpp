// Embedded task of the example programs: word problems, a tokenizer trained on them, a tiny Qwen2, and a brief
// supervised warm start on solutions that are mostly wrong, which reinforcement learning has to correct.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "rlcore/device/any_device.hpp"

namespace embedded_task {

inline constexpr std::int64_t max_response = 20;
inline constexpr std::uint32_t warm_start_steps = 480;

/// Settings of grpo_trainer for the task in `folder`/{data,model}; the caller adds output folder and length.
std::vector<std::string> settings(const std::filesystem::path& folder);

/// Makes the task of `seed` in `folder`: data/{train,test}.jsonl, and model/ after `steps` steps of the warm start.
void make(rlcore::any_device& device, const std::filesystem::path& folder, std::uint64_t seed,
          std::uint32_t steps = warm_start_steps);

/// The same for the image task: a tiny Qwen2.5-VL reads digits.
std::vector<std::string> image_settings(const std::filesystem::path& folder);

/// Makes the image task: rows with images, and model/ after a warm start of at most `most_steps` steps, first on
/// correct labels until the model reads digits, then on mostly wrong ones.
void make_images(rlcore::any_device& device, const std::filesystem::path& folder, std::uint64_t seed,
                 std::uint32_t most_steps = 1500);

/// The same for the task with a calculator: it is called, or the answer is guessed.
std::vector<std::string> tool_settings(const std::filesystem::path& folder);

/// Makes the task with a calculator: products, data/tools.json, and model/ after a warm start that calls it one time in
/// four.
void make_tools(rlcore::any_device& device, const std::filesystem::path& folder, std::uint64_t seed,
                std::uint32_t steps = 400);

}  // namespace embedded_task
