#include "compiler/simulate.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/executor.h"

namespace tilewright {
namespace {

// As aligned as what a GPU's allocator gives.
constexpr size_t kAlignment = 256;
// Bytes of memory that nobody wrote: a NaN of f16, bf16, f32 and f64, and an unlikely integer.
constexpr int kPattern = 0xfd;

class Memory {
 public:
  explicit Memory(int64_t bytes)
      : bytes_(static_cast<size_t>(std::max<int64_t>(bytes, 1))),
        data_(static_cast<std::byte*>(::operator new(bytes_, std::align_val_t(kAlignment)))) {
    std::memset(data_, kPattern, bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::operator delete(data_, std::align_val_t(kAlignment)); }
  std::byte* data() const { return data_; }

 private:
  size_t bytes_;
  std::byte* data_;
};

struct PlainTensor {
  std::shared_ptr<Memory> memory;
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::vector<int64_t> sizes, strides;
};

PlainTensor make_tensor(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  PlainTensor out;
  out.memory = std::make_shared<Memory>(reach(sizes, strides) * bytes(dtype));
  out.data = out.memory->data();
  out.dtype = dtype;
  out.sizes = std::move(sizes);
  out.strides = std::move(strides);
  return out;
}

HostTensor elements_of(const PlainTensor& tensor) {
  return load(tensor.dtype, tensor.sizes, tensor.strides, tensor.data);
}

class PlainCaller : public Caller {
 public:
  using SlotValue = std::variant<std::monostate, PlainTensor, int64_t, double>;

  explicit PlainCaller(int slots) : slots_(static_cast<size_t>(slots)) {}

  SlotValue& at(Slot slot) { return slots_.at(static_cast<size_t>(slot)); }

  TensorView tensor(Slot slot) override {
    const PlainTensor& t = plain(slot);
    return {t.data, t.dtype, t.sizes, t.strides};
  }
  int64_t integer(Slot slot) override { return std::get<int64_t>(at(slot)); }
  double number(Slot slot) override {
    const auto* whole = std::get_if<int64_t>(&at(slot));
    return whole ? static_cast<double>(*whole) : std::get<double>(at(slot));
  }
  void alias(Slot slot, Slot of) override { at(slot) = at(of); }
  void drop(Slot slot) override { at(slot) = std::monostate(); }

  void allocate(Slot slot, const Type& type, std::span<const int64_t> sizes,
                std::span<const int64_t> strides) override {
    at(slot) = make_tensor(type.dtype, {sizes.begin(), sizes.end()}, {strides.begin(), strides.end()});
  }
  void* workspace(int64_t size) override {
    workspaces_.push_back(std::make_unique<Memory>(size));
    return workspaces_.back()->data();
  }
  void release_workspaces() override { workspaces_.clear(); }
  void view(Slot result, Slot base, std::span<const int64_t> sizes, std::span<const int64_t> strides,
            int64_t offset) override {
    PlainTensor t = plain(base);
    t.data += offset * bytes(t.dtype);
    t.sizes.assign(sizes.begin(), sizes.end());
    t.strides.assign(strides.begin(), strides.end());
    at(result) = std::move(t);
  }
  void copy(Slot from, Slot into) override {
    const PlainTensor& target = plain(into);
    store(elements_of(plain(from)), target.strides, target.data);
  }
  void restride(Slot slot, std::span<const int64_t> strides) override {
    const PlainTensor old = plain(slot);
    PlainTensor t = make_tensor(old.dtype, old.sizes, {strides.begin(), strides.end()});
    store(elements_of(old), t.strides, t.data);
    at(slot) = std::move(t);
  }
  void call(size_t, const Call& call, std::span<const int64_t>) override {
    if (call.op == "aten.clone.default") {  // the one that plans make themselves
      const PlainTensor& from = plain(call.args[0].slot()->slot);
      PlainTensor t = make_tensor(from.dtype, from.sizes, dense_strides(from.sizes));
      store(elements_of(from), t.strides, t.data);
      at(call.results[0]) = std::move(t);
      return;
    }
    throw UserError("no way to run " + call.op + " here: operators of PyTorch need PyTorch");
  }
  void host(size_t, const Host& host, std::span<const int64_t>) override {
    throw UserError("no way to run host step " + std::to_string(host.number) + " here: it needs Python");
  }
  void* stream() override { return nullptr; }
  int ordinal() const override { return 0; }

