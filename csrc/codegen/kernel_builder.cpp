#include "codegen/kernel_builder.h"

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <sstream>

#include "support/error.h"

namespace tilewright {

namespace {

constexpr unsigned kGlobal = 1, kShared = 3;

bool is_16bit_float(DType t) { return t == DType::kF16 || t == DType::kBF16; }

}  // namespace

KernelBuilder::KernelBuilder(llvm::LLVMContext& context, const Graph& body, const Shape& shape)
    : shape_(shape), module_(std::make_unique<llvm::Module>(shape.entry, context)), ir_(context) {
  make_entry(body);
  make_debug_info(body);
}

void KernelBuilder::make_entry(const Graph& body) {
  llvm::Type *pointer = ir_.getPtrTy(kGlobal), *i64 = ir_.getInt64Ty(), *f64 = ir_.getDoubleTy();
  std::vector<llvm::Type*> types;
  std::map<const void*, int> input_of;
  for (const auto* v : body.parameters()) {
    input_of[v] = static_cast<int>(types.size());
    const bool by_value = !v->type.is_tensor() || v->type.device == "host";
    const bool real = v->type.is_tensor() ? is_float(v->type.dtype) : v->type.kind == TypeKind::kFloat;
    types.push_back(!by_value ? pointer : real ? f64 : i64);
  }
  const size_t first_output = types.size();
  for (const Output& o : body.outputs()) {
    if (!o.into) types.push_back(pointer);
  }
  types.insert(types.end(), shape_.workspaces, pointer);
  types.insert(types.end(), body.symbols().symbols().size(), i64);

  auto* type = llvm::FunctionType::get(ir_.getVoidTy(), types, false);
  function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, shape_.entry, *module_);
  function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  auto annotate = [&](const char* what, int value) {
    auto* list = module_->getOrInsertNamedMetadata("nvvm.annotations");
    list->addOperand(llvm::MDNode::get(
        ir_.getContext(), {llvm::ConstantAsMetadata::get(function_), llvm::MDString::get(ir_.getContext(), what),
                           llvm::ConstantAsMetadata::get(ir_.getInt32(value))}));
  };
  annotate("maxntidx", shape_.threads);
  annotate("maxntidy", 1);
  annotate("maxntidz", 1);
  if (shape_.min_blocks_per_sm > 0) annotate("minctasm", shape_.min_blocks_per_sm);
  ir_.SetInsertPoint(llvm::BasicBlock::Create(ir_.getContext(), "entry", function_));

  for (size_t i = 0; i < first_output; ++i) inputs_.push_back(function_->getArg(i));
  size_t next = first_output;
  for (const Output& o : body.outputs()) {
    outputs_.push_back(o.into ? inputs_[input_of.at(o.into)] : function_->getArg(next++));
  }
  for (int i = 0; i < shape_.workspaces; ++i) workspaces_.push_back(function_->getArg(next++));
  for (const Symbol& s : body.symbols().symbols()) {
    symbols_[s.name] = ir_.CreateTrunc(function_->getArg(next++), index_type(), s.name);
  }
}

// The lines of the kernel are those of the body's text.
void KernelBuilder::make_debug_info(const Graph& body) {
  int line = first_node_line(body);
  for (const Node* node : body.nodes()) lines_[node] = line++;
  return_line_ = line;

  llvm::DIBuilder debug(*module_);
  auto* file = debug.createFile("kernel.tw", ".");
  debug.createCompileUnit(llvm::dwarf::DW_LANG_C, file, "tilewright", /*isOptimized=*/true, "", 0, "",
                          llvm::DICompileUnit::DebugDirectivesOnly);
  scope_ = debug.createFunction(file, shape_.entry, shape_.entry, file, 1,
                                debug.createSubroutineType(debug.getOrCreateTypeArray({})), 1, llvm::DINode::FlagZero,
                                llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized);
  function_->setSubprogram(scope_);
  debug.finalize();
  module_->addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  set_line(1);
}

std::unique_ptr<llvm::Module> KernelBuilder::finish() {
  ir_.CreateRetVoid();
  return std::move(module_);
}

void KernelBuilder::set_line(int line) {
  ir_.SetCurrentDebugLocation(llvm::DILocation::get(ir_.getContext(), line, 0, scope_));
}

int KernelBuilder::line_of(const Node* node) const {
  auto it = lines_.find(node);
  return it == lines_.end() ? 1 : it->second;
}

