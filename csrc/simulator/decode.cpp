#include "simulator/decode.h"

#include <algorithm>
#include <bit>
#include <set>

namespace tilewright::sim {
namespace {

constexpr uint32_t kMaxFrameBytes = 64u << 20;
constexpr uint32_t kMaxLocalBytes = 512u << 10;

uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }

const std::unordered_map<std::string_view, Special> kSpecials = {
    {"%tid.x", Special::kTidX},
    {"%tid.y", Special::kTidY},
    {"%tid.z", Special::kTidZ},
    {"%ntid.x", Special::kNtidX},
    {"%ntid.y", Special::kNtidY},
    {"%ntid.z", Special::kNtidZ},
    {"%ctaid.x", Special::kCtaidX},
    {"%ctaid.y", Special::kCtaidY},
    {"%ctaid.z", Special::kCtaidZ},
    {"%nctaid.x", Special::kNctaidX},
    {"%nctaid.y", Special::kNctaidY},
    {"%nctaid.z", Special::kNctaidZ},
    {"%laneid", Special::kLaneid},
    {"%warpid", Special::kWarpid},
    {"%nwarpid", Special::kNwarpid},
    {"%smid", Special::kSmid},
    {"%nsmid", Special::kNsmid},
    {"%gridid", Special::kGridid},
    {"%lanemask_eq", Special::kLanemaskEq},
    {"%lanemask_le", Special::kLanemaskLe},
    {"%lanemask_lt", Special::kLanemaskLt},
    {"%lanemask_ge", Special::kLanemaskGe},
    {"%lanemask_gt", Special::kLanemaskGt},
    {"%dynamic_smem_size", Special::kDynamicSmem},
    {"%total_smem_size", Special::kTotalSmem},
    {"%aggr_smem_size", Special::kAggrSmem},
    {"%clusterid.x", Special::kClusteridX},
    {"%clusterid.y", Special::kClusteridY},
    {"%clusterid.z", Special::kClusteridZ},
    {"%nclusterid.x", Special::kNclusteridX},
    {"%nclusterid.y", Special::kNclusteridY},
    {"%nclusterid.z", Special::kNclusteridZ},
    {"%cluster_ctaid.x", Special::kClusterCtaidX},
    {"%cluster_ctaid.y", Special::kClusterCtaidY},
    {"%cluster_ctaid.z", Special::kClusterCtaidZ},
    {"%cluster_nctaid.x", Special::kClusterNctaidX},
    {"%cluster_nctaid.y", Special::kClusterNctaidY},
    {"%cluster_nctaid.z", Special::kClusterNctaidZ},
    {"%cluster_ctarank", Special::kClusterCtarank},
    {"%cluster_nctarank", Special::kClusterNctarank},
    {"%is_explicit_cluster", Special::kIsExplicitCluster},
    {"%reserved_smem_offset_begin", Special::kReservedSmemBegin},
    {"%envreg1", Special::kEnvreg1},
    {"%envreg2", Special::kEnvreg2},
};

uint64_t bits_of(const Number& n, Type type) {
  const uint32_t bytes = type_bytes(type);
  if (type == Type::kF64 || type == Type::kF32) {
    const double value = n.is_f32     ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(n.bits)))
                         : n.is_float ? std::bit_cast<double>(n.bits)
                                      : static_cast<double>(static_cast<int64_t>(n.bits));
    if (type == Type::kF64) return std::bit_cast<uint64_t>(value);
    return n.is_f32 ? n.bits : std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  return bytes >= 8 ? n.bits : n.bits & ((uint64_t{1} << (8 * bytes)) - 1);
}

}  // namespace

Opcode::Opcode(std::string_view text, Position at) : text_(text), at_(at) {
  size_t start = 0;
  while (start <= text.size()) {
    const size_t dot = std::min(text.find('.', start), text.size());
    parts_.push_back(text.substr(start, dot - start));
    start = dot + 1;
  }
  used_.assign(parts_.size(), false);
  used_[0] = true;
}

bool Opcode::take(std::string_view part) {
  for (size_t i = 1; i < parts_.size(); ++i) {
    if (used_[i] || parts_[i] != part) continue;
    used_[i] = true;
    return true;
  }
  return false;
}

