#include "weft/train/run/train.h"

#include <ATen/Parallel.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/stopwatch.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/build/open_data.h"
#include "weft/recipe/read/recipe_paths.h"
#include "weft/recipe/read/recipe_values.h"
#include "weft/recipe/run_target.h"
#include "weft/train/run/data_text.h"
#include "weft/train/run/evaluation_sets.h"
#include "weft/train/run/final_report.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/train/run/parameter_looks.h"
#include "weft/train/run/predicted_step.h"
#include "weft/train/run/recipe_agreement.h"
#include "weft/train/run/resume.h"
#include "weft/train/run/run_records.h"
#include "weft/train/run/run_saver.h"
#include "weft/train/run/shared_folder.h"
#include "weft/train/run/shared_layout.h"
#include "weft/train/run/shared_plan.h"
#include "weft/train/run/start_notes.h"
#include "weft/train/run/step_evidence.h"
#include "weft/train/run/step_results.h"
#include "weft/train/run/step_times.h"
#include "weft/train/run/traced_steps.h"
#include "weft/train/trainer/trainer.h"

namespace weft {
namespace {

/// One run on one rank.
class Run {
 public:
  Run(const Recipe& recipe, const World& world, const TrainOptions& options, RunRecords& records)
      : recipe_(recipe),
        options_(options),
        records_(records),
        target_(parse_run_target(recipe.run.target)),
        plan_(shared_plan(recipe, world)),
        held_mb_(rss_mb()),
        layout_(plan_.layout),
        device_(device_of(recipe, world)),
        world_(world),
        mesh_(world, mesh_axes(layout_)),
        data_(open_data(recipe)),
        lengths_(run_lengths(recipe, data_.training->size())),
        batches_(recipe.batch.global, recipe.batch.ramp),
        traced_(recipe, world_, device_, options, lengths_.steps),
        evaluation_(recipe, data_, layout_.micro_batch / layout_.batch_pieces, mesh_.join({"dp", "shard"}).index,
                    layout_.data_ranks()),
        trainer_(mesh_, build_model(recipe.model), optimizer_of(recipe.optimizer),
                 of_run(trainer_options(recipe, plan_, lengths_, device_))),
        saver_(recipe, lengths_, trainer_, options.board, {options.stop_asked, options.stop_saved}, options.on_save) {
    state_.name = run_name(recipe);
    state_.recipe = recipe_values(recipe);
    state_.data = {{"training", data_text(*data_.training)}, {"evaluation", data_text(*data_.evaluation)}};
    trainer_.register_state(kRunStateName, {.tensors = {},
                                            .save = [this] { return run_state_text(state_); },
                                            .load = [this](const std::string& text) { take_state(text); }});
  }

  FinalReport operator()() {
    held_ = hold_folders(recipe_.save, world_, trainer_.timeout(), options_.board, options_.on_note);
    saver_.hold(held_, options_.on_note);
    saver_.before_save([this] { records_.flush(); });
    show(start_notes(recipe_, layout_, data_, device_));
    trainer_.start();
    show(frozen_notes(trainer_.model()));
    check_shared_folder(recipe_.save.folder, world_, trainer_.timeout());
    resume_run();
    report_progress();
    loader_ = std::make_unique<Loader>(data_.training, sampler_of(*data_.training, recipe_.run.seed), first_loader_options());
    times_ = std::make_unique<StepTimes>(trainer_, *loader_, mesh_, device_);
    results_.emplace(trainer_);
    const int64_t steps = lengths_.steps;
    figures_.emplace(steps - trainer_.steps_done(), state_.noise);
    records_.open(plan_, lengths_, world_, trainer_);
    evaluate_late();
    // A request to end before the first step: the state resumed from may be in memory only.
    const bool is_between = trainer_.steps_done() > 0 && trainer_.steps_done() < steps && !is_target_reached();
    report_.stopped = is_between && saver_.before_steps(state_.clock);
    for (int64_t step = trainer_.steps_done(); step < steps && !report_.stopped && !is_target_reached(); ++step) one_step(step);
    const bool is_evaluated = is_target_reached() || (report_.evaluation && report_.evaluation->step >= steps);
    if (!report_.stopped && !is_evaluated) evaluate();
    saver_.finish();
    report_.seconds = running_.seconds();
    finish();
    report_.upload_failure = saver_.finish_second_place(report_.stopped);  // after everything that other ranks wait for
    report_.upload_left = saver_.totals().upload_left;
    if (leads()) report_.predicted = predicted_step(recipe_, plan_, held_mb_, options_.on_note);
    return report_;
  }

