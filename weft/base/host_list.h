// Lists in the short form in which SLURM writes them: of hosts, and of how many tasks each has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// The hosts of "n[1-3,07],rack[0-1]-gpu[001-004].x": names with ranges in brackets, several of which go through all pairs, the
/// first slowest. Numbers keep their leading zeros. `name` is what errors call the text, a variable's name. Throws InputError
/// for what is no such list, or one of more hosts than any cluster has.
std::vector<std::string> expand_host_list(std::string_view name, std::string_view text);

/// The counts of "2(x3),1": 2, 2, 2, 1. Throws InputError as above, and for a count of 0.
std::vector<int> expand_counts(std::string_view name, std::string_view text);

}  // namespace weft
