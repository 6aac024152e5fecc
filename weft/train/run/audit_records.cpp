// What audits find, in a run's records.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "weft/train/run/run_records.h"

namespace weft {
namespace {

/// What to do about it.
std::string advice(const AuditFinding& finding, int64_t clean_step) {
  if (finding.is_harmless) return "test the memory of these ranks' hosts, and their links";
  const std::string from = clean_step > 0 ? fmt::format("a checkpoint of step {} or before (the last clean audit)", clean_step)
                                          : "an earlier checkpoint (no audit of this process was clean before)";
  const char* what = finding.ranks.size() == 1 ? "test the memory of that rank's host"
                                               : "test the memory of these ranks' hosts, and their links";
  return fmt::format("resume from {}, and {}", from, what);
}

}  // namespace

void RunRecords::take(const AuditReport& report) {
  audit_step_ = report.step;
  clean_step_ = report.last_clean;
  for (const AuditFinding& finding : report.findings) {
    const std::string text = fmt::format("audit of step {}: {}; {}", report.step, finding.text, advice(finding, clean_step_));
    const bool ends = recipe_.run.stop_on == "audit" || recipe_.run.stop_on == "any";
    const bool is_new =
        audited_.insert(fmt::format("{} {} {}", name(finding.kind), finding.tensor, fmt::join(finding.ranks, " "))).second;
    if (!is_new) continue;  // copies differ until the run is resumed
    event("warning", text, report.step,
          {{"kind", "audit"},
           {"found_by", name(finding.kind)},
           {"tensor", finding.tensor},
           {"ranks", fmt::format("{}", fmt::join(finding.ranks, " "))},
           {"sure", finding.is_sure ? "yes" : "no"},
           {"last_clean_audit", std::to_string(clean_step_)}});
    note("warning: " + text);
    if (ends && stops_.empty()) {
      stops_ = fmt::format("{}; run.stop_on = \"{}\" ends the run", text, recipe_.run.stop_on);
    }
  }
}

}  // namespace weft
