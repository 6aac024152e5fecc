// The order in which data is trained on that is read a group at a time: a Parquet file's row groups, blocks of JSON lines.
//
// Samples in any order would read a group for each. So groups come in an order that is drawn anew each epoch, as many at a
// time as fit into a window, and the samples of a window in an order drawn for it: CorgiPile's (Xu et al. 2022,
// arXiv:2206.05830), which trains as a full shuffle does where groups are many. Where everything fits into one window it is
// a full shuffle. Like Sampler's it is a function of (seed, epoch) and the position: nothing is kept from sample to sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "weft/data/dataset.h"

namespace weft {

/// What is read at once.
struct SampleGroup {
  int64_t items = 0;  ///< images or tokens
  int64_t bytes = 0;  ///< of memory, while it is in use
};

/// Reads groups, and keeps some of them. Thread-safe.
class GroupReader {
 public:
  virtual ~GroupReader() = default;
  /// All of them; group k is the one at place k.
  virtual std::vector<SampleGroup> groups() const = 0;
  /// Whether a group is in memory.
  virtual bool holds(size_t group) const = 0;
  /// Sees to it that it is, or will be, as another thread reads it already. Throws what reading it does, but no BadDataError:
  /// that belongs to whoever asks for a sample.
  virtual void load(size_t group) const = 0;
};

/// How groups are mixed.
struct GroupOrderOptions {
  uint64_t seed = 0;                          ///< of all orders
  int64_t window_bytes = int64_t{128} << 20;  ///< of the groups of a window, which has one at least
};

/// The groups in the order of one epoch, one after another: the epoch's items.
class GroupEpoch {
 public:
  /// Of groups that have items, one at least: see GroupOrder.
  GroupEpoch(const std::vector<SampleGroup>& groups, const GroupOrderOptions& options, int64_t epoch);

  /// A group, and a place in it.
  struct Place {
    size_t turn = 0;     ///< how many groups come before it
    int64_t offset = 0;  ///< items of it before the place
  };
  /// Where an item of the epoch is.
  Place place(int64_t item) const;
  /// The group whose turn it is.
  size_t group(size_t turn) const { return order_[turn]; }

  /// How an epoch's items are cut into samples.
  struct Cut {
    int64_t samples = 0;  ///< of the epoch
    int64_t unit = 1;     ///< items a sample
    int64_t shift = 0;    ///< items before the first
  };
  /// The samples of a window, those that begin in its groups: of the window that a sample is in.
  SampleRange window(int64_t sample, const Cut& cut) const;
  /// The sample that comes at a position: one of the same window. Each comes once.
  int64_t sample(int64_t position, const Cut& cut) const;

  /// Reads groups of the next window, which may be the first one of `next`, evenly over the window that `item` is in, so that
  /// nothing is waited for when it begins. Only where all of this window is in memory: else nobody goes through it in order;
  /// and not beside a group that is larger than a window may be, where both would not stay. Errors are left to who asks for a
  /// sample.
  void read_ahead(int64_t item, const GroupReader& reader, const GroupEpoch& next) const;

 private:
  size_t window_of(int64_t item) const;
  int64_t begin_of(size_t window) const { return starts_[windows_[window]]; }

  uint64_t seed_;
  int64_t epoch_;
  std::vector<size_t> order_;    ///< groups
  std::vector<int64_t> starts_;  ///< items before each of these, and before the end
  std::vector<size_t> windows_;  ///< the turn that each window begins with, and the end
  std::vector<int64_t> bytes_;   ///< of each window
  int64_t window_bytes_;         ///< GroupOrderOptions::window_bytes
};

/// The orders of all epochs. Thread-safe.
class GroupOrder {
 public:
  /// Throws InputError when there are no groups, or one has no items.
  GroupOrder(std::vector<SampleGroup> groups, const GroupOrderOptions& options);
  /// Made once for the epochs that are asked for in turn: 16 bytes of memory a group.
  std::shared_ptr<const GroupEpoch> epoch(int64_t epoch) const;
  /// Of all groups.
  int64_t items() const { return items_; }

 private:
  std::vector<SampleGroup> groups_;
  GroupOrderOptions options_;
  int64_t items_ = 0;
  mutable std::mutex mutex_;
  mutable std::list<std::pair<int64_t, std::shared_ptr<const GroupEpoch>>> made_;  ///< of few epochs, the one made last first
};

}  // namespace weft
