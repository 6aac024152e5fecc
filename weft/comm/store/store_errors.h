// Errors of waiting at a store. LostRank knows whom the wait was for, so that a launcher can name that rank; its text begins
// with "rank N", in numbers of the world. StoreGone: the connection has broken; whoever knows what the store was asked for
// makes an error of it.
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
  int rank() const { return rank_; }  ///< of the world

 private:
  int rank_;
};

/// The rank that an error knows was lost, or -1.
inline int lost_rank_of(const std::exception& error) {
  const auto* lost = dynamic_cast<const LostRank*>(&error);
  return lost == nullptr ? -1 : lost->rank();
}

/// Throws CommError, or LostRank where a rank is named (not below 0).
[[noreturn]] inline void throw_failure(int rank, const std::string& text) {
  if (rank >= 0) throw LostRank(rank, text);
  throw CommError(text);
}

/// The text says how it broke.
class StoreGone : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace weft
