// Threads that save and copy in the background.
#pragma once

namespace weft {

/// Leaves CPU time to the steps: lowers this thread's priority, and makes it compute without further threads.
void run_behind_steps();

}  // namespace weft
