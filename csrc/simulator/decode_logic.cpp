#include <algorithm>
#include <bit>

#include "simulator/decode.h"

namespace tilewright::sim {
namespace {

std::string bits_key(Type type) { return type == Type::kPred ? ".pred" : ".b" + std::to_string(8 * type_bytes(type)); }
std::string sign_key(Type type) { return (is_signed_int(type) ? ".s" : ".u") + std::to_string(8 * type_bytes(type)); }
bool is_pair(Type t) { return t == Type::kF16x2 || t == Type::kBF16x2; }

Kind logic_kind(Type type) { return type == Type::kPred ? Kind::kPredicate : Kind::kInteger; }

const std::initializer_list<std::string_view> kCompares = {
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

uint8_t take_combine(Opcode& op) {
  const std::string_view c = op.take_any({"and", "or", "xor"});
  return c.empty() ? kNoCombine : c == "and" ? kAnd : c == "or" ? kOr : kXor;
}

}  // namespace

void Decoder::logic(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  const std::string key = std::string(op.name()) + bits_key(type);
  if (op.name() == "not" || op.name() == "cnot") return emit_arithmetic(key, logic_kind(type), type, {type});
  emit_arithmetic(key, logic_kind(type), type, {type, type});
}

void Decoder::shift(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  emit_arithmetic(std::string(op.name()) + (op.name() == "shl" ? bits_key(type) : sign_key(type)), Kind::kInteger, type,
                  {type, Type::kU32});
}

void Decoder::shf(Opcode& op) {
  const std::string direction(op.take_any({"l", "r"})), mode(op.take_any({"wrap", "clamp"}));
  const Type type = op.need_type();
  op.finish();
  emit_arithmetic("shf." + direction + "." + mode + bits_key(type), Kind::kInteger, type, {type, type, Type::kU32});
}

void Decoder::bit_field(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  if (op.name() == "bfe")
    return emit_arithmetic("bfe" + sign_key(type), Kind::kInteger, type, {type, Type::kU32, Type::kU32});
  emit_arithmetic("bfi" + bits_key(type), Kind::kInteger, type, {type, type, Type::kU32, Type::kU32});
}

void Decoder::bit_count(Opcode& op) {
  const Type type = op.need_type();
  const bool shift_amount = op.take("shiftamt");
  op.finish();
  const std::string name(op.name());
  emit_arithmetic(name + (name == "bfind" ? sign_key(type) : bits_key(type)), Kind::kInteger,
                  name == "brev" ? type : Type::kU32, {type});
  code_.instrs.back().flag = shift_amount;
}

void Decoder::bmsk_szext(Opcode& op) {
  const std::string mode(op.take_any({"clamp", "wrap"}));
  const Type type = op.need_type();
  op.finish();
  emit_arithmetic(std::string(op.name()) + "." + mode + "." + type_name(type), Kind::kInteger, type,
                  {type, Type::kU32});
}

void Decoder::prmt(Opcode& op) {
  static constexpr std::string_view kModes[] = {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  const Type type = op.need_type();
  uint8_t mode = 0;
  for (uint8_t i = 1; i < 7; ++i)
    if (op.take(kModes[i])) mode = i;
  op.finish();
  emit_arithmetic("prmt.b32", Kind::kInteger, type, {Type::kB32, Type::kB32, Type::kB32});
  code_.instrs.back().mode = mode;
}

// lop3.b32 d, a, b, c, table, or lop3.{and,or}.b32 d|p, a, b, c, table, q: p = (d != 0) combined with q.
void Decoder::lop3(Opcode& op) {
  const std::string_view combine = op.take_any({"and", "or"});
  const Type type = op.need_type();
  op.finish();
  const size_t operands = combine.empty() ? 5 : 6;
  need_operands(operands, operands);
  const Operand& to = operand(0);
  if (!combine.empty() && to.kind != Operand::kPair) error("expected d|p");
  const Operand& table = operand(4);
  if (table.kind != Operand::kNumber || table.number.is_float || table.number.bits > 255)
    error("the table must be a number up to 255");
  const uint32_t a = source(operand(1), type), b = source(operand(2), type), c = source(operand(3), type);
  const uint32_t d = destination(combine.empty() ? to : to.elems[0], type);
  const uint32_t q = combine.empty() ? kNone : predicate(operand(5)), zero = combine.empty() ? kNone : constant(0, 4);
  Instr& in = emit("lop3.b32", Kind::kInteger);
  in.d = d;
  in.a = a;
  in.b = b;
  in.c = c;
  in.imm = static_cast<int64_t>(table.number.bits);
  if (combine.empty()) return;
  const uint32_t p = destination(to.elems[1], 0u);
  Instr& test = emit("setp.ne.b32", Kind::kInternal);
  test.d = p;
  test.a = d;
  test.b = zero;
  test.c = q;
  test.mode = combine == "and" ? kAnd : kOr;
}

std::string Decoder::compare_key(Opcode&, std::string_view compare, bool ftz, Type type) {
  if (is_float(type))
    return "." + std::string(compare) + (ftz && type == Type::kF32 ? ".ftz" : "") + "." + type_name(type);
  if (compare == "eq" || compare == "ne") return "." + std::string(compare) + bits_key(type);
  const bool is_unsigned_form = compare == "lo" || compare == "ls" || compare == "hi" || compare == "hs";
  const std::string name = compare == "lo"   ? "lt"
                           : compare == "ls" ? "le"
                           : compare == "hi" ? "gt"
                           : compare == "hs" ? "ge"
                                             : std::string(compare);
  return "." + name + (is_unsigned_form || !is_signed_int(type) ? ".u" : ".s") + std::to_string(8 * type_bytes(type));
}

void Decoder::setp(Opcode& op) {
  const std::string_view compare = op.take_any(kCompares);
  const uint8_t combine = take_combine(op);
  const bool ftz = op.take("ftz");
  const Type type = op.need_type();
  op.finish();
  if (compare.empty()) unsupported();
  need_operands(combine == kNoCombine ? 3 : 4, combine == kNoCombine ? 3 : 4);
  const Operand& to = operand(0);
  const bool pair = to.kind == Operand::kPair;
  const uint32_t a = source(operand(1), type), b = source(operand(2), type);
  const uint32_t c = combine == kNoCombine ? kNone : predicate(operand(3));
  const uint32_t p = destination(pair ? to.elems[0] : to, 0u), q = pair ? destination(to.elems[1], 0u) : kNone;
  const Kind kind = !is_float(type)      ? Kind::kInteger
                    : type == Type::kF32 ? Kind::kFp32
                    : type == Type::kF64 ? Kind::kFp64
                                         : Kind::kFp16;
  Instr& in = emit("setp" + compare_key(op, compare, ftz, type), kind);
  in.d = p;
  in.e = q;
  in.a = a;
  in.b = b;
  in.c = c;
  in.mode = combine;
}

// set.cmp.dtype.stype: a comparison whose result is 1.0 or all ones.
void Decoder::set(Opcode& op) {
  const std::string_view compare = op.take_any(kCompares);
  const uint8_t combine = take_combine(op);
  const bool ftz = op.take("ftz");
  const Type to = op.need_type(), from = op.need_type();
  op.finish();
  if (compare.empty()) unsupported();
  need_operands(combine == kNoCombine ? 3 : 4, combine == kNoCombine ? 3 : 4);
  if (is_pair(from)) {
    if (combine != kNoCombine) unsupported();
    emit_arithmetic("set." + std::string(compare) + "." + type_name(from), Kind::kFp16, to, {from, from});
    code_.instrs.back().flag = is_float(to);
    return;
  }
  const uint32_t a = source(operand(1), from), b = source(operand(2), from);
  const uint32_t c = combine == kNoCombine ? kNone : predicate(operand(3));
  const uint32_t p = new_slot(0);
  Instr& comparison = emit_internal("setp" + compare_key(op, compare, ftz, from));
  comparison.d = p;
  comparison.a = a;
  comparison.b = b;
  comparison.c = c;
  comparison.mode = combine;
  const uint32_t bytes = type_bytes(to);
  const uint64_t one = to == Type::kF32    ? 0x3f800000u
                       : to == Type::kF16  ? 0x3c00u
                       : to == Type::kBF16 ? 0x3f80u
                       : bytes == 2        ? 0xffffu
                                           : 0xffffffffu;
  const uint32_t yes = constant(one, bytes), no = constant(0, bytes), d = destination(operand(0), to);
  Instr& in = emit("selp" + bits_key(to), Kind::kInteger);
  in.d = d;
  in.a = yes;
  in.b = no;
  in.c = p;
}

void Decoder::selp(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  emit_arithmetic("selp" + bits_key(type), Kind::kInteger, type, {type, type, Type::kPred});
}

// slct: a where c >= 0, else b; of a NaN b.
void Decoder::slct(Opcode& op) {
  const bool ftz = op.take("ftz");
  const Type type = op.need_type(), chooser = op.need_type();
  op.finish();
  if (chooser != Type::kS32 && chooser != Type::kF32) unsupported();
  need_operands(4, 4);
  const uint32_t a = source(operand(1), type), b = source(operand(2), type), c = source(operand(3), chooser);
  const uint32_t p = new_slot(0), zero = constant(0, 4), d = destination(operand(0), type);
  Instr& test = emit_internal("setp" + compare_key(op, "ge", ftz, chooser));
  test.d = p;
  test.a = c;
  test.b = zero;
  Instr& in = emit("selp" + bits_key(type), Kind::kInteger);
  in.d = d;
  in.a = a;
  in.b = b;
  in.c = p;
}

// fns.b32 d, mask, base, offset: the offset-th set bit from base on.
void Decoder::fns(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  if (type != Type::kB32) unsupported();
  emit_arithmetic("fns.b32", Kind::kInteger, type, {type, type, type});
}

// cvt.pack.sat: two integers, saturated, side by side; above them what c holds.
void Decoder::cvt_pack(Opcode& op) {
  const bool sat = op.take("sat");
  const Type to = op.need_type(), from = op.need_type();
  const std::optional<Type> rest = op.take_type();
  op.finish();
  const bool wide = type_bytes(to) == 2;
  if (!sat || from != Type::kS32 || is_float(to) || type_bytes(to) > 2 || wide == rest.has_value()) unsupported();
  if (wide)
    emit_arithmetic("cvt.pack", Kind::kConvert, Type::kB32, {from, from});
  else
    emit_arithmetic("cvt.pack", Kind::kConvert, Type::kB32, {from, from, Type::kB32});
  Instr& in = code_.instrs.back();
  in.bytes = static_cast<uint8_t>(type_bytes(to));
  in.is_signed = is_signed_int(to);
}

// mov of a register to a vector of its parts, or back.
void Decoder::mov_vector() {
  const bool packs = operand(1).kind == Operand::kVector;
  const Operand& vector = packs ? operand(1) : operand(0);
  const Operand& whole = packs ? operand(0) : operand(1);
  const size_t parts = vector.elems.size();
  if (whole.kind == Operand::kVector) {
    // {a, b} to {c, d}: element by element, all read before any is written.
    if (whole.elems.size() != parts) error("vectors of different length");
    std::vector<uint32_t> from, to;
    for (size_t i = 0; i < parts; ++i) {
      if (operand(0).elems[i].kind != Operand::kReg) error("expected registers");
      const uint32_t bytes = register_bytes(operand(0).elems[i].reg);
      from.push_back(new_slot(bytes));
      const uint32_t source_slot = source_bits(operand(1).elems[i], bytes);
      Instr& copy = emit_internal("mov.b" + std::to_string(8 * bytes));
      copy.d = from.back();
      copy.a = source_slot;
    }
    for (size_t i = 0; i < parts; ++i) {
      const uint32_t bytes = register_bytes(operand(0).elems[i].reg);
      Instr& copy = emit("mov.b" + std::to_string(8 * bytes), Kind::kMove);
      copy.d = register_slot(operand(0).elems[i].reg);
      copy.a = from[i];
    }
    return;
  }
  const uint32_t bytes = whole.kind == Operand::kReg ? register_bytes(whole.reg) : 8;
  if (parts == 0 || bytes % parts != 0)
    error("cannot split " + std::to_string(8 * bytes) + " bits into " + std::to_string(parts) + " parts");
  const uint32_t part = bytes / static_cast<uint32_t>(parts);
  std::vector<uint32_t> slots;
  for (const Operand& e : vector.elems) {
    if (packs)
      slots.push_back(source_bits(e, std::max(part, 2u)));
    else
      slots.push_back(e.kind == Operand::kSink ? kNone : destination(e, part));
  }
  const uint32_t whole_slot = packs ? destination(whole, bytes) : source_bits(whole, bytes);
  const uint32_t list = add_list(slots);
  Instr& in =
      emit((packs ? "pack.b" : "unpack.b") + std::to_string(8 * bytes) + "." + std::to_string(parts), Kind::kMove);
  (packs ? in.d : in.a) = whole_slot;
  in.list = list;
}

void Decoder::mov(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  need_operands(2, 2);
  if (operand(0).kind == Operand::kVector || operand(1).kind == Operand::kVector) return mov_vector();
  emit_arithmetic("mov" + bits_key(type), type == Type::kPred ? Kind::kPredicate : Kind::kMove, type, {type});
}

void Decoder::cvt(Opcode& op) {
  if (op.take("pack")) return cvt_pack(op);
  const std::string_view integral = op.take_any({"rni", "rzi", "rmi", "rpi"});
  const std::string_view rounding = op.take_any({"rna", "rn", "rz", "rm", "rp"});
  const bool ftz = op.take("ftz"), satfinite = op.take("satfinite"), sat = op.take("sat"), relu = op.take("relu");
  const Type to = op.need_type(), from = op.need_type();
  op.finish();
  const std::string_view r = integral.empty() ? rounding : integral.substr(0, 2);
  const bool two_sources = is_pair(to) || to == Type::kE4M3x2 || to == Type::kE5M2x2;
  std::string key = "cvt";
  if (sat && !is_float(to) && !is_float(from)) key += ".sat";
  key += std::string(".") + type_name(to) + "." + type_name(from);
  // b-types of cvt stand for unsigned ones.
  uint32_t a, b = kNone;
  if (two_sources && from == Type::kF32) {
    need_operands(3, 3);
    a = source(operand(1), from);
    b = source(operand(2), from);
  } else {
    need_operands(2, 2);
    a = narrowed_source(operand(1), from);
  }
  const Operand& d = operand(0);
  const uint32_t bytes = std::max(type_bytes(to), 2u);
  const uint32_t have = d.kind == Operand::kReg ? register_bytes(d.reg) : bytes;
  const bool widens = have > bytes;
  const uint32_t slot = widens ? new_slot(bytes) : destination(d, bytes);
  Instr& in = emit(key, Kind::kConvert);
  in.d = slot;
  in.a = a;
  in.b = b;
  // Without a rounding, conversions that need one do not exist, but widening ones do.
  in.mode = static_cast<uint8_t>(r.empty() || r == "rn" ? (rounding == "rna" ? kNearestAway : kNearest)
                                 : rounding == "rna"    ? kNearestAway
                                 : r == "rz"            ? kTowardZero
                                 : r == "rm"            ? kDown
                                                        : kUp);
  in.ftz = ftz;
  in.sat = sat;
  in.relu = relu;
  in.flag = !integral.empty() && is_float(to);
  in.imm = satfinite ? 1 : 0;
  if (!widens) return;
  Instr& extend = emit("cvt." + std::string(is_signed_int(to) ? "s" : "u") + std::to_string(8 * have) +
                           (is_signed_int(to) ? ".s" : ".u") + std::to_string(8 * bytes),
                       Kind::kInternal);
  extend.d = register_slot(d.reg);
  extend.a = slot;
}

void Decoder::cvta(Opcode& op) {
  const bool to = op.take("to");
  std::string_view space =
      op.take_any({"global", "shared", "local", "const", "param", "shared::cta", "shared::cluster", "param::entry"});
  const Type type = op.need_type();
  op.finish();
  need_operands(2, 2);
  const uint32_t bytes = type_bytes(type);
  if (space.empty() || bytes != 8) unsupported();
  const uint32_t a = source(operand(1), type), d = destination(operand(0), type);
  const uint64_t window = space.substr(0, 6) == "shared" ? kSharedWindow : space == "local" ? kLocalWindow : 0;
  if (!window) {
    Instr& in = emit("mov.b64", Kind::kMove);
    in.d = d;
    in.a = a;
    return;
  }
  const uint32_t b = constant(window, bytes);
  Instr& in = emit(to ? "sub.b64" : "add.b64", Kind::kMove);
  in.d = d;
  in.a = a;
  in.b = b;
}

void Decoder::isspacep(Opcode& op) {
  const std::string_view space =
      op.take_any({"global", "shared", "local", "const", "param", "shared::cta", "shared::cluster"});
  op.finish();
  need_operands(2, 2);
  if (space.empty()) unsupported();
  const uint32_t a = source(operand(1), Type::kU64), d = destination(operand(0), 0u);
  Instr& in = emit("isspacep", Kind::kPredicate);
  in.d = d;
  in.a = a;
  in.imm = static_cast<int64_t>(space.substr(0, 6) == "shared" ? kSharedWindow : space == "local" ? kLocalWindow : 0);
  in.space = space == "const" ? Space::kConst : space == "param" ? Space::kParam : Space::kGlobal;
}

}  // namespace tilewright::sim