std::string_view Opcode::take_any(std::initializer_list<std::string_view> choices) {
  for (std::string_view c : choices)
    if (take(c)) return c;
  return {};
}

std::optional<Type> Opcode::take_type() {
  for (size_t i = 1; i < parts_.size(); ++i) {
    if (used_[i]) continue;
    if (auto type = type_from_name(parts_[i])) {
      used_[i] = true;
      return type;
    }
  }
  return std::nullopt;
}

Type Opcode::need_type() {
  const auto type = take_type();
  if (!type) unknown();
  return *type;
}

void Opcode::take_prefixed(std::string_view prefix) {
  for (size_t i = 1; i < parts_.size(); ++i)
    if (parts_[i].substr(0, prefix.size()) == prefix) used_[i] = true;
}

void Opcode::finish() const {
  if (std::find(used_.begin(), used_.end(), false) != used_.end()) unknown();
}

void Opcode::unknown() const { syntax_error(at_, "the simulator has no instruction '" + std::string(text_) + "'"); }

Decoder::Decoder(KernelLayout& layout, const FunctionSyntax& function, Code& code)
    : layout_(layout), function_(function), code_(code), slots_(function.registers.size(), kNone) {}

void Decoder::error(const std::string& message) const {
  syntax_error(statement_ ? statement_->at : function_.at,
               std::string(statement_ ? statement_->opcode : function_.name) + ": " + message);
}

void Decoder::unsupported() const {
  syntax_error(statement_->at, "the simulator has no instruction '" + std::string(statement_->opcode) + "'");
}

const Operand& Decoder::operand(size_t i) const {
  if (i >= count()) error("found " + std::to_string(count()) + " operands, expected more");
  return statement_->operands[i];
}

void Decoder::need_operands(size_t low, size_t high) const {
  if (count() < low || count() > high)
    error("found " + std::to_string(count()) + " operands, expected " + std::to_string(low) +
          (high > low ? " to " + std::to_string(high) : ""));
}

uint32_t Decoder::new_slot(uint32_t bytes) {
  if (bytes == 0) {
    if (predicate_room_ == 0) {
      predicate_next_ = code_.frame_bytes;
      code_.frame_bytes += 64;
      predicate_room_ = 64;
    }
    predicate_room_ -= 4;
    predicate_next_ += 4;
    return predicate_next_ - 4;
  }
  const uint32_t slot = code_.frame_bytes;
  code_.frame_bytes += std::max(bytes, 2u) * kLanes;
  if (code_.frame_bytes > kMaxFrameBytes) error("too many registers: a warp's frame would pass 64 MiB");
  return slot;
}

uint32_t Decoder::register_bytes(uint32_t reg) const {
  const uint32_t bytes = type_bytes(function_.registers[reg].type);
  return bytes == 1 ? 2 : bytes;
}

uint32_t Decoder::register_slot(uint32_t reg) {
  if (slots_[reg] == kNone) {
    slots_[reg] = new_slot(register_bytes(reg));
    code_.register_of.emplace(slots_[reg], reg);
  }
  named_.push_back(slots_[reg]);
  return slots_[reg];
}

uint32_t Decoder::constant(uint64_t bits, uint32_t bytes) {
  const auto [it, fresh] = constants_.try_emplace({bytes, bits}, 0);
  if (fresh) {
    it->second = new_slot(bytes);
    code_.constants.push_back({it->second, bytes, bits});
  }
  return it->second;
}

uint32_t Decoder::special(Special which, uint32_t bytes) {
  const auto [it, fresh] = specials_.try_emplace({bytes, which}, 0);
  if (fresh) {
    it->second = new_slot(bytes);
    code_.specials.push_back({it->second, bytes, which});
  }
  return it->second;
}

Instr& Decoder::emit_internal(const std::string& key) {
  Instr in;
  in.fn = find_handler(key);
  if (!in.fn) unsupported();
  in.kind = Kind::kInternal;
  in.statement = statement_index_;
  code_.instrs.push_back(in);
  return code_.instrs.back();
}

