// Inputs that a user gives weft: good ones to be damaged, and the reading of each as the command does it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/seeds.h"

namespace weft::fuzz {

enum class Kind {
  recipe,
  override_,
  hardware,
  profile,
  schedule,
  text,
  images,
  weights,
  environment,
  jpeg,
  png,
  tar,
  parquet,
  json_lines,
  token_files,
  arrays,
  cifar,
  torch_file,
  exported_archive,
  exported_program,
  exported_weights
};

inline constexpr int kNumKinds = 21;

std::string_view name(Kind kind);

/// Makes a damaged input of this kind in the folder, and reads it. Returns what is wrong with the refusal: not an error of
/// weft's, or not one clear line. Returns an empty string if the input was refused well, or accepted.
std::string try_damaged(Kind kind, const std::string& folder, test::Random& random);

}  // namespace weft::fuzz
