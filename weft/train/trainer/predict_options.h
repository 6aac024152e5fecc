// How a Trainer hands out what its model makes of samples: outputs [samples, ...] of the last block, on the CPU, in float32
// where they are narrower.
//
// A prediction runs the forward of an evaluation (Context::training is false, BatchNorm takes its running statistics), with the
// weights, or inside Trainer::with_average() with their average; no target is read. It changes nothing: no weights, statistics
// or modes, and nobody's random numbers. A batch is cut into micro-batches of the trainer's size, the last one smaller; a
// loader has its own. Parts of tp and cp are joined, and the last stage of a pipeline sends the outputs to each of the others.
#pragma once

namespace weft {

/// Which outputs a rank has.
struct PredictOptions {
  /// All ranks have those of all samples, in order: of data-parallel ranks one after another, each of which sends its own to
  /// every other. Otherwise a rank has those of the samples that it read.
  bool gathered = false;
};

}  // namespace weft
