// figure_text: recorded numbers as texts, whatever they are.
#pragma once

#include <string>

namespace weft {

/// A loss, or the like: four decimals; from 1e5 on, four digits and an exponent.
std::string figure_text(double value);
/// Bytes that a record gives: "1.5 GiB"; "-" for what can be none.
std::string recorded_bytes_text(double bytes);

}  // namespace weft
