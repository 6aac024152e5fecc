// Ways to a store: by connecting, by serving one, inside this process.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "weft/base/file_descriptor.h"

namespace weft {

class StoreConnection;

/// Where a store over TCP is: `server` serves it at `host`:`port`, and proves that it knows the token, where that is not empty.
struct StoreAddress {
  std::string server, host;
  int port = 0;
  std::string token = {};
};

/// Connects to a store of weft's. Throws CommError when it cannot be reached in time, or is another job's. `timeout` is also
/// that of the connection's later calls.
std::shared_ptr<StoreConnection> connect(const StoreAddress& address, std::chrono::milliseconds timeout);
/// Serves a store and connects to it: on a socket that listens, or, where that is empty, on the interface that leads to those
/// who know this host as `address.host` (base/interfaces.h, listen_as).
std::shared_ptr<StoreConnection> serve(const StoreAddress& address, FileDescriptor socket, std::chrono::milliseconds timeout);
/// Connects to torchrun's store. It asks for no token.
std::shared_ptr<StoreConnection> connect_c10d(const StoreAddress& address, std::chrono::milliseconds timeout);
/// Makes a store inside this process.
std::shared_ptr<StoreConnection> make_local_store();

}  // namespace weft
