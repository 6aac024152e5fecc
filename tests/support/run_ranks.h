// run_ranks: runs a function on n ranks, each a thread with its own World, and waits for all of them with a deadline.
//
// If ranks throw, the error of the one that failed first comes out, with its rank before it; the others' errors are usually
// only that they lost a peer. Kernels run on one thread a rank.
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
  std::vector<std::string> hosts = {};  ///< a host name for each rank; empty: all on one
};

/// An error of a rank, or that the ranks did not end in time.
class RankError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void run_ranks(int size, std::function<void(World)> body, RunOptions options = {});

}  // namespace weft::test