Reg KernelBuilder::symbol(const std::string& name) {
  auto it = symbols_.find(name);
  TW_CHECK(it != symbols_.end()) << "symbol " << name << " is not in the body's table";
  return it->second;
}

Reg KernelBuilder::thread_i32() {
  auto* call = ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  call->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, shape_.threads)));
  return call;
}

Reg KernelBuilder::thread() { return ir_.CreateZExt(thread_i32(), index_type()); }

Reg KernelBuilder::block(int axis) {
  static constexpr llvm::Intrinsic::ID kIds[] = {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                                 llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
                                                 llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z};
  return ir_.CreateZExt(ir_.CreateIntrinsic(kIds[axis], {}, {}), index_type());
}

Reg KernelBuilder::lane() { return ir_.CreateAnd(thread_i32(), 31); }

llvm::Type* KernelBuilder::element_type(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return ir_.getDoubleTy();
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return ir_.getFloatTy();
    case DType::kI64:
      return ir_.getInt64Ty();
    case DType::kI32:
      return ir_.getInt32Ty();
    case DType::kI16:
      return ir_.getInt16Ty();
    case DType::kI8:
    case DType::kU8:
      return ir_.getInt8Ty();
    case DType::kBool:
      return ir_.getInt1Ty();
    default:
      break;
  }
  throw InternalError(std::string("no kernels for element type ") + name(dtype));
}

Reg KernelBuilder::expression(const Expr& e, const Bindings& axes,
                              const std::function<bool(const Expr&)>& not_negative) {
  auto recur = [&](const Expr& operand) { return expression(operand, axes, not_negative); };
  switch (e.kind()) {
    case Expr::Kind::kConstant:
      return index(*e.constant());
    case Expr::Kind::kSymbol: {
      auto it = axes.find(e.symbol_name());
      return it == axes.end() ? symbol(e.symbol_name()) : it->second;
    }
    case Expr::Kind::kAdd: {
      Reg sum = nullptr;
      for (const Expr& term : e.operands()) sum = sum ? ir_.CreateAdd(sum, recur(term)) : recur(term);
      return sum;
    }
    case Expr::Kind::kMul: {
      Reg product = nullptr;
      for (const Expr& factor : e.operands()) product = product ? ir_.CreateMul(product, recur(factor)) : recur(factor);
      return product;
    }
    default:
      break;
  }
  const std::vector<Expr> operands = e.operands();
  if (e.kind() == Expr::Kind::kMin || e.kind() == Expr::Kind::kMax) {
    const auto id = e.kind() == Expr::Kind::kMin ? llvm::Intrinsic::smin : llvm::Intrinsic::smax;
    Reg result = recur(operands[0]);
    for (size_t i = 1; i < operands.size(); ++i) result = ir_.CreateBinaryIntrinsic(id, result, recur(operands[i]));
    return result;
  }
  const Reg a = recur(operands[0]), b = recur(operands[1]);
  const bool quotient = e.kind() == Expr::Kind::kFloorDiv;
  if (not_negative(operands[0])) return quotient ? ir_.CreateUDiv(a, b) : ir_.CreateURem(a, b);
  Reg rest = ir_.CreateSRem(a, b);
  Reg negative = ir_.CreateICmpSLT(rest, index(0));
  if (!quotient) return ir_.CreateAdd(rest, ir_.CreateSelect(negative, b, index(0)));
  return ir_.CreateAdd(ir_.CreateSDiv(a, b), ir_.CreateSExt(negative, index_type()));
}

// ---- global memory

Reg KernelBuilder::address(Reg base, Reg index, int64_t byte_offset, int64_t size) {
  // Offsets are below 2^31 bytes in 32-bit kernels and not negative: scale in 32 bits, widen once.
  Reg bytes = ir_.CreateZExt(ir_.CreateMul(index, llvm::ConstantInt::get(index->getType(), size)), ir_.getInt64Ty());
  Reg at = ir_.CreateGEP(ir_.getInt8Ty(), base, bytes);
  return byte_offset ? ir_.CreateGEP(ir_.getInt8Ty(), at, ir_.getInt64(byte_offset)) : at;
}

