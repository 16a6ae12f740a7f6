// One override of a command line, and its value.
#include "fuzz/fuzzing.hpp"
#include "rlcore/config/check_value.hpp"
#include "rlcore/config/grammar/compose.hpp"
#include "rlcore/config/grammar/override.hpp"
#include "rlcore/config/help.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace t = rlcore::train;
  const std::string_view text = fuzzing::text_of(data, size);
  t::value root{t::value::map{{"a", t::value::map{{"b", 1}, {"c", t::value::list{1, "x"}}}}, {"d", t::value()}}};
  fuzzing::accepts([&] {
    const t::override_setting setting = t::parse_override(text);
    fuzzing::accepts([&] { t::apply(root, setting); });
    t::interpolation references(root);
    fuzzing::accepts([&] { t::to_yaml(references.run()); });
    t::inline_text(setting.item);
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
