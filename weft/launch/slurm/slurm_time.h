// Times as SLURM's --time takes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

/// Seconds of "90" (minutes), "90:30", "4:00:00", "2-12" (days and hours), "2-12:30" or "2-12:30:00"; none for "UNLIMITED".
/// Throws InputError for what is no such time, or no time at all ("0").
std::optional<int64_t> slurm_seconds(const std::string& text);

}  // namespace weft
