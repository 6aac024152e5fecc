// LayoutRuns: trains the same steps again and again, on all ranks or fewer, each run compared with the first, on one device,
// or with a later one in its place.
//
// Rank 0 takes part in every run and says which is next; a run in a mesh of n ranks is on the first n, and the others wait.
// They wait for rank 0 step by step, each time for the timeout times the number of ranks, as one device does the work of all: a
// long run ends no wait, and whoever hangs is named.
//
// Rank 0 keeps the whole weights after every step of that run, in float32 on the CPU: (steps + 1) x 4 bytes an element.
// Later runs are compared as they go. Each run gathers the weights steps + 1 times beside its own traffic.
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

namespace weft {

/// What is trained, however it is laid out.
struct TrainedSteps {
  std::function<Model()> model;     ///< makes the model anew for every run; on several threads where ranks are threads
  OptimizerOptions optimizer = {};  ///< of every run
  BatchSource batches;              ///< the same samples in every run
  int64_t steps = 3;                ///< of every run
  /// Called for each run on each rank of it, before its model is made: where a program of one's own goes into the options. Rank
  /// 0 may be asked for a mesh that no run is made on. Empty: the trainer's own programs.
  std::function<void(const Mesh& mesh, TrainerOptions& options)> prepare = {};
};

/// A run of a comparison.
struct LayoutRun {
  LayoutSettings settings;        ///< of the run
  std::vector<LayoutSwitch> off;  ///< what is switched off in it
  int noise = 0;                  ///< number of its rounding_noise.h; 0: none

  std::string text() const;  ///< for people: "dp 2, without layout.recompute"
};

/// Runs of one comparison, on one rank.
class LayoutRuns {
 public:
  /// `store` is of all ranks; none in a world of one. World and steps must outlive this.
  LayoutRuns(const World& world, const TrainedSteps& trained, std::optional<Store> store, std::chrono::milliseconds timeout);
  ~LayoutRuns();

  /// On rank 0: makes the run that later ones are compared with: the first, on one device, or another in its place.
  void make_reference(const LayoutRun& run);
  /// On rank 0: makes that run again, if it is on one device; as compare().
  std::vector<Deviation> repeat(const LayoutRun& run);
  /// On rank 0: what computes something else the second time, as both of these runs tell (repeat_check.h).
  NotRepeated not_repeated() const { return repeats_.found(); }
  /// On rank 0: makes another run; where it deviates from that one, in order.
  std::vector<Deviation> compare(const LayoutRun& run);
  /// On rank 0: the InputError of a trainer that keeps the run from being made; empty: nothing does.
  std::string refusal(const LayoutRun& run) const;
  /// On rank 0: the last run was made; `text` is what follow() returns.
  void end(const std::string& text);
  /// On rank 0: how many parameters are compared.
  int64_t num_parameters() const;

  /// On all others: takes part in rank 0's runs until the last was made. `run_of` tells the run in which these are off.
  std::string follow(const std::function<LayoutRun(const std::vector<std::string>& off)>& run_of);

 private:
  struct Reference;
  /// Sees the trainer before the first step and after each; steps are counted from 1.
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
