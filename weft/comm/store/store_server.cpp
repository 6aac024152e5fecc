#include "weft/comm/store/store_server.h"

#include "weft/base/loopback.h"
#include "weft/comm/store/store_connection.h"

namespace weft {

StoreServer::StoreServer(FileDescriptor socket) {
  const StoreAddress address{"this process", "127.0.0.1", port_of(socket)};
  connection_ = serve(address, std::move(socket), std::chrono::seconds(30));
}

}  // namespace weft
