// MemoryLedger: bytes of tensors a rank holds, by category (program/memory.h), as the allocator sees them. What weft memory
// predicts is compared with it.
//
// A thread counts while it has a ledger (MemoryLedger::Attached); what it allocates belongs to the category of the innermost
// MemoryScope, and is taken off again where it is freed. Buffers that are not the allocator's (shared memory) are added by
// hand. Counting costs some 100 ns an allocation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "weft/program/memory.h"

namespace weft {

/// Counts bytes of tensors by category. Thread-safe. What it has counted may outlive it.
class MemoryLedger {
 public:
  MemoryLedger();
  ~MemoryLedger();

  /// Counts memory that is not the allocator's; negative bytes take it off again.
  void add(MemoryCategory category, int64_t bytes);
  /// Bytes held now.
  CategoryBytes live() const;
  /// Most bytes held at a time in each category, which need not be the same time.
  CategoryBytes peak() const;
  /// Most bytes held at a time in all categories together.
  int64_t peak_total() const;
  /// Lets peaks start anew from what is live.
  void reset_peaks();

  /// This thread's allocations are counted while it lives.
  class Attached {
   public:
    /// Counts in `ledger`; null: nowhere. What counted before does so again afterwards.
    explicit Attached(MemoryLedger* ledger);
    ~Attached();
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;

   private:
    std::shared_ptr<void> before_;
  };

  struct Counts;

 private:
  std::shared_ptr<Counts> counts_;
};

/// While it lives, what this thread allocates belongs to a category.
class MemoryScope {
 public:
  /// Takes the place of the scope around it. Without any, allocations are activations.
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

  /// The innermost category that was open when the error that is being handled was thrown, once.
  static std::optional<MemoryCategory> take_failed();

 private:
  MemoryCategory before_;
  int exceptions_;
};

}  // namespace weft
