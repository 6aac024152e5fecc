#include "weft/comm/store/store_server.h"

#include <pthread.h>

#include "weft/base/blocked_signals.h"
#include "weft/base/interfaces.h"
#include "weft/base/loopback.h"
#include "weft/comm/store/server_loop.h"

namespace weft {

StoreServer::StoreServer(FileDescriptor socket, std::string token) : host_(own_address_of(socket)), port_(port_of(socket)) {
  if (host_ == "0.0.0.0" || host_ == "::") host_ = "127.0.0.1";
  loop_ = std::make_unique<ServerLoop>(std::move(socket), std::move(token));
  const BlockedSignals blocked;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "weft-store");
    loop_->run();
  });
}

StoreServer::~StoreServer() {
  loop_->stop();
  thread_.join();
}

StoreCounts StoreServer::counts() const { return loop_->counts(); }

}  // namespace weft
