// Damaged programs of torch.export: each is loaded, measured on the meta device and trained for a step, as its operators would
// be by weft train.
#pragma once

#include <string>

#include "tests/support/seeds.h"

namespace weft::fuzz {

void exported_archive(const std::string& folder, test::Random& random);
void exported_program(const std::string& folder, test::Random& random);
void exported_weights(const std::string& folder, test::Random& random);

}  // namespace weft::fuzz
