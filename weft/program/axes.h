// Axes of a program's mesh: their sizes, and the axes of a step's sums.
//
// cp and tp appear only if the mesh has them, the other axes always, so that a step reads the same on any number of ranks.
#pragma once

#include "weft/program/axis_set.h"
#include "weft/program/program.h"

namespace weft {

/// Number of ranks along these axes: the product of their sizes.
int size_along(const Program& program, AxisSet axes);
/// Returns the axes with more than one rank.
AxisSet occupied(const Program& program, AxisSet axes);
/// Returns the axes, without cp and tp where these have one rank.
AxisSet named(const Program& program, AxisSet axes);

/// Axes along which ranks hold the same part of the state, so their gradients are summed.
AxisSet replica_axes(const Program& program);
/// Axes along which ranks hold different parts of one replica; their squares add up to the gradient norm. May be empty.
AxisSet model_axes(const Program& program);
/// Axes along which blocks and the loss call other ranks while they run.
AxisSet inner_axes(const Program& program);
/// Axes along which losses are summed: all except tp, whose ranks compute the same losses.
AxisSet loss_axes(const Program& program);
/// Axes of reduce_loss. Includes tp if squares of gradients are summed too, since tp divides the gradients.
AxisSet total_axes(const Program& program);

}  // namespace weft
