#pragma once

#include <string>
#include <string_view>

#include "simulator/simulator.h"

// What a launch counted, as text.
namespace tilewright::sim {

// One line an access: requests, bytes, and what the memory system needed beside what dense addresses would.
std::string report_table(const LaunchResult& result);
// The PTX with, beside each line, how many warps ran it, and the sectors and bank passes of its accesses.
std::string report_listing(const LaunchResult& result, std::string_view ptx);
// All counters.
std::string report_json(const LaunchResult& result);

// Turns on the checks that a comma-separated list names: races, uninitialized, registers, all, none. Throws UserError.
void set_checks(LaunchConfig& config, const std::string& names);
// When asynchronous copies finish (eager, lazy or random) and in which order warps run (in-turn or random).
void set_order(LaunchConfig& config, std::string_view completion, std::string_view order);

}  // namespace tilewright::sim
