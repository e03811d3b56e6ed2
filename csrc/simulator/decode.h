#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "simulator/flow.h"
#include "simulator/machine.h"

// From statements to instructions. decode.cpp holds operands, slots and the walk over a function; the other
// decode_*.cpp files hold one group of PTX instructions each.
namespace tilewright::sim {

// The dotted parts of an opcode. Every part must be taken by the decoder, so that no modifier goes unnoticed.
class Opcode {
 public:
  Opcode(std::string_view text, Position at);
  std::string_view name() const { return parts_[0]; }
  bool take(std::string_view part);
  // The first of `choices` that is present, taken; empty when none is.
  std::string_view take_any(std::initializer_list<std::string_view> choices);
  std::optional<Type> take_type();
  Type need_type();
  void take_prefixed(std::string_view prefix);  // all parts that begin so
  void finish() const;                          // throws when a part is left
  [[noreturn]] void unknown() const;

 private:
  std::string_view text_;
  Position at_;
  std::vector<std::string_view> parts_;
  std::vector<bool> used_;
};

// What the functions of one kernel share while they are decoded.
struct KernelLayout {
  const Module* module = nullptr;
  Kernel* kernel = nullptr;
  std::map<const Variable*, uint32_t> shared;      // offsets
  std::map<std::string_view, uint32_t> functions;  // index in Kernel::codes
};

class Decoder {
 public:
  Decoder(KernelLayout& layout, const FunctionSyntax& function, Code& code);
  void decode();

 private:
  using Method = void (Decoder::*)(Opcode&);
  static const std::unordered_map<std::string_view, Method>& methods();

  // Infrastructure.
  void place_variables();
  void decode_statement(uint32_t index);
  void resolve_targets(const std::vector<uint32_t>& pc_of);
  [[noreturn]] void error(const std::string& message) const;
  [[noreturn]] void unsupported() const;
  size_t count() const { return statement_->operands.size(); }
  const Operand& operand(size_t i) const;
  void need_operands(size_t low, size_t high) const;

  // Slots. `bytes` is the width of a lane; 0 a predicate.
  uint32_t new_slot(uint32_t bytes);
  uint32_t register_slot(uint32_t reg);
  uint32_t read(uint32_t slot);  // notes that the statement reads a register
  uint32_t written(uint32_t slot);
  uint32_t register_bytes(uint32_t reg) const;
  uint32_t constant(uint64_t bits, uint32_t bytes);
  uint32_t special(Special which, uint32_t bytes);
  uint32_t source(const Operand& op, Type type);
  uint32_t source_bits(const Operand& op, uint32_t bytes);
  uint32_t predicate(const Operand& op);
  uint32_t destination(const Operand& op, uint32_t bytes);
  uint32_t destination(const Operand& op, Type type) { return destination(op, type_bytes(type)); }
  uint32_t symbol_address(const Operand& op, uint32_t bytes);
  // A source that may be wider than the instruction reads.
  uint32_t narrowed_source(const Operand& op, Type type);
  bool read_dynamic_special(const Operand& op, uint32_t slot, uint32_t bytes);

  void note_uses(uint32_t first);                  // of the instructions from there on, for the check of registers
  Instr& emit(const std::string& key, Kind kind);  // of the statement, with its guard
  Instr& emit_internal(const std::string& key);    // a helper of the statement, unguarded
  uint32_t add_list(const std::vector<uint32_t>& values);
  uint32_t new_access(AccessKind kind);

  // decode_arithmetic.cpp
  void add_sub(Opcode& op);
  void mul_mad(Opcode& op);
  void carry_arithmetic(Opcode& op, const std::string& name, Type type, bool reads, bool writes);
  void float_arithmetic(Opcode& op, const std::string& name, Type type, size_t sources);
  void fma(Opcode& op);
  void div(Opcode& op);
  void rem(Opcode& op);
  void rcp_sqrt(Opcode& op);
  void approximation(Opcode& op);
  void min_max(Opcode& op);
  void abs_neg(Opcode& op);
  void copysign(Opcode& op);
  void testp(Opcode& op);
  void sad(Opcode& op);
  void dot_product(Opcode& op);
  void mul24(Opcode& op);
  void video(Opcode& op);
  void emit_flushed(const std::string& key, Type d, Type type, size_t sources);
  void emit_arithmetic(const std::string& key, Kind kind, Type d, std::initializer_list<Type> sources);

