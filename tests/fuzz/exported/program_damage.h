// Damaged programs and lists of weights of .pt2 files: valid JSON whose graph, values or sizes are not what they were.
#pragma once

#include <string>

#include "tests/support/seeds.h"

namespace weft::fuzz {

/// One to four changes of the graph: nodes dropped, doubled, moved, retargeted, swapped for other operators or new; arguments,
/// shapes, symbols, types, signatures and versions changed; lists and texts made long, values nested deep.
std::string damaged_program(const std::string& program, test::Random& random);

/// The same for model_weights_config.json: sizes, strides, offsets, types, records that are missing, shared or of others.
std::string damaged_weights_list(const std::string& list, test::Random& random);

}  // namespace weft::fuzz
