// What install() was given.
#pragma once

#include "weft/checked_device/checked_device.h"

namespace weft::checked_device {

const Options& options();

}  // namespace weft::checked_device
