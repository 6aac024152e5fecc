// An earlier name of what weft/torch_modules.h includes.
#pragma once

#include "weft/torch_modules.h"