// What is moved for `width` elements: 64-bit values as they are, others as 32-bit words, or one shorter integer.
llvm::Type* KernelBuilder::memory_type(DType dtype, int width, llvm::Align& align) {
  const int64_t size = bytes(dtype) * width;
  align = llvm::Align(size);
  if (bytes(dtype) == 8) {
    llvm::Type* element = dtype == DType::kF64 ? ir_.getDoubleTy() : ir_.getInt64Ty();
    return width == 1 ? element : llvm::FixedVectorType::get(element, width);
  }
  if (size <= 4)
    return width == 1 && dtype == DType::kF32 ? ir_.getFloatTy() : llvm::cast<llvm::Type>(ir_.getIntNTy(8 * size));
  return llvm::FixedVectorType::get(dtype == DType::kF32 ? ir_.getFloatTy() : llvm::cast<llvm::Type>(ir_.getInt32Ty()),
                                    size / 4);
}

// LLVM 19 has no intrinsic for cache hints.
Reg KernelBuilder::streamed_load(llvm::Type* type, Reg at) {
  auto* vector = llvm::cast<llvm::FixedVectorType>(type);
  llvm::Type* element = vector->getElementType();
  const unsigned count = vector->getNumElements(), bits = element->getPrimitiveSizeInBits();
  std::string registers, constraints;
  for (unsigned i = 0; i < count; ++i) {
    registers += (i ? ", $" : "$") + std::to_string(i);
    constraints += element->isFloatTy() ? "=f," : element->isDoubleTy() ? "=d," : bits == 64 ? "=l," : "=r,";
  }
  const std::string text = "ld.global.L1::no_allocate.v" + std::to_string(count) + ".b" + std::to_string(bits) + " {" +
                           registers + "}, [$" + std::to_string(count) + "];";
  auto* result = llvm::StructType::get(ir_.getContext(), std::vector<llvm::Type*>(count, element));
  auto* function = llvm::FunctionType::get(result, {at->getType()}, false);
  llvm::CallInst* call =
      ir_.CreateCall(llvm::InlineAsm::get(function, text, constraints + "l", /*hasSideEffects=*/false), {at});
  call->setOnlyReadsMemory();
  call->setDoesNotThrow();
  Reg loaded = llvm::PoisonValue::get(type);
  for (unsigned i = 0; i < count; ++i) loaded = ir_.CreateInsertElement(loaded, ir_.CreateExtractValue(call, i), i);
  return loaded;
}

Regs KernelBuilder::load(Reg base, Reg index, int64_t offset, DType dtype, int width, bool streamed) {
  llvm::Align align;
  llvm::Type* type = memory_type(dtype, width, align);
  Reg at = address(base, index, offset * bytes(dtype), bytes(dtype));
  if (streamed && type->isVectorTy()) return unpack(streamed_load(type, at), dtype, width);
  return unpack(ir_.CreateAlignedLoad(type, at, align), dtype, width);
}

Regs KernelBuilder::unpack(Reg raw, DType dtype, int width) {
  Regs values;
  const int64_t size = bytes(dtype);
  const bool vector = raw->getType()->isVectorTy();
  if (size == 8 || (dtype == DType::kF32 && (vector || width == 1))) {
    for (int i = 0; i < width; ++i) values.push_back(vector ? ir_.CreateExtractElement(raw, i) : raw);
    return values;
  }
  const int per_word = vector ? static_cast<int>(4 / size) : width;
  for (int i = 0; i < width; ++i) {
    Reg word = vector ? ir_.CreateExtractElement(raw, i / per_word) : raw;
    const Half half{word, i % per_word, dtype};
    const int shift = static_cast<int>(i % per_word * size * 8);
    if (dtype == DType::kBF16) {
      // The upper half of a float.
      word = ir_.CreateZExt(word, ir_.getInt32Ty());
      word = shift ? ir_.CreateAnd(word, 0xffff0000u) : ir_.CreateShl(word, 16);
      values.push_back(ir_.CreateBitCast(word, ir_.getFloatTy()));
      if (per_word == 2) halves_[values.back()] = half;
      continue;
    }
    Reg bits = ir_.CreateTrunc(shift ? ir_.CreateLShr(word, shift) : word, ir_.getIntNTy(8 * size));
    if (dtype == DType::kF16) bits = ir_.CreateFPExt(ir_.CreateBitCast(bits, ir_.getHalfTy()), ir_.getFloatTy());
    if (dtype == DType::kBool) bits = ir_.CreateICmpNE(bits, ir_.getInt8(0));
    values.push_back(bits);
    if (dtype == DType::kF16 && per_word == 2) halves_[values.back()] = half;
  }
  return values;
}

