// Other processes on this host: whether they still live.
#pragma once

#include "weft/base/file_descriptor.h"

namespace weft {

/// To be asked has_ended(). Empty, and never ended, for this process itself.
FileDescriptor watch_process(int pid);
bool has_ended(const FileDescriptor& watched);

enum class ProcessState { runs, stopped, ended };

/// As /proc tells; `runs` where it tells nothing. A number may have gone to another process since: has_ended() is surer.
ProcessState process_state(int pid);

}  // namespace weft
