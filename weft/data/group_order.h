// Training order of data that is read in groups: row groups of Parquet files, blocks of JSON lines.
//
// A fully random order would read one group per sample. Instead, each epoch shuffles the groups, cuts them into windows of as
// many as fit into memory, and shuffles the samples of each window: CorgiPile (Xu et al. 2022, arXiv:2206.05830), which trains
// as well as a full shuffle if there are many groups. If everything fits into one window, it is a full shuffle. As in Sampler,
// the order is a function of (seed, epoch) and the position: there is no state from sample to sample.
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

/// Size of a group: the data that one read loads.
struct SampleGroup {
  int64_t items = 0;  ///< images or tokens
  int64_t bytes = 0;  ///< memory while in use
};

/// Reads groups and caches some of them. Thread-safe.
class GroupReader {
 public:
  virtual ~GroupReader() = default;
  /// All groups; group k is at index k.
  virtual std::vector<SampleGroup> groups() const = 0;
  /// True if the group is in memory.
  virtual bool holds(size_t group) const = 0;
  /// Loads the group, unless it is in memory or another thread is loading it. Throws what reading throws, except BadDataError:
  /// only the caller that requests the sample gets that.
  virtual void load(size_t group) const = 0;
};

/// Options for mixing groups.
struct GroupOrderOptions {
  uint64_t seed = 0;                          ///< for all orders
  int64_t window_bytes = int64_t{128} << 20;  ///< memory of a window's groups; a window has at least one
};

/// Order of the groups in one epoch; their items, concatenated, are the epoch's items.
class GroupEpoch {
 public:
  /// Orders `groups`: at least one, none empty (see GroupOrder).
  GroupEpoch(const std::vector<SampleGroup>& groups, const GroupOrderOptions& options, int64_t epoch);

  /// A group and an offset in it.
  struct Place {
    size_t turn = 0;     ///< number of groups before it
    int64_t offset = 0;  ///< items of the group before the place
  };
  /// Returns the place of an item of the epoch.
  Place place(int64_t item) const;
  /// Group at that turn.
  size_t group(size_t turn) const { return order_[turn]; }

  /// Division of an epoch's items into samples.
  struct Cut {
    int64_t samples = 0;  ///< samples in the epoch
    int64_t unit = 1;     ///< items per sample
    int64_t shift = 0;    ///< items before the first sample
  };
  /// Samples of the window that contains `sample`: those that begin in the window's groups.
  SampleRange window(int64_t sample, const Cut& cut) const;
  /// Sample at a position, taken from the window there. Each sample occurs exactly once per epoch.
  int64_t sample(int64_t position, const Cut& cut) const;

  /// Loads groups of the next window, which may be the first of the epoch `next`, spread evenly over the window of `item`, so
  /// that no reader waits when the next window begins. Skips this unless all of the current window is in memory (otherwise it
  /// is not being read in order), and if a group is larger than a window (both would not fit). Leaves errors to the caller that
  /// requests the sample.
  void read_ahead(int64_t item, const GroupReader& reader, const GroupEpoch& next) const;

 private:
  size_t window_of(int64_t item) const;
  int64_t begin_of(size_t window) const { return starts_[windows_[window]]; }

  uint64_t seed_;
  int64_t epoch_;
  std::vector<size_t> order_;    ///< groups
  std::vector<int64_t> starts_;  ///< items before each group in order_, and the total
  std::vector<size_t> windows_;  ///< first turn of each window, and the end
  std::vector<int64_t> bytes_;   ///< per window
  int64_t window_bytes_;         ///< GroupOrderOptions::window_bytes
};

/// Orders of all epochs. Thread-safe.
class GroupOrder {
 public:
  /// Throws InputError if there are no groups or a group has no items.
  GroupOrder(std::vector<SampleGroup> groups, const GroupOrderOptions& options);
  /// Returns an epoch's order, cached while epochs are requested in turn: 16 bytes of memory per group.
  std::shared_ptr<const GroupEpoch> epoch(int64_t epoch) const;
  /// Total of all groups.
  int64_t items() const { return items_; }

 private:
  std::vector<SampleGroup> groups_;
  GroupOrderOptions options_;
  int64_t items_ = 0;
  mutable std::mutex mutex_;
  mutable std::list<std::pair<int64_t, std::shared_ptr<const GroupEpoch>>> made_;  ///< a few epochs, the newest first
};

}  // namespace weft
