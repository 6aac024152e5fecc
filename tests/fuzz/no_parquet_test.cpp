// Damaged Parquet for a weft built without it, which refuses all of it.
#include "tests/fuzz/data_inputs.h"

namespace weft::fuzz {

std::vector<std::string> parquet_files() { return std::vector<std::string>(3, "PAR1 columns PAR1"); }

}  // namespace weft::fuzz
