#include "weft/train/run/run_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/shipped_files.h"
#include "weft/base/units.h"
#include "weft/comm/world_hosts.h"
#include "weft/engine/device_memory.h"
#include "weft/program/memory.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/read/recipe_paths.h"
#include "weft/recipe/read/recipe_values.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/report/progress.h"
#include "weft/report/records/record_files.h"
#include "weft/report/records/record_text.h"
#include "weft/train/run/model_flops.h"
#include "weft/train/run/record_sinks.h"
#include "weft/train/run/step_evidence.h"

namespace weft {
namespace {

constexpr std::chrono::seconds kToFinish{10};
constexpr std::chrono::seconds kAfterSignal{1};
constexpr double kResidentEvery_s = 1.0;

/// Accuracy of guessing.
std::optional<double> chance_of(const Recipe& recipe) {
  const ModelRecipe& model = recipe.model;
  if (reads_tokens(model) || reads_arrays(model) || !has_classes(model) || model.classes < 2) return std::nullopt;
  return 1.0 / static_cast<double>(recipe.model.classes);
}

}  // namespace

RunRecords::RunRecords(const Recipe& recipe, const World& world, at::Device device, const TrainOptions& options)
    : recipe_(recipe),
      options_(options),
      device_(device),
      leads_(world.rank() == 0),
      keeps_(leads_ && (!records_place(recipe).empty() || !options.sinks.empty())),
      ledger_(keeps_ && device.is_cpu() ? std::make_unique<MemoryLedger>() : nullptr),
      alarms_(chance_of(recipe)),
      evidence_(std::make_shared<EvidenceWriter>(world, records_folder(recipe), /*keeps_old=*/true)) {
  evidence_->on_summary([this](const std::string& line) { hung(line); });
}

TrainOptions RunRecords::heard() {
  TrainOptions told = options_;
  if (!keeps_) return told;
  told.on_save = [this](const SaveReport& report) {
    event("save", save_line(report), report.step,
          {{"path", report.path}, {"bytes", std::to_string(report.bytes)}, {"seconds", fmt::format("{:.3f}", report.seconds)}});
    if (options_.on_save) options_.on_save(report);
  };
  told.on_note = [this](const std::string& text) {
    event("note", text, steps_done_);
    note(text);
  };
  return told;
}

void RunRecords::note(const std::string& text) {
  if (leads_ && options_.on_note) options_.on_note(text);
}

void RunRecords::event(std::string kind, const std::string& text, int64_t step, Details details) {
  if (!keeps_) return;
  EventRecord record{
      .kind = std::move(kind), .step = step, .time_s = unix_time_s(), .text = printable(text), .details = std::move(details)};
  const std::lock_guard lock(mutex_);
  is_open_ ? add(record) : early_.push_back(std::move(record));
}

/// In the evidence's thread.
void RunRecords::hung(const std::string& line) {
  event("warning", line, std::max<int64_t>(evidence_->current()->steps_begun() - 1, 0), {{"kind", "hang"}});
  const std::lock_guard lock(mutex_);
  if (is_open_) flush();
}

void RunRecords::add(const Record& record) {
  for (const auto& recorder : recorders_) recorder->add(record);
}
void RunRecords::flush() {
  for (const auto& recorder : recorders_) recorder->flush_soon();
}

void RunRecords::tell_failures() {
  for (const auto& recorder : recorders_) {
    for (const std::string& failure : recorder->take_failures()) note(failure);
  }
}

void RunRecords::open_sinks() {
  std::vector<std::unique_ptr<RecordSink>> own,
      files = record_sinks(recipe_, steps_done_, [this](const std::string&text) { note(text); });
  if (!files.empty()) evidence_->put_old_away();
  const std::lock_guard lock(mutex_);
  for (const auto& take : options_.sinks) own.push_back(std::make_unique<FunctionSink>(take));
  if (!files.empty()) recorders_.push_back(std::make_unique<Recorder>(std::move(files)));
  if (!own.empty()) recorders_.push_back(std::make_unique<Recorder>(std::move(own)));  // one that hangs holds up no file
  is_open_ = true;
}

void RunRecords::open(const Plan& plan, const RunLengths& lengths, const World& world, Trainer& trainer) {
  steps_done_ = trainer.steps_done();
  log_every_ = lengths.log_every;
  steps_ = lengths.steps;
  if (!keeps_) return;
  open_sinks();
  trainer.trace(traces());
  flops_per_sample_ = model_flops(*plan.program, plan.layout.pp) / static_cast<double>(plan.layout.global_batch);
  if (!recipe_.run.hardware.empty()) {
    const Hardware hardware = load_hardware(shipped_or_own("hardware", recipe_.run.hardware));
    peak_flops_ = hardware.peak_flops(plan.program->weight_bytes) * world.size();
  }
  const std::string since = steps_done_ > 0 ? fmt::format(", from step {}", steps_done_) : "";
  event("start", fmt::format("{} on {}{}", recipe_.model.name, counted(world.size(), "rank"), since), steps_done_,
        start_details(plan, world));
  std::vector<EventRecord> early;
  {
    const std::lock_guard lock(mutex_);
    early.swap(early_);
  }
  for (const EventRecord& record : early) add(record);
  flush();  // a run that fails at once has begun
  last_words_ = std::make_unique<LastWords>([this](const std::string& why) { end_by_signal(why); });
}

/// The run, as far as it is known before its steps.
RunRecords::Details RunRecords::start_details(const Plan& plan, const World& world) const {
  Details details = {
      {"records", std::to_string(kRecordVersion)}, {"name", run_name(recipe_)},       {"recipe", recipe_.path},
      {"ranks", std::to_string(world.size())},     {"steps", std::to_string(steps_)}, {"version.libtorch", TORCH_VERSION}};
  std::vector<std::string> hosts = hosts_of(world);
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  details.emplace_back("hosts", fmt::format("{}", fmt::join(hosts, " ")));
  const ResolvedLayout& layout = plan.layout;
  const std::pair<const char*, int64_t> sizes[] = {{"pp", layout.pp},
                                                   {"dp", layout.dp},
                                                   {"shard", layout.shard},
                                                   {"cp", layout.cp},
                                                   {"tp", layout.tp},
                                                   {"batch", layout.global_batch},
                                                   {"micro_batch", layout.micro_batch}};
  for (const auto& [name, size] : sizes) details.emplace_back(fmt::format("layout.{}", name), std::to_string(size));
  for (const auto& [key, value] : recipe_values(recipe_)) details.emplace_back("recipe." + key, value);
  return details;
}

RecordValues RunRecords::values_of(const ToldStep& step, const StepFigures& figures, const StepTimes& times,
                                   const Trainer& trainer) {
  const StepResult& result = step.taken.result;
  RecordValues values;
  values.reserve(32);
  const auto add = [&](std::string name, double value) { values.push_back({std::move(name), value}); };
  add("loss", result.loss);
  add("lr", step.taken.rate);
  if (result.norm > 0.0) add("grad_norm", result.norm);
  if (recipe_.optimizer.clip > 0.0) add("clipped", result.norm > recipe_.optimizer.clip ? 1.0 : 0.0);
  if (recipe_.layout.precision == "fp16") {
    add("skipped", result.skipped ? 1.0 : 0.0);
    add("loss_scale", trainer.loss_scale().scale);
  }
  if (const auto noise = figures.noise.estimate(); noise && noise->batch) add("critical_batch", *noise->batch);
  if (audit_step_ > 0) add("audit/clean_step", static_cast<double>(clean_step_));
  add("epoch", step.clock.epochs);
  add("samples", step.clock.samples);
  if (step.clock.tokens > 0.0) add("tokens", step.clock.tokens);
  add("seconds", step.clock.seconds);
  add("samples_per_s", step.report.samples_per_s);
  if (step.report.tokens_per_s > 0.0) add("tokens_per_s", step.report.tokens_per_s);
  const double flops_per_s = flops_per_sample_ * static_cast<double>(step.batch) / std::max(step.taken.seconds, 1e-9);
  if (flops_per_s > 0.0) add("flops_per_s", flops_per_s);
  if (flops_per_s > 0.0 && peak_flops_ > 0.0) add("mfu", flops_per_s / peak_flops_);
  add("time/step", step.taken.seconds);
  add("time/data", times.last().data_s);
  const PhaseTimes phases = trainer.phase_times();
  if (phases.forward_s + phases.backward_s + phases.update_s > 0.0) {
    add("time/forward", phases.forward_s);
    add("time/backward", phases.backward_s);
    add("time/update", phases.update_s);
  }
  for (const auto& [axis, seconds] : times.last().communication_s) add("communication/" + axis, seconds);
  if (const auto& slowest = times.slowest()) {
    add("ranks/slowest", slowest->rank);
    add("ranks/slowest_times", slowest->times);
  }
  add_memory(values);
  return values;
}

/// Peaks by category since the last record; about once a second, what the process holds.
void RunRecords::add_memory(RecordValues& values) {
  const CategoryBytes peaks = ledger_ ? ledger_->peak() : CategoryBytes();
  if (ledger_) ledger_->reset_peaks();
  for (size_t i = 0; i < peaks.size(); ++i) {
    if (peaks[i] == 0) continue;
    values.push_back({record_name(static_cast<MemoryCategory>(i)), static_cast<double>(peaks[i])});
  }
  if (!std::exchange(memory_is_new_, false)) return;
  values.push_back({"memory/resident", resident_bytes_});
  if (const auto device = device_memory(device_)) values.push_back({"memory/device", static_cast<double>(device->allocated)});
}

void RunRecords::add(const ToldStep& step, const StepFigures& figures, const StepTimes& times, const Trainer& trainer) {
  steps_done_ = step.report.step;
  if (const AuditReport* audit = trainer.last_audit(); audit && audit->step > audit_step_) take(*audit);
  const bool is_read = read_memory();
  if (!recorders_.empty()) {
    const bool is_first = recorded_.steps == 0.0, is_last = step.report.step == step.report.steps;
    if (is_first || is_last || log_every_.passed(recorded_, step.clock)) {
      recorded_ = step.clock;
      add(StepRecord{.step = step.report.step, .time_s = unix_time_s(), .values = values_of(step, figures, times, trainer)});
    }
    tell_failures();
  }
  take(alarms_.add(SeenStep{.step = step.report.step,
                            .loss = step.taken.result.loss,
                            .norm = step.taken.result.norm,
                            .step_s = step.taken.seconds,
                            .data_s = times.last().data_s,
                            .samples = step.batch,
                            .memory_bytes = is_read ? resident_bytes_ : 0.0}));
}

/// About once a second; returns whether it did.
bool RunRecords::read_memory() {
  const double now = unix_time_s();
  if (std::fabs(now - resident_s_) < kResidentEvery_s) return false;
  resident_s_ = now;
  resident_bytes_ = rss_mb() * (1 << 20);
  memory_is_new_ = true;
  return true;
}

void RunRecords::add(const std::vector<EvaluationReport>& evaluations) {
  for (const EvaluationReport& report : evaluations) {
    const bool is_beside = !report.averaged && evaluations.front().averaged;  // run.evaluate = "both"
    EvaluationRecord record{.set = (report.set.empty() ? "evaluation" : report.set) + (is_beside ? "-weights" : ""),
                            .step = report.step,
                            .time_s = unix_time_s()};
    const auto put = [&](const char* name, std::optional<double> value) {
      if (value) record.values.push_back({name, *value});
    };
    put("loss", report.loss);
    put("accuracy", report.accuracy);
    put("top5", report.top5);
    put("perplexity", report.perplexity);
    put("seconds", report.seconds);
    add(record);
  }
  const EvaluationReport& own = evaluations.front();
  take(alarms_.add(SeenEvaluation{.step = own.step, .loss = own.loss, .accuracy = own.accuracy}));
}

void RunRecords::take(const std::vector<Alarm>& alarms) {
  for (const Alarm& alarm : alarms) {
    const std::string text = fmt::format("{}; look at {}", alarm.text, alarm.look_at);
    event("warning", text, steps_done_, {{"kind", alarm_name(alarm.kind)}});
    if (alarm.kind != AlarmKind::divergence || (recipe_.run.stop_on != "divergence" && recipe_.run.stop_on != "any")) {
      note("warning: " + text);
      continue;
    }
    stops_ = fmt::format("after step {} {}; run.stop_on = \"{}\" ends the run; look at {}", steps_done_.load(), alarm.text,
                         recipe_.run.stop_on, alarm.look_at);
  }
}

void RunRecords::check(bool is_last) const {
  if (!stops_.empty() && (!is_last || !audited_.empty())) throw NumericError(stops_);
}

FinalReport RunRecords::of(const std::function<FinalReport()>& run) {
  try {
    FinalReport report = evidence_->explain(run);
    end(report);
    finish();
    return report;
  } catch (const std::exception& error) {
    const auto* bad = dynamic_cast<const BadStep*>(&error);
    if (!is_ended_.exchange(true)) event("error", error.what(), steps_done_, bad ? finding_details(*bad) : Details());
    finish();
    throw;
  }
}

/// In a thread of its own, while steps go on. Without `why` the launcher records it.
void RunRecords::end_by_signal(const std::string& why) {
  if (is_ended_.exchange(true)) return;
  if (!why.empty()) event("end", why, steps_done_, {{"how", "stopped"}});
  const std::lock_guard lock(mutex_);
  for (const auto& recorder : recorders_) recorder->finish(kAfterSignal);
}

void RunRecords::end(const FinalReport& report) {
  if (is_ended_.exchange(true)) return;
  const char* how = report.stopped ? "stopped as requested, and saved" : report.target_step ? "reached its target" : "finished";
  event("end", fmt::format("{} after step {} of {}", how, report.steps_done, report.steps), report.steps_done,
        {{"how", report.stopped       ? "stopped"
                 : report.target_step ? "target"
                                      : "finished"},
         {"seconds", fmt::format("{:.3f}", report.seconds)},
         {"weights_sha256", report.weights_sha256},
         {"last_clean_audit", audit_step_ > 0 ? std::to_string(clean_step_) : ""}});
}

void RunRecords::finish() {
  if (!is_open_) return record_early();
  bool hangs = false;
  for (const auto& recorder : recorders_) hangs |= !recorder->finish(kToFinish);
  tell_failures();
  for (const auto& recorder : recorders_) {
    for (const std::string& why : recorder->unwritten()) note("the last records are not written: " + why);
  }
  if (hangs) note("the last records are not written: a sink still hangs after 10 s");
}

/// A run that fails before its first step: its events go to the files of the run that it would have continued, if any.
void RunRecords::record_early() {
  const std::lock_guard lock(mutex_);
  append_events(records_folder(recipe_), early_);
}

}  // namespace weft
