#include "weft/checkpoint/storage/claim_lock.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "weft/base/storage_error.h"

namespace weft {
namespace {

constexpr const char* kClaim = ".weft.lock-";
constexpr int64_t kMostBytes = 4096;

std::string new_claim() {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}", kClaim, random(), random());
}

/// Returns the lock files' texts by name: all claims, and kLockFile if a holder wrote it.
std::map<std::string, LockText> lock_texts(Storage& storage) {
  std::map<std::string, LockText> found;
  for (const std::string& name : storage.list("")) {
    if (name != kLockFile && !name.starts_with(kClaim)) continue;
    try {
      const LockText text = parse_lock_text(storage.read_text(name, kMostBytes));
      if (name != kLockFile || (text.holds && !text.system.empty())) found[name] = text;  // an empty lock file: no holder
    } catch (const DamageError&) {
      // Removed meanwhile.
    }
  }
  return found;
}

/// Returns the claims, except `own`, that are not known to have ended. Removes those that have.
std::map<std::string, LockText> living(Storage& storage, LockWatch& watch, std::map<std::string, LockText> found,
                                       const std::string& own) {
  found.erase(own);
  std::erase_if(found, [&](const auto& claim) {
    if (watch.judge(claim.first, claim.second) != HolderLife::ended) return false;
    if (claim.first != kLockFile) storage.remove(claim.first);
    return true;
  });
  return found;
}

/// True if another process holds the lock. Throws HeldError after waiting long enough for that holder.
bool is_held(const Storage& storage, LockWatch& watch, const std::map<std::string, LockText>& others) {
  bool found = false;
  for (const auto& [name, claim] : others) {
    if (!claim.holds) continue;
    found = true;
    watch.wait_for(storage.name(), claim, watch.judge(name, claim));
  }
  return found;
}

}  // namespace

void wait_for_claims(Storage& storage, const LockOptions& options) {
  LockWatch watch(options);
  while (true) {
    const std::map<std::string, LockText> there = living(storage, watch, lock_texts(storage), kLockFile);
    if (there.empty()) return;
    is_held(storage, watch, there);
    watch.pause(storage.name(), there.begin()->second);
  }
}

ClaimLock::ClaimLock(std::unique_ptr<Storage> storage, const LockOptions& options)
    : storage_(std::move(storage)), options_(options), text_(own_lock_text(options.owner)) {
  take();
  options_.on_wait = {};
  heart_.emplace(options.refresh, [this] { beat(); });
}

ClaimLock::~ClaimLock() {
  heart_.reset();
  withdraw();
}

void ClaimLock::write() {
  written_ = Clock::now();
  ++text_.beats;
  storage_->write_text(name_, lock_file_text(text_));
}

void ClaimLock::withdraw() noexcept {
  try {
    storage_->remove(name_);
  } catch (const std::exception&) {
    // The claim becomes stale.
  }
}

void ClaimLock::take() {
  name_ = new_claim();
  text_.holds = false;
  LockWatch watch(options_);
  try {
    while (!text_.holds) {
      const std::map<std::string, LockText> all = lock_texts(*storage_);
      const bool is_claimed = all.count(name_) > 0;
      const std::map<std::string, LockText> there = living(*storage_, watch, all, name_);
      if (there.empty()) {
        claim(is_claimed);
        continue;
      }
      const bool is_second = is_held(*storage_, watch, there) || there.begin()->first < name_;
      if (is_claimed && is_second) withdraw();
      watch.pause(storage_->name(), there.begin()->second);
    }
    is_lost_ = false;
  } catch (const std::exception&) {
    withdraw();
    throw;
  }
}

/// Claims the lock or, if already claimed, takes it; nobody else may claim it. Withdraws if this process paused too long before
/// it wrote the claim, because others may have considered it dead.
void ClaimLock::claim(bool is_claimed) {
  const Clock::time_point asked = written_;
  text_.holds = is_claimed;
  write();
  if (!is_claimed || Clock::now() - asked <= options_.stale / 2) return;
  text_.holds = false;
  withdraw();
}

void ClaimLock::beat() noexcept {
  const std::lock_guard lock(mutex_);
  if (is_lost_) return;
  try {
    // Others may have considered this process dead and removed its claim.
    const Clock::time_point last = written_;
    is_lost_ = Clock::now() - last > options_.stale / 2 || !storage_->has(name_);
    if (is_lost_) return;
    write();
    is_lost_ = Clock::now() - last > options_.stale;  // the write may have followed the claim's removal
  } catch (const std::exception&) {
    // If the storage is gone, the next save reports it.
  }
}

bool ClaimLock::keep() {
  const std::lock_guard lock(mutex_);
  if (!is_lost_ && Clock::now() - written_ <= options_.stale / 2 && storage_->has(name_)) return false;
  withdraw();
  take();
  return true;
}

}  // namespace weft
