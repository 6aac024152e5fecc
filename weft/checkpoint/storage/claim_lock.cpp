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

/// What files of locks say, by name: all claims, and kLockFile, of which a holder alone counts.
std::map<std::string, LockText> lock_texts(Storage& storage) {
  std::map<std::string, LockText> found;
  for (const std::string& name : storage.list("")) {
    if (name != kLockFile && !name.starts_with(kClaim)) continue;
    try {
      const LockText text = parse_lock_text(storage.read_text(name, kMostBytes));
      if (name != kLockFile || (text.holds && !text.system.empty())) found[name] = text;  // it is empty where none is had
    } catch (const DamageError&) {
      // It has gone since.
    }
  }
  return found;
}

/// Of those but `own`, those that are not known to have ended. Claims that are go.
std::map<std::string, LockText> living(Storage& storage, LockWatch& watch, std::map<std::string, LockText> found,
                                       const std::string& own) {
  found.erase(own);
  std::erase_if(found, [&](const auto& claim) {
    if (watch.look(claim.first, claim.second) != HolderLife::ended) return false;
    if (claim.first != kLockFile) storage.remove(claim.first);
    return true;
  });
  return found;
}

/// Whether one of others holds it. Throws HeldError where that one has been waited for long enough.
bool is_held(const Storage& storage, LockWatch& watch, const std::map<std::string, LockText>& others) {
  bool found = false;
  for (const auto& [name, claim] : others) {
    if (!claim.holds) continue;
    found = true;
    watch.wait_for(storage.name(), claim, watch.look(name, claim));
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
    watch.rest(storage.name(), there.begin()->second);
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
    // It becomes stale.
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
      watch.rest(storage_->name(), there.begin()->second);
    }
    is_lost_ = false;
  } catch (const std::exception&) {
    withdraw();
    throw;
  }
}

/// Nobody else does: asks for it, or, having asked, holds it. Not where this process stood still before it wrote that: others
/// may have taken it for dead.
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
    // Others may have taken it for dead, and its claim for gone.
    const Clock::time_point last = written_;
    is_lost_ = Clock::now() - last > options_.stale / 2 || !storage_->has(name_);
    if (is_lost_) return;
    write();
    is_lost_ = Clock::now() - last > options_.stale;  // it may have come after the claim was removed
  } catch (const std::exception&) {
    // Saving tells of a store that is gone.
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
