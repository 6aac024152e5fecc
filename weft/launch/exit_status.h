// Exit statuses of `weft train` that tell others what to do next.
#pragma once

namespace weft {

/// The run was asked to end (SIGTERM, SIGUSR1), and has saved: started again, it goes on. EX_TEMPFAIL of sysexits.h.
inline constexpr int kSavedAndStopped = 75;

}  // namespace weft
