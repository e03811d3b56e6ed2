#include "schedule/schedule.h"

#include <charconv>
#include <sstream>

#include "schedule/family.h"

namespace tilewright {

int64_t Schedule::param(std::string_view name) const {
  for (const auto& [key, value] : params) {
    if (key == name) return value;
  }
  throw InternalError("schedule `" + print(*this) + "` has no parameter " + std::string(name));
}

int64_t Schedule::param(std::string_view name, int64_t otherwise) const {
  for (const auto& [key, value] : params) {
    if (key == name) return value;
  }
  return otherwise;
}

std::string print(const Schedule& s) {
  std::string text = s.family;
  for (const auto& [key, value] : s.params) text += " " + key + "=" + std::to_string(value);
  return text;
}

Schedule parse_schedule(std::string_view text) {
  Schedule s;
  std::istringstream words{std::string(text)};
  if (!(words >> s.family)) throw UserError("empty schedule; expected a family and its parameters");
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    int64_t value = 0;
    const char* end = word.data() + word.size();
    const auto parsed = equals == std::string::npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                                    : std::from_chars(word.data() + equals + 1, end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      throw UserError("schedule parameter `" + word + "`; expected name=integer");
    }
    s.params.emplace_back(word.substr(0, equals), value);
  }
  return s;
}

Proposal propose(const Graph& body, const Context& ctx) {
  Proposal proposal;
  ProgramResult made = make_element_program(body);
  if (!made.program) {
    proposal.why_none.push_back(made.why_not);
    return proposal;
  }
  for (const Family& family : kFamilies) {
    if (family.takes_products != made.program->has_products()) continue;
    Proposal more = family.propose(*made.program, ctx);
    std::move(more.candidates.begin(), more.candidates.end(), std::back_inserter(proposal.candidates));
    for (const std::string& why : more.why_none) proposal.why_none.push_back(std::string(family.name) + ": " + why);
  }
  if (!proposal.candidates.empty()) proposal.why_none.clear();
  return proposal;
}

LaunchShape launch_shape(const Graph& body, const Schedule& schedule, const GpuFacts& gpu) {
  ProgramResult made = make_element_program(body);
  TW_CHECK(made.program) << made.why_not;
  for (const Family& family : kFamilies) {
    if (schedule.family == family.name) return family.launch(*made.program, schedule, gpu);
  }
  throw UserError("unknown family `" + schedule.family + "`");
}

}  // namespace tilewright
