// Recorder: what a device is given while a Recording (checked_device.h) is on, and how to give it again.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "weft/checked_device/checked_device.h"
#include "weft/checked_device/clock.h"
#include "weft/checked_device/memory.h"
#include "weft/checked_device/order.h"

namespace c10 {
struct IValue;
}

namespace weft::checked_device {

class Recorder {
 public:
  Recorder(int device, Recording::Rules rules);

  struct Entry {
    std::string text;
    c10::Stream stream;  ///< current on the device when it was given
    std::function<void()> again = {};
  };

  /// Keeps what the device is given on the current stream. Under order_mutex().
  void add(std::string text, std::function<void()> again = {});
  void add_on(const c10::Stream& stream, std::string text, std::function<void()> again);
  /// "Float [2, 3] new 4 + 0": memory made since the start is named by its order of use, other memory by its number.
  std::string text_of(const at::Tensor& tensor);
  std::string text_of(const c10::IValue& value);
  /// A stream waits for one that is recorded, or the other way round: the graph's rule. Under order_mutex().
  void note_wait(int later, bool earlier_is_recorded);
  bool has(int actor) const { return actors_.count(actor) > 0; }
  /// What breaks a graph's rules.
  void refuse(const std::string& what) const;
  /// No more entries; all streams of a graph must have been waited for.
  void end();

  const std::vector<Entry>& entries() const { return entries_; }
  c10::Stream origin() const { return origin_; }
  int device() const { return origin_.device_index(); }
  bool is_graph() const { return rules_ == Recording::Rules::graph; }

 private:
  Recording::Rules rules_;
  c10::Stream origin_;
  std::set<int> actors_;  ///< streams of the graph
  uint64_t first_new_;
  std::map<const Allocation*, size_t> made_;
  std::vector<Entry> entries_;
};

/// That of a device; null: nothing is recorded.
Recorder* recorder_on(int device);
/// Whether any device records.
bool records();

/// An event on a stream of a graph that is recorded: where its clock is kept in each replay. Null on other streams. Under
/// order_mutex().
std::shared_ptr<Clock> record_event(const c10::Stream& stream);
/// A stream waits for an event; `in_graph`: what record_event() returned for it. Under order_mutex().
void record_wait(const c10::Stream& stream, const std::shared_ptr<Clock>& in_graph);

/// The same tensors with places of their own for sizes and strides, which operators may change.
c10::IValue alias_of(const c10::IValue& value);

/// Copies what an operator has returned again to where it was returned first.
void put_back(const c10::IValue& recorded, const c10::IValue& now, int actor, const char* what);

/// Until the end of its scope, what this thread gives devices is not counted.
class Uncounted {
 public:
  Uncounted() : before_(exchange_counted(false)) {}
  ~Uncounted() { exchange_counted(before_); }
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  bool before_;
};

}  // namespace weft::checked_device