 private:
  /// Loads the checkpoint to resume from, if any.
  void resume_run() {
    const auto resumed = resume(trainer_, world_,
                                {.folder = recipe_.save.folder,
                                 .upload = recipe_.save.upload,
                                 .from = recipe_.run.resume,
                                 .board = options_.board,
                                 .anyway = options_.resume_anyway},
                                state_);
    if (const std::string weights = initial_weights(recipe_.model); !resumed && !weights.empty()) take_weights(weights);
    running_ = Stopwatch();
    saver_.resumed_from(resumed && resumed->path != kSnapshotPath ? std::optional(resumed->step) : std::nullopt, state_.clock);
    if (!resumed) return;
    report_.resumed_from = resumed->step;
    report_.loss = state_.loss;
    report_.evaluation = state_.evaluation;
    report_.other_evaluations = state_.others;
    report_.best = state_.best;
    seconds_before_ = state_.clock.seconds;
    if (!leads()) return;
    if (RunBoard* board = options_.board) {
      show(restart_notes(*board, resumed->step));
      board->set_steps_done(resumed->step);
    }
    show(resume_notes(*resumed, lengths_.steps));
  }
  void report_progress() const {
    if (options_.on_progress) options_.on_progress(trainer_.steps_done() - trainer_.unsettled());
  }
  void show(const std::vector<std::string>& notes) const {
    if (!leads() || !options_.on_note) return;
    for (const std::string& note : notes) options_.on_note(note);
  }

  /// Collected over all ranks: the layout decides which samples each trained on. Data left out at opening is the same on all.
  std::vector<std::string> skipped_data() {
    const DataNotes left = left_out(data_);
    report_.skipped_more = count_of(left) - static_cast<int64_t>(left.size());
    std::vector<std::string> names = leads() ? texts_of(left) : std::vector<std::string>();
    for (std::string& name : loader_->skipped()) names.push_back(std::move(name));
    for (std::string& name : evaluation_.skipped()) names.push_back(std::move(name));
    return united(trainer_, device_, names);
  }

  void take_weights(const std::string& weights) {
    show(weights_notes(weights, trainer_.load_weights(weights, weights_options(recipe_.model))));
  }

  /// Takes the state of an earlier process; name, recipe and data stay this one's.
  void take_state(const std::string& text) {
    const RunState before = parse_run_state(text, "checkpoint");
    state_.clock = before.clock;
    state_.loss = before.loss;
    state_.noise = before.noise;
    if (!evaluations_compare(before, state_, evaluates_average(trainer_, recipe_.run.evaluate))) return;
    state_.evaluation = before.evaluation;
    state_.others = before.others;
    state_.best = before.best;
  }

  LoaderOptions first_loader_options() const {
    LoaderOptions options = weft::loader_options(recipe_, layout_, mesh_.join({"dp", "shard"}).index);
    options.ramp = recipe_.batch.ramp;
    options.first_step = trainer_.steps_done();
    options.pinned = trainer_.loader_options().pinned;
    options.first_sample = trainer_.samples_done();
    return options;
  }
  RunClock clock_after(int64_t steps) const {
    const int64_t later = batches_.samples_before(trainer_.steps_done()) - batches_.samples_before(steps);
    const auto samples = static_cast<double>(trainer_.samples_done() - later);
    return {.steps = static_cast<double>(steps),
            .samples = samples,
            .tokens = samples * tokens(),
            .epochs = samples / static_cast<double>(data_.training->size()),
            .seconds = seconds()};
  }

