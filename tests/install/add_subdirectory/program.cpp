// A ten-line program that embeds weft only for its plans: only the layers beneath them are compiled.
#include "weft/program.h"

#include <iostream>

int main() {
  const weft::ModelCost model = {.name = "mlp", .blocks = {{.name = "hidden", .parameters = 64, .numel = 64}}};
  std::cout << weft::draw(weft::build_program(model, {.dp = 2}));
}
