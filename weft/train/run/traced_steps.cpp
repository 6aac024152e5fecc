#include "weft/train/run/traced_steps.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/shipped_files.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/comm/world_hosts.h"
#include "weft/program/profile/step_profile.h"
#include "weft/recipe/read/recipe_paths.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/report/profile/profile_text.h"
#include "weft/report/profile/step_timeline.h"
#include "weft/train/run/trace_file.h"
#include "weft/train/trainer/gather_times.h"
#include "weft/train/trainer/gathered_texts.h"

namespace weft {
namespace {

constexpr int kMostRanks = 16;             // whose operators are kept
constexpr size_t kMostOperators = 200000;  // of a rank, in whole steps: some 15 MB

/// The first pipeline's ranks, up to a number: in larger worlds the others run the same.
bool keeps_operators(int rank, const Program& program) {
  const int world = program.world_size(), columns = world / program.mesh.pp;
  return world <= kMostRanks || (rank % columns == 0 && rank / columns < kMostRanks);
}

/// Instructions of all steps, ordered by rank.
std::vector<TimedInstruction> timed_of(const std::vector<MeasuredStep>& steps) {
  std::vector<TimedInstruction> timed;
  for (int rank = 0; rank < static_cast<int>(steps.front().ranks.size()); ++rank) {
    for (const MeasuredStep& step : steps) {
      for (int i = 0; i < static_cast<int>(step.ranks[rank].size()); ++i) {
        timed.push_back({rank, i, step.ranks[rank][i].start_s, step.ranks[rank][i].end_s});
      }
    }
  }
  return timed;
}

std::vector<TraceSlice> slices_of(const Program& program, const std::vector<MeasuredStep>& steps) {
  const Partners partners(program);
  std::vector<TraceSlice> slices;
  for (const MeasuredStep& step : steps) {
    for (int rank = 0; rank < static_cast<int>(step.operators.size()); ++rank) {
      for (const MeasuredOperator& x : step.operators[rank]) {
        slices.push_back({rank, x.name, x.is_kernel ? "kernel" : "operator", x.start_s, x.end_s});
      }
    }
    for (const PathPiece& piece : critical_path(program, partners, step)) {
      const InstructionList& list = program.of(piece.rank);
      const bool is_end = piece.index >= static_cast<int>(list.size());
      const std::string what =
          piece.doing == PathPiece::Doing::hosts || is_end ? "host" : describe(list[piece.index], program.block_names);
      slices.push_back({kCriticalPath,
                        fmt::format("rank {}: {}{}", piece.rank, what, piece.doing == PathPiece::Doing::moves ? ": bytes" : ""),
                        "critical path", piece.start_s, piece.end_s, static_cast<int>(&step - steps.data())});
    }
  }
  return slices;
}

std::optional<Hardware> hardware_of(const Recipe& recipe) {
  if (recipe.run.hardware.empty()) return std::nullopt;
  return load_hardware(shipped_or_own("hardware", recipe.run.hardware));
}

}  // namespace

std::string profile_folder(const Recipe& recipe) {
  const std::string folder = records_folder(recipe);
  return folder.empty() ? "profile" : folder + "/profile";
}

TracedSteps::TracedSteps(const Recipe& recipe, const World& world, at::Device device, const TrainOptions& options,
                         int64_t steps)
    : recipe_(recipe),
      world_(world),
      device_(device),
      options_(options),
      traced_(traced_step(options.trace_path, options.trace_step, steps)) {
  check_profiled_steps(options.profile_steps, steps);
}

bool TracedSteps::is_profiled(int64_t step) const {
  const auto& range = options_.profile_steps;
  return range && step >= range->first && step <= range->last;
}

bool TracedSteps::begin(int64_t step, Trainer& trainer) {
  const bool is_traced = step == traced_ || is_profiled(step);
  if (is_traced) trainer.trace(true, is_profiled(step));
  return is_traced;
}

void TracedSteps::end(int64_t step, Trainer& trainer, bool phases) {
  if (step == traced_) {
    const std::vector<TimedInstruction> times = trainer.step_times();
    if (world_.rank() == 0) write_trace_file(options_.trace_path, trainer.program(), times);
  }
  if (is_profiled(step)) add_step(step, trainer);
  trainer.trace(phases);
  if (is_profiled(step) && step == options_.profile_steps->last) write_profile(trainer);
}

void TracedSteps::finish(Trainer& trainer) {
  if (!own_.empty()) return write_profile(trainer);  // the run has ended before the last of them
  if (!options_.profile_steps || is_written_ || world_.rank() != 0 || !options_.on_note) return;
  options_.on_note(fmt::format("no step was profiled: the run has not come to steps {} to {}, or has resumed after them",
                               options_.profile_steps->first, options_.profile_steps->last));
}

void TracedSteps::add_step(int64_t step, const Trainer& trainer) {
  if (program_ != &trainer.program()) own_.clear();  // a ramp's batch has grown
  program_ = &trainer.program();
  RankStep own{.step = step};
  for (const InstructionTime& x : trainer.instruction_times())
    own.instructions.push_back({x.start_s, x.issued_s, x.end_s, x.inner_s});
  const size_t operators = trainer.operators().size();
  if (keeps_operators(world_.rank(), *program_) && kept_operators_ + operators <= kMostOperators) {
    own.operators = trainer.operators();
    kept_operators_ += operators;
  }
  own_.push_back(std::move(own));
}

void TracedSteps::write_profile(Trainer& trainer) {
  const double origin = common_time(world_.rank(), hosts_of(world_), trainer.world_group(), device_);
  const std::string own = packed(std::exchange(own_, {}), origin);
  const std::vector<std::string> texts = gathered_texts(world_, "a profile", own, trainer.timeout());
  is_written_ = true;
  if (world_.rank() != 0) return;
  try {
    report(joined_steps(texts));
  } catch (const std::exception& error) {  // such as a full disk: training goes on
    if (options_.on_note) options_.on_note(fmt::format("the profile is not kept: {}", error.what()));
  }
}

void TracedSteps::report(const std::vector<MeasuredStep>& steps) const {
  const std::optional<Hardware> hardware = hardware_of(recipe_);
  const StepProfile profile = profile_of(*program_, steps, hardware ? &*hardware : nullptr);
  const std::string folder = profile_folder(recipe_);
  std::filesystem::create_directories(folder);
  write_trace_file(folder + "/trace.json", *program_, timed_of(steps), slices_of(*program_, steps));
  write_file(folder + "/profile.json", profile_json(profile));
  write_file(folder + "/timeline.json", timeline_json(timeline_of(*program_, steps, profile.step)));
  const std::string text = profile_text(profile);
  write_file(folder + "/profile.txt", text);
  if (options_.on_profile) options_.on_profile(text + fmt::format("\ntimeline: {}/trace.json, for ui.perfetto.dev\n", folder));
}

}  // namespace weft
