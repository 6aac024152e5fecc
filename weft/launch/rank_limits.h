// Limits on the ranks of this host.
#pragma once

namespace weft {

/// Throws InputError for an unreasonable number of ranks: below 1, or far above the host's cores.
void check_rank_count(int num_ranks);

/// Raises this process's limit on open files, which ranks inherit, if it is too low. Throws Error if it may not be raised.
void provide_descriptors(int num_ranks);

}  // namespace weft
