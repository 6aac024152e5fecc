// Checkpoints and weights in files, read without a trainer.
#pragma once

#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/format/compare_checkpoints.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/checkpoint/weights/weight_names.h"
