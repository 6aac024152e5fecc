// StageFitter: cuts a model into the stages of a schedule, within layout.stage_gb.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/base/found.h"
#include "weft/plan/cost/block_work.h"
#include "weft/plan/layout/plan.h"
#include "weft/plan/pipeline/stage_bytes.h"
#include "weft/program/memory.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Most block forwards in a program that may be built many times; each takes some 5 microseconds.
constexpr int64_t kMostForwards = 50'000;

/// Cuts one model under one recipe, for any schedule.
class StageFitter {
 public:
  /// `base` has its layout and the model's cost; `work` is the work of its blocks. All arguments must outlive the fitter.
  StageFitter(const Recipe& recipe, const Plan& base, const std::vector<BlockWork>& work)
      : recipe_(recipe), base_(base), work_(work) {}

  /// Number of block forwards in a step.
  int64_t forwards() const { return static_cast<int64_t>(work_.size()) * base_.layout.micro_batches; }

  /// Returns the first block of each of `stages` stages, as layout.stages says.
  Found<std::vector<int>> cut(int stages) const;

  /// Returns the plan with this schedule, cut so that no rank's estimate exceeds layout.stage_gb.
  Found<Plan> fitted(const Schedule& schedule) const;

 private:
  Found<Plan> built(const Schedule& schedule, std::vector<int> first_block) const;
  std::optional<std::vector<int>> smaller_cut(const Plan& plan, const StageBytes& bytes,
                                              const std::vector<MemoryEstimate>& by_stage_rank, int64_t limit) const;
  std::optional<std::vector<int>> cut_of_all_stages(const Schedule& schedule, const std::vector<int>& near,
                                                    int64_t limit) const;
  int most_tries(int64_t forwards_of_stages) const;
  std::vector<int64_t> state_bytes(const Plan& plan) const;

  const Recipe& recipe_;
  const Plan& base_;
  const std::vector<BlockWork>& work_;
};

}  // namespace weft
