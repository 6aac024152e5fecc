// A step as a program: schedules, building, verifying, simulating, drawing. Free of LibTorch.
#pragma once

#include "weft/program/axes.h"
#include "weft/program/buffers.h"
#include "weft/program/build/build.h"
#include "weft/program/check_program.h"
#include "weft/program/cost.h"
#include "weft/program/defect.h"
#include "weft/program/draw/draw.h"
#include "weft/program/draw/svg.h"
#include "weft/program/draw/trace.h"
#include "weft/program/pipeline/schedule.h"
#include "weft/program/pipeline/task_times.h"
#include "weft/program/program.h"
#include "weft/program/schedules/csv.h"
#include "weft/program/simulate/simulate.h"
#include "weft/program/timed.h"
#include "weft/program/verify/verify.h"