  double seconds() const { return seconds_before_ + running_.seconds(); }
  /// Makes an evaluation that was due but skipped on a request to end: it may be the first to reach the target.
  void evaluate_late() {
    const int64_t done = trainer_.steps_done();
    const bool is_there = report_.evaluation && report_.evaluation->step == done;
    if (!target_ || done == 0 || done >= lengths_.steps || is_there || is_target_reached()) return;
    if (lengths_.evaluate_every.passed(clock_after(done - 1), state_.clock)) evaluate();
  }
  /// Returns true if the last evaluation reached the target; the same on all ranks, like its figures.
  bool is_target_reached() const {
    return target_ && report_.evaluation && target_->is_reached(report_.evaluation->loss, report_.evaluation->accuracy);
  }
  bool leads() const { return world_.rank() == 0; }
  TrainerOptions of_run(TrainerOptions options) {
    options.histograms_every = lengths_.histograms_every;
    options.agreement = recipe_agreement(recipe_, data_);
    options.ledger = records_.ledger();
    options.evidence = records_.evidence();
    options.votes.of_rank = [this] { return saver_.vote({.seconds = seconds()}); };
    options.sample_name = sample_names(data_.training, recipe_.run.seed);
    options.on_bad_step = [this](const BadStep& bad, const std::vector<Batch>& taken) { return keep(bad, taken); };
    return options;
  }
  std::string keep(const BadStep& bad, const std::vector<Batch>& taken) {
    state_.clock = clock_after(bad.step());
    const std::string rise = records_.rise();
    const std::string kept = keep_evidence(recipe_, world_, trainer_, bad, taken, saver_.saved_step());
    return rise.empty() || kept.empty() ? rise + kept : rise + "; " + kept;
  }
  double tokens() const { return static_cast<double>(tokens_per_sample(recipe_.model)); }  ///< per sample

  void one_step(int64_t step) {
    const RunClock before = state_.clock;
    bool due = false;
    try {
      due = issue(step, before);
      report_steps();
      looks_.after_step(trainer_, lengths_.histograms_every, records_);
    } catch (...) {
      report_failed_step();
      throw;
    }
    records_.check(/*is_last=*/step + 1 == lengths_.steps);
    report_progress();
    const bool left_out = due && saver_.is_stop_asked();  // an evaluation may take longer than the time left
    if (due && !left_out) evaluate();
    const bool is_last = step + 1 == lengths_.steps || is_target_reached();
    if (due) saver_.is_due(before, state_.clock, is_last, /*asks_again=*/!left_out);
    report_.stopped = saver_.after_step(is_last) && (!is_last || left_out);
  }

  /// Submits a step and takes the results that are known. Returns whether an evaluation is due.
  bool issue(int64_t step, const RunClock& before) {
    times_->begin();
    const bool traced = traced_.begin(step + 1, trainer_);
    results_->submit(*loader_);
    state_.clock = clock_after(trainer_.steps_done());
    const bool due = step + 1 == lengths_.steps || lengths_.evaluate_every.passed(before, state_.clock);
    settle(/*all=*/due || traced || step == report_.resumed_from);
    if (!due) settle(/*all=*/saver_.is_due(before, state_.clock, /*is_last=*/false, /*asks_again=*/false));
    show(times_->end());
    if (traced) traced_.end(step + 1, trainer_, records_.traces());
    return due;
  }

