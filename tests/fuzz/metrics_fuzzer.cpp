// The metrics of two runs, as metrics.jsonl or as a console log, with a line "=====" between them: comparison, report.
#include "fuzz/fuzzing.hpp"
#include "rlcore/telemetry/comparison/run_comparison.hpp"
#include "rlcore/telemetry/comparison/run_log.hpp"
#include "rlcore/telemetry/report/report.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace t = rlcore::train;
  const auto parts = fuzzing::two_texts(fuzzing::text_of(data, size));
  const std::string_view first = parts.first, second = parts.second;
  std::vector<t::metric_row> a, b;
  const bool good = fuzzing::accepts([&] { a = t::read_run(fuzzing::write("a.jsonl", first)); });
  fuzzing::accepts([&] { b = t::read_run(fuzzing::write("b.jsonl", second)); });
  if (!good) return 0;
  std::string lines;
  for (const t::metric_row& row : a) lines += t::json_line(row.step, row.values) + "\n";
  fuzzing::accepts([&] {
    const auto again = t::read_metric_rows(fuzzing::write("a.jsonl", lines));
    std::string written;
    for (const t::metric_row& row : again) written += t::json_line(row.step, row.values) + "\n";
    fuzzing::require(written == lines, "the metrics do not read back");
  });
  fuzzing::accepts([&] {
    t::compare_speed(a, b);
    for (const std::string& name : t::names_of(a)) fuzzing::accepts([&] { t::compare_curve(a, b, name); });
  });
  if (size % 16 != 0) return 0;  // a report takes longer than all before
  t::run_info info;
  info.name = "x", info.settings = {{"first", std::string(first.substr(0, 200))}};
  const std::string page = t::detail::report_writer(info, a).run();
  fuzzing::require(page.find("<script") == page.npos, "a report with a script in it");
  return 0;
}

}  // namespace RLCORE_TEST_ID