// An element as an integer of its size.
Reg KernelBuilder::pack_element(Reg value, DType dtype, bool rounded) {
  if (dtype == DType::kBF16 && rounded)
    return ir_.CreateTrunc(ir_.CreateLShr(ir_.CreateBitCast(value, ir_.getInt32Ty()), 16), ir_.getInt16Ty());
  if (dtype == DType::kBF16) return ir_.CreateBitCast(ir_.CreateFPTrunc(value, ir_.getBFloatTy()), ir_.getInt16Ty());
  if (dtype == DType::kF16) return ir_.CreateBitCast(ir_.CreateFPTrunc(value, ir_.getHalfTy()), ir_.getInt16Ty());
  return value;
}

// The word that two values of a 16-bit type were unpacked from, its low half first; null where there is none.
Reg KernelBuilder::packed_pair(Reg low, Reg high, DType dtype) const {
  const auto a = halves_.find(low), b = halves_.find(high);
  if (a == halves_.end() || b == halves_.end()) return nullptr;
  const bool is_pair = a->second.word == b->second.word && a->second.half == 0 && b->second.half == 1 &&
                       a->second.dtype == dtype && b->second.dtype == dtype;
  return is_pair ? a->second.word : nullptr;
}

Reg KernelBuilder::pack(const Regs& values, DType dtype, bool rounded) {
  const int width = static_cast<int>(values.size());
  const int64_t size = bytes(dtype);
  llvm::Align align;
  llvm::Type* type = memory_type(dtype, width, align);
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  Regs words;
  if (size == 8 || dtype == DType::kF32) {
    words = values;
  } else if (is_16bit_float(dtype) && width > 1 && !rounded) {
    const auto id = dtype == DType::kBF16 ? llvm::Intrinsic::nvvm_ff2bf16x2_rn : llvm::Intrinsic::nvvm_ff2f16x2_rn;
    for (int i = 0; i < width; i += 2) {
      const Reg known = packed_pair(values[i], values[i + 1], dtype);
      words.push_back(
          known ? known : ir_.CreateBitCast(ir_.CreateIntrinsic(id, {}, {values[i + 1], values[i]}), ir_.getInt32Ty()));
    }
  } else {
    const int per_word = vector ? static_cast<int>(4 / size) : width;
    llvm::Type* word_type = ir_.getIntNTy(8 * size * per_word);
    for (int i = 0; i < width; ++i) {
      const Reg bits = ir_.CreateZExt(pack_element(values[i], dtype, rounded), word_type);
      const int place = i % per_word;
      if (place == 0) {
        words.push_back(bits);
      } else {
        words.back() = ir_.CreateOr(words.back(), ir_.CreateShl(bits, 8 * size * place));
      }
    }
  }
  if (!vector) return words[0];
  Reg packed = llvm::PoisonValue::get(type);
  for (size_t i = 0; i < words.size(); ++i) packed = ir_.CreateInsertElement(packed, words[i], i);
  return packed;
}

void KernelBuilder::store(Reg base, Reg index, int64_t offset, DType dtype, const Regs& values) {
  llvm::Align align;
  memory_type(dtype, static_cast<int>(values.size()), align);
  ir_.CreateAlignedStore(pack(values, dtype), address(base, index, offset * bytes(dtype), bytes(dtype)), align);
}

void KernelBuilder::round(Regs& values, DType dtype) {
  if (!is_16bit_float(dtype)) return;
  const auto pair_id = dtype == DType::kBF16 ? llvm::Intrinsic::nvvm_ff2bf16x2_rn : llvm::Intrinsic::nvvm_ff2f16x2_rn;
  size_t i = 0;
  for (; i + 1 < values.size(); i += 2) {
    if (packed_pair(values[i], values[i + 1], dtype)) continue;
    Reg word = ir_.CreateBitCast(ir_.CreateIntrinsic(pair_id, {}, {values[i + 1], values[i]}), ir_.getInt32Ty());
    const Regs pair = unpack(word, dtype, 2);
    values[i] = pair[0];
    values[i + 1] = pair[1];
  }
  if (i == values.size()) return;
  const Regs last = {values[i]};
  values[i] = unpack(pack(last, dtype), dtype, 1)[0];
}

// ---- control

llvm::BasicBlock* KernelBuilder::new_block(const char* name) {
  return llvm::BasicBlock::Create(ir_.getContext(), name, function_);
}

