// What a run tells when it is over that takes all of its ranks.
#pragma once

#include <string>
#include <vector>

#include "weft/train/report/report.h"
#include "weft/train/run/trainer.h"

namespace weft {

/// Fills in what is told of each rank, or of the worst of them: shares of FinalReport::seconds, traffic, memory. `waited_s` is
/// for how long this rank's steps waited for data; collectives run on `device`. Collective over the world.
void gather_figures(Trainer& trainer, at::Device device, double waited_s, FinalReport& report);

/// The texts of all ranks, each once, in order. Collective over the world.
std::vector<std::string> united(Trainer& trainer, at::Device device, const std::vector<std::string>& texts);

/// The digest of the weights (checkpoint/digest.h), on rank 0, which also writes them to the .safetensors file `path` unless
/// that is empty: the digest takes them one at a time, a file takes them all. Collective over the world.
std::string final_weights(Trainer& trainer, const std::string& path);

}  // namespace weft
