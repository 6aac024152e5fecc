// Precision and Offload: the dtypes of training, and where idle state is kept.
#pragma once

#include <string_view>

#include "weft/base/enum_names.h"

namespace weft {

/// Dtypes of the weights in forward and of activations. The optimizer keeps float32 master weights for narrower ones;
/// normalisations and losses use float32. fp16 scales the loss (Micikevicius et al. 2018, arXiv:1710.03740).
enum class Precision { fp32, bf16, fp16 };
/// Names of the precisions, as spelled in recipes.
inline constexpr EnumNames<Precision, 3> kPrecisions("fp32", "bf16", "fp16");

/// Where state is kept while a step does not need it.
enum class Offload { none, host, disk };
/// Names of the offload targets, as spelled in recipes.
inline constexpr EnumNames<Offload, 3> kOffloads("none", "host", "disk");

/// Returns the name of a precision.
inline std::string_view name(Precision precision) { return kPrecisions.of(precision); }
/// Returns the name of an offload target.
inline std::string_view name(Offload offload) { return kOffloads.of(offload); }

}  // namespace weft
