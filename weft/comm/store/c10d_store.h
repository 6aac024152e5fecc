// PollingConnection: waits and gatherings built from the calls of any c10d store, for stores without server-side waits:
// torchrun's, and one inside this process. It polls, with growing pauses, so a waiting rank never blocks another thread of its
// process from the store.
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
  /// About five trips per rank, plus polling; the last arrival releases the others, and each reads all values at once.
  Gathered gather(const Contribution& own, const std::string& unless, const Deadline& deadline, const Watch& watch) override;
  /// One trip per rank examined.
  Gathered missing(const Contribution& own, const Deadline& deadline) override;
};

}  // namespace weft
