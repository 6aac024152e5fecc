// What this host bears of ranks.
#pragma once

namespace weft {

/// Throws InputError for a number of ranks that no host is to be given: below 1, or far above its cores.
void check_rank_count(int num_ranks);

/// Raises this process's limit on open files, which ranks inherit, where it is too low and may be raised. Throws Error where it
/// may not.
void provide_descriptors(int num_ranks);

}  // namespace weft
