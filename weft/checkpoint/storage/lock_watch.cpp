#include "weft/checkpoint/storage/lock_watch.h"

#include <fmt/format.h>

#include "weft/base/storage_error.h"

namespace weft {
namespace {

constexpr std::chrono::milliseconds kLookEvery{100};

[[noreturn]] void refuse_held(const std::string& folder, const LockText& holder) {
  throw HeldError(fmt::format("{}: another run saves its checkpoints there: {}; wait until it ends, or name another folder",
                              folder, holder.owner));
}

}  // namespace

Heartbeat::Heartbeat(std::chrono::milliseconds every, std::function<void()> beat)
    : thread_([this, every, beat = std::move(beat)](const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, stop, every, [&stop] { return stop.stop_requested(); })) beat();
      }) {}

Heartbeat::~Heartbeat() {
  thread_.request_stop();
  thread_.join();
}

HolderLife LockWatch::judge(const std::string& file, const LockText& text) {
  const HolderLife by_process = life_of(text);
  if (by_process != HolderLife::unknown) return by_process;
  const auto now = Clock::now();
  const auto [entry, is_new] = seen_.try_emplace(file, Seen{.beats = text.beats, .since = now});
  Seen& seen = entry->second;
  if (seen.beats != text.beats) seen = {.beats = text.beats, .since = now, .has_moved = true};
  if (now - seen.since >= options_.stale) return HolderLife::ended;
  return seen.has_moved ? HolderLife::lives : HolderLife::unknown;
}

std::chrono::milliseconds LockWatch::waited() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_);
}

void LockWatch::pause(const std::string& folder, const LockText& holder) const {
  if (waited() > 3 * options_.stale) refuse_held(folder, holder);
  std::this_thread::sleep_for(kLookEvery);
}

void LockWatch::wait_for(const std::string& folder, const LockText& holder, HolderLife life) {
  if (life == HolderLife::lives && waited() >= options_.patience) refuse_held(folder, holder);
  if (has_reported_ || !options_.on_wait) return;
  has_reported_ = true;
  const auto in_s = [](auto time) { return std::chrono::duration_cast<std::chrono::seconds>(time).count(); };
  options_.on_wait(life == HolderLife::lives
                       ? fmt::format("{} is held by {}, which is alive: waiting {} s for it to end", folder, holder.owner,
                                     in_s(options_.patience))
                       : fmt::format("{} is held by {}, which may have ended: waiting until it has been silent for {} s",
                                     folder, holder.owner, in_s(options_.stale)));
}

}  // namespace weft