Regs KernelBuilder::if_else_zero(Reg condition, const std::function<Regs()>& then) {
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition); known && known->isOne()) return then();
  llvm::BasicBlock *from = ir_.GetInsertBlock(), *inside = new_block("then"), *after = new_block("after");
  ir_.CreateCondBr(condition, inside, after);
  ir_.SetInsertPoint(inside);
  Regs values = then();
  llvm::BasicBlock* last = ir_.GetInsertBlock();
  ir_.CreateBr(after);
  ir_.SetInsertPoint(after);
  for (Reg& v : values) {
    auto* phi = ir_.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, last);
    phi->addIncoming(llvm::Constant::getNullValue(v->getType()), from);
    v = phi;
  }
  return values;
}

Regs KernelBuilder::if_else(Reg condition, const std::function<Regs()>& then, const std::function<Regs()>& otherwise) {
  llvm::BasicBlock *yes = new_block("then"), *no = new_block("else"), *after = new_block("after");
  ir_.CreateCondBr(condition, yes, no);
  ir_.SetInsertPoint(yes);
  const Regs on_yes = then();
  yes = ir_.GetInsertBlock();
  ir_.CreateBr(after);
  ir_.SetInsertPoint(no);
  const Regs on_no = otherwise();
  no = ir_.GetInsertBlock();
  ir_.CreateBr(after);
  ir_.SetInsertPoint(after);
  Regs values;
  for (size_t i = 0; i < on_yes.size(); ++i) {
    auto* phi = ir_.CreatePHI(on_yes[i]->getType(), 2);
    phi->addIncoming(on_yes[i], yes);
    phi->addIncoming(on_no[i], no);
    values.push_back(phi);
  }
  return values;
}

void KernelBuilder::if_then(Reg condition, const std::function<void()>& then) {
  if_else_zero(condition, [&] {
    then();
    return Regs{};
  });
}

Regs KernelBuilder::loop(Reg first, Reg end, Reg step, Regs carried, const std::function<Regs(Reg, Regs)>& turn,
                         Reg* last_i) {
  llvm::BasicBlock *from = ir_.GetInsertBlock(), *head = new_block("loop"), *body = new_block("turn"),
                   *after = new_block("done");
  ir_.CreateBr(head);
  ir_.SetInsertPoint(head);
  auto* i = ir_.CreatePHI(first->getType(), 2);
  i->addIncoming(first, from);
  std::vector<llvm::PHINode*> phis;
  for (Reg v : carried) {
    phis.push_back(ir_.CreatePHI(v->getType(), 2));
    phis.back()->addIncoming(v, from);
  }
  ir_.CreateCondBr(ir_.CreateICmpULT(i, end), body, after);
  ir_.SetInsertPoint(body);
  const Regs next = turn(i, Regs(phis.begin(), phis.end()));
  TW_CHECK(next.size() == phis.size()) << next.size() << " values carried on of " << phis.size();
  Reg next_i = ir_.CreateAdd(i, step);
  llvm::BasicBlock* last = ir_.GetInsertBlock();
  ir_.CreateBr(head);
  i->addIncoming(next_i, last);
  for (size_t k = 0; k < phis.size(); ++k) phis[k]->addIncoming(next[k], last);
  ir_.SetInsertPoint(after);
  if (last_i) *last_i = i;
  return {phis.begin(), phis.end()};
}

// ---- threads together

void KernelBuilder::barrier() { ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {}); }
void KernelBuilder::fence_gpu() { ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_membar_gl, {}, {}); }

Reg KernelBuilder::shuffle_xor(Reg value, int mask) {
  llvm::Type* type = value->getType();
  const unsigned bits = type->getPrimitiveSizeInBits();
  if (type->isFloatTy() || (type->isIntegerTy() && bits == 32)) {
    const auto id =
        type->isFloatTy() ? llvm::Intrinsic::nvvm_shfl_sync_bfly_f32 : llvm::Intrinsic::nvvm_shfl_sync_bfly_i32;
    return ir_.CreateIntrinsic(id, {}, {ir_.getInt32(-1), value, ir_.getInt32(mask), ir_.getInt32(31)});
  }
  if (bits == 64) {
    Reg whole = ir_.CreateBitCast(value, ir_.getInt64Ty());
    Reg low = shuffle_xor(ir_.CreateTrunc(whole, ir_.getInt32Ty()), mask);
    Reg high = shuffle_xor(ir_.CreateTrunc(ir_.CreateLShr(whole, 32), ir_.getInt32Ty()), mask);
    Reg joined =
        ir_.CreateOr(ir_.CreateZExt(low, ir_.getInt64Ty()), ir_.CreateShl(ir_.CreateZExt(high, ir_.getInt64Ty()), 32));
    return ir_.CreateBitCast(joined, type);
  }
  return ir_.CreateTrunc(shuffle_xor(ir_.CreateZExt(value, ir_.getInt32Ty()), mask), type);
}

