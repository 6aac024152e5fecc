// Threads that save and copy beside training.
#pragma once

namespace weft {

/// From here on this thread takes what the steps leave: its priority is lower, and what it computes it computes by itself.
void run_behind_steps();

}  // namespace weft
