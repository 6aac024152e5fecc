// The ten-line program of a user of weft: both ways to use it compile, link and run this.
#include <ATen/ops/ones.h>

#include <iostream>

#include "weft/comm/world.h"
#include "weft/program/build.h"
#include "weft/program/draw.h"

int main() {
  const weft::World world = weft::World::from_environment();
  const weft::Program program = weft::build_program({}, {.dp = 2});
  std::cout << weft::draw(program) << "rank " << world.rank() << " of " << world.size() << ", sum "
            << at::ones({3}).sum().item<float>() << "\n";
}
