// StoreServer: serves a world's store: from rank 0, or from a process that is none of its ranks, such as the launcher, so that
// it outlives each.
//
// One thread, whatever the number of ranks; a wait costs it nothing while it lasts (key_table.h). With a token, a connection
// that does not prove that it knows it (proof.h) within five seconds is dropped, as is one that speaks another language; until
// then it costs less than a KiB. A client that vanishes without a word is dropped after a minute or two.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "weft/base/file_descriptor.h"
#include "weft/comm/store/store_counts.h"

namespace weft {

class ServerLoop;  // its thread, comm/store/server_loop.h

/// Serves a world's store while it lives.
class StoreServer {
 public:
  /// Serves on a socket that listens (base/loopback.h, base/interfaces.h); with an empty token to all who can reach that.
  /// Throws CommError.
  explicit StoreServer(FileDescriptor socket, std::string token = "");
  /// Sends what has been answered, for up to a second.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Where a process of this host reaches it.
  const std::string& host() const { return host_; }
  /// The port there.
  int port() const { return port_; }

  /// What it has done so far.
  StoreCounts counts() const;

 private:
  std::string host_;
  int port_ = 0;
  std::unique_ptr<ServerLoop> loop_;
  std::thread thread_;
};

}  // namespace weft
