// Timeline: one list as rows of labels, one per lane, for draw().
#pragma once

#include <string>

#include "weft/program/program.h"

namespace weft {

/// Short label of an instruction: "load", "F3", "loss", "B3", "C0-7", "R5-7", "R(loss)", "norm", "U5-7".
std::string label(const Instruction& instruction);

/// Returns a list as lines, each ended by a newline. Repeated micro-batches are folded into a line. Time runs to the right, not
/// to scale: a label is right of all labels in its row that it waits for, and of its lane's earlier ones.
std::string timeline(const InstructionList& list, int width);

}  // namespace weft
