// Precision and Offload: in what types is trained, and where state waits.
#pragma once

#include <string_view>

#include "weft/base/enum_names.h"

namespace weft {

/// Types of the weights that forward reads and of activations. The optimizer keeps float32 master weights beside narrower ones;
/// normalisations and losses are computed in float32. fp16 scales the loss (Micikevicius et al. 2018, arXiv:1710.03740).
enum class Precision { fp32, bf16, fp16 };
/// The words for precisions, as recipes have them.
inline constexpr EnumNames<Precision, 3> kPrecisions("fp32", "bf16", "fp16");

/// Where state is kept while a step does not need it.
enum class Offload { none, host, disk };
/// The words for where state is offloaded to, as recipes have them.
inline constexpr EnumNames<Offload, 3> kOffloads("none", "host", "disk");

/// The word for a precision.
inline std::string_view name(Precision precision) { return kPrecisions.of(precision); }
/// The word for one.
inline std::string_view name(Offload offload) { return kOffloads.of(offload); }

}  // namespace weft
