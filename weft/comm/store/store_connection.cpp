#include "weft/comm/store/store_connection.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/comm/store/store_errors.h"

namespace weft {

bool StoreConnection::run_or_explain(const std::string& key, std::function<void(c10d::Store&)> call, const Deadline& deadline) {
  try {
    return run(std::move(call), deadline);
  } catch (const c10::Error& error) {  // its text has a stack trace and no advice
    gone(key, error.what_without_backtrace());
  } catch (const StoreGone& error) {
    gone(key, error.what());
  }
}

void StoreConnection::gone(const std::string& key, const std::string& problem) const {
  throw LostStore(
      fmt::format("the ranks' store, which {} serves, cannot be reached (key \"{}\"): {}; {} may have "
                  "ended",
                  server_, key, problem, server_));
}

void StoreConnection::no_answer(const std::string& key, const Deadline& deadline) const {
  throw CommError(
      fmt::format("the ranks' store, which {} serves, has not answered for {:.1f} s (key \"{}\"): {} may "
                  "be stopped",
                  server_, deadline.timeout().count() / 1000.0, key, server_));
}

}  // namespace weft
