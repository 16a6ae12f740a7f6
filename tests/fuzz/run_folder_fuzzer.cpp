// Small files of a run's folder: settings.json, the tracker, run.lock, extra_state.json.
#include "fuzz/fuzzing.hpp"
#include "rlcore/checkpoint/folder_lock.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/config/programs/tools.hpp"
#include "rlcore/train/files/run_settings.hpp"
#include "rlcore/train/files/save_checkpoint.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace c = rlcore::checkpoint;
  namespace t = rlcore::train;
  std::string_view text = fuzzing::text_of(data, size);
  static const auto options = t::options::parse({"a", "b"}, t::compare_runs_registry());
  const auto& folder = fuzzing::folder();
  switch (fuzzing::choice(text, 4)) {
    case 0:
      fuzzing::write(t::run_settings_name, text);
      fuzzing::accepts([&] { t::check_run_settings(folder, options); });
      break;
    case 1: {
      const auto path = fuzzing::write(std::string(c::tracker_name), text);
      fuzzing::accepts([&] {
        const auto step = c::read_tracker(folder);
        fuzzing::write(path.filename().string(), std::to_string(*step));
        fuzzing::require(c::read_tracker(folder) == step, "the tracker does not read back");
      });
      break;
    }
    case 2: {
      const auto path = fuzzing::write("run.lock", text);
      const rlcore::data::descriptor file(path, O_RDONLY, "open");
      fuzzing::check_sentence(c::detail::read_owner(file.number()).text());
      break;
    }
    default: {
      const auto path = fuzzing::write("extra_state.json", text);
      fuzzing::accepts([&] {
        const c::json_file extra(path);
        if (const std::string notice = t::sums_notice(folder, extra, t::settings_of_sums({}, 0)); !notice.empty())
          fuzzing::check_sentence(notice);
      });
    }
  }
  return 0;
}

}  // namespace RLCORE_TEST_ID
