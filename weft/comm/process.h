// Other processes on this host: whether they still live.
#pragma once

#include "weft/base/file_descriptor.h"

namespace weft {

/// To be asked has_ended(). Empty, and never ended, for this process itself.
FileDescriptor watch_process(int pid);
bool has_ended(const FileDescriptor& watched);

}  // namespace weft
