#include "weft/comm/store/store_connection.h"

#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "weft/base/error.h"
#include "weft/comm/host/reach.h"
#include "weft/comm/store/call_thread.h"

namespace weft {
namespace {

class LocalConnection : public StoreConnection {
 public:
  LocalConnection() : StoreConnection("this process", std::chrono::minutes(5)) {}
  bool run(std::function<void(c10d::Store&)> call, const Deadline&) override {
    call(*store_);  // which waits for nobody: what it is asked for is there
    return true;
  }

 private:
  c10::intrusive_ptr<c10d::HashStore> store_ = c10::make_intrusive<c10d::HashStore>();
};

class TcpConnection : public StoreConnection {
 public:
  using Open = std::function<c10::intrusive_ptr<c10d::Store>()>;
  TcpConnection(const StoreAddress& address, std::chrono::milliseconds timeout) : StoreConnection(address.server, timeout) {}

  bool open(const Open& open, const Deadline& deadline) {
    const auto opened = std::make_shared<c10::intrusive_ptr<c10d::Store>>();
    if (!thread_.run([opened, open] { *opened = open(); }, deadline)) return false;
    store_ = *opened;
    return true;
  }
  bool run(std::function<void(c10d::Store&)> call, const Deadline& deadline) override {
    return thread_.run([store = store_, call = std::move(call)] { call(*store); }, deadline);
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  CallThread thread_;
};

// What a call that gave up at the deadline itself has for saying why.
constexpr std::chrono::milliseconds kToSayWhy{200};

// c10d counts a connection's time in whole seconds; what bounds it is the deadline of the call.
c10d::TCPStoreOptions options_for(int port, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.timeout = timeout + std::chrono::seconds(2);
  options.waitWorkers = false;
  return options;
}

std::shared_ptr<StoreConnection> open(const StoreAddress& address, std::chrono::milliseconds timeout, const char* doing,
                                      const TcpConnection::Open& open) {
  auto connection = std::make_shared<TcpConnection>(address, timeout);
  std::string problem = "no answer";
  try {
    if (connection->open(open, timeout + kToSayWhy)) return connection;
  } catch (const c10::Error& error) {
    problem = error.what_without_backtrace();
  } catch (const Error& error) {
    problem = error.what();
  }
  throw CommError(fmt::format("cannot {} the store at {}:{}, which {} serves, within {:.1f} s: {}", doing, address.host,
                              address.port, address.server, timeout.count() / 1000.0, problem));
}

}  // namespace

bool StoreConnection::run_or_explain(const std::string& key, std::function<void(c10d::Store&)> call, const Deadline& deadline) {
  try {
    return run(std::move(call), deadline);
  } catch (const c10::Error& error) {  // these carry stack traces and no advice
    throw CommError(
        fmt::format("the store that ranks meet at, which {} serves, cannot be reached (key \"{}\"): {}; {} may have "
                    "ended",
                    server_, key, error.what_without_backtrace(), server_));
  }
}

void StoreConnection::no_answer(const std::string& key, const Deadline& deadline) const {
  throw CommError(
      fmt::format("the store that ranks meet at, which {} serves, has not answered for {:.1f} s (key \"{}\"): {} may "
                  "be stopped",
                  server_, deadline.timeout().count() / 1000.0, key, server_));
}

std::shared_ptr<StoreConnection> connect(const StoreAddress& address, std::chrono::milliseconds timeout) {
  return open(address, timeout, "reach", [address, deadline = Deadline(timeout), timeout] {
    wait_until_reachable(address.host, address.port, deadline);
    return c10::make_intrusive<c10d::TCPStore>(address.host, options_for(address.port, timeout));
  });
}

std::shared_ptr<StoreConnection> serve(const StoreAddress& address, FileDescriptor socket, std::chrono::milliseconds timeout) {
  const auto listening = std::make_shared<FileDescriptor>(std::move(socket));
  return open(address, timeout, "serve", [address, listening, timeout] {
    c10d::TCPStoreOptions options = options_for(address.port, timeout);
    options.isServer = true;
    if (*listening) options.masterListenFd = listening->release();
    return c10::make_intrusive<c10d::TCPStore>(address.host, options);
  });
}

std::shared_ptr<StoreConnection> make_local_store() { return std::make_shared<LocalConnection>(); }

}  // namespace weft
