// build_program: from a model's costs and a layout to the step program, by running the passes in one visible order.
//
// Costs no tensors and little time, whatever the number of ranks: the data-parallel copies of a pipeline rank share one list.
#pragma once

#include "weft/base/found.h"
#include "weft/program/build/step_layout.h"
#include "weft/program/program.h"

namespace weft {

/// The program of a step. None where its schedule, or its stages, do not go with slots (passes/slots.h) or with the limit of
/// gathered weights (passes/prefetch.h): others may. Throws InputError when the model has no blocks, a count is not positive,
/// slots is no power of two or does not divide micro_batches, or schedule and stages do not fit.
Found<Program> find_program(const ModelCost& model, const StepLayout& layout);
/// The program that find_program() finds; throws InputError where there is none.
Program build_program(const ModelCost& model, const StepLayout& layout);
/// The frame of the program that build_program() would make: no instructions, and nothing that follows from them (holders,
/// buffers). Needs no schedule.
Program frame_program(const ModelCost& model, const StepLayout& layout);

}  // namespace weft
