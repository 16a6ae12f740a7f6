// Parquet through Arrow C++, which takes far longer to compile than what reads its rows (behind rlcore::data).
#define RLCORE_SOURCE_PARQUET
#include "rlcore/data/parquet.hpp"
