#include "weft/comm/store/open_store.h"

#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "weft/base/error.h"
#include "weft/base/interfaces.h"
#include "weft/comm/host/reach.h"
#include "weft/comm/store/c10d_store.h"
#include "weft/comm/store/call_thread.h"
#include "weft/comm/store/served_store.h"

namespace weft {
namespace {

class LocalConnection : public PollingConnection {
 public:
  LocalConnection() : PollingConnection("this process", std::chrono::minutes(5)) {}
  bool run(std::function<void(c10d::Store&)> call, const Deadline&) override {
    call(*store_);  // never blocks: the keys it is asked for exist
    return true;
  }

 private:
  c10::intrusive_ptr<c10d::HashStore> store_ = c10::make_intrusive<c10d::HashStore>();
};

class C10dConnection : public PollingConnection {
 public:
  using Open = std::function<c10::intrusive_ptr<c10d::Store>()>;
  C10dConnection(const StoreAddress& address, std::chrono::milliseconds timeout)
      : PollingConnection(address.server, timeout), host_(address.host) {}

  bool open(const Open& open, const Deadline& deadline) {
    const auto opened = std::make_shared<c10::intrusive_ptr<c10d::Store>>();
    if (!thread_.run([opened, open] { *opened = open(); }, deadline)) return false;
    store_ = *opened;
    return true;
  }
  bool run(std::function<void(c10d::Store&)> call, const Deadline& deadline) override {
    return thread_.run([store = store_, call = std::move(call)] { call(*store); }, deadline);
  }
  std::string address() override {
    const auto found = std::make_shared<std::string>();
    try {
      if (!thread_.run([found, host = host_] { *found = local_address_towards(host); }, kToAnswer)) return {};
    } catch (const Error&) {  // no address
    }
    return is_loopback_address(*found) ? "" : *found;
  }

 private:
  std::string host_;
  c10::intrusive_ptr<c10d::Store> store_;
  CallThread thread_;
};

// Time for a call that hit its deadline to report the reason.
constexpr std::chrono::milliseconds kToSayWhy{200};

// Opens with `open` within the time; it may never return (an unresponsive name server).
std::shared_ptr<StoreConnection> open_in_time(const StoreAddress& address, std::chrono::milliseconds timeout, const char* doing,
                                              const std::function<bool(const Deadline&)>& open,
                                              const std::shared_ptr<StoreConnection>& connection) {
  std::string problem = "no answer";
  try {
    if (open(timeout + kToSayWhy)) return connection;
  } catch (const c10::Error& error) {
    problem = error.what_without_backtrace();
  } catch (const Error& error) {
    problem = error.what();
  }
  throw CommError(fmt::format("cannot {} the store at {}:{}, which {} serves, within {:.1f} s: {}", doing, address.host,
                              address.port, address.server, timeout.count() / 1000.0, problem));
}

std::shared_ptr<StoreConnection> open_served(const StoreAddress& address, std::chrono::milliseconds timeout, const char* doing,
                                             std::function<void(ServedConnection&)> open) {
  const auto connection = std::make_shared<ServedConnection>(address.server, timeout);
  const auto in_time = [&](const Deadline& deadline) {
    CallThread thread;
    return thread.run([connection, open = std::move(open)] { open(*connection); }, deadline);
  };
  return open_in_time(address, timeout, doing, in_time, connection);
}

}  // namespace

std::shared_ptr<StoreConnection> connect(const StoreAddress& address, std::chrono::milliseconds timeout) {
  return open_served(address, timeout, "reach", [address, deadline = Deadline(timeout)](ServedConnection& connection) {
    connection.open(address.host, address.port, address.token, deadline);
  });
}

std::shared_ptr<StoreConnection> serve(const StoreAddress& address, FileDescriptor socket, std::chrono::milliseconds timeout) {
  const auto listening = std::make_shared<FileDescriptor>(std::move(socket));
  return open_served(
      address, timeout, "serve", [address, listening, deadline = Deadline(timeout)](ServedConnection& connection) {
        connection.serve(*listening ? std::move(*listening) : listen_as(address.host, address.port), address.token, deadline);
      });
}

std::shared_ptr<StoreConnection> connect_c10d(const StoreAddress& address, std::chrono::milliseconds timeout) {
  const auto connection = std::make_shared<C10dConnection>(address, timeout);
  // c10d counts a connection's time in whole seconds; the call's deadline is the actual bound.
  const auto client = [address, deadline = Deadline(timeout), timeout]() -> c10::intrusive_ptr<c10d::Store> {
    wait_until_reachable(address.host, address.port, deadline);
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(address.port);
    options.timeout = timeout + std::chrono::seconds(2);
    options.waitWorkers = false;
    return c10::make_intrusive<c10d::TCPStore>(address.host, options);
  };
  const auto in_time = [&](const Deadline& deadline) { return connection->open(client, deadline); };
  return open_in_time(address, timeout, "reach", in_time, connection);
}

std::shared_ptr<StoreConnection> make_local_store() { return std::make_shared<LocalConnection>(); }

}  // namespace weft
