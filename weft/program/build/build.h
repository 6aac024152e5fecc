// build_program: builds the step program from a model's costs and a layout, by running the passes in a fixed order.
//
// Allocates no tensors and is fast for any number of ranks: data-parallel copies of a pipeline rank share one list.
#pragma once

#include "weft/base/found.h"
#include "weft/program/build/step_layout.h"
#include "weft/program/program.h"

namespace weft {

/// Returns the program of a step; why_not if its schedule or stages do not work with slots (passes/slots.h) or the limit of
/// gathered weights (passes/prefetch.h). Throws InputError if the model has no blocks, a count is not positive, slots is not a
/// power of two or does not divide micro_batches, or schedule and stages do not fit.
Found<Program> find_program(const ModelCost& model, const StepLayout& layout);
/// Returns the program of find_program(); throws InputError if there is no program.
Program build_program(const ModelCost& model, const StepLayout& layout);
/// Returns the frame of build_program()'s program, without instructions or anything derived from them (holders, buffers). Needs
/// no schedule.
Program frame_program(const ModelCost& model, const StepLayout& layout);

}  // namespace weft
