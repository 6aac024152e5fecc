#include "weft/checked_device/movements.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "weft/checked_device/order.h"
#include "weft/checked_device/recorder.h"

namespace weft::checked_device {

namespace {

struct Movement {
  int actor;
  uint64_t time;
  std::shared_future<void> done;
};

std::vector<Movement>& movements() {
  static auto& all = *new std::vector<Movement>;
  return all;
}

bool is_ready(const std::shared_future<void>& done) {
  return done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

void add_movement(int actor, uint64_t time, std::shared_future<void> done) {
  std::vector<Movement>& all = movements();
  all.erase(std::remove_if(all.begin(), all.end(), [](const Movement& m) { return is_ready(m.done); }), all.end());
  all.push_back({actor, time, std::move(done)});
}

void wait_on_host(const Clock& clock, int device, const char* what) {
  if (Recorder* recorder = records() ? recorder_on(device) : nullptr) {
    const std::lock_guard lock(order_mutex());
    if (recorder->is_graph()) recorder->refuse(std::string("the host waits: ") + what);
    recorder->add(std::string("the host waits: ") + what);
  }
  std::vector<std::shared_future<void>> awaited;
  {
    const std::lock_guard lock(order_mutex());
    for (const Movement& m : movements()) {
      if (m.time <= clock.of(static_cast<size_t>(m.actor))) awaited.push_back(m.done);
    }
  }
  for (const auto& done : awaited) done.wait();
  const std::lock_guard lock(order_mutex());
  join_host(clock, what);
}

bool is_moved(const Clock& clock) {
  const std::lock_guard lock(order_mutex());
  const std::vector<Movement>& all = movements();
  return std::all_of(all.begin(), all.end(),
                     [&](const Movement& m) { return m.time > clock.of(static_cast<size_t>(m.actor)) || is_ready(m.done); });
}

}  // namespace weft::checked_device
