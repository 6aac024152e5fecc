// Human-readable numbers with units: about three digits and a fitting unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// Bytes as text: "0 B", "512 B", "1.50 KiB", "25.0 MiB", "195 MiB": powers of 1024.
std::string format_bytes(int64_t bytes);

/// Operations as text: "0 FLOP", "950 FLOP", "1.20 GFLOP": powers of 1000.
std::string format_flops(double flops);

/// A time as text: "0 s", "9.00 us", "3.60 ms", "41.0 s", "2 min 05 s", "1 h 02 min". Seconds are rounded first.
std::string format_duration(double seconds);

/// A count or a rate as text: "950", "3.27", "3.30 M", "60.0 k": powers of 1000.
std::string format_count(double count);

/// A count with its noun: "1 slot", "2 slots", "2 micro-batches"; `ending` is the plural suffix.
std::string counted(int64_t count, std::string_view noun, std::string_view ending = "s");

}  // namespace weft
