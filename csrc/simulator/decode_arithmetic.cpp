#include "simulator/decode.h"

namespace tilewright::sim {
namespace {

std::string bits_key(Type type) { return ".b" + std::to_string(8 * type_bytes(type)); }
std::string type_key(Type type) { return std::string(".") + type_name(type); }
std::string sign_key(Type type) { return (is_signed_int(type) ? ".s" : ".u") + std::to_string(8 * type_bytes(type)); }

bool is_half(Type t) { return t == Type::kF16 || t == Type::kBF16 || t == Type::kF16x2 || t == Type::kBF16x2; }

Kind kind_of(Type t) {
  if (is_half(t)) return Kind::kFp16;
  return t == Type::kF32 ? Kind::kFp32 : t == Type::kF64 ? Kind::kFp64 : Kind::kInteger;
}

Type unsigned_of(uint32_t bytes) { return bytes == 2 ? Type::kU16 : bytes == 4 ? Type::kU32 : Type::kU64; }

// -1: no rounding given.
int take_rounding(Opcode& op) {
  const std::string_view r = op.take_any({"rn", "rz", "rm", "rp"});
  return r.empty() ? -1 : r == "rn" ? kNearest : r == "rz" ? kTowardZero : r == "rm" ? kDown : kUp;
}

Type widened(Type t) {
  switch (t) {
    case Type::kS16:
      return Type::kS32;
    case Type::kU16:
      return Type::kU32;
    case Type::kS32:
      return Type::kS64;
    default:
      return Type::kU64;
  }
}

}  // namespace

// d = key(sources), in operand order.
void Decoder::emit_arithmetic(const std::string& key, Kind kind, Type d, std::initializer_list<Type> sources) {
  need_operands(sources.size() + 1, sources.size() + 1);
  uint32_t slots[4] = {kNone, kNone, kNone, kNone};
  size_t i = 0;
  for (Type t : sources) {
    slots[i] = source(operand(i + 1), t);
    ++i;
  }
  const uint32_t to = destination(operand(0), d);
  Instr& in = emit(key, kind);
  in.d = to;
  in.a = slots[0];
  in.b = slots[1];
  in.c = slots[2];
  in.e = slots[3];
}

void Decoder::float_arithmetic(Opcode& op, const std::string& name, Type type, size_t sources) {
  const int rounding = take_rounding(op);
  const bool ftz = op.take("ftz"), sat = op.take("sat"), relu = op.take("relu");
  op.finish();
  if (is_half(type)) {
    if (ftz || rounding > kNearest) unsupported();
    const std::string key = name + (sat ? ".sat" : relu ? ".relu" : "") + type_key(type);
    if (sources == 1) return emit_arithmetic(key, Kind::kFp16, type, {type});
    if (sources == 2) return emit_arithmetic(key, Kind::kFp16, type, {type, type});
    return emit_arithmetic(key, Kind::kFp16, type, {type, type, type});
  }
  if ((type != Type::kF32 && type != Type::kF64) || relu) unsupported();
  std::string key = name;
  if (rounding > kNearest)
    key += ".directed" + type_key(type);
  else
    key += std::string(ftz ? ".ftz" : "") + (sat ? ".sat" : "") + type_key(type);
  if (sources == 1)
    emit_arithmetic(key, kind_of(type), type, {type});
  else if (sources == 2)
    emit_arithmetic(key, kind_of(type), type, {type, type});
  else
    emit_arithmetic(key, kind_of(type), type, {type, type, type});
  Instr& in = code_.instrs.back();
  in.mode = static_cast<uint8_t>(rounding > kNearest ? rounding : kNearest);
  in.ftz = ftz;
  in.sat = sat;
}

void Decoder::carry_arithmetic(Opcode& op, const std::string& name, Type type, bool reads, bool writes) {
  op.finish();
  const bool is_mad = name.substr(0, 3) == "mad";
  const Type u = unsigned_of(type_bytes(type));
  const std::string key = name + ".carry" + (is_mad ? sign_key(type) : bits_key(type));
  if (is_mad)
    emit_arithmetic(key, Kind::kInteger, u, {u, u, u});
  else
    emit_arithmetic(key, Kind::kInteger, u, {u, u});
  code_.instrs.back().mode = static_cast<uint8_t>((reads ? 1 : 0) | (writes ? 2 : 0));
}

void Decoder::add_sub(Opcode& op) {
  const bool reads_carry = op.name() == "addc" || op.name() == "subc";
  const std::string name(op.name().substr(0, 3));
  const bool writes_carry = op.take("cc");
  const Type type = op.need_type();
  if (reads_carry || writes_carry) return carry_arithmetic(op, name, type, reads_carry, writes_carry);
  if (is_float(type)) return float_arithmetic(op, name, type, 2);
  const bool sat = op.take("sat");
  op.finish();
  if (sat && type != Type::kS32) unsupported();
  emit_arithmetic(name + (sat ? ".sat.s32" : bits_key(type)), Kind::kInteger, type, {type, type});
}

void Decoder::mul_mad(Opcode& op) {
  const bool is_mad = op.name() != "mul", reads_carry = op.name() == "madc";
  const std::string name = is_mad ? "mad" : "mul";
  const std::string part(op.take_any({"lo", "hi", "wide"}));
  const bool writes_carry = op.take("cc");
  const Type type = op.need_type();
  if (part.empty()) {
    if (!is_float(type)) error("expected .lo, .hi or .wide");
    return float_arithmetic(op, is_mad ? "fma" : "mul", type, is_mad ? 3 : 2);
  }
  if (is_float(type)) unsupported();
  if (reads_carry || writes_carry) return carry_arithmetic(op, name + "." + part, type, reads_carry, writes_carry);
  const bool sat = op.take("sat");
  op.finish();
  const std::string key = name + "." + part + (sat ? ".sat" : "");
  if (part == "wide") {
    const Type w = widened(type);
    if (is_mad) return emit_arithmetic(key + sign_key(type), Kind::kInteger, w, {type, type, w});
    return emit_arithmetic(key + sign_key(type), Kind::kInteger, w, {type, type});
  }
  const std::string typed = key + (part == "lo" ? bits_key(type) : sign_key(type));
  if (is_mad) return emit_arithmetic(typed, Kind::kInteger, type, {type, type, type});
  emit_arithmetic(typed, Kind::kInteger, type, {type, type});
}

void Decoder::mul24(Opcode& op) {
  const bool low = op.take("lo");
  const Type type = op.need_type();
  op.finish();
  if (!low || op.name() != "mul24") unsupported();
  emit_arithmetic("mul24.lo" + sign_key(type), Kind::kInteger, type, {type, type});
}

void Decoder::fma(Opcode& op) {
  const Type type = op.need_type();
  float_arithmetic(op, "fma", type, 3);
}

void Decoder::div(Opcode& op) {
  const Type type = op.need_type();
  if (is_float(type)) {
    op.take_any({"approx", "full"});  // the correctly rounded quotient is within their error
    return float_arithmetic(op, "div", type, 2);
  }
  op.finish();
  emit_arithmetic("div" + sign_key(type), Kind::kInteger, type, {type, type});
}

void Decoder::rem(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  emit_arithmetic("rem" + sign_key(type), Kind::kInteger, type, {type, type});
}

void Decoder::rcp_sqrt(Opcode& op) {
  const Type type = op.need_type();
  if (op.take("approx") && type == Type::kF64) {
    if (!op.take("ftz")) unsupported();
    op.finish();
    return emit_arithmetic(std::string(op.name()) + ".approx.ftz.f64", Kind::kSpecial, type, {type});
  }
  float_arithmetic(op, std::string(op.name()), type, 1);
  code_.instrs.back().kind = Kind::kSpecial;
}

void Decoder::approximation(Opcode& op) {
  const Type type = op.need_type();
  if (!op.take("approx")) unsupported();
  bool ftz = op.take("ftz");
  op.finish();
  // For 16-bit formats the result's subnormals are flushed only where inputs are never subnormal: no effect.
  if (is_half(type)) ftz = false;
  emit_arithmetic(std::string(op.name()) + ".approx" + (ftz ? ".ftz" : "") + type_key(type), Kind::kSpecial, type,
                  {type});
}

void Decoder::min_max(Opcode& op) {
  const Type type = op.need_type();
  std::string key(op.name());
  if (is_float(type)) {
    key += op.take("ftz") && !is_half(type) ? ".ftz" : "";
    key += op.take("NaN") ? ".NaN" : "";
    if (op.take("xorsign")) key += op.take("abs") ? ".xorsign.abs" : ".xorsign";
    op.finish();
    return emit_arithmetic(key + type_key(type), kind_of(type), type, {type, type});
  }
  op.finish();
  emit_arithmetic(key + sign_key(type), Kind::kInteger, type, {type, type});
}

void Decoder::abs_neg(Opcode& op) {
  const Type type = op.need_type();
  const bool ftz = op.take("ftz");
  op.finish();
  const std::string name(op.name());
  if (is_half(type)) return emit_arithmetic(name + type_key(type), Kind::kFp16, type, {type});
  if (is_float(type)) return emit_arithmetic(name + (ftz ? ".ftz" : "") + type_key(type), kind_of(type), type, {type});
  emit_arithmetic(name + (name == "abs" ? sign_key(type) : bits_key(type)), Kind::kInteger, type, {type});
}

void Decoder::copysign(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  emit_arithmetic("copysign" + type_key(type), kind_of(type), type, {type, type});
}

void Decoder::testp(Opcode& op) {
  static constexpr std::string_view kNames[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  const Type type = op.need_type();
  uint8_t mode = 0;
  while (mode < 6 && !op.take(kNames[mode])) ++mode;
  op.finish();
  if (mode == 6) unsupported();
  emit_arithmetic("testp" + type_key(type), kind_of(type), Type::kPred, {type});
  code_.instrs.back().mode = mode;
}

void Decoder::sad(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  emit_arithmetic("sad" + sign_key(type), Kind::kInteger, type, {type, type, type});
}

void Decoder::dot_product(Opcode& op) {
  const bool high = op.take("hi");
  op.take("lo");
  const Type a = op.need_type(), b = op.need_type();
  op.finish();
  emit_arithmetic(std::string(op.name()), Kind::kInteger, Type::kB32, {Type::kB32, Type::kB32, Type::kB32});
  Instr& in = code_.instrs.back();
  in.mode = static_cast<uint8_t>((is_signed_int(a) ? 1 : 0) | (is_signed_int(b) ? 2 : 0));
  in.flag = high;
}

}  // namespace tilewright::sim
