#include "weft/train/compare/layout_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <sstream>
#include <utility>

#include "weft/base/error.h"
#include "weft/comm/store/store_errors.h"
#include "weft/comm/wait/await.h"
#include "weft/train/compare/joined_batches.h"
#include "weft/train/compare/rounding_noise.h"
#include "weft/train/compare/weight_difference.h"

namespace weft {

namespace {

constexpr char kEnd[] = "end";

/// Runs call(); appends the run to the text of errors, because a LostRank error must start with its rank.
template <class Call>
auto in_run(const std::string& run, const Call& call) {
  const auto text = [&](const std::exception& error) { return fmt::format("{} (in the run on {})", error.what(), run); };
  try {
    return call();
  } catch (const LostRank& error) {
    throw LostRank(error.rank(), text(error));
  } catch (const CommError& error) {
    throw CommError(text(error));
  } catch (const InputError& error) {
    throw InputError(text(error));
  } catch (const NumericError& error) {
    throw NumericError(text(error));
  } catch (const MemoryError& error) {
    throw MemoryError(text(error));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(text(error));
  }
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

double relative_difference(double a, double b) { return a == b ? 0.0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b)); }

std::vector<std::string> names_of(const std::vector<LayoutSwitch>& switches) {
  std::vector<std::string> names;
  names.reserve(switches.size());
  for (const LayoutSwitch& part : switches) names.push_back(part.name);
  return names;
}

Mesh mesh_of(const World& part, const LayoutRun& run) { return {part, run.settings.axes}; }

/// Makes the run's trainer; does not communicate.
Trainer make_trainer(const Mesh& mesh, const TrainedSteps& trained, const LayoutRun& run, RepeatCheck* watching = nullptr) {
  TrainerOptions options = run.settings.options;
  if (trained.prepare) trained.prepare(mesh, options);
  Model model = trained.model();
  if (watching) model = watching->watch(std::move(model), options.communication.device);
  if (run.noise > 0) model = with_rounding_noise(std::move(model), options.layout.precision, run.noise, run.noise_width);
  return {mesh, std::move(model), trained.optimizer, options};
}

}  // namespace

std::string LayoutRun::text() const {
  const bool alone = settings.ranks() == 1;  // one device obviously has no axes
  std::vector<std::string> names;
  for (const LayoutSwitch& part : off) {
    if (!alone || !part.is_axis) names.push_back(part.name);
  }
  return settings.text() + (names.empty() ? "" : fmt::format(", without {}", fmt::join(names, ", "))) +
         (noise > 0 ? fmt::format(", with {}rounding noise {}", noise_width == NoiseWidth::wide ? "wide " : "", noise) : "");
}

/// The first run, step by step from the initial values.
struct LayoutRuns::Reference {
  struct Weight {
    std::string name;
    at::Tensor value;
    double changed;  ///< largest change of an element since the start, relative to the largest
  };
  struct Step {
    StepResult result;
    std::vector<Weight> weights;
  };
  std::vector<Step> steps;

  void add(Trainer& trainer, const StepResult& result) {
    Step step{result, {}};
    trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) {
      const at::Tensor& start = steps.empty() ? value : steps[0].weights.at(step.weights.size()).value;
      step.weights.push_back({name, value.clone(), weight_difference(start.contiguous(), value.contiguous()).relative});
    });
    steps.push_back(std::move(step));
  }
  void compare(Trainer& trainer, int64_t step, const StepResult& result, std::vector<Deviation>& deviations) const;
};

void LayoutRuns::Reference::compare(Trainer& trainer, int64_t step, const StepResult& result,
                                    std::vector<Deviation>& deviations) const {
  const Step& expected = steps.at(static_cast<size_t>(step));
  const auto number = [&](const char* what, double actual, double reference) {
    if (actual != reference)
      deviations.push_back({.what = what, .step = step, .relative = relative_difference(actual, reference)});
  };
  number(kLoss, result.loss, expected.result.loss);
  number(kTargetCount, static_cast<double>(result.count), static_cast<double>(expected.result.count));
  number(kGradientNorm, result.norm, expected.result.norm);
  size_t place = 0;
  trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) {
    const Weight& weight = expected.weights.at(place++);
    if (weight.name != name || weight.value.sizes() != value.sizes()) {
      throw InputError(
          fmt::format("comparing layouts: parameter '{}' is '{}' on one device; the model must be the same in "
                      "every run",
                      name, weight.name));
    }
    const WeightDifference difference = weight_difference(value.contiguous(), weight.value);
    if (difference.ulps == 0) return;
    deviations.push_back({.what = name,
                          .step = step,
                          .ulps = difference.ulps,
                          .relative = difference.relative,
                          .changed = weight.changed,
                          .is_weight = true});
  });
}

