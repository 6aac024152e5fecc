// AuditReport: what an audited step showed (Trainer::last_audit()).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// How a difference was found: copies that differ, state that changed at rest, or a call that delivered other bits.
enum class AuditKind { replicas, memory, calls };
/// "replicas", "memory", "calls".
const char* name(AuditKind kind);

struct AuditFinding {
  AuditKind kind = AuditKind::replicas;
  std::string tensor = {};      ///< "model/h.0.weight", "exp_avg/h.0.weight", "buffer/0.counts"; "": unknown
  std::vector<int> ranks = {};  ///< of the world: those that may be wrong, the likeliest first
  bool is_sure = true;          ///< these are the wrong ones
  bool is_harmless = false;     ///< only what the audit repeats was wrong: the state of the run is right
  std::string text = {};        ///< one line
};

struct AuditReport {
  int64_t step = 0;                         ///< audited, counted from 1
  int64_t last_clean = 0;                   ///< the last audited step without a finding, at most `step`; 0: none
  std::vector<AuditFinding> findings = {};  ///< the same on every rank; empty: clean
};

}  // namespace weft
