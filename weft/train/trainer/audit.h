// Audit: checks every so many steps of a trainer that no bit has flipped (docs/stopped.md).
//
// In an audited step: what a rank owns is digested before the step, and again before its update changes it; what collectives
// deliver is checked (comm/audit/call_audit.h); after the step, copies are compared over all ranks (replicas.h). It changes no
// bit of training. Cost of an audited step: three reads of the state, each sum once more, a small collective.
#pragma once

#include <memory>
#include <utility>

#include "weft/comm/audit/call_audit.h"
#include "weft/train/trainer/audit_report.h"

namespace weft {

/// Audits of a trainer's steps (state_audit.h).
class Audit {
 public:
  explicit Audit(std::shared_ptr<CallAudit> calls) : calls_(std::move(calls)) {}
  virtual ~Audit() = default;
  Audit(const Audit&) = delete;
  Audit& operator=(const Audit&) = delete;

  virtual void begin() = 0;  ///< before the step
  /// Before the updater changes state of the block, or of all blocks (-1).
  virtual void before_change(int block) = 0;
  void after_step() { calls_->end(); }
  virtual void end() = 0;     ///< after the step; collective over the world
  virtual void cancel() = 0;  ///< the step has failed, and is repeated without an audit
  /// Of the last audited step; null before the first.
  const AuditReport* last() const { return report_.step > 0 ? &report_ : nullptr; }
  const std::shared_ptr<CallAudit>& calls() const { return calls_; }

 protected:
  std::shared_ptr<CallAudit> calls_;
  AuditReport report_;
};

}  // namespace weft
