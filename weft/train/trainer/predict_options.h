// Predictions of a Trainer: outputs [samples, ...] of the last block, on the CPU, converted to float32 if narrower.
//
// A prediction runs the forward of an evaluation (Context::training is false, BatchNorm uses its running statistics), with the
// weights, or inside Trainer::with_average() with their average; no target is read. It changes no weights, statistics or modes,
// and no random state. A batch is cut into micro-batches of the trainer's size, the last one smaller; a loader has its own
// size. Parts of tp and cp are joined, and the last pipeline stage sends the outputs to each of the others.
#pragma once

namespace weft {

/// Selects the outputs each rank receives.
struct PredictOptions {
  /// Gives all ranks the outputs of all samples, in order of data-parallel rank; each rank sends its part to every other.
  /// Otherwise a rank has the outputs of the samples it read.
  bool gathered = false;
};

}  // namespace weft