LayoutRuns::LayoutRuns(const World& world, const TrainedSteps& trained, std::optional<Store> store,
                       std::chrono::milliseconds timeout)
    : world_(world),
      trained_(trained),
      store_(std::move(store)),
      timeout_(timeout),
      reference_(std::make_unique<Reference>()) {}

LayoutRuns::~LayoutRuns() = default;

int64_t LayoutRuns::num_parameters() const { return static_cast<int64_t>(reference_->steps.at(0).weights.size()); }

// A second reference may make other outputs of the same inputs, as it has other parts switched off.
void LayoutRuns::make_reference(const LayoutRun& run) {
  const bool is_first = reference_->steps.empty();
  reference_ = std::make_unique<Reference>();
  lead(
      run, [this](Trainer& trainer, int64_t /*step*/, const StepResult& result) { reference_->add(trainer, result); },
      /*watched=*/is_first);
}

std::vector<Deviation> LayoutRuns::compare(const LayoutRun& run) { return compared(run, /*watched=*/false); }

std::vector<Deviation> LayoutRuns::repeat(const LayoutRun& run) { return compared(run, /*watched=*/true); }

std::vector<Deviation> LayoutRuns::compared(const LayoutRun& run, bool watched) {
  std::vector<Deviation> deviations;
  lead(
      run,
      [&](Trainer& trainer, int64_t step, const StepResult& result) { reference_->compare(trainer, step, result, deviations); },
      watched);
  return deviations;
}

// Threads stand in for the ranks, because nothing communicates.
std::string LayoutRuns::refusal(const LayoutRun& run) const {
  try {
    make_trainer(mesh_of(World::threads(run.settings.ranks())[0], run), trained_, run);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

void LayoutRuns::lead(const LayoutRun& run, const Visit& visit, bool watched) {
  const std::string key = fmt::format("run/{}", runs_++);
  const int ranks = run.settings.ranks();
  if (store_) store_->set(key, fmt::format("{} {}", ranks, fmt::join(names_of(run.off), " ")));
  const World part = *world_.part(ranks);
  train(
      part, run,
      [&](Trainer& trainer, int64_t step, const StepResult& result) {
        visit(trainer, step, result);
        if (store_ && ranks < world_.size()) store_->set(fmt::format("{}/step/{}", key, step), "");
      },
      watched && ranks == 1 ? &repeats_ : nullptr);
}

void LayoutRuns::train(const World& part, const LayoutRun& run, const Visit& visit, RepeatCheck* watching) const {
  in_run(run.text(), [&] {
    Trainer trainer = make_trainer(mesh_of(part, run), trained_, run, watching);
    const Trainer::Next next = joined_batches(trained_.batches, trainer.loader_options(), run.settings);
    trainer.start();
    visit(trainer, 0, {});
    for (int64_t step = 1; step <= trained_.steps; ++step) {
      const StepResult result = trainer.step(next);
      visit(trainer, step, result);
    }
  });
}

void LayoutRuns::end(const std::string& text) {
  if (store_) store_->set(fmt::format("run/{}", runs_++), fmt::format("{} {}", kEnd, text));
}

std::string LayoutRuns::follow(const std::function<LayoutRun(const std::vector<std::string>& off)>& run_of) {
  while (true) {
    const std::string key = fmt::format("run/{}", runs_++);
    const std::string text = await(key);
    std::vector<std::string> words = words_of(text);
    if (words.at(0) == kEnd) return text.substr(sizeof(kEnd));
    const int ranks = std::stoi(words[0]);
    const std::optional<World> part = world_.part(ranks);
    words.erase(words.begin());
    if (part) {
      const auto take_part = [](Trainer& trainer, int64_t /*step*/, const StepResult& /*result*/) {
        trainer.for_each_weight([](const std::string& /*name*/, const at::Tensor& /*value*/) {});
      };
      train(*part, run_of(words), take_part);
    } else {
      wait_for_steps(key);
    }
  }
}

void LayoutRuns::wait_for_steps(const std::string& key) const {
  for (int64_t step = 0; step <= trained_.steps; ++step) await(fmt::format("{}/step/{}", key, step));
}

std::string LayoutRuns::await(const std::string& key) const {
  const std::chrono::milliseconds timeout = timeout_ * world_.size();
  return await_key(*store_, key, timeout, wait_for_rank(0, "comparing layouts (rank 0 leads every run)"));
}

}  // namespace weft