Reg KernelBuilder::shared_array(llvm::Type* type, int64_t count, const char* name) {
  llvm::Type* element = type->isIntegerTy(1) ? ir_.getInt8Ty() : type;
  auto* array = llvm::ArrayType::get(element, count);
  auto* variable = new llvm::GlobalVariable(*module_, array, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage,
                                            llvm::PoisonValue::get(array), name, nullptr,
                                            llvm::GlobalValue::NotThreadLocal, kShared);
  variable->setAlignment(llvm::Align(16));
  return variable;
}

void KernelBuilder::store_shared(Reg array, Reg index, Reg value) {
  if (value->getType()->isIntegerTy(1)) value = ir_.CreateZExt(value, ir_.getInt8Ty());
  ir_.CreateStore(value, ir_.CreateGEP(value->getType(), array, index));
}

Reg KernelBuilder::load_shared(Reg array, llvm::Type* type, Reg index) {
  const bool is_bool = type->isIntegerTy(1);
  llvm::Type* element = is_bool ? ir_.getInt8Ty() : type;
  Reg value = ir_.CreateLoad(element, ir_.CreateGEP(element, array, index));
  return is_bool ? ir_.CreateTrunc(value, type) : value;
}

Reg KernelBuilder::shared_bytes(int64_t bytes, const char* name) { return shared_array(ir_.getInt8Ty(), bytes, name); }

void KernelBuilder::store_shared(Reg array, Reg byte_offset, DType dtype, const Regs& values) {
  llvm::Align align;
  memory_type(dtype, static_cast<int>(values.size()), align);
  ir_.CreateAlignedStore(pack(values, dtype, /*rounded=*/true), ir_.CreateGEP(ir_.getInt8Ty(), array, byte_offset),
                         align);
}

Regs KernelBuilder::load_shared(Reg array, Reg byte_offset, DType dtype, int width) {
  llvm::Align align;
  llvm::Type* type = memory_type(dtype, width, align);
  return unpack(ir_.CreateAlignedLoad(type, ir_.CreateGEP(ir_.getInt8Ty(), array, byte_offset), align), dtype, width);
}

Reg KernelBuilder::dynamic_shared() {
  constexpr const char* kName = "dynamic_shared";
  if (llvm::GlobalVariable* known = module_->getGlobalVariable(kName)) return known;
  auto* variable = new llvm::GlobalVariable(*module_, llvm::ArrayType::get(ir_.getInt8Ty(), 0), /*isConstant=*/false,
                                            llvm::GlobalValue::ExternalLinkage, nullptr, kName, nullptr,
                                            llvm::GlobalValue::NotThreadLocal, kShared);
  variable->setAlignment(llvm::Align(128));
  return variable;
}

void KernelBuilder::warp_barrier() { ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {}, {ir_.getInt32(-1)}); }

void KernelBuilder::copy_async(Reg shared, Reg base, Reg index, Reg further, DType dtype, Reg present) {
  const Reg from = address(address(base, index, 0, bytes(dtype)), further, 0, bytes(dtype));
  const Reg size = ir_.CreateSelect(present, ir_.getInt32(16), ir_.getInt32(0));
  ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s, {}, {shared, from, size});
}

void KernelBuilder::commit_copies() { ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group, {}, {}); }

void KernelBuilder::wait_copies(int pending) {
  ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {}, {ir_.getInt32(pending)});
}

Regs KernelBuilder::load_matrices(Reg shared, bool transposed) {
  const auto id = transposed ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16
                             : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16;
  const Reg loaded = ir_.CreateIntrinsic(id, {shared->getType()}, {shared});
  Regs words;
  for (unsigned i = 0; i < 4; ++i) words.push_back(ir_.CreateExtractValue(loaded, i));
  return words;
}

