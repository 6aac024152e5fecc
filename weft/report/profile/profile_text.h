// profile_text: a profile of steps as tables for people, and as JSON.
#pragma once

#include <string>

#include "weft/program/profile/step_profile.h"

namespace weft {

/// Tables of at most 100 columns: the operators that take most, the critical path, the longest waits, what would win most.
std::string profile_text(const StepProfile& profile);

/// The whole of it.
std::string profile_json(const StepProfile& profile);

}  // namespace weft
