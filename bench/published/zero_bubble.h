// Published runs of zero-bubble pipelines (Qi et al. 2024, arXiv:2401.10241: tables 4, 5, 6, 8, 9, 10 and 12) and simulate()'s
// predictions: each row is a whole program, built as for training and simulated on hardware with the published times.
//
// How a run is modelled, the same for all rows:
// - All stages take the published times T_F, T_B, T_W of a micro-batch; a chunk takes its share. 1F1B and 1F1B-I run whole
//   backwards. 1F1B-I has one chunk per layer (the model's layers plus two, as the first and last stage hold one less).
// - A transfer takes T_comm, as a link's latency, from the end of a task to the start of the next stage's; the sender continues
//   meanwhile.
// - The cost is the longest span of a rank, and the bubble rate 1 - m (T_F + T_B + T_W) / cost, as the authors define them.
// Runs with synchronised updates take the end of the last rank's backward instead: no rank begins the next step before all have
// ended.
// - ZB-1p and ZB-2p, the authors' automatic schedules, are weft's at p and 2 p activations. A micro-batch that waits for its
//   weight part holds 32 / (34 + 5 a s / h) of its activations (the paper's table 1: a heads, s tokens, width h).
// - Rows without their own times take those of the same model's row with the nearest number of micro-batches (the first of
//   two), scaled by the samples per micro-batch and the layers per rank; transfers by the samples alone.
// - A step takes cost + c x (work of a rank), c being what the model's first row leaves over: one number per model, nothing
//   else is fitted. Time outside the pipeline is a share of the work, not constant: 0 to 15 ms for 2 to 8 micro-batches, 69 to
//   172 ms for 24 to 64 (1F1B, 1.5 B).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/program/pipeline/costs.h"
#include "weft/program/pipeline/shape.h"

namespace weft::published {

struct ZeroBubbleRow {
  std::string model, schedule;
  PipelineShape shape;
  int samples = 0;  ///< per micro-batch
  double kept_share = 1.0;
  std::optional<double> bubble, step_seconds;
  std::optional<StageTimes> own_times;  ///< ms
  double own_transfer = 0.0;            ///< ms
};

struct ZeroBubblePrediction {
  double bubble = 0.0;
  double cost_seconds = 0.0;  ///< the pipeline alone
  double work_seconds = 0.0;  ///< per rank
  double step_seconds = 0.0;
};

/// Rows of zero_bubble_2024.csv.
std::vector<ZeroBubbleRow> zero_bubble_rows(const std::string& path);

/// One prediction per row.
std::vector<ZeroBubblePrediction> predict(const std::vector<ZeroBubbleRow>& rows);

/// Returns whether the authors searched for the schedule with a memory limit.
bool is_automatic(const ZeroBubbleRow& row);

/// Counts the rows that can be compared and those within a tolerance.
struct Score {
  int within = 0, of = 0;
  void add(bool is_within) { ++of, within += is_within ? 1 : 0; }
  double share() const { return of > 0 ? static_cast<double>(within) / of : 0.0; }
};

struct ZeroBubbleScores {
  Score by_hand;    ///< 1F1B, 1F1B-I, ZB-H1, ZB-H2 with their own times: bubble within 1 percentage point
  Score automatic;  ///< ZB-1p, ZB-2p with their own times: bubble at most half a percentage point above the authors'
  Score borrowed;   ///< bubbles of rows without their own times: within 1 percentage point
  Score steps;      ///< step times within 5 %
};

ZeroBubbleScores score(const std::vector<ZeroBubbleRow>& rows, const std::vector<ZeroBubblePrediction>& predictions);

}  // namespace weft::published