Instr& Decoder::emit(const std::string& key, Kind kind) {
  Instr& in = emit_internal(key);
  in.kind = kind;
  if (statement_->guard >= 0) {
    in.guard = read(register_slot(static_cast<uint32_t>(statement_->guard)));
    in.guard_negated = statement_->guard_negated;
  }
  return in;
}

uint32_t Decoder::add_list(const std::vector<uint32_t>& values) {
  const uint32_t at = static_cast<uint32_t>(code_.lists.size());
  code_.lists.insert(code_.lists.end(), values.begin(), values.end());
  return at;
}

uint32_t Decoder::new_access(AccessKind kind) {
  AccessSite site;
  site.code = &code_;
  site.pc = static_cast<uint32_t>(code_.instrs.size()) - 1;
  site.kind = kind;
  layout_.kernel->accesses.push_back(site);
  return static_cast<uint32_t>(layout_.kernel->accesses.size()) - 1;
}

// %clock and its like change while a block runs: they are read by an instruction.
bool Decoder::read_dynamic_special(const Operand& op, uint32_t slot, uint32_t bytes) {
  if (op.name != "%clock" && op.name != "%clock64" && op.name != "%clock_hi" && op.name != "%globaltimer" &&
      op.name != "%globaltimer_lo" && op.name != "%globaltimer_hi")
    return false;
  Instr& in = emit_internal("clock");
  in.d = slot;
  in.reg_bytes = static_cast<uint8_t>(bytes);
  return true;
}

// The address of a variable or function: of shared memory its offset, of local memory its offset in the thread's.
uint32_t Decoder::symbol_address(const Operand& op, uint32_t bytes) {
  if (bytes != 4 && bytes != 8) error("an address needs 32 or 64 bits");
  const auto plus = [&](uint64_t base) {
    return constant((base + static_cast<uint64_t>(op.offset)) & (bytes == 4 ? 0xffffffffu : ~uint64_t{0}), bytes);
  };
  const auto indirect = [&](const char* key, int64_t offset) {
    const uint32_t slot = new_slot(bytes);
    Instr& in = emit_internal(key);
    in.d = slot;
    in.reg_bytes = static_cast<uint8_t>(bytes);
    in.imm = offset + op.offset;
    return slot;
  };
  const Variable* v = function_.find_variable(statement_->scope, op.name);
  if (v && locals_.count(v)) return indirect("local_address", locals_.at(v));
  for (size_t i = 0; i < function_.params.size(); ++i) {
    if (function_.params[i].name != op.name) continue;
    return indirect(function_.is_entry ? "param_address" : "local_address", code_.params[i].offset);
  }
  if (!v) {
    for (const Variable& m : layout_.module->syntax.variables)
      if (m.name == op.name) v = &m;
  }
  if (v) {
    if (const auto it = layout_.shared.find(v); it != layout_.shared.end()) return plus(it->second);
    if (const Module::Placed* placed = layout_.module->find_placed(op.name))
      return plus(reinterpret_cast<uint64_t>(placed->memory.data()));
    syntax_error(op.at, "variable '" + std::string(op.name) + "' is declared .extern and not defined in this module");
  }
  if (layout_.functions.count(op.name)) return plus(kFunctionWindow + layout_.module->function_number(op.name));
  syntax_error(op.at, "unknown name '" + std::string(op.name) + "'");
}

uint32_t Decoder::source(const Operand& op, Type type) {
  if (type == Type::kPred) return predicate(op);
  const uint32_t bytes = std::max(type_bytes(type), 2u);
  if (op.negated) syntax_error(op.at, "'!' applies to predicates");
  switch (op.kind) {
    case Operand::kReg: {
      const uint32_t have = register_bytes(op.reg);
      if (have != bytes)
        syntax_error(op.at, "register '" + std::string(op.name) + "' is ." +
                                type_name(function_.registers[op.reg].type) + ", expected one for ." + type_name(type));
      return read(register_slot(op.reg));
    }
    case Operand::kNumber:
      return constant(bits_of(op.number, type), bytes);
    case Operand::kName: {
      if (const auto it = kSpecials.find(op.name); it != kSpecials.end()) return special(it->second, bytes);
      if (op.name[0] == '%') {
        const uint32_t slot = new_slot(bytes);
        if (read_dynamic_special(op, slot, bytes)) return slot;
        syntax_error(op.at, "unknown register '" + std::string(op.name) + "'");
      }
      return symbol_address(op, bytes);
    }
    default:
      syntax_error(op.at, "found an operand of another form, expected a register or a number");
  }
}

