// MemoryLedger: bytes of tensors a rank holds, by category (program/memory.h), as the allocator sees them. Its figures can be
// compared with the prediction of weft memory.
//
// A thread's allocations are counted while it has a ledger (MemoryLedger::Attached). An allocation belongs to the category of
// the innermost MemoryScope and is subtracted when freed. Buffers from outside the allocator (shared memory) are added by hand.
// Cost: some 100 ns per allocation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "weft/program/memory.h"

namespace weft {

/// Counts bytes of tensors by category. Thread-safe. Counted tensors may outlive it.
class MemoryLedger {
 public:
  MemoryLedger();
  ~MemoryLedger();

  /// Counts memory from outside the allocator; negative bytes subtract it again.
  void add(MemoryCategory category, int64_t bytes);
  /// Bytes held now.
  CategoryBytes live() const;
  /// Peak bytes of each category; the peaks need not coincide.
  CategoryBytes peak() const;
  /// Peak bytes of all categories together.
  int64_t peak_total() const;
  /// Resets the peaks to the live bytes.
  void reset_peaks();

  /// Counts this thread's allocations during its lifetime.
  class Attached {
   public:
    /// Counts in `ledger`; null: nowhere. The previous ledger resumes on destruction.
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

/// Assigns this thread's allocations to a category during its lifetime.
class MemoryScope {
 public:
  /// Replaces the enclosing scope. Outside any scope, allocations are activations.
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

  /// Returns, once, the category of the innermost scope when the error now being handled was thrown.
  static std::optional<MemoryCategory> take_failed();

 private:
  MemoryCategory before_;
  int exceptions_;
};

}  // namespace weft
