// How ranks ended, in the records of their run, as a launcher knows it: rank 0, which writes them, may have been killed.
#pragma once

#include <string>

#include "weft/launch/launch_options.h"

namespace weft {

/// Adds how the ranks ended to the records in `folder` if they have begun since `began_s` (since 1970) and do not say it yet.
/// Returns the error, with where the ranks' evidence is if there is some. Does nothing for an empty folder, and never throws.
std::string recorded_end(const std::string& folder, double began_s, const LaunchOutcome& outcome);

}  // namespace weft
