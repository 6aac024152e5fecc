// Exit statuses of `weft train` that tell others what to do next.
#pragma once

namespace weft {

/// The run was asked to end (SIGTERM, SIGUSR1), and has saved: started again, it goes on. EX_TEMPFAIL of sysexits.h.
inline constexpr int kSavedAndStopped = 75;
/// A number that training cannot go on with came up: the loss is not finite. Started again, it comes to that again.
inline constexpr int kDiverged = 4;

}  // namespace weft
