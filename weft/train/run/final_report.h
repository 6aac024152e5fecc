// The parts of a run's final report.
#pragma once

#include <string>
#include <vector>

#include "weft/plan/layout/resolve.h"
#include "weft/recipe/recipe.h"
#include "weft/report/loss_trend.h"
#include "weft/report/meter.h"
#include "weft/report/report.h"
#include "weft/train/run/run_lengths.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// Measurements of a rank's own steps.
struct RankFigures {
  double waited_s = 0.0;                  ///< waiting for data
  double step_communication_share = 0.0;  ///< as in FinalReport, for this rank
};

/// Fills in the identity and the progress of the run, without communication.
void fill_run_identity(const Recipe& recipe, const ResolvedLayout& layout, const RunLengths& lengths, Trainer& trainer,
                       FinalReport& report);

/// Fills in step rates, with `tokens` per sample, and the trend of the loss.
void fill_step_figures(const Meter& meter, double tokens, const LossTrend& trend, FinalReport& report);

/// Fills in job, user and hosts.
void fill_owner(const World& world, FinalReport& report);

/// Fills in, for each rank or the worst one, shares of FinalReport::seconds and of step time, traffic and memory. Collectives
/// run on `device`. Collective over the world.
void gather_figures(Trainer& trainer, at::Device device, const RankFigures& own, FinalReport& report);

/// Seconds that this rank has spent in collectives so far, waiting included.
double communication_seconds(const Trainer& trainer);

/// The distinct texts of all ranks, in order. Collective over the world.
std::vector<std::string> united(Trainer& trainer, at::Device device, const std::vector<std::string>& texts);

/// Fills in, on rank 0, the digests (checkpoint/digest.h) of the weights and of their average, if one is kept. Rank 0 also
/// writes the ones whose evaluations count (evaluates_average()) to the .safetensors file `path`, unless it is empty. A digest
/// needs one weight at a time in memory, a file all of them. Collective over the world.
void fill_final_weights(Trainer& trainer, const Recipe& recipe, const std::string& path, FinalReport& report);

}  // namespace weft
