// ServedConnection: a StoreConnection to a StoreServer, in which every call, even a wait, is one trip.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/comm/store/message.h"
#include "weft/comm/store/store_client.h"
#include "weft/comm/store/store_connection.h"
#include "weft/comm/store/store_server.h"

namespace weft {

class ServedConnection : public StoreConnection {
 public:
  using StoreConnection::StoreConnection;
  /// Connects like StoreClient.
  void open(const std::string& host, int port, const std::string& token, const Deadline& deadline);
  /// Starts a server that lives as long as this object, and connects to it.
  void serve(FileDescriptor listening, const std::string& token, const Deadline& deadline);

  /// For a call that waits for keys, the deadline also ends the wait.
  bool run(std::function<void(c10d::Store&)> call, const Deadline& deadline) override;
  Waited await(const std::vector<std::string>& keys, const std::string& unless, const Deadline& deadline,
               const Watch& watch) override;
  Gathered gather(const Contribution& own, const std::string& unless, const Deadline& deadline, const Watch& watch) override;
  Gathered missing(const Contribution& own, const Deadline& deadline) override;
  std::string address() override;
  int64_t trips() override { return client_->trips(); }

 private:
  struct Ended {
    WaitEnd end = WaitEnd::silent;  ///< came: there is an answer
    StoreClient::Answer answer = {};
  };
  Ended wait(const std::string& key, message::Request request, const std::string& body, const Deadline& deadline,
             const Watch& watch);
  template <class Read>
  auto read(const std::string& key, const Read& read);

  std::unique_ptr<StoreServer> server_;  // outlives the client
  std::unique_ptr<StoreClient> client_;
};

}  // namespace weft
