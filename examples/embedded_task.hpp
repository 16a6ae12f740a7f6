// The task that the programs here train on: word problems, a tokenizer trained on them, a tiny Qwen2, and a brief
// supervised warm start from a careless teacher whose slips reinforcement learning has to put right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "rlcore/device/any_device.hpp"

namespace embedded_task {

inline constexpr std::int64_t max_response = 20;
inline constexpr std::uint32_t warm_start_steps = 480;

/// Settings of grpo_trainer for the task in `folder`/{data,model}; the caller adds where the run goes and how long it
/// is.
std::vector<std::string> settings(const std::filesystem::path& folder);

/// Makes the task of `seed` in `folder`: data/{train,test}.jsonl, and model/ after `steps` steps of the warm start.
void make(rlcore::any_device& device, const std::filesystem::path& folder, std::uint64_t seed,
          std::uint32_t steps = warm_start_steps);

/// The same for the task with pictures: digits to be read by a tiny Qwen2.5-VL.
std::vector<std::string> picture_settings(const std::filesystem::path& folder);

/// Makes the task with pictures: rows that hold them, and model/ after at most `most_steps` steps of a warm start that
/// ends when the model has learned to see and a careless teacher has spoilt it.
void make_pictures(rlcore::any_device& device, const std::filesystem::path& folder, std::uint64_t seed,
                   std::uint32_t most_steps = 1500);

}  // namespace embedded_task
