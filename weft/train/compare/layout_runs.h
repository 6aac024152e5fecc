// LayoutRuns: trains the same steps repeatedly, on all ranks or fewer, and compares each run with a reference: the first run,
// on one device, or a later run that replaces it.
//
// Rank 0 takes part in every run and chooses the next one; a run in a mesh of n ranks is on the first n, and the others wait.
// They wait for each step of rank 0, at most the timeout times the number of ranks, because one device may do the work of all.
// So a long run does not time out, and a hung rank is named.
//
// Rank 0 keeps the whole weights after every step of the reference, in float32 on the CPU: (steps + 1) x 4 bytes per element.
// Later runs are compared as they go. Each run gathers the weights steps + 1 times on top of its own traffic.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/comm/store/store.h"
#include "weft/train/compare/batch_source.h"
#include "weft/train/compare/layout_comparison.h"
#include "weft/train/compare/layout_switches.h"
#include "weft/train/compare/repeat_check.h"
#include "weft/train/compare/rounding_noise.h"

namespace weft {

/// The training to repeat, independent of layout.
struct TrainedSteps {
  std::function<Model()> model;     ///< makes a new model for every run; called from several threads if ranks are threads
  OptimizerOptions optimizer = {};  ///< for every run
  BatchSource batches;              ///< the same samples in every run
  int64_t steps = 3;                ///< per run
  /// Called on each rank of a run before its model is made, to put a custom program into the options. Rank 0 may call it for a
  /// mesh that no run uses. Empty: the trainer's own programs.
  std::function<void(const Mesh& mesh, TrainerOptions& options)> prepare = {};
};

/// One run of a comparison.
struct LayoutRun {
  LayoutSettings settings;                       ///< of the run
  std::vector<LayoutSwitch> off;                 ///< parts switched off
  int noise = 0;                                 ///< `number` for with_rounding_noise(); 0: no noise
  NoiseWidth noise_width = NoiseWidth::spacing;  ///< of that noise

  std::string text() const;  ///< Formats "dp 2, without layout.recompute".
};

/// The runs of one comparison, on one rank.
class LayoutRuns {
 public:
  /// `store` is shared by all ranks; empty in a world of one. World and steps must outlive this.
  LayoutRuns(const World& world, const TrainedSteps& trained, std::optional<Store> store, std::chrono::milliseconds timeout);
  ~LayoutRuns();

  /// On rank 0: makes the reference run (the first, on one device) or its replacement.
  void make_reference(const LayoutRun& run);
  /// On rank 0: repeats a run on one device and compares like compare().
  std::vector<Deviation> repeat(const LayoutRun& run);
  /// On rank 0: the computation that varied between the last two runs (repeat_check.h).
  NotRepeated not_repeated() const { return repeats_.found(); }
  /// On rank 0: makes another run; returns its deviations from the reference, in order.
  std::vector<Deviation> compare(const LayoutRun& run);
  /// On rank 0: the trainer's InputError that prevents the run; empty: none.
  std::string refusal(const LayoutRun& run) const;
  /// On rank 0: ends the others' follow(), which returns `text`.
  void end(const std::string& text);
  /// On rank 0: number of compared parameters.
  int64_t num_parameters() const;

  /// On all other ranks: takes part in rank 0's runs until the last. `run_of` returns the run with these parts off.
  std::string follow(const std::function<LayoutRun(const std::vector<std::string>& off)>& run_of);

 private:
  struct Reference;
  /// Called with the trainer before the first step and after each; steps count from 1.
  using Visit = std::function<void(Trainer& trainer, int64_t step, const StepResult& result)>;

  std::vector<Deviation> compared(const LayoutRun& run, bool watched);
  void lead(const LayoutRun& run, const Visit& visit, bool watched = false);
  void train(const World& part, const LayoutRun& run, const Visit& visit, RepeatCheck* watching = nullptr) const;
  void wait_for_steps(const std::string& key) const;
  std::string await(const std::string& key) const;

  const World& world_;
  const TrainedSteps& trained_;
  std::optional<Store> store_;
  std::chrono::milliseconds timeout_;
  int runs_ = 0;
  std::unique_ptr<Reference> reference_;
  RepeatCheck repeats_;
};

}  // namespace weft
