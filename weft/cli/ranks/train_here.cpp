#include "weft/cli/ranks/train_here.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/launcher_variables.h"
#include "weft/base/monotonic.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"
#include "weft/base/run_board.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/health/rank_health.h"
#include "weft/cli/output/console.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/output_files.h"
#include "weft/cli/ranks/stop_signals.h"
#include "weft/launch/exit_status.h"
#include "weft/plan/advice/auto_layout.h"
#include "weft/plan/layout/resolve.h"
#include "weft/recipe/read/recipe_paths.h"
#include "weft/report/meter.h"
#include "weft/report/summary.h"
#include "weft/train/process/process_memory.h"

namespace weft {

namespace {

/// A length in epochs is converted to steps, and printed, once the data is open.
std::string run_heading(const Recipe& recipe, int world_size) {
  const std::string length =
      recipe.run.steps ? counted(*recipe.run.steps, "step") : run_length_text(length_of(recipe.run)) + " in steps";
  const std::string ramp = recipe.batch.ramp.empty() ? "" : fmt::format("{} to ", recipe.batch.ramp.front().global_batch);
  return fmt::format("{}: {} on {}, {} of {}{} samples, {}", printable(recipe.path), recipe.model.name, recipe.data.name,
                     length, ramp, recipe.batch.global, counted(world_size, "rank"));
}

/// Describes how to continue the run.
std::string resume_text(const Recipe& recipe) {
  if (recipe.run.resume == "auto") return "the same command continues";
  return fmt::format("the same command with --resume auto (instead of {}) continues", shortened(recipe.run.resume));
}

/// Reports a rank whose standard output is gone. A finished or saved run need not be repeated for that.
int status_without_output(const std::string& failure, const World& world, bool stopped) {
  const std::string who = world.size() > 1 ? fmt::format("rank {}: ", world.rank()) : "";
  fmt::print(stderr, "weft: {}{}\n", who, failure);
  return stopped ? kSavedAndStopped : is_rank_of_launcher() ? kOutputLost : 1;
}

void report_to(Console& console, TrainOptions& options) {
  options.on_step = [&](const StepReport& report) { console.step(report); };
  options.on_evaluation = [&](const EvaluationReport& report) { console.evaluation(report); };
  options.on_save = [&](const SaveReport& report) { console.save(report); };
  options.on_note = [&](const std::string& note) { console.note(printable(note)); };
  options.on_profile = [&](const std::string& text) { console.note("\n" + text); };
}

/// Leaves the figures of each step for the launcher, and for this process's own health.
void monitor_with(RunBoard& board, RankHealth& health, TrainOptions& options) {
  constexpr int64_t kMemoryEvery_ns = 1'000'000'000;
  const auto figures = std::make_shared<RunFigures>();
  options.on_step = [&board, &health, figures, print = options.on_step](const StepReport& report) {
    print(report);
    const int64_t now = monotonic_ns();
    if (figures->memory_bytes == 0.0 || now / kMemoryEvery_ns != figures->step_ns / kMemoryEvery_ns) {
      figures->memory_bytes = rss_mb() * (1 << 20);
    }
    figures->loss = report.loss;
    figures->lr = report.lr;
    figures->samples = report.samples;
    figures->tokens = report.tokens;
    figures->samples_per_s = report.samples_per_s;
    figures->step_ns = now;
    board.set_figures(*figures);
    health.set_figures(*figures);
  };
  options.on_save = [figures, print = options.on_save](const SaveReport& report) {
    print(report);
    figures->saved_ns = monotonic_ns();
  };
}

/// The steps of --profile.
StepRange parse_step_range(const std::string& text) {
  const size_t dash = text.find('-');
  const auto first = parse_number<int64_t>(text.substr(0, dash));
  const auto last = dash == std::string::npos ? first : parse_number<int64_t>(text.substr(dash + 1));
  if (first && last) return {*first, *last};
  throw InputError(
      fmt::format("--profile: '{}' is not a step, such as 5, or the first and the last, such as 5-7", printable(text)));
}

void print_end(Console& console, const Recipe& recipe, const FinalReport& report, bool is_growing) {
  if (is_growing && report.stopped) {
    console.line(fmt::format("saved after step {}, to continue on more ranks", report.steps_done));
    return;
  }
  console.finish(report);
  if (!report.upload_failure.empty()) {
    console.line(fmt::format("trained and saved, but {}; the same command copies it", printable(report.upload_failure)));
  }
  if (report.stopped) console.line("stopped as requested, and saved: " + resume_text(recipe));
}

}  // namespace

TrainOptions train_options(const TrainArguments& arguments) {
  return {.trace_path = arguments.trace,
          .trace_step = arguments.trace_step,
          .profile_steps = arguments.profile.empty() ? std::nullopt : std::optional(parse_step_range(arguments.profile)),
          .save_path = arguments.save,
          .resume_anyway = arguments.resume_anyway};
}

void check_outputs(const TrainArguments& arguments, const Recipe& recipe) {
  check_not_read(recipe, {{"the recipe", arguments.recipe}},
                 {{"--summary", arguments.summary}, {"--save", arguments.save}, {"--trace", arguments.trace}});
  check_weights_name("--save", arguments.save);
  check_files(recipe, train_options(arguments));
  if (!arguments.summary.empty()) check_writable(arguments.summary);
}

void leave(int status) {
  std::fflush(nullptr);
  _exit(status);
}

int train_here(const Recipe& recipe, const World& world, const TrainArguments& arguments) {
  const bool is_rank = is_rank_of_launcher(), saves = !recipe.save.folder.empty();
  std::shared_ptr<RunBoard> board = is_rank ? RunBoard::from_environment() : nullptr;
  if (recipe.save.memory_every && (!board || board->most_ranks() == 0)) {
    throw InputError(
        "save.memory_every keeps copies in the memory of a launcher that restarts ranks: start them with "
        "weft train -n and --restarts (or run.restarts), or leave it out");
  }
  if (!board) board = std::make_shared<RunBoard>(0);  // private to this process
  survive(SIGPIPE);                                   // a closed log does not end the training
  keep_and_reuse_memory();
  const bool leads = world.rank() == 0;
  if (leads) check_outputs(arguments, recipe);
  Console console;
  if (!is_automatic(recipe)) resolve(recipe, world.size());  // refuses what does not fit before the first line
  if (leads) console.line(wrapped(run_heading(recipe, world.size()), 2));
  RankHealth health(arguments.hosts.health, world);
  TrainOptions options = train_options(arguments);
  report_to(console, options);
  options.on_progress = [&](int64_t steps_done) { health.set_steps(steps_done); };
  if (leads) monitor_with(*board, health, options);
  options.board = board.get();
  const bool has_words = leads && !records_place(recipe).empty();
  if (saves || !is_rank || has_words) {
    note_stop_signals({.saves = saves,
                       .deadline_s = recipe.save.deadline_s,
                       .prints = leads,
                       .is_rank = is_rank,
                       .has_words = has_words,
                       .tells = !is_rank || records_folder(recipe).empty()},
                      board);
  }
  if (saves) {
    options.stop_asked = stop_was_asked;
    options.stop_saved = end_stop_deadline;
  }
  FinalReport report;
  try {
    report = train(recipe, world, options);
    if (!leads) return report.stopped ? kSavedAndStopped : 0;
    if (!arguments.summary.empty()) write_file(arguments.summary, summary_json(report));
    print_end(console, recipe, report, board->is_growing());
  } catch (...) {
    console.end_line();
    throw;
  }
  int status = report.stopped ? kSavedAndStopped : report.upload_failure.empty() ? 0 : kNotCopied;
  if (!console.failure().empty()) status = status_without_output(console.failure(), world, report.stopped);
  if (report.upload_left) leave(status);
  return status;
}

}  // namespace weft
