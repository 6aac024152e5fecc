// Expands SLURM's compact lists of hosts and of tasks per host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Expands "n[1-3,07],rack[0-1]-gpu[001-004].x": names with ranges in brackets; several brackets give all combinations, the
/// first varying slowest. Numbers keep their leading zeros. `name` identifies the text in errors, for example by its
/// environment variable. Throws InputError for a malformed list or one with more hosts than any cluster has.
std::vector<std::string> expand_host_list(std::string_view name, std::string_view text);

/// Expands the counts "2(x3),1" to 2, 2, 2, 1. Throws InputError as above, and for a count of 0.
std::vector<int> expand_counts(std::string_view name, std::string_view text);

}  // namespace weft
