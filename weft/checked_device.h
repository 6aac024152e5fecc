// A device of LibTorch that checks the order of every access, and NCCL's rules on it: for tests without a GPU.
#pragma once

#include "weft/checked_device/checked_device.h"
#include "weft/checked_device/nccl/nccl_rules.h"
