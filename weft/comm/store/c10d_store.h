// PollingConnection: waits and gatherings made of the calls that any c10d store has, where no server keeps the waits:
// torchrun's store, and one inside this process. It polls, with growing pauses, so that a rank that waits never keeps another
// thread of its process from the store.
#pragma once

#include <string>
#include <vector>

#include "weft/comm/store/store_connection.h"

namespace weft {

class PollingConnection : public StoreConnection {
 public:
  using StoreConnection::StoreConnection;
  Waited await(const std::vector<std::string>& keys, const std::string& unless, const Deadline& deadline,
               const Watch& watch) override;
  /// Some five trips a rank and the polls; the last to come tells the others, and each asks for all values at once.
  Gathered gather(const Contribution& own, const std::string& unless, const Deadline& deadline, const Watch& watch) override;
  /// As many trips as it looks at ranks.
  Gathered missing(const Contribution& own, const Deadline& deadline) override;
};

}  // namespace weft
