// How many calls each communicator of a device has been given: two ranks that share two communicators must have given them
// theirs in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft::checked_device {

/// Number of a communicator's collectives (peer -1) or messages with one rank, so far.
struct LaunchCount {
  uint64_t communicator = 0;  ///< hash of its name
  int peer = -1;              ///< rank in the job
  uint64_t calls = 0;
};

/// `calls` more calls of the communicator with that name; 0 makes it known. Under order_mutex().
void count_launches(int device, const std::string& communicator, int peer, uint64_t calls);

/// The counts that concern a peer (rank in the job), at most `most`, in the same order on both. Under order_mutex().
std::vector<LaunchCount> launch_counts(int device, int peer, const std::string& without, size_t most);

/// The name behind a LaunchCount's hash, in this process; "another communicator" if it has none such.
std::string communicator_name(uint64_t hash);

/// The communicator is gone.
void forget_launches(int device, const std::string& communicator);

}  // namespace weft::checked_device
