// A whole server on a device chosen at run time, compiled once (the target rlcore::server).
#include "rlcore/serving/serve.hpp"

#include "rlcore/train/run/devices.hpp"

RLCORE_BEGIN
namespace serving {
// serving/serve.hpp
template int serve(const std::vector<std::unique_ptr<any_device>>&, const options&, const awaited_signals&);
}  // namespace serving
RLCORE_END
