// What a run tells when it is over.
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

/// What a rank measured of its own steps.
struct RankFigures {
  double waited_s = 0.0;                  ///< for data
  double step_communication_share = 0.0;  ///< FinalReport's, of this rank
};

/// Fills in what run it was and where it has come to, which takes no other rank.
void tell_what_it_was(const Recipe& recipe, const ResolvedLayout& layout, const RunLengths& lengths, Trainer& trainer,
                      FinalReport& report);

/// Fills in how fast the steps were, with `tokens` of a sample, and where the loss went.
void tell_steps(const Meter& meter, double tokens, const LossTrend& trend, FinalReport& report);

/// Fills in job, user and hosts.
void tell_whose_it_was(const World& world, FinalReport& report);

/// Fills in what is told of each rank, or of the worst of them: shares of FinalReport::seconds and of the steps, traffic,
/// memory. Collectives run on `device`. Collective over the world.
void gather_figures(Trainer& trainer, at::Device device, const RankFigures& own, FinalReport& report);

/// What this rank has spent in collectives so far, waiting included, in seconds.
double communication_seconds(const Trainer& trainer);

/// The texts of all ranks, each once, in order. Collective over the world.
std::vector<std::string> united(Trainer& trainer, at::Device device, const std::vector<std::string>& texts);

/// Fills in, on rank 0, the digests (checkpoint/digest.h) of the weights and of their average, where one is kept. Rank 0 also
/// writes to the .safetensors file `path`, unless that is empty, those of the two that evaluations decide by: a digest takes
/// them one at a time, a file takes them all. Collective over the world.
void tell_final_weights(Trainer& trainer, const Recipe& recipe, const std::string& path, FinalReport& report);

}  // namespace weft
