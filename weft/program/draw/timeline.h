// Timeline: one list as rows of labels, a lane each, for draw().
#pragma once

#include <string>

#include "weft/program/program.h"

namespace weft {

/// An instruction in a few letters: "load", "F3", "loss", "B3", "C0-7", "R5-7", "R(loss)", "norm", "U5-7".
std::string label(const Instruction& instruction);

/// A list as lines, each ended by a newline. Micro-batches like one already shown are folded into a line. Time runs to the
/// right, not to scale: a label stands to the right of all those in its row that it waits for, and of its lane's earlier ones.
std::string timeline(const InstructionList& list, int width);

}  // namespace weft
