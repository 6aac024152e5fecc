// Mover: moves bytes of the host between the ranks of a group, over Gloo.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace c10d {
class Store;
}

namespace weft::checked_device {

class Mover {
 public:
  /// Blocks until all ranks are there. `starts` is locked where a Gloo call starts; null: one for all movers.
  Mover(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::mutex* starts);
  ~Mover();

  struct Message {
    int peer = 0;
    at::Tensor tensor;  ///< of the CPU, contiguous
  };
  /// Sends and receives all of these, in the order of each pair and tag. Blocks; throws c10::Error if a peer is gone or abort()
  /// is called.
  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives, uint32_t tag);

  /// For a thread that calls exchange(): a peer's closed connection is an error there, and SIGPIPE does not end the process.
  static void block_sigpipe();

  /// Ends exchanges under way and to come. From any thread.
  void abort();

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace weft::checked_device
