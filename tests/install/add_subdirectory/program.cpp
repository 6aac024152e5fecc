// The ten-line program of someone who embeds weft for its plans alone: only the layers beneath them get compiled.
#include "weft/program.h"

#include <iostream>

int main() {
  const weft::ModelCost model = {.name = "mlp", .blocks = {{.name = "hidden", .parameters = 64, .numel = 64}}};
  std::cout << weft::draw(weft::build_program(model, {.dp = 2}));
}
