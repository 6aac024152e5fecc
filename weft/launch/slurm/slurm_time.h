// Times in the format of SLURM's --time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

/// Returns the seconds of "90" (minutes), "90:30", "4:00:00", "2-12" (days and hours), "2-12:30" or "2-12:30:00"; nothing for
/// "UNLIMITED". Throws InputError for any other text, and for a zero time ("0").
std::optional<int64_t> slurm_seconds(const std::string& text);

}  // namespace weft
