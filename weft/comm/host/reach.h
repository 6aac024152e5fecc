// Whether somebody listens at an address yet: ranks start in any order, and c10d complains of each attempt.
#pragma once

#include <string>

#include "weft/base/deadline.h"

namespace weft {

/// Returns once a TCP connection to that address has been made (and closed again). Throws Error with the last attempt's reason
/// when none has by the deadline; a name server may keep it longer.
void wait_until_reachable(const std::string& host, int port, const Deadline& deadline);

}  // namespace weft