uint32_t Decoder::source_bits(const Operand& op, uint32_t bytes) {
  return source(op, bytes == 2 ? Type::kB16 : bytes == 4 ? Type::kB32 : bytes == 8 ? Type::kB64 : Type::kB128);
}

uint32_t Decoder::predicate(const Operand& op) {
  uint32_t slot;
  if (op.kind == Operand::kNumber) {
    slot = constant((op.number.bits != 0) != op.negated, 0);
    return slot;
  }
  if (op.kind == Operand::kName) {
    const auto it = kSpecials.find(op.name);
    if (it == kSpecials.end()) syntax_error(op.at, "unknown predicate '" + std::string(op.name) + "'");
    slot = special(it->second, 0);
  } else {
    if (op.kind != Operand::kReg || function_.registers[op.reg].type != Type::kPred)
      syntax_error(op.at, "expected a predicate");
    slot = read(register_slot(op.reg));
  }
  if (!op.negated) return slot;
  const uint32_t inverse = new_slot(0);
  Instr& in = emit_internal("not.pred");
  in.d = inverse;
  in.a = slot;
  return inverse;
}

uint32_t Decoder::destination(const Operand& op, uint32_t bytes) {
  if (op.kind == Operand::kSink) return bytes == 0 ? kNone : new_slot(bytes);
  if (op.kind != Operand::kReg) syntax_error(op.at, "expected a register to write");
  const uint32_t have = register_bytes(op.reg);
  if (have != std::max(bytes, bytes == 0 ? 0u : 2u))
    syntax_error(op.at, "register '" + std::string(op.name) + "' is ." + type_name(function_.registers[op.reg].type) +
                            ", expected one of " + (bytes == 0 ? "type .pred" : std::to_string(8 * bytes) + " bits"));
  return written(register_slot(op.reg));
}

uint32_t Decoder::narrowed_source(const Operand& op, Type type) {
  const uint32_t bytes = std::max(type_bytes(type), 2u);
  if (op.kind != Operand::kReg || register_bytes(op.reg) <= bytes) return source(op, type);
  const uint32_t have = register_bytes(op.reg);
  const uint32_t slot = new_slot(bytes);
  const uint32_t from = read(register_slot(op.reg));
  Instr& in = emit_internal("cvt.u" + std::to_string(8 * bytes) + ".u" + std::to_string(8 * have));
  in.d = slot;
  in.a = from;
  return slot;
}

void Decoder::place_variables() {
  const auto place = [&](const Variable& v) {
    const uint32_t align = std::max(v.align, 1u);
    if (v.bytes > kMaxLocalBytes) syntax_error(v.at, "local memory of more than 512 KiB a thread");
    code_.local_bytes = round_up(code_.local_bytes, align);
    const uint32_t offset = code_.local_bytes;
    code_.local_bytes += static_cast<uint32_t>(v.bytes);
    if (code_.local_bytes > kMaxLocalBytes) syntax_error(v.at, "local memory of more than 512 KiB a thread");
    return offset;
  };
  uint32_t params = 0;
  for (const Variable& p : function_.params) {
    const uint32_t bytes = static_cast<uint32_t>(p.bytes);
    if (function_.is_entry) {
      params = round_up(params, std::max(p.align, 1u));
      code_.params.push_back({params, bytes});
      params += bytes;
    } else {
      code_.params.push_back({place(p), bytes});
    }
  }
  if (function_.is_entry) layout_.kernel->param_bytes = params;
  for (const Variable& r : function_.results) code_.results.push_back({place(r), static_cast<uint32_t>(r.bytes)});
  for (const Variable& v : function_.variables)
    if (v.space == Space::kLocal || v.space == Space::kParam) locals_[&v] = place(v);
}

