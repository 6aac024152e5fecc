// parse_bytes: a number of bytes as people write it.
#pragma once

#include <optional>
#include <string_view>

namespace weft {

/// Parses "24GiB", "24 GiB", "80GB", "1.5e9": a number of bytes above 0, with a unit of powers of 1024 or 1000 or none. Empty
/// for any other text.
std::optional<double> parse_bytes(std::string_view text);

}  // namespace weft
