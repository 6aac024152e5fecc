// The main function of programs whose samples are compared with Python packages (compare_in_python.sh).
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "weft/checkpoint/safetensors.h"

namespace weft::test {

/// Writes FOLDER/NAME.safetensors for each case: `sample(case)`, with `said(case)` as its metadata. Returns the exit
/// status.
template <class Cases, class Sample, class Said>
int write_samples(int argc, char** argv, const char* program, const Cases& cases, const Sample& sample, const Said& said) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", program);
    return 2;
  }
  try {
    for (const auto& c : cases) save_safetensors(fmt::format("{}/{}.safetensors", argv[1], c.name), sample(c), said(c));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
}

}  // namespace weft::test
