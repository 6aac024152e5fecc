// Launches: what a rank's host gives its device for each instruction. A device cannot run a kernel that it has not been given,
// and a host that waits for the device gives it nothing.
//
// Those of a block's passes and of the loss depend on the model and are counted on the meta device (nn/cost/measure_cost.h);
// those that the engine adds are in launches.cpp. Copies, collectives and messages are launches too. Left out:
// separate sums of tied weights, what layers share but make anew in a recompute, what running statistics and averages of
// weights add to norm and update, and what optimizers other than AdamW and SGD launch more.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// Launches of a block's passes on one micro-batch, without its calls on groups.
struct BlockLaunches {
  int forward = 0;          ///< launches of its forward
  int backward = 0;         ///< launches of a whole backward that writes gradients
  int adding_backward = 0;  ///< launches of one that adds to those of an earlier micro-batch
  int input = 0;            ///< launches of the input-gradient part of backward, if it splits
  int weight = 0;           ///< launches of the weight-gradient part that writes gradients
  int adding_weight = 0;    ///< launches of one that adds to them
  int decays = 1;           ///< different weight decays of its parameters

  bool operator==(const BlockLaunches&) const = default;  ///< member by member
};

/// The part of a step's launches that depends on model and optimizer.
struct ModelLaunches {
  std::vector<BlockLaunches> blocks = {};  ///< by block; empty: not counted
  int loss = 0;                            ///< launches of a micro-batch's loss and its backward
  int decays = 1;                          ///< different weight decays: one call each of the optimizer's kernel
  bool reads_late = false;                 ///< updates do without the host, which reads a step's numbers during the next
  bool shapes_vary = false;                ///< Model::shapes_vary
};

/// What the host does for an instruction.
struct HostWork {
  int launches = 0;       ///< what it gives the device
  bool waits = false;     ///< then it waits until the device has finished the instruction
  bool is_graph = false;  ///< one of the launches is a captured graph's
};

/// Returns what the host does, by instruction of a list of the program.
std::vector<HostWork> host_work(const Program& program, const InstructionList& list, const ModelLaunches& launches);

/// Whether updates of the program do without the host (ModelLaunches::reads_late), which would also have to read which
/// parameters a step has left out.
bool reads_late(const Program& program, const ModelLaunches& launches);

/// Whether a step's work can be captured as a graph and replayed (run.graph), as far as program and model say.
bool can_be_captured(const Program& program, const ModelLaunches& launches);
/// What the host does in a replayed step: the micro-batches' copies to the device and to the graph's place, the step's values,
/// the graph, and the copy of its results, all with the first instruction.
std::vector<HostWork> captured_work(const InstructionList& list);

}  // namespace weft
