#include "weft/checked_device/nccl/watchdog.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace weft::checked_device {

namespace {

constexpr std::chrono::milliseconds kBeat(10);

std::atomic<bool> stalled = false;

int number_of(const char* variable, int without) {
  const char* text = std::getenv(variable);
  return text == nullptr ? without : std::atoi(text);
}

[[noreturn]] void end_process(const std::string& why) {
  std::fprintf(stderr, "checked device: %s; ends the process, as ProcessGroupNCCL does by default\n", why.c_str());
  std::abort();
}

}  // namespace

void stall_watchdogs(bool stall) { stalled = stall; }

Watchdog::Watchdog(std::chrono::milliseconds timeout, std::function<std::optional<Launched>()> oldest,
                   std::function<void()> abort)
    : timeout_(timeout),
      oldest_(std::move(oldest)),
      abort_(std::move(abort)),
      error_handling_(number_of("TORCH_NCCL_ASYNC_ERROR_HANDLING", 3)),
      heartbeat_timeout_(std::chrono::seconds(number_of("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", 480))),
      watch_([this] { watch(); }) {
  if (number_of("TORCH_NCCL_ENABLE_MONITORING", 1) != 0) monitor_ = std::thread([this] { monitor(); });
}

void Watchdog::stop() {
  stopped_ = true;
  if (watch_.joinable()) watch_.join();
  if (monitor_.joinable()) monitor_.join();
}

void Watchdog::watch() {
  for (; !stopped_; std::this_thread::sleep_for(kBeat)) {
    if (stalled) continue;
    ++beats_;
    const std::optional<Launched> launched = oldest_();
    if (!launched.has_value() || std::chrono::steady_clock::now() - launched->begin < timeout_) continue;
    if (error_handling_ == 0) continue;
    const std::string why =
        "the watchdog: " + text(launched->access) + " has not ended within " + std::to_string(timeout_.count()) + " ms";
    if (error_handling_ == 2) {
      stopped_ = true;
      abort_();
      return;
    }
    end_process(why);
  }
}

void Watchdog::monitor() {
  uint64_t beats = beats_;
  auto since = std::chrono::steady_clock::now();
  for (; !stopped_; std::this_thread::sleep_for(kBeat)) {
    const auto now = std::chrono::steady_clock::now();
    if (beats_ != beats) {
      beats = beats_;
      since = now;
    } else if (now - since > heartbeat_timeout_) {
      end_process("the monitor: the watchdog has not beaten for " + std::to_string(heartbeat_timeout_.count() / 1000) + " s");
    }
  }
}

}  // namespace weft::checked_device