void Decoder::decode_statement(uint32_t index) {
  statement_index_ = index;
  statement_ = &function_.statements[index];
  Opcode op(statement_->opcode, statement_->at);
  static const std::set<std::string_view> kTextures = {"tex", "tld4", "txq", "istypep", "suld", "sust", "sured", "suq"};
  if (kTextures.count(op.name()))
    syntax_error(statement_->at, std::string(statement_->opcode) + ": textures and surfaces cannot be simulated");
  const auto it = methods().find(op.name());
  if (it == methods().end()) unsupported();
  const uint32_t first = static_cast<uint32_t>(code_.instrs.size());
  read_.clear();
  written_.clear();
  named_.clear();
  (this->*it->second)(op);
  note_uses(first);
}

// A register that the statement names and does not read is one that it writes.
void Decoder::note_uses(uint32_t first) {
  code_.uses_of.resize(code_.instrs.size());
  if (named_.empty()) return;
  uint32_t at = static_cast<uint32_t>(code_.instrs.size()) - 1;
  while (at > first && code_.instrs[at].kind == Kind::kInternal) --at;
  const uint32_t guard = code_.instrs[at].guard;
  Code::Uses& u = code_.uses_of[at];
  u.first = static_cast<uint32_t>(code_.uses.size());
  u.copies = code_.instrs[at].kind == Kind::kMove;
  std::vector<uint32_t> reads, writes;
  for (uint32_t slot : named_) {
    // The guard is read by all lanes, before it turns some off: run_warp looks at it.
    const auto in = [&](const std::vector<uint32_t>& list) {
      return std::find(list.begin(), list.end(), slot) != list.end();
    };
    if (in(written_)) writes.push_back(slot);
    if (in(read_) && slot != guard) reads.push_back(slot);
    if (!in(written_) && !in(read_)) writes.push_back(slot);
  }
  code_.uses.insert(code_.uses.end(), reads.begin(), reads.end());
  code_.uses.insert(code_.uses.end(), writes.begin(), writes.end());
  u.reads = static_cast<uint32_t>(reads.size());
  u.writes = static_cast<uint32_t>(writes.size());
}

uint32_t Decoder::read(uint32_t slot) {
  read_.push_back(slot);
  return slot;
}
uint32_t Decoder::written(uint32_t slot) {
  written_.push_back(slot);
  return slot;
}

void Decoder::resolve_targets(const std::vector<uint32_t>& pc_of) {
  const Handler branch = find_handler("bra"), branch_indexed = find_handler("brx.idx");
  for (Instr& in : code_.instrs) {
    if (in.fn == branch) in.target = pc_of[in.target];
    if (in.fn == branch_indexed)
      for (uint32_t k = 1; k <= code_.lists[in.list]; ++k) code_.lists[in.list + k] = pc_of[code_.lists[in.list + k]];
    if (in.meeting != kNone) in.meeting = pc_of[in.meeting];
  }
}

void Decoder::decode() {
  code_.syntax = &function_;
  code_.frame_bytes = 64;  // slot 0 is never a register
  place_variables();
  flow_ = analyze_flow(function_);
  const uint32_t n = static_cast<uint32_t>(function_.statements.size());
  std::vector<uint32_t> pc_of(n + 1);
  for (uint32_t i = 0; i < n; ++i) {
    pc_of[i] = static_cast<uint32_t>(code_.instrs.size());
    statement_index_ = i;
    if (flow_.is_meeting[i]) {
      statement_ = &function_.statements[i];
      emit_internal("reconverge");
    }
    decode_statement(i);
  }
  pc_of[n] = static_cast<uint32_t>(code_.instrs.size());
  statement_ = nullptr;
  statement_index_ = n;
  Instr end;
  end.fn = find_handler("ret");
  end.kind = Kind::kInternal;
  end.statement = n ? n - 1 : 0;
  code_.instrs.push_back(end);
  code_.uses_of.resize(code_.instrs.size());
  resolve_targets(pc_of);
}