  // decode_logic.cpp
  void logic(Opcode& op);
  void shift(Opcode& op);
  void shf(Opcode& op);
  void bit_field(Opcode& op);
  void bit_count(Opcode& op);
  void bmsk_szext(Opcode& op);
  void prmt(Opcode& op);
  void lop3(Opcode& op);
  void setp(Opcode& op);
  void set(Opcode& op);
  void selp(Opcode& op);
  void slct(Opcode& op);
  void fns(Opcode& op);
  void cvt_pack(Opcode& op);
  void mov(Opcode& op);
  void mov_vector();
  void cvt(Opcode& op);
  void cvta(Opcode& op);
  void isspacep(Opcode& op);
  std::string compare_key(Opcode& op, std::string_view compare, bool ftz, Type type);

  // decode_memory.cpp
  struct Address {
    uint32_t slot = kNone;
    int64_t offset = 0;
    bool is_32 = false;
    bool frame_local = false;
    bool kernel_param = false;
  };
  Address address(const Operand& op, Space space);
  void set_address(Instr& in, const Address& a);
  void load(Opcode& op);
  void store(Opcode& op);
  void atom(Opcode& op);
  void cp_async(Opcode& op);
  void prefetch(Opcode& op);
  void create_policy(Opcode& op);
  Space take_space(Opcode& op);
  bool take_memory_modifiers(Opcode& op);  // whether the access is atomic; sets sync_
  bool take_groups(Opcode& op, Watch::Group group);
  std::vector<uint32_t> element_slots(const Operand& op, uint32_t vector, uint32_t bytes, bool is_store,
                                      uint32_t& reg_bytes);

  // decode_matrix.cpp
  void move_matrix(Opcode& op);
  void mma(Opcode& op);
  void wmma(Opcode& op);
  void wmma_product(Opcode& op);
  std::vector<uint32_t> vector_slots(const Operand& op, size_t n, uint32_t bytes, bool writes);

  // decode_async.cpp
  void mbarrier(Opcode& op);
  void bulk_copy(Opcode& op);
  void store_async(Opcode& op, bool reduces);
  uint32_t address_slot(const Operand& op, bool& is_32);
  uint32_t take_reduction(Opcode& op, uint32_t& bytes);
  void async_arrive(Opcode& op);
  void mapa(Opcode& op);
  void cluster_barrier(Opcode& op);
  void take_ordering(Opcode& op);

  // decode_control.cpp
  void bra(Opcode& op);
  void brx(Opcode& op);
  void call(Opcode& op);
  void simple(Opcode& op);
  void barrier(Opcode& op);
  void fence(Opcode& op);
  void shfl(Opcode& op);
  void vote(Opcode& op);
  void match(Opcode& op);
  void redux(Opcode& op);
  void elect(Opcode& op);
  void activemask(Opcode& op);
  void nanosleep(Opcode& op);
  uint32_t param_offset(const Operand& op, uint32_t bytes, const char* what);
  uint32_t param_bytes(const Operand& op) const;  // of one that param_offset has found

  KernelLayout& layout_;
  const FunctionSyntax& function_;
  Code& code_;
  const Statement* statement_ = nullptr;
  uint32_t statement_index_ = 0;
  std::vector<uint32_t> slots_;  // of the function's registers
  uint32_t predicate_room_ = 0;  // bytes left in the last predicate line
  uint32_t predicate_next_ = 0;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> constants_;
  std::map<std::pair<uint32_t, Special>, uint32_t> specials_;
  std::map<const Variable*, uint32_t> locals_;
  Flow flow_;
  uint8_t sync_ = 0;  // of the statement's access
  // Slots of the registers that the statement names: `written_` those that it writes, `named_` all.
  std::vector<uint32_t> read_, written_, named_;
};

}  // namespace tilewright::sim
