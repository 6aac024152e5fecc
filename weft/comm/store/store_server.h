// StoreServer: serves a world's store: from rank 0, or from a process outside the ranks, such as the launcher, which outlives
// them.
//
// Uses one thread for any number of ranks; pending waits cost no time (key_table.h). If there is a token, a connection that
// does not prove within five seconds that it knows the token (proof.h) is dropped, as is one that violates the protocol; an
// unproven connection takes less than a KiB. A client that vanishes silently is dropped after about 15 minutes.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "weft/base/file_descriptor.h"
#include "weft/comm/store/store_counts.h"

namespace weft {

class ServerLoop;  // its thread, comm/store/server_loop.h

/// Serves a world's store for its lifetime.
class StoreServer {
 public:
  /// Serves on a listening socket (base/loopback.h, base/interfaces.h); with an empty token, anyone who can reach it is
  /// accepted. Throws CommError.
  explicit StoreServer(FileDescriptor socket, std::string token = "");
  /// Flushes pending answers for up to a second.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Address for processes of this host.
  const std::string& host() const { return host_; }
  /// Port at that address.
  int port() const { return port_; }

  /// Totals so far.
  StoreCounts counts() const;

 private:
  std::string host_;
  int port_ = 0;
  std::unique_ptr<ServerLoop> loop_;
  std::thread thread_;
};

}  // namespace weft
