// RunRecords: a run as its sinks see it (docs/records.md): on rank 0, makes the records of steps, evaluations and events and
// hands them over; on every rank, watches for what goes wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/last_words.h"
#include "weft/engine/memory_ledger.h"
#include "weft/plan/layout/plan.h"
#include "weft/recipe/recipe.h"
#include "weft/report/alarms/run_alarms.h"
#include "weft/report/records/recorder.h"
#include "weft/report/report.h"
#include "weft/train/run/run_lengths.h"
#include "weft/train/run/step_figures.h"
#include "weft/train/run/step_times.h"
#include "weft/train/run/train_options.h"
#include "weft/train/stopped/evidence.h"
#include "weft/train/trainer/audit_report.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// A step that is to be told of.
struct ToldStep {
  StepReport report;
  TakenStep taken;
  int64_t batch = 0;    ///< its samples
  RunClock clock = {};  ///< after it
};

class RunRecords {
 public:
  /// `options` must outlive it.
  RunRecords(const Recipe& recipe, const World& world, at::Device device, const TrainOptions& options);

  /// `options`, with callbacks that also make events.
  TrainOptions heard();
  /// Counts this rank's memory; null where nothing is recorded, and on a device, whose allocator counts.
  MemoryLedger* ledger() { return ledger_.get(); }
  /// Whether steps are to be traced for the times of their phases: on a CPU, where that takes no time.
  bool traces() const { return keeps_ && device_.is_cpu(); }

  /// Opens the sinks, on rank 0, before the trainer's next step. What cannot be opened is reported, and left out.
  void open(const Plan& plan, const RunLengths& lengths, const World& world, Trainer& trainer);
  /// After each step, on every rank.
  void add(const ToldStep& step, const StepFigures& figures, const StepTimes& times, const Trainer& trainer);
  /// After evaluations, the data's own set first, on every rank.
  void add(const std::vector<EvaluationReport>& evaluations);
  void add(const Record& record);  ///< nothing before open(), and on other ranks than 0
  /// Of this rank, the same on all: of what add() has not seen.
  void take(const std::vector<Alarm>& alarms);
  /// Has what was recorded so far written at once, without waiting: before a save, so that a process that is killed after it
  /// has the records of its steps.
  void flush();
  /// What a step that is not finite may come from, on every rank; empty: the losses do not tell.
  std::string rise() const { return alarms_.rise(); }
  /// Writes where the ranks stand if they hang, to the run's folder.
  const std::shared_ptr<EvidenceWriter>& evidence() const { return evidence_; }
  /// Throws NumericError, on all ranks, if what they show ends the run (run.stop_on); after its last step, only for audits.
  void check(bool is_last) const;
  /// Runs it, and records how it ends; then waits some seconds for the sinks.
  FinalReport of(const std::function<FinalReport()>& run);

 private:
  using Details = std::vector<std::pair<std::string, std::string>>;

  void hung(const std::string& line);
  void event(std::string kind, const std::string& text, int64_t step, Details details = {});
  void note(const std::string& text);
  void open_sinks();
  Details start_details(const Plan& plan, const World& world) const;
  RecordValues values_of(const ToldStep& step, const StepFigures& figures, const StepTimes& times, const Trainer& trainer);
  void add_memory(RecordValues& values);
  void take(const AuditReport& report);
  void end(const FinalReport& report);
  void finish();
  void end_by_signal(const std::string& why);
  void record_early();
  void tell_failures();
  bool read_memory();

  const Recipe& recipe_;
  const TrainOptions& options_;
  at::Device device_;
  bool leads_, keeps_, is_open_ = false;
  std::unique_ptr<MemoryLedger> ledger_;
  std::vector<std::unique_ptr<Recorder>> recorders_;  ///< of files, and of the program; none before open()
  std::mutex mutex_;                                  ///< guards is_open_ and early_ for hung()
  std::vector<EventRecord> early_;                    ///< events before open()
  RunAlarms alarms_;
  std::string stops_;                        ///< why the run ends; empty: it does not
  std::set<std::string> audited_;            ///< what audits have found, without the step
  int64_t audit_step_ = 0, clean_step_ = 0;  ///< last audited, and without a finding
  RunLength log_every_;
  RunClock recorded_;                    ///< of the last step recorded
  int64_t steps_ = 0;                    ///< of the run
  std::atomic<int64_t> steps_done_ = 0;  ///< of the run
  double flops_per_sample_ = 0.0;        ///< of all ranks, without recompute
  double peak_flops_ = 0.0;              ///< of all ranks, by run.hardware, per second; 0: unknown
  double resident_s_ = 0.0;              ///< when resident_bytes_ was read
  double resident_bytes_ = 0.0;
  bool memory_is_new_ = false;  ///< no record has it yet
  std::shared_ptr<EvidenceWriter> evidence_;
  std::atomic<bool> is_ended_ = false;     ///< the records say how
  std::unique_ptr<LastWords> last_words_;  ///< null before open()
};

}  // namespace weft
