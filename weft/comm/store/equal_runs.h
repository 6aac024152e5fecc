// What all ranks bring to a gathering, as one text: runs of equal values, each told by what it shares with the one before, as
// neighbours are often on one host and hosts are named alike.
//
// A run is the number of its ranks, the bytes that its value shares with the value before it, the number of the others, and
// these. Numbers are of seven bits a byte, the lowest first; the eighth is set where more follow.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// The values of ranks 0, 1, ... as one text.
std::string write_runs(const std::map<uint32_t, std::string>& values);
/// The values of `size` ranks. Throws message::Malformed for what is no such text.
std::vector<std::string> read_runs(std::string_view text, size_t size);

}  // namespace weft
