#include <unordered_map>

#include "simulator/machine.h"

namespace tilewright::sim {

#define TW_SIM_GROUPS(isa)                  \
  namespace isa {                           \
  void integer_rows(HandlerRows& rows);     \
  void float_rows(HandlerRows& rows);       \
  void half_rows(HandlerRows& rows);        \
  void convert_rows(HandlerRows& rows);     \
  void memory_rows(HandlerRows& rows);      \
  void atomic_rows(HandlerRows& rows);      \
  void matrix_rows(HandlerRows& rows);      \
  void wmma_rows(HandlerRows& rows);        \
  inline void all_rows(HandlerRows& rows) { \
    integer_rows(rows);                     \
    float_rows(rows);                       \
    half_rows(rows);                        \
    convert_rows(rows);                     \
    memory_rows(rows);                      \
    atomic_rows(rows);                      \
    matrix_rows(rows);                      \
    wmma_rows(rows);                        \
  }                                         \
  }
TW_SIM_GROUPS(baseline)
#ifdef TW_SIM_HAS_AVX2
TW_SIM_GROUPS(avx2)
#endif

void control_rows(HandlerRows& rows);
void collective_rows(HandlerRows& rows);
void mbarrier_rows(HandlerRows& rows);
void register_rows(HandlerRows& rows);

namespace {

bool host_has_avx2() {
#ifdef TW_SIM_HAS_AVX2
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

std::unordered_map<std::string, Handler> make_table() {
  HandlerRows rows;
#ifdef TW_SIM_HAS_AVX2
  if (host_has_avx2()) avx2::all_rows(rows);
#endif
  if (!host_has_avx2()) baseline::all_rows(rows);
  control_rows(rows);
  collective_rows(rows);
  mbarrier_rows(rows);
  register_rows(rows);
  std::unordered_map<std::string, Handler> table;
  for (auto& [key, fn] : rows) table.emplace(std::move(key), fn);
  return table;
}

}  // namespace

Handler find_handler(std::string_view key) {
  static const std::unordered_map<std::string, Handler> table = make_table();
  const auto it = table.find(std::string(key));
  return it == table.end() ? nullptr : it->second;
}

}  // namespace tilewright::sim
