// Attempts: calls that change an object step by step, all refused after one has failed.
//
// The state after a failed call (half-updated weights, state that was reloaded and not put back, a loader one micro-batch
// ahead) looks valid to the next call. So that call is refused.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "weft/train/stopped/evidence.h"

namespace weft {

/// Runs calls until one fails.
class Attempts {
 public:
  /// `evidence`: explains errors of waits; null: nothing does.
  explicit Attempts(std::shared_ptr<EvidenceWriter> evidence = nullptr) : evidence_(std::move(evidence)) {}

  /// Returns call(), which `what` names in errors ("step 3"). Throws a one-line Error if an earlier call has failed.
  template <class Call>
  auto run(const std::string& what, const Call& call) {
    check();
    const EvidenceWriter::Activity activity(evidence_.get(), what);
    try {
      return evidence_ ? evidence_->explain(call) : call();
    } catch (const std::exception& error) {
      fail(what, error.what());
      throw;
    } catch (...) {
      fail(what, "an exception of another kind");
      throw;
    }
  }

  bool failed() const { return failed_; }  ///< a call has failed

 private:
  void check() const;
  /// Records the first failure; works even without memory for its text.
  void fail(const std::string& what, const char* why) noexcept;

  std::shared_ptr<EvidenceWriter> evidence_;
  bool failed_ = false;
  std::string failure_;
};

}  // namespace weft
