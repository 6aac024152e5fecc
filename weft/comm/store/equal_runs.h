// Encodes all ranks' values of a gathering as one text: runs of equal values, each stored relative to the run before, because
// neighbours often share a host and host names share prefixes.
//
// A run holds its number of ranks, the number of bytes shared with the start of the previous value, the number of remaining
// bytes, and these bytes. Numbers have seven bits per byte, lowest first; the eighth bit is set if more bytes follow.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Encodes the values of ranks 0, 1, ... as one text.
std::string write_runs(const std::map<uint32_t, std::string>& values);
/// Decodes the values of `size` ranks. Throws message::Malformed for an invalid text.
std::vector<std::string> read_runs(std::string_view text, size_t size);

}  // namespace weft
