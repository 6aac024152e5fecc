// StoreServer: serves a world's store from a process that is none of its ranks, such as the launcher, so that it outlives each.
#pragma once

#include <chrono>
#include <memory>

#include "weft/base/file_descriptor.h"
#include "weft/comm/store/store.h"

namespace weft {

/// Serves a world's store while it lives.
class StoreServer {
 public:
  /// Serves on a socket that listens on the loopback interface. Starts threads, with the signal mask of the caller. Throws
  /// CommError.
  explicit StoreServer(FileDescriptor socket);

 private:
  std::shared_ptr<StoreConnection> connection_;
};

}  // namespace weft
