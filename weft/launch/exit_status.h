// Exit statuses of `weft train` that tell others what to do next.
#pragma once

namespace weft {

/// The run was asked to end (SIGTERM, SIGUSR1, Ctrl-C), and has saved: started again, it goes on. EX_TEMPFAIL of sysexits.h.
inline constexpr int kSavedAndStopped = 75;
/// A number that training cannot go on with came up: the loss is not finite. Started again, it comes to that again.
inline constexpr int kDiverged = 4;

/// Of a rank, to its launcher: the run is done and what it had to write is written, but not all that it had to say (its
/// standard output is gone). There is nothing to start again. EX_IOERR of sysexits.h.
inline constexpr int kOutputLost = 74;

/// The run is done and saved, but its newest checkpoint is not in the second place (save.upload): started again, it copies
/// that.
inline constexpr int kNotCopied = 5;

}  // namespace weft