 private:
  PlainTensor& plain(Slot slot) {
    auto* tensor = std::get_if<PlainTensor>(&at(slot));
    TW_CHECK(tensor) << "slot $" << slot << " holds no tensor";
    return *tensor;
  }

  std::vector<SlotValue> slots_;
  std::vector<std::unique_ptr<Memory>> workspaces_;
};

PlainCaller::SlotValue slot_value(const Type& type, const InterpValue& input,
                                  const std::map<std::string, int64_t>& symbols) {
  if (const auto* number = std::get_if<int64_t>(&input.data)) return *number;
  if (const auto* number = std::get_if<double>(&input.data)) return *number;
  if (const auto* flag = std::get_if<bool>(&input.data)) return static_cast<int64_t>(*flag);
  const HostTensor& elements = input.tensor();
  std::vector<int64_t> strides = dense_strides(elements.shape);
  if (type.strides) {
    for (size_t d = 0; d < strides.size(); ++d) strides[d] = (*type.strides)[d].evaluate(symbols);
  }
  PlainTensor tensor = make_tensor(elements.dtype, elements.shape, strides);
  store(elements, tensor.strides, tensor.data);
  return tensor;
}

}  // namespace

SimulatedRun simulate(const CompiledGraph& compiled, const std::string& arch, const std::vector<InterpValue>& inputs,
                      const std::map<std::string, int64_t>& symbols) {
  const auto plan = std::make_shared<const Plan>(compiled.plan);
  const Executor executor(plan, compiled.kernels, make_simulator_device(arch, /*check=*/true));
  PlainCaller caller(plan->slots());
  TW_CHECK(inputs.size() == plan->parameters.size())
      << inputs.size() << " inputs, " << plan->parameters.size() << " parameters";
  std::vector<PlainCaller::SlotValue> kept;  // parameters, which the plan may drop
  for (size_t i = 0; i < inputs.size(); ++i) {
    kept.push_back(slot_value(plan->parameters[i], inputs[i], symbols));
    caller.at(static_cast<Slot>(i)) = kept.back();
  }
  std::vector<int64_t> values;
  executor.run(caller, values);

  std::map<std::string, int64_t> known;
  for (int i = 0; i < executor.symbols().size(); ++i)
    known[executor.symbols().names()[static_cast<size_t>(i)]] = values[static_cast<size_t>(i)];
  const auto as_value = [](const PlainCaller::SlotValue& value) -> InterpValue {
    if (const auto* tensor = std::get_if<PlainTensor>(&value)) return InterpValue::tensor(elements_of(*tensor));
    if (const auto* number = std::get_if<int64_t>(&value)) return {*number};
    if (const auto* number = std::get_if<double>(&value)) return {*number};
    return {Arg::None{}};
  };
  SimulatedRun run;
  for (const PlanArg& output : plan->outputs) {
    if (const PlanArg::SlotRef* ref = output.slot())
      run.outputs.push_back(as_value(caller.at(ref->slot)));
    else if (const auto* size = std::get_if<Expr>(&output.data))
      run.outputs.push_back({size->evaluate(known)});
    else if (const auto* number = std::get_if<double>(&output.data))
      run.outputs.push_back({*number});
    else if (const auto* flag = std::get_if<bool>(&output.data))
      run.outputs.push_back({*flag});
    else
      run.outputs.push_back({Arg::None{}});
  }
  for (const PlainCaller::SlotValue& parameter : kept) run.parameters.push_back(as_value(parameter));
  return run;
}

}  // namespace tilewright