  /// Takes the results of `all` steps, or of those before the last, if a device still runs it.
  void settle(bool all) {
    results_->take(all, [this](const TakenStep& taken) {
      report_.loss = state_.loss = taken.result.loss;
      saver_.hear(taken.result.votes);
      figures_->add(taken, batches_.at(taken.step), layout_.micro_batch);
      state_.noise = figures_->noise.sums();
      if (taken.step == report_.resumed_from) report_.first_step_s = process_age_s();
      const RunClock clock = clock_after(taken.step + 1);
      told_.push_back(
          {report_of(taken, figures_->meter, lengths_.steps, tokens(), clock.samples), taken, batches_.at(taken.step), clock});
    });
  }
  /// Reports the steps before one that failed, as far as their results are known.
  void report_failed_step() {
    try {
      settle(/*all=*/true);
    } catch (...) {  // the first error says more
    }
    report_steps();
  }
  void report_steps() {
    for (const ToldStep& told : std::exchange(told_, {})) {
      if (leads() && options_.on_step) options_.on_step(told.report);
      records_.add(told, *figures_, *times_, trainer_);
    }
  }
  void evaluate() {
    std::vector<EvaluationReport> reports = evaluation_.evaluate(trainer_, lengths_.steps);
    if (leads() && options_.on_evaluation) {
      for (const EvaluationReport& report : reports) options_.on_evaluation(report);
    }
    records_.add(reports);
    report_.evaluation = state_.evaluation = reports.front();
    state_.best.add(reports.front());
    report_.best = state_.best;
    reports.erase(reports.begin());
    report_.other_evaluations = state_.others = reports;
  }
  void finish() {
    traced_.finish(trainer_);
    fill_run_identity(recipe_, layout_, lengths_, trainer_, report_);
    fill_owner(world_, report_);
    report_.noise_scale = figures_->noise.estimate();
    if (is_target_reached()) report_.target_step = report_.evaluation->step;
    report_.saves = saver_.totals().saves;
    report_.save_stall_s = saver_.totals().stall_s;
    fill_step_figures(figures_->meter, tokens(), figures_->trend, report_);
    gather_figures(trainer_, device_,
                   {.waited_s = loader_->waits().waited_s, .step_communication_share = times_->communication_share()}, report_);
    if (recipe_.data.skip_bad) report_.skipped_data = skipped_data();
    // A stopped run does not have its last weights yet, and whoever stopped it is waiting.
    if (!report_.stopped) fill_final_weights(trainer_, recipe_, options_.save_path, report_);
  }

  const Recipe& recipe_;
  const TrainOptions& options_;
  RunRecords& records_;
  const std::optional<RunTarget> target_;
  Plan plan_;
  const double held_mb_;  ///< memory of this process before the model
  const ResolvedLayout& layout_;
  at::Device device_;
  World world_;
  Mesh mesh_;
  Datasets data_;
  RunLengths lengths_;
  BatchSizes batches_;
  TracedSteps traced_;
  ParameterLooks looks_;
  EvaluationSets evaluation_;
  HeldFolders held_;  ///< until the trainer's last save has ended
  Trainer trainer_;
  RunSaver saver_;
  std::unique_ptr<Loader> loader_;
  std::optional<StepResults> results_;
  std::vector<ToldStep> told_;  ///< steps that on_step has not been told of
  FinalReport report_;
  RunState state_;
  Stopwatch running_;
  std::unique_ptr<StepTimes> times_;
  std::optional<StepFigures> figures_;
  double seconds_before_ = 0.0;  ///< run time in earlier processes
};

}  // namespace

FinalReport train(const Recipe& recipe, const World& world, const TrainOptions& options) {
  check_options(recipe, options);
  if (world.rank() == 0) check_files(recipe, options);
  at::set_num_threads(threads_of(recipe, world));
  const Recipe planned = shared_layout(recipe, world, options.on_note);
  RunRecords records(planned, world, device_of(planned, world), options);
  const TrainOptions heard = records.heard();
  return records.of([&] { return Run(planned, world, heard, records)(); });
}

}  // namespace weft