const std::unordered_map<std::string_view, Decoder::Method>& Decoder::methods() {
  using D = Decoder;
  static const std::unordered_map<std::string_view, Method> table = {
      {"add", &D::add_sub},
      {"sub", &D::add_sub},
      {"addc", &D::add_sub},
      {"subc", &D::add_sub},
      {"mul", &D::mul_mad},
      {"mad", &D::mul_mad},
      {"madc", &D::mul_mad},
      {"mul24", &D::mul24},
      {"mad24", &D::mul24},
      {"fma", &D::fma},
      {"div", &D::div},
      {"rem", &D::rem},
      {"rcp", &D::rcp_sqrt},
      {"sqrt", &D::rcp_sqrt},
      {"rsqrt", &D::approximation},
      {"ex2", &D::approximation},
      {"lg2", &D::approximation},
      {"sin", &D::approximation},
      {"cos", &D::approximation},
      {"tanh", &D::approximation},
      {"min", &D::min_max},
      {"max", &D::min_max},
      {"abs", &D::abs_neg},
      {"neg", &D::abs_neg},
      {"copysign", &D::copysign},
      {"testp", &D::testp},
      {"sad", &D::sad},
      {"dp4a", &D::dot_product},
      {"vadd2", &D::video},
      {"vadd4", &D::video},
      {"vsub2", &D::video},
      {"vsub4", &D::video},
      {"vavrg2", &D::video},
      {"vavrg4", &D::video},
      {"vabsdiff2", &D::video},
      {"vabsdiff4", &D::video},
      {"vmin2", &D::video},
      {"vmin4", &D::video},
      {"vmax2", &D::video},
      {"vmax4", &D::video},
      {"dp2a", &D::dot_product},
      {"and", &D::logic},
      {"or", &D::logic},
      {"xor", &D::logic},
      {"not", &D::logic},
      {"cnot", &D::logic},
      {"shl", &D::shift},
      {"shr", &D::shift},
      {"shf", &D::shf},
      {"bfe", &D::bit_field},
      {"bfi", &D::bit_field},
      {"bfind", &D::bit_count},
      {"popc", &D::bit_count},
      {"clz", &D::bit_count},
      {"brev", &D::bit_count},
      {"bmsk", &D::bmsk_szext},
      {"szext", &D::bmsk_szext},
      {"prmt", &D::prmt},
      {"lop3", &D::lop3},
      {"setp", &D::setp},
      {"set", &D::set},
      {"selp", &D::selp},
      {"slct", &D::slct},
      {"fns", &D::fns},
      {"mov", &D::mov},
      {"cvt", &D::cvt},
      {"cvta", &D::cvta},
      {"isspacep", &D::isspacep},
      {"ld", &D::load},
      {"ldu", &D::load},
      {"st", &D::store},
      {"atom", &D::atom},
      {"red", &D::atom},
      {"cp", &D::cp_async},
      {"prefetch", &D::prefetch},
      {"prefetchu", &D::prefetch},
      {"applypriority", &D::prefetch},
      {"discard", &D::prefetch},
      {"createpolicy", &D::create_policy},
      {"ldmatrix", &D::move_matrix},
      {"stmatrix", &D::move_matrix},
      {"movmatrix", &D::move_matrix},
      {"mma", &D::mma},
      {"wmma", &D::wmma},
      {"mbarrier", &D::mbarrier},
      {"mapa", &D::mapa},
      {"getctarank", &D::mapa},
      {"bra", &D::bra},
      {"brx", &D::brx},
      {"call", &D::call},
      {"ret", &D::simple},
      {"exit", &D::simple},
      {"trap", &D::simple},
      {"brkpt", &D::simple},
      {"pmevent", &D::simple},
      {"griddepcontrol", &D::simple},
      {"setmaxnreg", &D::simple},
      {"bar", &D::barrier},
      {"barrier", &D::barrier},
      {"membar", &D::fence},
      {"fence", &D::fence},
      {"shfl", &D::shfl},
      {"vote", &D::vote},
      {"match", &D::match},
      {"redux", &D::redux},
      {"elect", &D::elect},
      {"activemask", &D::activemask},
      {"nanosleep", &D::nanosleep},
  };
  return table;
}

}  // namespace tilewright::sim
