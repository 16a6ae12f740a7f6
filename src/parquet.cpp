// Parquet through Arrow C++, which takes far longer to compile than what reads its rows (behind rlcore::data).
#include "rlcore/data/parquet_arrow.hpp"
