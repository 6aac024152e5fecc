// LayoutBounds: least time and memory of a search's layouts, each part of them worked out once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/plan/search/block_facts.h"
#include "weft/plan/search/data_rings.h"
#include "weft/plan/search/pipeline_bound.h"
#include "weft/plan/search/schedule_facts.h"
#include "weft/plan/search/search_space.h"
#include "weft/plan/search/state_bound.h"

namespace weft {

/// A layout and the number of micro-batches per rank that it has.
struct CountedChoice {
  LayoutChoice choice = {};
  int micro_batches = 1;
};

/// Bounds never exceed what a simulation of the layout says. All arguments must outlive this object. Functions throw InputError
/// for layouts that no run accepts, where they notice.
class LayoutBounds {
 public:
  LayoutBounds(const SearchSpace& space, const Hardware& hardware, std::shared_ptr<CostTable> costs)
      : space_(space), hardware_(hardware), blocks_(space, hardware, std::move(costs)), rings_(hardware) {}

  /// Returns the layout with its micro-batches. Throws InputError as resolve() does, for each phase of batch.ramp too.
  CountedChoice counted(const LayoutChoice& choice) const;
  /// True if blocks() has said why not for other micro-batches or recompute of these blocks.
  bool is_refused(BlockChoice blocks) const;
  /// Measures the costs of the layout's blocks, if they have any. Thread-safe.
  void measure(const LayoutChoice& layout) const { blocks_.measure(layout); }
  /// Returns what is known of the layout's blocks; why_not if the model cannot be divided like this.
  const BlockFacts& blocks(const LayoutChoice& choice);
  /// Returns why there is no such pipeline: its schedule, or its stages; empty if there is one.
  std::string why_no_pipeline(const CountedChoice& layout);
  /// True if an earlier value of layout.stages makes the same stages.
  bool repeats_stages(const CountedChoice& layout);

  /// Least seconds of a step for any stages, schedule and states.
  double seconds_of_blocks(const CountedChoice& layout);
  /// The same for any states.
  double seconds_of_pipeline(const CountedChoice& layout);
  /// Least seconds of a step.
  double seconds(const CountedChoice& layout);
  /// A higher bound, which takes time for each task of the schedule.
  double refined_seconds(const CountedChoice& layout);
  /// Least bytes of a rank in any layout with these blocks: those of one block's forward. More samples take no less.
  int64_t bytes_of_blocks(const LayoutChoice& choice);
  /// Least bytes of the fullest rank.
  int64_t bytes(const CountedChoice& layout);

 private:
  /// Bounds of a pipeline's ranks.
  struct Pipeline {
    std::vector<RankBound> ranks = {};
    bool is_refined = false;
  };
  const ScheduleFacts& schedule(const CountedChoice& layout);
  Link link_between_stages(int pp) const;
  PipelineInputs pipeline_inputs(const CountedChoice& layout);
  Pipeline& pipeline(const CountedChoice& layout);
  StateInputs state_inputs(const CountedChoice& layout);
  const DataRings& rings(const LayoutChoice& choice);

  const SearchSpace& space_;
  const Hardware& hardware_;
  BlockFactsTable blocks_;
  ScheduleTable schedules_;
  DataRingTable rings_;
  std::map<BlockChoice, BlockFacts> refused_;  ///< by blocks without micro-batch and recompute
  std::map<std::pair<BlockChoice, PipelineChoice>, Pipeline> pipelines_;
};

}  // namespace weft
