// An earlier name of what weft/trainer.h includes.
#pragma once

#include "weft/trainer.h"
