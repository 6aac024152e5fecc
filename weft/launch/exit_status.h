// Exit statuses of `weft train` that tell the caller what to do next.
#pragma once

namespace weft {

/// The run was asked to stop (SIGTERM, SIGUSR1, Ctrl-C) and has saved; it resumes when restarted. EX_TEMPFAIL of sysexits.h.
inline constexpr int kSavedAndStopped = 75;
/// The loss is not finite, so training cannot continue. A restart would end the same way.
inline constexpr int kDiverged = 4;

/// From a rank to its launcher: the run is done and its files are written, but some output was lost (its standard output is
/// gone). Do not restart. EX_IOERR of sysexits.h.
inline constexpr int kOutputLost = 74;

/// The run is done and saved, but its newest checkpoint has not been copied to save.upload; a restart copies it.
inline constexpr int kNotCopied = 5;

}  // namespace weft
