#include "weft/train/run/replay.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/build/open_data.h"
#include "weft/train/run/data_text.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/train/run/recipe_agreement.h"
#include "weft/train/run/recorded_steps.h"
#include "weft/train/run/shared_plan.h"
#include "weft/train/run/step_evidence.h"
#include "weft/train/save/rank_meeting.h"
#include "weft/train/save/run_state.h"
#include "weft/train/trainer/bad_step.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

namespace {

TrainerOptions options_of(const ReplayPlan& replayed, const Plan& plan, const Datasets& data, at::Device device) {
  const Recipe& recipe = replayed.recipe;
  const RunLengths lengths = run_lengths(recipe, data.training->size());
  TrainerOptions options = trainer_options(recipe, plan.layout, device);
  options.program = plan.program;
  options.ramp = recipe.batch.ramp;
  options.ramp_programs = plan.ramp;
  options.program_is_verified = true;
  options.learning_rate = learning_rate_of(recipe, lengths);
  options.rate_phases = rate_phases_of(recipe);
  options.agreement = recipe_agreement(recipe, data) + fmt::format("replay: {} {}\n", replayed.checkpoint, replayed.step);
  options.sample_name = sample_names(data.training, recipe.run.seed);
  return options;
}

nlohmann::json json_of(const BlockRange& r) {
  return {{"block", r.block},     {"what", r.what},   {"least", r.least},          {"greatest", r.greatest},
          {"squares", r.squares}, {"numel", r.numel}, {"not_finite", r.not_finite}};
}

/// Over all ranks, by block, in the order in which a block has them.
std::vector<BlockRange> united_ranges(const std::vector<BlockRange>& own, const World& world,
                                      std::chrono::milliseconds timeout) {
  RankMeeting meeting(world, "joining the ranges of blocks", timeout);
  nlohmann::json said = nlohmann::json::array();
  for (const BlockRange& range : own) said.push_back(json_of(range));
  meeting.send("ranges", said.dump());
  std::vector<BlockRange> all;
  for (int rank = 0; rank < world.size(); ++rank) {
    const nlohmann::json each = rank == world.rank() ? said : nlohmann::json::parse(meeting.wait_for("ranges", rank));
    for (const nlohmann::json& r : each) {
      add_range({.block = r.at("block"),
                 .what = r.at("what"),
                 .least = r.at("least"),
                 .greatest = r.at("greatest"),
                 .squares = r.at("squares"),
                 .numel = r.at("numel"),
                 .not_finite = r.at("not_finite")},
                all);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const BlockRange& a, const BlockRange& b) { return a.block < b.block; });
  return all;
}

/// One replay on one rank.
class Replay {
 public:
  Replay(const ReplayPlan& replayed, const World& world)
      : replayed_(replayed),
        recipe_(replayed.recipe),
        world_(world),
        plan_(shared_plan(recipe_, world)),
        device_(device_of(recipe_, world)),
        mesh_(world, mesh_axes(plan_.layout)),
        data_(open_data(recipe_)),
        options_(options_of(replayed, plan_, data_, device_)),
        trainer_(mesh_, build_model(recipe_.model), optimizer_of(recipe_.optimizer), options_) {
    trainer_.register_state(kRunStateName, {.tensors = {}, .save = [] { return std::string(); }, .load = [](const auto&) {}});
  }

  std::string data() const { return data_text(*data_.training); }

  void operator()(const std::function<void(const ReplayedStep&)>& on_step) {
    trainer_.load(replayed_.checkpoint);
    LoaderOptions options = weft::loader_options(recipe_, plan_.layout, mesh_.join({"dp", "shard"}).index);
    options.ramp = recipe_.batch.ramp;
    options.first_step = trainer_.steps_done();
    options.first_sample = trainer_.samples_done();
    loader_ = std::make_unique<Loader>(data_.training, sampler_of(*data_.training, recipe_.run.seed), options);
    const RecordedRun recorded(replayed_.folder);
    const int64_t last = replayed_.step + replayed_.steps - 1;
    while (trainer_.steps_done() < last) {
      const int64_t number = trainer_.steps_done() + 1;
      if (number == replayed_.step && replayed_.checks != "none") trainer_.check(replayed_.checks == "operators");
      ReplayedStep step = one_step(number);
      if (number < replayed_.step && step.error.empty()) continue;
      if (world_.rank() == 0) {
        step.recorded = recorded.of(number);
        on_step(step);
      }
      if (!step.error.empty()) return;
    }
  }

 private:
  ReplayedStep one_step(int64_t number) {
    ReplayedStep step{.step = number};
    for (const NamedBlock& block : trainer_.model().model().blocks) step.blocks.push_back(block.name);
    try {
      const StepResult result = trainer_.step(*loader_);
      step.loss = result.loss;
      step.norm = result.norm;
      if (const StepChecks* checks = trainer_.checks()) look_at_update(*checks, step);
    } catch (const BadStep& bad) {
      step.error = bad.what();
      step.findings = bad.findings();
    }
    if (const StepChecks* checks = trainer_.checks()) step.ranges = united_ranges(checks->ranges(), world_, trainer_.timeout());
    return step;
  }

  /// A step whose numbers are finite may make weights that are not.
  void look_at_update(const StepChecks& checks, ReplayedStep& step) const {
    std::vector<Finding> own;
    if (checks.finding()) own.push_back(*checks.finding());
    const BadStep all =
        agreed_on(BadStep(step.step - 1, fmt::format("step {}: its update made weights that are not finite", step.step), own),
                  mesh_, options_);
    if (all.findings().empty()) return;
    step.error = all.what();
    step.findings = all.findings();
  }

  const ReplayPlan& replayed_;
  const Recipe& recipe_;
  World world_;
  Plan plan_;
  at::Device device_;
  Mesh mesh_;
  Datasets data_;
  TrainerOptions options_;
  Trainer trainer_;
  std::unique_ptr<Loader> loader_;
};

}  // namespace

std::string recorded_text(const ReplayedStep& step) {
  const RecordedStep& was = step.recorded;
  if (!step.error.empty()) return "";
  if (!was.loss) return "the run recorded no numbers of this step";
  const bool has_norm = was.norm.has_value() && step.norm > 0.0;
  if (*was.loss == step.loss && (!has_norm || *was.norm == step.norm)) {
    return has_norm ? "same bits as recorded: loss and gradient norm" : "same bits as recorded: loss";
  }
  std::string text = fmt::format("other bits than recorded: loss {} (recorded {})", step.loss, *was.loss);
  if (has_norm) text += fmt::format(", gradient norm {} (recorded {})", step.norm, *was.norm);
  return text;
}

void replay(const ReplayPlan& plan, const World& world, const std::function<void(const ReplayedStep&)>& on_step,
            const std::function<void(const std::string&)>& on_note) {
  at::set_num_threads(threads_of(plan.recipe, world));
  Replay run(plan, world);
  if (world.rank() == 0 && !plan.data.empty() && run.data() != plan.data)
    on_note(fmt::format("the training data was {}, is {}", plan.data, run.data()));
  run(on_step);
}

}  // namespace weft
