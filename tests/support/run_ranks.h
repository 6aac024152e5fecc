// run_ranks: runs a function on n ranks, each a thread with its own World, and waits for all of them with a deadline.
//
// If ranks throw, rethrows the first error, prefixed by its rank; the others' errors usually only report lost peers. Kernels
// use one thread per rank.
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/comm/world.h"

namespace weft::test {

struct RunOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  std::vector<std::string> hosts = {};  ///< a host name per rank; empty: all on one host
};

/// Error of a rank, or of ranks that did not end in time.
class RankError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void run_ranks(int size, std::function<void(World)> body, RunOptions options = {});

}  // namespace weft::test
