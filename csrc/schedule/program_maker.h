#pragma once

#include <string>

#include "schedule/element_program.h"

namespace tilewright {

// Ends the making of a program that no family takes; becomes `why_not`.
struct ProgramRefusal {
  std::string why;
};

// The program of a body over the axes of its values: in the order of the dimensions, none joined. Throws
// ProgramRefusal. Private to schedule/element_program.cpp.
ElementProgram make_program(const Graph& body);

}  // namespace tilewright
