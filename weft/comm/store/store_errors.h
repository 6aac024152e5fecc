// Errors of waits at a store. LostRank holds the awaited rank, so a launcher can name it; its text begins with "rank N", the
// world rank. StoreGone: the connection has broken; the caller, which knows the request, turns it into an error.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

#include "weft/base/error.h"

namespace weft {

/// An error of waiting for a rank that has died or hangs.
class LostRank : public CommError {
 public:
  /// `text` begins with "rank N", N being `rank`.
  LostRank(int rank, const std::string& text) : CommError(text), rank_(rank) {}
  int rank() const { return rank_; }  ///< world rank

 private:
  int rank_;
};

/// Returns the rank that an error reports as lost, or -1.
inline int lost_rank_of(const std::exception& error) {
  const auto* lost = dynamic_cast<const LostRank*>(&error);
  return lost == nullptr ? -1 : lost->rank();
}

/// An error as a value, because threads cannot share an exception.
struct GroupFailure {
  int culprit = -1;  ///< world rank to blame, or -1
  std::string text;  ///< one line
};

/// Throws LostRank if `rank` is at least 0, else CommError.
[[noreturn]] inline void throw_failure(int rank, const std::string& text) {
  if (rank >= 0) throw LostRank(rank, text);
  throw CommError(text);
}

/// The text says how the connection broke.
class StoreGone : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace weft
