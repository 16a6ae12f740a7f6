// The launches of a cuda device for losses and advantages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/device/cuda.hpp"
#include "rlcore/objective/traced/program.hpp"
#include "rlcore/objective/traced/run.hpp"

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)

RLCORE_BEGIN

static_assert(static_cast<int>(operation::multiply_add) == static_cast<int>(nvidia::arguments::step_multiply_add) &&
              static_cast<int>(operation::select) == static_cast<int>(nvidia::arguments::step_select) &&
              operation_forms.size() == nvidia::arguments::step_operations);

namespace nvidia {

/// A traced program as its kernel reads it, in one block of bytes: outputs, fields, and the steps that wanted results
/// need. A value has a place until its last reader; then the place is used again.
struct program_block {
  std::vector<arguments::program_output> outputs;
  std::vector<arguments::program_field> fields;
  std::vector<arguments::program_step> steps;
  std::size_t places = 0;

  /// Throws std::invalid_argument if an input has no data.
  program_block(const traced_program& program, const program_arrays<float>& arrays) {
    const std::size_t count = program.steps.size(), never = count, at_the_end = count + 1;
    std::vector<std::size_t> last(count, never);  // reader of each step
    for (std::size_t r = 0; r < program.results.size(); ++r)
      if (arrays.results[r] != nullptr) last[program.results[r].step] = at_the_end;
    for (std::size_t i = count; i-- > 0;)
      if (last[i] != never)
        for (std::size_t k = 0; k < form_of(program.steps[i].what).operands; ++k)
          if (std::size_t& reader = last[program.steps[i].operands[k]]; reader == never) reader = i;
    std::vector<int> place(count), free;
    for (std::size_t i = 0; i < count; ++i) {
      if (last[i] == never) continue;
      const traced_step& s = program.steps[i];
      arguments::program_step step{static_cast<int>(s.what), 0, 0, 0, 0, static_cast<float>(s.number)};
      int* const operands[] = {&step.a, &step.b, &step.c};
      for (std::size_t k = 0; k < form_of(s.what).operands; ++k) *operands[k] = place[s.operands[k]];
      for (std::size_t k = 0; k < form_of(s.what).operands; ++k)
        if (std::size_t& reader = last[s.operands[k]]; reader == i)
          free.push_back(place[s.operands[k]]), reader = at_the_end;  // once, also where it is read twice here
      if (s.what == operation::input) {
        const program_input<float>& in = arrays.of(s);
        step.a = static_cast<int>(fields.size());
        fields.push_back({in.data, in.row_stride, in.token_stride});
      }
      if (free.empty()) free.push_back(static_cast<int>(places++));
      step.to = place[i] = free.back();
      free.pop_back();
      steps.push_back(step);
    }
    for (std::size_t r = 0; r < program.results.size(); ++r)
      if (arrays.results[r] != nullptr) outputs.push_back({arrays.results[r], place[program.results[r].step]});
  }
  std::size_t output_bytes() const { return outputs.size() * sizeof(outputs[0]); }
  std::size_t field_bytes() const { return fields.size() * sizeof(fields[0]); }
  /// All of it.
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> all;
    const auto append = [&](const auto& part) {
      const auto from = std::as_bytes(std::span(part));
      all.insert(all.end(), from.begin(), from.end());
    };
    append(outputs), append(fields), append(steps);
    return all;
  }
};

}  // namespace nvidia

RLCORE_INLINE void cuda::run(const op::run_program& o) {
  const extent_t slots = o.arrays.rows * o.arrays.width;
  if (slots == 0) return;
  const nvidia::program_block block(o.program, o.arrays);
  if (block.outputs.empty()) return;
  const std::vector<std::byte> bytes = block.bytes();
  const scratch program(queue_, bytes.size());
  queue_.upload(program.as<void>(), bytes.data(), bytes.size());
  using run_program = nvidia::arguments::run_program;
  const extent_t blocks =
      std::min<extent_t>((slots + run_program::threads - 1) / run_program::threads, extent_t{8} * queue_.processors());
  const scratch values(queue_, block.places * static_cast<std::size_t>(blocks * run_program::threads) * sizeof(float));
  const std::byte* at = program.as<std::byte>();
  const auto& live = o.arrays.live;
  queue_.launch(run_program{reinterpret_cast<const nvidia::arguments::program_step*>(at + block.output_bytes() +
                                                                                     block.field_bytes()),
                            reinterpret_cast<const nvidia::arguments::program_field*>(at + block.output_bytes()),
                            reinterpret_cast<const nvidia::arguments::program_output*>(at),
                            static_cast<int>(block.steps.size()),
                            static_cast<int>(block.outputs.size()),
                            {live.data, live.row_stride, live.token_stride},
                            o.arrays.rows,
                            o.arrays.width,
                            values.as<float>()},
                blocks);
}
RLCORE_INLINE void cuda::run(const op::live_slots& o) {
  queue_.launch_elements(nvidia::arguments::live_slots{o.live, o.mask.data, o.mask.bytes, o.mask.floating, o.lengths,
                                                       o.slots, o.rows, o.width},
                         o.rows * o.width);
}
RLCORE_INLINE void cuda::run(const op::row_sums& o) {
  queue_.launch(nvidia::arguments::row_sums{o.sums, o.x, o.width}, o.rows);
}
RLCORE_INLINE void cuda::run(const op::to_indices& o) {
  queue_.launch_elements(nvidia::arguments::to_indices{o.y, o.x, o.n}, o.n);
}
RLCORE_INLINE void cuda::run(const op::row_largest& o) {
  queue_.launch(nvidia::arguments::row_largest{o.largest, o.x, o.width}, o.rows);
}
RLCORE_INLINE void cuda::run(const op::add_next_slots& o) {
  queue_.launch_elements(nvidia::arguments::add_next_slots{o.y, o.x, o.factor, o.rows, o.width}, o.rows * o.width);
}
RLCORE_INLINE void cuda::run(const op::suffix_sums& o) {
  queue_.launch(nvidia::arguments::suffix_sums{o.y, o.x, o.decay, o.open, o.rows, o.width}, (o.rows + 63) / 64);
}
RLCORE_INLINE void cuda::run(const op::live_first& o) {
  static_assert(sizeof(nvidia::extent) == sizeof(std::int64_t));
  queue_.launch(nvidia::arguments::live_first{reinterpret_cast<nvidia::extent*>(o.order),
                                              reinterpret_cast<nvidia::extent*>(o.place), o.live, o.rows, o.width},
                (o.rows + 63) / 64);
}
RLCORE_INLINE void cuda::run(const op::pick_slots& o) {
  queue_.launch_elements(
      nvidia::arguments::pick_slots{o.y, o.x, reinterpret_cast<const nvidia::extent*>(o.slots), o.rows, o.width},
      o.rows * o.width);
}

RLCORE_END
#endif
