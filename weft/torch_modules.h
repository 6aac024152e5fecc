// torch::nn modules as blocks. Includes torch/nn's headers, which take seconds to compile: include it in few sources.
#pragma once

#include "weft/nn/modules/module_block.h"
