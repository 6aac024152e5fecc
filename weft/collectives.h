// Communication between ranks: a world, a mesh's groups and their collectives, and how a rank's error reaches its launcher.
#pragma once

#include "weft/base/error.h"
#include "weft/comm/mesh.h"
#include "weft/comm/store/store_errors.h"
#include "weft/comm/world.h"
#include "weft/launch/error_pipe.h"
