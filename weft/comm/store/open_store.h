// Ways to open a store: connect to one, serve one, or create one inside this process.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "weft/base/file_descriptor.h"

namespace weft {

class StoreConnection;

/// Address of a TCP store: `server` serves it at `host`:`port`, and proves that it knows the token, if there is one.
struct StoreAddress {
  std::string server, host;
  int port = 0;
  std::string token = {};
};

/// Connects to a weft store. Throws CommError if it cannot be reached in time, or belongs to another job. `timeout` also
/// applies to the connection's later calls.
std::shared_ptr<StoreConnection> connect(const StoreAddress& address, std::chrono::milliseconds timeout);
/// Serves a store and connects to it. Serves on `socket`, already listening; if empty, on the interface through which other
/// hosts reach this one as `address.host` (base/interfaces.h, listen_as).
std::shared_ptr<StoreConnection> serve(const StoreAddress& address, FileDescriptor socket, std::chrono::milliseconds timeout);
/// Connects to torchrun's store, which requires no token.
std::shared_ptr<StoreConnection> connect_c10d(const StoreAddress& address, std::chrono::milliseconds timeout);
/// Creates a store inside this process.
std::shared_ptr<StoreConnection> make_local_store();

}  // namespace weft
