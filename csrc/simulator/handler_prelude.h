#pragma once

// Everything the handler groups include, ahead of the pragma that chooses their instruction set, so that inline
// functions shared with other files are compiled for the baseline.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "simulator/atomic_functions.h"
#include "simulator/floats.h"
#include "simulator/machine.h"
