// Axes of a program's mesh: how many ranks are along them, and along which a step's sums run.
//
// cp and tp are named only where the mesh has them; the others always, so that a step reads the same on any number of ranks.
#pragma once

#include "weft/program/axis_set.h"
#include "weft/program/program.h"

namespace weft {

/// Ranks that meet along these axes. The pipeline ranks that hold one block are not counted apart.
int size_along(const Program& program, AxisSet axes);
/// Those of the axes that have more than one rank.
AxisSet occupied(const Program& program, AxisSet axes);
/// The axes, without cp and tp where they have one rank.
AxisSet named(const Program& program, AxisSet axes);

/// Along which ranks hold the same part of the state, and gradients are summed once each has its own.
AxisSet replica_axes(const Program& program);
/// Along which ranks hold different parts of one replica, whose squares add up to the gradient norm; none where one holds all.
AxisSet model_axes(const Program& program);
/// Along which blocks and the loss call other ranks while they run.
AxisSet inner_axes(const Program& program);
/// Along which losses are summed: all but tp, whose ranks compute the same ones.
AxisSet loss_axes(const Program& program);
/// Those of the reduce_loss: with squares of gradients, of which the ranks of tp have parts, these meet too.
AxisSet total_axes(const Program& program);

}  // namespace weft