Regs KernelBuilder::multiply_matrices(DType dtype, const Regs& a, const Regs& b, const Regs& c) {
  const auto id = dtype == DType::kBF16  ? llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16
                  : dtype == DType::kF16 ? llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32
                                         : llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32;
  Regs args;
  for (const Regs* words : {&a, &b}) {
    for (Reg word : *words)
      args.push_back(dtype == DType::kF16 ? ir_.CreateBitCast(word, llvm::FixedVectorType::get(ir_.getHalfTy(), 2))
                                          : word);
  }
  args.insert(args.end(), c.begin(), c.end());
  const Reg sums = ir_.CreateIntrinsic(id, {}, args);
  Regs values;
  for (unsigned i = 0; i < 4; ++i) values.push_back(ir_.CreateExtractValue(sums, i));
  return values;
}

Reg KernelBuilder::round_to_tf32(Reg value) {
  return ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_f2tf32_rna, {}, {value});
}

void KernelBuilder::store_partials(Reg base, Reg index, const Regs& values) {
  const bool is_bool = values[0]->getType()->isIntegerTy(1);
  llvm::Type* element = is_bool ? ir_.getInt8Ty() : values[0]->getType();
  const int64_t size = element->getPrimitiveSizeInBits() / 8;
  const size_t width = std::min<size_t>(values.size(), is_bool ? 1 : 16 / size);
  for (size_t i = 0; i < values.size(); i += width) {
    Reg part = is_bool ? ir_.CreateZExt(values[i], element) : values[i];
    if (width > 1) {
      part = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, width));
      for (size_t j = 0; j < width; ++j) part = ir_.CreateInsertElement(part, values[i + j], j);
    }
    ir_.CreateAlignedStore(part, address(base, index, i * size, size), llvm::Align(width * size));
  }
}

Regs KernelBuilder::load_partials(Reg base, llvm::Type* type, Reg index, int count) {
  const bool is_bool = type->isIntegerTy(1);
  llvm::Type* element = is_bool ? ir_.getInt8Ty() : type;
  const int64_t size = element->getPrimitiveSizeInBits() / 8;
  const int width = std::min<int>(count, is_bool ? 1 : 16 / size);
  Regs values;
  for (int i = 0; i < count; i += width) {
    llvm::Type* access = width > 1 ? llvm::cast<llvm::Type>(llvm::FixedVectorType::get(element, width)) : element;
    const Reg part = ir_.CreateAlignedLoad(access, address(base, index, i * size, size), llvm::Align(width * size),
                                           /*isVolatile=*/true);
    for (int j = 0; j < width; ++j) {
      const Reg value = width > 1 ? ir_.CreateExtractElement(part, j) : part;
      values.push_back(is_bool ? ir_.CreateTrunc(value, type) : value);
    }
  }
  return values;
}

Reg KernelBuilder::atomic_increment(Reg address) {
  return ir_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, address, ir_.getInt32(1), llvm::Align(4),
                             llvm::AtomicOrdering::Monotonic);
}

Reg KernelBuilder::is_last_block(Reg counter, int blocks) {
  // What a block has written is fenced before the block is counted.
  const Reg flag = shared_array(ir_.getInt32Ty(), 1, "last");
  fence_gpu();
  barrier();
  if_then(ir_.CreateICmpEQ(thread_i32(), ir_.getInt32(0)), [&] {
    const Reg is_last = ir_.CreateICmpEQ(atomic_increment(counter), ir_.getInt32(blocks - 1));
    if_then(is_last, [&] { ir_.CreateStore(ir_.getInt32(0), counter); });
    store_shared(flag, index(0), ir_.CreateZExt(is_last, ir_.getInt32Ty()));
  });
  barrier();
  return ir_.CreateICmpNE(load_shared(flag, ir_.getInt32Ty(), index(0)), ir_.getInt32(0));
}

Reg KernelBuilder::call_libdevice(const std::string& name, llvm::Type* type, const Regs& args) {
  std::vector<llvm::Type*> types;
  for (Reg a : args) types.push_back(a->getType());
  llvm::FunctionCallee f = module_->getOrInsertFunction(name, llvm::FunctionType::get(type, types, false));
  auto* function = llvm::cast<llvm::Function>(f.getCallee());
  // Equal calls are one call: these functions depend on their arguments only.
  function->setDoesNotThrow();
  function->setDoesNotAccessMemory();
  function->setWillReturn();
  return ir_.CreateCall(f, args);
}

}  // namespace tilewright
