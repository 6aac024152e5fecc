// Times for people, in the local time zone.
#pragma once

#include <string>

namespace weft {

/// "2026-12-01 10:12:13"; `time_s`: since 1970, UTC.
std::string local_time_text(double time_s);

}  // namespace weft
