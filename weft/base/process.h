// Other processes on this host: whether they still live.
#pragma once

#include <cstdint>

#include "weft/base/file_descriptor.h"

namespace weft {

/// What has_ended() is asked about a process; empty, and never ended, for this process itself.
FileDescriptor watch_process(int pid);
bool has_ended(const FileDescriptor& watched);

enum class ProcessState { runs, stopped, ended };

/// The state of a process as /proc tells it; `runs` where it tells nothing. A number may have gone to another process since:
/// has_ended() is surer.
ProcessState process_state(int pid);

/// When it was started, in ticks (sysconf(_SC_CLK_TCK)) since the machine began; 0 where /proc does not tell.
int64_t process_start(int pid);

}  // namespace weft
