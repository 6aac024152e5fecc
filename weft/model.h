// Parts of a model: blocks, a loss, the layers that are divided; and weft's own models.
#pragma once

#include "weft/models/gpt.h"
#include "weft/models/llama.h"
#include "weft/models/resnet.h"
#include "weft/models/vision.h"
#include "weft/nn/block.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/model.h"
#include "weft/nn/split_table.h"
#include "weft/optim/freeze.h"
