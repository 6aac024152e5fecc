// Order: who has waited for whom. Actors are the host, number 0, and streams. One lock guards it and all allocations' accesses:
// the checks need one order of all launches.
#pragma once

#include <c10/core/Stream.h>

#include <mutex>
#include <string>
#include <vector>

#include "weft/checked_device/accesses.h"
#include "weft/checked_device/checked_device.h"
#include "weft/checked_device/clock.h"

namespace weft::checked_device {

constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;
constexpr int kHost = 0;

std::recursive_mutex& order_mutex();

int actor_of(const c10::Stream& stream);
std::string actor_name(int actor);
const Clock& clock_of(int actor);  ///< under order_mutex()
Clock clock_now(int actor);
Clock clock_of_device(int device);  ///< of all its streams

/// Starts work called `what` on a stream: after all that the stream has waited for and the host has done.
Access begin_launch(int actor, const char* what);

/// `later` waits for what `earlier` has been given so far.
void join(int later, const Clock& earlier);

/// The host has waited for these; `what` asked for it.
void join_host(const Clock& clock, const char* what);

/// Called after each wait of the host, under order_mutex().
void set_after_host_waits(void (*action)());

/// "aten::add (launch 12 on stream 1 of device 0, in step 3)"
std::string text(const Access& access);

/// Notes that something is wrong; throws it where that is asked for and possible.
void violate(const std::string& text, bool may_throw);

/// The calling thread's current device and stream.
int current_device();
void set_current_device(int device);
void switch_device(int device);  ///< the same, asked for by the code under test
c10::Stream current_stream(int device);
c10::Stream exchange_stream(const c10::Stream& stream);
c10::Stream new_stream(int device);
int num_devices();

/// The calling thread's label and own device; -1: none.
const std::string& label();
int own_device();

/// Name of the operator that the calling thread runs, for allocations made in it.
const char* running_operator();

class RunningOperator {
 public:
  explicit RunningOperator(const char* name);
  ~RunningOperator();
  RunningOperator(const RunningOperator&) = delete;
  RunningOperator& operator=(const RunningOperator&) = delete;

 private:
  const char* outer_;
};

/// Counts one of these; returns whether drop_orderings() has chosen it. Under order_mutex().
bool is_dropped(Ordering kind, int device);

/// The counts under the calling thread's label. Under order_mutex().
Counts& counts_here();
/// Whether what the calling thread gives devices is counted; returns what held before.
bool exchange_counted(bool counted);

}  // namespace weft::checked_device
