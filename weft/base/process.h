// Liveness of other processes on this host.
#pragma once

#include <cstdint>

#include "weft/base/file_descriptor.h"

namespace weft {

/// Returns a handle for has_ended(). For this process the handle is empty, which means never ended.
FileDescriptor watch_process(int pid);
bool has_ended(const FileDescriptor& watched);

enum class ProcessState { runs, stopped, ended };

/// Reads the state of a process from /proc; `runs` if it is unknown. The pid may have been reused by another process:
/// has_ended() is more reliable.
ProcessState process_state(int pid);

/// Start time in ticks (sysconf(_SC_CLK_TCK)) since boot; 0 if /proc does not show it.
int64_t process_start(int pid);

}  // namespace weft
